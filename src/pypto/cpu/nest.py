"""Loops over a box of elements: the one shape of code behind all ops that go element by element.

In: the extents of a box, tensors that it walks with their strides (0 where one element is
repeated), and what happens to one vector of elements.  Out: a call of a function that does it,
emitted once for all boxes of the same form.  Axes of one element go, axes that lie behind each
other in every tensor merge, the innermost one runs in vectors.

The last vector of a row ends with the row and overlaps the one before it: no element needs code of
its own.  Where a tensor is read and written (`exact`) no element may be done twice, and the rest of
a row runs one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pypto.cpu.buffers import Mem, number
from pypto.cpu.code import Function, Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import MEMORY, Lane, Lanes
from pypto.ir.dtype import DataType


class Walked(NamedTuple):
    """A tensor of a nest: its strides are those of the box's axes."""

    mem: Mem
    strides: tuple[Reg, ...]


class Cursor(NamedTuple):
    """One vector of the box: where each tensor stands there, and the numbers of the nest."""

    lanes: Lanes
    places: list[Reg]
    numbers: list[Reg]
    dtypes: tuple[DataType, ...]
    repeated: dict[int, Lane]

    def load(self, k: int) -> Lane:
        """The elements of tensor `k`, as they are stored."""
        if k in self.repeated:
            return self.lanes.spread(self.repeated[k])
        return self.lanes.load(self.places[k], self.dtypes[k])

    def store(self, k: int, lane: Lane) -> None:
        self.lanes.store(lane, self.places[k])


# What an extent is taken to be where it is known only at run time.
_SOME = 32
Body = Callable[[Cursor], None]


class Form(NamedTuple):
    """What functions of nests differ in: integers are None where known only at run time."""

    key: object
    dtypes: tuple[DataType, ...]
    extents: tuple[int | None, ...]
    strides: tuple[tuple[int | None, ...], ...]
    numbers: tuple[int | None, ...]
    written: frozenset[int]
    single: bool
    exact: bool


def walk(
    e: Emission,
    key: object,
    extents: Sequence[Reg],
    tensors: Sequence[Walked],
    body: Body,
    *,
    written: Sequence[int],
    numbers: Sequence[Reg] = (),
    single: bool = False,
    exact: bool = False,
    weight: int = 1,
) -> None:
    """Call the function that runs `body` over a box; `key` tells bodies apart.

    `written` are the tensors that it stores to; `numbers` are integers that it needs.  `single`
    gives it one element at a time.  `weight` is how many vectors it keeps alive, which limits how
    many are interleaved.
    """
    if any(number(n) == 0 for n in extents):
        return
    e.cost += estimate(extents) * weight / e.target.lanes
    axes, strides = merged(e.code, extents, [t.strides for t in tensors])
    form = Form(
        key,
        tuple(t.mem.dtype for t in tensors),
        tuple(number(n) for n in axes),
        tuple(tuple(number(s) for s in row) for row in strides),
        tuple(number(n) for n in numbers),
        frozenset(written),
        single,
        exact,
    )
    name = e.module.once(form, lambda name: _Nest(e, form, body, weight).function(name))
    given = [*axes, *(s for row in strides for s in row), *numbers]
    dynamic = [n for n in given if number(n) is None]
    e.code.call("void", f"@{name}", *(t.mem.pointer for t in tensors), *dynamic)


def estimate(extents: Sequence[Reg]) -> int:
    """About how many elements a box has."""
    return math.prod(number(n) or _SOME for n in extents)


def merged(
    code: Function, extents: Sequence[Reg], strides: Sequence[Sequence[Reg]]
) -> tuple[list[Reg], list[list[Reg]]]:
    """The same box with as few axes as can be told now."""
    kept = [a for a, n in enumerate(extents) if number(n) != 1]
    axes = [extents[a] for a in kept]
    rows = [[row[a] for a in kept] for row in strides]
    at = 0
    while at + 1 < len(axes):
        inner = number(axes[at + 1])
        joined = inner is not None
        for row in rows:
            far, near = number(row[at]), number(row[at + 1])
            if far is None or near is None or inner is None or far != near * inner:
                joined = False
        if joined:
            axes[at : at + 2] = [code.mul(axes[at], axes[at + 1])]
            for row in rows:
                row[at : at + 2] = [row[at + 1]]
        else:
            at += 1
    if not axes:
        return [i64(1)], [[i64(0)] for _ in rows]
    return axes, rows


