"""Trips of a parallel loop that meet in memory.

In: loops marked `parallel=True`, and what each node in them reads and writes.  Out: an error at the
first element that one trip writes and another one reads or writes, before it is written a second
time.  Additions by `atomic_add` meet each other freely.  A value that a name carries from trip to
trip is such a meeting too.  Memory that a trip makes for itself is nobody else's; nor is memory
that each trip writes before it reads it, if nothing reads it behind the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pypto.errors import PyptoError, error
from pypto.interp.accesses import Access, accesses, handed
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step
from pypto.ir.faults import Index, Names, first
from pypto.ir.graph import Graph, Node, Region, Storage, Value, walk
from pypto.ir.sym import SymInt

_PAST = {"read": "read", "copy": "read", "write": "written", "add": "added to"}
# What an access meets when another trip did it.
_AGAINST = {
    "read": ("write", "add"),
    "copy": ("write", "add"),
    "write": ("write", "add", "read"),
    "add": ("write", "read"),
}


class Meeting(NamedTuple):
    """An element, what another trip did to it, and the number of that trip."""

    at: tuple[int, ...]
    before: str
    trip: int


class Log:
    """Which trip touched each element of one tensor first, by kind of access.

    Trips are numbered through a run, so that what earlier loops left behind is known by its lower
    number.  They run in order: where the first one is the one at hand, no other has been.  The
    same is kept by line, since most accesses have their lines to themselves; not so once the tensor
    is touched under another shape.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._has_lines = True
        self._elements: dict[str, np.ndarray] = {}
        self._lines: dict[str, np.ndarray] = {}

    def fits(self, memory: np.ndarray) -> bool:
        """Whether it can be the log of this memory; afterwards it can be asked about it."""
        if memory.shape != self._shape:
            self._has_lines = False
        return math.prod(self._shape) == memory.size

    def enter(
        self, kind: str, shape: tuple[int, ...], window: Index, base: int, now: int
    ) -> Meeting | None:
        """Note an access of the trip at hand, unless it meets another trip."""
        for other in _AGAINST[kind]:
            if met := self._met(other, shape, window, base, now):
                return met
        self._note("read" if kind == "copy" else kind, shape, window, base, now)
        return None

    def _met(
        self, kind: str, shape: tuple[int, ...], window: Index, base: int, now: int
    ) -> Meeting | None:
        """Where another trip touched a window."""
        if kind not in self._elements:
            return None
        if self._has_lines and not _other(self._lines[kind][window[:-1]], base, now).any():
            return None
        trips = self._elements[kind].reshape(shape)[window]
        found = _other(trips, base, now)
        if not found.any():
            return None
        return Meeting(first(found, window), _PAST[kind], int(trips[found][0]))

    def _table(self, kind: str, shape: tuple[int, ...]) -> np.ndarray:
        if kind not in self._elements:
            self._elements[kind] = np.zeros(math.prod(shape), np.int32)
            self._lines[kind] = np.zeros(self._shape[:-1], np.int32)
        return self._elements[kind].reshape(shape)

    def _note(self, kind: str, shape: tuple[int, ...], window: Index, base: int, now: int) -> None:
        elements = self._table(kind, shape)
        if self._has_lines:
            lines = self._lines[kind]
            before = lines[window[:-1]]
            lines[window[:-1]] = np.where(before < base, now, before)
            if not _other(before, base, now).any():
                elements[window] = now
                return
        trips = elements[window]
        elements[window] = np.where(trips < base, now, trips)


