"""Symbolic branches while they are traced: `if` statements, ternaries, `and` and `or`.

Both arms run once, each from the bindings and versions at the start.  Behind the branch a name
holds the value of the arm that runs; numbers chosen without any node become one expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import FrameType
from typing import Any

from pypto.ir import build, options, sym
from pypto.ir.build import Conflict, is_failed
from pypto.ir.graph import Region, Storage, Value, Yield
from pypto.ir.handle import Tensor
from pypto.ir.scalar import MAX_DEPTH, SymbolicScalar, operand
from pypto.ir.sym import SymInt
from pypto.ir.types import INT, TensorType
from pypto.ops import control
from pypto.trace.objects import Snapshot, equal
from pypto.trace.regions import (
    UNBOUND,
    Bound,
    Opened,
    Site,
    conflict,
    full_type,
    guard_of,
    is_number,
    is_plain,
    kind_of,
    number,
    raw,
    refuse_write,
    same_kind,
    trace_loops,
    version,
)


class Arm:
    """One traced arm: its region, its scope once closed, and what the names held at its end."""

    def __init__(self, region: Region, scope: build.Scope) -> None:
        self.region = region
        self.scope = scope
        self.names: dict[str, Any] = {}
        self.values: dict[str, Value] = {}


class Merge:
    """Joins two closed arms into one node (or into none where no node is needed)."""

    def __init__(self, trace: build.Trace, cond: sym.Expr, then: Arm, other: Arm, loc: Any) -> None:
        self.trace = trace
        self.cond = cond
        self.arms = (then, other)
        self.loc = loc
        self.kinds: list[tuple[Any, Storage | None]] = []
        self.pending: list[tuple[Yield, Yield]] = []

    def slot(self, kind: Any, storage: Storage | None, a: Yield, b: Yield) -> int:
        """A result that is `a` in the first arm and `b` in the second."""
        self.kinds.append((kind, storage))
        self.pending.append((a, b))
        return len(self.kinds) - 1

    def integer(self, a: SymInt, b: SymInt, high: SymInt | None = None) -> Any:
        """An integer that differs by arm: an expression if both can be seen here, else a result,
        which lies between 0 and `high` where that is given.
        """
        if a == b and build.visible(self.trace, a):
            return a
        if not (build.visible(self.trace, a) and build.visible(self.trace, b)):
            return Late(self.slot(INT, None, a, b), high)
        chosen = sym.select(self.cond, a, b)
        if chosen.depth > MAX_DEPTH:
            return Late(self.slot(INT, None, a, b), high)
        return sym.simple(chosen)

    def tensor(self, a: Value, b: Value, storage: Storage) -> tuple[int, list[Any]]:
        """A tensor result, and its valid extents."""
        extents = [
            self.integer(x, y, size)
            for x, y, size in zip(a.tensor.valid, b.tensor.valid, a.tensor.shape, strict=True)
        ]
        return self.slot(full_type(a.tensor), storage, a, b), extents

    def emit(self) -> list[Value]:
        """The results, in the order of their slots."""
        if not self.kinds and not any(arm.region.nodes for arm in self.arms):
            return []
        for index, arm in enumerate(self.arms):
            arm.region.yields = [pair[index] for pair in self.pending]
        node = self.trace.emit_region(
            control.COND,
            {"cond": sym.simple(self.cond)},
            tuple(arm.region for arm in self.arms),
            self.kinds,
            self.loc,
        )
        return list(node.results)


class Late:
    """An integer that is a result of the branch: known once the branch has been emitted."""

    def __init__(self, slot: int, high: SymInt | None) -> None:
        self.slot = slot
        self.high = high

    def of(self, results: list[Value]) -> SymInt:
        value = results[self.slot]
        return sym.leaf(value, 0, self.high) if isinstance(self.high, int) else sym.leaf(value)


def settle(item: Any, results: list[Value]) -> SymInt:
    return item.of(results) if isinstance(item, Late) else item


def read_in(trace: build.Trace, arm: Arm, storage: Storage) -> Value:
    """The version of a storage at the end of an arm."""
    version = arm.scope.versions.get(storage)
    return version if version is not None else trace.read(storage)


def merge_storages(trace: build.Trace, merge: Merge) -> list[tuple[Storage, int, list[Any]]]:
    """Storages of the outside that an arm wrote, with their merged versions."""
    first, second = merge.arms
    found = []
    for storage in dict.fromkeys([*first.scope.versions, *second.scope.versions]):
        if not trace.knows(storage, trace.scope):
            continue
        a, b = read_in(trace, first, storage), read_in(trace, second, storage)
        if a is not b:
            slot, extents = merge.tensor(a, b, storage)
            found.append((storage, slot, extents))
    return found


def finish_storages(
    trace: build.Trace, found: list[tuple[Storage, int, list[Any]]], results: list[Value]
) -> None:
    for storage, slot, extents in found:
        set_valid(results[slot], extents, results)
        trace.write(storage, results[slot])


def set_valid(value: Value, extents: list[Any], results: list[Value]) -> None:
    assert isinstance(value.type, TensorType)
    value.type = value.type.with_valid(tuple(settle(e, results) for e in extents))


class Branch(Opened):
    """A symbolic `if` statement that is being traced."""

    dynamic = True

    def __init__(
        self, cond: SymbolicScalar, site: Site, frame: FrameType, names: Mapping[str, Any]
    ) -> None:
        super().__init__(site, frame, names)
        self.refuse_escapes(
            "under a symbolic condition",
            "compute both cases and keep one under the same name, or decide by a Python value",
        )
        self.cond = sym.truth(cond.expr)
        self.arms: list[Arm] = []
        self.moved: list[set[Storage]] = []

    def then(self) -> bool:
        self._enter()
        return True

    def orelse(self) -> bool:
        self._enter()
        return True

    def _enter(self) -> None:
        region = Region()
        # What one arm gave away, the other still has.
        self.moved.append(self.trace.moved)
        self.trace.moved = set(self.moved[0])
        self.arms.append(Arm(region, self.trace.open(region, False)))

    def end(self, names: Mapping[str, Any]) -> None:
        """The end of an arm."""
        reader = "the other arm or the code behind the branch"
        self.check_objects(names, "a symbolic branch", reader)
        arm = self.arms[-1]
        arm.names = {n: names[n] for n in self.site.names if n in names}
        for name, item in arm.names.items():
            if is_plain(item) and item is not self.entry.get(name):
                arm.values[name] = version(self.trace, item)
        self.trace.forget_skipped(self)
        self.trace.close()
        options.use(self.settings)

    def start(self) -> list[Any]:
        """What the stored names hold at the start of the second arm."""
        return [self._restore(name) for name in self.site.names]

    def _restore(self, name: str) -> Any:
        item = self.entry.get(name, UNBOUND)
        if item is not UNBOUND:
            return item
        return self._late(name, self.arms[0].names.get(name, UNBOUND))

    def _late(self, name: str, like: Any) -> Any:
        """What an earlier trip of a loop around may have bound the name to."""
        failed = is_failed(like)
        if not (failed or is_number(like) or is_plain(like)):
            return UNBOUND
        loops = [
            loop
            for loop in trace_loops(self.trace)
            if loop.frame == self.frame
            and name in loop.site.exposed
            and loop.entry.get(name, UNBOUND) is UNBOUND
        ]
        if not loops:
            return UNBOUND
        return like if failed else loops[-1].late(name, like)

    def merge(self) -> list[Any]:
        """Leave the branch; what the stored names hold behind it."""
        trace = self.trace
        trace.moved |= self.moved[1]
        merge = Merge(trace, self.cond, self.arms[0], self.arms[1], self.loc)
        storages = merge_storages(trace, merge)
        plans = [self._plan(merge, name) for name in self.site.names]
        results = merge.emit()
        finish_storages(trace, storages, results)
        return [plan(results) if callable(plan) else plan for plan in plans]

    def _plan(self, merge: Merge, name: str) -> Any:
        a, b = (arm.names.get(name, UNBOUND) for arm in self.arms)
        if a is None and b is not None and b is not UNBOUND:
            a = UNBOUND
        if b is None and a is not None and a is not UNBOUND:
            b = UNBOUND
        if a is UNBOUND:
            a = self._late(name, b)
        elif b is UNBOUND:
            b = self._late(name, a)
        if a is b or equal(a, b):
            return _Held(a)
        for item in (a, b):
            if isinstance(item, Conflict):
                return _Held(item)
        bound = merge.integer(
            0 if a is UNBOUND else guard_of(a), 0 if b is UNBOUND else guard_of(b), 1
        )
        first = b if a is UNBOUND else a
        second = a if b is UNBOUND else b
        if is_number(first) and is_number(second):
            value = merge.integer(
                0 if a is UNBOUND else sym.simple(raw(a)), 0 if b is UNBOUND else sym.simple(raw(b))
            )
            return lambda results: number(settle(value, results), name, settle(bound, results))
        if is_plain(first) and is_plain(second) and same_kind(first, second):
            if first is second:
                return self._one_sided(merge, name, first, bound)
            storage = Storage(kind_of(first), name)
            slot, extents = merge.tensor(
                self._value(0, name, first), self._value(1, name, second), storage
            )

            def finish(results: list[Value]) -> Tensor:
                set_valid(results[slot], extents, results)
                self.trace.scope.versions[storage] = results[slot]
                tensor = Tensor.of(self.trace, storage)
                cond = settle(bound, results)
                if cond != 1:
                    tensor.guard = Bound(name, cond)
                refuse_write(self.trace, name, tensor, (first, second), self)
                return tensor

            return finish
        if first is second:
            kept = describe_one(first)
            return _Held(
                Conflict(
                    f"Conflicted var {name}: `{name}` is bound in one of the two branches only, to "
                    f"{kept}, which control flow cannot choose",
                    f"bind `{name}` before the branch or in both arms",
                )
            )
        return _Held(conflict(name, first, second, "in the two branches"))

    def _one_sided(self, merge: Merge, name: str, item: Tensor, bound: Any) -> Any:
        """A tensor that one arm bound: its value there, guarded."""
        index = 0 if self.arms[0].names.get(name, UNBOUND) is item else 1
        value = self._value(index, name, item)
        storage = Storage(kind_of(item), name)
        pair: list[Any] = [None, None]
        pair[index] = value
        slot = merge.slot(full_type(value.tensor), storage, pair[0], pair[1])
        zeros = [0] * value.tensor.rank
        valid = list(value.tensor.valid)
        extents = [
            merge.integer(v if index == 0 else z, z if index == 0 else v, s) if v != s else s
            for v, z, s in zip(valid, zeros, value.tensor.shape, strict=True)
        ]

        def finish(results: list[Value]) -> Tensor:
            set_valid(results[slot], extents, results)
            self.trace.scope.versions[storage] = results[slot]
            tensor = Tensor.of(self.trace, storage)
            tensor.guard = Bound(name, settle(bound, results))
            refuse_write(self.trace, name, tensor, (item,), self)
            return tensor

        return finish

    def _value(self, index: int, name: str, item: Tensor) -> Value:
        arm = self.arms[index]
        if name in arm.values:
            return arm.values[name]
        # What the arm left as it was is read at its end.
        outer, self.trace.scope = self.trace.scope, arm.scope
        arm.scope.open = True
        try:
            return version(self.trace, item)
        finally:
            arm.scope.open = False
            self.trace.scope = outer


class _Held:
    """A plan that needs no result of the branch."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def __call__(self, results: list[Value]) -> Any:
        return self.item


