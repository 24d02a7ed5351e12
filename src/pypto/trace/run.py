"""Running a kernel's Python once, to get its graph.

In: the kernel's function, a description of its arguments.  Out: a graph, and what of the world
outside (globals, closures, attributes) the trace has read.  `Runtime` is what converted code calls:
it hands control flow over to regions where a value is symbolic, and is plain Python elsewhere.
"""

from __future__ import annotations

import builtins
import functools
import linecache
import operator
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

from pypto.errors import (
    InternalError,
    Loc,
    ParserError,
    PyptoError,
    error,
)
from pypto.ir import build, options, sym
from pypto.ir.dtype import DataType
from pypto.ir.findings import Failed, any_failed, as_failed, keep, storage_of
from pypto.ir.graph import Graph, Storage, Value, int_value
from pypto.ir.handle import Tensor
from pypto.ir.place import is_caught
from pypto.ir.scalar import SymbolicScalar, operand
from pypto.ir.sym import SymInt
from pypto.ir.types import TileOpFormat, full
from pypto.trace import convert, source
from pypto.trace.branches import Branch, Choice
from pypto.trace.carry import Loop
from pypto.trace.loops import LoopRange
from pypto.trace.mistakes import fixed_extents, located, own_words, without_value
from pypto.trace.names import name_stores
from pypto.trace.regions import UNBOUND

_STDLIB = os.path.dirname(os.__file__) + os.sep
_FOREIGN = ("numpy", "torch", "jax", "ml_dtypes", "typing", "builtins", "functools", "pytest")


class _Plain:
    """A loop or branch that is ordinary Python."""

    dynamic = False

    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def then(self) -> bool:
        return bool(self.value)

    def orelse(self) -> bool:
        return not self.value


_TRUE, _FALSE = _Plain(True), _Plain(False)


def is_symbolic(x: Any) -> bool:
    """Whether control flow on it must be left to the kernel's run."""
    return isinstance(x, SymbolicScalar) and not x.is_concrete()


def truth(x: Any) -> bool:
    """Python's truth of a value; a tensor has none."""
    return bool(x)


