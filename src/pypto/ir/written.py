"""What the user wrote at the place of an error, for ways out that can be typed as they stand.

In: the place that a call of the user's stands at.  Out: its syntax, and the text of its parts.  A
place whose source cannot be read has no syntax; then stand-ins such as `t` are told.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pypto.errors import Loc
from pypto.ir import place


def expression() -> ast.expr | None:
    """The expression that the user's code stands at."""
    loc = place.here()
    tree = None if loc is None else place.source_tree(loc.file)
    if loc is None or tree is None:
        return None
    whole, end = (loc.line, loc.col, loc.end_line, loc.end_col), (loc.end_line, loc.end_col)
    spans = list(_spans(tree))
    # A call over several lines may begin later for Python; no two calls end together.
    calls = (node for node, span in spans if isinstance(node, ast.Call) and span[2:] == end)
    return next((node for node, span in spans if span == whole), next(calls, None))


@functools.lru_cache(maxsize=8)
def _expressions(tree: ast.Module) -> tuple[ast.expr, ...]:
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.expr))


def _spans(tree: ast.Module) -> Iterator[tuple[ast.expr, tuple[int, ...]]]:
    for node in _expressions(tree):
        yield node, (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def around(node: ast.expr) -> Any:
    """The expression or the statement that a node is a part of."""
    loc = place.here()
    tree = None if loc is None else place.source_tree(loc.file)
    return None if tree is None else _parents(tree).get(node)


@functools.lru_cache(maxsize=8)
def _parents(tree: ast.Module) -> dict[Any, Any]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def text(node: ast.expr) -> str:
    """The text of an expression on one line, as the user wrote it where that is one line."""
    loc = place.here()
    if loc is not None and node.lineno == node.end_lineno:
        line = replace(loc, line=node.lineno).text.encode()
        return line[node.col_offset : node.end_col_offset].decode()
    return ast.unparse(node)


def part(node: ast.expr) -> str:
    """The same where it stands beside an operator or before a dot: in brackets if need be."""
    whole = text(node)
    simple = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
    return whole if isinstance(node, simple) else f"({whole})"


def call(behind_name: bool = False) -> ast.Call | None:
    """The call that the user's code stands at; `behind_name`: the one of the name that it is at."""
    node = expression()
    if node is not None and behind_name:
        outer = around(node)
        node = outer if isinstance(outer, ast.Call) and outer.func is node else None
    return node if isinstance(node, ast.Call) else None


def is_method(node: ast.Call) -> bool:
    """Whether a call is one of a method of a value, and not of a function of a module."""
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return owner is not None and not _is_module(owner)


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("pypto", "torch", "np", "numpy", "math")


def arguments(node: ast.Call) -> list[ast.expr]:
    """The positional arguments of a call, that in front of the dot of a method among them."""
    first = [node.func.value] if isinstance(node.func, ast.Attribute) and is_method(node) else []
    return [*first, *node.args]


def argument(position: int, name: str, stand_in: str = "t") -> str:
    """The text of one argument of the call that the user's code stands at."""
    node = call()
    found = None if node is None else given(node, position, name)
    return stand_in if found is None else text(found)


def given(node: ast.Call, position: int, name: str) -> ast.expr | None:
    """One argument of a call, by position or by keyword."""
    for keyword in node.keywords:
        if keyword.arg == name:
            return keyword.value
    items = arguments(node)
    is_there = position < len(items) and not any(isinstance(i, ast.Starred) for i in items)
    return items[position] if is_there else None


def keyword_place(name: str) -> Loc | None:
    """The place of a keyword argument, its value included, in the call that the code stands at."""
    loc, node = place.here(), call()
    for keyword in [] if node is None else node.keywords:
        if keyword.arg == name and loc is not None:
            return replace(
                loc,
                line=keyword.lineno,
                col=keyword.col_offset,
                end_line=keyword.end_lineno or keyword.lineno,
                end_col=keyword.end_col_offset or 0,
            )
    return None


def with_argument(function: str, position: int, name: str, template: str) -> str | None:
    """The call of a function, or the operation, that the code stands at, with one argument put
    into `template`; None where the user wrote something else.
    """
    node = expression()
    found: ast.expr | None = None
    if isinstance(node, ast.BinOp):
        found = (node.left, node.right)[position] if position < 2 else None
    elif isinstance(node, ast.Call) and text(node.func).rpartition(".")[2] == function:
        found = given(node, position, name)
    if node is None or found is None or node.lineno != node.end_lineno:
        return None
    start, whole = node.col_offset, text(node).encode()
    before, after = whole[: found.col_offset - start], whole[(found.end_col_offset or 0) - start :]
    return f"{before.decode()}{template.format(text(found))}{after.decode()}"


def keyword_value(name: str) -> str:
    """The text of the value that the call gives to a keyword argument."""
    node = call()
    for keyword in [] if node is None else node.keywords:
        if keyword.arg == name:
            return text(keyword.value)
    return "…"


def rearranged(order: list[int]) -> str | None:
    """The call that the code stands at with its positional arguments in another order."""
    node = call()
    items = _plain_arguments(node)
    if node is None or len(items) != len(order):
        return None
    return _with_arguments(node, [text(items[i]) for i in order], order[0] == 0)


def gathered(first: int) -> str | None:
    """The call that the code stands at with its arguments from one on in a list."""
    node = call()
    items = _plain_arguments(node)
    if node is None or len(items) <= first:
        return None
    inside = ", ".join(map(text, items[first:]))
    return _with_arguments(node, [*map(text, items[:first]), f"[{inside}]"], first > 0)


def with_keyword(name: str, value: str) -> str | None:
    """The call that the code stands at with a keyword argument given or replaced."""
    node = call()
    if node is None:
        return None
    others = [_keyword(k) for k in node.keywords if k.arg != name]
    parts = [*map(text, node.args), *others, f"{name}={value}"]
    return f"{text(node.func)}({', '.join(parts)})"


def _plain_arguments(node: ast.Call | None) -> list[ast.expr]:
    """The positional arguments of a call, none if `*` makes some of them."""
    items = [] if node is None else arguments(node)
    return [] if any(isinstance(item, ast.Starred) for item in items) else items


def _with_arguments(node: ast.Call, items: list[str], keeps_tensor: bool) -> str:
    """A call with other positional arguments: still a method if its tensor is the first."""
    function = text(node.func)
    if isinstance(node.func, ast.Attribute) and is_method(node):
        if keeps_tensor:
            items = items[1:]
        else:
            function = f"pypto.{node.func.attr}"
    return f"{function}({', '.join([*items, *map(_keyword, node.keywords)])})"


def owner(stand_in: str = "t") -> str:
    """The text in front of the dot of the attribute that the user's code stands at."""
    node = expression()
    return part(node.value) if isinstance(node, ast.Attribute) else stand_in


def call_as_function() -> str:
    """The arguments of the method call whose name the user's code stands at, its tensor first."""
    node = call(behind_name=True)
    if node is None:
        return f"{owner()}, …"
    return ", ".join([*map(text, arguments(node)), *map(_keyword, node.keywords)])


def _keyword(keyword: ast.keyword) -> str:
    value = text(keyword.value)
    return f"**{value}" if keyword.arg is None else f"{keyword.arg}={value}"


def arguments_text() -> str:
    """The arguments of the call that the user's code stands at."""
    node = call()
    if node is None:
        return "t, …"
    return ", ".join([*map(text, node.args), *map(_keyword, node.keywords)])
