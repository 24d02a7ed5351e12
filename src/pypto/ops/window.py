"""Windows on memory: view, and copies.

In: a tensor, an extent in ints, offsets that may be known only at run time.  Out: a snapshot of
what is there at this point of the program.  A window may hang over its source; what is over is
invalid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.declare import composite, declare
from pypto.ir.dtype import SUPPORTED, DataType
from pypto.ir.graph import Value
from pypto.ir.handle import Tensor, handle
from pypto.ir.op import Arg, Family, Op, Slot, same_shape, same_valid
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops import advice, control
from pypto.ops.arguments import size_list, sized, static_sizes, tensor_argument


@composite(method="view", guess=lambda input, shape, *rest, **named: sized(input, shape))
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
    source = tensor_argument("view", "input", input)
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
    starts = size_list("view", "offsets", offsets)
    if not len(tuple(shape)) == len(starts) == type.rank:
        raise error(
            ValueError,
            f"view: shape has {len(tuple(shape))} dims, offsets {len(starts)}, input {type.rank}. "
            f"Their size actually are {_sizes_text(len(tuple(shape)), len(starts), type.rank)}",
            code="F21004",
            fix=_view_fix(shape, type.rank),
            value=[len(tuple(shape)), len(starts)],
            limit=type.rank,
        )
    sizes = size_list("view", "shape", shape)
    extents = static_sizes("view", "shape", sizes, lambda: advice.fixed_view(type, sizes, starts))
    given = None if valid_shape is None else size_list("view", "valid_shape", valid_shape)
    return window_of(value, extents, starts, given)


def _view_fix(shape: Sequence[Any], rank: int) -> str:
    if len(shape) >= rank:
        return "give shape and offsets one entry per axis of the input"
    full_rank = [*[1] * (rank - len(shape)), *shape]
    return (
        f"take a view of rank {rank}, `pypto.view(t, {full_rank}, […])`, and reshape it to "
        f"{list(shape)}; or reshape the input first"
    )


def _sizes_text(shape: int, offsets: int, rank: int) -> str:
    larger, smaller = (offsets, shape) if offsets != shape else (rank, shape)
    return f"{larger} and {smaller}"


def window_of(value: Value, extents: Shape, starts: Shape, given: Shape | None) -> Tensor:
    type = value.tensor
    for axis, start in enumerate(starts):
        if isinstance(start, int) and start < 0:
            raise error(
                IndexError,
                f"view: offset {start} on axis {axis} is negative",
                fix="offsets count from the start of the axis, from 0",
                value=start,
                limit=0,
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
            value=len(given),
            limit=type.rank,
        )
    for axis, (asked, extent, start, valid) in enumerate(
        zip(given, extents, starts, type.valid, strict=True)
    ):
        room = sym.simple(sym.maximum(sym.sub(valid, start), 0))
        over_data = isinstance(asked, int) and isinstance(room, int) and asked > room
        over_view = isinstance(asked, int) and isinstance(extent, int) and asked > extent
        if over_data or over_view or (isinstance(asked, int) and asked < 0):
            most = sym.simple(sym.minimum(extent, room))
            limit = f"the view's {extent}" if over_view else f"the {room} left of the data"
            raise error(
                IndexError,
                "View operation failed: newValidShapes cannot exceed original tensor's shape at "
                f"dimension {axis}: valid_shape {asked} reaches past {limit}",
                fix=f"give at most {most}, or leave valid_shape out: a view that overhangs is cut "
                "by itself",
                value=asked,
                limit=most,
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
