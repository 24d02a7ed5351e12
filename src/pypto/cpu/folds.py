"""Reductions and scans along one axis.

In: a tensor and an axis.  Out: how its elements fold into one, by the record's meaning of two.
Along a contiguous axis the elements of a row fold lane by lane and the lanes by halves; along
another axis the vectors run beside it.  The order depends on extents alone, so that results do not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pypto.cpu.buffers import number
from pypto.cpu.code import Function, Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import BF16, FP16, FP32, FP64, INT64, MEMORY, Lane, Lanes
from pypto.cpu.nest import Cursor, Walked, estimate, walk
from pypto.errors import not_supported
from pypto.ir.dtype import DataType
from pypto.ir.graph import Node
from pypto.ir.op import Family, Op

_HALF = (FP16, BF16)


class Fold(NamedTuple):
    """How the elements of a row become one: of which type, and what no element gives.

    `one` takes an element in as it is stored, `two` makes one of two.
    """

    dtype: DataType
    identity: Any
    one: Callable[[Lanes, Lane], Lane]
    two: Callable[[Lanes, Lane, Lane], Lane]


class Rows(NamedTuple):
    """The rows of a node that reduces: a box of them, in the tensor and in the result.

    `numbers` are how many elements a row has and how far apart they are; `along` says whether
    vectors run along a row, or beside it over several.
    """

    extents: list[Reg]
    tensors: list[Walked]
    numbers: list[Reg]
    along: bool


def emit_fold(e: Emission, node: Node) -> None:
    """A node of the families REDUCE and SCAN whose record says how two elements become one."""
    if node.op.lane is None:
        raise not_supported(f"{node.op.name} in machine code")
    if node.op.family is Family.SCAN:
        _scan(e, node)
    else:
        _reduce(e, node)


def _compute(dtype: DataType) -> DataType:
    return FP32 if dtype in _HALF else dtype


def _identity(op: Op, dtype: DataType) -> Any:
    """What the op gives for no element: its own meaning of that."""
    assert op.reference is not None
    return op.reference(np.empty((0,), dtype.numpy), 0)[0]


def rows_of(e: Emission, node: Node) -> Rows:
    """The rows of a node that reduces along `dim`, with memory for its result."""
    dim, value, result = node.attrs["dim"], node.operands[0], node.result
    source, target = e.mem(value), e.make(result)
    extents, strides = list(e.valid(value)), list(source.strides)
    # The walk over the rows counts one element each.
    e.cost += estimate(extents) / e.target.lanes
    count, step = extents.pop(dim), strides.pop(dim)
    out = list(target.strides)
    if result.tensor.rank == value.tensor.rank:
        out.pop(dim)
    if not extents:
        extents, strides, out = [i64(1)], [i64(0)], [i64(0)]
    along = number(step) == 1 and not _better_beside(strides, count)
    tensors = [Walked(source, tuple(strides)), Walked(target, tuple(out))]
    return Rows(extents, tensors, [count, step], along)


def _better_beside(strides: list[Reg], count: Reg) -> bool:
    """A short axis folds better beside a long contiguous one."""
    return number(count) == 1 and number(strides[-1]) == 1


def _reduce(e: Emission, node: Node) -> None:
    op, two, rows = node.op, node.op.lane, rows_of(e, node)
    assert two is not None
    source, target = (t.mem.dtype for t in rows.tensors)
    kind = _compute(source)
    fold = Fold(kind, _identity(op, kind), lambda lanes, x: lanes.widen(x), two)

    def body(at: Cursor) -> None:
        total = fold_rows(e, at, fold, rows.along)
        at.store(1, at.lanes.convert(total, target))

    key = (op.name, kind, target, rows.along)
    walk(
        e, key, rows.extents, rows.tensors, body,
        written=[1], numbers=rows.numbers, single=rows.along, weight=2,
    )  # fmt: skip


def fold_rows(e: Emission, at: Cursor, fold: Fold, along: bool) -> Lane:
    """The row of a cursor, or the rows that its lanes stand for, folded."""
    return _row(e, at, fold) if along else _beside(at, fold)


def _beside(at: Cursor, fold: Fold) -> Lane:
    lanes = at.lanes
    total = Total(lanes, lanes.const(fold.dtype, fold.identity))
    with each(at) as (_, element):
        total.set(fold.two(lanes, total.get(), fold.one(lanes, element)))
    return total.get()


@contextmanager
def each(at: Cursor) -> Iterator[tuple[Reg, Lane]]:
    """Over the elements of the rows of a cursor: where each stands in its row, and what it is."""
    lanes, code, (count, step) = at.lanes, at.lanes.code, at.numbers
    with code.loop(i64(0), count) as index:
        place = code.at(MEMORY[at.dtypes[0]], at.places[0], code.mul(index, step))
        yield index, lanes.load(place, at.dtypes[0])


class Total:
    """A running total in a variable."""

    def __init__(self, lanes: Lanes, start: Lane) -> None:
        self._lanes = lanes
        self._dtype = start.dtype
        self._place = lanes.code.local(lanes.type(start.dtype))
        self.set(start)

    def get(self) -> Lane:
        kind = self._lanes.type(self._dtype)
        return Lane(self._lanes.code.load(kind, self._place), self._dtype)

    def set(self, lane: Lane) -> None:
        self._lanes.code.store(Reg(lane.reg, self._lanes.type(lane.dtype)), self._place)


def _row(e: Emission, at: Cursor, fold: Fold) -> Lane:
    """One contiguous row: wide vectors, then narrower ones, then single elements."""
    code, count, dtype = at.lanes.code, at.numbers[0], at.dtypes[0]
    fixed = number(count)
    done: Reg = i64(0)
    total: Lane | None = None
    width = 4 * e.target.vector // max(4, fold.dtype.bytes)
    while width >= 1:
        if fixed is not None and fixed - int(done) < width:
            width //= 2
            continue
        lanes = e.builder(code, width)
        start = lanes.const(fold.dtype, fold.identity) if total is None else total
        running = Total(lanes, start)
        end = _whole(code, count, done, width)
        with code.loop(done, end, width) as index:
            place = code.at(MEMORY[dtype], at.places[0], index)
            element = fold.one(lanes, lanes.load(place, dtype))
            running.set(fold.two(lanes, running.get(), element))
        total, done = running.get(), end
        narrower = _next_width(fixed, done, width, e.target.lanes)
        total = _halved(code, e.builder, fold, total, width, narrower)
        width = narrower if width > 1 else 0
        if fixed is not None and int(done) == fixed and width <= 1:
            break
    if total is None:
        return at.lanes.const(fold.dtype, fold.identity)
    return total


def _whole(code: Function, count: Reg, done: Reg, width: int) -> Reg:
    """Where the last vector of `width` that starts at `done` ends."""
    rest = code.sub(count, done)
    fixed = number(rest)
    if fixed is not None:
        return code.add(done, i64(fixed - fixed % width))
    return code.add(done, code.let("i64", f"and i64 {rest}, {-width}"))


def _next_width(fixed: int | None, done: Reg, width: int, lanes: int) -> int:
    if fixed is None:
        return lanes if width > lanes else 1
    rest = fixed - int(done)
    narrower = 1
    while narrower * 2 <= rest and narrower * 2 < width:
        narrower *= 2
    return narrower


def _halved(
    code: Function, builder: type[Lanes], fold: Fold, total: Lane, width: int, wanted: int
) -> Lane:
    """The lanes of a total folded until `wanted` are left."""
    while width > wanted:
        half = width // 2
        wide, lanes = builder(code, width), builder(code, half)
        kind = wide.type(total.dtype)
        parts = []
        for first in (0, half):
            if half == 1:
                made = lanes.type(total.dtype)
                text = f"extractelement {kind} {total.reg}, i64 {first}"
            else:
                made = lanes.type(total.dtype)
                order = ", ".join(f"i32 {first + k}" for k in range(half))
                text = f"shufflevector {kind} {total.reg}, {kind} poison, <{half} x i32> <{order}>"
            parts.append(Lane(code.let(made, text), total.dtype))
        total = fold.two(lanes, *parts)
        width = half
    return total


def _scan(e: Emission, node: Node) -> None:
    """Running totals, in FP64 for floats: each is rounded once."""
    op, two, dim = node.op, node.op.lane, node.attrs["dim"]
    assert two is not None
    value, result = node.operands[0], node.result
    source, target = e.mem(value), e.make(result)
    extents = list(e.valid(value))
    e.cost += estimate(extents)
    near, far = list(source.strides), list(target.strides)
    count, step, stride = extents.pop(dim), near.pop(dim), far.pop(dim)
    if not extents:
        extents, near, far = [i64(1)], [i64(0)], [i64(0)]
    kind = FP64 if source.dtype.is_float else INT64
    identity = 1 if op.name == "cumprod" else 0

    def body(at: Cursor) -> None:
        lanes, code = at.lanes, at.lanes.code
        total = Total(lanes, lanes.const(kind, identity))
        with code.loop(i64(0), at.numbers[0]) as index:
            place = code.at(MEMORY[source.dtype], at.places[0], code.mul(index, at.numbers[1]))
            element = lanes.convert(lanes.load(place, source.dtype), kind)
            total.set(two(lanes, total.get(), element))
            place = code.at(MEMORY[target.dtype], at.places[1], code.mul(index, at.numbers[2]))
            # FP16 and BF16 are rounded from FP32, as the interpreter does.
            rounded = lanes.convert(total.get(), FP32) if kind is FP64 else total.get()
            lanes.store(lanes.convert(rounded, target.dtype), place)

    walk(
        e, (op.name, kind), extents,
        [Walked(source, tuple(near)), Walked(target, tuple(far))], body,
        written=[1], numbers=[count, step, stride], weight=2,
    )  # fmt: skip
