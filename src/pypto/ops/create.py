"""Tensors from numbers: full, zeros, ones, arange.

In: int extents and a number.  Out: a fully valid tensor, or one that is valid to `valid_shape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.declare import composite, declare
from pypto.ir.dtype import DataType, Element, scalar
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, Out, from_attr
from pypto.ir.scalar import SymbolicScalar
from pypto.ir.sym import Expr
from pypto.ir.types import Shape, TensorType
from pypto.ops.accepts import BOOL, FP32, INT32, MOVED, types

Array = Any  # a NumPy array
# Elements nearer to each other than this are a step of nothing.
# Source: the arange entry of the op catalogue.
LEAST_STEP = 1e-8


def given_size(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The given size."""
    return tuple(attrs["size"])


def given_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """`valid_shape`, everything without it."""
    return shape if attrs["valid_shape"] is None else attrs["valid_shape"]


def _check_full(types: Sequence[TensorType], attrs: Attrs) -> None:
    dtype, size, valid = attrs["dtype"], attrs["size"], attrs["valid_shape"]
    if dtype not in FULL_TYPES:
        raise error(
            TypeError,
            f"full(): {dtype.name} is not supported; it takes "
            f"{', '.join(sorted(d.name for d in FULL_TYPES))}",
            code="FC0001",
            fix="fill with DT_INT32 and cast",
        )
    for extent in size:
        if isinstance(extent, Expr):
            raise error(
                ValueError,
                f"Not concrete value: full size must be int; `{extent}` is symbolic: put it in "
                "valid_shape",
                code="F21004",
                fix="full([16, 16], 0.0, dtype, valid_shape=[n, 16])",
            )
    if not 1 <= len(size) <= 4 or any(extent < 1 for extent in size):
        raise error(
            ValueError,
            f"Invalid shape {list(size)}: full takes one to four extents of at least 1",
            code="FC0000",
            fix="pypto.full([16, 64], 0.0, pypto.DT_FP32)",
        )
    if valid is None:
        return
    if len(valid) != len(size):
        raise error(
            ValueError,
            f"full(): valid_shape has {len(valid)} entries for rank {len(size)}",
            fix=f"give valid_shape {len(size)} entries",
        )
    for axis, (asked, extent) in enumerate(zip(valid, size, strict=True)):
        if isinstance(asked, int) and not 0 <= asked <= extent:
            raise error(
                IndexError,
                f"full(): valid_shape {asked} on axis {axis} is not within 0..{extent}",
                fix=f"give at most {extent} on axis {axis}",
            )


def _full(size: Shape, value: Any, dtype: DataType, valid_shape: Any, out: Out) -> Array:
    return np.full(out.valid, scalar(value, dtype) if isinstance(value, int) else value, out.dtype)


FULL_TYPES = types(MOVED, BOOL)
# The public function also takes elements and symbolic integers, and refuses what would wrap.
FULL: Callable[..., Tensor] = declare(
    Op(
        "full",
        Family.CREATE,
        "A tensor of one number.",
        (
            Arg("size", "sizes"),
            Arg("fill_value", "any"),
            Arg("dtype", "dtype"),
            Arg("valid_shape", "sizes", None, keyword_only=True),
        ),
        FULL_TYPES,
        shape=given_size,
        valid=given_valid,
        reference=_full,
        formula="out = fill_value",
        result=from_attr("dtype"),
        hidden=True,
        check=_check_full,
    )
)


@composite("full", method="")
def full(
    size: Sequence[int], fill_value: Any, dtype: DataType, *, valid_shape: Any = None
) -> Tensor:
    """A tensor of `size` filled with one number of `dtype`.

    `fill_value` is an int, a float (cut toward zero for integer types), an Element or a symbolic
    integer.  `valid_shape` (ints or symbolic) limits how much of it is valid.  Errors: ValueError
    F00002 for a negative number of an unsigned type, ValueError F21004 for symbolic extents,
    TypeError F00001 for types that it does not take.  Source: the full function of the language.
    """
    if isinstance(fill_value, DataType):
        raise error(
            TypeError,
            f"arguments swapped: full(size, fill_value, dtype), got {fill_value.name} as "
            "fill_value",
            fix=f"pypto.full({list(size)}, {dtype!r}, pypto.{fill_value.name})",
        )
    return FULL(size, _number("full", fill_value, dtype), dtype, valid_shape=valid_shape)


