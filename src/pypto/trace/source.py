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
        matching = [n for n in matching if _same_arguments(n, code)] or matching
    if not matching:
        raise error(
            OSError,
            f"the source of `{name}` cannot be read ({code.co_filename})",
            kind=ParserError,
            loc=Loc(code.co_filename, code.co_firstlineno, function=name),
            fix="write kernels in a file or a notebook cell, not through exec() or python -c",
        )
    return matching[0]  # type: ignore[return-value]


def _same_arguments(node: ast.AST, code: CodeType) -> bool:
    args = node.args  # type: ignore[attr-defined]
    names = [a.arg for a in (*args.posonlyargs, *args.args)]
    if list(code.co_varnames[: code.co_argcount]) != names:
        return False
    columns = {p[2] for p in code.co_positions() if p[0] == node.lineno}  # type: ignore[attr-defined]
    first = min((c for c in columns if c is not None), default=None)
    return first is None or first >= node.col_offset  # type: ignore[attr-defined]


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