class Runtime:
    """What converted code calls.  One object serves all: the state is in the current trace."""

    unbound = UNBOUND
    locals = staticmethod(builtins.locals)

    # -- statements -------------------------------------------------------------------------------

    def loop(self, iterable: Any, site: int, names: Mapping[str, Any]) -> Any:
        if isinstance(iterable, LoopRange):
            build.current("pypto.loop")
            return Loop(iterable.bounds, convert.SITES[site], sys._getframe(1), names)
        return _Plain(iterable)

    def branch(self, test: Any, site: int, names: Mapping[str, Any]) -> Any:
        if is_symbolic(test):
            return Branch(test, convert.SITES[site], sys._getframe(1), names)
        return _TRUE if truth(test) else _FALSE

    def leaves(self, *regions: Any) -> bool:
        """Whether a jump leaves these loops and branches, which must be ordinary Python."""
        dynamic = [region for region in regions if region.dynamic]
        if dynamic:
            dynamic[-1].skip()
        return not dynamic

    def refused(self, value: Any) -> Any:
        """What a function gives whose `return` cannot be."""
        return Failed() if is_symbolic(value) else as_failed(value)

    def extents(self, owner: Any, attribute: str, written: str) -> Any:
        """`owner.shape` where an entry of it is set; those of a tensor are a list of their own."""
        if storage_of(owner) is not None:
            keep(fixed_extents(attribute, written))
        return getattr(owner, attribute)

    def while_test(self, test: Any) -> bool:
        if is_symbolic(test):
            raise error(
                SyntaxError,
                "a while loop cannot run under a symbolic condition (Not concrete value)",
                fix="`for i in pypto.loop(n):` with the bound, and `if` for what may be skipped",
            )
        return truth(test)

    def context(self, manager: Any) -> Any:
        if any_failed(manager):
            return nullcontext(manager)
        if not hasattr(type(manager), "__enter__"):
            raise error(
                TypeError,
                f"`with` takes a context manager, got {type(manager).__name__}; a condition "
                "belongs to `if`",
                fix="write `if pypto.cond(i == 0):`",
            )
        return manager

    def mark(self) -> Any:
        trace = build.active()
        return None if trace is None else (trace.scope, len(_choices(trace)))

    def recover(self, mark: Any) -> None:
        trace = build.active()
        if trace is None or mark is None:
            return
        if trace.scope is not mark[0]:
            raise error(
                RuntimeError,
                "an exception left a pypto.loop or a symbolic branch and was caught outside of it",
                fix="catch it inside the body",
            )
        del _choices(trace)[mark[1] :]

    # -- expressions ------------------------------------------------------------------------------

    def name(self, name: str, read: Callable[[], Any]) -> Any:
        """What a name holds that may hold nothing; then that is told, and a failed value is it."""
        try:
            return read()
        except NameError as asked:
            cause = own_words(name, asked)
            if build.active() is None or is_caught():
                raise cause from None
            keep(without_value(name, cause))
            return Failed()

    def choose(self, test: Any) -> None:
        if is_symbolic(test):
            _choices(build.current()).append(_Dynamic(Choice(test)))
        else:
            _push(_Static(truth(test)))

    def then(self) -> bool:
        return _top().then()

    def orelse(self) -> bool:
        return _top().orelse()

    def arm(self, value: Any) -> Any:
        return _top().arm(value)

    def chosen(self, _: None, a: Any, b: Any) -> Any:
        return _pop().result(a, b)

    def join(self, word: str, first: Any) -> None:
        if is_symbolic(first):
            _push(_Joined(word, first))
        else:
            wanted = truth(first)
            _push(_Static(wanted, first, word))

    def joined(self, _: None, rest: Any) -> Any:
        return _pop().rest(rest)

    def negate(self, x: Any) -> Any:
        return SymbolicScalar(sym.logical_not(x.expr)) if is_symbolic(x) else not truth(x)

    def chain(self, ops: tuple[str, ...], *operands: Callable[[], Any]) -> Any:
        """`a < b < c` with each operand evaluated once, and none behind a false link."""
        left = operands[0]()
        result: Any = True
        for name, following in zip(ops, operands[1:], strict=True):
            right = following()
            link = _COMPARISONS[name](left, right)
            if is_symbolic(link) or is_symbolic(result):
                result = SymbolicScalar(sym.logical("and", operand(result), operand(link)))
            elif not link:
                return link
            else:
                result = link
            left = right
        return result

    # -- calls ------------------------------------------------------------------------------------

    def call(self, function: Any) -> Any:
        """What to call instead of a function: its converted twin if it is the user's."""
        if isinstance(function, FunctionType):
            return _twin(function)
        if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
            return MethodType(_twin(function.__func__), function.__self__)
        if isinstance(function, functools.partial):
            inner = self.call(function.func)
            return functools.partial(inner, *function.args, **function.keywords)
        if isinstance(function, (BuiltinFunctionType, type)):
            return _BUILTINS.get(function, function)
        kernel = getattr(function, "__pypto_kernel__", None)
        if kernel is not None:
            build.note("a kernel is called inside a kernel; it is inlined here")
            return _twin(kernel)
        method = vars(type(function)).get("__call__")
        if isinstance(method, FunctionType) and not isinstance(function, Tensor):
            return MethodType(_twin(method), function)
        return function


def _choices(trace: build.Trace | None) -> list[Any]:
    # Ternaries outside of any trace (a converted closure that the host calls) are plain Python.
    return _stray if trace is None else trace.choices


_stray: list[Any] = []


def _push(item: Any) -> None:
    _choices(build.active()).append(item)


def _top() -> Any:
    return _choices(build.active())[-1]


def _pop() -> Any:
    return _choices(build.active()).pop()


