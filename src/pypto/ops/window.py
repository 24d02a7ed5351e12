"""Windows on memory: view, assemble, reshape, move, element access, indexing.

These take run-time offsets and decide valid extents, so they are written out here instead of being
derived.  Reads are snapshots; writes go to the storage of the handle and are never clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.declare import composite, declare
from pypto.ir.dtype import SUPPORTED, DataType
from pypto.ir.graph import Value
from pypto.ir.handle import Tensor, handle
from pypto.ir.op import FUNCTIONS, Arg, Family, Op, Slot, same_shape, same_valid
from pypto.ir.scalar import SymbolicScalar, as_sym_int, is_sym_int
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import INT, Shape, TensorType
from pypto.ops import control

SYMBOLIC_SHAPE_FIX = (
    "put it in offsets or valid_shape; extents are module constants or int arguments"
)


def _tensor(name: str, argument: str, item: Any) -> Tensor:
    if not isinstance(item, Tensor):
        raise error(
            TypeError,
            f"{name}(): {argument} must be a tensor, got {type(item).__name__} ({item!r})",
        )
    return item


def _ints(name: str, argument: str, items: Any) -> Shape:
    if not isinstance(items, (list, tuple)):
        raise error(
            TypeError, f"{name}(): {argument} must be a list of ints, got {type(items).__name__}"
        )
    out: list[SymInt] = []
    for item in items:
        if not is_sym_int(item) or isinstance(item, bool):
            raise error(
                TypeError,
                f"Invalid type. {name}(): {argument} takes ints and symbolic scalars, got "
                f"{type(item).__name__} ({item!r})",
            )
        out.append(as_sym_int(item))
    return tuple(out)


def _static(name: str, argument: str, items: Any) -> tuple[int, ...]:
    sizes = _ints(name, argument, items)
    for size in sizes:
        if isinstance(size, Expr):
            raise error(
                ValueError,
                f"Not concrete value: {name} {argument} must be int; `{size}` is symbolic: put it "
                "in offsets or valid_shape",
                code="F21004",
                fix=SYMBOLIC_SHAPE_FIX,
            )
        if size <= 0:
            raise error(
                ValueError,
                f"Invalid shape {size}: {name} {argument} {list(sizes)} needs extents of at least 1",
                code="F0000B",
            )
    return tuple(s for s in sizes if isinstance(s, int))


# --- view ----------------------------------------------------------------------------------------


@composite(method="view")
def view(
    input: Tensor,
    shape: Sequence[int] | None = None,
    offsets: Sequence[Any] | None = None,
    *,
    valid_shape: Sequence[Any] | None = None,
    dtype: DataType | None = None,
) -> Tensor:
    """A window of `input`: `shape` (ints) elements from `offsets` (ints or symbolic).

    The window may overhang its source: the excess is invalid.  ``valid_shape`` limits it further.
    With ``dtype`` alone the bytes are read as another element type and the last axis scales.
    Errors: ValueError F21004 for ranks that differ or symbolic extents, IndexError F00008 for
    negative offsets and for a valid_shape beyond the window or the data.
    Source: the view function of the language.
    """
    source = _tensor("view", "input", input)
    if dtype is not None:
        return _reinterpret(source, dtype)
    if shape is None or offsets is None:
        raise error(
            TypeError,
            "view() missing required argument: 'shape' and 'offsets'",
            fix="pypto.view(t, [16, 16], [i * 16, 0])",
        )
    value = source.value()
    type = value.tensor
    starts = _ints("view", "offsets", offsets)
    if not len(tuple(shape)) == len(starts) == type.rank:
        raise error(
            ValueError,
            f"view: shape has {len(tuple(shape))} dims, offsets {len(starts)}, input {type.rank}. "
            f"Their size actually are {_sizes_text(len(tuple(shape)), len(starts), type.rank)}",
            code="F21004",
            fix=_view_fix(shape, type.rank),
        )
    extents = _static("view", "shape", shape)
    given = None if valid_shape is None else _ints("view", "valid_shape", valid_shape)
    return _view(value, extents, starts, given)


def _view_fix(shape: Sequence[Any], rank: int) -> str:
    if len(shape) >= rank:
        return "give shape and offsets one entry per axis of the input"
    full_rank = [*[1] * (rank - len(shape)), *shape]
    return (
        f"take a view of rank {rank}, pypto.view(t, {full_rank}, [...]), and reshape it to "
        f"{list(shape)}; or reshape the input first"
    )


def _sizes_text(shape: int, offsets: int, rank: int) -> str:
    larger, smaller = (offsets, shape) if offsets != shape else (rank, shape)
    return f"{larger} and {smaller}"


def _view(value: Value, extents: Shape, starts: Shape, given: Shape | None) -> Tensor:
    type = value.tensor
    for axis, start in enumerate(starts):
        if isinstance(start, int) and start < 0:
            raise error(
                IndexError,
                f"view: offset {start} on axis {axis} is negative",
                fix="offsets count from the start of the axis, from 0",
            )
    if given is not None:
        valid = _given_valid(type, extents, starts, given)
    else:
        valid = tuple(
            sym.simple(sym.clamp(sym.sub(v, o), 0, e))
            for v, o, e in zip(type.valid, starts, extents, strict=True)
        )
    attrs = {"input": Slot(0), "shape": extents, "offsets": starts, "given": given}
    result = TensorType(type.dtype, extents, valid, type.format)
    return handle(build.current().emit(control.VIEW, (value,), attrs, (result,)).result)


def _given_valid(type: TensorType, extents: Shape, starts: Shape, given: Shape) -> Shape:
    if len(given) != type.rank:
        raise error(
            ValueError,
            "View operation failed: newValidShapes dimension count must match the input: got "
            f"{len(given)} for rank {type.rank}",
            fix="give valid_shape one entry per axis",
        )
    for axis, (asked, extent, start, valid) in enumerate(
        zip(given, extents, starts, type.valid, strict=True)
    ):
        room = sym.simple(sym.maximum(sym.sub(valid, start), 0))
        over_data = isinstance(asked, int) and isinstance(room, int) and asked > room
        over_view = isinstance(asked, int) and isinstance(extent, int) and asked > extent
        if over_data or over_view or (isinstance(asked, int) and asked < 0):
            limit = f"the view's {extent}" if over_view else f"the {room} left of the data"
            raise error(
                IndexError,
                "View operation failed: newValidShapes cannot exceed original tensor's shape at "
                f"dimension {axis}: valid_shape {asked} reaches past {limit}",
                fix=f"give at most {min(extent, room) if isinstance(room, int) else extent}, or "  # type: ignore[type-var]
                "leave valid_shape out: a view that overhangs is cut by itself",
            )
    return given


def _reinterpret(source: Tensor, dtype: DataType) -> Tensor:
    value = source.value()
    type = value.tensor
    old, new = type.dtype.numpy.itemsize, dtype.numpy.itemsize

    def scale(extent: SymInt) -> SymInt:
        if isinstance(extent, int) and extent * old % new:
            raise error(
                ValueError,
                f"view(dtype={dtype.name}): {extent} elements of {old} bytes are no whole number "
                f"of elements of {new} bytes",
                fix="make the last axis a multiple",
            )
        return sym.simple(sym.floordiv(sym.mul(extent, old), new))

    shape = (*type.shape[:-1], scale(type.shape[-1]))
    valid = (*type.valid[:-1], scale(type.valid[-1]))
    attrs = {"input": Slot(0), "dtype": dtype}
    result = TensorType(dtype, shape, valid, type.format)
    return handle(build.current().emit(control.REINTERPRET, (value,), attrs, (result,)).result)


# --- writing -------------------------------------------------------------------------------------


@composite(method="")
def assemble(*args: Any, parallel: bool = False) -> None:
    """Write the valid box of a tensor into another, in place.

    ``assemble(src, offsets, dst)`` or ``assemble([(src, offsets), ...], dst)``, in that order.
    Ranks and element types must be equal; offsets are ints or symbolic.  Nothing is clipped: a
    write outside of `dst` is an IndexError F00008 before anything is written.
    Source: the assemble function of the language.
    """
    if len(args) == 2 and isinstance(args[0], (list, tuple)):
        pieces, dst = args
        for piece in pieces:
            if not isinstance(piece, (list, tuple)) or len(piece) != 2:
                raise error(TypeError, "assemble(): each piece is a pair (src, offsets)")
            _write("Assemble", control.ASSEMBLE, piece[0], piece[1], dst)
        return
    if len(args) != 3:
        raise error(
            TypeError,
            f"assemble() takes (src, offsets, dst) or ([(src, offsets), ...], dst), got {len(args)} "
            "arguments",
        )
    _write("Assemble", control.ASSEMBLE, *args)


@composite(method="assemble")
def _assemble_method(self: Tensor, input: Tensor, offsets: Sequence[Any]) -> None:
    """Write the valid box of `input` into this tensor at `offsets`; see `pypto.assemble`."""
    _write("Assemble", control.ASSEMBLE, input, offsets, self)


@composite(method="")
def atomic_add(src: Tensor, offsets: Sequence[Any], dst: Tensor) -> None:
    """Add the valid box of `src` to the window of `dst` at `offsets`, in place.

    Ranks and element types as for `assemble`.  FP16 and BF16 add in FP32 and round once.
    Source: the atomic_add function of the language.
    """
    _write("AtomicRMW", control.ATOMIC_ADD, src, offsets, dst)


def _write(name: str, op: Any, src: Any, offsets: Any, dst: Any) -> None:
    value = src if isinstance(src, Value) else _tensor(name, "src", src).value()
    target = _tensor(name, "dst", dst)
    starts = _ints(name, "offsets", offsets)
    type = value.tensor
    rank = target.dim
    if type.rank != rank:
        raise error(
            ValueError,
            f"{name}: src and dest requires same shape size: rank {type.rank} vs {rank}",
            fix=_rank_fix(type, rank),
        )
    if len(starts) != rank:
        raise error(
            ValueError,
            f"{name}: dynOffset and dest requires same shape size: {len(starts)} offsets for a "
            f"destination of rank {rank}",
            fix=f"give {rank} offsets",
        )
    if not type.is_static:
        raise error(
            ValueError,
            f"{name}: shape of src tensor requires integer extents, got {type.brief()}",
            fix="take a view with int extents of the source first",
        )
    if type.dtype is not target.dtype:
        raise error(
            ValueError,
            f"{name}: src and dest requires same dtype: dtype mismatch {type.dtype.name} → "
            f"{target.dtype.name}; cast first",
            fix=f"pypto.cast(t, pypto.{target.dtype.name})",
        )
    if type.format is not target.format:
        raise error(ValueError, f"{name}: src and dest requires same format")
    destination = target.destination()
    _check_bounds(name, type, starts, destination.tensor)
    valid = _grown_valid(name, type, starts, destination)
    result = destination.tensor.with_valid(valid)
    attrs = {"src": Slot(0), "dst": Slot(1), "offsets": starts}
    node = build.current().emit(op, (value, destination), attrs, (result,), (target.storage,))
    target.replace(node.result)


def _rank_fix(type: TensorType, rank: int) -> str:
    if type.rank > rank:
        return f"reshape the source to rank {rank}"
    shape = ",".join(str(d) for d in (*[1] * (rank - type.rank), *type.shape))
    return f"reshape to [{shape}]: t.reshape([{shape}])"


def _check_bounds(name: str, source: TensorType, starts: Shape, target: TensorType) -> None:
    """Refuse what is known to leave the destination; the rest is checked when it runs."""
    if any(isinstance(v, int) and v == 0 for v in source.valid):
        return
    for axis, (start, valid, size) in enumerate(
        zip(starts, source.valid, target.shape, strict=True)
    ):
        if isinstance(start, int) and start < 0:
            raise error(
                IndexError,
                f"{name.lower()}: offset {start} on axis {axis} is negative",
                fix="offsets count from the start of the axis, from 0",
            )
        if isinstance(start, int) and isinstance(valid, int) and isinstance(size, int):
            last = start + valid - 1
            if last >= size:
                unit = "rows" if axis == 0 else f"positions of axis {axis}"
                whole = f"{size}-row" if axis == 0 else f"{size}-long"
                shape = list(source.shape)
                shape[axis] = max(size - start, 0)
                raise error(
                    IndexError,
                    f"{name.lower()} writes {unit} {start}..{last} of a {whole} tensor; give "
                    f"valid_shape={shape}",
                    fix=f"limit the source: pypto.view(t, {list(source.shape)}, …, "
                    f"valid_shape={shape})",
                )


def _grown_valid(name: str, source: TensorType, starts: Shape, destination: Value) -> Shape:
    """Valid extents of a destination after a write: the union with the written box."""
    target = destination.tensor
    storage = destination.storage
    # A parameter and a fully valid tensor stay as they are.
    if target.is_full or (storage is not None and storage.param is not None):
        return target.valid
    ends = tuple(sym.simple(sym.add(o, v)) for o, v in zip(starts, source.valid, strict=True))
    if all(sym.sub(v, e).bounds()[0] >= 0 for v, e in zip(target.valid, ends, strict=True)):
        return target.valid
    legal = _union_is_box(target.valid, source.valid, starts, ends)
    text = (
        f"{name.lower()} writes beyond the valid box of a partly valid tensor, and the union is no "
        f"box: valid {_texts(target.valid)}, written {_texts(starts)}..{_texts(ends)}"
    )
    fix = (
        "make the destination fully valid first with pypto.fillpad(t), or write next to the valid "
        "elements"
    )
    if legal == 0:
        raise error(IndexError, text, fix=fix)
    build.require(control.REQUIRE, legal, "IndexError", "F00008", text, fix)
    empty = _is_empty(target.valid)
    nothing = _is_empty(source.valid)
    grown = (
        sym.select(nothing, v, sym.select(empty, e, sym.maximum(v, e)))
        for v, e in zip(target.valid, ends, strict=True)
    )
    return tuple(
        build.named(control.INTEGER, g, size) for g, size in zip(grown, target.shape, strict=True)
    )


def _texts(extents: Shape) -> str:
    return f"[{', '.join(str(e) for e in extents)}]"


def _is_empty(extents: Shape) -> Expr:
    found = sym.const(0)
    for e in extents:
        found = sym.logical("or", found, sym.compare("le", e, 0))
    return found


def _union_is_box(valid: Shape, written: Shape, starts: Shape, ends: Shape) -> SymInt:
    """1 where the written box and the valid box together are a box again."""
    rank = range(len(valid))
    at_start = [sym.compare("le", o, 0) for o in starts]
    inside = [sym.compare("le", e, v) for e, v in zip(ends, valid, strict=True)]
    covers = [sym.logical("and", at_start[a], sym.compare("le", valid[a], ends[a])) for a in rank]
    legal = sym.logical("or", _is_empty(written), _all(inside))
    legal = sym.logical("or", legal, _all(covers))
    legal = sym.logical("or", legal, sym.logical("and", _is_empty(valid), _all(at_start)))
    for axis in rank:
        # Grown along one axis: it touches there, and is as wide as the valid box elsewhere.
        touches = sym.compare("le", starts[axis], valid[axis])
        others = [
            sym.logical("and", at_start[a], sym.compare("eq", ends[a], valid[a]))
            for a in rank
            if a != axis
        ]
        legal = sym.logical("or", legal, _all([touches, *others]))
    return sym.simple(legal)


def _all(conditions: Sequence[Expr]) -> Expr:
    found = sym.const(1)
    for condition in conditions:
        found = sym.logical("and", found, condition)
    return found


@composite(method="move")
def _move(self: Tensor, other: Tensor) -> None:
    """Give this tensor the value of `other`: equal shape and element type.

    A tensor of the kernel's own takes value and valid extents; of a parameter, or an in-place
    reshape of one, the valid box is overwritten and the rest stays.  `other` stays usable.
    Source: the move method of the language; ``t[:] = other`` is the same.
    """
    if not isinstance(other, Tensor):
        raise error(
            TypeError,
            f"'{type(other).__name__}' type cannot be moved to Tensor",
            fix="pypto.full(t.shape, value, t.dtype) makes a tensor of one value; t.fill_(value)",
        )
    if other.storage is self.storage:
        return
    source = other.value()
    kind = source.tensor
    shape = tuple(self._extents())
    if kind.dtype is not self.dtype:
        raise error(
            TypeError,
            f"move: dtype must be equal: {kind.dtype.name} into a tensor of {self.dtype.name}",
            fix=f"pypto.cast(t, pypto.{self.dtype.name})",
        )
    if kind.shape != shape:
        raise error(
            ValueError,
            f"move: shape must be equal: {kind.brief()} into Tensor{list(shape)}",
            fix="write a part with t[0:n, :] = v, or reshape the value first",
        )
    if not kind.is_static:
        raise error(
            ValueError,
            f"move: a tensor with a DYNAMIC dim is moved as a whole: {kind.brief()}",
            code="F0000A",
            fix="copy it tile by tile in a pypto.loop",
        )
    storage = build.current().settle_write(self.storage)
    self.redirect(storage)
    if other.storage.param is None:
        build.current().moved.add(other.storage)
    if storage.param is not None:
        _write("Assemble", control.ASSEMBLE, source, [0] * kind.rank, self)
        return
    if self._shape is not None and not kind.is_full:
        raise error(
            ValueError,
            f"move: a partly valid tensor, valid {_texts(kind.valid)} of {_texts(kind.shape)}, into "
            "an in-place reshape",
            fix="make it fully valid first: pypto.fillpad(t)",
        )
    destination = self.value()
    attrs = {"src": Slot(0), "dst": Slot(1)}
    node = build.current().emit(control.MOVE, (source, destination), attrs, (kind,), (storage,))
    self.replace(node.result)


# --- reshape -------------------------------------------------------------------------------------


@composite(method="reshape")
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
    source = _tensor("reshape", "input", input)
    sizes = _ints("reshape", "shape", shape)
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
                fix="pypto.reshape(t, shape, inplace=True), or give int extents",
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
                fix="pypto.reshape(t, shape, inplace=True), or take a view with int extents first",
            )
    new = _infer(type, tuple(s for s in sizes if isinstance(s, int)))
    if valid_shape is not None:
        valid = _ints("reshape", "valid_shape", valid_shape)
        _check_given(valid, new)
    else:
        valid = map_valid(type, new)
    attrs = {"input": Slot(0), "shape": new}
    result = TensorType(type.dtype, new, valid, type.format)
    return handle(build.current().emit(control.RESHAPE, (value,), attrs, (result,)).result)


def _check_given(valid: Shape, shape: Shape) -> None:
    if len(valid) != len(shape):
        raise error(
            ValueError, f"reshape: valid_shape has {len(valid)} entries, the new shape {len(shape)}"
        )
    for axis, (v, size) in enumerate(zip(valid, shape, strict=True)):
        if isinstance(v, int) and not 0 <= v <= size:  # type: ignore[operator]
            extra = " (Not supported: validShape contains -1)" if v == -1 else ""
            raise error(
                ValueError,
                f"reshape: valid_shape {v} on axis {axis} is not within 0..{size}{extra}",
            )


def _infer(type: TensorType, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The new extents with -1 filled in; the element counts must agree."""
    count = 1
    for d in type.shape:
        count *= d  # type: ignore[operator]
    if sizes.count(-1) > 1:
        raise error(ValueError, f"Only one dim can be inferred, got {list(sizes)}")
    if any(s < -1 or s == 0 for s in sizes):
        raise error(ValueError, f"Invalid dstshape {list(sizes)}: extents are at least 1")
    known = 1
    for s in sizes:
        known *= s if s != -1 else 1
    if -1 in sizes and count % known == 0:
        sizes = tuple(count // known if s == -1 else s for s in sizes)
        known = count
    if known != count:
        raise error(
            ValueError,
            f"Invalid dstshape {list(sizes)}: Shape size not match: {list(type.shape)} has {count} "
            f"elements, the new shape {known}",
            fix="the product of the new extents must be the number of elements",
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
    if len(partial) == 1 and len(wide_old) <= 1 and len(wide_new) <= 1 and targets:
        # One axis that keeps its extent, ones around it inserted or removed.
        carrier = wide_new[0] if wide_new else targets[0]
        return [type.valid[partial[0]] if a == carrier else new[a] for a in targets]
    if partial == [wide_old[0]] and len(wide_old) > 1 and len(wide_new) >= 1:
        # Leading rows are valid, all that follows is full: they merge into leading elements.
        inner = 1
        for a in wide_old[1:]:
            inner *= type.shape[a]  # type: ignore[operator]
        rows = type.valid[partial[0]]
        if len(wide_new) == 1:
            merged = sym.simple(sym.mul(rows, inner))
            return [merged if a == wide_new[0] else new[a] for a in targets]
    raise error(
        ValueError,
        f"reshape: the valid box {[str(v) for v in type.valid]} of {list(type.shape)} is no box in "
        f"{list(new)}",
        fix="say what is valid with valid_shape=[…], or make everything valid first: "
        "pypto.fillpad(t)",
    )


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
    if not type.is_full and type.is_static:
        raise error(
            ValueError,
            f"reshape(inplace=True) of a partly valid tensor {type.brief()}",
            fix="use inplace=False, or pypto.fillpad(t) first",
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
    source = _tensor("unsqueeze", "input", input)
    rank = source.dim
    if not isinstance(dim, (int, np.integer)) or not -rank - 1 <= dim <= rank:
        raise error(
            IndexError, f"unsqueeze(): dim={dim} is out of range; allowed {-rank - 1}..{rank}"
        )
    at = int(dim) % (rank + 1)
    shape = source.shape
    return FUNCTIONS["reshape"](source, [*shape[:at], 1, *shape[at:]])


# --- elements ------------------------------------------------------------------------------------


def read_item(source: Tensor, index: Shape) -> SymbolicScalar:
    """One integer element, known when the kernel runs."""
    value = source.value()
    type = value.tensor
    is_param = value.storage is not None and value.storage.param is not None
    if is_param and not type.dtype.is_int:
        raise error(
            TypeError,
            f"Not Int type, got: {type.dtype.name}; only elements of integer tensors can steer a "
            "kernel",
            code="F21003",
            fix="pass the number as an int argument, or keep it in a tensor: t[0:1, 0:1]",
        )
    if not is_param and type.dtype is not DataType.DT_INT32:
        raise error(
            TypeError,
            f"Tensor dtype must be DT_INT32. Got {type.dtype.name}",
            fix="cast first: pypto.cast(t, pypto.DT_INT32)",
        )
    _check_index(type, index)
    trace = build.current()
    low, high = _int_range(type.dtype)
    # One version of a tensor has one element there: reading it twice gives one integer, so that
    # t[0] : t[0] + 4 has a known extent.
    known = trace.items.get((value, index))
    if known is None or not build.visible(trace, sym.leaf(known)):
        attrs = {"input": Slot(0), "index": index}
        known = trace.emit(control.ITEM, (value,), attrs, (INT,)).result
        trace.items[value, index] = known
    return SymbolicScalar(sym.leaf(known, low, high))


def _int_range(dtype: DataType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return max(int(info.min), -sym.INF), min(int(info.max), sym.INF)


def _check_index(type: TensorType, index: Shape) -> None:
    for axis, (i, size) in enumerate(zip(index, type.shape, strict=True)):
        if isinstance(i, int) and isinstance(size, int) and not 0 <= i < size:
            raise error(IndexError, f"index {i} is out of range for axis {axis} with extent {size}")


def require_index(index: SymInt, size: SymInt) -> None:
    """An index must name an element: known now, or checked when the kernel runs."""
    if isinstance(index, int) and isinstance(size, int):
        if not 0 <= index < size:
            raise error(IndexError, f"index {index} is out of range for an axis of extent {size}")
        return
    low, _ = sym.expr(index).bounds()
    if low >= 0 and sym.sub(index, size).bounds()[1] < 0:
        return
    inside = sym.logical("and", sym.compare("le", 0, index), sym.compare("lt", index, size))
    build.require(
        control.REQUIRE,
        sym.simple(inside),
        "IndexError",
        "F00008",
        f"index {index} is out of range for an axis of extent {size}",
        "guard it with `if`, or use a slice, which may overhang",
    )


def write_item(target: Tensor, index: Shape, item: Any) -> None:
    """Store one integer element."""
    if not is_sym_int(item):
        raise error(
            ValueError,
            f"Invalid value type: an element takes an int or a symbolic scalar, got "
            f"{type(item).__name__}",
            fix="write a tile instead: t[0:1, 0:1] = v",
        )
    if target.dtype is not DataType.DT_INT32:
        raise error(
            TypeError,
            f"Tensor dtype must be DT_INT32. Got {target.dtype.name}",
            fix="write a tile instead: t[0:1, 0:1] = v",
        )
    destination = target.destination()
    _check_index(destination.tensor, index)
    attrs = {"dst": Slot(0), "index": index, "value": as_sym_int(item)}
    node = build.current().emit(
        control.ITEM_SET, (destination,), attrs, (destination.tensor,), (target.storage,)
    )
    target.replace(node.result)


clone = declare(
    Op(
        "clone",
        Family.MOVE,
        "An independent copy.",
        (Arg("input"),),
        accept=SUPPORTED,
        shape=same_shape,
        valid=same_valid,
        reference=lambda input, out: input.copy(),
        formula="out = input",
        torch="input.clone()",
    )
)


@composite(method="copy")
def _copy(self: Tensor, name: str = "") -> Tensor:
    """A new tensor of the same shape, element type and layout; the data is not copied.

    Source: the copy method of the language; `clone` copies the data.
    """
    return Tensor(self.shape, self.dtype, name or self.name, self.format)
