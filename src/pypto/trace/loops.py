"""`pypto.loop` and its kin: what a dynamic `for` iterates over, and questions about its index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from pypto.errors import error
from pypto.ir import build, place, sym
from pypto.ir.findings import attempt
from pypto.ir.handle import Tensor
from pypto.ir.keywords import known_keywords
from pypto.ir.scalar import LoopBounds, SymbolicScalar, as_sym_int, failed_integer
from pypto.ir.sym import SymInt
from pypto.trace.regions import Bounds


class LoopRange:
    """The iterable of a dynamic loop.  It is recognised by being this, not by how it is spelt."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds

    @place.boundary
    def __iter__(self) -> Iterator[Any]:
        build.current("pypto.loop")
        raise error(
            TypeError,
            "pypto.loop is the iterable of a `for` statement in a kernel; a comprehension, list() "
            "or an unconverted function cannot run it",
            fix="for i in pypto.loop(n): …",
        )


def _bound(x: Any) -> SymInt:
    build.settle(x)
    if isinstance(x, Tensor):
        raise error(
            ValueError,
            "Invalid value type: a loop bound must be int or symbolic scalar, got a Tensor; read "
            "an element: `t[0]`",
            code="F21004",
            fix="`n = t[0]` with an integer tensor, then `pypto.loop(n)`",
        )
    if isinstance(x, bool) or not isinstance(x, (int, np.integer, SymbolicScalar)):
        raise error(
            ValueError,
            f"Invalid value type: a loop bound must be int or symbolic scalar, got "
            f"{type(x).__name__} ({x!r})",
            code="F21004",
            fix="divide with `//` or `pypto.ceildiv(n, tile)`"
            if isinstance(x, float)
            else "pass the bound as an int argument of the kernel",
        )
    return as_sym_int(x)


def _range(name: str, args: tuple[Any, ...]) -> tuple[SymInt, SymInt, SymInt]:
    if len(args) == 1 and isinstance(args[0], range):
        return args[0].start, args[0].stop, args[0].step
    if not 1 <= len(args) <= 3:
        raise error(
            TypeError,
            f"{name}() takes 1 to 3 positional arguments but {len(args)} were given",
            fix=f"`pypto.{name}(stop)`, `pypto.{name}(start, stop)` or "
            f"`pypto.{name}(start, stop, step)`",
        )
    values = [_bound(a) for a in args]
    start, stop = (0, values[0]) if len(values) == 1 else values[:2]
    step = values[2] if len(values) == 3 else 1
    if step == 0:
        raise error(
            ValueError,
            f"Invalid value type: the step of {name}() is 0",
            code="F21004",
            fix="a step is positive or negative",
        )
    return start, stop, step


def _some_trips(factors: tuple[int, ...] = ()) -> LoopRange:
    """What stands for a loop that was called wrongly: its body is traced for the mistakes in it.

    There is one trip at least: otherwise names that the body binds would be doubtful behind it.
    """
    trips = build.current().integer("trips")
    return LoopRange(Bounds(0, sym.leaf(trips, 1), 1, factors))


def _factors(given: Any, default: tuple[int, ...]) -> tuple[int, ...]:
    if given is None:
        return default
    if not isinstance(given, (list, tuple, set)):
        raise error(
            TypeError,
            f"unroll_list takes a list of ints, got {type(given).__name__}",
            fix="unroll_list=[4, 2, 1]",
        )
    for factor in given:
        if isinstance(factor, bool) or not isinstance(factor, (int, np.integer)) or factor < 1:
            raise error(
                ValueError,
                f"unroll factor {factor!r} must be a positive integer",
                fix="unroll_list=[4, 2, 1]",
            )
    return tuple(sorted({int(f) for f in given} | {1}, reverse=True))


def _with_bounds(function: Callable[..., LoopRange]) -> Callable[..., LoopRange]:
    """`known_keywords` for functions whose bounds have no names."""
    hint = f"by position: pypto.{function.__name__}(start, stop, step)"
    return known_keywords(function, open_ended=True, start=hint, stop=hint, step=hint)


@place.boundary
@_with_bounds
def loop(
    *args: Any,
    name: str = "",
    idx_name: str = "",
    unroll_list: Any = None,
    submit_before_loop: bool = False,
    parallel: bool = False,
) -> LoopRange:
    """A loop that runs when the kernel runs: ``for i in pypto.loop(stop)``, ``(start, stop)`` or
    ``(start, stop, step)``.

    Bounds are ints or symbolic scalars (dims, loop indices, elements of integer tensors); a
    `range` of ints is accepted; the step may be negative; there may be no trip at all.  The index
    is a symbolic scalar.  ``name``, ``idx_name``, ``unroll_list``, ``submit_before_loop`` and
    ``parallel`` change no value.
    Errors: ValueError F21004 for bounds of other types and step 0, TypeError F00001 for other
    argument counts and unknown keywords, ValueError F00002 for unroll factors.
    Source: the loop of the language.
    """

    def made() -> LoopRange:
        _factors(unroll_list, (1,))
        return LoopRange(Bounds(*_range("loop", args), parallel=bool(parallel)))

    return attempt(made, args, _some_trips)


