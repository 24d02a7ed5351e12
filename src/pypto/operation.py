"""`pypto.operation`: the wrapper that models put round native calls."""

from pypto.pypto_impl import op_wrapper

__all__ = ["op_wrapper"]
