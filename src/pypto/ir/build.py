"""The trace: where nodes go while a kernel's Python runs.

In: ops called by the user's statements.  Out: nodes in the open region, each with the user's place
and the tile setting in force.  A tensor handle names a storage; a trace knows the version of every
storage at this point of the program, makes a loop parameter when a loop first touches a storage of
the outside, and leaves the merging of versions to the regions that close.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from pypto import knobs
from pypto.errors import Loc, PortabilityNote, PyptoError, PyptoWarning, Stopped, error, warn
from pypto.ir import options, sym
from pypto.ir.findings import NO_FURTHER, keep, storage_of
from pypto.ir.findings import Conflict as Conflict
from pypto.ir.findings import is_failed as is_failed
from pypto.ir.findings import settle as settle
from pypto.ir.graph import Graph, Node, Param, Region, Storage, Value, int_value, leaves_of
from pypto.ir.op import Op
from pypto.ir.place import current as _current
from pypto.ir.place import frame_loc as frame_loc
from pypto.ir.place import here as here
from pypto.ir.place import is_internal as is_internal
from pypto.ir.scalar import SymbolicScalar, operand
from pypto.ir.scalar import failed_integer as failed_integer
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import INT, TensorType, Type


class Scope:
    """An open region: the versions of storages that it has made or touched."""

    __slots__ = ("is_loop", "keys", "number", "open", "parent", "region", "touched", "versions")

    def __init__(self, region: Region, parent: Scope | None, is_loop: bool) -> None:
        self.region = region
        self.parent = parent
        self.is_loop = is_loop
        # Which loop of the trace it is, counted from 1 (0 for others).
        self.number = 0
        # Tensor parameters in the order of making, and what a later run knows them by.
        self.keys: dict[Value, tuple[int, int]] = {}
        self.open = True
        self.versions: dict[Storage, Value] = {}
        # Loops only: storages of the outside in the order of first touch, with parameter and init.
        self.touched: dict[Storage, tuple[Value, Value]] = {}


class Retrace(Exception):
    """The trace took something for fixed that a loop changes; it starts again knowing better."""

    def __init__(self, key: tuple[int, int]) -> None:
        self.key = key


class Trace:
    """One run of a kernel's Python.  `carried` holds what earlier runs learnt (see `Retrace`)."""

    def __init__(self, name: str, carried: frozenset[tuple[int, int]] = frozenset()) -> None:
        self.graph = Graph(name, [], Region())
        self.carried = carried
        self.scope = Scope(self.graph.body, None, False)
        self.owner: dict[Value, Scope] = {}
        self.loops = 0
        self.names = 0
        self.closed = False
        # Storages whose in-place writes need thought: what to call with the place of the write.
        self.on_write: dict[Storage, Callable[[], Storage]] = {}
        self.watched: dict[Storage, Callable[[], None]] = {}
        self.write_places: dict[Storage, Loc | None] = {}
        # Dynamic loops that are open, outermost first, and expressions that choose.
        self.open_loops: list[Any] = []
        self.choices: list[Any] = []
        # Errors found so far whose ops were passed over, to be reported together.
        self.findings: list[PyptoError] = []
        # Tensors that an op which has failed may have been meant to write.
        self.doubtful: set[Storage] = set()
        # What loops carry under a name, and the memory that it was made from.
        self.carried_from: dict[Storage, Storage] = {}
        # Regions whose rest a refused jump would have left out, and the findings before that rest.
        self.skipped: dict[Any, int] = {}
        # Whether an op of the user's is running: the ops that it is written with raise to it.
        self.busy = False
        # Integers that stand for what a failed read would have given.
        self.unknown: set[Value] = set()
        # Objects that a region has changed, which is told, and what they held then; the tensors
        # and integers in them cannot be used once their region is closed.
        self.changes: dict[Any, Any] = {}
        self.left: set[Storage | Value] = set()
        # Tensors whose value was given to another: older front ends leave them empty.
        self.moved: set[Storage] = set()
        # Elements read so far, by version and index.
        self.items: dict[tuple[Value, tuple[SymInt, ...]], Value] = {}
        # Functions whose twins ran, in order; the first is the kernel itself.
        self.functions: dict[Any, None] = {}
        self.entry: Any = None
        # Calls of print() so far, and how many of them an earlier run has shown already.
        self.prints = 0
        self.printed = 0

    def forget_skipped(self, region: Any = None) -> None:
        """Drop what was found in parts that a jump leaves out: those of one region, or of all."""
        found = self.skipped.values() if region is None else [self.skipped.pop(region, None)]
        for count in found:
            if count is not None:
                del self.findings[count:]

    # -- values ---------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def own(self, value: Value, scope: Scope | None = None) -> Value:
        """Note where a value is made, so that uses outside of its region are found."""
        self.owner[value] = scope or self.scope
        return value

    def integer(self, prefix: str, node: Node | None = None, scope: Scope | None = None) -> Value:
        """A new run-time integer."""
        return self.own(int_value(self.fresh(prefix), node), scope)

    def use(self, value: Value) -> Value:
        """The value, which must belong to a region that is open here."""
        scope = self.owner.get(value)
        if scope is None or not scope.open:
            if value in self.left:
                raise Stopped(NO_FURTHER)
            raise error(
                ValueError,
                "a value made inside a pypto.loop or a branch is used outside of it: a Python "
                "object cannot carry it out",
                fix="bind it to a name inside the body, or write it into a tensor made before",
            )
        return value

    # -- storages -------------------------------------------------------------------------------

    def read(self, storage: Storage) -> Value:
        """The version of a storage at this point of the program."""
        path: list[Scope] = []
        scope: Scope | None = self.scope
        while scope is not None and storage not in scope.versions:
            path.append(scope)
            scope = scope.parent
        if scope is None:
            if storage in self.left:
                raise Stopped(NO_FURTHER)
            raise error(
                ValueError,
                "a tensor made inside a pypto.loop or a branch is used outside of it: a Python "
                "object cannot carry it out",
                fix="bind it to a name inside the body, or write it into a tensor made before",
            )
        value = scope.versions[storage]
        for inner in reversed(path):
            if inner.is_loop:
                value = self.capture(inner, storage, value)
        return value

    def capture(self, scope: Scope, storage: Storage, value: Value) -> Value:
        """Make a storage of the outside a parameter of a loop."""
        param = self.loop_param(scope, value, storage)
        scope.touched[storage] = (param, value)
        scope.versions[storage] = param
        return param

    def loop_param(self, scope: Scope, init: Value, storage: Storage) -> Value:
        """A tensor parameter of a loop, its valid extents carried as integers where they change."""
        type = init.tensor
        param = self.own(Value(type, storage, self.fresh("p")), scope)
        scope.region.params.append(param)
        key = scope.keys[param] = (scope.number, len(scope.keys))
        if key in self.carried:
            extents = [self.own(int_value(self.fresh("n")), scope) for _ in type.valid]
            scope.region.params.extend(extents)
            valid = tuple(
                sym.leaf(e, 0, size if isinstance(size, int) else sym.INF)
                for e, size in zip(extents, type.shape, strict=True)
            )
            param.type = type.with_valid(valid)
        return param

    def write(self, storage: Storage, value: Value) -> None:
        """A new version of a storage."""
        storage.written = True
        self.scope.versions[storage] = value

    def knows(self, storage: Storage, scope: Scope | None) -> bool:
        """Whether a storage exists in a scope or around it."""
        while scope is not None:
            if storage in scope.versions:
                return True
            scope = scope.parent
        return False

    def leave(self, parts: list[Any]) -> None:
        """Note what a region leaves in an object: using it behind the region is no new mistake."""
        pending = list(parts)
        while pending:
            part = pending.pop()
            if isinstance(part, (list, tuple)):
                pending.extend(part)
            elif isinstance(part, dict):
                pending.extend(part.values())
            elif isinstance(part, SymbolicScalar):
                self.left.update(part._expr.leaves())
            elif (storage := storage_of(part)) is not None:
                self.left.add(storage)

    def doubt(self, given: Any) -> None:
        """Note the tensors among what a failed op was given: whether they are written is open."""
        pending = [given]
        while pending:
            part = pending.pop()
            if isinstance(part, (list, tuple)):
                pending.extend(part)
            elif isinstance(part, dict):
                pending.extend(part.values())
            else:
                storage = storage_of(part)
                while storage is not None:
                    self.doubtful.add(storage)
                    storage = self.carried_from.get(storage)

    def is_gone(self, item: Storage | Value) -> bool:
        """Whether it was left in an object by a region that is closed by now."""
        if item not in self.left:
            return False
        if isinstance(item, Storage):
            return not self.knows(item, self.scope)
        return not self.owner[item].open

    def settle_write(self, storage: Storage) -> Storage:
        """The storage that an in-place write goes to; an error where that is not one tensor."""
        while storage in self.on_write:
            target = self.on_write[storage]()
            if target is storage:
                break
            storage = target
        if storage in self.watched:
            self.watched[storage]()
        self.write_places[storage] = here()
        return storage

    # -- nodes ----------------------------------------------------------------------------------

    def emit(
        self,
        op: Op,
        operands: tuple[Value, ...],
        attrs: dict[str, Any],
        types: tuple[Type, ...],
        storages: tuple[Storage | None, ...] | None = None,
    ) -> Node:
        """Append a node; its results get storages of their own unless they are given."""
        for value in operands:
            self.use(value)
        node = Node(op, operands, attrs, here(), options.settings())
        results: list[Value] = []
        for index, type in enumerate(types):
            storage = storages[index] if storages else None
            if storage is None and isinstance(type, TensorType):
                storage = Storage(type)
            value = self.own(Value(type, storage, self.fresh("v"), node))
            if storage is not None and not (storages and storages[index]):
                self.scope.versions[storage] = value
            results.append(value)
        node.results = tuple(results)
        for scalar in node.scalars():
            self.use(scalar)
        self.scope.region.nodes.append(node)
        return node

    def emit_region(
        self,
        op: Op,
        attrs: dict[str, Any],
        regions: tuple[Region, ...],
        results: list[tuple[Type, Storage | None]],
        loc: Loc | None,
    ) -> Node:
        """Append a loop or a branch; its results are values, not yet versions of storages."""
        node = Node(op, (), attrs, loc, options.settings())
        node.regions = regions
        node.results = tuple(
            self.own(Value(type, storage, self.fresh("v"), node)) for type, storage in results
        )
        inits = [v for v in attrs.get("inits", ()) if isinstance(v, Value)]
        for value in (*inits, *leaves_of(attrs)):
            self.use(value)
        self.scope.region.nodes.append(node)
        return node

    def open(self, region: Region, is_loop: bool) -> Scope:
        """Enter a region."""
        self.scope = Scope(region, self.scope, is_loop)
        return self.scope

    def close(self) -> Scope:
        """Leave the innermost region; its values are out of reach from now on."""
        scope = self.scope
        assert scope.parent is not None
        scope.open = False
        self.scope = scope.parent
        return scope

    def parameter(self, name: str, type: TensorType, storage: Storage) -> Param:
        """A tensor parameter of the kernel."""
        value = self.own(Value(type, storage, name))
        self.scope.versions[storage] = value
        param = Param(name, value)
        self.graph.params.append(param)
        return param


