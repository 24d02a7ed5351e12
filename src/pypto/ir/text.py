"""The text form of a graph.

In: a graph.  Out: one line a node, `%3 = add(%1, 2.0) : fp32[16, 64]   # kernel.py:12`, bodies
indented, settings on a line of their own where they change.  `in x` says that a tensor lives in the
storage that `x` was the first to live in.  `ir/parse` reads it back.
"""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from pypto.errors import InternalError, Loc
from pypto.ir import graph as graphs
from pypto.ir.dtype import FROM_NUMPY, DataType, Element, scalar
from pypto.ir.graph import Graph, Node, Region, Storage, Value
from pypto.ir.op import REQUIRED, Slot
from pypto.ir.operands import governing
from pypto.ir.options import CubeTile
from pypto.ir.sym import INF, Atom, Expr, SymInt
from pypto.ir.types import IntType, TensorType, TileOpFormat

INDENT = "  "
COMMENT_COLUMN = 72
# Arguments of these kinds are written without their names, as long as they come first.
LEADING = frozenset({"tensor", "operand", "element", "tensors", "symint"})
# A bound beyond this is none: it comes from arithmetic on a bound that is not known.
FAR = INF >> 1
# Words that stand for something else inside the arguments of a node.
RESERVED = frozenset(
    {"and", "or", "if", "else", "in", "not", "is", "None", "True", "False", "inf", "nan"}
    | {d.name for d in DataType}
)
INFIX = {"floordiv": "//", "mod": "%", "eq": "==", "ne": "!=", "lt": "<", "le": "<="}
INFIX |= {"and": "and", "or": "or"}


def to_text(graph: Graph, places: bool = True) -> str:
    """The text of a graph, with the places of its nodes in the source or without; equal graphs
    have equal text.
    """
    return _Writer(graph, places).text()


