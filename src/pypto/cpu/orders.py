"""Ops that order the elements of rows: the best k of each.

In: a node of the family SORT.  Out: code that keeps the best k elements of a row in a heap, the
worst of them on top, which the others must beat, and sorts them in the end.  An element and its
place become one integer, larger where the element is better, so that equal elements keep the order
of their places and NaN come last.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.cpu.buffers import number
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import INT32, INT64, MEMORY, UINT32, Lane, Lanes
from pypto.cpu.nest import Cursor, Walked, estimate, walk
from pypto.ir.graph import Node

_LEAST = -(2**31)
# The half of a word that holds the place.
_LOW = i64(0xFFFFFFFF)


def _best(e: Emission, node: Node) -> None:
    value, largest = node.operands[0], node.attrs["largest"]
    source, extents = e.mem(value), e.valid(value)
    values, places = (e.make(result) for result in node.results)
    heap = e.take(INT64, [node.attrs["k"]])
    *rows, count = extents
    kept = e.code.least(count, i64(node.attrs["k"]))
    near = number(source.strides[-1]) == 1
    e.cost += estimate(extents)

    def body(at: Cursor) -> None:
        row = _Row(e, at, largest, near)
        row.fill()
        row.improve()
        row.sort()
        row.store()

    box = [mem.strides[:-1] or (i64(0),) for mem in (source, values, places)]
    tensors = [Walked(mem, s) for mem, s in zip((source, values, places), box, strict=True)]
    tensors.append(Walked(heap, (i64(0),) * len(box[0])))
    walk(
        e, ("topk", largest, near), rows or [i64(1)], tensors, body,
        written=[1, 2, 3], numbers=[count, kept, source.strides[-1]], single=True,
    )  # fmt: skip
    e.drop(heap)


class _Row:
    """The code for one row."""

    def __init__(self, e: Emission, at: Cursor, largest: bool, near: bool) -> None:
        self._at = at
        self._code = at.lanes.code
        self._wide = e.builder(self._code, e.target.lanes if near else 1)
        self._largest = largest
        self._count, self._kept, self._step = at.numbers
        self._heap = at.places[3]
        self._sift = f"@{e.module.once('sift', lambda name: _sift(e.module, name))}"

    def fill(self) -> None:
        """The first elements are the best ones so far."""
        code = self._code
        with code.loop(i64(0), self._kept) as index:
            code.store(self._word(index), self._slot(index))
        half = code.let("i64", f"lshr i64 {self._kept}, 1")
        with code.loop(i64(0), half) as index:
            root = code.sub(code.sub(half, i64(1)), index)
            moving = code.load("i64", self._slot(root))
            code.call("void", self._sift, self._heap, root, self._kept, moving)

    def improve(self) -> None:
        """Each other one takes the place of the worst that is kept, if it is better."""
        code, wide, single = self._code, self._wide, self._at.lanes
        at = code.local("i64")
        code.store(self._kept, at)
        # Nothing is kept of an empty row, and nothing is left of it either.
        with code.repeat(lambda: code.compare("slt", code.load("i64", at), self._count)):
            begin = code.load("i64", at)
            top = code.let("i64", f"ashr i64 {code.load('i64', self._heap)}, 32")
            worst = single.convert(Lane(top, INT64), INT32)
            if wide.width > 1:
                rest = code.let("i64", f"and i64 {code.sub(self._count, begin)}, {-wide.width}")
                begin = code.scan(
                    begin, code.add(begin, rest), wide.width, lambda i: self._beats(wide, i, worst)
                )
            found = code.scan(begin, self._count, 1, lambda i: self._beats(single, i, worst))
            with code.when(code.compare("slt", found, self._count)):
                word = self._word(found)
                code.call("void", self._sift, self._heap, i64(0), self._kept, word)
            code.store(code.add(found, i64(1)), at)

    def sort(self) -> None:
        """The worst one goes behind all others, then the worst of those."""
        code = self._code
        with code.loop(i64(1), self._kept) as index:
            last = code.sub(self._kept, index)
            moving = code.load("i64", self._slot(last))
            code.store(code.load("i64", self._heap), self._slot(last))
            code.call("void", self._sift, self._heap, i64(0), last, moving)

    def store(self) -> None:
        code, at, lanes = self._code, self._at, self._at.lanes
        with code.loop(i64(0), self._kept) as index:
            flipped = code.let("i64", f"xor i64 {code.load('i64', self._slot(index))}, -1")
            place = code.let("i64", f"and i64 {flipped}, {_LOW}")
            element = lanes.load(self._element(place), at.dtypes[0])
            lanes.store(element, code.at(MEMORY[at.dtypes[1]], at.places[1], index))
            short = lanes.convert(Lane(place, INT64), INT32)
            lanes.store(short, code.at(MEMORY[INT32], at.places[2], index))

    def _slot(self, index: Reg) -> Reg:
        return self._code.at("i64", self._heap, index)

    def _element(self, index: Reg) -> Reg:
        step = self._code.mul(index, self._step)
        return self._code.at(MEMORY[self._at.dtypes[0]], self._at.places[0], step)

    def _beats(self, lanes: Lanes, index: Reg, worst: Lane) -> Reg:
        # An equal one does not: its place is larger.
        found = self._key(lanes, index)
        return lanes.any(lanes.compare("gt", found, lanes.spread(worst)))

    def _word(self, index: Reg) -> Reg:
        """An element and its place as one integer."""
        code, lanes = self._code, self._at.lanes
        key = lanes.convert(self._key(lanes, index), INT64)
        high = code.let("i64", f"shl i64 {key.reg}, 32")
        return code.let("i64", f"or i64 {high}, {code.sub(_LOW, index)}")

    def _key(self, lanes: Lanes, index: Reg) -> Lane:
        """Elements as integers in their order: the better, the larger."""
        x = lanes.widen(lanes.load(self._element(index), self._at.dtypes[0]))
        if x.dtype.is_float:
            # Zeros of both signs are equal.
            x = lanes.add(x, lanes.const(x.dtype, 0.0))
            bits = lanes.cast_bits(x, INT32)
            # Of negative ones the larger magnitude is the lesser number.
            sign = lanes.shift_right(bits, lanes.const(INT32, 31))
            key = lanes.bit_xor(bits, lanes.bit_and(sign, lanes.const(INT32, 0x7FFFFFFF)))
        elif x.dtype is UINT32:
            key = lanes.bit_xor(lanes.convert(x, INT32), lanes.const(INT32, _LEAST))
        else:
            key = lanes.convert(x, INT32)
        if not self._largest:
            key = lanes.flip(key)
        if x.dtype.is_float:
            key = lanes.select(lanes.is_nan(x), lanes.const(INT32, _LEAST), key)
        return key


def _sift(module: Module, name: str) -> Function:
    """Put a word into a heap whose entry `at` is free: lesser words below it move up."""
    heap, at = module.register("ptr"), module.register("i64")
    size, moving = module.register("i64"), module.register("i64")
    code = Function(module, name, [heap, at, size, moving])
    hole, last = code.local("i64"), code.sub(size, i64(1))
    code.store(at, hole)
    lesser: list[Reg] = []

    def below() -> Reg:
        left = code.add(code.mul(code.load("i64", hole), i64(2)), i64(1))
        # Behind the end the last entry is read, and not used.
        a, b = code.least(left, last), code.least(code.add(left, i64(1)), last)
        x, y = (code.load("i64", code.at("i64", heap, k)) for k in (a, b))
        right = code.compare("slt", y, x)
        child = code.let("i64", f"select i1 {right}, i64 {b}, i64 {a}")
        word = code.least(x, y)
        lesser[:] = [child, word]
        inside, moves = code.compare("slt", left, size), code.compare("slt", word, moving)
        return code.let("i1", f"and i1 {inside}, {moves}")

    with code.repeat(below):
        child, word = lesser
        code.store(word, code.at("i64", heap, code.load("i64", hole)))
        code.store(child, hole)
    code.store(moving, code.at("i64", heap, code.load("i64", hole)))
    code.ret()
    return code


ORDERS: dict[str, Callable[[Emission, Node], None]] = {"topk": _best}
