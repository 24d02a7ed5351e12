"""From a function to its syntax tree, with the positions of the file it was written in.

The whole file is parsed and the function found in it, so every line and column that a node, an
error or a warning shows is the user's own.
"""

from __future__ import annotations

import ast
import linecache
import threading
from types import CodeType

from pypto.errors import Loc, ParserError, error

_parsed: dict[str, tuple[str, ast.Module, dict[int, list[ast.AST]]]] = {}
_lock = threading.Lock()

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _module(file: str) -> dict[int, list[ast.AST]]:
    """The functions of a file by first line; parsed again when the text changes."""
    text = "".join(linecache.getlines(file))
    with _lock:
        known = _parsed.get(file)
        if known is not None and known[0] == text:
            return known[2]
        tree = ast.parse(text, file)
        by_line: dict[int, list[ast.AST]] = {}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                by_line.setdefault(first_line(node), []).append(node)
        _parsed[file] = (text, tree, by_line)
        return by_line


def first_line(node: ast.AST) -> int:
    """The line where a function begins, its decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else node.lineno  # type: ignore[attr-defined]


def find(code: CodeType) -> Function:
    """The syntax tree of a code object; ParserError when its source cannot be read."""
    try:
        candidates = _module(code.co_filename).get(code.co_firstlineno, [])
    except SyntaxError:
        candidates = []
    name = code.co_name
    matching = [
        node
        for node in candidates
        if isinstance(node, Function) and getattr(node, "name", "<lambda>") == name
    ]
    if len(matching) > 1:
        matching = sorted(matching, key=lambda n: _distance(n, code))
    if not matching:
        raise error(
            OSError,
            f"the source of `{name}` cannot be read ({code.co_filename})",
            kind=ParserError,
            loc=Loc(code.co_filename, code.co_firstlineno, function=name),
            fix="write kernels in a file or a notebook cell, not through exec() or python -c",
        )
    return matching[0]


def _distance(node: Function, code: CodeType) -> int:
    """How far a function of the same line is from the code object, by the places of its body."""
    body = node.body if isinstance(node.body, ast.AST) else node.body[0]
    spans = [p for p in code.co_positions() if None not in p and p[3] != p[2]]
    inside = [p for p in spans if p[0] == body.lineno]
    if not inside:
        return 1 << 30
    first = min(p[2] for p in inside)  # type: ignore[type-var]
    last = max(p[3] for p in inside if p[1] == body.end_lineno) if body.end_lineno else 0  # type: ignore[type-var]
    return abs(first - body.col_offset) + abs(last - (body.end_col_offset or 0))  # type: ignore[operator]


def loc_of(node: ast.AST, file: str, function: str) -> Loc:
    """The place of a syntax node."""
    return Loc(
        file,
        node.lineno,  # type: ignore[attr-defined]
        node.col_offset,  # type: ignore[attr-defined]
        node.end_lineno or node.lineno,  # type: ignore[attr-defined]
        node.end_col_offset or 0,  # type: ignore[attr-defined]
        function,
    )