class _Writer:
    def __init__(self, graph: Graph, places: bool) -> None:
        self.graph = graph
        self.places = places
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set(RESERVED)
        self.storages: dict[Storage, str] = {}
        self.bounds = dict(_bounds(graph))
        self.lines: list[str] = []
        self.count = 0
        self.settings: Any = None

    def text(self) -> str:
        graph = self.graph
        self.line(0, f"graph {graph.name}:", graph.loc)
        for param in graph.params:
            self.name(param.value, param.name)
        for param in graph.params:
            for axis, dim in param.dims.items():
                wanted = dim.name if dim.name.isidentifier() else f"{param.name}_{axis}"
                self.name(dim, wanted)
                place = f"{self.names[param.value]}[{axis}]"
                self.line(1, f"dim {self.names[dim]} = {place} : {self.type(dim)}")
        for param in graph.params:
            self.line(1, f"param {self.names[param.value]} : {self.type(param.value)}")
        self.region(graph.body, 1)
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str, loc: Loc | None = None) -> None:
        text = INDENT * depth + text
        if loc is not None and self.places:
            text = f"{text.ljust(COMMENT_COLUMN - 1)} # {_place(loc)}"
        self.lines.append(text)

    def name(self, value: Value, wanted: str = "") -> None:
        """Name a value: as wanted, if that name is free, else by a number."""
        if not wanted:
            self.names[value] = f"%{self.count}"
            self.count += 1
            return
        name, tail = wanted, 2
        while name in self.taken:
            name, tail = f"{wanted}_{tail}", tail + 1
        self.taken.add(name)
        self.names[value] = name

    def of(self, value: Value) -> str:
        """The name of a value that some line above has made."""
        return self.names.get(value) or f"<{value}, not made above>"

    # -- types --------------------------------------------------------------------------------

    def type(self, value: Value) -> str:
        if isinstance(value.type, IntType):
            lo, hi = self.bounds.get(value, (-INF, INF))
            low = str(lo) if lo > -FAR else ""
            high = str(hi) if hi < FAR else ""
            return f"int {low}..{high}" if low or high else "int"
        type, storage = value.tensor, value.storage
        text = f"{type.dtype.short}{self.integers(type.shape)}"
        if type.valid != type.shape:
            text += f" valid {self.integers(type.valid)}"
        if type.format is not TileOpFormat.TILEOP_ND:
            text += " nz"
        if storage is None:
            return f"{text} in nothing"
        if storage in self.storages:
            return f"{text} in {self.storages[storage]}"
        self.storages[storage] = self.names[value]
        return text

    def integers(self, items: Sequence[SymInt]) -> str:
        return f"[{', '.join(_bare(self.integer(x)) for x in items)}]"

    def integer(self, x: SymInt) -> str:
        """An expression in one form: terms and the operands of commutative operations in order."""
        if not isinstance(x, Expr):
            return str(int(x))
        terms: list[tuple[str, int]] = []
        for monomial, factor in x.terms.items():
            body = "*".join(sorted(self.atom(a) for a in monomial))
            terms.append((body, factor))
        parts: list[str] = []
        order = lambda t: (t[1] < 0, t[0].count("*"), len(t[0]), t[0])
        for body, factor in sorted(terms, key=order):
            text = body if abs(factor) == 1 else f"{body}*{abs(factor)}"
            parts.append(f"{'-' if factor < 0 else '+'} {text}")
        if x.const or not parts:
            number = f"{'-' if x.const < 0 else '+'} {abs(x.const)}"
            # `1 - n` reads better than `-n + 1`.
            first = x.const > 0 and bool(parts) and parts[0].startswith("-")
            parts.insert(0 if first else len(parts), number)
        line = " ".join(parts)
        return line[2:] if line.startswith("+") else f"-{line[2:]}"

    def atom(self, atom: Atom) -> str:
        if atom.op == "value":
            return self.of(atom.args[0])
        if atom.op == "symbol":
            return f"symbol({atom.args[0]!r})"
        args = [self.integer(a) for a in atom.args]
        if atom.op in ("min", "max"):
            return f"{atom.op}({', '.join(sorted(args))})"
        if atom.op in ("floordiv", "mod"):
            # These bind as tightly as products do, from the left.
            args = [
                f"({text})" if _parts(arg) > 1 or (place and "*" in text) else text
                for place, (arg, text) in enumerate(zip(atom.args, args, strict=True))
            ]
        if atom.op in INFIX:
            return f"({args[0]} {INFIX[atom.op]} {args[1]})"
        if atom.op == "select":
            return f"({args[1]} if {args[0]} else {args[2]})"
        raise InternalError(f"no text form of the operation {atom.op} on integers")

    # -- arguments ----------------------------------------------------------------------------

    def item(self, item: Any, node: Node | None = None) -> str:
        """An attribute: a literal of Python over the names of values."""
        if isinstance(item, Slot):
            assert node is not None
            return self.of(node.operands[item.index])
        if isinstance(item, Value):
            return self.of(item)
        if isinstance(item, Expr):
            return _bare(self.integer(item))
        if isinstance(item, np.generic):
            return _typed(item)
        if isinstance(item, Element):
            return f"Element({item.dtype.name}, {self.item(item.value)})"
        if isinstance(item, DataType):
            return item.name
        if isinstance(item, enum.Enum):
            return f"{type(item).__name__}.{item.name}"
        if item is None or isinstance(item, (bool, int, str)):
            return repr(item)
        if isinstance(item, float):
            return _float(item)
        if isinstance(item, (tuple, list)):
            inner = ", ".join(self.item(x, node) for x in item)
            if isinstance(item, list):
                return f"[{inner}]"
            return f"({inner},)" if len(item) == 1 else f"({inner})"
        if isinstance(item, Mapping):
            pairs = (f"{k!r}: {self.item(v, node)}" for k, v in item.items())
            return f"{{{', '.join(pairs)}}}"
        if isinstance(item, CubeTile):
            return f"CubeTile({self.fields(item)})"
        raise InternalError(f"no text form of an attribute of type {type(item).__name__}")

    def fields(self, record: Any) -> str:
        """The fields of a record that are not as they are by default."""
        parts = []
        for f in fields(record):
            item = getattr(record, f.name)
            default = f.default_factory() if callable(f.default_factory) else f.default
            if item != default:
                parts.append(f"{f.name}={self.item(item)}")
        return ", ".join(parts)

    def call(self, node: Node) -> str:
        parts: list[str] = []
        leading = True
        for arg in node.op.args:
            if arg.name not in node.attrs:
                raise InternalError(f"{node.op.name} lacks the attribute {arg.name}")
            item = node.attrs[arg.name]
            if node.op.name == "loop" and arg.name == "inits":
                continue
            if arg.kind in LEADING and leading:
                parts.append(self.leading(node, item))
                continue
            leading = False
            default = None if arg.default is REQUIRED else arg.default
            if type(item) is not type(default) or item != default:
                parts.append(f"{arg.name}={self.item(item, node)}")
        return f"{node.op.name}({', '.join(parts)})"

    def leading(self, node: Node, item: Any) -> str:
        if isinstance(item, np.generic):
            number = item.item() if item.dtype.kind in "iub" else float(item)
            dtype = governing(node)
            # The usual element type of a number goes without saying.
            if dtype is not None and node.op.number(dtype, number).numpy == item.dtype:
                return _plain(item)
        return self.item(item, node)

    # -- bodies -------------------------------------------------------------------------------

    def region(self, region: Region, depth: int) -> None:
        for node in region.nodes:
            self.node(node, depth)
        if region.yields:
            self.line(depth, f"yield {', '.join(self.item(y) for y in region.yields)}")

    def node(self, node: Node, depth: int) -> None:
        if node.tile != self.settings:
            self.settings = node.tile
            inner = "None" if node.tile is None else self.fields(node.tile)
            self.line(depth, f"settings({inner})")
        call = self.call(node)
        for result in node.results:
            self.name(result)
        text = call
        if node.results:
            # A loop or branch shows its results first: they may be the first in their storage.
            types = ", ".join(self.type(r) for r in node.results)
            text = f"{', '.join(self.names[r] for r in node.results)} = {call} : {types}"
        self.line(depth, text, node.loc)
        if node.op.name == "loop":
            self.loop_body(node, depth + 1)
        elif node.op.name == "cond":
            for word, region in zip(("then", "else"), node.regions, strict=True):
                self.line(depth, f"{word}:")
                self.region(region, depth + 1)
        elif node.regions:
            raise InternalError(f"no text form of the regions of {node.op.name}")

    def loop_body(self, node: Node, depth: int) -> None:
        region = node.regions[0]
        for param in region.params:
            self.name(param)
        index, *carried = region.params
        self.line(depth, f"index {self.names[index]} : {self.type(index)}")
        for param, init in zip(carried, node.attrs["inits"], strict=True):
            self.line(depth, f"carry {self.names[param]} = {self.item(init)} : {self.type(param)}")
        self.region(region, depth)


