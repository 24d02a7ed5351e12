"""PyPTO Anywhere: the PyPTO kernel language on any machine.

An independent implementation.  A kernel is a Python function under `@pypto.frontend.jit` over
tensors; calling it with torch tensors or NumPy arrays runs it here.
"""

from typing import Any as _Any

from pypto import loading as _loading
from pypto import namesake as _namesake

with _loading.without_collections():
    from pypto import error, experimental, frontend, operation, platform, pypto_impl, runtime
    from pypto.ir import text as _text  # noqa: F401 - graphs print themselves by it
    from pypto.ir.dtype import DataType, Element, bytes_of
    from pypto.ir.findings import absent as _absent
    from pypto.ir.handle import Tensor
    from pypto.ir.op import FUNCTIONS as _FUNCTIONS
    from pypto.ir.options import (
        CubeTile,
        get_codegen_options,
        get_conv_tile_shapes,
        get_cube_tile_shapes,
        get_debug_options,
        get_host_options,
        get_pass_options,
        get_vec_tile_shapes,
        get_verify_options,
        options,
        reset_options,
        set_codegen_options,
        set_conv_tile_shapes,
        set_cube_tile_shapes,
        set_debug_options,
        set_host_options,
        set_matrix_size,
        set_options,
        set_pass_options,
        set_semantic_label,
        set_vec_tile_shapes,
        set_verify_options,
    )
    from pypto.ir.place import boundary as _boundary
    from pypto.ir.scalar import SymbolicScalar, ceildiv, max, min
    from pypto.ir.show import set_print_options
    from pypto.ir.types import (
        CachePolicy,
        CastMode,
        PrecisionType,
        ReLuType,
        RunMode,
        SaturationMode,
        StatusType,
        TileOpFormat,
        TopKAlgo,
    )
    from pypto.jit import from_torch, jit
    from pypto.trace.loops import cond, is_loop_begin, is_loop_end, loop, loop_unroll

_namesake.check()

tensor = Tensor
element = Element
symbolic_scalar = SymbolicScalar
SymInt = int | SymbolicScalar
DYN, DYNAMIC, STATIC = StatusType.DYN, StatusType.DYNAMIC, StatusType.STATIC

globals().update({d.name: d for d in DataType})
globals().update({name: f for name, f in _FUNCTIONS.items() if "." not in name})

__all__ = [
    "DYN",
    "DYNAMIC",
    "STATIC",
    "CachePolicy",
    "CastMode",
    "CubeTile",
    "DataType",
    "Element",
    "PrecisionType",
    "ReLuType",
    "RunMode",
    "SaturationMode",
    "StatusType",
    "SymInt",
    "SymbolicScalar",
    "Tensor",
    "TileOpFormat",
    "TopKAlgo",
    "bytes_of",
    "ceildiv",
    "cond",
    "element",
    "error",
    "experimental",
    "from_torch",
    "frontend",
    "get_codegen_options",
    "get_conv_tile_shapes",
    "get_cube_tile_shapes",
    "get_debug_options",
    "get_host_options",
    "get_pass_options",
    "get_vec_tile_shapes",
    "get_verify_options",
    "is_loop_begin",
    "is_loop_end",
    "jit",
    "loop",
    "loop_unroll",
    "max",
    "min",
    "operation",
    "platform",
    "options",
    "pypto_impl",
    "reset_options",
    "runtime",
    "set_codegen_options",
    "set_conv_tile_shapes",
    "set_cube_tile_shapes",
    "set_debug_options",
    "set_host_options",
    "set_matrix_size",
    "set_options",
    "set_pass_options",
    "set_print_options",
    "set_semantic_label",
    "set_vec_tile_shapes",
    "set_verify_options",
    "symbolic_scalar",
    "tensor",
    *(d.name for d in DataType),
    *(name for name in _FUNCTIONS if "." not in name),
]


@_boundary
def __getattr__(name: str) -> _Any:
    return _absent("pypto", name, {known: globals()[known] for known in __all__})
