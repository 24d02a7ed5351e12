"""What every step of a program shares: slots, integers, valid boxes, and who copies.

A run keeps its values in a frame, a list with one slot per value of the graph.  Each node becomes a
step, a function that reads and writes slots; whatever does not depend on the run is worked out
while the step is made, so that a loop body does nothing but its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import InternalError
from pypto.interp.integers import Frame, Integers, Number, Numbers
from pypto.ir import faults
from pypto.ir.graph import Node, Value
from pypto.ir.sym import Expr, SymInt, expr, sub

Step = Callable[[Frame], None]
Get = Callable[[Frame], Any]
Box = tuple[slice, ...]


class Plan:
    """Slots and expressions of one graph while its program is made.

    `watched`, `beside` and `places` are where a plan that checks what steps do comes in; here they
    add nothing, so that a program that is not checked has no trace of them.
    """

    def __init__(self) -> None:
        self.slots: dict[Value, int] = {}
        self.size = 0
        self._integers = Integers(self.slot)
        # Where a run that ends in an error leaves the trip of every loop that was open, and the
        # node that was at fault.
        self.trips, self.culprit = self.extra(), self.extra()

    def extra(self) -> int:
        """A slot that belongs to no value."""
        self.size += 1
        return self.size - 1

    def define(self, value: Value) -> int:
        """A slot for a value that is made here."""
        self.slots[value] = slot = self.extra()
        return slot

    def watched(self, node: Node, step: Step) -> Step:
        """The step of a node with what is checked before and behind it."""
        return step

    def places(self, target: Value) -> list[int]:
        """The slots of what travels with a value when a region hands it on."""
        return []

    def beside(self, source: Value | SymInt | None, target: Value) -> list[Get]:
        """What goes into those slots."""
        return []

    def slot(self, value: Value) -> int:
        """The slot of a value that was made before."""
        if value not in self.slots:
            raise InternalError(f"the value {value} is used before it is made")
        return self.slots[value]

    def number(self, x: SymInt) -> Number:
        """A function from the frame to the number of `x`."""
        return self._integers.one(x)

    def numbers(self, items: Sequence[SymInt]) -> Numbers:
        """A function from the frame to a tuple of numbers."""
        return self._integers.many(items)

    def array(self, value: Value) -> Get:
        """A function from the frame to the whole memory of a tensor value."""
        slot = self.slot(value)
        return lambda f: f[slot]

    def valid_array(self, value: Value) -> Get:
        """A function from the frame to the valid box of a tensor value, a view of its memory."""
        slot, type = self.slot(value), value.tensor
        if type.is_full:
            return lambda f: f[slot]
        valid = self.numbers(type.valid)
        return lambda f: f[slot][box(valid(f))]


def static(items: Sequence[SymInt]) -> tuple[int, ...] | None:
    """The numbers, if none depends on the run."""
    if any(isinstance(x, Expr) for x in items):
        return None
    return tuple(x for x in items if isinstance(x, int))


def box(extents: Sequence[int]) -> Box:
    """The index of the leading `extents` elements."""
    return tuple([slice(0, n) for n in extents])


def check_valid(
    plan: Plan, name: str, asked: Sequence[SymInt], limits: Sequence[SymInt]
) -> Step | None:
    """A step that refuses given valid extents beyond their limits; None where none can be."""
    if all(
        expr(n).bounds()[0] >= 0 and sub(limit, n).bounds()[0] >= 0
        for n, limit in zip(asked, limits, strict=True)
    ):
        return None
    numbers, sizes = plan.numbers(asked), plan.numbers(limits)

    def check(f: Frame) -> None:
        faults.check_valid(name, numbers(f), sizes(f))

    return check


def operand(node: Node, name: str) -> Value:
    """The tensor that an argument of a node is."""
    return node.operands[node.attrs[name].index]


def must_copy(source: Value, target: Value) -> bool:
    """Whether handing a value on needs memory of its own: there are two storages, one written."""
    a, b = source.storage, target.storage
    if a is None or b is None:
        raise InternalError(f"a tensor value without storage: {source} or {target}")
    return a is not b and (a.written or b.written)


def fresh(array: np.ndarray) -> np.ndarray:
    """A copy in row-major order, so that it can be reshaped in place."""
    return array.copy(order="C")
