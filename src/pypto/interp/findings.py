"""How what goes wrong in a run is told: which tensor, which element, which trip of which loop.

In: a value of the graph, an index.  Out: the words for them.  A tensor is called what the user
calls it: by its own name, or by the name that the statement that made it bound.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pypto.errors import Loc
from pypto.ir.graph import Graph, Node, Storage, Value, walk

# What numbers an array: slices, or one array of places per axis.
Index = tuple[Any, ...]


class Names:
    """What the tensors of a graph are called."""

    def __init__(self, graph: Graph) -> None:
        self._makers: dict[Storage, Value] = {}
        for node in walk(graph.body):
            for value in node.results:
                if value.storage is not None:
                    self._makers.setdefault(value.storage, value)

    def of(self, value: Value) -> str:
        """The name of a tensor as messages write it, or what made it."""
        storage = value.storage
        if storage is not None and storage.name:
            return f"`{storage.name}`"
        maker = self._makers.get(storage, value) if storage is not None else value
        node = maker.node
        if node is None:
            return "a tensor"
        name = bound_name(node.loc)
        if name:
            return f"`{name}`"
        if node.op.name == "empty":
            return "a tensor of the kernel's own"
        source = self._source(maker)
        if node.op.name in _WINDOWS and source is not None:
            return f"{_WINDOWS[node.op.name]} of {self.of(source)}"
        return f"the result of {node.op.name}"

    def _source(self, value: Value) -> Value | None:
        return value.node.operands[0] if value.node is not None and value.node.operands else None


_WINDOWS = {"view": "a view", "reshape": "a reshape", "reinterpret": "a view", "clone": "a clone"}


def bound_name(loc: Loc | None) -> str:
    """The name that the statement at a place binds to what it computes there, or nothing.

    What a helper returns is named by its caller.
    """
    while loc is not None:
        found = next((targets for targets, x in _results(loc.file) if _stands_at(x, loc)), None)
        if found is None:
            return ""
        if found:
            return next((t.id for t in found if isinstance(t, ast.Name)), "")
        loc = loc.outer
    return ""


def _stands_at(node: ast.expr, loc: Loc) -> bool:
    found = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return found == (loc.line, loc.col, loc.end_line, loc.end_col)


def _results(file: str) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """Expressions and what they are bound to; nothing for those that a function returns."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield node.targets, node.value
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        yield [name], value
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield [node.target], node.value
        elif isinstance(node, ast.Return) and node.value is not None:
            yield [], node.value
        elif isinstance(node, ast.Lambda):
            yield [], node.body


def first(found: np.ndarray, index: Index) -> tuple[int, ...]:
    """The place in the whole array of the first true element of what `index` took from it."""
    at = tuple(int(i) for i in np.argwhere(found)[0])
    if all(isinstance(part, slice) for part in index):
        return tuple(i + (part.start or 0) for i, part in zip(at, index, strict=True))
    return tuple(int(part[at]) for part in index)


def told(graph: Graph, text: str, trips: Sequence[str], culprit: Node | None) -> str:
    """A message with the tensor, if it has no word of it, and the trip of every open loop."""
    parts = []
    if culprit is not None and culprit.operands:
        written = culprit.op.writes
        index = culprit.attrs[written].index if written is not None else 0
        name = Names(graph).of(culprit.operands[index])
        parts += [name] if name not in text else []
    if trips:
        parts.append(f"in iteration {', '.join(trips)}")
    return f"{text} ({', '.join(parts)})" if parts else text
