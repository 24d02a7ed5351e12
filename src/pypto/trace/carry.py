"""A dynamic loop while it is traced: what it carries from trip to trip.

In: the bounds, the names that the body stores and what they hold before it.  Out: one loop node
whose parameters are those names and the storages that the body touched.  A tensor that is carried
under a name is a value: it has a storage of its own, so that no write through another name can
change it unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from pypto.errors import (
    Loc,
    PyptoError,
    PyptoNote,
    PyptoWarning,
    Stopped,
    error,
    not_supported,
    warn,
)
from pypto.ir import build, options, sym
from pypto.ir.findings import Conflict, Failed, keep
from pypto.ir.graph import (
    Region,
    Storage,
    Value,
    Yield,
    int_value,
    is_int,
)
from pypto.ir.handle import Tensor
from pypto.ir.scalar import LoopBounds, SymbolicScalar
from pypto.ir.sym import SymInt
from pypto.ir.types import TensorType
from pypto.ops import control
from pypto.trace.objects import equal
from pypto.trace.regions import (
    UNBOUND,
    Bound,
    Bounds,
    Opened,
    Site,
    conflict,
    describe,
    flag_of,
    full_type,
    guard_of,
    index_bounds,
    is_number,
    is_plain,
    kind_of,
    number,
    raw,
    reads,
    refuse_write,
    rename,
    same_kind,
    trace_loops,
    trip_count,
    value_text,
    version,
)


class Loop(Opened):
    """One dynamic loop that is being traced; iterating it runs the body once per factor."""

    dynamic = True

    def __init__(
        self, bounds: Bounds, site: Site, frame: FrameType, names: Mapping[str, Any]
    ) -> None:
        super().__init__(site, frame, names)
        self.bounds = bounds
        self.scope: build.Scope | None = None
        self.refuse_escapes(
            "in pypto.loop", "guard the rest of the body with `if`, or loop over a Python range"
        )
        if site.has_else:
            keep(
                error(
                    SyntaxError,
                    "else is not supported on pypto.loop",
                    loc=self.loc,
                    fix="write what follows the loop behind it",
                )
            )

    # -- running ----------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        b = self.bounds
        outer = self.trace.scope
        if not b.factors:
            yield self._open(b.start, b.stop, b.step)
            return
        if len(self.site.targets) != 2:
            raise error(
                SyntaxError,
                "pypto.loop_unroll must unpack exactly two targets (index, count), got "
                f"{len(self.site.targets)}",
                loc=self.loc,
                fix="for i, k in pypto.loop_unroll(...):",
            )
        start, ran = b.start, False
        for factor in b.factors:
            stride = sym.simple(sym.mul(b.step, factor))
            left = trip_count(start, b.stop, b.step)
            groups = sym.simple(sym.floordiv(left, factor))
            stop = sym.simple(sym.add(start, sym.mul(groups, stride)))
            ran = ran or groups != 0
            # A body that never runs is traced once all the same: its mistakes are mistakes.
            if groups != 0 or (factor == 1 and not ran):
                index = self._open(start, stop, stride)
                count = stride if isinstance(stride, int) else factor
                yield index, count
                assert self.trace.scope is outer
            start = stop

    def _open(self, start: SymInt, stop: SymInt, step: SymInt) -> SymbolicScalar:
        trace = self.trace
        trace.loops += 1
        region = Region()
        self.start, self.stop, self.step = start, stop, step
        trips = trip_count(start, stop, step)
        self.trips = sym.simple(trips)
        self.runs = trips.bounds()[0] > 0
        self.outer = trace.scope
        self.scope = trace.open(region, True)
        self.scope.number = trace.loops
        label = self.site.targets[0] if self.site.targets else "i"
        index = trace.own(int_value(label), self.scope)
        region.params.append(index)
        low, high = index_bounds(start, stop, step)
        rising = sym.expr(step).bounds()[0] > 0
        # Without a trip there is no index, and what would follow from one is nothing to build on.
        top = None
        if self.trips != 0:
            top = sym.sub(stop, 1) if rising else sym.expr(start)
        self.index = SymbolicScalar(sym.leaf(index, low, high, top))
        # Begin and end are those of the whole loop, also in one group of an unrolled one.
        self.index.bounds = LoopBounds(self.bounds.start, self.bounds.stop, step)
        # What each parameter starts from and what it becomes, in the order they were made.
        self.slots: dict[Value, tuple[Yield | None, Yield | None]] = {}
        self.params: dict[str, Any] = {}
        self.late_params: dict[str, Any] = {}
        self.flags: dict[str, Value] = {}
        self.committed: dict[str, Loc | None] = {}
        trace_loops(trace).append(self)
        return self.index

    def head(self) -> list[Any]:
        """What the stored names hold at the start of a trip."""
        out = []
        for name in self.site.names:
            if name in self.site.targets:
                continue
            item = self.entry.get(name, UNBOUND)
            if name in self.site.exposed:
                if is_number(item):
                    item = self._carry_number(name, item)
                elif is_plain(item):
                    item = self._carry_tensor(name, item)
            out.append(item)
        return out

    def _carry_number(self, name: str, item: Any) -> SymbolicScalar:
        assert self.scope is not None
        param = self.trace.own(int_value(name), self.scope)
        self.scope.region.params.append(param)
        self.slots[param] = (sym.simple(raw(item)), None)
        scalar = number(sym.leaf(param), name, self._carry_flag(name, item))
        self.params[name] = (param, scalar)
        return scalar

    def _carry_flag(self, name: str, item: Any) -> SymInt:
        """Whether a name is bound, from trip to trip; 1 where it is bound before the loop."""
        before = guard_of(item)
        if before == 1:
            return 1
        flag = self._new_flag(before)
        self.flags[name] = flag
        return sym.leaf(flag, 0, 1)

    def _new_flag(self, before: SymInt) -> Value:
        assert self.scope is not None
        flag = self.trace.own(int_value(self.trace.fresh("b")), self.scope)
        self.scope.region.params.append(flag)
        self.slots[flag] = (before, None)
        return flag

    def _carry_tensor(self, name: str, item: Tensor) -> Tensor:
        assert self.scope is not None and item._storage is not None
        trace = self.trace
        trace.scope = self.outer
        try:
            init = version(trace, item)
        finally:
            trace.scope = self.scope
        storage = Storage(kind_of(item), name)
        trace.carried_from[storage] = item._storage
        param = trace.loop_param(self.scope, init, storage)
        self.scope.versions[storage] = param
        self.slots[param] = (init, None)
        carried = Tensor.of(trace, storage)
        bound = self._carry_flag(name, item)
        if bound != 1:
            carried.guard = Bound(name, bound)
        self.params[name] = (param, carried)

        def commit() -> Storage:
            self.committed[name] = build.here()
            carried.redirect(item._storage)  # type: ignore[arg-type]
            carried._shape = item._shape
            return item._storage  # type: ignore[return-value]

        trace.on_write[storage] = commit
        return carried

    def late(self, name: str, like: Any) -> Any:
        """A name that a trip binds and a later trip reads, though nothing was bound before."""
        if name in self.late_params:
            return self.late_params[name]
        assert self.scope is not None
        trace = self.trace
        around = [
            loop
            for loop in trace_loops(trace)
            if loop.frame == self.frame
            and loop is not self
            and name in loop.site.names
            and loop.entry.get(name, UNBOUND) is UNBOUND
            and loop.is_around(self)
        ]
        outer = around[-1].late(name, like) if around else None
        item: Any
        if is_number(like):
            param = trace.own(int_value(trace.fresh("n")), self.scope)
            self.scope.region.params.append(param)
            self.slots[param] = (0 if outer is None else sym.simple(raw(outer)), None)
            item = number(sym.leaf(param), name, -1)
        else:
            type = kind_of(like)
            storage = Storage(type, name)
            param = trace.own(Value(full_type(type), storage, trace.fresh("p")), self.scope)
            self.scope.region.params.append(param)
            self.scope.versions[storage] = param
            init = None if outer is None else self._outer_read(outer)
            self.slots[param] = (init, None)
            self._carry_extents(param, init)
            item = Tensor.of(trace, storage)
        flag = self._new_flag(0 if outer is None else guard_of(outer))
        bound = Bound(name, sym.leaf(flag, 0, 1))
        if isinstance(item, SymbolicScalar):
            item._guard = bound
        else:
            item.guard = bound
        self.late_params[name] = item
        self.params[name] = (param, item)
        self.flags[name] = flag
        return item

    def is_around(self, other: Loop) -> bool:
        scope: build.Scope | None = other.outer
        while scope is not None:
            if scope is self.scope:
                return True
            scope = scope.parent
        return False

    def _outer_read(self, item: Tensor) -> Value:
        assert item._storage is not None
        inner, self.trace.scope = self.trace.scope, self.outer
        try:
            return version(self.trace, item)
        finally:
            self.trace.scope = inner

    def _carry_extents(self, param: Value, init: Value | None) -> None:
        """Carry the valid extents of a parameter as integers if an earlier run saw them move."""
        assert self.scope is not None
        key = self.scope.keys.setdefault(param, (self.scope.number, len(self.scope.keys)))
        if key not in self.trace.carried:
            return
        type = param.tensor
        extents = [self.trace.own(int_value(self.trace.fresh("n")), self.scope) for _ in type.shape]
        self.scope.region.params.extend(extents)
        param.type = type.with_valid(
            tuple(sym.leaf(e, 0, s) for e, s in zip(extents, type.shape, strict=True))  # type: ignore[arg-type]
        )

    # -- closing ----------------------------------------------------------------------------------

    def close(self, names: Mapping[str, Any]) -> list[Any]:
        """Leave the loop; what the stored names hold behind it."""
        assert self.scope is not None
        trace, scope = self.trace, self.scope
        self.check_objects(names, "pypto.loop", "a later trip or the code behind the loop")
        plans = [self._planned(name, names.get(name, UNBOUND)) for name in self.site.names]
        for storage, (param, init) in scope.touched.items():
            self.slots[param] = (init, scope.versions[storage])
        self._fill_extents()
        region = scope.region
        region.yields = [self.slots[p][1] for p in region.params[1:]]  # type: ignore[misc]
        inits = tuple(self.slots[p][0] for p in region.params[1:])
        if self.bounds.parallel:
            self._note_shared()
        trace_loops(trace).remove(self)
        trace.close()
        options.use(self.settings)
        results = self._emit(region, inits)
        trace.forget_skipped(self)
        for storage, (param, _) in scope.touched.items():
            if scope.versions[storage] is not param:
                trace.write(storage, results[param])
        held = [plan(results) for plan in plans]
        self.entry = {**self.entry, **dict(zip(self.site.names, held, strict=True))}
        for name in [n for n, item in self.entry.items() if item is UNBOUND]:
            del self.entry[name]
        return held

    def _note_shared(self) -> None:
        """`parallel=True` promises independence; memory that trips share breaks the promise."""
        assert self.scope is not None
        for storage, (param, _) in self.scope.touched.items():
            if storage.param is None and self.scope.versions[storage] is not param:
                warn(
                    PyptoNote,
                    f"`{storage.name or 'a tensor'}` is shared across parallel outer iterations; "
                    "they run in order here",
                    self.loc,
                    "make it inside the body",
                )

    def _fill_extents(self) -> None:
        """Pair carried extents with their tensors; find out that some should have been carried."""
        assert self.scope is not None
        params = self.scope.region.params
        position = 0
        while position < len(params):
            param = params[position]
            if isinstance(param.type, TensorType) and param in self.slots:
                init, end = self.slots[param]
                assert isinstance(end, Value)
                key = self.scope.keys[param]
                forced = key in self.trace.carried
                if forced:
                    count = param.type.rank
                    extents = params[position + 1 : position + 1 + count]
                    for axis, extent in enumerate(extents):
                        start = init.tensor.valid[axis] if isinstance(init, Value) else 0
                        self.slots[extent] = (start, end.tensor.valid[axis])
                    position += count
                elif end.tensor.valid != param.type.valid:
                    raise build.Retrace(key)
            position += 1

    def _emit(self, region: Region, inits: tuple[Any, ...]) -> dict[Value, Value]:
        trace = self.trace
        results: dict[Value, Value] = {}
        kinds: list[tuple[Any, Storage | None]] = []
        for param in region.params[1:]:
            storage = param.storage
            if storage is not None and storage not in self.scope.touched:  # type: ignore[union-attr]
                storage = Storage(storage.type, storage.name)
            kinds.append((param.type, storage))
        attrs = {"start": self.start, "stop": self.stop, "step": self.step, "inits": inits}
        attrs["parallel"] = self.bounds.parallel
        node = trace.emit_region(control.LOOP, attrs, (region,), kinds, self.loc)
        results.update(zip(region.params[1:], node.results, strict=True))
        # Valid extents that the loop carries are known behind it by the loop's own results.
        for param, result in results.items():
            if isinstance(param.type, TensorType):
                valid = tuple(rename(v, results) for v in param.type.valid)
                result.type = param.type.with_valid(valid)
        return results

    def _new_param(self, name: str, end: Any, init: Yield | None) -> Value:
        """A parameter that the body never read, so that its result can be carried out."""
        assert self.scope is not None
        trace = self.trace
        if is_number(end):
            param = trace.own(int_value(trace.fresh("n")), self.scope)
            self.scope.region.params.append(param)
            self.slots[param] = (init, sym.simple(raw(end)))
            return param
        value = version(trace, end)
        storage = Storage(kind_of(end), name)
        param = trace.own(Value(full_type(value.tensor), storage, trace.fresh("p")), self.scope)
        self.scope.region.params.append(param)
        self.slots[param] = (init, value)
        if (
            isinstance(init, Value)
            and init.tensor.valid != param.tensor.valid
            or (value.tensor.valid != param.tensor.valid)
        ):
            key = self.scope.keys[param] = (self.scope.number, len(self.scope.keys))
            self.trace.carried = self.trace.carried | {key}
        self._carry_extents(param, init if isinstance(init, Value) else None)
        return param

    def _bound_flag(self, entry: Any, end: Any) -> Value | None:
        """What says behind the loop whether a name is bound; None if it is for certain."""
        before = 0 if entry is UNBOUND else guard_of(entry)
        after = guard_of(end)
        if (before == 1 or self.runs) and after == 1:
            return None
        return self._new_param("", SymbolicScalar(sym.expr(after)), before)

    def _planned(self, name: str, end: Any) -> Callable[[dict[Value, Value]], Any]:
        """The same; a name that cannot be carried is told, and holds a failed value."""
        try:
            return self._plan(name, end)
        except PyptoError as problem:
            if not isinstance(problem, Stopped):
                keep(problem)
            self._leave(name)
            failed = Failed()
            return lambda results: failed

    def _plan(self, name: str, end: Any) -> Callable[[dict[Value, Value]], Any]:
        """What a name holds behind the loop, as a function of the loop's results."""
        entry = self.entry.get(name, UNBOUND)
        if isinstance(end, Failed):
            # Its error is told already.
            self._leave(name)
            return lambda results: end
        if name in self.params:
            return self._plan_carried(name, entry, end)
        for item in (end,) if self.runs else (entry, end):
            if isinstance(item, Conflict):
                return lambda results: item
        if end is UNBOUND and entry is UNBOUND or equal(entry, end):
            return lambda results: entry
        if self._needs_entry(name, entry):
            raise self._changed(name, entry, end)
        if is_number(end) and not (isinstance(end, int) and (self.runs or entry is UNBOUND)):
            if is_number(entry) or entry is UNBOUND or self.runs:
                init = sym.simple(raw(entry)) if is_number(entry) else 0
                param = self._new_param(name, end, init)
                flag = self._bound_flag(entry, end)
                return lambda results: number(
                    self._result(results[param], end), name, flag_of(results, flag), True
                )
        elif is_plain(end):
            fits = is_plain(entry) and same_kind(entry, end)
            if self.trace.knows(end._storage, self.outer):
                if self.runs and guard_of(end) == 1:
                    return lambda results: end
                if self.runs or entry is UNBOUND:
                    flag = self._bound_flag(entry, end)
                    return lambda results: self._maybe(name, end, flag_of(results, flag))
            if entry is UNBOUND or self.runs or fits:
                kept = fits and not self.runs
                param = self._new_param(name, end, self._outer_read(entry) if kept else None)
                flag = self._bound_flag(entry, end)
                return lambda results: self._tensor_result(
                    name, results[param], flag_of(results, flag), (entry, end)
                )
        elif entry is UNBOUND or self.runs:
            return lambda results: end
        return lambda results: conflict(name, entry, end, "before and after the loop")

    def _maybe(self, name: str, item: Tensor, bound: SymInt) -> Tensor:
        """A second handle on a tensor, for a name that may be unbound."""
        assert item._storage is not None
        same = Tensor.of(self.trace, item._storage, item._shape)
        if bound != 1:
            same.guard = Bound(name, bound, after_loop=True)
        return same

    def _needs_entry(self, name: str, entry: Any) -> bool:
        """Whether a later trip would read another object than the one bound before the loop."""
        carriable = entry is UNBOUND or is_plain(entry) or is_number(entry)
        return name in self.site.read and not carriable and not isinstance(entry, Conflict)

    def _result(self, value: Value, end: Any) -> sym.Expr:
        if end is self.index or (isinstance(end, SymbolicScalar) and end._expr == self.index._expr):
            low, high = self.index._expr.bounds()
            return sym.leaf(value, low, high) if self.runs else sym.leaf(value)
        return sym.leaf(value)

    def _plan_carried(self, name: str, entry: Any, end: Any) -> Callable[[dict[Value, Value]], Any]:
        assert self.scope is not None
        param, carried = self.params[name]
        late = name in self.late_params
        fits = is_number(end) if is_number(carried) else is_plain(end) and same_kind(end, carried)
        if not fits and not reads(self.scope.region, param):
            # No trip reads what it starts with, so it need not be carried.
            self._leave(name)
            return self._plan(name, end)
        flag = self.flags.get(name)
        if flag is not None:
            self.slots[flag] = (self.slots[flag][0], guard_of(end) if end is not UNBOUND else 0)
        if is_number(carried):
            if end is carried or (is_number(end) and raw(end) == raw(carried)):
                self.slots[param] = (self.slots[param][0], sym.simple(raw(carried)))
                if not late:
                    return lambda results: entry
            elif is_number(end):
                self.slots[param] = (self.slots[param][0], sym.simple(raw(end)))
                if not late and name not in self.site.targets:
                    build.note(
                        f"`{name}` is counted on from trip to trip; older front ends leave it as "
                        "it was after the first",
                        loc=self.loc,
                    )
            else:
                raise self._changed(name, entry if not late else carried, end)
            return lambda results: number(
                sym.leaf(results[param]), name, flag_of(results, flag), True
            )
        if end is carried or (end is entry and end is not UNBOUND):
            value = param
            if name in self.committed or late:
                value = version(self.trace, carried if late else entry)
            self.slots[param] = (self.slots[param][0], value)
            if not late:
                return lambda results: entry
        elif is_plain(end) and same_kind(end, carried):
            if name in self.committed:
                raise error(
                    ValueError,
                    f"`{name}` is written in place here, but it stands for different tensors on "
                    "different trips",
                    loc=self.committed[name],
                    fix=f"write it whole, `{name}[:] = …`, instead of rebinding it, or bind a copy "
                    f"first: `{name} = {name}.clone()`",
                )
            self.slots[param] = (self.slots[param][0], version(self.trace, end))
            if not late:
                self._warn_alias(name, entry)
        else:
            raise self._changed(name, entry if not late else carried, end)
        alternatives = () if late else (entry, end)
        return lambda results: self._tensor_result(
            name, results[param], flag_of(results, flag), alternatives
        )

    def _leave(self, name: str) -> None:
        """Do not carry a name: its parameters stay as they are."""
        param = self.params.pop(name, (None, None))[0]
        for unused in (param, self.flags.get(name)):
            if unused is not None:
                self.slots[unused] = (self.slots[unused][0], self._itself(unused))

    def _itself(self, param: Value) -> Yield:
        return sym.leaf(param) if is_int(param) else param

    def _warn_alias(self, name: str, entry: Tensor) -> None:
        storage = entry._storage
        if self.scope is None or storage is None or storage not in self.scope.touched:
            return
        if self.scope.versions[storage] is not self.scope.touched[storage][0]:
            warn(PyptoWarning, value_text(name), self.trace.write_places.get(storage))

    def _tensor_result(
        self, name: str, value: Value, bound: SymInt, alternatives: tuple[Any, ...]
    ) -> Tensor:
        assert value.storage is not None
        self.trace.scope.versions[value.storage] = value
        result = Tensor.of(self.trace, value.storage)
        if bound != 1:
            result.guard = Bound(name, bound, after_loop=True)
        refuse_write(self.trace, name, result, alternatives, self)
        return result

    def _changed(self, name: str, entry: Any, end: Any) -> Exception:
        if isinstance(entry, float) and isinstance(end, (float, int)):
            return not_supported(
                f"`{name}` is a float that changes from trip to trip ({entry} and {end})",
                f"keep it in a tensor: `{name} = pypto.full([1, 1], {entry}, pypto.DT_FP32)`",
                self.loc,
            )
        none = " (bind it before the loop, or test pypto.is_loop_begin)" if entry is None else ""
        return error(
            TypeError,
            f"`{name}` is {describe(entry)} when a trip starts and {describe(end)} when it ends, "
            f"and the body reads it{none}",
            loc=self.loc,
            fix=f"bind `{name}` before the loop to what the body leaves in it, or use "
            "`pypto.is_loop_begin(i)`",
        )
