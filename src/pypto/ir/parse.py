"""Reads the text form of a graph.

In: what `ir/text` prints, or the same written by hand.  Out: an equal graph; places keep file and
line only.  Integers are rebuilt from their text, with the bounds that the text gives, so they
simplify as in the first graph.  Errors name the line of the text.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Callable, Iterator
from typing import Any

from pypto.errors import Loc, error
from pypto.ir import sym, types
from pypto.ir.dtype import DataType, Element, scalar
from pypto.ir.graph import Graph, Node, Param, Region, Storage, Value
from pypto.ir.op import REGISTRY, REQUIRED, Slot
from pypto.ir.operands import typed
from pypto.ir.options import CubeTile, Settings
from pypto.ir.sym import INF, Expr, SymInt
from pypto.ir.text import INDENT
from pypto.ir.types import INT, TensorType, TileOpFormat

_SHORT = {d.short: d for d in DataType}
_ENUMS = {
    name: thing
    for name, thing in vars(types).items()
    if isinstance(thing, type) and issubclass(thing, enum.Enum) and thing is not enum.Enum
}
_BINARY: dict[type, Callable[[SymInt, SymInt], SymInt]] = {
    ast.Add: sym.add,
    ast.Sub: sym.sub,
    ast.Mult: sym.mul,
    ast.FloorDiv: sym.floordiv,
    ast.Mod: sym.mod,
}
_COMPARE: dict[type, str] = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le"}
_QUOTED = r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
_NUMBERED = re.compile(rf"({_QUOTED})|%(\d+)")
_TYPE = re.compile(r"(\w+)\[(.*?)\](?: valid \[(.*?)\])?( nz)?(?: in (%\d+|\w+))?$")
_INT = re.compile(r"int(?: (-?\d*)\.\.(-?\d*))?$")
_NODE = re.compile(r"(?:(%\d+(?:, %\d+)*) = )?([\w.]+)\(")

# What the wrong text in the wrong place ends in.
_SLIPS = (SyntaxError, KeyError, IndexError, AttributeError, TypeError, AssertionError)


def parse(text: str) -> Graph:
    """The graph of a text.  Errors: ValueError F00002, with the line that is no such text."""
    return _Reader(text).graph()


class _Reader:
    def __init__(self, text: str) -> None:
        self.values: dict[str, Value] = {}
        self.leaves: dict[Value, Expr] = {}
        self.storages: dict[str, Storage] = {}
        self.settings: Any = None
        self.lines: list[tuple[int, int, str, Loc | None]] = []
        self.at = 0  # the line to read next
        for number, line in enumerate(text.splitlines(), 1):
            body, comment = _split_comment(line)
            if body.strip():
                depth = (len(body) - len(body.lstrip())) // len(INDENT)
                self.lines.append((number, depth, body.strip(), _read_place(comment)))

    def graph(self) -> Graph:
        try:
            return self.whole()
        except _SLIPS as cause:
            raise self.wrong(f"{type(cause).__name__}: {cause}") from cause

    def wrong(self, why: str, ahead: int = 0) -> Exception:
        """An error at the line that was read last, or ahead of it."""
        at = min(max(self.at - 1 + ahead, 0), len(self.lines) - 1)
        number, _, line, _ = self.lines[at] if self.lines else (1, 0, "", None)
        return error(ValueError, f"line {number} is no text of a graph ({why}): {line}")

    def next(self, depth: int, *words: str) -> str | None:
        """The rest of the next line, if it stands this deep and begins with one of the words."""
        if self.at == len(self.lines):
            return None
        _, found, line, _ = self.lines[self.at]
        if found != depth or (words and not line.startswith(words)):
            return None
        self.at += 1
        return line

    def whole(self) -> Graph:
        head = self.next(0, "graph ")
        if head is None or not head.endswith(":"):
            raise self.wrong("a graph begins with `graph name:`", ahead=1)
        graph = Graph(head[6:-1], [], Region(), self.lines[0][3])
        dims: list[tuple[str, int, Value]] = []
        while (line := self.next(1, "dim ")) is not None:
            name, owner, axis, type = _groups(r"dim (\S+) = (\w+)\[(\d+)\] : (.+)", line)
            dims.append((owner, int(axis), self.make(name, type)))
        while (line := self.next(1, "param ")) is not None:
            name, type = line[6:].split(" : ", 1)
            value = self.make(name, type)
            assert value.storage is not None
            value.storage.param = len(graph.params)
            value.storage.name = name
            own = {axis: dim for owner, axis, dim in dims if owner == name}
            graph.params.append(Param(name, value, own))
        graph.body = self.region(1)
        if self.at < len(self.lines):
            raise self.wrong("it stands at the wrong depth", ahead=1)
        return graph

    def make(self, name: str, type: str, node: Node | None = None) -> Value:
        """A value with this name and type."""
        if name in self.values:
            raise self.wrong(f"{name} is made twice")
        bounds = _INT.fullmatch(type)
        if bounds:
            value = Value(INT, None, name, node)
            lo, hi = bounds.groups()
            self.leaves[value] = sym.leaf(value, int(lo) if lo else -INF, int(hi) if hi else INF)
        else:
            short, shape, valid, nz, storage = _groups(_TYPE, type)
            extents = self.integers(shape)
            layout = TileOpFormat.TILEOP_NZ if nz else TileOpFormat.TILEOP_ND
            tensor = TensorType(
                _SHORT[short], extents, extents if valid is None else self.integers(valid), layout
            )
            home = self.storages[storage] if storage else Storage(tensor)
            value = Value(tensor, home, name, node)
            if not storage:
                self.storages[name] = home
        self.values[name] = value
        return value

    def make_all(
        self, names: list[str], types: list[str], node: Node | None = None
    ) -> tuple[Value, ...]:
        """Values side by side; integers first, as the extents of the tensors may speak of them."""
        pairs = list(zip(names, types, strict=True))
        made: dict[str, Value] = {}
        for integers in (True, False):
            for name, type in pairs:
                if bool(_INT.fullmatch(type)) is integers:
                    made[name] = self.make(name, type, node)
        return tuple(made[name] for name in names)

    def integers(self, text: str) -> tuple[SymInt, ...]:
        return tuple(self.expression(f"({text},)")) if text else ()

    # -- arguments ----------------------------------------------------------------------------

    def expression(self, text: str) -> Any:
        return self.literal(_tree(text))

    def literal(self, tree: ast.AST) -> Any:
        """What a piece of Python stands for; integers of the graph become expressions."""
        match tree:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.named(name)
            case ast.Tuple(elts=parts):
                return tuple(self.literal(p) for p in parts)
            case ast.List(elts=parts):
                return [self.literal(p) for p in parts]
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return {self.literal(k): self.literal(v) for k, v in pairs if k is not None}
            case ast.Attribute(value=ast.Name(id=owner), attr=member):
                return _ENUMS[owner][member]
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                item = self.literal(inner)
                return sym.simple(sym.neg(item)) if isinstance(item, Expr) else -item
            case ast.BinOp(left=left, op=operation, right=right):
                combine = _BINARY[type(operation)]
                return _simple(combine(self.literal(left), self.literal(right)))
            case ast.Compare(left=left, ops=[operation], comparators=[right]):
                op = _COMPARE[type(operation)]
                return _simple(sym.compare(op, self.literal(left), self.literal(right)))
            case ast.BoolOp(op=operation, values=[left, right]):
                op = "and" if isinstance(operation, ast.And) else "or"
                return _simple(sym.logical(op, self.literal(left), self.literal(right)))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                cond, first, second = (self.literal(p) for p in (test, body, orelse))
                return _simple(sym.select(cond, first, second))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                return self.called(name, args, keywords)
        raise self.wrong(f"no meaning of {ast.unparse(tree)}")

    def named(self, name: str) -> Any:
        name = f"%{name[2:]}" if name.startswith("__") else name
        value = self.values.get(name)
        if value is not None:
            return self.leaves.get(value, value)
        return DataType[name]

    def called(self, name: str, args: list[ast.expr], keywords: list[ast.keyword]) -> Any:
        given = [self.literal(a) for a in args]
        if name in _SHORT:
            return scalar(given[0], _SHORT[name])
        if name == "float":
            return float(given[0])
        if name == "symbol":
            return sym.symbol(given[0])
        if name in ("min", "max"):
            return _simple((sym.minimum if name == "min" else sym.maximum)(*given))
        if name == "Element":
            return Element(*given)
        if name == "CubeTile":
            return CubeTile(**{str(k.arg): self.literal(k.value) for k in keywords})
        raise self.wrong(f"no meaning of {name}()")

    # -- bodies -------------------------------------------------------------------------------

    def region(self, depth: int, region: Region | None = None) -> Region:
        region = region or Region()
        while (line := self.next(depth)) is not None:
            loc = self.lines[self.at - 1][3]
            if line.startswith("settings("):
                call = _tree(line)
                assert isinstance(call, ast.Call)
                fresh = Settings(**{str(k.arg): self.literal(k.value) for k in call.keywords})
                self.settings = None if call.args else fresh
            elif line.startswith("yield "):
                region.yields = list(self.expression(f"({line[6:]},)"))
            elif line in ("then:", "else:"):
                self.at -= 1
                break
            else:
                region.nodes.append(self.node(line, loc, depth))
        return region

    def node(self, line: str, loc: Loc | None, depth: int) -> Node:
        head = _NODE.match(line)
        if head is None:
            raise self.wrong("it is no node")
        names, op_name = head.groups()
        end = _closing(line, head.end() - 1)
        op = REGISTRY[op_name]
        node = Node(op, (), {}, loc, self.settings)
        self.arguments(node, line[head.start(2) : end + 1].replace(op_name, "call", 1))
        if names:
            types = _split_top(line[end + 1 :].removeprefix(" : "))
            node.results = self.make_all(names.split(", "), types, node)
        if op.writes is not None:
            written = node.operands[node.attrs[op.writes].index].storage
            assert written is not None
            written.written = True
        if op_name == "loop":
            node.regions = (self.loop_body(node, depth + 1),)
        elif op_name == "cond":
            node.regions = (self.arm("then:", depth), self.arm("else:", depth))
        return node

    def arguments(self, node: Node, text: str) -> None:
        call = _tree(text)
        assert isinstance(call, ast.Call)
        given: dict[str, Any] = {}
        for arg, part in zip(node.op.args, call.args, strict=False):
            given[arg.name] = self.literal(part)
        given.update((str(k.arg), self.literal(k.value)) for k in call.keywords)
        operands: list[Value] = []
        for arg in node.op.args:
            default = None if arg.default is REQUIRED else arg.default
            node.attrs[arg.name] = _slots(given.pop(arg.name, default), operands)
        if given:
            raise self.wrong(f"{node.op.name} has no argument {', '.join(given)}")
        node.operands = tuple(operands)
        for arg in node.op.args:
            item = node.attrs[arg.name]
            if type(item) in (int, float, bool) and arg.kind in ("operand", "element"):
                node.attrs[arg.name] = typed(node, item)

    def loop_body(self, node: Node, depth: int) -> Region:
        region = Region()
        line = self.next(depth, "index ")
        if line is None:
            raise self.wrong("a loop has an index", ahead=1)
        name, type = line[6:].split(" : ", 1)
        region.params.append(self.make(name, type))
        carried: list[tuple[Any, ...]] = []
        while (line := self.next(depth, "carry ")) is not None:
            carried.append(_groups(r"carry (\S+) = (.+) : (.+)", line))
        node.attrs["inits"] = tuple(self.expression(init) for _, init, _ in carried)
        names, types = [name for name, _, _ in carried], [type for _, _, type in carried]
        region.params.extend(self.make_all(names, types))
        return self.region(depth, region)

    def arm(self, word: str, depth: int) -> Region:
        if self.next(depth, word) is None:
            raise self.wrong(f"a branch has `{word}`", ahead=1)
        return self.region(depth + 1)


def _groups(pattern: str | re.Pattern[str], text: str) -> tuple[Any, ...]:
    match = re.fullmatch(pattern, text)
    if match is None:
        raise SyntaxError("it does not have the form of its kind")
    return match.groups()


def _simple(x: SymInt) -> SymInt:
    return sym.simple(x) if isinstance(x, Expr) else x


def _tree(text: str) -> ast.expr:
    """The syntax tree of a piece of text; `%3` is no name in Python, so it reads as `__3`."""
    readable = _NUMBERED.sub(lambda m: m.group(1) or f"__{m.group(2)}", text)
    return ast.parse(readable, mode="eval").body


def _slots(item: Any, operands: list[Value]) -> Any:
    """An argument with a slot for each tensor in it."""
    if isinstance(item, Value):
        operands.append(item)
        return Slot(len(operands) - 1)
    if isinstance(item, (tuple, list)):
        return type(item)(_slots(x, operands) for x in item)
    if isinstance(item, dict):
        return {k: _slots(v, operands) for k, v in item.items()}
    return item


def _outside(line: str) -> Iterator[tuple[int, str, int]]:
    """The characters outside of quotes, with place and depth of brackets."""
    depth = 0
    at = 0
    quoted = re.compile(_QUOTED)
    while at < len(line):
        string = quoted.match(line, at)
        if string:
            at = string.end()
            continue
        char = line[at]
        depth += (char in "([{") - (char in ")]}")
        yield at, char, depth
        at += 1


def _split_comment(line: str) -> tuple[str, str]:
    for at, char, _ in _outside(line):
        if char == "#":
            return line[:at], line[at + 1 :].strip()
    return line, ""


def _closing(line: str, opening: int) -> int:
    """Where the bracket that opens at a place closes."""
    for at, char, depth in _outside(line):
        if at > opening and char == ")" and depth == 0:
            return at
    raise SyntaxError("a bracket is not closed")


def _split_top(text: str) -> list[str]:
    """The parts between the commas outside of all brackets."""
    parts, start = [], 0
    for at, char, depth in _outside(text):
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _read_place(comment: str) -> Loc | None:
    loc: Loc | None = None
    for part in reversed(comment.split(" < ")):
        file, _, line = part.rpartition(":")
        if line.isdigit():
            loc = Loc(file, int(line), outer=loc)
    return loc
