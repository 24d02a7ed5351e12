"""Symbolic integers as instructions.

In: expressions, and the register of each run-time integer.  Out: registers of 64 bits.  What was
computed once in a block is not computed again in the blocks behind it.  Sums, products, minima and
maxima have no order of their own, so they get one: graphs of equal text give equal code.  Division
rounds down; a division by zero ends the run with the error of the interpreter, unless it stands in
the arm of a choice that is not taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from pypto.cpu.buffers import number
from pypto.cpu.code import Function, Reg, i64
from pypto.errors import InternalError
from pypto.ir.graph import Value
from pypto.ir.sym import Atom, Expr, SymInt

_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle"}


class Integers:
    """The integers of one graph while its code is emitted."""

    def __init__(self, divided_by_zero: Callable[[Reg], None]) -> None:
        self._scopes: list[dict[Value | Atom, Reg]] = [{}]
        self._divided_by_zero = divided_by_zero
        # What must hold for the code here to count: inside an arm of a choice, its condition.
        self._guards: list[Reg] = []
        self._ranks: dict[Atom, tuple[Any, ...]] = {}
        self.code: Function | None = None

    def open(self) -> None:
        """Enter code that may not run: what is computed there is forgotten at `close`."""
        self._scopes.append({})

    def close(self) -> None:
        self._scopes.pop()

    def set(self, value: Value, reg: Reg) -> None:
        self._scopes[-1][value] = reg

    def get(self, value: Value) -> Reg:
        found = self._known(value)
        if found is None:
            raise InternalError(f"the integer {value} is used before it is made")
        return found

    def _known(self, item: Value | Atom) -> Reg | None:
        for scope in reversed(self._scopes):
            if item in scope:
                return scope[item]
        return None

    def all(self, items: Sequence[SymInt]) -> tuple[Reg, ...]:
        return tuple(self.of(x) for x in items)

    def of(self, x: SymInt) -> Reg:
        """The register of an expression."""
        if not isinstance(x, Expr):
            return i64(int(x))
        code = self._code()
        total = i64(0)
        for _, monomial, factor in self._in_order(x):
            product = i64(factor)
            for atom in monomial:
                product = code.mul(product, self._atom(atom))
            total = code.add(total, product)
        return code.add(total, i64(x.const))

    def _in_order(self, x: Expr) -> list[tuple[Any, list[Atom], int]]:
        """Its terms, each with its rank; what was made first comes first."""
        terms: list[tuple[Any, list[Atom], int]] = []
        for monomial, factor in x.terms.items():
            atoms = sorted(monomial, key=self._rank)
            terms.append(([self._rank(atom) for atom in atoms], atoms, factor))
        return sorted(terms, key=lambda term: term[0])

    def _rank(self, atom: Atom) -> tuple[Any, ...]:
        """An order of atoms that follows from what they stand for, not from where they lie."""
        if atom.op == "value":
            reg = self.get(atom.args[0])
            return (0, len(reg), reg)
        if atom not in self._ranks:
            parts = [self._structure(arg) for arg in atom.args]
            if atom.op in ("min", "max"):
                parts.sort()
            digest = hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
            self._ranks[atom] = (atom.depth, atom.op, digest)
        return self._ranks[atom]

    def _structure(self, x: Expr) -> str:
        return repr(([(rank, factor) for rank, _, factor in self._in_order(x)], x.const))

    def truth(self, x: SymInt) -> Reg:
        """Whether an expression is not 0, as one bit."""
        return self._bit(self.of(x))

    def _bit(self, reg: Reg) -> Reg:
        constant = number(reg)
        if constant is not None:
            return Reg("true" if constant else "false", "i1")
        return self._code().compare("ne", reg, i64(0))

    def _code(self) -> Function:
        assert self.code is not None
        return self.code

    def _atom(self, atom: Atom) -> Reg:
        if atom.op == "value":
            return self.get(atom.args[0])
        known = self._known(atom)
        if known is not None:
            return known
        made = self._operation(atom)
        if not self._guards:
            self._scopes[-1][atom] = made
        return made

    def _operation(self, atom: Atom) -> Reg:
        op, code = atom.op, self._code()
        if op == "select":
            cond = self.truth(atom.args[0])
            then = self._guarded(cond, atom.args[1])
            other = self._guarded(code.let("i1", f"xor i1 {cond}, true"), atom.args[2])
            return code.let("i64", f"select i1 {cond}, i64 {then}, i64 {other}")
        if op in ("and", "or"):
            first = self.truth(atom.args[0])
            # The second is asked only where the first leaves it open.
            open_ = first if op == "and" else code.let("i1", f"xor i1 {first}, true")
            second = self._bit(self._guarded(open_, atom.args[1]))
            return self._wide(code.let("i1", f"{op} i1 {first}, {second}"))
        args = list(atom.args)
        if op in ("min", "max"):
            args.sort(key=self._structure)
        a, b = (self.of(x) for x in args)
        if op in _COMPARE:
            return self._wide(code.compare(_COMPARE[op], a, b))
        if op == "min":
            return code.least(a, b)
        if op == "max":
            return code.most(a, b)
        if op in ("floordiv", "mod"):
            return self._divided(op, a, b)
        raise InternalError(f"no machine code for the operation {op} on integers")

    def _guarded(self, cond: Reg, x: SymInt) -> Reg:
        code = self._code()
        outer = self._guards[-1] if self._guards else None
        both = cond if outer is None else code.let("i1", f"and i1 {outer}, {cond}")
        self._guards.append(both)
        made = self.of(x)
        self._guards.pop()
        return made

    def _wide(self, bit: Reg) -> Reg:
        return self._code().let("i64", f"zext i1 {bit} to i64")

    def _divided(self, op: str, a: Reg, b: Reg) -> Reg:
        code = self._code()
        if number(b) is None:
            zero = code.compare("eq", b, i64(0))
            wrong = zero
            if self._guards:
                wrong = code.let("i1", f"and i1 {zero}, {self._guards[-1]}")
            self._divided_by_zero(wrong)
            b = code.let("i64", f"select i1 {zero}, i64 1, i64 {b}")
        rest = code.let("i64", f"srem i64 {a}, {b}")
        # The machine cuts toward zero; the language rounds down.
        mixed = code.compare("slt", code.let("i64", f"xor i64 {rest}, {b}"), i64(0))
        ragged = code.compare("ne", rest, i64(0))
        off = code.let("i1", f"and i1 {mixed}, {ragged}")
        if op == "mod":
            more = code.add(rest, b)
            return code.let("i64", f"select i1 {off}, i64 {more}, i64 {rest}")
        quotient = code.let("i64", f"sdiv i64 {a}, {b}")
        return code.sub(quotient, self._wide(off))
