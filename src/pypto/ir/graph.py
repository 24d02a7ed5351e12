"""Values, nodes, regions, graphs.

A graph is a region of nodes in program order, which is the order of execution.  A node has
operands, attributes, results and, for loops and branches, regions of its own.  Values and nodes
are compared by identity.  A tensor value lives in a storage; the ops that write make a new value
in the same storage, so writing is in place by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto.errors import Loc
from pypto.ir.op import Op, Slot
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import INT, IntType, TensorType, Type


class Storage:
    """Memory that one or more versions of a tensor live in.

    `param` is the index of the kernel's argument, or None for memory of the kernel's own.
    `written` says whether some node writes into it: only then can its versions differ.
    """

    __slots__ = ("base", "name", "param", "type", "written")

    def __init__(self, type: TensorType, name: str = "", param: int | None = None) -> None:
        self.type = type
        self.name = name
        self.param = param
        self.written = False


class Value:
    """What a node or a region produces: a tensor in a storage, or an integer."""

    __slots__ = ("name", "node", "storage", "type")

    def __init__(
        self, type: Type, storage: Storage | None = None, name: str = "", node: Node | None = None
    ) -> None:
        self.type = type
        self.storage = storage
        self.name = name
        self.node = node

    @property
    def tensor(self) -> TensorType:
        """Its type, which must be a tensor type."""
        assert isinstance(self.type, TensorType)
        return self.type

    def __str__(self) -> str:
        return self.name or f"v{id(self) & 0xFFFF:x}"

    __repr__ = __str__


Yield = Value | SymInt


class Region:
    """A body: parameters, nodes in order, and what it yields."""

    __slots__ = ("nodes", "params", "yields")

    def __init__(self) -> None:
        self.params: list[Value] = []
        self.nodes: list[Node] = []
        self.yields: list[Yield] = []


class Node:
    """One op at one place of the user's source.

    `attrs` holds every argument by name, `Slot(k)` where operand k stands.  For loops `attrs` has
    start, stop and step, and `inits` (one per parameter after the index); for branches `cond`.
    `tile` is the tile setting in force where it was written.
    """

    __slots__ = ("attrs", "loc", "op", "operands", "regions", "results", "tile")

    def __init__(
        self,
        op: Op,
        operands: tuple[Value, ...],
        attrs: dict[str, Any],
        loc: Loc | None,
        tile: Any = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.attrs = attrs
        self.results: tuple[Value, ...] = ()
        self.regions: tuple[Region, ...] = ()
        self.loc = loc
        self.tile = tile

    @property
    def result(self) -> Value:
        return self.results[0]

    def arguments(self) -> list[Any]:
        """The arguments in the record's order, tensors as values, lists of tensors as lists."""
        out: list[Any] = []
        for arg in self.op.args:
            item = self.attrs[arg.name]
            if isinstance(item, Slot):
                out.append(self.operands[item.index])
            elif isinstance(item, tuple) and item and isinstance(item[0], Slot):
                out.append([self.operands[s.index] for s in item])
            else:
                out.append(item)
        return out

    def scalars(self) -> Iterator[Value]:
        """The integer values that its attributes and result types depend on."""
        yield from leaves_of(self.attrs)
        for value in self.results:
            if isinstance(value.type, TensorType):
                yield from leaves_of((value.type.shape, value.type.valid))

    def __repr__(self) -> str:
        return f"<{self.op.name} at {self.loc}>"


def leaves_of(item: Any) -> Iterator[Value]:
    """The integer values inside expressions, at any depth of tuples, lists and dicts."""
    if isinstance(item, Expr):
        yield from item.leaves()
    elif isinstance(item, (tuple, list)):
        for part in item:
            yield from leaves_of(part)
    elif isinstance(item, dict):
        for part in item.values():
            yield from leaves_of(part)


@dataclass(eq=False)
class Param:
    """One tensor parameter of a kernel: its value, and an integer value per DYNAMIC axis."""

    name: str
    value: Value
    dims: dict[int, Value] = field(default_factory=dict)


@dataclass(eq=False)
class Graph:
    """A kernel as nodes.  `notes` are the options and the run mode, for later stages."""

    name: str
    params: list[Param]
    body: Region
    loc: Loc | None = None

    def count(self) -> int:
        """How many nodes it has, those of inner regions included."""
        return sum(1 for _ in walk(self.body))

    def __str__(self) -> str:
        # The text form lives in its own module, which imports this one.
        return _printer(self)


def set_printer(printer: Any) -> None:
    """Register the text form of graphs."""
    global _printer
    _printer = printer


def _printer(graph: Graph) -> str:
    return f"graph {graph.name}: {graph.count()} nodes"


def walk(region: Region) -> Iterator[Node]:
    """Every node in program order, a loop or branch before its bodies."""
    stack = [iter(region.nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if node.regions:
                stack.extend(iter(r.nodes) for r in reversed(node.regions))
                break
        else:
            stack.pop()


def is_int(value: Value) -> bool:
    return isinstance(value.type, IntType)


def int_value(name: str, node: Node | None = None) -> Value:
    return Value(INT, None, name, node)
