"""Ops that put elements elsewhere and compute none.

In: tensors, valid in part.  Out: their valid elements in other places; what was invalid stays
invalid, save for `fillpad`, which gives it a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.declare import declare
from pypto.ir.faults import hole_in_concat
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, Out, all_valid, same_shape, same_valid
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops.accepts import BOOL, FLOATS, INT8, INT16, INT32, LONGS, MOVED, UINT16, UINT32, types
from pypto.ops.unary import number_of

Array = Any  # a NumPy array


# --- axes ----------------------------------------------------------------------------------------


def _swapped(extents: Shape, attrs: Attrs) -> Shape:
    order = list(extents)
    i, j = attrs["dim0"], attrs["dim1"]
    order[i], order[j] = order[j], order[i]
    return tuple(order)


def transpose_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The extents of `dim0` and `dim1` exchanged."""
    return _swapped(types[0].shape, attrs)


def transpose_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """The valid extents of `dim0` and `dim1` exchanged."""
    return _swapped(types[0].valid, attrs)


# The pairs of axes that the transpose unit can exchange; for others there is permute.
# Source: the transpose entry of the op catalogue.
PAIRS = {4: {(0, 2), (1, 2), (1, 3), (2, 3)}, 5: {(3, 4)}}


def _check_pair(types: Sequence[TensorType], attrs: Attrs) -> None:
    t = types[0]
    i, j = sorted((attrs["dim0"], attrs["dim1"]))
    unmoved = i == j or t.shape[i] == t.shape[j] == 1
    if t.rank in PAIRS and not unmoved and (i, j) not in PAIRS[t.rank]:
        dims = list(range(t.rank))
        dims[i], dims[j] = j, i
        allowed = ", ".join(map(str, sorted(PAIRS[t.rank])))
        raise error(
            ValueError,
            f"transpose(): axes {i} and {j} of a tensor of rank {t.rank} cannot be exchanged; it "
            f"takes the pairs {allowed}",
            code="FC0000",
            fix=f"pypto.permute(t, {dims})",
        )


declare(
    Op(
        "transpose",
        Family.MOVE,
        "Exchanges two axes.",
        (Arg("input"), Arg("dim0", "dim"), Arg("dim1", "dim")),
        MOVED,
        shape=transpose_shape,
        valid=transpose_valid,
        reference=lambda x, dim0, dim1, out: np.swapaxes(x, dim0, dim1),
        formula="out[.., j, .., i, ..] = input[.., i, .., j, ..]",
        ranks=(1, 5),
        check=_check_pair,
        misuse="use permute for an order of axes: `pypto.permute(t, [0, 2, 1])`",
        torch="torch.transpose(input, dim0, dim1)",
    )
)


def permute_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """Axis i has the extent of axis dims[i]."""
    return tuple(types[0].shape[d] for d in attrs["dims"])


def permute_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """Axis i has the valid extent of axis dims[i]."""
    return tuple(types[0].valid[d] for d in attrs["dims"])


def _check_order(types: Sequence[TensorType], attrs: Attrs) -> None:
    if sorted(attrs["dims"]) != list(range(types[0].rank)):
        raise error(
            ValueError,
            f"permute(): {list(attrs['dims'])} is no order of the axes 0..{types[0].rank - 1}",
            code="FC0000",
            fix=f"name each axis once: {list(range(types[0].rank))[::-1]}",
        )


permute: Callable[..., Tensor] = declare(
    Op(
        "permute",
        Family.MOVE,
        "Puts the axes into another order.",
        (Arg("input_tensor"), Arg("dims", "dims")),
        types(MOVED, LONGS, BOOL),
        shape=permute_shape,
        valid=permute_valid,
        reference=lambda x, dims, out: np.transpose(x, dims),
        formula="out.shape[i] = input_tensor.shape[dims[i]]",
        ranks=(1, 5),
        method="",
        check=_check_order,
        torch="torch.permute(input_tensor, dims)",
    )
)

# --- pieces --------------------------------------------------------------------------------------


