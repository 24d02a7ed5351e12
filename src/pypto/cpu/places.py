"""Ops whose places are read from integer tensors: gathers and scatters.

In: a node of the family INDEX.  Out: code that first looks at all places, so that one outside ends
the run before anything is written, and then moves elements.  Places are taken in row-major order,
so that of equal ones the last wins.  Rows that lie side by side move in vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pypto.cpu.buffers import Mem, number
from pypto.cpu.code import Function, Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import BF16, FP16, FP32, INT64, MEMORY, UINT64, Lane, Lanes
from pypto.cpu.maps import place_number
from pypto.cpu.moves import copy_box
from pypto.cpu.nest import Cursor, Walked, merged, walk
from pypto.cpu.windows import add_box, operand
from pypto.errors import PyptoError
from pypto.ir import faults
from pypto.ir.dtype import DataType, scalar
from pypto.ir.graph import Node, Value
from pypto.ir.op import Slot
from pypto.ir.sym import Expr

# --- checks --------------------------------------------------------------------------------------


def _check(e: Emission, op: str, name: str, places: Mem, extents: Sequence[Reg], size: Reg) -> None:
    """Refuse places that are not 0..size-1."""
    place = e.code.local("i64", first=i64(0))
    first = _first_outside(e, places, extents, size, place)
    _refuse(e, op, name, places.dtype, extents, first, place, size)


def _refuse(
    e: Emission,
    op: str,
    name: str,
    dtype: DataType,
    extents: Sequence[Reg],
    first: Reg,
    place: Reg,
    size: Reg,
) -> None:
    """End the run where `first`, counted in row-major order, is a place outside."""

    def make(found: list[int]) -> PyptoError:
        linear, wrong, limit, *box = found
        at = [int(i) for i in np.unravel_index(linear, box)]
        return faults.out_of_places(
            op, name, at, wrong % 2**64 if dtype is UINT64 else wrong, limit
        )

    numbers = (first, e.code.load("i64", place), size, *extents)
    e.fault(e.code.compare("sge", first, i64(0)), numbers, make)


def _fits(
    e: Emission, op: str, name: str, extents: Sequence[Reg], input: Sequence[Reg], first: int
) -> None:
    """Refuse valid extents beyond those of the tensor that is written, from axis `first` on."""
    for axis, (n, size) in enumerate(zip(extents, input, strict=True), first):

        def make(found: list[int], axis: int = axis) -> PyptoError:
            return faults.past_input(op, name, found[0], axis, found[1])

        known = number(n), number(size)
        if None in known or known[0] > known[1]:  # type: ignore[operator]
            e.fault(e.code.compare("sgt", n, size), (n, size), make)


def _first_outside(e: Emission, places: Mem, extents: Sequence[Reg], size: Reg, place: Reg) -> Reg:
    """The first place that is not 0..size-1, counted in row-major order, and in `place` its value.

    Where there is none, -1.
    """
    axes, (strides,) = merged(e.code, extents, [places.strides])
    near = number(strides[-1]) == 1
    e.cost += 1.0 / e.target.lanes
    key = ("outside", places.dtype, len(axes), near)
    name = e.module.once(
        key, lambda name: _Search(e, name, places.dtype, len(axes), near).function()
    )
    limit = e.code.most(size, i64(0))
    return e.code.call("i64", f"@{name}", places.pointer, place, limit, *axes, *strides)


class _Search:
    """The function that finds the first place outside, while it is written."""

    def __init__(self, e: Emission, name: str, dtype: DataType, rank: int, near: bool) -> None:
        self._module = e.module
        register = e.module.register
        self._places, self._place, self._limit = register("ptr"), register("ptr"), register("i64")
        self._extents = [register("i64") for _ in range(rank)]
        self._strides = [register("i64") for _ in range(rank)]
        given = [self._places, self._place, self._limit, *self._extents, *self._strides]
        self._code = Function(e.module, name, given, result="i64")
        self._dtype = dtype
        self._width = e.target.lanes if near else 1
        self._single, self._wide = e.builder(self._code, 1), e.builder(self._code, self._width)

    def function(self) -> Function:
        self._axis(0, self._places, i64(0))
        self._code.ret(i64(-1))
        return self._code

    def _axis(self, axis: int, pointer: Reg, before: Reg) -> None:
        """Search along an axis; `before` are the places in front, counted in those of this axis."""
        code, count, stride = self._code, self._extents[axis], self._strides[axis]
        before = code.mul(before, count)
        if axis + 1 < len(self._extents):
            with code.loop(i64(0), count) as index:
                inner = code.at(MEMORY[self._dtype], pointer, code.mul(index, stride))
                self._axis(axis + 1, inner, code.add(before, index))
            return
        start = i64(0)
        if self._width > 1:
            whole = code.let("i64", f"and i64 {count}, {-self._width}")
            start = code.scan(
                start, whole, self._width, lambda i: self._outside(self._wide, pointer, i)
            )
        at = code.scan(start, count, 1, lambda i: self._outside(self._single, pointer, i))
        bad, good = self._module.label(), self._module.label()
        code.branch(code.compare("slt", at, count), bad, good)
        code.start(bad)
        code.store(_place(self._single, self._at(pointer, at), self._dtype), self._place)
        code.ret(code.add(before, at))
        code.start(good)

    def _at(self, pointer: Reg, index: Reg) -> Reg:
        """The address of a place of the last axis."""
        stride = i64(1) if self._width > 1 else self._strides[-1]
        return self._code.at(MEMORY[self._dtype], pointer, self._code.mul(index, stride))

    def _outside(self, lanes: Lanes, pointer: Reg, index: Reg) -> Reg:
        # Negative ones are large where the sign is not looked at.
        found = lanes.convert(lanes.load(self._at(pointer, index), self._dtype), UINT64)
        limit = lanes.spread(Lane(self._limit, UINT64))
        return lanes.any(lanes.compare("ge", found, limit))


# --- what all of them share ----------------------------------------------------------------------


def _place(lanes: Lanes, at: Reg, dtype: DataType) -> Reg:
    """The place that stands at an address."""
    return Reg(lanes.convert(lanes.load(at, dtype), INT64).reg, "i64")


def _place_at(e: Emission, places: Mem, index: Sequence[Reg]) -> Reg:
    return _place(e.builder(e.code, 1), e.window(places, index).pointer, places.dtype)


def _without(strides: Sequence[Reg], dim: int) -> tuple[Reg, ...]:
    """Strides along a box in which the place decides about axis `dim`."""
    return tuple(i64(0) if axis == dim else s for axis, s in enumerate(strides))


@contextmanager
def _before(e: Emission, written: Value) -> Iterator[Callable[[Value], Mem]]:
    """Gives operands as they are before a tensor is written: `t.scatter_(0, index, t)`."""
    copies: list[Mem] = []

    def read(value: Value) -> Mem:
        mem = e.mem(value)
        if value.storage is not written.storage:
            return mem
        copies.append(e.take(mem.dtype, value.tensor.shape))
        copy_box(e, e.valid(value), mem, copies[-1])
        return copies[-1]

    yield read
    for mem in copies:
        e.drop(mem)


@contextmanager
def _total(e: Emission, value: Value, target: Mem, accumulate: bool) -> Iterator[Mem]:
    """The memory to write or add to: FP32 for the narrow floats, whose sum is rounded once."""
    if not accumulate or target.dtype not in (FP16, BF16):
        yield target
        return
    extents = e.valid(value)
    wide = e.take(FP32, value.tensor.shape)
    _convert(e, extents, target, wide)
    yield wide
    _convert(e, extents, wide, target)
    e.drop(wide)


def _convert(e: Emission, extents: Sequence[Reg], source: Mem, target: Mem) -> None:
    def body(at: Cursor) -> None:
        at.store(1, at.lanes.convert(at.load(0), target.dtype))

    tensors = [Walked(source, source.strides), Walked(target, target.strides)]
    walk(e, "convert", extents, tensors, body, written=[1])


# --- single elements -----------------------------------------------------------------------------


def _gather(e: Emission, node: Node) -> None:
    value, index, result = operand(node, "input"), operand(node, "index"), node.result
    source, places, dim = e.mem(value), e.mem(index), node.attrs["dim"]
    extents = e.valid(result)
    _check(e, "gather", "index", places, extents, e.valid(value)[dim])
    target = e.make(result)

    def body(at: Cursor) -> None:
        lanes, code = at.lanes, at.lanes.code
        away = code.mul(_place(lanes, at.places[1], places.dtype), at.numbers[0])
        where = code.at(MEMORY[source.dtype], at.places[0], away)
        at.store(2, lanes.load(where, source.dtype))

    tensors = [
        Walked(source, _without(source.strides, dim)),
        Walked(places, places.strides),
        Walked(target, target.strides),
    ]
    walk(
        e, "gather", extents, tensors, body,
        written=[2], numbers=[source.strides[dim]], single=True, weight=e.target.lanes,
    )  # fmt: skip


def _scatter(e: Emission, node: Node) -> None:
    value, index, result = operand(node, "input"), operand(node, "index"), node.result
    dim, given, reduce = node.attrs["dim"], node.attrs["src"], node.attrs["reduce"]
    extents, sizes = list(e.valid(index)), e.valid(value)
    src = node.operands[given.index] if isinstance(given, Slot) else None
    if src is not None:
        extents = [e.code.least(a, b) for a, b in zip(extents, e.valid(src), strict=True)]
    _check(e, "scatter_", "index", e.mem(index), extents, sizes[dim])
    _fits(e, "scatter_", "index", extents[:dim], sizes[:dim], 0)
    _fits(e, "scatter_", "index", extents[dim + 1 :], sizes[dim + 1 :], dim + 1)
    if node.op.writes is None:
        target = e.make(result)
        copy_box(e, sizes, e.mem(value), target)
    else:
        target = e.bind(result, e.mem(value))
    with _before(e, result) as read, _total(e, value, target, reduce is not None) as total:
        places = read(index)
        source, constant = _source(e, given, target.dtype, None if src is None else read(src))
        tensors = [
            Walked(total, _without(total.strides, dim)),
            Walked(places, places.strides),
        ]
        if source is not None:
            strides = source.strides or (i64(0),) * len(extents)
            tensors.append(Walked(source, strides))

        def body(at: Cursor) -> None:
            lanes, code = at.lanes, at.lanes.code
            away = code.mul(_place(lanes, at.places[1], places.dtype), at.numbers[0])
            where = code.at(MEMORY[total.dtype], at.places[0], away)
            new = lanes.const(target.dtype, constant) if source is None else at.load(2)
            new = lanes.convert(new, total.dtype)
            if reduce is not None:
                old = lanes.load(where, total.dtype)
                new = lanes.add(old, new) if reduce == "add" else lanes.mul(old, new)
            lanes.store(new, where)

        walk(
            e, ("scatter", reduce, target.dtype, repr(constant)), extents, tensors, body,
            written=[0], numbers=[total.strides[dim]], single=True, weight=e.target.lanes,
        )  # fmt: skip


def _source(e: Emission, given: Any, dtype: DataType, mem: Mem | None) -> tuple[Mem | None, Any]:
    """What is scattered: elements in memory, or one number that is known now."""
    if mem is not None:
        return mem, None
    if isinstance(given, Expr):
        return place_number(e, given, dtype), None
    if isinstance(given, np.generic):
        return None, given.astype(dtype.numpy)
    return None, scalar(given, dtype)


# --- rows ----------------------------------------------------------------------------------------


def _update(e: Emission, node: Node) -> None:
    """Rows of a cache, each of which belongs to one place of `index`."""
    value, src, index = (operand(node, name) for name in ("input", "src", "index"))
    if value.tensor.rank == 2:
        _update_rows(e, node, value, src, index)
    else:
        _update_blocks(e, node, value, src, index)
    e.bind(node.result, e.mem(value))


def _update_rows(e: Emission, node: Node, value: Value, src: Value, index: Value) -> None:
    code, width, places = e.code, i64(node.attrs["width"]), e.mem(index)
    sizes, (rows, columns), (b, s) = e.valid(value), e.valid(src), e.valid(index)

    def used(i: Reg) -> Reg:
        """How many places of row i have a row of `src`."""
        return code.most(i64(0), code.least(s, code.sub(rows, code.mul(i, width))))

    first, place = code.local("i64", first=i64(0)), code.local("i64", first=i64(0))
    code.store(i64(-1), first)
    # Behind the first one, rows are not looked at.
    with e.loop(b) as i, code.when(code.compare("slt", code.load("i64", first), i64(0))):
        row = e.window(places, [i, i64(0)])._replace(strides=places.strides[1:])
        at = _first_outside(e, row, [used(i)], sizes[0], place)
        with code.when(code.compare("sge", at, i64(0))):
            code.store(code.add(code.mul(i, s), at), first)
    found = code.load("i64", first)
    _refuse(e, "scatter_update", "index", places.dtype, (b, s), found, place, sizes[0])
    _fits(e, "scatter_update", "src", [columns], sizes[1:], 1)
    target = e.mem(value)
    with _before(e, value) as read:
        places, source = read(index), read(src)
        with e.loop(b) as i, e.loop(used(i)) as j:
            near = e.window(source, [code.add(code.mul(i, width), j), i64(0)])
            far = e.window(target, [_place_at(e, places, [i, j]), i64(0)])
            copy_box(e, [i64(1), columns], near, far)


def _update_blocks(e: Emission, node: Node, value: Value, src: Value, index: Value) -> None:
    code, sizes, given = e.code, e.valid(value), e.valid(src)
    b, s = (code.least(a, n) for a, n in zip(e.valid(index), given[:2], strict=True))
    size = sizes[1]
    _check(e, "scatter_update", "index", e.mem(index), (b, s), code.mul(sizes[0], size))
    _fits(e, "scatter_update", "src", given[2:], sizes[2:], 2)
    target = e.mem(value)
    with _before(e, value) as read:
        places, source = read(index), read(src)
        with e.loop(b) as i, e.loop(s) as j:
            row = _place_at(e, places, [i, j])
            block, rest = _split(e, row, size)
            near = e.window(source, [i, j, i64(0), i64(0)])
            far = e.window(target, [block, rest, i64(0), i64(0)])
            copy_box(e, [i64(1), i64(1), *given[2:]], near, far)


def _split(e: Emission, row: Reg, size: Reg) -> tuple[Reg, Reg]:
    """The block of a row that is not negative, and where it stands there."""
    return (
        e.code.let("i64", f"sdiv i64 {row}, {size}"),
        e.code.let("i64", f"srem i64 {row}, {size}"),
    )


def _put(e: Emission, node: Node) -> None:
    value, values = operand(node, "input"), operand(node, "values")
    indices = [node.operands[slot.index] for slot in node.attrs["indices"]]
    code, sizes, k = e.code, e.valid(value), len(indices)
    count, *extents = e.valid(values)
    for index in indices:
        count = code.least(count, e.valid(index)[0])
    for axis, index in enumerate(indices):
        _check(e, "index_put_", f"indices[{axis}]", e.mem(index), [count], sizes[axis])
    _fits(e, "index_put_", "values", extents, sizes[k:], 1)
    target = e.mem(value)
    write = add_box if node.attrs["accumulate"] else copy_box
    inner = [i64(0)] * len(extents)
    with (
        _before(e, value) as read,
        _total(e, value, target, node.attrs["accumulate"]) as total,
    ):
        places, source = [read(index) for index in indices], read(values)
        with e.loop(count) as j:
            near = e.window(source, [j, *inner])
            far = e.window(total, [*(_place_at(e, p, [j]) for p in places), *inner])
            write(
                e, extents,
                near._replace(strides=source.strides[1:]),
                far._replace(strides=total.strides[k:]),
            )  # fmt: skip
    e.bind(node.result, target)


# --- rows of paged tables ------------------------------------------------------------------------


def _pages(e: Emission, node: Node, op: str, source: Value, target: Mem, columns: Reg) -> None:
    """Copy the rows whose logical places are given, the blocks of which a table names."""
    code, block = e.code, i64(node.attrs["block_size"])
    places, table = operand(node, "indices"), operand(node, "block_table")
    logical, blocks = (_flat(e.mem(v)) for v in (places, table))
    count, named = (code.mul(*e.valid(v)) for v in (places, table))
    _check(e, op, "indices", logical, [count], code.mul(named, block))
    rows = e.take(INT64, places.tensor.shape[1:])
    with e.loop(count) as t:
        which, rest = _split(e, _place_at(e, logical, [t]), block)
        # The table may hold anything: what overflows is refused below like all other rows.
        start = code.let("i64", f"mul i64 {_place_at(e, blocks, [which])}, {block}")
        code.store(code.let("i64", f"add i64 {start}, {rest}"), e.window(rows, [t]).pointer)
    _check(e, op, "block_table row", rows, [count], e.valid(source)[0])
    with e.loop(count) as t:
        near = e.window(e.mem(source), [_place_at(e, rows, [t]), i64(0)])
        copy_box(e, [i64(1), columns], near, e.window(target, [t, i64(0)]))
    e.drop(rows)


def _flat(mem: Mem) -> Mem:
    """The only row of a table."""
    return mem._replace(strides=mem.strides[1:])


def _pages_vector(e: Emission, node: Node) -> None:
    source = operand(node, "param")
    _pages(e, node, "gather_in_ub", source, e.make(node.result), e.valid(source)[1])


def _pages_cube(e: Emission, node: Node) -> None:
    source, target = operand(node, "src"), e.make(node.result)
    columns = e.code.least(e.valid(source)[1], i64(node.attrs["size"]))
    if node.attrs["is_trans"]:
        target = target._replace(strides=target.strides[::-1])
    _pages(e, node, "gather_in_l1", source, target, columns)


PLACES: dict[str, Callable[[Emission, Node], None]] = {
    "gather": _gather,
    "scatter": _scatter,
    "scatter_": _scatter,
    "scatter_update": _update,
    "index_put_": _put,
    "experimental.gather_in_ub": _pages_vector,
    "experimental.gather_in_l1": _pages_cube,
}
