"""LLVM IR as text: modules, functions, blocks.

In: types and instructions as the IR spells them.  Out: the text of a module.  A register knows its
type, so that code which is moved into a function of its own can be given what it uses.  Text is
several times faster to make than a tree of objects, and what `PYPTO_DUMP` shows is what was meant.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_REGISTER = re.compile(r"%v\d+\b")


class Reg(str):
    """The name of a value, or a constant, as the IR spells it, with its type."""

    type: str

    def __new__(cls, text: str, type: str) -> Reg:
        made = super().__new__(cls, text)
        made.type = type
        return made


def i64(number: int) -> Reg:
    return Reg(str(number), "i64")


def float_text(number: float) -> str:
    """A float constant, exactly: the IR spells every float by the bits of its double."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


class Module:
    """Functions, each emitted once, and the declarations that they need."""

    def __init__(self) -> None:
        self._functions: dict[object, str] = {}
        self._parts: list[str] = []
        self._declared: dict[str, str] = {}
        self._count = 0

    def register(self) -> str:
        """A name that no other value of the module has."""
        self._count += 1
        return f"%v{self._count}"

    def label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def declare(self, name: str, signature: str) -> str:
        """Say that a function exists elsewhere; `signature` has `@` for its name."""
        self._declared.setdefault(name, "declare " + signature.replace("@", f"@{name}"))
        return f"@{name}"

    def once(self, key: object, make: Callable[[str], Function]) -> str:
        """The name of the function that `make` emits, which is asked once for each key."""
        if key not in self._functions:
            name = f"f{len(self._functions)}"
            self._functions[key] = name
            self.add(make(name))
        return self._functions[key]

    def add(self, function: Function) -> None:
        self._parts.append(function.text())

    def text(self) -> str:
        return "\n".join([*self._declared.values(), "", *self._parts, ""])


