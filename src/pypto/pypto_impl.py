"""`pypto.pypto_impl`: the names of the native layer that model code reaches for."""

from pypto.ir.dtype import DataType, Element
from pypto.jit import compiler_seconds as GetCompilerMonitorTotalElapsed
from pypto.ops.native import scalar_div as ScalarDivS
from pypto.ops.native import unwrapped as op_wrapper

__all__ = ["DataType", "Element", "GetCompilerMonitorTotalElapsed", "ScalarDivS", "op_wrapper"]