@place.boundary
@_with_bounds
def loop_unroll(
    *args: Any,
    name: str = "",
    idx_name: str = "",
    unroll_list: Any = None,
    submit_before_loop: bool = False,
    parallel: bool = False,
) -> LoopRange:
    """A loop over groups: ``for i, k in pypto.loop_unroll(n, unroll_list=[4, 2])``.

    `i` is the first index of a group (symbolic), `k` how far the group reaches (an int, so it can
    be an extent): as many groups of the largest factor as fit, then of the next, then of 1.
    Errors: as for `loop`.  Source: the unrolled loop of the language.
    """

    def made() -> LoopRange:
        factors = _factors(unroll_list, (1,))
        return LoopRange(Bounds(*_range("loop_unroll", args), factors, bool(parallel)))

    return attempt(made, args, lambda: _some_trips((1,)))


def _own_bounds(scalar: Any, name: str) -> tuple[sym.Expr, LoopBounds]:
    build.current(f"pypto.{name}")
    build.settle(scalar)
    if isinstance(scalar, SymbolicScalar) and scalar.bounds is not None:
        return scalar.expr, scalar.bounds
    if isinstance(scalar, SymbolicScalar) and build.current().open_loops:
        innermost = build.current().open_loops[-1]
        build.note(
            f"{name}() takes a loop index itself; a value derived from one is compared with the "
            "innermost loop here and refused elsewhere"
        )
        return scalar.expr, innermost.index.bounds
    _not_an_index(scalar, name)


def _not_an_index(scalar: Any, name: str) -> NoReturn:
    raise error(
        ValueError,
        f"not loop index: {name}() takes the index of a pypto.loop, got {type(scalar).__name__}",
        fix=f"pass the index itself: `pypto.{name}(i)`",
    )


@place.boundary
@known_keywords
def is_loop_begin(scalar: SymbolicScalar) -> SymbolicScalar:
    """1 on the first trip of the loop that `scalar` is the index of, else 0.

    Errors: ValueError F00002 for what is no index.  Source: the loop markers of the language.
    """
    return attempt(lambda: _is_begin(scalar), scalar, failed_integer)


def _is_begin(scalar: Any) -> SymbolicScalar:
    index, bounds = _own_bounds(scalar, "is_loop_begin")
    return SymbolicScalar(sym.compare("eq", index, bounds.start))


@place.boundary
@known_keywords
def is_loop_end(scalar: SymbolicScalar) -> SymbolicScalar:
    """1 on the last trip of the loop that `scalar` is the index of, else 0.

    Errors: ValueError F00002 for what is no index.  Source: the loop markers of the language.
    """
    return attempt(lambda: _is_end(scalar), scalar, failed_integer)


def _is_end(scalar: Any) -> SymbolicScalar:
    index, bounds = _own_bounds(scalar, "is_loop_end")
    following = sym.add(index, bounds.step)
    low, high = sym.expr(bounds.step).bounds()
    if low > 0:
        return SymbolicScalar(sym.compare("le", bounds.stop, following))
    if high < 0:
        return SymbolicScalar(sym.compare("le", following, bounds.stop))
    forward = sym.compare("lt", 0, bounds.step)
    up = sym.compare("le", bounds.stop, following)
    down = sym.compare("le", following, bounds.stop)
    return SymbolicScalar(sym.select(forward, up, down))


@place.boundary
@known_keywords
def cond(scalar: Any, file: str | None = None, lineno: int | None = None) -> Any:
    """The condition itself: ``if pypto.cond(i == 0)`` is ``if i == 0``.

    Errors: ValueError F00002 when only one of `file` and `lineno` is given or `scalar` is no
    number.  Source: the conditions of the language.
    """
    return attempt(lambda: _condition(scalar, file, lineno), scalar, failed_integer)


def _condition(scalar: Any, file: str | None, lineno: int | None) -> Any:
    if (file is None) != (lineno is None):
        raise error(
            ValueError,
            "file and lineno must be provided together or omitted",
            fix="pypto.cond(i == 0)",
        )
    build.settle(scalar)
    if not isinstance(scalar, (int, np.integer, SymbolicScalar)):
        raise error(
            ValueError,
            f"Invalid value type: cond() takes an int or a symbolic scalar, got "
            f"{type(scalar).__name__}",
            fix="read one integer element: `pypto.cond(t[0] > 0)`"
            if isinstance(scalar, Tensor)
            else "compare integers: `pypto.cond(i == 0)`",
        )
    return scalar


@place.boundary
@known_keywords
def dynamic(name: str) -> SymbolicScalar:
    """A named symbol for the dims of annotations; one name is one size in a call.

    Errors: TypeError F00001 if `name` is no string.  Source: the annotations of the language.
    """
    if not isinstance(name, str):
        raise error(
            TypeError,
            f"dynamic() takes a name, got {type(name).__name__}",
            fix='pypto.frontend.dynamic("n")',
        )
    return SymbolicScalar(name)


def function(func: Any = None) -> Any:
    """Marks a helper of kernels, bare or called.  Helpers are inlined with or without it.

    Source: the nested functions of the language.
    """
    return (lambda f: f) if func is None else func
