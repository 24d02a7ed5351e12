"""Symbolic integers.

An `Expr` is a polynomial with integer coefficients over atoms; an atom is an integer known only at
run time (a dim, a loop index, an element read from a tensor), a free symbol, or an operation that
is no polynomial (`//`, `%`, min, max, comparisons, logic).  Equal values get equal expressions
wherever that needs no proof beyond arithmetic, so `(i + 1) * 4 - i * 4` is the constant 4.
`scalar.SymbolicScalar` is the user's handle on one.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pypto.errors import error

INF = 1 << 62


class Atom:
    """An integer that is no polynomial of others.  Interned, so identity is equality."""

    __slots__ = ("__weakref__", "args", "depth", "hi", "leaves", "lo", "op", "top")

    def __init__(self, op: str, args: tuple[Any, ...], lo: int, hi: int) -> None:
        self.op = op
        self.args = args
        self.lo = lo
        self.hi = hi
        # For an index: the largest value that it takes, where that is known only at run time.
        self.top: Expr | None = None
        parts = [a for a in args if isinstance(a, Expr)]
        self.depth = 1 + max((a.depth for a in parts), default=0)
        # Kept, since parts may be shared: walking them each time would take exponential time.
        own = [args[0]] if op == "value" else [leaf for a in parts for leaf in a.leaves()]
        self.leaves: tuple[Any, ...] = tuple(dict.fromkeys(own))


Monomial = tuple[Atom, ...]

_atoms: weakref.WeakValueDictionary[tuple[Any, ...], Atom] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _atom(op: str, args: tuple[Any, ...], lo: int, hi: int) -> Atom:
    key = (op, *args)
    with _lock:
        atom = _atoms.get(key)
        if atom is None:
            atom = _atoms[key] = Atom(op, args, lo, hi)
        return atom


class Expr:
    """A polynomial over atoms.  Immutable; equal polynomials compare equal."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, terms: Mapping[Monomial, int], const: int) -> None:
        self.terms = terms
        self.const = const
        self._hash = hash((frozenset(terms.items()), const))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_const(self) -> bool:
        return not self.terms

    @property
    def depth(self) -> int:
        """How deep operations are nested in it."""
        return max((a.depth for m in self.terms for a in m), default=0)

    def bounds(self) -> tuple[int, int]:
        """A lower and an upper bound, from the bounds of the atoms."""
        lo = hi = self.const
        for monomial, factor in self.terms.items():
            low, high = 1, 1
            for atom in monomial:
                corners = [_cap(a * b) for a in (low, high) for b in (atom.lo, atom.hi)]
                low, high = min(corners), max(corners)
            low, high = sorted((_cap(low * factor), _cap(high * factor)))
            lo, hi = _cap(lo + low), _cap(hi + high)
        return lo, hi

    def leaves(self) -> Iterator[Any]:
        """The run-time values that it depends on."""
        for monomial in self.terms:
            for atom in monomial:
                yield from atom.leaves

    def __repr__(self) -> str:
        return to_text(self)


def _cap(x: int) -> int:
    return max(-INF, min(INF, x))


SymInt = int | Expr


def const(value: int) -> Expr:
    return Expr({}, value)


def leaf(value: Any, lo: int = -INF, hi: int = INF, top: Expr | None = None) -> Expr:
    """The expression that is one run-time value (an integer `Value` of a graph), from `lo` to `hi`,
    and at most `top`.
    """
    atom = _atom("value", (value,), lo, hi)
    if top is not None:
        atom.top = top
    return Expr({(atom,): 1}, 0)


def symbol(name: str) -> Expr:
    return Expr({(_atom("symbol", (name,), -INF, INF),): 1}, 0)


def expr(x: SymInt) -> Expr:
    return x if isinstance(x, Expr) else const(x)


def simple(x: Expr) -> SymInt:
    """An int where the expression is one."""
    return x.const if x.is_const else x


