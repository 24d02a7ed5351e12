"""From a graph to a module of LLVM IR: the walk over regions, loops and branches.

In: a verified graph and a target.  Out: a `Module` with one exported function,

    i32 kernel(ptr context, ptr arguments, ptr dims, ptr arena)

and what a run needs to know of it: the size of its arena, and the faults that it may end in.  A
value that a loop or a branch hands on gets memory of its own, unless it lives in one storage all
along.  Neighbouring maps wait for each other, so that they become one nest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pypto.cpu.buffers import Mem, number
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.emission import OWN_ARENA, PARALLEL, SOME_TRIPS, Emission, Fault
from pypto.cpu.folds import emit_fold
from pypto.cpu.functions import Elementary
from pypto.cpu.independence import independent
from pypto.cpu.maps import Group, emit_group
from pypto.cpu.moves import MOVES, copy_box
from pypto.cpu.orders import ORDERS
from pypto.cpu.places import PLACES
from pypto.cpu.prints import Items, emit_print
from pypto.cpu.products import emit_product, emit_transposed
from pypto.cpu.target import Target
from pypto.cpu.twice import TWICE
from pypto.cpu.windows import CONTROL, must_copy
from pypto.errors import PyptoError, not_supported
from pypto.ir import faults
from pypto.ir.graph import Graph, Node, Region, Value
from pypto.ir.lifetime import last_uses, users
from pypto.ir.op import Family
from pypto.ir.sym import SymInt, expr
from pypto.ir.types import IntType

KERNEL = "kernel"
_PARAMS = [Reg("%context", "ptr"), Reg("%arguments", "ptr"), Reg("%dims", "ptr")]
_ARENA = Reg("%arena", "ptr")
_BODY = [
    Reg("%context", "ptr"),
    Reg("%frame", "ptr"),
    _ARENA,
    Reg("%begin", "i64"),
    Reg("%end", "i64"),
]
# Nanoseconds of work below which waking threads costs more than it brings.
_WORTH_THREADS = 200_000.0
# What only names memory and may be emitted before maps that wait.
_WINDOWS = frozenset({"view", "reshape", "alias", "integer"})


class Emitted(NamedTuple):
    """The text of a kernel's module, and what a run needs to know.

    `arena` bytes belong to the kernel itself, `body_arena` to each thread that runs the body of a
    parallel loop; `prints` say what each print of the code shows.
    """

    module: Module
    arena: int
    body_arena: int
    faults: list[Fault]
    prints: list[Items]


def emit(graph: Graph, target: Target) -> Emitted:
    """The module of a graph."""
    return _Emitter(graph, target).kernel()


class _Emitter:
    def __init__(self, graph: Graph, target: Target) -> None:
        self._graph = graph
        self._e = Emission(graph, target, Elementary)
        self._ends = last_uses(graph)
        self._users = users(graph)
        self._group = Group()
        self._done: list[Node] = []  # nodes whose tensors are not let go yet
        self._parallel = False  # whether the body of a parallel loop is being written
        self._outside: list[int] = []  # the arenas of such bodies

    def kernel(self) -> Emitted:
        e = self._e
        code = Function(
            e.module, KERNEL, [*_PARAMS, _ARENA], result="i32", attributes="external nounwind"
        )
        with e.writing(code):
            dims = [
                (v, k, axis) for k, p in enumerate(self._graph.params) for axis, v in p.dims.items()
            ]
            for place, (value, _, _) in enumerate(dims):
                e.ints.set(value, code.load("i64", code.at("i64", "%dims", str(place))))
            for k, param in enumerate(self._graph.params):
                pointer = code.load("ptr", code.at("ptr", "%arguments", str(k)))
                type = param.value.tensor
                e.bind(param.value, Mem(pointer, e.strides_of(type.shape), type.dtype))
            self._region(self._graph.body)
            arena = e.arena.peak
        e.module.add(code)
        return Emitted(e.module, arena, max(self._outside, default=0), e.faults, e.prints)

    # --- regions ---------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        for node in region.nodes:
            self._e.node = node
            try:
                self._node(node)
            except PyptoError as problem:
                if problem.loc is None:
                    problem.loc = node.loc
                raise
        self._flush()

    def _node(self, node: Node) -> None:
        unrelated = node.op.name in _WINDOWS and not self._group.needs(node.operands)
        if not unrelated and not self._group.takes(node):
            self._flush()
        if self._group.takes(node):
            self._group.add(node)
            return
        self._emit(node)
        self._done.append(node)
        self._let_go()

    def _flush(self) -> None:
        """Emit the maps that wait."""
        nodes = self._group.nodes
        if not nodes:
            return
        self._group = Group()
        self._done += nodes
        inside = set(nodes)
        kept = [
            node.result
            for node in nodes
            if any(user not in inside for user in self._users.get(node.result, ()))
        ]
        if kept:
            self._e.node = nodes[0]
            emit_group(self._e, nodes, kept)
        self._let_go()

    def _let_go(self) -> None:
        """Let tensors go that nothing needs any more; maps that wait may need them still."""
        if self._group.nodes:
            return
        for node in self._done:
            for value in self._ends.get(node, ()):
                self._e.let_go(value)
        self._done = []

    def _emit(self, node: Node) -> None:
        e, op = self._e, node.op
        # Maps that waited were written in between.
        e.node = node
        if op.name == "loop":
            self._loop(node)
        elif op.name == "cond":
            self._cond(node)
        elif op.name == "print":
            emit_print(e, node)
        elif op.name in CONTROL:
            CONTROL[op.name](e, node)
        elif op.name in MOVES:
            MOVES[op.name](e, node)
        elif op.name in PLACES:
            PLACES[op.name](e, node)
        elif op.name in ORDERS:
            ORDERS[op.name](e, node)
        elif op.name in TWICE:
            TWICE[op.name](e, node)
        elif op.name == "matmul":
            emit_product(e, node)
        elif op.name == "experimental.transposed_batchmatmul":
            emit_transposed(e, node)
        elif op.family in (Family.REDUCE, Family.SCAN):
            emit_fold(e, node)
        else:
            raise not_supported(f"{op.name} in machine code")

    # --- handing values on -----------------------------------------------------------------------

    def _receive(self, value: Value, sources: Sequence[Value | SymInt | None]) -> Mem:
        """Where a value that a region receives lies: memory of its own, or that of its storage."""
        e, type = self._e, value.tensor
        home = e.home(value)
        if home is not None and any(
            isinstance(s, Value) and s.storage is value.storage for s in sources
        ):
            return e.bind(value, home)
        return e.bind(value, e.take(type.dtype, type.shape))

    def _put(
        self, sources: Sequence[Value | SymInt | None], targets: Sequence[tuple[Value, Mem | Reg]]
    ) -> None:
        """Give several values what they stand for, all at once: `a, b = b, a` is right."""
        e = self._e
        moves: list[tuple[Value, Mem, Mem]] = []
        integers: list[tuple[Reg, Reg]] = []
        for source, (_, place) in zip(sources, targets, strict=True):
            if source is None:
                continue
            if not isinstance(place, Mem):
                number = e.ints.get(source) if isinstance(source, Value) else e.ints.of(source)
                integers.append((number, place))
            elif isinstance(source, Value) and e.mem(source).pointer != place.pointer:
                moves.append((source, e.mem(source), place))
        # What lies where another value goes is read before that is written.
        overwritten = {place.root for _, _, place in moves}
        between: list[Mem] = []
        for k, (source, mem, place) in enumerate(moves):
            if mem.root is not None and mem.root in overwritten:
                between.append(e.take(mem.dtype, source.tensor.shape))
                copy_box(e, e.valid(source), mem, between[-1])
                moves[k] = (source, between[-1], place)
        for source, mem, place in moves:
            copy_box(e, e.valid(source), mem, place)
        for mem in between:
            e.drop(mem)
        for number, place in integers:
            e.code.store(number, place)

    def _loop(self, node: Node) -> None:
        e, code, region = self._e, self._e.code, node.regions[0]
        start, stop, step = e.ints.all([node.attrs[n] for n in ("start", "stop", "step")])
        low, high = expr(node.attrs["step"]).bounds()
        if low <= 0 <= high:
            e.fault(code.compare("eq", step, i64(0)), (), lambda found: faults.zero_step())
        trips = self._trips(start, stop, step)
        if not self._parallel and independent(node):
            self._spread(node, start, step, trips)
            return
        cost, e.cost = e.cost, 0.0
        carried, inits = region.params[1:], node.attrs["inits"]
        places = self._places(carried, inits, region.yields)
        self._put(inits, list(zip(carried, places, strict=True)))
        label = region.params[0].name or "the index"
        with code.loop(i64(0), trips) as trip:
            e.ints.open()
            index = code.add(start, code.mul(trip, step))
            e.ints.set(region.params[0], index)
            e.loops.append((label, index))
            self._load(carried, places)
            self._region(region)
            self._put(region.yields, list(zip(carried, places, strict=True)))
            self._leave(region)
            e.poll(e.cost)
            e.loops.pop()
            e.ints.close()
        e.cost = cost + e.cost * (number(trips) or SOME_TRIPS)
        for param, result, place in zip(carried, node.results, places, strict=True):
            if isinstance(place, Mem):
                e.let_go(param)
                self._take_over(param, result, place)
            else:
                e.ints.set(result, code.load("i64", place))

    def _spread(self, node: Node, start: Reg, step: Reg, trips: Reg) -> None:
        """A loop whose trips may run at the same time: its body becomes a function of its own.

        It finds the registers that it uses from outside in a frame that the loop fills.
        """
        e, region = self._e, node.regions[0]
        carried = region.params[1:]
        cost, e.cost = e.cost, 0.0
        places = [e.mem(init) for init in node.attrs["inits"]]
        for param, place in zip(carried, places, strict=True):
            e.bind(param, place)
            e.hold(place)
        body = Function(e.module, e.module.name("body"), _BODY, result="i32")
        self._parallel = True
        with e.writing(body):
            e.ints.open()
            with body.loop(_BODY[3], _BODY[4]) as trip:
                index = body.add(start, body.mul(trip, step))
                e.ints.set(region.params[0], index)
                e.loops.append((region.params[0].name or "the index", index))
                self._region(region)
                self._leave(region)
                e.poll(e.cost)
                e.loops.pop()
            e.ints.close()
            size = e.arena.peak
        self._parallel = False
        self._outside.append(size)
        self._call(body, size, trips, e.cost)
        e.cost = cost + e.cost * (number(trips) or SOME_TRIPS)
        for param, result, place in zip(carried, node.results, places, strict=True):
            e.let_go(param)
            e.bind(result, place)
            e.unhold(place)

    def _call(self, body: Function, size: int, trips: Reg, cost: float) -> None:
        """Fill the frame of a parallel body and run it, by all threads if it is worth that."""
        e, code = self._e, self._e.code
        used = body.foreign()
        frame = code.local(f"[{max(1, len(used))} x i64]", align=8)
        loads = []
        for place, reg in enumerate(used):
            code.store(reg, code.at("i64", frame, str(place)))
            loads += [
                f"%at{place} = getelementptr i64, ptr %frame, i64 {place}",
                f"{reg} = load {reg.type}, ptr %at{place}",
            ]
        body.prepend(loads)
        e.module.add(body)
        own = code.load("ptr", code.at("i64", "%context", str(OWN_ARENA)))
        all_, one, done = (code.module.label() for _ in range(3))
        status = code.local("i32")
        least = i64(1 + int(_WORTH_THREADS / max(cost, 1.0)))
        code.branch(code.compare("sgt", trips, least), all_, one)
        code.start(all_)
        run = code.load("ptr", code.at("i64", "%context", str(PARALLEL)))
        name = Reg(f"@{body.name}", "ptr")
        context = Reg("%context", "ptr")
        code.store(code.call("i32", run, context, name, frame, i64(size), trips), status)
        code.jump(done)
        code.start(one)
        code.store(code.call("i32", name, context, frame, own, i64(0), trips), status)
        code.jump(done)
        code.start(done)
        good, bad = code.module.label(), code.module.label()
        code.branch(code.compare("eq", code.load("i32", status), Reg("0", "i32")), good, bad)
        code.start(bad)
        e.stop()
        code.start(good)

    def _take_over(self, param: Value, result: Value, place: Mem) -> None:
        """The result of a loop lives where its parameter lived, which nothing needs any more."""
        e = self._e
        if place.root is not None or not must_copy(param, result):
            e.bind(result, place)
        else:
            copy_box(e, e.valid(result), place, e.make(result))
        e.unhold(place)

    def _places(
        self,
        targets: Sequence[Value],
        inits: Sequence[Value | SymInt | None],
        yields: Sequence[Value | SymInt | None],
    ) -> list[Mem | Reg]:
        """Where carried values lie: tensors in memory, integers in variables."""
        places: list[Mem | Reg] = []
        for target, init in zip(targets, inits, strict=True):
            if isinstance(target.type, IntType):
                variable = self._e.code.local("i64")
                self._e.code.store(i64(0), variable)
                places.append(variable)
            else:
                place = self._receive(target, (init,))
                # The next trip needs it, too, wherever this one needs it last.
                self._e.hold(place)
                places.append(place)
        return places

    def _load(self, values: Sequence[Value], places: Sequence[Mem | Reg]) -> None:
        for value, place in zip(values, places, strict=True):
            if not isinstance(place, Mem):
                self._e.ints.set(value, self._e.code.load("i64", place))

    def _leave(self, region: Region) -> None:
        """Let go what a region yields."""
        made = {r for node in region.nodes for r in node.results}
        for item in region.yields:
            if isinstance(item, Value) and item in made:
                self._e.let_go(item)

    def _trips(self, start: Reg, stop: Reg, step: Reg) -> Reg:
        code, fixed = self._e.code, number(step)
        if fixed is not None and number(start) is not None and number(stop) is not None:
            return i64(len(range(int(start), int(stop), fixed)))
        if fixed == 1:
            return code.sub(stop, start)
        negative = code.compare("slt", step, i64(0))
        size = code.let("i64", f"select i1 {negative}, i64 {code.sub(i64(0), step)}, i64 {step}")
        up, down = code.sub(stop, start), code.sub(start, stop)
        way = code.let("i64", f"select i1 {negative}, i64 {down}, i64 {up}")
        full = code.add(way, code.sub(size, i64(1)))
        count = code.let("i64", f"sdiv i64 {full}, {size}")
        some = code.compare("sgt", way, i64(0))
        return code.let("i64", f"select i1 {some}, i64 {count}, i64 0")

    def _cond(self, node: Node) -> None:
        e, code = self._e, self._e.code
        holds = e.ints.truth(node.attrs["cond"])
        places: list[Mem | Reg] = []
        pairs = zip(node.results, *(r.yields for r in node.regions), strict=True)
        for result, *arms in pairs:
            if isinstance(result.type, IntType):
                variable = code.local("i64")
                code.store(i64(0), variable)
                places.append(variable)
                continue
            places.append(self._receive(result, arms))
        labels = [code.module.label() for _ in range(3)]
        code.branch(holds, labels[0], labels[1])
        for region, label in zip(node.regions, labels, strict=False):
            code.start(label)
            e.ints.open()
            self._region(region)
            self._put(region.yields, list(zip(node.results, places, strict=True)))
            self._leave(region)
            e.ints.close()
            code.jump(labels[2])
        code.start(labels[2])
        self._load(node.results, places)
