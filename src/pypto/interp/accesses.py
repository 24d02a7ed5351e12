"""Which elements a node reads and which it writes.

In: a node.  Out: one `Access` per tensor that it touches, with a function from the frame to the
elements, in the coordinates of that tensor.  Only what is really touched counts: valid boxes,
places picked by an index, the side that a choice takes.  Every checker starts from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, box, operand
from pypto.ir.faults import Index
from pypto.ir.graph import Node, Value
from pypto.ir.op import Arg, Family, Out, Slot
from pypto.ir.operands import slots

# Elements of a tensor; None where there are none, or where the step itself will refuse.
Where = Callable[[Frame], Index | None]
# Families whose ops hand elements on as they are.
PASSING = frozenset({Family.MOVE, Family.INDEX})
# With these an op that moves elements computes nothing and brings none of its own, and a product is
# nothing but sums.
_PLAIN: dict[str, Any] = {"reduce": None, "accumulate": False, "value": 0}
_PLAIN |= {"bias_tensor": None, "scale_tensor": None, "scale": 0.0}
# Where the stand-in of a number is found among those of operands.
NUMBER = -1


class Access(NamedTuple):
    """What a node does with one tensor.

    Kinds: `read` computes with the elements; `copy` hands them on; `write` replaces them; `add`
    adds to them, in whatever order.
    """

    value: Value
    kind: str
    where: Where


def accesses(plan: Plan, node: Node) -> list[Access]:
    """What a node does with its tensors, in the order in which it does it."""
    rule = _CONTROL.get(node.op.name)
    if rule is not None:
        return rule(plan, node)
    if node.op.reference is None:
        return []
    if node.op.writes is not None:
        return _places_written(plan, node)
    if node.op.name == "where":
        return _chosen(plan, node)
    if node.op.family is Family.MAP:
        return [Access(v, "read", met(plan, v, node.result)) for v in node.operands]
    if node.op.family is Family.INDEX:
        return _places_read(plan, node)
    kind = "copy" if node.op.family is Family.MOVE else "read"
    return [_whole(plan, value, kind) for value in node.operands]


def handed(node: Node) -> list[tuple[Any, Value]]:
    """Who gives its value to whom when a loop or a branch is entered, repeated and left."""
    pairs: list[tuple[Any, Value]] = []
    for region in node.regions:
        if node.op.name == "loop":
            carried = region.params[1:]
            pairs += zip(node.attrs["inits"], carried, strict=True)
            pairs += zip(region.yields, carried, strict=True)
            pairs += zip(carried, node.results, strict=True)
        else:
            pairs += zip(region.yields, node.results, strict=True)
    return pairs


def within(
    starts: tuple[int, ...], counts: tuple[int, ...], sizes: tuple[int, ...]
) -> Index | None:
    """The window as an index; None if it is empty or leaves the array."""
    if 0 in counts:
        return None
    if any(o < 0 or o + n > whole for o, n, whole in zip(starts, counts, sizes, strict=True)):
        return None
    return tuple([slice(o, o + n) for o, n in zip(starts, counts, strict=True)])


def _whole(plan: Plan, value: Value, kind: str) -> Access:
    """The valid box."""
    valid = plan.numbers(value.tensor.valid)
    return Access(value, kind, lambda f: box(valid(f)))


# --- views, writes, elements ---------------------------------------------------------------------


def _view(plan: Plan, node: Node) -> list[Access]:
    source = operand(node, "input")
    offsets, valid = plan.numbers(node.attrs["offsets"]), plan.numbers(node.result.tensor.valid)
    size = plan.numbers(source.tensor.shape)
    return [Access(source, "copy", lambda f: within(offsets(f), valid(f), size(f)))]


def _passed(plan: Plan, node: Node) -> list[Access]:
    return [_whole(plan, operand(node, "input"), "copy")]


def _written(plan: Plan, node: Node, kind: str) -> list[Access]:
    source, target = operand(node, "src"), operand(node, "dst")
    offsets, valid = plan.numbers(node.attrs["offsets"]), plan.numbers(source.tensor.valid)
    size = plan.numbers(target.tensor.shape)
    return [
        _whole(plan, source, "copy" if kind == "write" else "read"),
        Access(target, kind, lambda f: within(offsets(f), valid(f), size(f))),
    ]


def _moved(plan: Plan, node: Node) -> list[Access]:
    target = operand(node, "dst")
    size = plan.numbers(target.tensor.shape)
    return [
        _whole(plan, operand(node, "src"), "copy"),
        Access(target, "write", lambda f: box(size(f))),
    ]


def _element(plan: Plan, node: Node, name: str, kind: str) -> list[Access]:
    value = operand(node, name)
    index = plan.numbers(node.attrs["index"])
    size = plan.numbers(value.tensor.valid if kind == "read" else value.tensor.shape)
    one = (1,) * value.tensor.rank
    return [Access(value, kind, lambda f: within(index(f), one, size(f)))]


def _shown(plan: Plan, node: Node) -> list[Access]:
    cond = plan.number(node.attrs["cond"])

    def only(where: Where) -> Where:
        return lambda f: where(f) if cond(f) else None

    found = [_whole(plan, value, "read") for value in node.operands]
    return [Access(value, kind, only(where)) for value, kind, where in found]


def _entered(plan: Plan, node: Node) -> list[Access]:
    """What a loop starts from under a name of its own is a copy of what stands there."""
    pairs = zip(node.attrs["inits"], node.regions[0].params[1:], strict=True)
    return [
        _whole(plan, init, "copy")
        for init, param in pairs
        if isinstance(init, Value) and param.storage is not None
        if init.storage is not param.storage
    ]


_CONTROL: dict[str, Callable[[Plan, Node], list[Access]]] = {
    "loop": _entered,
    "view": _view,
    "reshape": _passed,
    "reinterpret": _passed,
    "assemble": lambda plan, node: _written(plan, node, "write"),
    "atomic_add": lambda plan, node: _written(plan, node, "add"),
    "move": _moved,
    "item": lambda plan, node: _element(plan, node, "input", "read"),
    "item_set": lambda plan, node: _element(plan, node, "dst", "write"),
    "print": _shown,
}

# --- element by element --------------------------------------------------------------------------


def met(plan: Plan, value: Value, result: Value) -> Where:
    """The part of an operand that meets the valid box of the result."""
    lead = result.tensor.rank - value.tensor.rank
    repeated = _repeated(value, result)
    valid = plan.numbers(result.tensor.valid)

    def where(f: Frame) -> Index | None:
        extents = valid(f)
        if 0 in extents:
            return None
        pairs = zip(extents[lead:], repeated, strict=True)
        return tuple([slice(0, 1 if again else n) for n, again in pairs])

    return where


def _repeated(value: Value, result: Value) -> list[bool]:
    lead = result.tensor.rank - value.tensor.rank
    extents = result.tensor.shape
    return [n == 1 and extents[a + lead] != 1 for a, n in enumerate(value.tensor.shape)]


def _chosen(plan: Plan, node: Node) -> list[Access]:
    """A choice reads only the side that it takes."""
    condition, result = operand(node, "condition"), node.result
    window_of = met(plan, condition, result)
    slot, valid = plan.slot(condition), plan.numbers(result.tensor.valid)
    found = [Access(condition, "read", window_of)]

    def side(value: Value, taken: bool) -> Where:
        lead = result.tensor.rank - value.tensor.rank
        repeated = _repeated(value, result)

        def where(f: Frame) -> Index | None:
            window = window_of(f)
            if window is None:
                return None
            chosen = np.broadcast_to(f[slot][window] != 0, valid(f))
            places = np.nonzero(chosen == taken)[lead:]
            return tuple([p * 0 if again else p for p, again in zip(places, repeated, strict=True)])

        return where

    for name, taken in (("input", True), ("other", False)):
        if isinstance(node.attrs[name], Slot):
            value = operand(node, name)
            found.append(Access(value, "read", side(value, taken)))
    return found


# --- places read from tensors --------------------------------------------------------------------


class StandIn:
    """Runs the reference of an op that moves elements on stand-ins for its tensors.

    The stand-ins say something about each element (where it comes from, whether it is known); the
    op carries that to where the element goes.  Tensors of places stay what they are, a number among
    the operands gets a stand-in too, and what the op would compute with is left out.
    """

    def __init__(self, plan: Plan, node: Node) -> None:
        self.node = node
        self._parts = [self._part(plan, arg, node.attrs[arg.name]) for arg in node.op.args]
        self._outs = None
        if node.op.writes is None:
            type = node.result.tensor
            shape, valid = plan.numbers(type.shape), plan.numbers(type.valid)
            self._outs = lambda f, dtype: Out(shape(f), valid(f), dtype)

    def _part(self, plan: Plan, arg: Arg, item: Any) -> Callable[[Frame, dict[int, Any]], Any]:
        node = self.node
        if arg.name in _PLAIN:
            return lambda f, standing: _PLAIN[arg.name]
        named = slots(item)
        if named and arg.name not in node.op.index_args:
            if isinstance(item, Slot):
                return lambda f, standing: standing[item.index]
            return lambda f, standing: [standing[i] for i in named]
        if named:
            gets = [plan.valid_array(node.operands[i]) for i in named]
            if isinstance(item, Slot):
                return lambda f, standing: gets[0](f)
            return lambda f, standing: [get(f) for get in gets]
        if arg.kind == "operand":
            return lambda f, standing: standing[NUMBER]
        number: Get
        if isinstance(item, (tuple, list)):
            number = plan.numbers(item)
        else:
            number = plan.number(item) if arg.kind == "symint" else lambda f: item
        return lambda f, standing: number(f)

    @property
    def operands(self) -> list[int]:
        """The operands that stand-ins are needed for."""
        op = self.node.op
        return [
            i
            for arg in op.args
            if arg.name not in op.index_args
            for i in slots(self.node.attrs[arg.name])
        ]

    def run(self, f: Frame, standing: dict[int, Any], dtype: Any) -> Any:
        """The valid box of the result, or None for an op that writes into a stand-in."""
        reference = self.node.op.reference
        assert reference is not None
        arguments = [part(f, standing) for part in self._parts]
        if self._outs is None:
            return reference(*arguments)
        return reference(*arguments, out=self._outs(f, dtype))


def _index_tensors(plan: Plan, node: Node) -> list[Access]:
    named = [i for name in node.op.index_args for i in slots(node.attrs[name])]
    return [_whole(plan, node.operands[i], "read") for i in sorted(named)]


def computes(node: Node) -> bool:
    """Whether an op that picks places also computes with what stands there."""
    return bool(node.attrs.get("reduce") or node.attrs.get("accumulate"))


def _places_read(plan: Plan, node: Node) -> list[Access]:
    found = _index_tensors(plan, node)
    if computes(node):
        return found + [
            _whole(plan, node.operands[i], "read") for i in StandIn(plan, node).operands
        ]
    return found + [_origins(plan, node, i) for i in StandIn(plan, node).operands]


def _origins(plan: Plan, node: Node, index: int) -> Access:
    """The elements of one operand that get into the result."""
    stand = StandIn(plan, node)
    valid = [plan.numbers(v.tensor.valid) for v in node.operands]

    def where(f: Frame) -> Index | None:
        standing: dict[int, Any] = {i: np.full(valid[i](f), -1) for i in stand.operands}
        standing[NUMBER] = -1
        extents = valid[index](f)
        count = int(np.prod(extents))
        standing[index] = np.arange(count, dtype=np.int64).reshape(extents)
        found = stand.run(f, standing, np.dtype(np.int64))
        return np.unravel_index(found[(found >= 0) & (found < count)], extents) if count else None

    return Access(node.operands[index], "copy", where)


def _places_written(plan: Plan, node: Node) -> list[Access]:
    op = node.op
    assert op.writes is not None
    target = node.attrs[op.writes].index
    found = _index_tensors(plan, node)
    stand = StandIn(plan, node)
    adds = computes(node)
    for i in stand.operands:
        if i != target:
            found.append(_whole(plan, node.operands[i], "read" if adds else "copy"))
    where = touched(plan, node)
    if adds:
        found.append(Access(node.operands[target], "read", where))
    return [*found, Access(node.operands[target], "write", where)]


def touched(plan: Plan, node: Node) -> Where:
    """The elements that an op with `writes` replaces."""
    stand = StandIn(plan, node)
    assert node.op.writes is not None
    target = node.attrs[node.op.writes].index
    valid = {i: plan.numbers(node.operands[i].tensor.valid) for i in stand.operands}

    def where(f: Frame) -> Index | None:
        standing: dict[int, Any] = {i: np.zeros(valid[i](f), np.uint8) for i in stand.operands}
        standing[NUMBER] = 0
        standing[target] = np.ones(valid[target](f), np.uint8)
        stand.run(f, standing, None)
        return np.nonzero(standing[target] == 0)

    return where