def describe_one(item: Any) -> str:
    return f"a {type(item).__name__}"


class Choice:
    """A symbolic ternary, `and` or `or`: two expressions instead of two bodies."""

    dynamic = True

    def __init__(self, cond: SymbolicScalar) -> None:
        self.trace = build.current()
        self.cond = sym.truth(cond.expr)
        self.settings = options.settings()
        self.loc = build.here()
        self.arms: list[Arm] = []
        self.items: list[Any] = []
        self.reads: list[Value | None] = []
        self.snapshot = Snapshot({})

    def enter(self) -> None:
        region = Region()
        self.arms.append(Arm(region, self.trace.open(region, False)))

    def leave(self, item: Any) -> None:
        self.items.append(item)
        self.reads.append(version(self.trace, item) if is_plain(item) else None)
        self.trace.close()
        options.use(self.settings)

    def merge(self) -> Any:
        """The value of the expression."""
        trace = self.trace
        merge = Merge(trace, self.cond, self.arms[0], self.arms[1], self.loc)
        storages = merge_storages(trace, merge)
        a, b = self.items
        plan: Any
        if a is b or equal(a, b):
            plan = _Held(a)
        elif isinstance(a, Conflict) or isinstance(b, Conflict):
            plan = _Held(a if isinstance(a, Conflict) else b)
        elif is_number(a) and is_number(b):
            value = merge.integer(sym.simple(operand(a)), sym.simple(operand(b)))
            plan = lambda results: number(settle(value, results), "")
        elif is_plain(a) and is_plain(b) and same_kind(a, b):
            storage = Storage(kind_of(a))
            assert self.reads[0] is not None and self.reads[1] is not None
            slot, extents = merge.tensor(self.reads[0], self.reads[1], storage)

            def finish(results: list[Value]) -> Tensor:
                set_valid(results[slot], extents, results)
                trace.scope.versions[storage] = results[slot]
                tensor = Tensor.of(trace, storage)
                refuse_write(trace, "the chosen tensor", tensor, (a, b), None)
                return tensor

            plan = finish
        else:
            plan = _Held(conflict("of the expression", a, b, "in its two branches"))
        results = merge.emit()
        finish_storages(trace, storages, results)
        return plan(results)
