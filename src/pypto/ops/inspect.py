"""Seeing values while a kernel runs."""

from __future__ import annotations

from typing import Any

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.declare import composite
from pypto.ir.graph import Value
from pypto.ir.handle import Tensor
from pypto.ir.op import Slot
from pypto.ir.scalar import SymbolicScalar, as_sym_int, is_sym_int
from pypto.ops import control


@composite(method="")
def pass_verify_print(*values: Any, cond: Any = 1) -> None:
    """Print values when the kernel reaches this place and `cond` is not 0.

    Tensors show their valid elements, symbolic integers their numbers, anything else its text.
    ``pypto.pass_verify_print("chunk", i, t, cond=i == 2)`` picks one trip of a loop.
    Errors: TypeError F00001 if `cond` is no number.  Source: the printing of the language.
    """
    if not is_sym_int(cond):
        raise error(
            TypeError,
            f"cond must be an int or a symbolic scalar, got {type(cond).__name__}",
            fix="cond=i == 0",
        )
    operands: list[Value] = []
    items: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            operands.append(value.value())
            items.append(Slot(len(operands) - 1))
        elif isinstance(value, SymbolicScalar):
            items.append(sym.simple(value.expr))
        else:
            items.append(str(value))
    attrs = {"items": tuple(items), "cond": as_sym_int(cond)}
    build.current().emit(control.PRINT, tuple(operands), attrs, ())


@composite(method="")
def pass_verify_save(*values: Any, cond: Any = 1, **named: Any) -> None:
    """Accepted and without effect: nothing is saved.  Use `pass_verify_print`."""
