"""A function whose control flow asks before it runs.

The user's statements stay where they stand, with their lines and columns; calls are put round
loops, branches, ternaries, `and`/`or`/`not`, chained comparisons and calls of helpers, so that
symbolic values can take over there.  Everything else remains ordinary Python.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections.abc import Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from pypto.errors import Loc
from pypto.trace import names, source
from pypto.trace.regions import Site

RUNTIME = "__pypto__"
_INNER = "__pypto_inner__"
SITES: list[Site] = []
# Code objects made here, nested functions included: they are converted already.
converted_codes: set[CodeType] = set()
_cache: dict[CodeType, tuple[CodeType, list[tuple[str, Loc]]]] = {}

_KEYWORDS = {
    ast.Return: "return",
    ast.Break: "break",
    ast.Continue: "continue",
    ast.Raise: "raise",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
}


def _at(new: ast.AST, old: ast.AST) -> Any:
    """Give generated syntax the place of the syntax that it stands for."""
    stack = [new]
    while stack:
        node = stack.pop()
        if "lineno" in node._attributes:
            if getattr(node, "lineno", None) is not None:
                # The user's own syntax, or generated syntax that has its place already.
                continue
            ast.copy_location(node, old)
            if node.end_lineno != node.lineno:  # type: ignore[attr-defined]
                # The compiler moves calls that span lines to their last line.
                node.end_lineno = node.lineno  # type: ignore[attr-defined]
                node.end_col_offset = node.col_offset + 1  # type: ignore[attr-defined]
        stack.extend(ast.iter_child_nodes(node))
    return new


def _name(id: str, store: bool = False) -> ast.Name:
    return ast.Name(id, ast.Store() if store else ast.Load())


def _runtime(method: str, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(_name(RUNTIME), method, ast.Load())
    return ast.Call(function, list(args), [])


def _method(object: str, method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(_name(object), method, ast.Load()), list(args), [])


def _read(id: str) -> ast.Call:
    """The value of a name, read where it can be told that there is none."""
    return _runtime("name", ast.Constant(id), ast.Lambda(_no_arguments(), _name(id)))


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _locals() -> ast.Call:
    return _runtime("locals")


class Converter(ast.NodeTransformer):
    """Rewrites the body of one function and of the functions nested in it."""

    def __init__(self, file: str, function: str, undefined: set[str]) -> None:
        self.file = file
        self.function = function
        # Names that have no value anywhere, and those of the function at hand that may have none
        # yet: to read one is a mistake that is told like any other.
        self.undefined = undefined
        self.unsure: set[str] = set()
        self.count = 0
        self.notes: list[tuple[str, Loc]] = []
        self.depth = 0
        # Names of the function at hand that functions nested in it may store.
        self.shared: list[str] = []
        # Names of it that functions nested in it read.
        self.captured: set[str] = set()
        # Loops and branches of it around the statement at hand, outermost first: what they are, and
        # the names that hold their regions (a `while` has none).
        self.around: list[tuple[str, str]] = []
        # The name that holds what a refused `return` of it stands for, where it has one.
        self.refused = ""

    # -- helpers ----------------------------------------------------------------------------------

    def _loc(self, node: ast.AST) -> Loc:
        return source.loc_of(node, self.file, self.function)

    def _note(self, what: str, node: ast.AST) -> None:
        self.notes.append((what, self._loc(node)))

    def _temporary(self) -> str:
        self.count += 1
        return f"_pypto_{self.count}"

    def _site(self, site: Site) -> ast.Constant:
        SITES.append(site)
        return ast.Constant(len(SITES) - 1)

    def _escapes(self, body: Sequence[ast.stmt], of_loop: bool) -> list[tuple[str, Loc]]:
        return [(_KEYWORDS[type(s)], self._loc(s)) for s in names.escapes(body, of_loop)]

    def _stored(self, body: Sequence[ast.stmt]) -> list[str]:
        found = names.stored(body)
        return [*dict.fromkeys([*found, *self.shared])] if names.calls(body) else found

    def _mutations(self, body: Sequence[ast.stmt]) -> list[tuple[str, Loc]]:
        return [(name, self._loc(node)) for name, node in names.mutations(body)]

    def _rebind(self, stored: list[str], call: ast.expr) -> list[ast.stmt]:
        """`(a, b) = call`, where names that come back unbound are unbound."""
        if not stored:
            return [ast.Expr(call)]
        target = ast.Tuple([_name(n, True) for n in stored], ast.Store())
        out: list[ast.stmt] = [ast.Assign([target], call)]
        for n in stored:
            unbound = ast.Attribute(_name(RUNTIME), "unbound", ast.Load())
            test = ast.Compare(_name(n), [ast.Is()], [unbound])
            out.append(ast.If(test, [ast.Delete([ast.Name(n, ast.Del())])], []))
        return out

    def _when_dynamic(self, region: str, body: list[ast.stmt]) -> ast.If:
        return ast.If(ast.Attribute(_name(region), "dynamic", ast.Load()), body, [])

    # -- statements -------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> Any:
        targets = names.targets(node.target)
        body_names = self._stored(node.body)
        stored = [*dict.fromkeys([*body_names, *targets])]
        carried = [n for n in stored if n not in targets]
        read, kept = names.exposed(node.body)
        read |= set(self.shared)
        if names.calls(node.body):
            read |= self.captured & set(stored)
        site = Site(
            "for",
            stored,
            self._loc(node),
            targets=targets,
            read=frozenset(read - set(targets)),
            exposed=frozenset((read | kept) - set(targets)),
            escapes=self._escapes(node.body, True),
            mutations=self._mutations(node.body),
            has_else=bool(node.orelse),
        )
        if node.orelse:
            self._note("for-else", node)
        region = self._temporary()
        iterable = self.visit(node.iter)
        body = self._inside("for", region, node.body)
        orelse = self._block(node.orelse)
        enter = ast.Assign(
            [_name(region, True)], _runtime("loop", iterable, self._site(site), _locals())
        )
        head = self._rebind(carried, _method(region, "head"))
        close = self._rebind(stored, _method(region, "close", _locals()))
        loop = ast.For(
            node.target,
            _name(region),
            [self._when_dynamic(region, head), *body, self._when_dynamic(region, close)],
            orelse,
        )
        return [_at(enter, node.iter), _at(loop, node)]

    def visit_If(self, node: ast.If) -> Any:
        stored = self._stored([*node.body, *node.orelse])
        site = Site(
            "if",
            stored,
            self._loc(node),
            escapes=self._escapes([*node.body, *node.orelse], False),
            mutations=self._mutations([*node.body, *node.orelse]),
        )
        region = self._temporary()
        test = self.visit(node.test)
        body = self._inside("if", region, node.body)
        orelse = self._inside("if", region, node.orelse)
        enter = ast.Assign(
            [_name(region, True)], _runtime("branch", test, self._site(site), _locals())
        )

        def end() -> ast.stmt:
            return self._when_dynamic(region, [ast.Expr(_method(region, "end", _locals()))])

        start = self._when_dynamic(region, self._rebind(stored, _method(region, "start")))
        merge = self._when_dynamic(region, self._rebind(stored, _method(region, "merge")))
        then = ast.If(_method(region, "then"), [*body, end()], [])
        other = ast.If(_method(region, "orelse"), [start, *orelse, end()], [])
        return [_at(s, node.test) for s in (enter, then, other, merge)]

    def visit_While(self, node: ast.While) -> Any:
        if node.orelse:
            self._note("while-else", node)
        node.test = _at(_runtime("while_test", self.visit(node.test)), node.test)
        node.body = self._inside("while", "", node.body)
        node.orelse = self._block(node.orelse)
        return node

    def visit_Try(self, node: ast.Try) -> Any:
        self._note("try", node)
        mark = self._temporary()
        self.generic_visit(node)
        save = ast.Assign([_name(mark, True)], _runtime("mark"))
        for handler in node.handlers:
            handler.body.insert(0, _at(ast.Expr(_runtime("recover", _name(mark))), handler))
        return [_at(save, node), node]

    def visit_With(self, node: ast.With) -> Any:
        self._note("with", node)
        for item in node.items:
            item.context_expr = _at(
                _runtime("context", self.visit(item.context_expr)), item.context_expr
            )
        node.body = self._block(node.body)
        return node

    def visit_Return(self, node: ast.Return) -> Any:
        if self.depth == 0:
            self._note("return", node)
        self.generic_visit(node)
        instead: list[ast.stmt] = []
        if node.value is not None and self.around:
            self.refused = self.refused or self._temporary()
            value = _runtime("refused", copy.deepcopy(node.value))
            instead = [ast.Assign([_name(self.refused, True)], value)]
        return self._jump(node, [region for _, region in self.around], instead)

    def visit_Break(self, node: ast.Break | ast.Continue) -> Any:
        kinds = [kind for kind, _ in self.around]
        loop = max(i for i, kind in enumerate(kinds) if kind != "if")
        return self._jump(node, [region for _, region in self.around[loop:]])

    visit_Continue = visit_Break

    def visit_Raise(self, node: ast.Raise) -> Any:
        self.generic_visit(node)
        return self._jump(node, [region for kind, region in self.around if kind == "if"])

    def _jump(
        self, node: ast.stmt, out_of: Sequence[str], instead: Sequence[ast.stmt] = ()
    ) -> ast.stmt:
        """A jump that is made unless it leaves a dynamic region; that is told already."""
        regions = [_name(region) for region in out_of if region]
        if not regions:
            return node
        jump = ast.If(_runtime("leaves", *regions), [node], list(instead))
        made: ast.stmt = _at(jump, node)
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        outer = self.shared, self.captured, self.around, self.refused, self.unsure
        self._enter(node)
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1
        self._leave(node)
        self.shared, self.captured, self.around, self.refused, self.unsure = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        # Names of a class body cannot be read from the inner function that reads unsure ones.
        outer, self.unsure = self.unsure, set()
        self.generic_visit(node)
        self.unsure = outer
        return node

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.shared, self.captured = names.rebound_inside(node.body), names.captured(node.body)
        self.around, self.refused = [], ""
        self.unsure = names.unsure(node)

    def _leave(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Let a function whose `return` was refused give something all the same."""
        if self.refused:
            nothing = ast.Assign([_name(self.refused, True)], ast.Constant(None))
            node.body.insert(0, _at(nothing, node))
            node.body.append(_at(ast.Return(_name(self.refused)), node))

    def visit_Starred(self, node: ast.Starred) -> Any:
        if isinstance(node.ctx, ast.Store):
            self._note("a starred target", node)
        return self.generic_visit(node)

    def _inside(self, kind: str, region: str, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        self.around.append((kind, region))
        out = self._block(body)
        self.around.pop()
        return out

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            out.extend(new if isinstance(new, list) else [new])
        return out

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target = node.target
        self.generic_visit(node)
        if not isinstance(target, ast.Name) or target.id not in self.unsure:
            return node
        return [_at(ast.Assign([_name(target.id, True)], _read(target.id)), target), node]

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        written = ast.unparse(node.value)
        self.generic_visit(node)
        extents = node.value
        if isinstance(node.ctx, ast.Load) or not isinstance(extents, ast.Attribute):
            return node
        if extents.attr in ("shape", "valid_shape"):
            details = ast.Constant(extents.attr), ast.Constant(written)
            node.value = _at(_runtime("extents", extents.value, *details), node)
        return node

    # -- expressions ------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> Any:
        is_read = isinstance(node.ctx, ast.Load)
        if is_read and (node.id in self.undefined or node.id in self.unsure):
            return _at(_read(node.id), node)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> Any:
        self._note("`:=`", node)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test, a, b = (self.visit(n) for n in (node.test, node.body, node.orelse))
        nothing = ast.Constant(None)
        return _at(
            _runtime(
                "chosen",
                _runtime("choose", test),
                ast.IfExp(_runtime("then"), _runtime("arm", a), nothing),
                ast.IfExp(_runtime("orelse"), _runtime("arm", b), nothing),
            ),
            node,
        )

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        word = "and" if isinstance(node.op, ast.And) else "or"
        values = [self.visit(v) for v in node.values]
        result = values[-1]
        for value in reversed(values[:-1]):
            side = "then" if word == "and" else "orelse"
            rest = ast.IfExp(_runtime(side), _runtime("arm", result), ast.Constant(None))
            result = _at(
                _runtime("joined", _runtime("join", ast.Constant(word), value), rest), node
            )
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return _at(_runtime("negate", node.operand), node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        ops = ast.Tuple([ast.Constant(type(op).__name__) for op in node.ops], ast.Load())
        operands = [
            _at(ast.Lambda(_no_arguments(), operand), operand)
            for operand in (node.left, *node.comparators)
        ]
        return _at(_runtime("chain", ops, *operands), node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("super", "locals", RUNTIME):
            return node
        node.func = _at(_runtime("call", node.func), node.func)
        return node


def _mangled(tree: ast.AST, code: CodeType) -> None:
    """Private names of a class, as its compiler would have spelt them."""
    parts = code.co_qualname.split(".")
    owner = parts[-2].lstrip("_") if len(parts) > 1 and parts[-2] != "<locals>" else ""
    if not owner:
        return
    for node in ast.walk(tree):
        for attribute in ("id", "attr", "arg"):
            name = getattr(node, attribute, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__"):
                setattr(node, attribute, f"_{owner}{name}")


def _compile(code: CodeType, space: Mapping[str, Any]) -> tuple[CodeType, list[tuple[str, Loc]]]:
    tree = copy.deepcopy(source.find(code))
    _mangled(tree, code)
    known = {*code.co_freevars, *space, *dir(builtins)}
    converter = Converter(code.co_filename, code.co_name, names.undefined(tree, known))
    if isinstance(tree, ast.Lambda):
        tree.body = converter.visit(tree.body)
        inner: ast.stmt = _at(ast.Return(tree), tree)
    else:
        tree.decorator_list = []
        tree.returns = None
        arguments = tree.args
        for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            arg.annotation = None
        # Defaults are evaluated where the function was made; only their presence counts here.
        arguments.defaults = [_at(ast.Constant(None), d) for d in arguments.defaults]
        arguments.kw_defaults = [
            None if d is None else _at(ast.Constant(None), d) for d in arguments.kw_defaults
        ]
        converter._enter(tree)
        tree.body = converter._block(tree.body)
        converter._leave(tree)
        # Under its own name the function would hide a global that it calls, itself above all.
        tree.name = _INNER
        inner = tree
    free = [n for n in code.co_freevars if n != RUNTIME]
    parameters = [ast.arg(n) for n in (RUNTIME, *free)]
    # A reference in a nested function makes the runtime a free variable even of a body that has no
    # control flow at all.
    factory = ast.FunctionDef(
        "__factory__",
        ast.arguments([], parameters, None, [], [], None, []),
        [inner],
        [],
        None,
        None,
    )
    module = ast.Module([_at(factory, tree)], [])
    ast.fix_missing_locations(module)
    compiled = compile(module, code.co_filename, "exec", dont_inherit=True)
    outer = next(c for c in compiled.co_consts if isinstance(c, CodeType))
    result = next(c for c in outer.co_consts if isinstance(c, CodeType))
    result = result.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    _remember(result)
    return result, converter.notes


def _remember(code: CodeType) -> None:
    converted_codes.add(code)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            _remember(const)


def convert(function: FunctionType, runtime: Any) -> tuple[FunctionType, list[tuple[str, Loc]]]:
    """The converted twin of a function, with its globals, defaults and closure, and its notes."""
    code = function.__code__
    if code not in _cache:
        _cache[code] = _compile(code, function.__globals__)
    new, notes = _cache[code]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[RUNTIME] = CellType(runtime)
    closure = tuple(cells.get(n) or CellType() for n in new.co_freevars)
    twin = FunctionType(
        new, function.__globals__, function.__name__, function.__defaults__, closure
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__qualname__ = function.__qualname__
    twin.__module__ = function.__module__
    twin.__dict__.update(function.__dict__)
    return twin, notes
