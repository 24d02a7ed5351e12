"""`pypto.experimental`: ops and settings that the language calls experimental."""

import pypto.ops  # noqa: F401 - fills the registry
from pypto.ir.op import FUNCTIONS
from pypto.ir.options import get_operation_options, set_operation_options

_PREFIX = "experimental."
_OPS = {n[len(_PREFIX) :]: f for n, f in FUNCTIONS.items() if n.startswith(_PREFIX)}
globals().update(_OPS)

__all__ = ["get_operation_options", "set_operation_options", *_OPS]