class Function:
    """One function while its instructions are written, block after block."""

    def __init__(
        self,
        module: Module,
        name: str,
        params: Sequence[Reg],
        result: str = "void",
        attributes: str = "nounwind",
    ) -> None:
        self.module = module
        self.name = name
        self.params = list(params)
        self.result = result
        self.attributes = attributes
        self.block = "entry"
        self._entry: list[str] = []  # allocas, which stand before everything else
        self._lines: list[str] = []

    # --- instructions ----------------------------------------------------------------------------

    def do(self, text: str) -> None:
        self._lines.append("  " + text)

    def let(self, type: str, text: str) -> Reg:
        """A new register of `type` with the value of an instruction."""
        name = self.module.register()
        self._lines.append(f"  {name} = {text}")
        return Reg(name, type)

    def local(self, type: str, align: int = 0) -> Reg:
        """Memory of this call: a variable, which optimisation turns into registers."""
        name = self.module.register()
        self._entry.append(f"  {name} = alloca {type}{f', align {align}' if align else ''}")
        return Reg(name, "ptr")

    def load(self, type: str, at: str, align: int = 0) -> Reg:
        return self.let(type, f"load {type}, ptr {at}{f', align {align}' if align else ''}")

    def store(self, value: Reg, at: str, align: int = 0) -> None:
        self.do(f"store {value.type} {value}, ptr {at}{f', align {align}' if align else ''}")

    def at(self, type: str, base: str, index: str) -> Reg:
        """The address of an element."""
        if index == "0":
            return Reg(base, "ptr")
        return self.let("ptr", f"getelementptr {type}, ptr {base}, i64 {index}")

    def call(self, result: str, name: str, *arguments: Reg) -> Reg:
        given = ", ".join(f"{a.type} {a}" for a in arguments)
        text = f"call {result} {name}({given})"
        if result == "void":
            self.do(text)
            return Reg("", "void")
        return self.let(result, text)

    def ret(self, value: Reg | None = None) -> None:
        self.do("ret void" if value is None else f"ret {value.type} {value}")

    # --- integers of 64 bits, folded where they are constants ------------------------------------

    def add(self, a: Reg, b: Reg) -> Reg:
        if a == "0":
            return b
        return a if b == "0" else self._integer("add nsw", a, b, lambda x, y: x + y)

    def sub(self, a: Reg, b: Reg) -> Reg:
        return a if b == "0" else self._integer("sub nsw", a, b, lambda x, y: x - y)

    def mul(self, a: Reg, b: Reg) -> Reg:
        if "0" in (a, b):
            return i64(0)
        if a == "1":
            return b
        return a if b == "1" else self._integer("mul nsw", a, b, lambda x, y: x * y)

    def least(self, a: Reg, b: Reg) -> Reg:
        return self._choice("slt", a, b, min)

    def most(self, a: Reg, b: Reg) -> Reg:
        return self._choice("sgt", a, b, max)

    def _integer(self, op: str, a: Reg, b: Reg, fold: Callable[[int, int], int]) -> Reg:
        if _is_number(a) and _is_number(b):
            return i64(fold(int(a), int(b)))
        return self.let("i64", f"{op} i64 {a}, {b}")

    def _choice(self, predicate: str, a: Reg, b: Reg, fold: Callable[[int, int], int]) -> Reg:
        if _is_number(a) and _is_number(b):
            return i64(fold(int(a), int(b)))
        first = self.let("i1", f"icmp {predicate} i64 {a}, {b}")
        return self.let("i64", f"select i1 {first}, i64 {a}, i64 {b}")

    def compare(self, predicate: str, a: Reg, b: Reg) -> Reg:
        return self.let("i1", f"icmp {predicate} {a.type} {a}, {b}")

    # --- control ---------------------------------------------------------------------------------

    def start(self, label: str) -> None:
        """End nothing, begin a block."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, cond: Reg, then: str, other: str, weights: str = "") -> None:
        self.do(f"br i1 {cond}, label %{then}, label %{other}{weights}")

    @contextmanager
    def loop(self, begin: Reg, end: Reg, step: int = 1) -> Iterator[Reg]:
        """The instructions inside run once per index from `begin` up to, not including, `end`."""
        head, body, done = (self.module.label() for _ in range(3))
        before, index = self.block, Reg(self.module.register(), "i64")
        following = self.module.register()
        self.jump(head)
        self.start(head)
        phi = len(self._lines)
        self._lines.append("")
        self.branch(self.compare("slt", index, end), body, done)
        self.start(body)
        yield index
        self._lines.append(f"  {following} = add nsw i64 {index}, {step}")
        latch = self.block
        self.jump(head)
        self._lines[phi] = f"  {index} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]"
        self.start(done)

    @contextmanager
    def when(self, cond: Reg) -> Iterator[None]:
        """The instructions inside run where `cond` holds."""
        body, done = self.module.label(), self.module.label()
        self.branch(cond, body, done)
        self.start(body)
        yield
        self.jump(done)
        self.start(done)

    # --- text ------------------------------------------------------------------------------------

    def foreign(self) -> list[str]:
        """The registers that are used here and made nowhere here, in the order of their names."""
        lines = [*self._entry, *self._lines]
        used = {name for line in lines for name in _REGISTER.findall(line)}
        made = {line.split(" = ", 1)[0].strip() for line in lines if " = " in line}
        return sorted(used - made - set(self.params), key=lambda name: int(name[2:]))

    def prepend(self, lines: Sequence[str]) -> None:
        """Put instructions before all others but the allocas."""
        self._lines[:0] = [f"  {line}" for line in lines]

    def text(self) -> str:
        params = ", ".join(f"{p.type} {p}" for p in self.params)
        head = f"define internal {self.result} @{self.name}({params}) {self.attributes} {{"
        if self.attributes.startswith("external "):
            head = head.replace("define internal", "define").replace("external ", "")
        return "\n".join([head, "entry:", *self._entry, *self._lines, "}", ""])


def _is_number(text: str) -> bool:
    return not text.startswith("%")