class _Nest:
    """The function of one form while it is written."""

    def __init__(self, e: Emission, form: Form, body: Body, weight: int) -> None:
        self._module = e.module
        self._builder = e.builder
        self._lanes = e.target.lanes
        self._widest = self._lanes * max(1, min(4, e.target.registers // (4 * weight)))
        self._form = form
        self._body = body
        self._dynamic: list[Reg] = []

    def function(self, name: str) -> Function:
        form = self._form
        pointers = [self._module.register("ptr") for _ in form.dtypes]
        extents = [self._given(n) for n in form.extents]
        strides = [[self._given(s) for s in row] for row in form.strides]
        self._numbers = [self._given(n) for n in form.numbers]
        self._code = Function(self._module, name, [*pointers, *self._dynamic])
        self._axes(extents, strides, pointers)
        self._code.ret()
        return self._code

    def _given(self, n: int | None) -> Reg:
        if n is not None:
            return i64(n)
        self._dynamic.append(self._module.register("i64"))
        return self._dynamic[-1]

    def _moved(self, pointers: list[Reg], index: Reg, steps: list[Reg]) -> list[Reg]:
        code = self._code
        return [
            code.at(MEMORY[dtype], p, code.mul(index, step))
            for dtype, p, step in zip(self._form.dtypes, pointers, steps, strict=True)
        ]

    def _axes(self, extents: list[Reg], strides: list[list[Reg]], pointers: list[Reg]) -> None:
        steps = [row[0] for row in strides]
        if len(extents) == 1:
            self._innermost(extents[0], steps, pointers)
            return
        with self._code.loop(i64(0), extents[0]) as index:
            inner = self._moved(pointers, index, steps)
            self._axes(extents[1:], [row[1:] for row in strides], inner)

    def _innermost(self, count: Reg, steps: list[Reg], pointers: list[Reg]) -> None:
        code, form = self._code, self._form
        repeated: dict[int, Lane] = {}

        def run(width: int, index: Reg) -> None:
            lanes = self._builder(code, width)
            places = self._moved(pointers, index, steps)
            self._body(Cursor(lanes, places, self._numbers, form.dtypes, repeated))

        if form.single or not all(number(s) in (0, 1) for s in steps):
            with code.loop(i64(0), count) as index:
                run(1, index)
            return
        # A repeated element is read once a row; an empty row has none to read.
        with code.when(code.compare("sgt", count, i64(0))):
            single = self._builder(code, 1)
            for k, step in enumerate(steps):
                if number(step) == 0 and k not in form.written:
                    repeated[k] = single.load(pointers[k], form.dtypes[k])
            self._vectors(count, run)

    def _vectors(self, count: Reg, run: Callable[[int, Reg], None]) -> None:
        """One row."""
        code, fixed = self._code, number(count)
        if fixed is not None:
            width = self._widest
            while width > fixed:
                width //= 2
            self._row(count, width, run)
            return
        done = code.module.label()
        for width in dict.fromkeys((self._widest, self._lanes)):
            wide, narrower = code.module.label(), code.module.label()
            code.branch(code.compare("sge", count, i64(width)), wide, narrower)
            code.start(wide)
            self._row(count, width, run)
            code.jump(done)
            code.start(narrower)
        with code.loop(i64(0), count) as index:
            run(1, index)
        code.jump(done)
        code.start(done)

    def _row(self, count: Reg, width: int, run: Callable[[int, Reg], None]) -> None:
        """A row of at least `width` elements."""
        code, fixed = self._code, number(count)
        if fixed is not None and fixed % width == 0:
            with code.loop(i64(0), count, width) as index:
                run(width, index)
        elif self._form.exact:
            whole = code.let("i64", f"and i64 {count}, {-width}")
            with code.loop(i64(0), whole, width) as index:
                run(width, index)
            with code.loop(whole, count) as index:
                run(1, index)
        else:
            last = code.sub(count, i64(width))
            with code.loop(i64(0), count, width) as index:
                run(width, code.least(index, last))
