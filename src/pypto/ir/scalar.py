"""The user's handle on a symbolic integer.

In: ints, names, expressions, and Python's operators on them.  Out: `SymbolicScalar`, which behaves
like an int where that can be left to the kernel's run, and says so where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from pypto.errors import PyptoError, PyptoNote, Stopped, error, warn
from pypto.ir import place, sym, written
from pypto.ir.collect import keep
from pypto.ir.sym import Expr, SymInt

NOT_CONCRETE = (
    "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
    "interpreted as an integer)"
)
NOT_CONCRETE_FIX = (
    "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
    "number to the kernel as an int argument"
)


class LoopBounds:
    """What an index knows of its own loop, for `is_loop_begin` and `is_loop_end`."""

    __slots__ = ("start", "step", "stop")

    def __init__(self, start: SymInt, stop: SymInt, step: SymInt) -> None:
        self.start = start
        self.stop = stop
        self.step = step


class SymbolicScalar:
    """An integer that may be known only when the kernel runs.

    `SymbolicScalar(3)` is concrete, `SymbolicScalar("n")` is a free symbol,
    `SymbolicScalar("n", 3)` a named concrete value.  Dims declared DYNAMIC, loop indices and
    elements read from integer tensors are symbolic.  Operators: ``+ - * / // %`` (both divisions
    are Python's floor), comparisons (0 or 1), ``& | ~`` (logical).  Errors: ValueError F21004
    where a Python int is needed; TypeError F00001 for other operands.  Source: the symbolic scalar
    of the language.

    >>> import pypto
    >>> (pypto.SymbolicScalar(3) + 4).concrete()
    7
    """

    # Guards a name that some executed path has not bound: called on each use.
    __slots__ = ("__dict__", "_expr", "_guard", "_name", "bounds")

    def __init__(self, value: Any, concrete: int | None = None) -> None:
        self._guard: Callable[[], None] | None = None
        self._name: str | None = None
        self.bounds: LoopBounds | None = None
        if isinstance(value, SymbolicScalar):
            self._expr = value.expr
            self.bounds = value.bounds
            return
        if isinstance(value, str):
            self._name = value
            self._expr = sym.symbol(value) if concrete is None else sym.const(int(concrete))
        elif isinstance(value, Expr):
            self._expr = value
        elif isinstance(value, (int, np.integer)):
            self._expr = sym.const(int(value))
        else:
            raise error(
                TypeError,
                f"Invalid type. SymbolicScalar() takes an int or a name, got {value!r}",
                fix='`pypto.SymbolicScalar(3)`, or `pypto.SymbolicScalar("n")`',
            )

    @property
    def expr(self) -> Expr:
        if self._guard is not None:
            self._guard()
        return self._expr

    def is_concrete(self) -> bool:
        """Whether its number is known now."""
        return self.expr.is_const

    def is_immediate(self) -> bool:
        """Whether it is a plain number."""
        return self.expr.is_const and self._name is None

    def is_symbol(self) -> bool:
        """Whether it is one symbol by itself."""
        if self._name is not None:
            return True
        terms = self.expr.terms
        return (
            self._expr.const == 0
            and len(terms) == 1
            and all(
                f == 1 and len(m) == 1 and m[0].op in ("symbol", "value") for m, f in terms.items()
            )
        )

    def is_expression(self) -> bool:
        """Whether it is an operation on symbols."""
        return not self.is_concrete() and not self.is_symbol()

    def concrete(self) -> int:
        """The number; ValueError F21004 if it is known only at run time."""
        if not self.expr.is_const:
            self._not_concrete()
        return self._expr.const

    def is_unknown(self) -> bool:
        """Whether it depends on an element whose read has failed, or on what is out of reach."""
        trace = place.current.trace
        return trace is not None and any(
            leaf in trace.unknown or trace.is_gone(leaf) for leaf in self._expr.leaves()
        )

    def _not_concrete(self) -> NoReturn:
        if self.is_unknown():
            raise Stopped("nothing behind an error can be traced")
        raise error(ValueError, NOT_CONCRETE, code="F21004", fix=NOT_CONCRETE_FIX)

    def simplify(self) -> SymbolicScalar:
        """The same integer in its simplest form."""
        return SymbolicScalar(self.expr)

    def as_variable(self) -> None:
        """Marks it for one evaluation in the control code; its value is unchanged."""

    def min(self, other: Any) -> SymbolicScalar:
        """The smaller of the two."""
        return _made(lambda: sym.minimum(self.expr, operand(other)))

    def max(self, other: Any) -> SymbolicScalar:
        """The larger of the two."""
        return _made(lambda: sym.maximum(self.expr, operand(other)))

    @staticmethod
    def tenary(cond: Any, a: Any, b: Any) -> SymbolicScalar:
        """`a` where `cond` is not 0, else `b`; the language spells it so."""
        return _made(lambda: sym.select(operand(cond), operand(a), operand(b)))

    def __add__(self, other: Any) -> Any:
        return _binary(sym.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary(sym.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary(sym.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary(sym.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary(sym.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary(sym.mul, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary(sym.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary(sym.floordiv, other, self)

    def __truediv__(self, other: Any) -> Any:
        _note_division()
        return self // other

    def __rtruediv__(self, other: Any) -> Any:
        _note_division()
        return other // self

    def __mod__(self, other: Any) -> Any:
        return _binary(sym.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary(sym.mod, other, self)

    def __eq__(self, other: object) -> Any:
        return _binary(lambda a, b: sym.compare("eq", a, b), self, other)

    def __ne__(self, other: object) -> Any:
        return _binary(lambda a, b: sym.compare("ne", a, b), self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.compare("lt", a, b), self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.compare("le", a, b), self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.compare("lt", b, a), self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.compare("le", b, a), self, other)

    def __and__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.logical("and", a, b), self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return _binary(lambda a, b: sym.logical("or", a, b), self, other)

    __ror__ = __or__

    def __invert__(self) -> SymbolicScalar:
        return _made(lambda: sym.logical_not(self.expr))

    def __neg__(self) -> SymbolicScalar:
        return SymbolicScalar(sym.neg(self.expr))

    def __pos__(self) -> SymbolicScalar:
        return SymbolicScalar(self.expr)

    def __bool__(self) -> bool:
        return bool(self.concrete())

    def __int__(self) -> int:
        return self.concrete()

    def __index__(self) -> int:
        if self.expr.is_const:
            return self._expr.const
        self._not_concrete()

    def __float__(self) -> float:
        raise error(
            TypeError,
            "Invalid type. A SymbolicScalar has no float value",
            fix="use it as an int, or write `t * n`, which computes in the element type of t",
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return self._name if self._name is not None else sym.to_text(self._expr)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(str(self) if self._expr.terms else self._expr.const, spec)


# What Python calls of it; printing cannot fail.
for _name, _member in list(vars(SymbolicScalar).items()):
    if isinstance(_member, FunctionType) and _name not in ("__repr__", "__str__", "__format__"):
        setattr(SymbolicScalar, _name, place.boundary(_member))


# Deeply nested operations become a node of the graph: no walk over them needs a deep stack, and
# expressions that share parts stay small when they are written out.
MAX_DEPTH = 6
_spill: Callable[[Expr], Expr] | None = None


def set_spill(spill: Callable[[Expr], Expr]) -> None:
    """Register how a deep expression becomes a value of the graph that is being traced."""
    global _spill
    _spill = spill


def _binary(f: Callable[[Expr, Expr], Expr], a: Any, b: Any) -> Any:
    if hasattr(a, "__pypto_tensor__") or hasattr(b, "__pypto_tensor__"):
        # A tensor operand decides what the operator means.
        return NotImplemented
    if any(isinstance(x, SymbolicScalar) and x.is_unknown() for x in (a, b)):
        # What failed may have been meant to be a float: nothing more is said of it.
        a, b = (0 if isinstance(x, float) else x for x in (a, b))
    return _made(lambda: f(operand(a), operand(b)))


def _note_division() -> None:
    warn(
        PyptoNote,
        "`/` of symbolic integers rounds down, as `//` does",
        place.here(),
        "write `//`, or `pypto.ceildiv(a, b)` where the rest must not be lost",
    )


def _made(make: Callable[[], Expr]) -> SymbolicScalar:
    try:
        result = make()
    except PyptoError as problem:
        trace = place.current.trace
        if trace is None or trace.busy:
            raise
        keep(problem)
        return failed_integer()
    if result.depth > MAX_DEPTH and _spill is not None:
        result = _spill(result)
    return SymbolicScalar(result)


def operand(x: Any) -> Expr:
    """An int or a symbolic scalar as an expression; TypeError F00001 for anything else."""
    if isinstance(x, SymbolicScalar):
        return x.expr
    if isinstance(x, (int, np.integer)):
        return sym.const(int(x))
    if isinstance(x, Expr):
        return x
    if hasattr(type(x), "told"):
        # A name of two types, or what an op gave that has failed.
        return x._fail() if not x.told else failed_integer().expr
    raise error(
        TypeError,
        f"Invalid type. A symbolic integer goes with ints and symbolic integers, got "
        f"{type(x).__name__}",
        fix="compare with None by `is`"
        if x is None
        else "use an int; `pypto.ceildiv(n, tile)` counts the tiles, the last one included",
    )


def failed_integer() -> SymbolicScalar:
    """What stands for an integer whose making has failed: loops and branches on it are traced."""
    trace = place.current.trace
    value = trace.integer("failed")
    trace.unknown.add(value)
    return SymbolicScalar(sym.leaf(value))


def is_sym_int(x: Any) -> bool:
    """Whether `x` can stand where a symbolic integer is accepted."""
    return isinstance(x, (int, np.integer, SymbolicScalar))


def as_sym_int(x: Any) -> SymInt:
    """The same as an int where it is one, as an expression otherwise."""
    return sym.simple(operand(x))


@place.boundary
def min(a: Any, b: Any) -> SymbolicScalar:
    """The smaller of two integers, each an int or a symbolic scalar.

    >>> import pypto
    >>> pypto.min(4, pypto.SymbolicScalar(7)).concrete()
    4
    """
    _refuse_tensor(a, b, "minimum", "amin")
    return _made(lambda: sym.minimum(operand(a), operand(b)))


@place.boundary
def max(a: Any, b: Any) -> SymbolicScalar:
    """The larger of two integers, each an int or a symbolic scalar.

    >>> import pypto
    >>> pypto.max(4, pypto.SymbolicScalar(7)).concrete()
    7
    """
    _refuse_tensor(a, b, "maximum", "amax")
    return _made(lambda: sym.maximum(operand(a), operand(b)))


def _refuse_tensor(a: Any, b: Any, of_two: str, of_axis: str) -> None:
    """Tensors have functions of their own, one for two tensors and one for an axis."""
    if any(hasattr(x, "__pypto_tensor__") and not hasattr(type(x), "told") for x in (a, b)):
        is_axis = isinstance(b, (int, np.integer)) and not isinstance(b, bool)
        meant = f"pypto.{of_axis if is_axis else of_two}"
        raise error(
            TypeError,
            "Invalid type. pypto.min and pypto.max take integers, got a Tensor",
            fix=f"{meant}({written.argument(0, 'a')}, {written.argument(1, 'b', 'u')})",
        )


@place.boundary
def ceildiv(a: Any, b: Any) -> Any:
    """`a / b` rounded up, for `b` above 0: an int for ints, else a symbolic scalar.

    >>> import pypto
    >>> pypto.ceildiv(7, 2)
    4
    """
    if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
        return -(-int(a) // sym._divisor(int(b)))
    return _made(lambda: sym.floordiv(sym.add(operand(a), sym.sub(operand(b), 1)), operand(b)))
