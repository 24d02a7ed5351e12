"""What dynamic loops and branches have in common while they are traced.

A region is entered, its body runs once in place, and it is closed: names that the body stored
become parameters and results, storages that it touched get a version behind it.  Here: what the
syntax says of a region, names that may be unbound or stand for several things, Python objects that
must not change inside, bounds of loops.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import numpy as np

from pypto.errors import Loc, PyptoWarning, error, warn
from pypto.ir import build, options, sym
from pypto.ir.build import Conflict
from pypto.ir.findings import any_failed, keep
from pypto.ir.graph import Node, Region, Storage, Value, Yield, leaves_of, walk
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar
from pypto.ir.sym import SymInt
from pypto.ir.types import TensorType, full
from pypto.ops import control
from pypto.trace.objects import Snapshot, equal


class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


UNBOUND = _Unbound()


@dataclass(eq=False)
class Site:
    """What the syntax says about one loop or branch."""

    kind: str
    names: list[str]
    loc: Loc
    targets: list[str] = field(default_factory=list)
    # Names that the body may read before it stores them; `exposed` adds those that it stores on
    # some paths only.
    read: frozenset[str] = frozenset()
    exposed: frozenset[str] = frozenset()
    escapes: list[tuple[str, Loc]] = field(default_factory=list)
    mutations: list[tuple[str, Loc]] = field(default_factory=list)
    has_else: bool = False


class Bound:
    """Checks, at each use of a name, that some executed path has bound it."""

    def __init__(self, name: str, cond: SymInt, after_loop: bool = False) -> None:
        self.name = name
        self.cond = cond
        self.after_loop = after_loop

    def __call__(self) -> None:
        if self.after_loop and self.cond != 1:
            build.warning(
                PyptoWarning,
                f"`{self.name}` is read behind a loop that may run no time, which would leave it "
                "unbound",
                f"bind `{self.name}` before the loop",
            )
        build.require(
            control.REQUIRE,
            self.cond,
            "NameError",
            "F00004",
            f"name '{self.name}' is not bound: no path that ran has bound `{self.name}`",
            f"bind `{self.name}` before the loop or in both arms of the branch",
        )


def describe(item: Any) -> str:
    """What a name holds, for messages."""
    if item is UNBOUND:
        return "unbound"
    if isinstance(item, Tensor):
        return f"Tensor[{','.join(str(d) for d in item.shape)}]"
    return type(item).__name__


def is_number(item: Any) -> bool:
    return isinstance(item, (int, np.integer, SymbolicScalar))


def raw(item: Any) -> sym.Expr:
    """A number as an expression, without checking that its name is bound."""
    return item._expr if isinstance(item, SymbolicScalar) else sym.const(int(item))


def guard_of(item: Any) -> SymInt:
    """1 where the name that holds it is bound for certain, else the condition."""
    if isinstance(item, Conflict):
        return 1
    guard = item._guard if isinstance(item, SymbolicScalar) else getattr(item, "guard", None)
    return guard.cond if isinstance(guard, Bound) else 1


def number(value: SymInt, name: str, bound: SymInt = 1, after_loop: bool = False) -> SymbolicScalar:
    """A symbolic scalar under a name that may be unbound."""
    scalar = SymbolicScalar(sym.expr(value))
    if bound != 1:
        scalar._guard = Bound(name, bound, after_loop)
    return scalar


def is_plain(item: Any) -> bool:
    """Whether a handle stands for a tensor with static extents, which can be carried."""
    return (
        isinstance(item, Tensor)
        and item._storage is not None
        and not any_failed(item)
        and all(isinstance(d, int) for d in item._extents())
    )


def version(trace: build.Trace, item: Tensor) -> Value:
    """The value of a handle here, whether or not its name is bound for certain."""
    assert item._storage is not None
    value = trace.read(item._storage)
    if item._shape is None or value.tensor.shape == item._shape:
        return value
    return item._as_alias(trace, value, item._shape)


def kind_of(item: Tensor) -> TensorType:
    """The type of a handle, everything in it valid."""
    return full(item.dtype, item._extents(), item.format)


def same_kind(a: Tensor, b: Tensor) -> bool:
    return a.dtype is b.dtype and a.shape == b.shape


class Opened:
    """What loops and branches share: the settings and the objects at their start."""

    def __init__(self, site: Site, frame: FrameType, names: Mapping[str, Any]) -> None:
        self.trace = build.current("pypto.loop")
        self.site = site
        self.frame = id(frame)
        here = build.here()
        self.outer_loc = here.outer if here is not None else None
        self.loc = self.at(site.loc)
        self.entry = dict(names)
        reachable = dict(names)
        reachable.update(
            {n: frame.f_globals[n] for n in frame.f_code.co_names if n in frame.f_globals}
        )
        self.snapshot = Snapshot(reachable)
        # Globals of every function seen so far, since a helper may rebind one.
        spaces = {id(f.__globals__): f.__globals__ for f in self.trace.functions}
        self.globals = [(space, dict(space)) for space in spaces.values()]
        self.settings = options.settings()

    def at(self, loc: Loc) -> Loc:
        """A place of this function, with the calls that led here."""
        return replace(loc, outer=self.outer_loc)

    def refuse_escapes(self, where: str, fix: str) -> None:
        """Tell of jumps out of the body; the trace goes on as if they were not there."""
        for keyword, loc in self.site.escapes:
            problem = error(
                SyntaxError, f"{keyword} is not supported {where}", loc=self.at(loc), fix=fix
            )
            if keyword == "yield":
                # The rest of the body runs when the reader of the generator asks for it.
                raise problem
            keep(problem)

    def skip(self) -> None:
        """The rest of the body is left out by a jump that was refused: what is found there is no
        mistake of the kernel that was meant.
        """
        self.trace.skipped.setdefault(self, len(self.trace.findings))

    def check_objects(self, names: Mapping[str, Any], what: str, reader: str) -> None:
        """Tell of objects that the body changed, at the statements that changed them."""
        told = self.trace.changes
        for space, before in self.globals:
            for name, item in before.items():
                now = space.get(name)
                key = (id(space), name)
                if now is item or equal(now, item) or (key in told and told[key] is now):
                    continue
                told[key] = now
                self.trace.leave([now])
                keep(
                    error(
                        TypeError,
                        f"the global `{name}` changes inside {what}: it is read when the kernel is "
                        f"traced, as a compile-time object, so {reader} would read something else",
                        loc=self.loc,
                        fix="carry the value under a local name, or write it into a tensor",
                    )
                )
        for root, item, new in self.snapshot.changed(told):
            self.trace.leave(new)
            keep(
                error(
                    TypeError,
                    f"`{root}` changes inside {what}: a {type(item).__name__} is a compile-time "
                    f"object, so {reader} would read something else",
                    loc=self._place_of_change(root, item, names),
                    fix="carry the value under a name of its own, or write it into a tensor",
                )
            )

    def _place_of_change(self, root: str, item: Any, names: Mapping[str, Any]) -> Loc:
        for name, place in self.site.mutations:
            if name == root or names.get(name, self.entry.get(name)) is item:
                return self.at(place)
        return self.loc


def trace_loops(trace: build.Trace) -> list[Any]:
    """The dynamic loops that are open in a trace, outermost first."""
    return trace.open_loops


def full_type(type: TensorType) -> TensorType:
    return type.with_valid(type.shape)


def flag_of(results: Mapping[Value, Value], flag: Value | None) -> SymInt:
    return 1 if flag is None else sym.leaf(results[flag], 0, 1)


def value_text(name: str) -> str:
    return (
        f"`{name}` holds the value that the tensor had when it was bound, not the tensor: this "
        "write is not seen through it"
    )


def conflict(name: str, a: Any, b: Any, where: str) -> Conflict:
    kinds = f"({describe(a)} / {describe(b)})"
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is not b.dtype:
        kinds = f"({describe(a)} {a.dtype.name} / {describe(b)} {b.dtype.name})"
    different = "different values"
    if type(a) is not type(b) or isinstance(a, Tensor):
        different = "different types"
    if isinstance(a, float) and isinstance(b, float):
        different = (
            "different float values, which control flow cannot choose yet (not supported yet),"
        )
    return Conflict(
        f"Conflicted var {name}: `{name}` has {different} {where} {kinds}",
        f"bind `{name}` to the same kind of value on every path, or use two names",
    )


def is_shared(item: Tensor, name: str, opened: Opened | None) -> bool:
    """Whether a tensor can be reached otherwise than under one name of the function at hand."""
    assert item._storage is not None
    if item._storage.param is not None or opened is None:
        return True
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not build.floor():
        own = name if id(frame) == opened.frame else None
        if not build.is_internal(frame.f_code.co_filename) and any(
            held is item for label, held in frame.f_locals.items() if label != own
        ):
            return True
        frame = frame.f_back
    return opened.snapshot.holds(item)


def refuse_write(
    trace: build.Trace,
    name: str,
    result: Tensor,
    alternatives: tuple[Any, ...],
    opened: Opened | None,
) -> None:
    """A name that may stand for one of several tensors cannot be written in place, unless none of
    them can be seen otherwise: then the value that the name holds is all there is to write.
    """
    known = [
        t
        for t in alternatives
        if isinstance(t, Tensor)
        and t._storage is not None
        and trace.knows(t._storage, trace.scope)
        and is_shared(t, name, opened)
    ]
    if not known:
        return
    storage = result._storage
    assert storage is not None
    labels = sorted({t.name or "a tensor made before" for t in known})

    def fail() -> Storage:
        raise error(
            ValueError,
            f"`{name}` cannot be written in place: it stands for different tensors on different "
            f"paths ({', '.join(labels)})",
            fix="write each tensor under its own name inside the branch, or bind a copy first: "
            f"`{name} = {name}.clone()`",
        )

    trace.on_write[storage] = fail
    for t in known:
        assert t._storage is not None
        trace.watched[t._storage] = lambda: warn(PyptoWarning, value_text(name), build.here())


# --- bounds --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bounds:
    """start, stop, step of a loop; `factors` of a `loop_unroll`, largest first."""

    start: SymInt
    stop: SymInt
    step: SymInt
    factors: tuple[int, ...] = ()
    parallel: bool = False


def trip_count(start: SymInt, stop: SymInt, step: SymInt) -> sym.Expr:
    """How often a loop runs, as `len(range(start, stop, step))`."""
    low, high = sym.expr(step).bounds()
    if low > 0:
        span = sym.add(sym.sub(stop, start), sym.sub(step, 1))
        return sym.maximum(sym.floordiv(span, step), 0)
    if high < 0:
        back = sym.neg(step)
        span = sym.add(sym.sub(start, stop), sym.sub(back, 1))
        return sym.maximum(sym.floordiv(span, back), 0)
    forward = sym.compare("lt", 0, step)
    size = sym.maximum(sym.mul(step, sym.sub(sym.mul(2, forward), 1)), 1)
    span = sym.select(forward, sym.sub(stop, start), sym.sub(start, stop))
    return sym.maximum(sym.floordiv(sym.add(span, sym.sub(size, 1)), size), 0)


def index_bounds(start: SymInt, stop: SymInt, step: SymInt) -> tuple[int, int]:
    (start_low, start_high), (stop_low, stop_high) = (
        sym.expr(start).bounds(),
        sym.expr(stop).bounds(),
    )
    low, high = sym.expr(step).bounds()
    if low > 0:
        found = (start_low, stop_high - 1)
    elif high < 0:
        found = (stop_low + 1, start_high)
    else:
        found = (min(start_low, stop_low + 1), max(start_high, stop_high - 1))
    return found if found[0] <= found[1] else (-sym.INF, sym.INF)


def rename(x: SymInt, leaves: Mapping[Value, Value]) -> SymInt:
    """An expression with other values for its leaves, between the same bounds."""
    if isinstance(x, int):
        return x
    low, high = x.bounds()
    return sym.simple(
        sym.substitute(x, lambda v: sym.leaf(leaves[v], low, high) if v in leaves else None)
    )


# --- what a body reads ---------------------------------------------------------------------------


def reads(body: Region, param: Value) -> bool:
    """Whether the body of a loop reads a parameter, be it through inner loops and branches."""
    nodes = list(walk(body))
    passed, seen = [param], {param}
    while passed:
        value = passed.pop()
        for node in nodes:
            if value in node.operands or value in node.scalars():
                return True
            for other in _flows(node, value):
                if other not in seen:
                    seen.add(other)
                    passed.append(other)
    return False


def _flows(node: Node, value: Value) -> Iterator[Value]:
    """Parameters and results of a loop or branch that may hold the value handed to it."""
    is_loop = node.op is control.LOOP
    for region in node.regions:
        params = region.params[1:] if is_loop else [None] * len(node.results)
        inits = node.attrs["inits"] if is_loop else [None] * len(node.results)
        for slots in zip(params, inits, region.yields, node.results, strict=True):
            if any(_holds(given, value) for given in slots[1:3]):
                yield from (v for v in (slots[0], slots[3]) if v is not None)


def _holds(given: Yield | None, value: Value) -> bool:
    return given is value or value in leaves_of(given)