def _place(loc: Loc) -> str:
    return " < ".join(f"{os.path.basename(f.file)}:{f.line}" for f in loc.frames)


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses is around all of it."""
    if not text.startswith("("):
        return False
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def _parts(x: Expr) -> int:
    """How many terms its text has."""
    return len(x.terms) + bool(x.const)


def _bare(text: str) -> str:
    return text[1:-1] if _wrapped(text) else text


def _float(x: float) -> str:
    return repr(x) if math.isfinite(x) else f"float('{x}')"


def _plain(item: Any) -> str:
    """The shortest number that reads back as the same scalar."""
    if item.dtype.kind in "iub":
        return repr(item.item())
    dtype = FROM_NUMPY[item.dtype]
    text = str(item)
    if not math.isfinite(float(item)) or scalar(float(text), dtype) != item:
        return _float(float(item))
    return text if re.search(r"[.e]", text) else f"{text}.0"


def _typed(item: Any) -> str:
    return f"{FROM_NUMPY[item.dtype].short}({_plain(item)})"


def _bounds(graph: Graph) -> Iterator[tuple[Value, tuple[int, int]]]:
    """What is known of the run-time integers of a graph: the bounds of their atoms."""
    pending: list[Any] = []
    for value in _values(graph):
        if isinstance(value.type, TensorType):
            pending.append((value.type.shape, value.type.valid))
    for node in graphs.walk(graph.body):
        pending.append(node.attrs)
        pending.extend(region.yields for region in node.regions)
    seen: set[Atom] = set()
    while pending:
        item = pending.pop()
        if isinstance(item, Expr):
            for monomial in item.terms:
                for atom in monomial:
                    if atom in seen:
                        continue
                    seen.add(atom)
                    if atom.op == "value":
                        yield atom.args[0], (atom.lo, atom.hi)
                    pending.extend(atom.args)
        elif isinstance(item, (tuple, list)):
            pending.extend(item)
        elif isinstance(item, Mapping):
            pending.extend(item.values())


def _values(graph: Graph) -> Iterator[Value]:
    for param in graph.params:
        yield param.value
        yield from param.dims.values()
    for node in graphs.walk(graph.body):
        yield from node.results
        for region in node.regions:
            yield from region.params


graphs.set_printer(to_text)
