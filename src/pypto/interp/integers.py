"""Symbolic integers as Python functions over a frame.

In: expressions, and the slot of each run-time integer in the frame of a run.  Out: functions that
take a frame and give ints, compiled once per distinct expression, so that a loop body evaluates
offsets and valid extents without walking anything.  A division by zero is a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pypto.errors import InternalError
from pypto.ir.sym import EVALUATE, Atom, Expr, SymInt

Frame = list[Any]
Number = Callable[[Frame], int]
Numbers = Callable[[Frame], tuple[int, ...]]

# Deeper operations are functions of their own: no text is nested deeper than Python's parser takes.
_LEVELS = 12
_INFIX = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}


class Integers:
    """The compiled expressions of one graph; `slot` tells where a run-time integer stands."""

    def __init__(self, slot: Callable[[Any], int]) -> None:
        self._slot = slot
        self._functions: dict[str, Callable[[Frame], Any]] = {}
        self._names: dict[str, Any] = {
            "floordiv": EVALUATE["floordiv"],
            "mod": EVALUATE["mod"],
            "min": min,
            "max": max,
        }
        self._pieces: dict[Atom, str] = {}

    def one(self, x: SymInt) -> Number:
        """A function that gives the number of `x`."""
        return self._compile(self._text(x))

    def many(self, items: Sequence[SymInt]) -> Numbers:
        """A function that gives a tuple of numbers."""
        return self._compile(f"({''.join(f'{self._text(x)}, ' for x in items)})")

    def _compile(self, text: str) -> Callable[[Frame], Any]:
        function = self._functions.get(text)
        if function is None:
            function = eval(f"lambda f: {text}", self._names)
            self._functions[text] = function
        return function

    def _text(self, x: SymInt) -> str:
        if not isinstance(x, Expr):
            return str(int(x))
        if x.depth > _LEVELS:
            self._split(x)
        return self._polynomial(x)

    def _split(self, x: Expr) -> None:
        """Make functions of the operations inside `x` that stand at every twelfth level."""
        found: dict[Atom, None] = {}
        pending = [x]
        seen: set[Atom] = set()
        while pending:
            for monomial in pending.pop().terms:
                for atom in monomial:
                    if atom in seen or atom.depth <= 1:
                        continue
                    seen.add(atom)
                    if atom.depth % _LEVELS == 0 and atom not in self._pieces:
                        found[atom] = None
                    pending.extend(a for a in atom.args if isinstance(a, Expr))
        for atom in sorted(found, key=lambda a: a.depth):
            name = f"piece{len(self._pieces)}"
            self._names[name] = self._compile(self._operation(atom))
            self._pieces[atom] = name

    def _polynomial(self, x: Expr) -> str:
        parts: list[str] = []
        for monomial, factor in x.terms.items():
            product = "*".join(self._atom(a) for a in monomial)
            parts.append(product if factor == 1 else f"{product}*{factor}")
        if x.const or not parts:
            parts.append(str(x.const))
        text = " + ".join(parts)
        return f"({text})" if len(parts) > 1 else text

    def _atom(self, atom: Atom) -> str:
        if atom.op == "value":
            return f"f[{self._slot(atom.args[0])}]"
        if atom in self._pieces:
            return f"{self._pieces[atom]}(f)"
        return self._operation(atom)

    def _operation(self, atom: Atom) -> str:
        op = atom.op
        if op == "symbol":
            raise InternalError(f"the free symbol {atom.args[0]} has no number when a kernel runs")
        args = [self._polynomial(a) for a in atom.args]
        if op in ("floordiv", "mod"):
            divisor = atom.args[1]
            if divisor.is_const:
                return f"({args[0]} {'//' if op == 'floordiv' else '%'} {divisor.const})"
            return f"{op}({args[0]}, {args[1]})"
        if op in ("min", "max"):
            return f"{op}({args[0]}, {args[1]})"
        if op in _INFIX:
            return f"(1 if {args[0]} {_INFIX[op]} {args[1]} else 0)"
        if op in ("and", "or"):
            return f"(1 if {args[0]} {op} {args[1]} else 0)"
        if op == "select":
            return f"({args[1]} if {args[0]} else {args[2]})"
        raise InternalError(f"no Python form of the operation {op} on integers")
