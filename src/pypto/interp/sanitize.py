"""The sanitizers: a plan whose steps check what they do.

In: a graph and the names of sanitizers.  Out: a plan for a program that ends in an error where an
element without a value is read (`uninit`; `poison` for what was invalid), where trips of a parallel
loop meet (`race`), where an op writes beside an argument (`guard`), or where the first NaN is made
(`nan`).  An error names the tensor, the user's line, the trip of every loop and the element, and
comes before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pypto.errors import InternalError, PyptoError, error
from pypto.interp.births import Births
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step
from pypto.interp.races import Races
from pypto.interp.unwritten import INVALID, UNWRITTEN, Unwritten
from pypto.ir.faults import Names
from pypto.ir.graph import Graph, Node, Storage, Value
from pypto.ir.sym import SymInt
from pypto.memory import guarded_copy


class SanitizedPlan(Plan):
    """Adds to each step of a program what the chosen sanitizers check before and behind it."""

    def __init__(self, graph: Graph, sanitizers: frozenset[str]) -> None:
        super().__init__()
        names = Names(graph)
        kinds = {"uninit": UNWRITTEN, "poison": INVALID}
        doubts = frozenset(kind for name, kind in kinds.items() if name in sanitizers)
        self._graph = graph
        self._unwritten = Unwritten(self, graph, names, doubts) if doubts else None
        self._races = Races(self, graph, names) if "race" in sanitizers else None
        self._births = Births(self, names) if "nan" in sanitizers else None
        self._guards: dict[Storage, int] = {}
        if "guard" in sanitizers:
            for param in graph.params:
                storage = param.value.storage
                if storage is not None and storage.written:
                    self._guards[storage] = self.extra()

    # -- making the program -------------------------------------------------------------------

    def places(self, target: Value) -> list[int]:
        """The slots of marks and trips."""
        found = self._unwritten.places(target) if self._unwritten else []
        return found + (self._races.places(target) if self._races else [])

    def beside(self, source: Value | SymInt | None, target: Value) -> list[Get]:
        """Marks and trips that travel with a value."""
        found = self._unwritten.beside(source, target) if self._unwritten else []
        return found + (self._races.beside(source, target) if self._races else [])

    def watched(self, node: Node, step: Step) -> Step:
        """The step between the checks that its node needs."""
        before: list[Step] = []
        behind: list[Step] = []
        if self._unwritten:
            before += self._unwritten.checks(node)
            behind += self._unwritten.follows(node)
        if self._races:
            before += self._races.checks(node)
            step = self._races.around(node, step)
        if self._births:
            step = self._births.watched(node, step)
        if node.op.writes is not None and node.result.storage in self._guards:
            behind.append(self._zones(node, node.result.storage))
        if not before and not behind:
            return step

        def run(f: Frame) -> None:
            for check in before:
                check(f)
            step(f)
            for check in behind:
                check(f)

        return run

    # -- guard zones --------------------------------------------------------------------------

    def _zones(self, node: Node, storage: Storage) -> Step:
        slot = self._guards[storage]

        def check(f: Frame) -> None:
            broken = f[slot](give_back=False)
            if broken:
                raise _beside(storage, broken, node)

        return check

    def guarded(
        self, frame: Frame, arrays: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], Callable[[], None]]:
        """Copies of the written arguments between guard zones, and what to call after the run.

        That call gives the elements back, and is an error where a zone was written.
        """
        inside = list(arrays)
        checks: list[tuple[Storage, Callable[[], str]]] = []
        for storage, slot in self._guards.items():
            assert storage.param is not None
            inside[storage.param], check = guarded_copy(arrays[storage.param])
            frame[slot] = check
            checks.append((storage, check))

        def finish() -> None:
            broken = [(storage, check()) for storage, check in checks]
            for storage, where in broken:
                if where:
                    raise _beside(storage, where, None, self._graph)

        return inside, finish


def _beside(
    storage: Storage, broken: str, node: Node | None, graph: Graph | None = None
) -> PyptoError:
    """The error of a guard zone that was written: no kernel can do that, so an op is at fault."""
    by = f" by {node.op.name}" if node is not None else ""
    return error(
        IndexError,
        f"`{storage.name}` was written outside of its memory{by}: {broken}; this is a defect of "
        "pypto-anywhere, not of the kernel",
        loc=graph.loc if graph is not None else None,
        kind=InternalError,
    )
