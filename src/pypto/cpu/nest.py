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

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pypto.cpu.buffers import Mem, number
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.lanes import MEMORY, Lane, Lanes
from pypto.cpu.target import Target


class Walked(NamedTuple):
    """A tensor of a nest: its strides are those of the box's axes."""

    mem: Mem
    strides: tuple[Reg, ...]


class Cursor:
    """One vector of the box: loads and stores the walked tensors there."""

    def __init__(
        self, lanes: Lanes, places: list[Reg], repeated: dict[int, Lane], kinds: list[Mem]
    ) -> None:
        self.lanes = lanes
        self._places = places
        self._repeated = repeated
        self._kinds = kinds

    def load(self, k: int) -> Lane:
        """The elements of tensor `k`, as they are stored."""
        if k in self._repeated:
            return self.lanes.spread(self._repeated[k])
        return self.lanes.load(self._places[k], self._kinds[k].dtype)

    def store(self, k: int, lane: Lane) -> None:
        self.lanes.store(lane, self._places[k])


Body = Callable[[Cursor], None]


class Form(NamedTuple):
    """What functions of nests differ in: extents and strides, None where known only at run time."""

    key: object
    extents: tuple[int | None, ...]
    strides: tuple[tuple[int | None, ...], ...]
    written: frozenset[int]
    exact: bool


def walk(
    code: Function,
    target: Target,
    builder: type[Lanes],
    key: object,
    extents: Sequence[Reg],
    tensors: Sequence[Walked],
    body: Body,
    written: frozenset[int] = frozenset(),
    exact: bool = False,
    weight: int = 1,
) -> None:
    """Call the function that runs `body` over a box; `key` tells bodies apart.

    `written` are the tensors that it stores to.  `weight` is how many vectors the body keeps alive, which limits how many are interleaved.
    """
    if any(number(n) == 0 for n in extents):
        return
    axes, strides = _merged(extents, [t.strides for t in tensors])
    form = Form(
        (key, tuple(t.mem.dtype for t in tensors)),
        tuple(number(n) for n in axes),
        tuple(tuple(number(s) for s in row) for row in strides),
        written,
        exact,
    )
    kinds = [t.mem for t in tensors]
    name = code.module.once(
        form, lambda name: _function(code.module, name, target, builder, form, kinds, body, weight)
    )
    dynamic = [n for n in axes if number(n) is None]
    dynamic += [s for row in strides for s in row if number(s) is None]
    code.call("void", f"@{name}", *(t.mem.pointer for t in tensors), *dynamic)


def _merged(
    extents: Sequence[Reg], strides: Sequence[Sequence[Reg]]
) -> tuple[list[Reg], list[list[Reg]]]:
    """The same box with as few axes as can be told now."""
    kept = [a for a, n in enumerate(extents) if number(n) != 1]
    axes = [extents[a] for a in kept]
    rows = [[row[a] for a in kept] for row in strides]
    at = 0
    while at + 1 < len(axes):
        inner = number(axes[at + 1])
        outer = number(axes[at])
        joined = inner is not None and outer is not None
        for row in rows:
            far, near = number(row[at]), number(row[at + 1])
            if far is None or near is None or inner is None or far != near * inner:
                joined = False
        if joined:
            axes[at : at + 2] = [i64(outer * inner)]  # type: ignore[operator]
            for row in rows:
                row[at : at + 2] = [row[at + 1]]
        else:
            at += 1
    if not axes:
        return [i64(1)], [[i64(0)] for _ in rows]
    return axes, rows


def _function(
    module: Module,
    name: str,
    target: Target,
    builder: type[Lanes],
    form: Form,
    kinds: list[Mem],
    body: Body,
    weight: int,
) -> Function:
    pointers = [Reg(module.register(), "ptr") for _ in kinds]
    dynamic: list[Reg] = []

    def given(n: int | None) -> Reg:
        if n is not None:
            return i64(n)
        dynamic.append(Reg(module.register(), "i64"))
        return dynamic[-1]

    extents = [given(n) for n in form.extents]
    strides = [[given(s) for s in row] for row in form.strides]
    code = Function(module, name, [*pointers, *dynamic])
    _axes(code, target, builder, form, kinds, body, weight, extents, strides, pointers)
    code.ret()
    return code


def _axes(
    code: Function,
    target: Target,
    builder: type[Lanes],
    form: Form,
    kinds: list[Mem],
    body: Body,
    weight: int,
    extents: list[Reg],
    strides: list[list[Reg]],
    pointers: list[Reg],
) -> None:
    if len(extents) > 1:
        with code.loop(i64(0), extents[0]) as index:
            inner = [
                code.at(MEMORY[m.dtype], p, code.mul(index, row[0]))
                for m, p, row in zip(kinds, pointers, strides, strict=True)
            ]
            rest = [row[1:] for row in strides]
            _axes(code, target, builder, form, kinds, body, weight, extents[1:], rest, inner)
        return
    steps = [row[0] for row in strides]
    vectors = all(number(s) in (0, 1) for s in steps)
    count = extents[0]
    single = builder(code, 1)
    repeated: dict[int, Lane] = {}

    def run(width: int, index: Reg) -> None:
        places = [
            code.at(MEMORY[m.dtype], p, code.mul(index, s))
            for m, p, s in zip(kinds, pointers, steps, strict=True)
        ]
        body(Cursor(builder(code, width), places, repeated, kinds))

    if not vectors:
        with code.loop(i64(0), count) as index:
            run(1, index)
        return
    widest = target.lanes * max(1, min(4, target.registers // (4 * weight)))
    # A repeated element is read once a row; an empty row has none to read.
    with code.when(code.compare("sgt", count, i64(0))):
        for k, (mem, step) in enumerate(zip(kinds, steps, strict=True)):
            if number(step) == 0 and k not in form.written:
                repeated[k] = single.load(pointers[k], mem.dtype)
        _vectors(code, run, count, target.lanes, widest, form.exact)


def _vectors(
    code: Function,
    run: Callable[[int, Reg], None],
    count: Reg,
    lanes: int,
    widest: int,
    exact: bool,
) -> None:
    """One row in vectors."""
    fixed = number(count)
    if fixed is not None:
        width = next(w for w in _widths(widest) if w <= fixed)
        _row(code, run, count, width, exact)
        return
    done = code.module.label()
    for width in (widest, lanes) if widest > lanes else (lanes,):
        wide, narrower = code.module.label(), code.module.label()
        code.branch(code.compare("sge", count, i64(width)), wide, narrower)
        code.start(wide)
        _row(code, run, count, width, exact)
        code.jump(done)
        code.start(narrower)
    with code.loop(i64(0), count) as index:
        run(1, index)
    code.jump(done)
    code.start(done)


def _widths(widest: int) -> list[int]:
    return [widest >> k for k in range(widest.bit_length())]


def _row(
    code: Function, run: Callable[[int, Reg], None], count: Reg, width: int, exact: bool
) -> None:
    """A row of at least `width` elements."""
    fixed = number(count)
    if fixed is not None and fixed % width == 0:
        with code.loop(i64(0), count, width) as index:
            run(width, index)
        return
    last = code.sub(count, i64(width))
    if exact:
        whole = (
            code.let("i64", f"and i64 {count}, {-width}")
            if fixed is None
            else i64(fixed - fixed % width)
        )
        with code.loop(i64(0), whole, width) as index:
            run(width, index)
        with code.loop(whole, count) as index:
            run(1, index)
        return
    with code.loop(i64(0), count, width) as index:
        run(width, code.least(index, last))
