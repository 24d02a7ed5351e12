"""Names of the native layer that model code reaches for, over the ops of the language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.ir.dtype import Element
from pypto.ir.handle import Tensor
from pypto.ir.op import OPERATORS


def scalar_div(
    operand: Tensor, value: Element | int | float, reverse_operand: bool = False
) -> Tensor:
    """`operand / value`, or `value / operand` where `reverse_operand` is set."""
    divide = OPERATORS["__rtruediv__" if reverse_operand else "__truediv__"]
    result: Tensor = divide(operand, value)
    return result


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: tensors have no native twin that it would have to be given."""
    return function
