"""What a piece of syntax does to the names of its function.

Regions need to know which names a body stores, which of them it may read before it stores them,
which jumps leave it, and where it changes objects.  Nested functions have names of their own; a
name that they read late counts as read where they are made.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from typing import Any

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def walk_here(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Every syntax node of this function, nested functions' bodies left out."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, _SCOPES):
            inner = [*getattr(node, "decorator_list", [])]
            args = getattr(node, "args", None)
            if args is not None:
                inner += [*args.defaults, *(d for d in args.kw_defaults if d is not None)]
            stack.extend(inner)
        else:
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def stored(nodes: Sequence[ast.AST]) -> list[str]:
    """Names that the code may bind or unbind in its own function, in order of appearance."""
    names: dict[str, None] = {}
    outside: set[str] = set()

    def visit(node: ast.AST, in_comprehension: bool) -> None:
        if isinstance(node, ast.Global):
            outside.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            if not in_comprehension:
                names[node.id] = None
        elif isinstance(node, ast.NamedExpr):
            names[node.target.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[node.name] = None
            return
        elif isinstance(node, ast.Lambda):
            return
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names[node.name] = None
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                names[(alias.asname or alias.name).split(".")[0]] = None
        inner = in_comprehension or isinstance(node, _COMPREHENSIONS)
        for child in ast.iter_child_nodes(node):
            visit(child, inner)

    for node in nodes:
        visit(node, False)
    return [n for n in names if n not in outside]


def name_stores(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.Name, bool]]:
    """The places of this function that store a name, and whether one may read what they store: one
    that stands further down, in a loop around both, or in a nested function.
    """
    stores: list[tuple[ast.Name, tuple[int, int], list[ast.AST]]] = []
    reads: list[tuple[str, tuple[int, int], list[ast.AST]]] = []
    nested = captured(body)

    # `whole` is the assignment that a target belongs to, elsewhere the node itself.
    def visit(node: ast.AST, loops: list[ast.AST], whole: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                stores.append((node, _end(whole), loops))
            else:
                reads.append((node.id, (node.lineno, node.col_offset), loops))
            return
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            # It reads the name as well, before it stores it.
            reads.append((node.target.id, (node.lineno, node.col_offset), loops))
        if isinstance(node, (ast.For, ast.While, *_COMPREHENSIONS)):
            loops = [*loops, node]
        is_simple = isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign))
        for child in ast.iter_child_nodes(node):
            is_target = is_simple and child is not node.value  # type: ignore[attr-defined]
            # The value of an assignment is read before its targets are stored.
            visit(child, loops, node if is_target else child if whole is node else whole)

    for statement in body:
        visit(statement, [], statement)
    for store, behind, loops in stores:
        is_read = store.id in nested or any(
            name == store.id and (place >= behind or any(loop in loops for loop in around))
            for name, place, around in reads
        )
        yield store, is_read


def _end(node: Any) -> tuple[int, int]:
    return node.end_lineno, node.end_col_offset


def undefined(tree: ast.AST, known: Container[str]) -> set[str]:
    """Names that the code reads and that nothing in it binds, save those `known` elsewhere."""
    bound: set[str] = set()
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        elif isinstance(getattr(node, "name", None), str):
            # Functions, classes, exceptions that are caught, patterns that match.
            bound.add(node.name)  # type: ignore[attr-defined]
    return {name for name in read - bound if name not in known}


def unsure(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Local names of a function that it may read before it binds them."""
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    return (exposed(function.body)[0] & set(stored(function.body))) - arguments


def rebound_inside(body: Sequence[ast.AST]) -> list[str]:
    """Names of this function that functions nested in it declare `nonlocal`: any call may store
    them.
    """
    own = {n for node in walk_here(body) if isinstance(node, ast.Nonlocal) for n in node.names}
    every = {
        n
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Nonlocal)
        for n in node.names
    }
    return sorted(every - own)


def captured(body: Sequence[ast.AST]) -> set[str]:
    """Names that functions nested in this one read: a call may read them at any time."""
    return {
        name
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for name in loads(node)
    }


def calls(body: Sequence[ast.AST]) -> bool:
    """Whether a body calls anything."""
    return any(isinstance(node, ast.Call) for node in walk_here(body))


def targets(target: ast.AST) -> list[str]:
    """The plain names that a loop target binds."""
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


