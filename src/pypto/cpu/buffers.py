"""Where tensors lie while a kernel runs: arguments of the call, or places in an arena.

A `Mem` says where the first element of a tensor stands and how far apart neighbours are on each
axis; views, reshapes and windows of a destination are other `Mem`s over the same memory.  Memory of
the kernel's own is given out while code is emitted, which follows the order of execution, so that
an arena needs no bookkeeping when the kernel runs.  What only the run knows the size of comes from
the process; it is kept for the next use, and given back where the function ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pypto.cpu.code import Reg, i64
from pypto.ir.dtype import DataType

# A line of the cache, and a register of the widest machine.
ALIGN = 64


class Room:
    """Memory whose size is known only at run time, kept from one use to the next.

    `block` and `size` are variables of the function that uses it: the block that the process gave,
    or null, and for how many bytes.
    """

    __slots__ = ("block", "size", "uses")

    def __init__(self, block: Reg, size: Reg) -> None:
        self.block = block
        self.size = size
        self.uses = 0


class Root:
    """A piece of an arena, in use as long as tensors lie in it."""

    __slots__ = ("offset", "size", "uses")

    def __init__(self, offset: int, size: int) -> None:
        self.offset = offset
        self.size = size
        self.uses = 0


class Mem(NamedTuple):
    """A tensor in memory: its first element, and strides in elements."""

    pointer: Reg
    strides: tuple[Reg, ...]
    dtype: DataType
    root: Root | Room | None = None


class Arena:
    """Gives out memory of one function's own; `peak` is how much it needs."""

    def __init__(self) -> None:
        self.peak = 0
        self.rooms: list[Room] = []
        self._empty: list[Room] = []
        self._free: list[tuple[int, int]] = []  # offset and size, by offset

    def take(self, size: int) -> Root:
        """The first gap that is large enough."""
        size = max(ALIGN, -(-size // ALIGN) * ALIGN)
        for at, (offset, room) in enumerate(self._free):
            if room >= size:
                self._free[at : at + 1] = [(offset + size, room - size)] if room > size else []
                return Root(offset, size)
        # The last gap grows if it reaches the end.
        offset = self.peak
        if self._free and sum(self._free[-1]) == self.peak:
            offset = self._free.pop()[0]
        self.peak = offset + size
        return Root(offset, size)

    def room(self, make: Callable[[], Room]) -> Room:
        """A room that nothing lies in; `make` makes another one."""
        if self._empty:
            return self._empty.pop()
        self.rooms.append(make())
        return self.rooms[-1]

    def give_back(self, root: Root | Room) -> None:
        if isinstance(root, Room):
            self._empty.append(root)
            return
        gaps = sorted([*self._free, (root.offset, root.size)])
        merged: list[tuple[int, int]] = []
        for offset, size in gaps:
            if merged and sum(merged[-1]) == offset:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((offset, size))
        self._free = merged


def number(reg: Reg) -> int | None:
    """The value of a constant, None for what is known only at run time."""
    return None if reg.startswith("%") else int(reg)


def numbers(regs: Sequence[Reg]) -> tuple[int, ...] | None:
    """The values, if all are constants."""
    found = tuple(number(r) for r in regs)
    return None if None in found else found  # type: ignore[return-value]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor whose elements lie one after the other."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def restrided(
    shape: Sequence[int], strides: Sequence[Reg], new: Sequence[int]
) -> tuple[Reg, ...] | None:
    """The strides of the same elements in another shape, None where there are none.

    Groups of axes with the same number of elements are matched from the left; inside a group of the
    old shape the elements must lie one after the other at the stride of its last axis.
    """
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    made: list[Reg] = []
    at = 0
    wide = [n for n in new if n != 1]
    groups: list[list[Reg]] = []
    position = 0
    while position < len(wide):
        if at >= len(old):
            return None
        first, left, right, count = at, old[at][0], wide[position], 1
        at += 1
        while left != right:
            if left < right:
                if at >= len(old):
                    return None
                outer, inner = number(old[at - 1][1]), number(old[at][1])
                if outer is None or inner is None or outer != inner * old[at][0]:
                    return None
                left *= old[at][0]
                at += 1
            else:
                if position + count >= len(wide):
                    return None
                right *= wide[position + count]
                count += 1
        base = number(old[at - 1][1])
        if base is None:
            if count > 1 or at - first > 1:
                return None
            groups.append([old[at - 1][1]])
        else:
            inner_shape = wide[position : position + count]
            groups.append([i64(base * s) for s in row_major(inner_shape)])
        position += count
    found = iter([s for group in groups for s in group])
    made = [i64(0) if n == 1 else next(found) for n in new]
    return tuple(made)