def _number(name: str, item: Any, dtype: DataType) -> Any:
    """A number of `dtype`, or the expression of one that is known only at run time."""
    if not isinstance(dtype, DataType):
        raise error(
            TypeError,
            f"{name}(): dtype must be a DataType such as pypto.DT_FP32, got {dtype!r}",
            fix=f"pypto.{name}([16, 64], dtype=pypto.DT_FP32)",
        )
    if isinstance(item, SymbolicScalar):
        item = sym.simple(item.expr)
        if isinstance(item, Expr):
            return item
    value = item.value if isinstance(item, Element) else item
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, (int, float)):
        raise error(
            TypeError,
            f"{name}(): fill_value must be a number, got {type(item).__name__}",
            fix="expand a tensor with `pypto.expand_clone`",
        )
    if dtype.kind == "u" and value < 0:
        raise error(
            ValueError,
            f"{name}(): negative scalar for unsigned {dtype.name}: {value}",
            fix="use a signed type, or the number that the bits stand for",
        )
    return scalar(value, dtype)


@composite("zeros", method="")
def zeros(*size: Any, dtype: DataType | None = None) -> Tensor:
    """A tensor of zeros: ``zeros(2, 3)`` or ``zeros([2, 3])``, of DT_FP32 unless `dtype` says so.

    Errors: as `full`.  Source: the zeros function of the language.
    """
    return _constant("zeros", size, 0, dtype)


@composite("ones", method="")
def ones(*size: Any, dtype: DataType | None = None) -> Tensor:
    """A tensor of ones: ``ones(2, 3)`` or ``ones([2, 3])``, of DT_FP32 unless `dtype` says so.

    Errors: as `full`.  Source: the ones function of the language.
    """
    return _constant("ones", size, 1, dtype)


def _constant(name: str, size: tuple[Any, ...], value: int, dtype: DataType | None) -> Tensor:
    for item in size:
        if isinstance(item, DataType):
            raise error(
                TypeError,
                f"{name}(): dtype must be given by keyword, got {item.name} as an extent",
                fix=f"pypto.{name}({list(size[0])}, dtype=pypto.{item.name})"
                if isinstance(size[0], (list, tuple))
                else f"pypto.{name}(…, dtype=pypto.{item.name})",
            )
    extents = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return full(extents, value, dtype or FP32)


def _ramp(start: Any, step: Any, count: int, dtype: DataType, out: Out) -> Array:
    index = np.arange(count)
    if dtype is FP32:
        return (np.float64(start) + np.float64(step) * index).astype(np.float32)
    return (start + step * index).astype(out.dtype)


ARANGE: Callable[..., Tensor] = declare(
    Op(
        "arange",
        Family.CREATE,
        "An arithmetic progression.",
        (Arg("start", "any"), Arg("step", "any"), Arg("count", "int"), Arg("dtype", "dtype")),
        types(INT32, FP32),
        shape=lambda types, attrs: (attrs["count"],),
        valid=lambda types, attrs, shape: shape,
        reference=_ramp,
        formula="out[k] = start + k * step",
        result=from_attr("dtype"),
        ranks=(1, 1),
        hidden=True,
    )
)


@composite("arange", method="")
def arange(*args: Any) -> Tensor:
    """Numbers from a start (0), by a step (1), up to but not including an end.

    ``arange(end)``, ``arange(start, end)``, ``arange(start, end, step)``.  DT_INT32, or DT_FP32 if
    one of them is a float.  Errors: ValueError F00002 for a wrong count of arguments, a step of 0,
    an empty progression, or ints beyond 32 bits.  Source: the arange function of the language.
    """
    if not 1 <= len(args) <= 3:
        raise error(
            ValueError,
            f"arange() takes 1 to 3 arguments, got {len(args)}",
            fix="`pypto.arange(end)`, `pypto.arange(start, end)` or "
            "`pypto.arange(start, end, step)`",
        )
    numbers = [_bound(x) for x in args]
    start, end, step = {1: (0, *numbers, 1), 2: (*numbers, 1), 3: tuple(numbers)}[len(args)]
    floating = any(isinstance(x, float) for x in numbers)
    if abs(step) <= (LEAST_STEP if floating else 0):
        raise error(ValueError, f"arange(): step is {step}", fix="give a step other than 0")
    if not floating and not all(-(2**31) <= x < 2**31 for x in numbers):
        raise error(
            ValueError,
            f"arange(): {numbers} do not fit into DT_INT32",
            fix="give floats: `pypto.arange(0.0, 4e9, 1e9)`",
        )
    count = math.ceil((end - start) / step)
    if count < 1:
        raise error(
            ValueError,
            f"arange(): no number from {start} to {end} by {step}",
            fix="a step towards the end",
        )
    return ARANGE(start, step, count, FP32 if floating else INT32)


def _bound(item: Any) -> int | float:
    if isinstance(item, SymbolicScalar):
        return item.concrete()
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, (int, float)) and math.isfinite(item):
        return item
    raise error(
        TypeError,
        f"arange() takes numbers, got {type(item).__name__} ({item!r})",
        fix="`pypto.arange(16)`, or `pypto.arange(0, 16, 2)`",
    )