class _Static:
    """A choice that Python makes."""

    def __init__(self, taken: bool, first: Any = None, word: str = "") -> None:
        self.taken = taken
        self.first = first
        self.word = word

    def then(self) -> bool:
        return self.taken

    def orelse(self) -> bool:
        return not self.taken

    def arm(self, value: Any) -> Any:
        return value

    def result(self, a: Any, b: Any) -> Any:
        return a if self.taken else b

    def rest(self, value: Any) -> Any:
        goes_on = self.taken if self.word == "and" else not self.taken
        return value if goes_on else self.first


class _Dynamic:
    """A ternary with a symbolic condition."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def then(self) -> bool:
        self.choice.enter()
        return True

    orelse = then

    def arm(self, value: Any) -> Any:
        self.choice.leave(value)
        return value

    def result(self, a: Any, b: Any) -> Any:
        return self.choice.merge()


class _Joined(_Dynamic):
    """`and` or `or` whose first operand is symbolic."""

    def __init__(self, word: str, first: SymbolicScalar) -> None:
        super().__init__(Choice(first))
        self.word = word
        self.first = first

    def then(self) -> bool:
        if self.word == "and":
            self.choice.enter()
        else:
            self._keep_first()
            self.choice.enter()
        return True

    orelse = then

    def _keep_first(self) -> None:
        self.choice.enter()
        self.choice.leave(self.first)

    def rest(self, value: Any) -> Any:
        if self.word == "and":
            self._keep_first()
        return self.choice.merge()


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def _smaller_or_larger(method: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def pick(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs and any(isinstance(a, SymbolicScalar) for a in args):
            first, second = args
            if not isinstance(first, SymbolicScalar):
                first, second = second, first
            return getattr(first, method)(second)
        return plain(*args, **kwargs)

    return pick


def _with_twins(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A builtin that calls functions: it gets their converted twins."""

    def pass_on(*args: Any, **kwargs: Any) -> Any:
        new = [RUNTIME.call(a) if callable(a) else a for a in args]
        return plain(*new, **{k: RUNTIME.call(v) if callable(v) else v for k, v in kwargs.items()})

    return pass_on


def _print(*args: Any, **kwargs: Any) -> None:
    """`print` once per kernel, though a trace may have to start again."""
    trace = build.active()
    if trace is not None:
        trace.prints += 1
        if trace.prints <= trace.printed:
            return
    print(*args, **kwargs)  # noqa: T201 - the user's own


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.min: _smaller_or_larger("min", builtins.min),
    builtins.max: _smaller_or_larger("max", builtins.max),
    builtins.print: _print,
    **{f: _with_twins(f) for f in (map, filter, sorted, functools.reduce, functools.partial)},
}


def _is_users(function: FunctionType) -> bool:
    """Whether a function is part of the kernel's text: neither ours, nor Python's, nor a library's
    that knows nothing of symbols.
    """
    file = function.__code__.co_filename
    if function.__code__ in convert.converted_codes or build.is_internal(file):
        return False
    if (function.__module__ or "").split(".")[0] in _FOREIGN:
        return False
    if file.startswith("<"):
        return bool(linecache.getlines(file))
    return "site-packages" in file or not file.startswith(_STDLIB)


def _twin(function: FunctionType) -> Callable[..., Any]:
    if not _is_users(function):
        return function
    trace = build.active()
    try:
        twin, notes = convert.convert(function, RUNTIME)
    except ParserError:
        if trace is not None and trace.entry is function:
            raise
        # A helper without source runs as it is; symbols in its control flow say so themselves.
        return function
    if trace is not None:
        trace.functions[function] = None
        for what, loc in notes:
            if what != "return" or trace.entry is function:
                portability(what, loc)
    return twin


def portability(what: str, loc: Loc) -> None:
    """Note a form of Python that other front ends refuse inside a kernel."""
    text = f"{what} in a kernel runs as Python here; other front ends refuse it"
    if what == "return":
        text = "return in a kernel: its value is ignored; other front ends refuse it"
    build.note(text, loc=loc)


RUNTIME = Runtime()