def add(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    terms = dict(a.terms)
    for monomial, factor in b.terms.items():
        total = terms.get(monomial, 0) + factor
        if total:
            terms[monomial] = total
        else:
            del terms[monomial]
    return Expr(terms, a.const + b.const)


def mul(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    terms: dict[Monomial, int] = {}
    left = [*a.terms.items(), ((), a.const)] if a.const else list(a.terms.items())
    right = [*b.terms.items(), ((), b.const)] if b.const else list(b.terms.items())
    for mono_a, factor_a in left:
        for mono_b, factor_b in right:
            key = tuple(sorted(mono_a + mono_b, key=id))
            total = terms.get(key, 0) + factor_a * factor_b
            if total:
                terms[key] = total
            else:
                del terms[key]
    constant = terms.pop((), 0)
    return Expr(terms, constant)


def neg(a: SymInt) -> Expr:
    return mul(a, -1)


def sub(a: SymInt, b: SymInt) -> Expr:
    return add(a, neg(b))


def floordiv(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    if b.is_const:
        divisor = _divisor(b.const)
        if a.is_const:
            return const(a.const // divisor)
        if divisor == 1:
            return a
        if all(f % divisor == 0 for f in a.terms.values()):
            # Exact multiples leave the division: (64 * i + r) // 64 is i + r // 64.
            quotient = {m: f // divisor for m, f in a.terms.items()}
            return Expr(quotient, a.const // divisor)
        lo, hi = a.bounds()
        if lo // divisor == hi // divisor and abs(lo) < INF and abs(hi) < INF:
            return const(lo // divisor)
        ends = sorted(x if abs(x) >= INF else x // divisor for x in (lo, hi))
        low, high = (ends[0], ends[1]) if divisor > 0 else (-INF, INF)
        return _op("floordiv", (a, b), low, high)
    return _op("floordiv", (a, b), -INF, INF)


def mod(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    if b.is_const:
        divisor = _divisor(b.const)
        if a.is_const:
            return const(a.const % divisor)
        if all(f % divisor == 0 for f in a.terms.values()):
            return const(a.const % divisor)
        lo, hi = a.bounds()
        if divisor > 0 and lo >= 0 and hi < divisor:
            return a
        low, high = (0, divisor - 1) if divisor > 0 else (divisor + 1, 0)
        return _op("mod", (a, b), low, high)
    return _op("mod", (a, b), -INF, INF)


def _divisor(value: int) -> int:
    if value == 0:
        raise error(ValueError, "Division or Mod by zero.", fix="divide by a number other than 0")
    return value


def minimum(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    if ahi <= blo or _never_above(a, b):
        return _settled(a)
    if bhi <= alo or _never_above(b, a):
        return _settled(b)
    return _op("min", _ordered(a, b), min(alo, blo), min(ahi, bhi))


def maximum(a: SymInt, b: SymInt) -> Expr:
    a, b = expr(a), expr(b)
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    if alo >= bhi or _never_above(b, a):
        return _settled(a)
    if blo >= ahi or _never_above(a, b):
        return _settled(b)
    return _op("max", _ordered(a, b), max(alo, blo), max(ahi, bhi))


def _settled(x: Expr) -> Expr:
    """A constant where the bounds leave no choice."""
    low, high = x.bounds()
    return const(low) if low == high else x


def _never_above(a: Expr, b: Expr) -> bool:
    difference = sub(a, b)
    return difference.bounds()[1] <= 0 or _at_top(difference).bounds()[1] <= 0


def _at_top(x: Expr) -> Expr:
    """At least `x`: indices that it grows with are as large as they get."""
    total = const(x.const)
    for monomial, factor in x.terms.items():
        atom = monomial[0]
        if len(monomial) == 1 and factor > 0 and atom.top is not None:
            total = add(total, mul(atom.top, factor))
        else:
            total = add(total, Expr({monomial: factor}, 0))
    return total


def _ordered(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    return (a, b) if (hash(a), a.const) <= (hash(b), b.const) else (b, a)


def clamp(x: SymInt, lo: SymInt, hi: SymInt) -> Expr:
    return minimum(maximum(x, lo), hi)


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}


def compare(op: str, a: SymInt, b: SymInt) -> Expr:
    """0 or 1.  Only a constant difference decides it: bounds never choose a branch."""
    a, b = expr(a), expr(b)
    difference = sub(a, b)
    if difference.is_const:
        return const(int(COMPARE[op](difference.const, 0)))
    return _op(op, (a, b), 0, 1)


def logical(op: str, a: SymInt, b: SymInt) -> Expr:
    """`and` and `or` of truth values: 0 or 1."""
    a, b = truth(a), truth(b)
    absorbing = int(op == "or")
    for x, y in ((a, b), (b, a)):
        if x.is_const:
            return const(absorbing) if x.const == absorbing else y
    return a if a == b else _op(op, (a, b), 0, 1)


def truth(a: SymInt) -> Expr:
    """1 where it is not 0."""
    a = expr(a)
    lo, hi = a.bounds()
    return a if lo >= 0 and hi <= 1 else compare("ne", a, 0)


def logical_not(a: SymInt) -> Expr:
    return compare("eq", a, 0)


def select(cond: SymInt, a: SymInt, b: SymInt) -> Expr:
    """`a` where `cond` is not 0, else `b`."""
    cond, a, b = truth(cond), expr(a), expr(b)
    if cond.is_const:
        return a if cond.const else b
    if a == b:
        return a
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    return _op("select", (cond, a, b), min(alo, blo), max(ahi, bhi))


def _op(op: str, args: tuple[Expr, ...], lo: int, hi: int) -> Expr:
    return Expr({(_atom(op, args, lo, hi),): 1}, 0)


EVALUATE: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // _divisor(b),
    "mod": lambda a, b: a % _divisor(b),
    "min": min,
    "max": max,
    **{op: functools.partial(lambda f, a, b: int(f(a, b)), f) for op, f in COMPARE.items()},
    "and": lambda a, b: int(bool(a and b)),
    "or": lambda a, b: int(bool(a or b)),
    "select": lambda c, a, b: a if c else b,
}


def evaluate(x: SymInt, env: Callable[[Any], int]) -> int:
    """Its number, given that of each leaf (a `Value`, or the name of a free symbol)."""
    return _evaluate(x, env, {})


def _evaluate(x: SymInt, env: Callable[[Any], int], known: dict[Atom, int]) -> int:
    if not isinstance(x, Expr):
        return x
    total = x.const
    for monomial, factor in x.terms.items():
        product = factor
        for atom in monomial:
            if atom not in known:
                known[atom] = _evaluate_atom(atom, env, known)
            product *= known[atom]
        total += product
    return total


def _evaluate_atom(atom: Atom, env: Callable[[Any], int], known: dict[Atom, int]) -> int:
    if atom.op in ("value", "symbol"):
        return env(atom.args[0])
    if atom.op == "select":
        cond, a, b = atom.args
        return _evaluate(a if _evaluate(cond, env, known) else b, env, known)
    return EVALUATE[atom.op](*(_evaluate(a, env, known) for a in atom.args))


Replace = Callable[[Any], SymInt | None]


def substitute(x: SymInt, replace: Replace) -> Expr:
    """The expression with some leaves replaced; `replace` answers None to keep one."""
    return _substitute(x, replace, {})


def _substitute(x: SymInt, replace: Replace, known: dict[Atom, Expr]) -> Expr:
    x = expr(x)
    total = const(x.const)
    for monomial, factor in x.terms.items():
        product = const(factor)
        for atom in monomial:
            if atom not in known:
                known[atom] = _substitute_atom(atom, replace, known)
            product = mul(product, known[atom])
        total = add(total, product)
    return total


def _substitute_atom(atom: Atom, replace: Replace, known: dict[Atom, Expr]) -> Expr:
    if atom.op == "value":
        new = replace(atom.args[0])
        return Expr({(atom,): 1}, 0) if new is None else expr(new)
    if atom.op == "symbol":
        return Expr({(atom,): 1}, 0)
    return REBUILD[atom.op](*(_substitute(a, replace, known) for a in atom.args))


REBUILD: dict[str, Callable[..., Expr]] = {
    "floordiv": floordiv,
    "mod": mod,
    "min": minimum,
    "max": maximum,
    **{op: functools.partial(compare, op) for op in COMPARE},
    "and": lambda a, b: logical("and", a, b),
    "or": lambda a, b: logical("or", a, b),
    "select": select,
}

_INFIX = {"floordiv": "//", "mod": "%", "eq": "==", "ne": "!=", "lt": "<", "le": "<="}


def to_text(x: SymInt) -> str:
    """The expression as Python would write it, values by their names."""
    if not isinstance(x, Expr):
        return str(x)
    parts: list[str] = []
    for monomial, factor in x.terms.items():
        body = "*".join(_atom_text(a) for a in monomial)
        text = body if abs(factor) == 1 else f"{body}*{abs(factor)}"
        parts.append(f"- {text}" if factor < 0 else f"+ {text}")
    if x.const or not parts:
        parts.append(f"{'-' if x.const < 0 else '+'} {abs(x.const)}")
    line = " ".join(parts)
    line = line[2:] if line.startswith("+ ") else "-" + line[2:]
    return f"({line})" if len(parts) > 1 else line


def _atom_text(atom: Atom) -> str:
    if atom.op in ("value", "symbol"):
        return str(atom.args[0])
    args = [to_text(a) for a in atom.args]
    if atom.op in _INFIX:
        return f"({args[0]} {_INFIX[atom.op]} {args[1]})"
    return f"{atom.op}({', '.join(args)})"
