"""Comparisons, and choices that follow from them.

In: operands with right-aligned broadcasting.  Out: DT_BOOL tensors that say where something holds,
or elements picked by one.  Nothing is computed here, so nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir.declare import declare
from pypto.ir.dtype import FROM_NUMPY, DataType
from pypto.ir.op import (
    Arg,
    Attrs,
    Family,
    Op,
    Samples,
    Slot,
    always,
    broadcast,
    least_valid,
    same_shape,
    stored_as,
)
from pypto.ir.types import TensorType
from pypto.ops.accepts import (
    ARITHMETIC,
    BOOL,
    BYTES,
    FLOATS,
    FP16,
    FP32,
    INT16,
    INT32,
    types,
)
from pypto.ops.elementwise import ROWS, Array, Lane, binary


def comparison(name: str, symbol: str, reference: Callable[..., Array], **fields: Any) -> None:
    """Declare one of the six comparisons."""
    sentence = f"Whether input {symbol} other, as DT_BOOL."
    binary(
        name,
        sentence if name == "ne" else f"{sentence[:-1]}; false where one is NaN.",
        f"out = input {symbol} other",
        "input other",
        types(FP16, FP32, INT16),
        reference,
        lane=lambda L, a, b: L.compare(name, a, b),
        shape=ROWS,
        result=always(BOOL),
        number=stored_as,
        operator=(f"__{name}__",),
        torch=f"torch.{name}(input, other)",
        samples=Samples(-3, 3),
        **fields,
    )


comparison("gt", ">", np.greater, method="greater", aliases=("greater",))
comparison("ge", ">=", np.greater_equal, method="")
comparison("eq", "==", np.equal, method="", commutative=True)
comparison("ne", "!=", np.not_equal, method="", commutative=True)
comparison("lt", "<", np.less, method="")
comparison("le", "<=", np.less_equal, method="")
binary(
    "logical_and",
    "Whether both operands are other than zero; NaN is.  Their types may differ.",
    "out = input != 0 and other != 0",
    "input other",
    types(FLOATS, BYTES, INT16, INT32, BOOL),
    np.logical_and,
    lane=lambda L, a, b: L.bit_and(*(L.compare("ne", x, L.const(x.dtype, 0)) for x in (a, b))),
    shape=ROWS,
    result=always(BOOL),
    same_dtype=False,
    commutative=True,
    method="",
    torch="torch.logical_and(input, other)",
    samples=Samples(-1, 1),
)


def element_type(types: Sequence[TensorType], item: Any) -> DataType:
    """The element type of a tensor or of a number that stands in a node's attributes."""
    if isinstance(item, Slot):
        return types[item.index].dtype
    return FROM_NUMPY[item.dtype] if isinstance(item, np.generic) else FP32


def where_type(types: Sequence[TensorType], attrs: Attrs) -> DataType:
    """The type of input and other."""
    return element_type(types, attrs["input"])


def _same_choices(types: Sequence[TensorType], attrs: Attrs) -> None:
    chosen, rejected = (element_type(types, attrs[name]) for name in ("input", "other"))
    if chosen is rejected:
        return
    number = attrs["other"] if isinstance(attrs["input"], Slot) else attrs["input"]
    wanted = chosen if isinstance(attrs["input"], Slot) else rejected
    raise error(
        TypeError,
        f"where(): input and other data type inconsistent ({chosen.name} vs {rejected.name}), "
        f"use Element({wanted.name}, {number})",
        code="F00002",
        fix=f"pypto.Element(pypto.{wanted.name}, {number})",
    )


where = declare(
    Op(
        "where",
        Family.MAP,
        "Chooses between two operands by a DT_BOOL tensor.  A bare float is an FP32 element.",
        (Arg("condition"), Arg("input", "element"), Arg("other", "element")),
        types(ARITHMETIC, BYTES),
        shape=ROWS,
        valid=least_valid,
        reference=np.where,
        lane=lambda L, condition, a, b: L.select(condition, a, b),
        formula="out = condition ? input : other",
        result=where_type,
        index_args=frozenset({"condition"}),
        index_accept=types(BOOL),
        widen=False,
        check=_same_choices,
        method="",
        torch="torch.where(condition, input, other)",
        samples=Samples(-4, 4),
    )
)


def _clip(input: Array, min: Array = None, max: Array = None) -> Array:
    if min is not None:
        input = np.maximum(input, min)
    return input if max is None else np.minimum(input, max)


def _clip_lane(L: Any, input: Lane, min: Lane = None, max: Lane = None) -> Lane:
    if min is not None:
        input = L.maximum(input, min)
    return input if max is None else L.minimum(input, max)


def _clip_bounds(types: Sequence[TensorType], attrs: Attrs) -> None:
    bounds = [attrs[name] for name in ("min", "max") if attrs[name] is not None]
    if len({isinstance(b, Slot) for b in bounds}) > 1:
        raise error(
            TypeError,
            "clip(): one bound is a tensor and the other a number",
            fix="give two numbers or two tensors, or clip twice",
        )
    if broadcast(types, attrs) != types[0].shape:
        raise error(
            ValueError,
            f"clip(): bounds broadcast to input, not the other way: {list(types[0].shape)} is "
            f"clipped by {[list(t.shape) for t in types[1:]]}",
            code="FC0000",
            fix="expand the input first: `pypto.expand_clone(t, shape)`",
        )


declare(
    Op(
        "clip",
        Family.MAP,
        "Limits elements to a range; a missing bound is none.  The upper bound wins.",
        (Arg("input"), Arg("min", "operand", None), Arg("max", "operand", None)),
        ARITHMETIC,
        shape=same_shape,
        valid=least_valid,
        reference=_clip,
        lane=_clip_lane,
        formula="out = min(max(input, min), max)",
        identity=lambda types, attrs: attrs["min"] is None and attrs["max"] is None,
        check=_clip_bounds,
        method="",
        torch="torch.clamp(input, min, max)",
        samples=Samples(-4, 4, other=(-2, 2), scalar=1.0),
    )
)
