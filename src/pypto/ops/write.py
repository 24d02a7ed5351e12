"""Writing into memory: assemble, atomic_add, move.

In: a tensor, and where its valid box goes.  Out: a new version of the destination's storage.
Writes are never clipped: what would leave the destination is an error before anything is written,
here where it is known, else when the kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.declare import composite
from pypto.ir.graph import Value
from pypto.ir.handle import Tensor
from pypto.ir.op import Slot
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops import advice, control
from pypto.ops.arguments import shown, size_list, tensor_argument


@composite(method="", kinds="tensor sizes tensor")
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
                raise error(
                    TypeError,
                    "assemble(): each piece is a pair (src, offsets)",
                    fix="pypto.assemble([(a, [0, 0]), (b, [16, 0])], out)",
                )
            write_window("Assemble", control.ASSEMBLE, piece[0], piece[1], dst)
        return
    if len(args) != 3:
        raise error(
            TypeError,
            "assemble() takes (src, offsets, dst) or ([(src, offsets), ...], dst), got "
            f"{len(args)} arguments",
            fix="pypto.assemble(t, [0, 0], out)",
        )
    write_window("Assemble", control.ASSEMBLE, *args)


@composite(method="assemble")
def _assemble_method(self: Tensor, input: Tensor, offsets: Sequence[Any]) -> None:
    """Write the valid box of `input` into this tensor at `offsets`; see `pypto.assemble`."""
    write_window("Assemble", control.ASSEMBLE, input, offsets, self)


@composite(method="")
def atomic_add(src: Tensor, offsets: Sequence[Any], dst: Tensor) -> None:
    """Add the valid box of `src` to the window of `dst` at `offsets`, in place.

    Ranks and element types as for `assemble`.  FP16 and BF16 add in FP32 and round once.
    Source: the atomic_add function of the language.
    """
    write_window("AtomicRMW", control.ATOMIC_ADD, src, offsets, dst)


def write_window(name: str, op: Any, src: Any, offsets: Any, dst: Any) -> None:
    value = src if isinstance(src, Value) else tensor_argument(name, "src", src).value()
    target = tensor_argument(name, "dst", dst)
    starts = size_list(name, "offsets", offsets)
    type = value.tensor
    rank = target.dim
    if type.rank != rank:
        raise error(
            ValueError,
            f"{name}: src and dest requires same shape size: rank {type.rank} vs {rank}",
            fix=_rank_fix(type, rank),
            value=type.rank,
            limit=rank,
        )
    if len(starts) != rank:
        raise error(
            ValueError,
            f"{name}: dynOffset and dest requires same shape size: {len(starts)} offsets for a "
            f"destination of rank {rank}",
            fix=f"give {rank} offsets",
            value=len(starts),
            limit=rank,
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
            fix=advice.cast_source(type.dtype, target.dtype),
            value=type.dtype.name,
            limit=target.dtype.name,
        )
    if type.format is not target.format:
        raise error(
            ValueError,
            f"{name}: src and dest requires same format",
            fix="make both tensors with the same format",
        )
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
                value=start,
                limit=0,
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
                    fix=f"limit the source: `pypto.view(t, {list(source.shape)}, …, "
                    f"valid_shape={shape})`",
                    value=last,
                    limit=size - 1,
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
        f"box: valid {shown(target.valid)}, written {shown(starts)}..{shown(ends)}"
    )
    fix = (
        "make the destination fully valid first with `pypto.fillpad(t)`, or write next to the "
        "valid elements"
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
            fix=advice.constant(self, [slice(None)] * self.dim, self.shape, other),
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
            fix=advice.cast_source(kind.dtype, self.dtype),
            value=kind.dtype.name,
            limit=self.dtype.name,
        )
    if kind.shape != shape:
        raise error(
            ValueError,
            f"move: shape must be equal: {kind.brief()} into Tensor{list(shape)}",
            fix="write a part with `t[0:n, :] = v`, or reshape the value first",
            value=list(kind.shape),
            limit=list(shape),
        )
    if not kind.is_static:
        raise error(
            ValueError,
            f"move: a tensor with a DYNAMIC dim is moved as a whole: {kind.brief()}",
            code="F0000A",
            fix="copy it tile by tile in a `pypto.loop`",
        )
    storage = build.current().settle_write(self.storage)
    self.redirect(storage)
    if other.storage.param is None:
        build.current().moved.add(other.storage)
    if storage.param is not None:
        write_window("Assemble", control.ASSEMBLE, source, [0] * kind.rank, self)
        return
    if self._shape is not None and not kind.is_full:
        raise error(
            ValueError,
            f"move: a partly valid tensor, valid {shown(kind.valid)} of {shown(kind.shape)}, into "
            "an in-place reshape",
            fix="make it fully valid first: `pypto.fillpad(t)`",
        )
    destination = self.value()
    attrs = {"src": Slot(0), "dst": Slot(1)}
    node = build.current().emit(control.MOVE, (source, destination), attrs, (kind,), (storage,))
    self.replace(node.result)