@contextmanager
def tracing(trace: Trace, floor: CodeType) -> Iterator[Trace]:
    """Make a trace the current one of this thread."""
    saved = (_current.trace, _current.floor)
    _current.trace, _current.floor = trace, floor
    try:
        yield trace
    finally:
        trace.closed = True
        _current.trace, _current.floor = saved


def active() -> Trace | None:
    """The trace of this thread, if one is going on."""
    trace: Trace | None = _current.trace
    return trace


def current(what: str = "this op") -> Trace:
    """The trace of this thread; RuntimeError F00003 outside of a kernel."""
    trace = active()
    if trace is None:
        raise error(
            RuntimeError,
            f"{what} is not inside a @pypto.frontend.jit kernel",
            code="F21003",
            loc=here(),
            fix="decorate the function with `@pypto.frontend.jit` and call that",
        )
    return trace


def floor() -> CodeType | None:
    return _current.floor


def note(text: str, fix: str | None = None, loc: Loc | None = None) -> None:
    """A portability note at the user's line; an error where portable forms are asked for."""
    if knobs.PORTABLE.get():
        keep(error(SyntaxError, text, loc=loc or here(), fix=fix))
        return
    warn(PortabilityNote, text, loc or here(), fix)


def warning(category: type[PyptoWarning], text: str, fix: str | None = None) -> None:
    """A warning at the user's line."""
    warn(category, text, here(), fix)


def require(op: Op, cond: SymInt, error_name: str, code: str, text: str, fix: str) -> None:
    """Raise at run time, at this place, where `cond` is 0."""
    if cond == 1:
        return
    attrs = {"cond": cond, "error": error_name, "code": code, "text": text, "fix": fix}
    current().emit(op, (), attrs, ())


def named(op: Op, value: Expr, size: SymInt) -> SymInt:
    """An integer from 0 to `size`, as a value of its own where its expression has grown deep."""
    if value.depth < 4:
        return sym.simple(value)
    node = current().emit(op, (), {"value": value}, (INT,))
    return sym.leaf(node.result, 0, size if isinstance(size, int) else sym.INF)


def visible(trace: Trace, x: SymInt) -> bool:
    """Whether all the run-time integers behind an expression can be used here."""
    return all(trace.owner.get(leaf) is not None for leaf in leaves_of(x)) and all(
        trace.owner[leaf].open for leaf in leaves_of(x)
    )


def as_expr(x: Any) -> Expr:
    return operand(x)