def call_kernel(function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> None:
    """Run the converted kernel; frames of the user are those inside of this call."""
    _twin(function)(*args, **kwargs)


FLOOR: CodeType = call_kernel.__code__


@dataclass(frozen=True)
class TensorSpec:
    """What a trace knows of one tensor argument: a dim is an int, or None where it is DYNAMIC, or
    the name of a symbol that several arguments may share.
    """

    name: str
    dtype: DataType
    dims: tuple[int | str | None, ...]
    format: TileOpFormat = TileOpFormat.TILEOP_ND


@dataclass(eq=False)
class Traced:
    """A graph, the functions whose text made it, and what became of the parameters' names.

    `rebound` has the places where a tensor parameter's name is stored, `unread` those of them that
    no later text reads.  `findings` are the mistakes of the kernel; with any, the graph lacks what
    failed, and the tensors that this may have been meant to write are `doubtful`.  It is `whole`
    unless the trace had to stop on the way.
    """

    graph: Graph
    functions: list[FunctionType]
    rebound: dict[str, list[Loc]]
    unread: set[Loc]
    findings: list[PyptoError]
    doubtful: set[Storage]
    whole: bool


def trace_kernel(function: FunctionType, specs: list[TensorSpec], values: dict[str, Any]) -> Traced:
    """The graph of a kernel for arguments of these kinds and these values."""
    carried: frozenset[tuple[int, int]] = frozenset()
    printed = 0
    while True:
        whole = True
        trace = build.Trace(function.__name__, carried)
        trace.entry = function
        trace.printed = printed
        saved = options.settings()
        try:
            with build.tracing(trace, FLOOR):
                call_kernel(function, _handles(trace, specs), values)
        except build.Retrace as found:
            if found.key in carried:
                raise InternalError(f"a loop does not settle: {found.key}") from None
            carried |= {found.key}
            printed = max(printed, trace.prints)
            continue
        except Exception as cause:
            whole = False
            trace.findings.append(located(cause, FLOOR))
            trace.forget_skipped()
        finally:
            options.use(saved)
        trace.graph.loc = Loc(
            function.__code__.co_filename,
            function.__code__.co_firstlineno,
            function=trace.graph.name,
        )
        rebound, unread = _rebound(function, specs)
        return Traced(
            trace.graph,
            list(trace.functions),
            rebound,
            unread,
            trace.findings,
            trace.doubtful,
            whole,
        )


def _handles(trace: build.Trace, specs: list[TensorSpec]) -> list[Tensor]:
    symbols: dict[str, Value] = {}
    handles = []
    for position, spec in enumerate(specs):
        dims: dict[int, Value] = {}
        shape: list[SymInt] = []
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, int):
                shape.append(dim)
                continue
            # A symbol is taken from the first argument that has it; the others must agree.
            value = symbols.get(dim) if dim is not None else None
            if value is None:
                value = trace.own(int_value(dim or f"{spec.name}_dim{axis}"))
                dims[axis] = value
            if dim is not None:
                symbols[dim] = value
            shape.append(sym.leaf(value, 0))
        type = full(spec.dtype, tuple(shape), spec.format)
        storage = Storage(type, spec.name, position)
        param = trace.parameter(spec.name, type, storage)
        param.dims = dims
        handle = Tensor.of(trace, storage)
        handle.name = spec.name
        handles.append(handle)
    return handles


def _rebound(
    function: FunctionType, specs: list[TensorSpec]
) -> tuple[dict[str, list[Loc]], set[Loc]]:
    """Tensor parameters whose names the kernel stores, with the places of the stores, and which of
    these nothing reads.
    """
    code = function.__code__
    tree = source.find(code)
    body = tree.body if isinstance(tree.body, list) else []
    names = {s.name for s in specs}
    found: dict[str, list[Loc]] = {}
    unread: set[Loc] = set()
    for store, is_read in name_stores(body):
        if store.id in names:
            place = source.loc_of(store, code.co_filename, code.co_name)
            found.setdefault(store.id, []).append(place)
            if not is_read:
                unread.add(place)
    return found, unread
