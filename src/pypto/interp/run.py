"""A graph as a program of NumPy steps.

In: a verified graph and the arrays of one call.  Out: the arrays written in place, or an error at
the user's line.  `prepare` turns every node into a step once; `Program.run` walks the steps.  A
program holds no state of a run, so several threads may run one at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from pypto.errors import InternalError, PyptoError, adopt
from pypto.interp.families import compute
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step, fresh, must_copy
from pypto.interp.sanitize import SanitizedPlan
from pypto.interp.windows import CONTROL
from pypto.ir.faults import told, zero_step
from pypto.ir.graph import Graph, Node, Region, Value
from pypto.ir.lifetime import Ends, last_uses
from pypto.ir.sym import SymInt
from pypto.ir.types import TensorType


class Program:
    """A graph made ready to run, with the checks of the sanitizers that are named."""

    text = ""  # it has no machine code

    def __init__(self, graph: Graph, sanitizers: frozenset[str] = frozenset()) -> None:
        self._sanitized = SanitizedPlan(graph, sanitizers) if sanitizers else None
        plan = self._sanitized or Plan()
        self._graph = graph
        self.name = graph.name
        self._params = [p.value.tensor for p in graph.params]
        self._names = [p.name for p in graph.params]
        self._arrays = [plan.define(p.value) for p in graph.params]
        self._dims = [
            (plan.define(value), index, axis)
            for index, p in enumerate(graph.params)
            for axis, value in p.dims.items()
        ]
        self._slots = (plan.trips, plan.culprit)
        self._body = _region(plan, graph.body, last_uses(graph))
        self._size = plan.size

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays of one call, one per tensor parameter; outputs are written in place."""
        self._check(arrays)
        frame: Frame = [None] * self._size
        if self._sanitized is None:
            self._go(frame, arrays)
            return
        inside, finish = self._sanitized.guarded(frame, arrays)
        try:
            self._go(frame, inside)
        except BaseException:
            with suppress(InternalError):
                finish()
            raise
        finish()

    def _go(self, frame: Frame, arrays: Sequence[np.ndarray]) -> None:
        for slot, array in zip(self._arrays, arrays, strict=True):
            frame[slot] = array
        for slot, index, axis in self._dims:
            frame[slot] = arrays[index].shape[axis]
        with np.errstate(all="ignore"):
            try:
                self._body(frame)
            except PyptoError as cause:
                trips, culprit = frame[self._slots[0]], frame[self._slots[1]]
                cause.text = told(self._graph, cause.text, trips or (), culprit)
                cause.args = (cause.text,)
                raise

    def _check(self, arrays: Sequence[np.ndarray]) -> None:
        if len(arrays) != len(self._params):
            raise InternalError(f"{self.name} takes {len(self._params)} arrays, got {len(arrays)}")
        for name, type, array in zip(self._names, self._params, arrays, strict=True):
            fits = len(array.shape) == type.rank and all(
                not isinstance(n, int) or n == found
                for n, found in zip(type.shape, array.shape, strict=False)
            )
            if not fits or array.dtype != type.dtype.numpy:
                raise InternalError(
                    f"{self.name}: {name} is {type.brief()}, got {array.dtype}{list(array.shape)}"
                )


def prepare(graph: Graph, sanitizers: frozenset[str] = frozenset()) -> Program:
    """The program of a graph; callers keep it."""
    return Program(graph, sanitizers)


def interpret(
    graph: Graph, arguments: Sequence[np.ndarray], sanitizers: frozenset[str] = frozenset()
) -> None:
    """Run a graph once."""
    prepare(graph, sanitizers).run(arguments)


# --- regions -------------------------------------------------------------------------------------


def _region(plan: Plan, region: Region, ends: Ends) -> Step:
    """The steps of a body, in order; an error gets the place of the node that raised it."""
    steps: list[Step] = []
    nodes: dict[Step, Node] = {}
    for node in region.nodes:
        step = plan.watched(node, _step(plan, node, ends))
        nodes[step] = node
        steps.append(step)
        if node in ends:
            steps.append(_let_go([plan.slot(v) for v in ends[node]]))

    culprit = plan.culprit

    def run(f: Frame) -> None:
        step: Step | None = None
        try:
            for step in steps:
                step(f)
        except PyptoError as cause:
            if cause.loc is None and step is not None:
                node = nodes[step]
                cause.loc = node.loc
                # Places out of range are told without the tensor that they are out of.
                f[culprit] = node if isinstance(cause, IndexError) else None
            raise
        except OSError:
            # What a print runs into (a pipe that is closed) is its caller's.
            raise
        except Exception as cause:
            assert step is not None
            f[culprit] = nodes[step] if isinstance(cause, IndexError) else None
            raise _failed(nodes[step], cause) from cause

    return run