def loads(node: ast.AST) -> set[str]:
    """Names that an expression or statement reads, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


class _Exposure:
    """Finds reads that may come before a store, over structured control flow."""

    def __init__(self) -> None:
        self.exposed: set[str] = set()

    def read(self, node: ast.AST | None, bound: set[str]) -> None:
        if node is not None:
            self.exposed |= loads(node) - bound

    def block(self, body: Sequence[ast.stmt], bound: set[str]) -> set[str]:
        """Names bound for certain after a block, given those bound before it."""
        for statement in body:
            bound = self.statement(statement, bound)
        return bound

    def statement(self, s: ast.stmt, bound: set[str]) -> set[str]:
        if isinstance(s, ast.If):
            self.read(s.test, bound)
            return self.block(s.body, bound) & self.block(s.orelse, bound)
        if isinstance(s, (ast.For, ast.AsyncFor)):
            self.read(s.iter, bound)
            # The body may run no time at all, so what it binds is not certain.
            self.block(s.body, bound | set(targets(s.target)))
            self.block(s.orelse, bound)
            return bound
        if isinstance(s, ast.While):
            self.read(s.test, bound)
            self.block(s.body, bound)
            self.block(s.orelse, bound)
            return bound
        if isinstance(s, (ast.With, ast.AsyncWith)):
            for item in s.items:
                self.read(item, bound)
            return self.block(s.body, bound | set(stored([*s.items])))
        if isinstance(s, ast.Try):
            after = self.block(s.body, bound)
            for handler in s.handlers:
                self.block(handler.body, bound | ({handler.name} if handler.name else set()))
            self.block(s.orelse, after)
            self.block(s.finalbody, bound)
            return bound
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            self.read(s.value, bound)
            self.exposed |= {s.target.id} - bound
            return bound | {s.target.id}
        self.read(s, bound)
        removed = {n for t in getattr(s, "targets", []) for n in loads(t)}
        if isinstance(s, ast.Delete):
            self.exposed |= removed - bound
            return bound - set(stored([s]))
        return bound | set(stored([s]))


def exposed(body: Sequence[ast.stmt]) -> tuple[set[str], set[str]]:
    """Names that a body may read before it stores them, and names that it stores on some paths
    only: the value at the start of the body matters to both.
    """
    finder = _Exposure()
    certain = finder.block(body, set())
    return finder.exposed, set(stored(body)) - certain


def escapes(body: Sequence[ast.stmt], of_loop: bool) -> list[ast.AST]:
    """Jumps that leave a body: `return`, `yield` and `raise` always, `break` and `continue` of this
    loop or, for the arm of a branch, of a loop around it.
    """
    found: list[ast.AST] = [
        node for node in walk_here(body) if isinstance(node, (ast.Yield, ast.YieldFrom))
    ]

    def visit(statements: Sequence[ast.AST], inner_loop: bool) -> None:
        for s in statements:
            if isinstance(s, _SCOPES):
                continue
            if isinstance(s, ast.Return) or (isinstance(s, ast.Raise) and not of_loop):
                found.append(s)
            elif isinstance(s, (ast.Break, ast.Continue)) and not inner_loop:
                found.append(s)
            elif isinstance(s, (ast.For, ast.While, ast.AsyncFor)):
                visit(s.body, True)
                visit(s.orelse, inner_loop)
            else:
                visit(
                    [
                        c
                        for c in ast.iter_child_nodes(s)
                        if isinstance(c, (ast.stmt, ast.ExceptHandler, ast.match_case))
                    ],
                    inner_loop,
                )

    visit(body, False)
    return found


def mutations(body: Sequence[ast.stmt]) -> list[tuple[str, ast.AST]]:
    """Places that may change an object, with the name through which they reach it."""
    found: list[tuple[str, ast.AST]] = []
    for node in walk_here(body):
        reached: ast.AST | None = None
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(
            node.ctx, (ast.Store, ast.Del)
        ):
            reached = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            reached = node.func.value
        elif isinstance(node, ast.Call):
            found.extend((a.id, node) for a in node.args if isinstance(a, ast.Name))
        while isinstance(reached, (ast.Subscript, ast.Attribute)):
            reached = reached.value
        if isinstance(reached, ast.Name):
            found.append((reached.id, node))
    return found