class PrivateLog(Log):
    """The log of memory that nothing reads behind the loop, so that each trip may have its own.

    Trips meet only in what one of them reads before it has written it.  The trip that wrote an
    element is here the last one.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self._has_lines = False

    def enter(
        self, kind: str, shape: tuple[int, ...], window: Index, base: int, now: int
    ) -> Meeting | None:
        writers = self._table("write", shape)
        own = writers[window] == now
        if kind != "write" and own.all():
            return None
        for other in _AGAINST[kind]:
            is_own_copy = kind == other == "write"
            met = None if is_own_copy else self._met(other, shape, window, base, now)
            if met is not None:
                return met
        if kind == "write":
            writers[window] = now
            return None
        table = self._table("read" if kind == "copy" else kind, shape)
        trips = table[window]
        table[window] = np.where((trips < base) & ~own, now, trips)
        return None


def _other(trips: np.ndarray, base: int, now: int) -> np.ndarray:
    """Where it was another trip of the same loop: one before the trip at hand."""
    return np.asarray((trips >= base) & (trips < now))


class Loop:
    """One parallel loop: the slots of its trips, and the memory that its trips share."""

    def __init__(self, plan: Plan, node: Node) -> None:
        self.node = node
        self.index = node.regions[0].params[0]
        self.name = self.index.name or "the index"
        self.run = plan.extra()
        self.logs: dict[Storage, int] = {}
        self.private: set[Storage] = set()
        self.carried: dict[Storage, int] = {}

    def trip(self, number: int, f: Frame) -> str:
        """A trip in words, from its number within the run."""
        base, start, stride = f[self.run]
        return f"in iteration {self.name} = {start + (number - base) * stride}"


class Races:
    """The parallel loops of a graph, and the checks of its nodes."""

    def __init__(self, plan: Plan, graph: Graph, names: Names) -> None:
        self._plan = plan
        self._names = names
        self._counter = plan.extra()
        self._around: dict[Node, tuple[Loop, ...]] = {}
        self._loops: dict[Node, Loop] = {}
        # The loops around the place where a tensor's memory is made.
        self._homes: dict[Storage, tuple[Loop, ...]] = {}
        for param in graph.params:
            self._home(param.value, ())
        self._survey(graph.body, ())
        used = set(_used(graph))
        for loop in self._loops.values():
            self._share(loop, used)
            self._carry(loop)

    # -- what the graph says ------------------------------------------------------------------

    def _home(self, value: Value, around: tuple[Loop, ...]) -> None:
        if value.storage is not None:
            self._homes.setdefault(value.storage, around)

    def _survey(self, region: Region, around: tuple[Loop, ...]) -> None:
        for node in region.nodes:
            self._around[node] = around
            inside = around
            if node.attrs.get("parallel") and node.op.name == "loop":
                loop = self._loops[node] = Loop(self._plan, node)
                inside = (*around, loop)
            for inner in node.regions:
                for param in inner.params:
                    self._home(param, inside)
                self._survey(inner, inside)
            for value in node.results:
                self._home(value, around)

    def _inside(self, loop: Loop) -> list[Node]:
        return [node for node, around in self._around.items() if loop in around]

    def _share(self, loop: Loop, used: set[Value]) -> None:
        """Memory from outside of a loop that is written in it."""
        behind = {value.storage for value in loop.node.results if value in used}
        for node in self._inside(loop):
            storage = node.result.storage if node.op.writes is not None else None
            if storage is not None and loop not in self._homes[storage]:
                loop.logs.setdefault(storage, self._plan.extra())
                if storage.param is None and storage not in behind:
                    loop.private.add(storage)

    def _carry(self, loop: Loop) -> None:
        """Tensors that a name hands from one trip to the next."""
        params = [p.storage for p in loop.node.regions[0].params if p.storage is not None]
        found = {storage for storage in params if loop in self._homes[storage]}
        nodes = [node for node in self._inside(loop) if node.regions]
        count = 0
        while count != len(found):
            count = len(found)
            for node in nodes:
                for source, target in handed(node):
                    given = isinstance(source, Value) and source.storage in found
                    if given and target.storage is not None:
                        found.add(target.storage)
        for storage in found:
            if loop in self._homes[storage]:
                loop.carried[storage] = self._plan.extra()

    # -- what regions hand on -----------------------------------------------------------------

    def places(self, target: Value) -> list[int]:
        """The slots that tell in which trip a carried tensor was made."""
        if target.storage is None:
            return []
        tables = [loop.carried for loop in self._loops.values()]
        return [carried[target.storage] for carried in tables if target.storage in carried]

    def beside(self, source: Value | SymInt | None, target: Value) -> list[Get]:
        """What goes into those slots: the trip at hand for what it makes, None from outside."""
        return [
            self._made(loop, source)
            for loop in self._loops.values()
            if target.storage is not None and target.storage in loop.carried
        ]

    def _made(self, loop: Loop, source: Value | SymInt | None) -> Get:
        storage = source.storage if isinstance(source, Value) else None
        if storage is None or loop not in self._homes[storage]:
            return lambda f: None
        if storage in loop.carried:
            slot = loop.carried[storage]
            return lambda f: f[slot]
        index = self._plan.slot(loop.index)
        return lambda f: f[index]

    # -- steps --------------------------------------------------------------------------------

    def around(self, node: Node, step: Step) -> Step:
        """The step of a loop; a parallel one numbers its trips from here on."""
        loop = self._loops.get(node)
        if loop is None or not loop.logs:
            return step
        counter, run, attrs = self._counter, loop.run, node.attrs
        bounds = self._plan.numbers((attrs["start"], attrs["stop"], attrs["step"]))

        def numbered(f: Frame) -> None:
            start, stop, stride = bounds(f)
            base = f[counter] or 1
            f[run] = (base, start, stride)
            # Loops inside count on from behind these trips.
            f[counter] = base + (len(range(start, stop, stride)) if stride else 0)
            step(f)

        return numbered

    def checks(self, node: Node) -> list[Step]:
        """What is checked, and noted, before a node runs."""
        around = self._around[node]
        if not around:
            return []
        found: list[Step] = []
        for access in accesses(self._plan, node):
            storage = access.value.storage
            if storage is None:
                continue
            for loop in around:
                if storage in loop.logs:
                    found.append(self._meeting(loop, access, loop.logs[storage]))
                # A loop only hands on what it starts from; who reads it there is found there.
                if storage in loop.carried and not node.regions:
                    found.append(self._inherited(loop, access, loop.carried[storage]))
        return found

    def _meeting(self, loop: Loop, access: Access, place: int) -> Step:
        value, kind, where = access
        slot, index, run = self._plan.slot(value), self._plan.slot(loop.index), loop.run
        fresh = PrivateLog if value.storage in loop.private else Log

        def check(f: Frame) -> None:
            memory, window = f[slot], where(f)
            # A name that nothing has bound yet is handed on without memory.
            if memory is None or window is None:
                return
            shape = memory.shape
            base, start, stride = f[run]
            now = base + (f[index] - start) // stride
            log = f[place]
            if log is None or not log.fits(memory):
                log = f[place] = fresh(shape)
            met = log.enter(kind, shape, window, base, now)
            if met is not None:
                raise self._met(access, met, loop.trip(met.trip, f))

        return check

    def _met(self, access: Access, met: Meeting, trip: str) -> PyptoError:
        label, now = self._names.of(access.value), _PAST[access.kind]
        return error(
            RuntimeError,
            f"element {list(met.at)} of {label} is {now} here and was {met.before} {trip} of the "
            "same loop, which says parallel=True",
            code="F73001",
            fix="let each iteration write elements of its own, or leave `parallel=True` out",
        )

    def _inherited(self, loop: Loop, access: Access, place: int) -> Step:
        value, kind, where = access
        slot, index, name = self._plan.slot(value), self._plan.slot(loop.index), loop.name
        label = self._names.of(value)

        def replaced(f: Frame) -> None:
            if f[slot][where(f)].size == f[slot].size:
                f[place] = f[index]

        if kind == "write":
            return replaced

        def check(f: Frame) -> None:
            made = f[place]
            if made is not None and made != f[index] and where(f) is not None:
                raise error(
                    RuntimeError,
                    f"{label} is read here and holds what iteration {name} = {made} of the same "
                    "loop left in it, which says parallel=True",
                    code="F73001",
                    fix=f"give {label} its value inside the body, or leave `parallel=True` out",
                )

        return check


def _used(graph: Graph) -> Iterator[Value]:
    """Values that a node reads or that a region hands on."""
    for node in walk(graph.body):
        yield from node.operands
        given = [*node.attrs.get("inits", ()), *(y for r in node.regions for y in r.yields)]
        yield from (item for item in given if isinstance(item, Value))
