"""The same elements under another shape: reshape, unsqueeze.

In: a tensor and its new extents.  Out: a copy whose valid box is followed where it stays a box, or
with `inplace=True` a second handle on the same memory, which takes symbolic sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.declare import composite
from pypto.ir.handle import Tensor, handle
from pypto.ir.op import Slot
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops import control
from pypto.ops.arguments import size_list, sized, tensor_argument


@composite(method="reshape", guess=lambda input, shape, **named: sized(input, shape))
def reshape(
    input: Tensor,
    shape: Sequence[Any],
    *,
    valid_shape: Sequence[Any] | None = None,
    inplace: bool = False,
) -> Tensor:
    """The same elements, row by row, in another shape; one entry may be -1.

    Valid extents follow where the valid box can be followed: axes untouched, ones inserted or
    removed, fully valid axes split or merged.  Otherwise give ``valid_shape`` or `fillpad` first.
    ``inplace=True`` is a second handle on the same memory and takes symbolic sizes.
    Errors: ValueError F00002 for element counts, TypeError F00001 for symbolic sizes.
    Source: the reshape function of the language.
    """
    source = tensor_argument("reshape", "input", input)
    sizes = size_list("reshape", "shape", shape)
    if inplace:
        return _reshape_inplace(source, sizes, valid_shape)
    for size in sizes:
        if isinstance(size, Expr):
            kinds = ["SymbolicScalar" if isinstance(x, Expr) else "int" for x in sizes]
            raise error(
                TypeError,
                "reshape() requires integer shape when using non-inplace reshape, but got "
                f"[{', '.join(kinds)}]. "
                "Use 'inplace=True' for dynamic shapes.",
                fix="`pypto.reshape(t, shape, inplace=True)`, or give int extents",
            )
    value = source.value()
    type = value.tensor
    for axis, size in enumerate(type.shape):
        if isinstance(size, Expr):
            raise error(
                ValueError,
                f"Reshape does not support dynamic axis in input shape. Input shape contains -1 at "
                f"index {axis}",
                code="F0000A",
                fix="`pypto.reshape(t, shape, inplace=True)`, or take a view with int extents "
                "first",
            )
    new = _infer(type, tuple(s for s in sizes if isinstance(s, int)))
    if valid_shape is not None:
        valid = size_list("reshape", "valid_shape", valid_shape)
        _check_given(valid, new)
    else:
        valid = map_valid(type, new)
    attrs = {"input": Slot(0), "shape": new}
    result = TensorType(type.dtype, new, valid, type.format)
    return handle(build.current().emit(control.RESHAPE, (value,), attrs, (result,)).result)


def _check_given(valid: Shape, shape: Shape) -> None:
    if len(valid) != len(shape):
        raise error(
            ValueError,
            f"reshape: valid_shape has {len(valid)} entries, the new shape {len(shape)}",
            fix="give valid_shape one entry per axis of the new shape",
            value=len(valid),
            limit=len(shape),
        )
    for axis, (v, size) in enumerate(zip(valid, shape, strict=True)):
        if isinstance(v, int) and not 0 <= v <= size:  # type: ignore[operator]
            extra = " (Not supported: validShape contains -1)" if v == -1 else ""
            raise error(
                ValueError,
                f"reshape: valid_shape {v} on axis {axis} is not within 0..{size}{extra}",
                value=v,
                limit=[0, size],
                fix=f"give at most {size} on axis {axis}",
            )


def _infer(type: TensorType, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The new extents with -1 filled in; the element counts must agree."""
    count = 1
    for d in type.shape:
        count *= d  # type: ignore[operator]
    if sizes.count(-1) > 1:
        raise error(
            ValueError, f"Only one dim can be inferred, got {list(sizes)}", fix="leave one -1"
        )
    if any(s < -1 or s == 0 for s in sizes):
        raise error(
            ValueError,
            f"Invalid dstshape {list(sizes)}: extents are at least 1",
            fix="give extents of at least 1, and -1 for the one to be found",
        )
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    if -1 in sizes and count % known == 0:
        sizes = tuple(count // known if s == -1 else s for s in sizes)
        known = count
    if known != count:
        holds = f"a multiple of {known}" if -1 in sizes else str(known)
        raise error(
            ValueError,
            f"Invalid dstshape {list(sizes)}: Shape size not match: {list(type.shape)} has {count} "
            f"elements, the new shape {holds}",
            fix=f"`pypto.reshape(t, [{count}])`, or other extents whose product is {count}",
            value=known,
            limit=count,
        )
    return sizes


def map_valid(type: TensorType, new: tuple[int, ...]) -> Shape:
    """Valid extents after a reshape, or an error where the valid box is no box any more."""
    if type.is_full:
        return new
    valid: list[SymInt] = []
    old_axis, new_axis = 0, 0
    old, boxes = type.shape, type.valid
    while old_axis < len(old) or new_axis < len(new):
        # The smallest group of axes on both sides that holds the same elements.
        old_end, new_end = old_axis, new_axis
        left = right = 1
        while True:
            if left <= right and old_end < len(old) and (left < right or old_end == old_axis):
                left *= old[old_end]  # type: ignore[operator]
                old_end += 1
            elif right < left and new_end < len(new):
                right *= new[new_end]
                new_end += 1
            elif left == right and new_end == new_axis and new_end < len(new):
                right *= new[new_end]
                new_end += 1
            else:
                break
            if left == right and old_end > old_axis and new_end > new_axis:
                break
        # Ones at the end belong to what stands before them.
        if new_end == len(new):
            old_end = len(old)
        if old_end == len(old):
            new_end = len(new)
        group = list(range(old_axis, old_end))
        partial = [a for a in group if boxes[a] != old[a]]
        targets = list(range(new_axis, new_end))
        valid.extend(_map_group(type, new, group, partial, targets))
        old_axis, new_axis = old_end, new_end
    return tuple(valid)


def _map_group(
    type: TensorType, new: tuple[int, ...], group: list[int], partial: list[int], targets: list[int]
) -> list[SymInt]:
    if not partial:
        return [new[a] for a in targets]
    wide_old = [a for a in group if type.shape[a] != 1]
    wide_new = [a for a in targets if new[a] != 1]
    if targets and not set(partial) & set(wide_old[1:]):
        # Leading rows are valid and all that follows is full, so leading elements are.  An axis of
        # extent 1 that holds nothing empties all of them.
        rows = sym.const(1)
        for axis in group:
            rows = sym.mul(rows, type.valid[axis])
        inner = math.prod(new[a] for a in wide_new[1:])
        elements = math.prod(type.shape[a] for a in wide_old[1:])  # type: ignore[misc]
        if elements % inner == 0:
            # They fill whole rows of the new shape.
            carrier = wide_new[0] if wide_new else targets[0]
            extent = sym.simple(sym.floordiv(rows, inner))
            return [extent if a == carrier else new[a] for a in targets]
    if any(isinstance(type.valid[a], Expr) for a in partial):
        return _require_full(type, partial, [new[a] for a in targets])
    raise error(
        ValueError,
        f"reshape: the valid box {[str(v) for v in type.valid]} of {list(type.shape)} is no box in "
        f"{list(new)}",
        fix="say what is valid with `valid_shape=[…]`, or make everything valid first: "
        "`pypto.fillpad(t)`",
    )


def _require_full(type: TensorType, partial: list[int], extents: list[int]) -> list[SymInt]:
    """Everything is valid: what the text leaves open is checked when the kernel runs."""
    is_full = sym.const(1)
    for axis in partial:
        matches = sym.compare("eq", type.valid[axis], type.shape[axis])
        is_full = sym.logical("and", is_full, matches)
    found = ", ".join(str(v) for v in type.valid)
    build.require(
        control.REQUIRE,
        sym.simple(is_full),
        "ValueError",
        "F00002",
        f"reshape: the valid box [{found}] of {list(type.shape)} is no box in the new shape",
        "say what is valid with `valid_shape=[…]`, or make everything valid first: "
        "`pypto.fillpad(t)`",
    )
    return [*extents]


def _reshape_inplace(source: Tensor, sizes: Shape, valid_shape: Any) -> Tensor:
    if valid_shape is not None:
        raise error(
            ValueError,
            "Reshape(Inplace=true) is not supported for tensors derived from dynamic view. Please "
            "set inplace=false or do not pass valid_shape.",
            fix="leave valid_shape out",
        )
    value = source.value()
    type = value.tensor
    storage = value.storage
    assert storage is not None
    made_by = value.node.op.name if value.node is not None else ""
    if storage.param is None and made_by == "view":
        raise error(
            ValueError,
            "reshape of a view needs inplace=False: a view is a snapshot, not the memory of its "
            "source",
            fix="pypto.reshape(t, shape)",
        )
    if storage.param is None and not type.is_full and type.is_static:
        raise error(
            ValueError,
            f"reshape(inplace=True) of a partly valid tensor {type.brief()}",
            fix="use `inplace=False`, or `pypto.fillpad(t)` first",
        )
    old = _product(type.shape)
    if any(s == -1 for s in sizes):
        known = _product(tuple(s for s in sizes if s != -1))
        rest = sym.simple(sym.floordiv(old, known))
        sizes = tuple(rest if s == -1 else s for s in sizes)
    new = _product(sizes)
    difference = sym.sub(old, new)
    if difference.is_const and difference.const != 0:
        raise error(
            ValueError,
            f"Shape size not match: {[str(s) for s in type.shape]} and "
            f"{[str(s) for s in sizes]} differ in elements",
            fix="the product of the new extents must be the number of elements",
        )
    build.require(
        control.REQUIRE,
        sym.simple(sym.compare("eq", old, new)),
        "ValueError",
        "F00002",
        f"Shape size not match: reshape(inplace=True) to [{', '.join(str(s) for s in sizes)}] does "
        "not hold all elements",
        "the product of the new extents must be the number of elements",
    )
    return Tensor.of(build.current(), storage, sizes)


def _product(shape: Shape) -> Expr:
    total = sym.const(1)
    for d in shape:
        total = sym.mul(total, d)
    return total


@composite()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Insert an axis of extent 1 at `dim`, which counts from -rank-1 to rank.

    Errors: IndexError F00008 for other positions.  Source: the unsqueeze function of the language.
    """
    source = tensor_argument("unsqueeze", "input", input)
    rank = source.dim
    if not isinstance(dim, (int, np.integer)) or not -rank - 1 <= dim <= rank:
        raise error(
            IndexError,
            f"unsqueeze(): dim={dim} is out of range; allowed {-rank - 1}..{rank}",
            value=dim,
            limit=[-rank - 1, rank],
            fix=f"`pypto.unsqueeze(t, {rank})` puts an axis behind, `pypto.unsqueeze(t, 0)` in "
            "front",
        )
    at = int(dim) % (rank + 1)
    shape = source.shape
    result: Tensor = reshape(source, [*shape[:at], 1, *shape[at:]])
    return result