def concat_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The sum of the extents on `dim`; elsewhere they must be equal."""
    dim, first = attrs["dim"], types[0].shape
    total: SymInt = 0
    for t in types:
        if len(t.shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(t.shape, first, strict=True)) if i != dim
        ):
            raise error(
                ValueError,
                f"concat(): shapes {[list(t.shape) for t in types]} differ outside of axis {dim}",
                code="FC0000",
                fix="make ranks and the other extents equal (reshape, view)",
            )
        total = sym.simple(sym.add(total, t.shape[dim]))
    return (*first[:dim], total, *first[dim + 1 :])


def concat_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """All of `dim`; elsewhere where every piece is valid."""
    valid = list(shape)
    for axis in range(len(shape)):
        if axis != attrs["dim"]:
            for t in types:
                valid[axis] = sym.simple(sym.minimum(valid[axis], t.valid[axis]))
    return tuple(valid)


def _check_pieces(types: Sequence[TensorType], attrs: Attrs) -> None:
    if len(types) > 128:
        raise error(
            ValueError,
            f"concat(): at most 128 tensors, got {len(types)}",
            fix="concatenate in two steps",
        )
    dim = attrs["dim"]
    for index, t in enumerate(types):
        if t.rank > dim and t.valid[dim] != t.shape[dim]:
            extent = t.valid[dim]
            if isinstance(extent, int) or extent.bounds()[1] < t.shape[dim]:  # type: ignore[operator]
                raise _partial(index, dim, extent, t.shape[dim])


def _partial(index: int, dim: int, valid: SymInt, size: SymInt) -> Exception:
    return error(
        ValueError,
        f"concat(): tensor {index} is valid to {valid} of {size} on axis {dim}; pieces must be "
        "fully valid along it",
        fix="write the pieces into a tensor at their offsets with `pypto.assemble`, or "
        "`pypto.fillpad` them first",
    )


def _concat(pieces: list[Array], dim: int, out: Out) -> Array:
    # Extents that are known only now: the pieces must fill the axis.
    filled = sum(p.shape[dim] for p in pieces)
    if filled != out.shape[dim]:
        raise hole_in_concat(dim, filled, out.shape[dim])
    box = [slice(n) for n in out.valid]
    box[dim] = slice(None)
    return np.concatenate([p[tuple(box)] for p in pieces], axis=dim)


declare(
    Op(
        "concat",
        Family.MOVE,
        "Joins up to 128 tensors along an axis.",
        (Arg("tensors", "tensors"), Arg("dim", "dim", 0)),
        types(MOVED, LONGS),
        shape=concat_shape,
        valid=concat_valid,
        reference=_concat,
        formula="out = [tensors[0], tensors[1], ..] along dim",
        check=_check_pieces,
        method="",
        torch="torch.cat(tensors, dim)",
    )
)

# --- more places ---------------------------------------------------------------------------------


def expand_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The given shape: axes of extent 1 may grow."""
    source, shape = types[0].shape, attrs["shape"]
    if len(source) != len(shape):
        raise error(
            ValueError,
            f"expand_clone(): the rank stays: {list(source)} has rank {len(source)}, shape "
            f"{[str(s) for s in shape]} rank {len(shape)}",
            code="FC0002",
            fix="insert axes of extent 1 with `pypto.reshape` first",
        )
    fits = all(
        isinstance(new, int) and (old == new or (old == 1 and new > 0))
        for old, new in zip(source, shape, strict=True)
    )
    if not fits:
        raise error(
            ValueError,
            f"expand_clone(): {list(source)} cannot become {[str(s) for s in shape]}; only axes of "
            "extent 1 grow, to int extents",
            code="FC0000",
            fix="give every other axis its own extent",
        )
    return tuple(shape)


def expand_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """`valid_shape` if given; else all of an expanded axis, and the input's extent elsewhere."""
    t, given = types[0], attrs["valid_shape"]
    valid: list[SymInt] = []
    for axis, size in enumerate(shape):
        # An expanded axis repeats one element, if that is valid.
        grown = t.shape[axis] != size
        room = sym.simple(sym.mul(size, sym.minimum(t.valid[axis], 1))) if grown else t.valid[axis]
        valid.append(room if given is None else sym.simple(sym.minimum(given[axis], room)))
    return tuple(valid)


