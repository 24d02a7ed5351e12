"""Reductions and scans along one axis.

In: the valid elements of a tensor and an axis.  Out: one number per row of it, or the running
totals.  Sums of FP16, BF16 and FP32 are taken in FP64 and rounded once, so that this room can be
the judge of any order; integers wrap in their own type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.ir.declare import declare
from pypto.ir.dtype import DataType
from pypto.ir.handle import Tensor
from pypto.ir.op import (
    Arg,
    Attrs,
    Family,
    Op,
    Samples,
    always,
    reduce_shape,
    reduce_valid,
    same_shape,
    same_valid,
)
from pypto.ir.types import TensorType
from pypto.ops.accepts import ARITHMETIC, BF16, BYTES, FLOATS, FP32, INT16, INT32, INT64, types

Array = Any  # a NumPy array
KEEPDIM = Arg("keepdim", "bool", False)


def reduction(
    name: str,
    sentence: str,
    accept: frozenset[DataType],
    reference: Callable[..., Array],
    *,
    arg: str = "input",
    dim: Arg | None = None,
    options: tuple[Arg, ...] = (),
    **fields: Any,
) -> Callable[..., Tensor]:
    """Declare a reduction along `dim`, which becomes 1 and without `keepdim` goes away."""
    return declare(
        Op(
            name,
            Family.REDUCE,
            sentence,
            (Arg(arg), dim or Arg("dim", "dim"), KEEPDIM, *options),
            accept,
            shape=reduce_shape,
            valid=reduce_valid,
            reference=reference,
            formula=f"out = {name} over `dim` of {arg}",
            **fields,
        )
    )


def scan(
    name: str,
    sentence: str,
    accept: frozenset[DataType],
    reference: Callable[..., Array],
    **fields: Any,
) -> Callable[..., Tensor]:
    """Declare a running total along `dim`."""
    return declare(
        Op(
            name,
            Family.SCAN,
            sentence,
            (Arg("input"), Arg("dim", "dim")),
            accept,
            shape=same_shape,
            valid=same_valid,
            reference=reference,
            formula="out[i] = total of input[0 .. i]",
            torch=f"torch.{name}(input, dim)",
            **fields,
        )
    )


def _total(f: Callable[..., Array]) -> Callable[..., Array]:
    """A sum or product: floats in FP64, rounded to FP32; integers in their own type."""

    def reference(x: Array, axis: int) -> Array:
        if np.issubdtype(x.dtype, np.integer):
            return f(x, axis=axis, dtype=x.dtype, keepdims=True)
        return f(x, axis=axis, dtype=np.float64, keepdims=True).astype(np.float32)

    return reference


def _extreme(f: Callable[..., Array], sign: int) -> Callable[..., Array]:
    """A maximum (`sign` 1) or minimum (-1); that of nothing is the least resp. greatest number."""

    def reference(x: Array, axis: int) -> Array:
        if np.issubdtype(x.dtype, np.integer):
            info = np.iinfo(x.dtype)
            return f(x, axis=axis, keepdims=True, initial=info.min if sign > 0 else info.max)
        return f(x, axis=axis, keepdims=True, initial=x.dtype.type(-sign * np.inf))

    return reference


def _place(f: Callable[..., Array]) -> Callable[..., Array]:
    """Where the extreme element stands: the first of equals, and 0 where there are none."""

    def reference(x: Array, axis: int) -> Array:
        if x.shape[axis] == 0:
            return np.zeros((*x.shape[:axis], 1, *x.shape[axis + 1 :]), np.int32)
        return f(x, axis=axis, keepdims=True).astype(np.int32)

    return reference


sum = reduction(
    "sum",
    "Sum along an axis.",
    types(FP32, BF16, INT32, INT16),
    _total(np.sum),
    lane=lambda L, a, b: L.add(a, b),
    torch="torch.sum(input, dim, True)",
    tolerance=1,
)
reduction(
    "prod",
    "Product along an axis.",
    types(FP32, INT32, INT16),
    _total(np.prod),
    lane=lambda L, a, b: L.mul(a, b),
    arg="self",
    method="",
    torch="torch.prod(self, dim, True)",
    tolerance=1,
    samples=Samples(-2, 2),
)
amax = reduction(
    "amax",
    "Largest element along an axis; NaN wins.",
    types(ARITHMETIC, BYTES),
    _extreme(np.max, 1),
    lane=lambda L, a, b: L.maximum(a, b),
    torch="torch.amax(input, dim, True)",
)
reduction(
    "amin",
    "Smallest element along an axis; NaN wins.",
    types(ARITHMETIC, BYTES),
    _extreme(np.min, -1),
    lane=lambda L, a, b: L.minimum(a, b),
    torch="torch.amin(input, dim, True)",
)
reduction(
    "argmax",
    "Index of the largest element along an axis, the first of equals, as DT_INT32.",
    FLOATS,
    _place(np.argmax),
    dim=Arg("dim", "dim", -1),
    result=always(INT32),
    torch="torch.argmax(input, dim, True)",
)
reduction(
    "argmin",
    "Index of the smallest element along an axis, the first of equals, as DT_INT32.",
    FLOATS,
    _place(np.argmin),
    dim=Arg("dim", "dim", -1),
    result=always(INT32),
    torch="torch.argmin(input, dim, True)",
)


def _variance(x: Array, axis: int, correction: int) -> Array:
    wide = x.astype(np.float64)
    count = x.shape[axis]
    spread = wide - wide.sum(axis, keepdims=True) / count
    total = (spread * spread).sum(axis, keepdims=True)
    return (total / np.float64(max(0, count - correction))).astype(np.float32)


VAR = reduction(
    "var",
    "Variance along an axis: squared distances to the mean, divided by their number less "
    "`correction`.",
    FLOATS,
    _variance,
    options=(Arg("correction", "int", 1),),
    hidden=True,
    torch="torch.var(input, dim, correction=correction, keepdim=True)",
    tolerance=2,
)


def long_result(types: Sequence[TensorType], attrs: Attrs) -> DataType:
    """DT_INT64 for integers, else the type of the tensor."""
    return types[0].dtype if types[0].dtype.is_float else INT64


def _running(f: Callable[..., Array]) -> Callable[..., Array]:
    def reference(x: Array, axis: int) -> Array:
        if np.issubdtype(x.dtype, np.integer):
            return f(x, axis=axis, dtype=np.int64)
        return f(x, axis=axis, dtype=np.float64).astype(np.float32)

    return reference


scan(
    "cumsum",
    "Running sum along an axis.  Integers give DT_INT64.",
    ARITHMETIC,
    _running(np.cumsum),
    lane=lambda L, a, b: L.add(a, b),
    result=long_result,
    tolerance=1,
)
scan(
    "cumprod",
    "Running product along an axis.",
    FLOATS,
    _running(np.cumprod),
    lane=lambda L, a, b: L.mul(a, b),
    tolerance=1,
    samples=Samples(-2, 2),
)
