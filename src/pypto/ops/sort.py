"""Ops that order elements along the last axis.

In: a tensor.  Out: a list of values and of the places where they stood, both valid where there are
that many elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.declare import declare
from pypto.ir.dtype import DataType
from pypto.ir.op import Arg, Attrs, Family, Op, Out
from pypto.ir.types import Shape, TensorType, TopKAlgo
from pypto.ops.accepts import BYTES, FLOATS, FP32, INT16, INT32, UINT16, UINT32, types

Array = Any  # a NumPy array


def topk_shape(types: Sequence[TensorType], attrs: Attrs) -> tuple[Shape, Shape]:
    """Values and indices: the last axis has `k` elements."""
    shape = (*types[0].shape[:-1], attrs["k"])
    return shape, shape


def topk_valid(types: Sequence[TensorType], attrs: Attrs, shape: Any) -> tuple[Shape, Shape]:
    """As many as there are valid elements on the last axis, at most `k`."""
    *rows, last = types[0].valid
    valid = (*rows, sym.simple(sym.minimum(last, attrs["k"])))
    return valid, valid


def topk_types(types: Sequence[TensorType], attrs: Attrs) -> tuple[DataType, DataType]:
    """The type of the tensor, and DT_INT32."""
    return types[0].dtype, INT32


def _check_topk(types: Sequence[TensorType], attrs: Attrs) -> None:
    t, k = types[0], attrs["k"]
    if attrs["dim"] not in (None, t.rank - 1):
        raise error(
            ValueError,
            f"topk(): dim must be the last axis, got axis {attrs['dim']} of rank {t.rank}",
            code="FC0000",
            fix="permute the axis to the end first",
        )
    if not 1 <= k <= t.shape[-1]:
        raise error(
            ValueError,
            f"topk(): k={k} is not within 1..{t.shape[-1]}, the last axis",
            code="FC0000",
            fix=f"`k={t.shape[-1]}` takes all",
        )
    if attrs["algo"] is TopKAlgo.MERGE_SORT and t.dtype is not FP32:
        raise error(
            TypeError,
            f"topk(): {t.dtype.name} is not supported by MERGE_SORT; it takes DT_FP32",
            code="FC0001",
            fix="cast first: `pypto.cast(t, pypto.DT_FP32)`",
        )


def _topk(
    x: Array, k: int, dim: int | None, largest: bool, algo: TopKAlgo, out: tuple[Out, Out]
) -> tuple[Array, Array]:
    keys = x.astype(np.float64 if x.dtype.kind not in "iu" else np.int64)
    # Equal values keep their order, so the places of equals ascend.
    order = np.argsort(-keys if largest else keys, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


topk = declare(
    Op(
        "topk",
        Family.SORT,
        "The k largest or smallest elements of the last axis, in order, and their places.",
        (
            Arg("input"),
            Arg("k", "int"),
            Arg("dim", "dim", None),
            Arg("largest", "bool", True),
            Arg("algo", "enum", TopKAlgo.MERGE_SORT, type=TopKAlgo),
        ),
        types(FLOATS, BYTES, INT16, INT32, UINT16, UINT32),
        shape=topk_shape,
        valid=topk_valid,
        reference=_topk,
        formula="out = sorted(input)[:k], equal values in the order of their places",
        result=topk_types,
        results=2,
        check=_check_topk,
    )
)
