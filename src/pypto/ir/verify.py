"""What is legal in a graph, checked between the stages of a compile.

In: a graph.  Out: nothing, or an InternalError at the place of the first node that breaks a rule.
Afterwards operands are made before they are used, every argument of the record is there, types are
those that the rules of the record give, regions and results fit together, and every write stays in
the storage of its destination.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

from pypto.errors import InternalError
from pypto.ir import sym
from pypto.ir.graph import Graph, Node, Region, Storage, Value, leaves_of
from pypto.ir.op import Family
from pypto.ir.operands import slots
from pypto.ir.sym import Expr
from pypto.ir.types import IntType, TensorType


def verify(graph: Graph) -> None:
    """Check a graph; InternalError where it is not legal."""
    checker = _Checker()
    for number, param in enumerate(graph.params):
        storage = param.value.storage
        checker.make(param.value, None)
        if storage is None or storage.param != number:
            raise checker.broken(None, f"parameter {param.name} does not live in its own argument")
        for dim in param.dims.values():
            checker.make(dim, None)
    for param in graph.params:
        checker.integers((param.value.tensor.shape, param.value.tensor.valid), None)
    if graph.body.params or graph.body.yields:
        raise checker.broken(None, "the body of a kernel has parameters or yields")
    checker.nodes(graph.body)


def _agree(found: TensorType, wanted: TensorType) -> bool:
    """Whether two types are one; bounds may show more of an extent than its expression does."""
    if found == wanted:
        return True
    same = (found.dtype, found.format, len(found.shape)) == (
        wanted.dtype,
        wanted.format,
        len(wanted.shape),
    )
    pairs = zip((*found.shape, *found.valid), (*wanted.shape, *wanted.valid), strict=True)
    return same and all(sym.sub(a, b).bounds() == (0, 0) for a, b in pairs)


class _Checker:
    def __init__(self) -> None:
        self.made: set[Value] = set()
        self.visible: set[Value] = set()
        self.trail: list[Value] = []  # in the order of making, to leave regions by
        self.storages: set[Storage] = set()

    def broken(self, node: Node | None, why: str) -> InternalError:
        if node is None:
            return InternalError(f"the graph is not legal: {why}")
        return InternalError(f"the graph is not legal: {why}, in {_outline(node)}", loc=node.loc)

    def make(self, value: Value, node: Node | None, shared: bool = False) -> None:
        """A value comes into being; `shared` says that it may live where others live."""
        if value in self.made:
            raise self.broken(node, f"{value} is made twice")
        if isinstance(value.type, TensorType):
            if value.storage is None:
                raise self.broken(node, f"the tensor {value} has no storage")
            if value.storage in self.storages and not shared:
                raise self.broken(node, f"{value} lives in the storage of another tensor")
            self.storages.add(value.storage)
        elif value.storage is not None:
            raise self.broken(node, f"the integer {value} has a storage")
        self.made.add(value)
        self.visible.add(value)
        self.trail.append(value)

    def use(self, value: Value, node: Node | None) -> None:
        if value not in self.visible:
            raise self.broken(node, f"{value} is used where it is not made")

    def integers(self, item: Any, node: Node | None) -> None:
        for leaf in leaves_of(item):
            self.use(leaf, node)
            if not isinstance(leaf.type, IntType):
                raise self.broken(node, f"{leaf} stands for an integer and is none")

    # -- regions ------------------------------------------------------------------------------

    def region(self, region: Region, node: Node) -> None:
        outside = len(self.trail)
        for param in region.params:
            self.make(param, node, shared=True)
        for param in region.params:
            self.types_of(param, node)
        self.nodes(region)
        for item in region.yields:
            self.handed(item, node)
        self.visible.difference_update(self.trail[outside:])
        del self.trail[outside:]

    def nodes(self, region: Region) -> None:
        for node in region.nodes:
            self.arguments(node)
            rule = _SPECIAL.get(node.op.name)
            if rule is not None:
                rule(self, node)
            elif node.regions:
                raise self.broken(node, f"{node.op.name} has regions")
            else:
                self.results(node)

    def handed(self, item: Any, node: Node) -> None:
        """What is yielded, or the first value of a loop parameter."""
        if isinstance(item, Value):
            self.use(item, node)
        elif item is not None and not isinstance(item, (int, Expr)):
            raise self.broken(node, f"{item!r} is neither a value nor an integer")
        self.integers(item, node)

    def types_of(self, value: Value, node: Node) -> None:
        if isinstance(value.type, TensorType):
            type = value.type
            if len(type.shape) != len(type.valid):
                raise self.broken(node, f"{value} has {len(type.valid)} valid extents")
            self.integers((type.shape, type.valid), node)

    # -- one node -----------------------------------------------------------------------------

    def arguments(self, node: Node) -> None:
        wanted = [arg.name for arg in node.op.args]
        missing = [name for name in wanted if name not in node.attrs]
        unknown = [name for name in node.attrs if name not in wanted]
        if missing or unknown:
            raise self.broken(node, f"attributes missing {missing}, unknown {unknown}")
        named = sorted(slots(node.attrs))
        if named != list(range(len(node.operands))):
            raise self.broken(node, f"{len(node.operands)} operands, named by slots {named}")
        for value in node.operands:
            self.use(value, node)
            if not isinstance(value.type, TensorType):
                raise self.broken(node, f"the operand {value} is no tensor")
        self.integers(node.attrs, node)

    def results(self, node: Node) -> None:
        op = node.op
        shared = op.writes is not None or op.name == "alias"
        for value in node.results:
            self.make(value, node, shared)
        for value in node.results:
            self.types_of(value, node)
        if shared:
            self.in_place(node)
        elif op.family not in (Family.CONTROL, Family.WRITE):
            self.rules(node)

    def in_place(self, node: Node) -> None:
        """The result is another version, or another shape, of one operand."""
        name = node.op.writes or "input"
        target = node.operands[node.attrs[name].index]
        if len(node.results) != 1 or node.result.storage is not target.storage:
            raise self.broken(node, "the result does not live in the storage that is written")
        if node.op.writes is None:
            return
        storage = target.storage
        if storage is None or not storage.written:
            raise self.broken(node, "the storage is not marked as written")
        if (node.result.tensor.dtype, node.result.tensor.shape) != (
            target.tensor.dtype,
            target.tensor.shape,
        ):
            raise self.broken(node, "a write changed element type or shape")

    def rules(self, node: Node) -> None:
        """Types as the record gives them."""
        op, attrs = node.op, node.attrs
        types = [v.tensor for v in node.operands]
        if len(node.results) != op.results:
            raise self.broken(node, f"{len(node.results)} results where the op has {op.results}")
        shape = op.shape(types, attrs)
        valid = op.valid(types, attrs, shape)
        dtype = op.result(types, attrs) if op.result else types[0].dtype
        wanted: list[Any] = [(dtype, shape, valid)]
        if op.results > 1:
            many: Any = dtype
            wanted = list(zip(many, shape, valid, strict=True))
        for value, (kind, extents, box) in zip(node.results, wanted, strict=True):
            expected = TensorType(kind, tuple(extents), tuple(box), value.tensor.format)
            if not _agree(value.tensor, expected):
                raise self.broken(node, f"{value} is {value.type}, the record says {expected}")

    def loop(self, node: Node) -> None:
        if len(node.regions) != 1 or not node.regions[0].params:
            raise self.broken(node, "a loop has one region with an index")
        region, inits = node.regions[0], node.attrs["inits"]
        index, *carried = region.params
        counts = {len(carried), len(inits), len(region.yields), len(node.results)}
        if not isinstance(index.type, IntType) or len(counts) != 1:
            raise self.broken(node, "index, inits, parameters, yields and results do not fit")
        for init in inits:
            self.handed(init, node)
        self.region(region, node)
        for value in node.results:
            self.make(value, node, shared=True)
        for value in node.results:
            self.types_of(value, node)
        for param, init, item, result in zip(
            carried, inits, region.yields, node.results, strict=True
        ):
            self.same_kind(node, param, init)
            self.same_kind(node, param, item)
            self.same_kind(node, param, result)

    def cond(self, node: Node) -> None:
        if len(node.regions) != 2 or any(region.params for region in node.regions):
            raise self.broken(node, "a branch has two regions without parameters")
        for region in node.regions:
            self.region(region, node)
            if len(region.yields) != len(node.results):
                raise self.broken(node, "yields and results do not fit")
        for value in node.results:
            self.make(value, node, shared=True)
        for value in node.results:
            self.types_of(value, node)
        for region in node.regions:
            for result, item in zip(node.results, region.yields, strict=True):
                self.same_kind(node, result, item)

    def same_kind(self, node: Node, value: Value, item: Any) -> None:
        """What is handed on has the element type and extents of what receives it."""
        if item is None:
            return
        type = item.type if isinstance(item, Value) else None
        if isinstance(value.type, TensorType):
            other = type if isinstance(type, TensorType) else None
            if other is None or (other.dtype, other.shape, other.format) != (
                value.type.dtype,
                value.type.shape,
                value.type.format,
            ):
                raise self.broken(node, f"{value} of type {value.type} gets {item} ({type})")
        elif isinstance(type, TensorType):
            raise self.broken(node, f"the integer {value} gets the tensor {item}")

    def require(self, node: Node) -> None:
        wanted = getattr(builtins, node.attrs["error"], None)
        if not (isinstance(wanted, type) and issubclass(wanted, Exception)):
            raise self.broken(node, f"{node.attrs['error']!r} names no exception")
        self.results(node)


_SPECIAL: Mapping[str, Callable[[_Checker, Node], None]] = {
    "loop": _Checker.loop,
    "cond": _Checker.cond,
    "require": _Checker.require,
}


def _outline(node: Node) -> str:
    """The node with the types of its operands and results, for graphs too broken to print."""
    operands = ", ".join(f"{v}: {v.type}" for v in node.operands)
    results = ", ".join(f"{v}: {v.type}" for v in node.results)
    return f"{node.op.name}({operands}) -> {results or 'nothing'}"