def _failed(node: Node, cause: Exception) -> PyptoError:
    """What a reference let escape: places out of range are the user's, the rest is a defect."""
    if isinstance(cause, MemoryError):
        # NumPy's own class takes other arguments.
        return adopt(MemoryError(str(cause)), node.loc)
    if isinstance(cause, IndexError):
        return adopt(cause, node.loc)
    found = f"{type(cause).__name__}: {cause}"
    return InternalError(f"the interpreter failed in {node.op.name}: {found}", loc=node.loc)


def _let_go(slots: list[int]) -> Step:
    def step(f: Frame) -> None:
        for slot in slots:
            f[slot] = None

    return step


def _step(plan: Plan, node: Node, ends: Ends) -> Step:
    if node.op.name == "loop":
        return _loop(plan, node, ends)
    if node.op.name == "cond":
        return _cond(plan, node, ends)
    handler = CONTROL.get(node.op.name, compute)
    return handler(plan, node)


def _handed(plan: Plan, source: Value | SymInt | None, target: Value) -> Get:
    """What a parameter or a result gets: a number, or a tensor, in memory of its own if need be.

    None is a name that nothing has bound yet; the front end guards every use of one.
    """
    if source is None:
        return lambda f: None
    if not isinstance(source, Value):
        return plan.number(source)
    slot = plan.slot(source)
    if not isinstance(source.type, TensorType) or not must_copy(source, target):
        return lambda f: f[slot]

    def copied(f: Frame) -> np.ndarray | None:
        array = f[slot]
        return None if array is None else fresh(array)

    return copied


def _handing(
    plan: Plan, sources: Sequence[Value | SymInt | None], targets: Sequence[Value]
) -> list[Get]:
    """What parameters or results get, and what travels with it; `_receiving` has the slots."""
    pairs = list(zip(sources, targets, strict=True))
    gets = [_handed(plan, source, target) for source, target in pairs]
    return gets + [get for source, target in pairs for get in plan.beside(source, target)]


def _receiving(plan: Plan, targets: Sequence[Value]) -> list[int]:
    slots = [plan.slot(target) for target in targets]
    return slots + [slot for target in targets for slot in plan.places(target)]


def _owned(plan: Plan, region: Region) -> list[int]:
    """Slots that may still hold memory when a region is left."""
    held = {*region.params, *(y for y in region.yields if isinstance(y, Value))}
    made = {*region.params, *(r for node in region.nodes for r in node.results)}
    return [plan.slot(v) for v in held & made]


def _loop(plan: Plan, node: Node, ends: Ends) -> Step:
    region, attrs = node.regions[0], node.attrs
    bounds = plan.numbers((attrs["start"], attrs["stop"], attrs["step"]))
    carried = region.params[1:]
    inits = _handing(plan, attrs["inits"], carried)
    index = plan.define(region.params[0])
    for param in carried:
        plan.define(param)
    slots = _receiving(plan, carried)
    body = _region(plan, region, ends)
    yields = _handing(plan, region.yields, carried)
    finals = _handing(plan, carried, node.results)
    owned = _owned(plan, region)
    for result in node.results:
        plan.define(result)
    results = _receiving(plan, node.results)
    trips, label = plan.trips, region.params[0].name or "the index"

    def step(f: Frame) -> None:
        start, stop, stride = bounds(f)
        if stride == 0:
            raise zero_step()
        values = [get(f) for get in inits]
        try:
            for number in range(start, stop, stride):
                f[index] = number
                for slot, value in zip(slots, values, strict=True):
                    f[slot] = value
                body(f)
                values = [get(f) for get in yields]
        except PyptoError:
            f[trips] = [f"{label} = {f[index]}", *(f[trips] or ())]
            raise
        for slot, value in zip(slots, values, strict=True):
            f[slot] = value
        values = [get(f) for get in finals]
        for slot in owned:
            f[slot] = None
        for slot, value in zip(results, values, strict=True):
            f[slot] = value

    return step


def _cond(plan: Plan, node: Node, ends: Ends) -> Step:
    cond = plan.number(node.attrs["cond"])
    arms: list[tuple[Step, list[Get], list[int]]] = []
    for region in node.regions:
        body = _region(plan, region, ends)
        arms.append((body, _handing(plan, region.yields, node.results), _owned(plan, region)))
    for result in node.results:
        plan.define(result)
    results = _receiving(plan, node.results)

    def step(f: Frame) -> None:
        body, yields, owned = arms[0 if cond(f) else 1]
        body(f)
        values = [get(f) for get in yields]
        for slot in owned:
            f[slot] = None
        for slot, value in zip(results, values, strict=True):
            f[slot] = value

    return step
