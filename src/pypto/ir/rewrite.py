"""Passes from graph to graph that keep the meaning and make the graph smaller.

In: a graph as the trace left it.  Out: the same graph, changed in place, without what runs carry
round for nothing.  Every pass keeps values, writes to arguments, prints, and the errors that a run
may end in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pypto.ir import sym
from pypto.ir.graph import Graph, Node, Region, Storage, Value, leaves_of, walk
from pypto.ir.op import Family
from pypto.ir.operands import typed
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import IntType, TensorType

# --- drop_invariant ------------------------------------------------------------------------------


def drop_invariant(graph: Graph) -> Graph:
    """Replace what a loop hands on unchanged, or both arms of a branch agree on, by what it is."""
    while True:
        found = _Replacement()
        for node in _inner_first(graph.body):
            if node.op.name == "loop":
                _find_in_loop(node, found)
            elif node.op.name == "cond":
                _find_in_cond(node, found)
        if not found.values:
            return graph
        found.apply(graph)


def _inner_first(region: Region) -> list[Node]:
    """Loops and branches, each behind those that it holds."""
    return [node for node in walk(region) if node.regions][::-1]


class _Replacement:
    """Values that are replaced, by values or by integers."""

    def __init__(self) -> None:
        self.values: dict[Value, Value | SymInt] = {}
        self._known: dict[Expr, Expr] = {}

    def put(self, value: Value, by: Value | SymInt) -> None:
        self.values[value] = by
        self._known.clear()

    def of(self, item: Any) -> Any:
        """An operand, an attribute or a part of a type, with everything replaced in it."""
        if isinstance(item, Value):
            while isinstance(item, Value) and item in self.values:
                item = self.values[item]
            return item if isinstance(item, Value) else self.of(item)
        if isinstance(item, Expr):
            if item not in self._known:
                touched = any(leaf in self.values for leaf in item.leaves())
                self._known[item] = sym.substitute(item, self._leaf) if touched else item
            return sym.simple(self._known[item])
        # A slot, a tuple with names, holds no value.
        if type(item) in (tuple, list):
            return type(item)(self.of(part) for part in item)
        if isinstance(item, dict):
            return {key: self.of(part) for key, part in item.items()}
        return item

    def _leaf(self, value: Value) -> SymInt | None:
        if value not in self.values:
            return None
        return _as_integer(self.of(value))

    def type_of(self, value: Value) -> Any:
        type = value.type
        if isinstance(type, IntType):
            return type
        return TensorType(type.dtype, self.of(type.shape), self.of(type.valid), type.format)

    def apply(self, graph: Graph) -> None:
        """Rewrite the graph and take out the parameters, yields and results that are replaced."""
        for node in walk(graph.body):
            node.operands = tuple(self.of(v) for v in node.operands)
            self._attributes(node)
            self._results(node)
            for region in node.regions:
                region.yields = [self.of(y) for y in region.yields]

    def _attributes(self, node: Node) -> None:
        for arg in node.op.args:
            before = node.attrs[arg.name]
            after = node.attrs[arg.name] = self.of(before)
            if arg.kind == "operand" and isinstance(before, Expr) and isinstance(after, int):
                node.attrs[arg.name] = typed(node, after)

    def _results(self, node: Node) -> None:
        for region in node.regions:
            for param in region.params:
                param.type = self.type_of(param)
        for value in node.results:
            value.type = self.type_of(value)
        if node.regions:
            _keep(node, [r not in self.values for r in node.results])


def _as_integer(item: Any) -> SymInt:
    return sym.leaf(item) if isinstance(item, Value) else item


def _keep(node: Node, kept: list[bool]) -> None:
    """Keep some results of a loop or branch, with their parameters, first values and yields."""
    if all(kept):
        return

    def chosen(items: Any) -> list[Any]:
        return [item for item, keep in zip(items, kept, strict=True) if keep]

    node.results = tuple(chosen(node.results))
    for region in node.regions:
        region.yields = chosen(region.yields)
        if region.params:
            region.params = [region.params[0], *chosen(region.params[1:])]
    if "inits" in node.attrs:
        node.attrs["inits"] = tuple(chosen(node.attrs["inits"]))


def _find_in_loop(node: Node, found: _Replacement) -> None:
    region = node.regions[0]
    # Integers first: the valid extents of tensors may hang on them.
    entries = list(
        zip(region.params[1:], node.attrs["inits"], region.yields, node.results, strict=True)
    )
    for wanted in (True, False):
        for param, init, item, result in entries:
            if init is None or isinstance(param.type, IntType) is not wanted:
                continue
            start, end = found.of(init), found.of(item)
            if wanted:
                start, end = _as_integer(start), _as_integer(end)
                here = sym.leaf(param)
                # Types were simplified by what was known of the parameter: that must not get less.
                unchanged = end in (here, start) and _within_bounds(start, here)
            else:
                unchanged = (end is param or end is start) and _same_memory(
                    found, start, param, result
                )
            if unchanged:
                found.put(param, start)
                found.put(result, start)


def _find_in_cond(node: Node, found: _Replacement) -> None:
    then, other = node.regions
    entries = list(zip(then.yields, other.yields, node.results, strict=True))
    for wanted in (True, False):
        for a, b, result in entries:
            if a is None or b is None or isinstance(result.type, IntType) is not wanted:
                continue
            first, second = found.of(a), found.of(b)
            if wanted:
                first, second = _as_integer(first), _as_integer(second)
                agreed = first == second
            else:
                agreed = first is second and _same_memory(found, first, result)
            if agreed:
                found.put(result, first)


def _within_bounds(x: SymInt, other: Expr) -> bool:
    (low, high), (least, most) = sym.expr(x).bounds(), other.bounds()
    return low >= least and high <= most


def _same_memory(found: _Replacement, source: Any, *values: Value) -> bool:
    """Whether values may read the memory of `source` instead of what could be a copy of it."""
    if not isinstance(source, Value):
        return False
    for value in values:
        a, b = source.storage, value.storage
        if a is None or b is None or (a is not b and (a.written or b.written)):
            return False
        if found.type_of(source) != found.type_of(value):
            return False
    return True


# --- prune ---------------------------------------------------------------------------------------


def prune(graph: Graph) -> Graph:
    """Take out nodes, loop parameters and results that nothing seen from outside depends on."""
    alive = _Liveness(graph)
    for node in walk(graph.body):
        if node.regions:
            _keep(node, [r in alive.values for r in node.results])
    pending = [graph.body]
    while pending:
        region = pending.pop()
        region.nodes = [node for node in region.nodes if node in alive.nodes]
        pending.extend(inner for node in region.nodes for inner in node.regions)
    _mark_written(graph)
    return graph


class _Liveness:
    """Nodes and values that effects depend on, found backwards from the effects."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: set[Node] = set()
        self.values: set[Value] = set()
        self._around: dict[Node, Node] = {}
        self._place: dict[Value, tuple[Node, int]] = {}
        self._pending: list[Value] = []
        for node in walk(graph.body):
            for place, value in enumerate(node.results):
                self._place[value] = (node, place)
            for region in node.regions:
                for inner in region.nodes:
                    self._around[inner] = node
                for place, value in enumerate(region.params, -1):
                    self._place[value] = (node, place)
        for node in walk(graph.body):
            if has_effect(node):
                self._node(node)
        while self._pending:
            self._value(self._pending.pop())

    def _item(self, item: Any) -> None:
        if isinstance(item, Value):
            self._pending.append(item)
        self._pending.extend(leaves_of(item))

    def _type(self, value: Value) -> None:
        if isinstance(value.type, TensorType):
            self._item((value.type.shape, value.type.valid))

    def _node(self, node: Node) -> None:
        at: Node | None = node
        while at is not None and at not in self.nodes:
            self.nodes.add(at)
            self._pending.extend(at.operands)
            self._item({name: item for name, item in at.attrs.items() if name != "inits"})
            if not at.regions:
                for result in at.results:
                    self._type(result)
            at = self._around.get(at)

    def _value(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        self._type(value)
        if value not in self._place:
            return
        node, place = self._place[value]
        self._node(node)
        if not node.regions or place < 0:
            return
        # A result of a loop lives and dies with its parameter; both need the first value.
        self._pending.append(node.results[place])
        for region in node.regions:
            self._item(region.yields[place])
            if region.params:
                self._pending.append(region.params[place + 1])
        if "inits" in node.attrs:
            self._item(node.attrs["inits"][place])


def has_effect(node: Node) -> bool:
    """Whether a run without the node could be told from one with it, its results aside."""
    op = node.op
    if op.name in ("require", "print"):
        return True
    if op.writes is not None:
        storage = node.result.storage
        if storage is not None and storage.param is not None:
            return True
    return may_fail(node)


def may_fail(node: Node) -> bool:
    """Whether a run may end in an error at this node, as far as can be told."""
    check = _CHECKS.get(node.op.name)
    if check is not None:
        return not check(node)
    # Places read from tensors are known only when they are used.
    return node.op.family is Family.INDEX


def _within(node: Node, target: Value, starts: Any, counts: Any) -> bool:
    sizes = target.tensor.shape
    return _nowhere_negative(starts) and all(
        sym.sub(size, sym.add(start, count)).bounds()[0] >= 0
        for start, count, size in zip(starts, counts, sizes, strict=True)
    )


def _nowhere_negative(items: Any) -> bool:
    return all(sym.expr(x).bounds()[0] >= 0 for x in items)


def _view_is_safe(node: Node) -> bool:
    return _nowhere_negative(node.attrs["offsets"]) and node.attrs["given"] is None


def _write_is_safe(node: Node) -> bool:
    source, target = (node.operands[node.attrs[name].index] for name in ("src", "dst"))
    return _within(node, target, node.attrs["offsets"], source.tensor.valid)


def _item_is_safe(node: Node) -> bool:
    index = node.attrs["index"]
    source = node.operands[0]
    valid = source.tensor.valid
    return _nowhere_negative(index) and all(
        sym.sub(n, sym.add(i, 1)).bounds()[0] >= 0 for i, n in zip(index, valid, strict=True)
    )


def _step_is_safe(node: Node) -> bool:
    low, high = sym.expr(node.attrs["step"]).bounds()
    return low > 0 or high < 0


_CHECKS: dict[str, Callable[[Node], bool]] = {
    "view": _view_is_safe,
    "assemble": _write_is_safe,
    "atomic_add": _write_is_safe,
    "item": _item_is_safe,
    "item_set": _item_is_safe,
    "loop": _step_is_safe,
}


def _mark_written(graph: Graph) -> None:
    """Say anew which storages are written: fewer writes mean fewer snapshots."""
    for storage in _storages(graph):
        storage.written = False
    for node in walk(graph.body):
        if node.op.writes is not None and node.result.storage is not None:
            node.result.storage.written = True


def _storages(graph: Graph) -> Iterator[Storage]:
    values = [p.value for p in graph.params]
    for node in walk(graph.body):
        values.extend(node.results)
        values.extend(v for region in node.regions for v in region.params)
    for value in values:
        if value.storage is not None:
            yield value.storage


# In this order: parameters that only hand a value on keep it alive, so they go first.
PASSES: tuple[Callable[[Graph], Graph], ...] = (drop_invariant, prune)
