"""Elements that hold no value: never written, or outside of what was valid.

In: the nodes of a graph.  Out: an error where one computes with such an element or hands it to an
argument.  Each tensor that may hold some has marks of the shape of its memory, which go where its
elements go: through views, reshapes, moves, writes, loops and branches.  Marks that are all clear
are dropped, so that a tensor which has been filled costs nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.errors import PyptoError, error
from pypto.interp.accesses import (
    NUMBER,
    PASSING,
    Access,
    StandIn,
    accesses,
    computes,
    handed,
    touched,
)
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step, box, operand
from pypto.ir.faults import Names, first
from pypto.ir.graph import Graph, Node, Storage, Value, walk
from pypto.ir.op import Family
from pypto.ir.sym import SymInt

CLEAR, UNWRITTEN, INVALID = 0, 1, 2
_WHY = {
    UNWRITTEN: "which nothing has written",
    INVALID: "which is outside of the valid elements that were reshaped",
}
_PASSED_ON = frozenset({"view", "reshape", "reinterpret", "assemble", "move"})


class Unwritten:
    """Which tensors of a graph may hold elements without a value, and the checks of its nodes."""

    def __init__(self, plan: Plan, graph: Graph, names: Names, kinds: frozenset[int]) -> None:
        self._plan = plan
        self._names = names
        self._kinds = kinds
        self._marks = {storage: plan.extra() for storage in _doubtful(graph, kinds)}

    def _doubts(self, value: Value) -> bool:
        return value.storage in self._marks

    def _of(self, value: Value) -> Get:
        """A function from the frame to the marks of a tensor in its shape, None if all is clear."""
        if not self._doubts(value):
            return lambda f: None
        assert value.storage is not None
        place, slot = self._marks[value.storage], self._plan.slot(value)

        def get(f: Frame) -> np.ndarray | None:
            marks = f[place]
            return None if marks is None else marks.reshape(f[slot].shape)

        return get

    def _place(self, value: Value) -> int:
        assert value.storage is not None
        return self._marks[value.storage]

    # -- what regions hand on -----------------------------------------------------------------

    def places(self, target: Value) -> list[int]:
        """The slot of the marks that travel with a tensor."""
        return [self._place(target)] if self._doubts(target) else []

    def beside(self, source: Value | SymInt | None, target: Value) -> list[Get]:
        """The marks that travel with a tensor: the same for the same memory, else a copy."""
        if not self._doubts(target):
            return []
        if not isinstance(source, Value) or not self._doubts(source):
            return [lambda f: None]
        place = self._place(source)
        if source.storage is target.storage:
            return [lambda f: f[place]]
        return [lambda f: None if f[place] is None else f[place].copy()]

    # -- before a node runs -------------------------------------------------------------------

    def checks(self, node: Node) -> list[Step]:
        """What may not hold an element without a value when a node runs."""
        if not any(self._doubts(v) for v in node.operands):
            return []
        target = node.result if node.op.writes is not None else None
        published = target is not None and not self._doubts(target)
        found = []
        for access in accesses(self._plan, node):
            if not self._doubts(access.value):
                continue
            if access.kind in ("read", "add"):
                found.append(self._check(node, access, None))
            elif access.kind == "copy" and published:
                found.append(self._check(node, access, target))
        return found

    def _check(self, node: Node, access: Access, target: Value | None) -> Step:
        marks, where = self._of(access.value), access.where
        sums = node.op.family is Family.CONTRACT

        def check(f: Frame) -> None:
            found = marks(f)
            if found is None:
                return
            window = where(f)
            if window is None:
                return
            part = found[window]
            if part.any():
                at = self._contracted(node, access, part, f) if sums else first(part != 0, window)
                if at is not None:
                    raise self._finding(access.value, at, int(found[at]), target)

        return check

    def _contracted(
        self, node: Node, access: Access, part: np.ndarray, f: Frame
    ) -> tuple[int, ...] | None:
        """The first marked element that gets into a product.

        The op knows best what it sums: it is given ones, and zeros for all but some elements.
        """
        reference = node.op.reference
        assert reference is not None
        marked = np.argwhere(part)
        stand = StandIn(self._plan, node)
        standing: dict[int, Any] = {
            i: np.ones(self._plan.numbers(node.operands[i].tensor.valid)(f), np.float32)
            for i in stand.operands
        }
        which = [i for i, v in enumerate(node.operands) if v is access.value]

        def used(count: int) -> bool:
            some = np.zeros(part.shape, np.float32)
            some[tuple(marked[:count].T)] = 1
            for i in which:
                standing[i] = some
            return bool(np.any(stand.run(f, standing, np.dtype(np.float32))))

        if not used(len(marked)):
            return None
        low, high = 0, len(marked)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if used(middle) else (middle, high)
        return tuple(int(i) for i in marked[low])

    def _finding(
        self, value: Value, at: tuple[int, ...], mark: int, target: Value | None
    ) -> PyptoError:
        label = self._names.of(value)
        what = f"{label} is read at element {list(at)}"
        if target is not None:
            what = f"element {list(at)} of {label} would go into {self._names.of(target)}"
        fix = "fill it first, `t[:] = pypto.zeros(…)`, or take a view of what is written"
        if mark == INVALID:
            fix = "give reshape a valid_shape that holds valid elements only, or fillpad first"
        name = label.strip("`") if label.startswith("`") else "t"
        text = f"{what}, {_WHY[mark]}"
        return error(ValueError, text, code="F40000", fix=fix.replace("t[:]", f"{name}[:]"))

    # -- behind a node ------------------------------------------------------------------------

    def follows(self, node: Node) -> list[Step]:
        """How the marks go where the elements went."""
        if node.regions or not any(self._doubts(v) for v in node.results):
            return []
        rule = _FOLLOW.get(node.op.name)
        if rule is not None:
            return [rule(self, node)]
        if node.op.reference is None:
            return []
        return [self._carried(node) if node.op.writes is None else self._placed(node)]

    def _emptied(self, node: Node) -> Step:
        place, slot = self._place(node.result), self._plan.slot(node.result)
        mark = UNWRITTEN if UNWRITTEN in self._kinds else CLEAR

        def follow(f: Frame) -> None:
            f[place] = np.full(f[slot].shape, mark, np.uint8) if mark else None

        return follow

    def _viewed(self, node: Node) -> Step:
        source, place = self._of(operand(node, "input")), self._place(node.result)
        (access,) = accesses(self._plan, node)
        slot, where = self._plan.slot(node.result), access.where

        def follow(f: Frame) -> None:
            f[place] = None
            marks, window = source(f), where(f)
            if marks is not None and window is not None:
                f[place] = _padded(marks[window], f[slot].shape)

        return follow

    def _reshaped(self, node: Node) -> Step:
        value, result = operand(node, "input"), node.result
        source, place = self._of(value), self._place(result)
        slot, memory = self._plan.slot(result), self._plan.slot(value)
        inside = self._plan.numbers(value.tensor.valid)
        valid = self._plan.numbers(result.tensor.valid)
        strict = INVALID in self._kinds

        def follow(f: Frame) -> None:
            marks, shape = source(f), f[slot].shape
            before = f[memory].shape
            if strict and inside(f) != before:
                outside = np.full(before, INVALID, np.uint8)
                window = box(inside(f))
                outside[window] = CLEAR if marks is None else marks[window]
                marks = outside
            f[place] = None
            if marks is not None:
                f[place] = _padded(marks.reshape(shape)[box(valid(f))], shape)

        return follow

    def _reinterpreted(self, node: Node) -> Step:
        value, result = operand(node, "input"), node.result
        source, place, slot = self._of(value), self._place(result), self._plan.slot(result)
        old, new = (v.tensor.dtype.numpy.itemsize for v in (value, result))

        def follow(f: Frame) -> None:
            marks = source(f)
            if marks is not None:
                marks = np.repeat(marks, old, axis=-1).reshape(*f[slot].shape, new).max(axis=-1)
            f[place] = _kept(marks)

        return follow

    def _assembled(self, node: Node) -> Step:
        target = operand(node, "dst")
        source, (read, write) = self._of(operand(node, "src")), accesses(self._plan, node)
        place, slot = self._place(target), self._plan.slot(target)

        def follow(f: Frame) -> None:
            marks, window = source(f), write.where(f)
            if window is None or (marks is None and f[place] is None):
                return
            if f[place] is None:
                f[place] = np.zeros(f[slot].shape, np.uint8)
            into = f[place].reshape(f[slot].shape)
            into[window] = CLEAR if marks is None else marks[read.where(f)]
            f[place] = _kept(f[place])

        return follow

    def _set(self, node: Node) -> Step:
        target = operand(node, "dst")
        (access,) = accesses(self._plan, node)
        marks, place = self._of(target), self._place(target)

        def follow(f: Frame) -> None:
            found, window = marks(f), access.where(f)
            if found is not None and window is not None:
                found[window] = CLEAR
                f[place] = _kept(f[place])

        return follow

    def _moved(self, node: Node) -> Step:
        source, place = self._of(operand(node, "src")), self._place(operand(node, "dst"))

        def follow(f: Frame) -> None:
            marks = source(f)
            f[place] = None if marks is None else marks.copy()

        return follow

    def _standing(self, node: Node, stand: StandIn) -> Get:
        """The marks of the valid boxes of some operands, zeros where all is clear."""
        wanted = stand.operands
        marks = [self._of(node.operands[i]) for i in wanted]
        valid = [self._plan.numbers(node.operands[i].tensor.valid) for i in wanted]

        def get(f: Frame) -> dict[int, Any]:
            standing: dict[int, Any] = {NUMBER: CLEAR}
            for i, mark, extents in zip(wanted, marks, valid, strict=True):
                found = mark(f)
                window = box(extents(f))
                none = found is None
                standing[i] = np.zeros(extents(f), np.uint8) if none else found[window].copy()
            return standing

        return get

    def _carried(self, node: Node) -> Step:
        """Ops that move elements move marks in the same way."""
        stand, place = StandIn(self._plan, node), self._place(node.result)
        standing, slot = self._standing(node, stand), self._plan.slot(node.result)
        places = [self._marks[v.storage] for v in node.operands if v.storage in self._marks]

        def follow(f: Frame) -> None:
            f[place] = None
            if any(f[p] is not None for p in places):
                found = stand.run(f, standing(f), np.dtype(np.uint8))
                f[place] = _padded(found, f[slot].shape)

        return follow

    def _placed(self, node: Node) -> Step:
        """Ops that write at places write marks there; where they compute they leave none."""
        assert node.op.writes is not None
        target = operand(node, node.op.writes)
        stand, place, slot = StandIn(self._plan, node), self._place(target), self._plan.slot(target)
        standing, index = self._standing(node, stand), node.attrs[node.op.writes].index
        valid, where = self._plan.numbers(target.tensor.valid), touched(self._plan, node)
        adds = computes(node)
        places = [self._marks[v.storage] for v in node.operands if v.storage in self._marks]

        def follow(f: Frame) -> None:
            if all(f[p] is None for p in places):
                return
            marks = f[place]
            if marks is None:
                marks = np.zeros(f[slot].shape, np.uint8)
            into = marks.reshape(f[slot].shape)[box(valid(f))]
            if adds:
                into[where(f)] = CLEAR
            else:
                stand.run(f, {**standing(f), index: into}, None)
            f[place] = _kept(marks)

        return follow


_FOLLOW = {
    "empty": Unwritten._emptied,
    "view": Unwritten._viewed,
    "reshape": Unwritten._reshaped,
    "reinterpret": Unwritten._reinterpreted,
    "assemble": Unwritten._assembled,
    "item_set": Unwritten._set,
    "move": Unwritten._moved,
}


def _kept(marks: np.ndarray | None) -> np.ndarray | None:
    """The marks, or None if all are clear."""
    return marks if marks is not None and marks.any() else None


def _padded(marks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The marks of a valid box as those of the whole tensor, whose other lanes nobody reads."""
    if not marks.any():
        return None
    whole = np.zeros(shape, np.uint8)
    whole[box(marks.shape)] = marks
    return whole


def _doubtful(graph: Graph, kinds: frozenset[int]) -> list[Storage]:
    """The tensors that may hold elements without a value, as far as the text can tell."""
    nodes = list(walk(graph.body))
    found: dict[Storage, None] = {}

    def doubt(value: Value) -> bool:
        """Whether a tensor was not in doubt before; arguments never are."""
        storage = value.storage
        if storage is None or storage.param is not None or storage in found:
            return False
        found[storage] = None
        return True

    for node in nodes:
        partly = node.op.name == "reshape" and not node.operands[0].tensor.is_full
        if (node.op.name == "empty" and UNWRITTEN in kinds) or (partly and INVALID in kinds):
            doubt(node.result)
    more = bool(found)
    while more:
        more = False
        for node in nodes:
            if node.regions:
                pairs = [(s, t) for s, t in handed(node) if isinstance(s, Value)]
            elif node.op.name in _PASSED_ON or node.op.family in PASSING:
                pairs = [(source, result) for source in node.operands for result in node.results]
            else:
                continue
            for source, target in pairs:
                more = (source.storage in found and doubt(target)) or more
    return list(found)
