"""`pypto.runtime`: device calls of the language, which have nothing to wait for here."""

from pypto.ir.types import RunMode
from pypto.jit import device_synchronize as _device_synchronize

__all__ = ["RunMode", "_device_synchronize"]
