"""Elements that go elsewhere: copies between boxes, and the ops of the family MOVE.

In: where tensors lie.  Out: loops that copy.  What strides can say moves in one nest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto.cpu.buffers import Mem
from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import FP64, INT64, MEMORY, Lane
from pypto.cpu.nest import Cursor, Walked, walk
from pypto.ir import faults
from pypto.ir.dtype import Element, scalar
from pypto.ir.graph import Node


def copy(e: Emission, extents: Sequence[Reg], source: Walked, target: Walked) -> None:
    """Copy a box; the tensors do not overlap."""

    def body(at: Cursor) -> None:
        at.store(1, at.load(0))

    walk(e, "copy", extents, [source, target], body, written=[1])


def copy_box(e: Emission, extents: Sequence[Reg], source: Mem, target: Mem) -> None:
    copy(e, extents, Walked(source, source.strides), Walked(target, target.strides))


def fill(e: Emission, extents: Sequence[Reg], target: Mem, value: object) -> None:
    """Put one number into every element of a box."""
    key = ("fill", target.dtype, repr(value))

    def body(at: Cursor) -> None:
        at.store(0, at.lanes.const(target.dtype, value))

    walk(e, key, extents, [Walked(target, target.strides)], body, written=[0])


def _permuted(e: Emission, node: Node, order: Sequence[int]) -> None:
    source, result = e.mem(node.operands[0]), node.result
    strides = tuple(source.strides[d] for d in order)
    target = e.make(result)
    copy(e, e.valid(result), Walked(source, strides), Walked(target, target.strides))


def _transpose(e: Emission, node: Node) -> None:
    order = list(range(node.result.tensor.rank))
    i, j = node.attrs["dim0"], node.attrs["dim1"]
    order[i], order[j] = j, i
    _permuted(e, node, order)


def _permute(e: Emission, node: Node) -> None:
    _permuted(e, node, node.attrs["dims"])


def _clone(e: Emission, node: Node) -> None:
    _permuted(e, node, range(node.result.tensor.rank))


def _expand(e: Emission, node: Node) -> None:
    value, result = node.operands[0], node.result
    source = e.mem(value)
    grown = zip(source.strides, value.tensor.shape, result.tensor.shape, strict=True)
    strides = tuple(s if old == new else i64(0) for s, old, new in grown)
    if node.attrs["valid_shape"] is not None:
        pairs = zip(value.tensor.shape, value.tensor.valid, result.tensor.shape, strict=True)
        limits = [valid if old == new else new for old, valid, new in pairs]
        e.check_given("expand_clone()", node.attrs["valid_shape"], limits)
    target = e.make(result)
    copy(e, e.valid(result), Walked(source, strides), Walked(target, target.strides))


def _concat(e: Emission, node: Node) -> None:
    dim, result = node.attrs["dim"], node.result
    pieces = node.arguments()[0]
    filled = i64(0)
    for piece in pieces:
        filled = e.code.add(filled, e.valid(piece)[dim])
    whole = e.ints.of(result.tensor.shape[dim])
    if filled != whole:
        e.fault(
            e.code.compare("ne", filled, whole),
            (filled, whole),
            lambda found: faults.hole_in_concat(dim, *found),
        )
    target, extents = e.make(result), list(e.valid(result))
    start = 0
    for piece in pieces:
        size = piece.tensor.shape[dim]
        offsets = [i64(0)] * len(extents)
        offsets[dim] = i64(start)
        extents[dim] = i64(size)
        copy_box(e, extents, e.mem(piece), e.window(target, offsets))
        start += size


def _fillpad(e: Emission, node: Node) -> None:
    value, result = node.operands[0], node.result
    given = node.attrs["value"]
    plain = given.value if isinstance(given, Element) else given
    target = e.make(result)
    fill(e, e.ints.all(result.tensor.shape), target, scalar(plain, result.tensor.dtype))
    copy_box(e, e.valid(value), e.mem(value), target)


def _triangle(e: Emission, node: Node) -> None:
    """Rows are cut in two at the diagonal."""
    value, result, code = node.operands[0], node.result, e.code
    source, target = e.mem(value), e.make(result)
    *batch, rows, columns = e.valid(result)
    first = code.add(e.ints.of(node.attrs["diagonal"]), i64(node.op.name == "tril"))
    outer = [i64(0)] * len(batch)
    zero = scalar(0, target.dtype)
    with code.loop(i64(0), rows) as row:
        cut = code.most(i64(0), code.least(columns, code.add(row, first)))
        left = e.window(source, [*outer, row, i64(0)]), e.window(target, [*outer, row, i64(0)])
        right = e.window(source, [*outer, row, cut]), e.window(target, [*outer, row, cut])
        kept, cleared = (left, right) if node.op.name == "tril" else (right, left)
        counts = (cut, code.sub(columns, cut))
        if node.op.name == "triu":
            counts = counts[::-1]
        copy_box(e, [*batch, i64(1), counts[0]], *kept)
        fill(e, [*batch, i64(1), counts[1]], cleared[1], zero)


def _ramp(e: Emission, node: Node) -> None:
    """Each element is computed from its index, so that none drifts."""
    target, code, lanes = e.make(node.result), e.code, e.builder(e.code, 1)
    start, step = node.attrs["start"], node.attrs["step"]
    wide = FP64 if target.dtype.is_float else INT64
    with code.loop(i64(0), i64(node.attrs["count"])) as index:
        k = lanes.convert(Lane(index, INT64), wide)
        value = lanes.add(lanes.const(wide, start), lanes.mul(lanes.const(wide, step), k))
        lanes.store(
            lanes.convert(value, target.dtype), code.at(MEMORY[target.dtype], target.pointer, index)
        )


MOVES: dict[str, Callable[[Emission, Node], None]] = {
    "transpose": _transpose,
    "permute": _permute,
    "clone": _clone,
    "expand_clone": _expand,
    "concat": _concat,
    "fillpad": _fillpad,
    "triu": _triangle,
    "tril": _triangle,
    "arange": _ramp,
}
