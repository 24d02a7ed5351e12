"""Reductions and scans along one axis.

In: a tensor and an axis.  Out: how its elements fold into one, by the record's meaning of two.
Along a contiguous axis the elements of a row fold lane by lane and the lanes by halves; along
another axis the vectors run beside it.  The order depends on extents alone, so that results do not
depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.cpu.buffers import number
from pypto.cpu.code import Function, Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import BF16, FP16, FP32, FP64, INT64, MEMORY, Lane, Lanes
from pypto.cpu.nest import Cursor, Walked, walk
from pypto.errors import not_supported
from pypto.ir.dtype import DataType
from pypto.ir.graph import Node
from pypto.ir.op import Family, Op

_HALF = (FP16, BF16)


def emit_fold(e: Emission, node: Node) -> None:
    """A node of the families REDUCE and SCAN."""
    op = node.op
    if op.lane is None:
        raise not_supported(f"{op.name} in machine code")
    if op.family is Family.SCAN:
        _scan(e, node)
    else:
        _reduce(e, node)


def _compute(dtype: DataType) -> DataType:
    return FP32 if dtype in _HALF else dtype


def _identity(op: Op, dtype: DataType) -> Any:
    """What the op gives for no element: its own meaning of that."""
    assert op.reference is not None
    return op.reference(np.empty((0,), dtype.numpy), 0)[0]


def _reduce(e: Emission, node: Node) -> None:
    op, dim = node.op, node.attrs["dim"]
    value, result = node.operands[0], node.result
    source, target = e.mem(value), e.make(result)
    extents, strides = list(e.valid(value)), list(source.strides)
    count, step = extents.pop(dim), strides.pop(dim)
    out = list(target.strides)
    if result.tensor.rank == value.tensor.rank:
        out.pop(dim)
    if not extents:
        extents, strides, out = [i64(1)], [i64(0)], [i64(0)]
    kind = _compute(source.dtype)
    identity = _identity(op, kind)
    tensors = [Walked(source, tuple(strides)), Walked(target, tuple(out))]
    along = number(step) == 1 and not _better_beside(extents, strides, count)
    key = (op.name, kind, target.dtype, "along" if along else "beside")

    def body_along(at: Cursor) -> None:
        total = _row(e, at, op, kind, identity)
        at.store(1, at.lanes.convert(total, target.dtype))

    def body_beside(at: Cursor) -> None:
        lanes, code = at.lanes, at.lanes.code
        total = _Total(lanes, lanes.const(kind, identity))
        with code.loop(i64(0), at.numbers[0]) as index:
            place = code.at(MEMORY[source.dtype], at.places[0], code.mul(index, at.numbers[1]))
            total.fold(op, lanes.widen(lanes.load(place, source.dtype)))
        at.store(1, lanes.convert(total.get(), target.dtype))

    body = body_along if along else body_beside
    walk(
        e, key, extents, tensors, body, written=[1], numbers=[count, step], single=along, weight=2
    )  # fmt: skip


def _better_beside(extents: list[Reg], strides: list[Reg], count: Reg) -> bool:
    """A short axis folds better beside a long contiguous one."""
    return number(count) == 1 and number(strides[-1]) == 1


class _Total:
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

    def fold(self, op: Op, lane: Lane) -> None:
        assert op.lane is not None
        self.set(op.lane(self._lanes, self.get(), lane))


def _row(e: Emission, at: Cursor, op: Op, kind: DataType, identity: Any) -> Lane:
    """One contiguous row: wide vectors, then narrower ones, then single elements."""
    code, count, dtype = at.lanes.code, at.numbers[0], at.dtypes[0]
    fixed = number(count)
    done: Reg = i64(0)
    total: Lane | None = None
    width = 4 * e.target.lanes
    while width >= 1:
        if fixed is not None and fixed - int(done) < width:
            width //= 2
            continue
        lanes = e.builder(code, width)
        start = lanes.const(kind, identity) if total is None else total
        running = _Total(lanes, start)
        end = _whole(code, count, done, width)
        with code.loop(done, end, width) as index:
            place = code.at(MEMORY[dtype], at.places[0], index)
            running.fold(op, lanes.widen(lanes.load(place, dtype)))
        total, done = running.get(), end
        narrower = _next_width(fixed, done, width, e.target.lanes)
        total = _halved(code, e.builder, op, total, width, narrower)
        width = narrower if width > 1 else 0
        if fixed is not None and int(done) == fixed and width <= 1:
            break
    if total is None:
        return at.lanes.const(kind, identity)
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
    code: Function, builder: type[Lanes], op: Op, total: Lane, width: int, wanted: int
) -> Lane:
    """The lanes of a total folded until `wanted` are left."""
    assert op.lane is not None
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
        total = op.lane(lanes, *parts)
        width = half
    return total


def _scan(e: Emission, node: Node) -> None:
    """Running totals, in FP64 for floats: each is rounded once."""
    op, dim = node.op, node.attrs["dim"]
    value, result = node.operands[0], node.result
    source, target = e.mem(value), e.make(result)
    extents = list(e.valid(value))
    near, far = list(source.strides), list(target.strides)
    count, step, stride = extents.pop(dim), near.pop(dim), far.pop(dim)
    if not extents:
        extents, near, far = [i64(1)], [i64(0)], [i64(0)]
    kind = FP64 if source.dtype.is_float else INT64
    identity = 1 if op.name == "cumprod" else 0

    def body(at: Cursor) -> None:
        lanes, code = at.lanes, at.lanes.code
        total = _Total(lanes, lanes.const(kind, identity))
        with code.loop(i64(0), at.numbers[0]) as index:
            place = code.at(MEMORY[source.dtype], at.places[0], code.mul(index, at.numbers[1]))
            total.fold(op, lanes.convert(lanes.load(place, source.dtype), kind))
            place = code.at(MEMORY[target.dtype], at.places[1], code.mul(index, at.numbers[2]))
            # FP16 and BF16 are rounded from FP32, as the interpreter does.
            rounded = lanes.convert(total.get(), FP32) if kind is FP64 else total.get()
            lanes.store(lanes.convert(rounded, target.dtype), place)

    walk(
        e, (op.name, kind), extents,
        [Walked(source, tuple(near)), Walked(target, tuple(far))], body,
        written=[1], numbers=[count, step, stride], weight=2,
    )  # fmt: skip