def _check_valid(types: Sequence[TensorType], attrs: Attrs) -> None:
    given, shape, t = attrs["valid_shape"], attrs["shape"], types[0]
    if given is None:
        return
    if len(given) != len(shape):
        raise error(
            ValueError,
            f"expand_clone(): valid_shape has {len(given)} entries for rank {len(shape)}",
            fix=f"give valid_shape {len(shape)} entries",
        )
    for axis, asked in enumerate(given):
        room = shape[axis] if t.shape[axis] == 1 else t.valid[axis]
        if isinstance(asked, int) and isinstance(room, int) and not 0 <= asked <= room:
            raise error(
                IndexError,
                f"expand_clone(): valid_shape {asked} on axis {axis} is not within 0..{room}",
                fix="leave valid_shape out, or limit it with `pypto.min`",
            )


declare(
    Op(
        "expand_clone",
        Family.MOVE,
        "Repeats the elements of axes of extent 1.",
        (Arg("input"), Arg("shape", "sizes"), Arg("valid_shape", "sizes", None, keyword_only=True)),
        types(MOVED, BOOL),
        shape=expand_shape,
        valid=expand_valid,
        reference=lambda x, shape, valid_shape, out: np.broadcast_to(
            x[tuple(slice(n) for n in out.valid)], out.valid
        ),
        formula="out[i, j] = input[i, 0]",
        check=_check_valid,
        torch="input.expand(shape)",
    )
)


def _check_fill(types: Sequence[TensorType], attrs: Attrs) -> None:
    value, dtype = attrs["value"], types[0].dtype
    if attrs["mode"] != "constant":
        raise error(
            ValueError,
            f"fillpad(): mode must be 'constant', got {attrs['mode']!r}",
            fix='mode="constant"',
        )
    number = number_of(value)
    if number is None:
        raise error(
            TypeError,
            f"fillpad(): value must be a number, got {type(value).__name__}",
            fix="value=0.0",
        )
    if dtype.is_int and isinstance(value, float):
        raise error(
            ValueError,
            f"fillpad(): value {value} is a float and the tensor {dtype.name}",
            fix="give an int",
        )
    if dtype.kind == "u" and number < 0:
        raise error(
            ValueError,
            f"fillpad(): negative value for unsigned {dtype.name}: {value}",
            fix="use a signed type, or the number that the bits stand for",
        )


def _fillpad(x: Array, mode: str, value: Any, out: Out) -> Array:
    filled = np.full(out.shape, number_of(value), out.dtype)
    filled[tuple(slice(n) for n in x.shape)] = x
    return filled


declare(
    Op(
        "fillpad",
        Family.MOVE,
        "Gives every invalid element a value; the result is fully valid.",
        (Arg("x"), Arg("mode", "str", "constant"), Arg("value", "any", 0)),
        MOVED,
        shape=same_shape,
        valid=all_valid,
        reference=_fillpad,
        formula="out = valid(x) ? x : value",
        ranks=(1, 2),
        check=_check_fill,
    )
)

# --- triangles -----------------------------------------------------------------------------------


def _triangle(name: str, sentence: str, relation: str, pick: Any) -> Callable[..., Tensor]:
    return declare(
        Op(
            name,
            Family.MOVE,
            sentence,
            (Arg("input"), Arg("diagonal", "symint", 0)),
            types(FLOATS, INT8, INT16, INT32, UINT16, UINT32),
            shape=same_shape,
            valid=same_valid,
            reference=lambda x, diagonal, out: pick(x, diagonal),
            formula=f"out = column - row {relation} diagonal ? input : 0",
            ranks=(2, 5),
            torch=f"torch.{name}(input, diagonal)",
        )
    )


triu = _triangle("triu", "Zero below a diagonal of the last two axes.", ">=", np.triu)
tril = _triangle("tril", "Zero above a diagonal of the last two axes.", "<=", np.tril)
