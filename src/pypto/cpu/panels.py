"""Operands of matrix products, brought into the form that the micro-kernel reads.

In: a matrix with any strides.  Out: its words in scratch.  A word has four bytes: an FP32 element
(FP16 and BF16 are widened), or two INT8 elements of adjacent k as a pair of 16 bits.  B becomes
panels of `Kind.columns` columns, row after row, padded with zeros; A becomes a compact copy that
keeps its orientation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.lanes import BF16, FP16, FP32, INT32, MEMORY, Lanes
from pypto.cpu.target import Target
from pypto.errors import InternalError
from pypto.ir.dtype import DataType

INT8, INT16 = DataType.DT_INT8, DataType.DT_INT16


class Kind(NamedTuple):
    """Element type and micro-kernel: `rows` × `vectors` registers of `lanes` words."""

    dtype: DataType
    lanes: int
    rows: int
    vectors: int
    dot: str  # the instruction that multiplies pairs, as an intrinsic; empty where there is none

    @property
    def columns(self) -> int:
        return self.lanes * self.vectors

    @property
    def per(self) -> int:
        """Elements of k in one word."""
        return 2 if self.dtype is INT8 else 1

    @property
    def result(self) -> DataType:
        """The type of the sums, which is that of words too."""
        return INT32 if self.dtype is INT8 else FP32

    @property
    def word(self) -> str:
        return MEMORY[self.result]

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x {self.word}>"

    @property
    def memory(self) -> str:
        return MEMORY[self.dtype]


def kind_of(target: Target, dtype: DataType) -> Kind:
    if dtype not in (FP32, FP16, BF16, INT8):
        raise InternalError(f"no matrix product of {dtype.name}")
    # 16 accumulators, 12 where there are no more than 16 registers: enough to hide the latency of
    # two FMA units, and 8 rows divide the tiles of powers of two that kernels are made of.
    rows = 8 if target.registers >= 32 else 6
    dots = {64: "avx512.pmaddw.d.512", 32: "avx2.pmadd.wd", 16: "sse2.pmadd.wd"}
    dot = ""
    if target.triple.startswith("x86_64") and (
        target.vector < 64 or "+avx512bw" in target.features
    ):
        dot = f"llvm.x86.{dots[target.vector]}"
    return Kind(dtype, target.lanes, rows, 2, dot)


# --- words ---------------------------------------------------------------------------------------


def along_k(code: Function, kind: Kind, at: Reg) -> Reg:
    """A vector of words that follow each other along k, from adjacent elements."""
    if kind.dtype is INT8:
        lanes = Lanes(code, 2 * kind.lanes)
        pairs = lanes.convert(lanes.load(at, INT8), INT16)
        text = f"bitcast {lanes.type(INT16)} {pairs.reg} to {kind.vector}"
        return code.let(kind.vector, text)
    return across(code, kind, kind.lanes, at, i64(0), True)


def across(code: Function, kind: Kind, width: int, at: Reg, step: Reg, full: bool) -> Reg:
    """The words of adjacent columns (or rows of A) at one k, whose successor lies `step` elements
    away; `full` is false for the last k of an odd number, which pairs with zero.
    """
    lanes = Lanes(code, width)
    if kind.dtype is INT8:
        low = lanes.convert(lanes.load(at, INT8), INT32)
        word = lanes.bit_and(low, lanes.const(INT32, 0xFFFF))
        if full:
            high = lanes.convert(lanes.load(code.at("i8", at, step), INT8), INT32)
            word = lanes.bit_or(word, lanes.shift_left(high, lanes.const(INT32, 16)))
        return Reg(word.reg, lanes.type(INT32))
    return Reg(lanes.widen(lanes.load(at, kind.dtype)).reg, lanes.type(FP32))


def _transposed(code: Function, kind: Kind, rows: list[Reg]) -> list[Reg]:
    """A square of words, rows and columns exchanged: in every step pairs of registers exchange
    the halves of their blocks, which double.
    """
    size = 1
    while size < kind.lanes:
        for first in range(kind.lanes):
            if first & size:
                continue
            second = first | size
            a, b = rows[first], rows[second]
            low = [i if not i & size else i - size + kind.lanes for i in range(kind.lanes)]
            high = [i + size if not i & size else i + kind.lanes for i in range(kind.lanes)]
            rows[first], rows[second] = shuffle(code, a, b, low), shuffle(code, a, b, high)
        size *= 2
    return rows


def shuffle(code: Function, a: Reg, b: Reg, order: list[int]) -> Reg:
    """Lanes of two vectors, counted through, in an order."""
    mask = ", ".join(f"i32 {i}" for i in order)
    made = f"<{len(order)} x {a.type.split()[-1]}"
    return code.let(
        made, f"shufflevector {a.type} {a}, {a.type} {b}, <{len(order)} x i32> <{mask}>"
    )


# --- packing -------------------------------------------------------------------------------------


def pack(module: Module, kind: Kind) -> str:
    """`void f(ptr B, i64 rs, i64 cs, ptr panel, i64 N, i64 K)`: one panel of N columns of B."""
    return "@" + module.once(("pack", kind), lambda name: _pack(module, kind, name))


def _pack(module: Module, kind: Kind, name: str) -> Function:
    source, rs, cs = Reg("%b", "ptr"), Reg("%rs", "i64"), Reg("%cs", "i64")
    panel, n, k = Reg("%panel", "ptr"), Reg("%n", "i64"), Reg("%k", "i64")
    params = [source, rs, cs, panel, n, k]
    code = Function(module, name, params, attributes="nounwind noinline")
    by_rows, by_columns, done = (module.label() for _ in range(3))
    code.branch(code.compare("eq", cs, i64(1)), by_rows, by_columns)
    for label, form in ((by_rows, _panel_by_rows), (by_columns, _panel_by_columns)):
        code.start(label)
        form(code, kind, source, rs, cs, panel, n, k)
        code.jump(done)
    code.start(done)
    code.ret()
    return code


def _panel_by_rows(
    code: Function, kind: Kind, source: Reg, rs: Reg, cs: Reg, panel: Reg, width: Reg, k: Reg
) -> None:
    """One panel of a B whose columns are adjacent."""

    def move(word: Reg, count: int, column: Reg, full: bool) -> None:
        row = code.mul(code.mul(word, i64(kind.per)), rs)
        at = code.at(kind.memory, source, code.add(row, column))
        to = code.add(code.mul(word, i64(kind.columns)), column)
        code.store(across(code, kind, count, at, rs, full), code.at(kind.word, panel, to), 4)

    def whole_row(word: Reg, full: bool) -> None:
        for column in range(0, kind.columns, kind.lanes):
            move(word, kind.lanes, i64(column), full)

    def part_row(word: Reg, full: bool) -> None:
        vectors = multiple(code, width, kind.lanes)
        with code.loop(i64(0), vectors, kind.lanes) as column:
            move(word, kind.lanes, column, full)
        with code.loop(vectors, width) as column:
            move(word, 1, column, full)

    partial, wide, done = (code.module.label() for _ in range(3))
    code.branch(code.compare("slt", width, i64(kind.columns)), partial, wide)
    code.start(partial)
    _clear(code, kind, panel, k)
    _each_word(code, kind, k, i64(0), part_row)
    code.jump(done)
    code.start(wide)
    _each_word(code, kind, k, i64(0), whole_row)
    code.jump(done)
    code.start(done)


def _panel_by_columns(
    code: Function, kind: Kind, source: Reg, rs: Reg, cs: Reg, panel: Reg, width: Reg, k: Reg
) -> None:
    """One panel of a B of any strides: by squares where k is adjacent, else word by word."""
    with code.when(code.compare("slt", width, i64(kind.columns))):
        _clear(code, kind, panel, k)
    adjacent = code.compare("eq", rs, i64(1))
    with code.loop(i64(0), width, kind.lanes) as left:
        right = code.least(code.add(left, i64(kind.lanes)), width)
        full = code.compare("eq", code.sub(right, left), i64(kind.lanes))
        square = code.let("i1", f"and i1 {adjacent}, {full}")
        words = multiple(code, _full_words(code, kind, k), kind.lanes)
        squares = code.let("i64", f"select i1 {square}, i64 {words}, i64 0")
        with code.loop(i64(0), squares, kind.lanes) as word:
            _square(code, kind, source, cs, panel, left, word)
        with code.loop(left, right) as column:
            at = code.at(kind.memory, source, code.mul(column, cs))
            to = code.at(kind.word, panel, column)

            def move(word: Reg, full: bool, at: Reg = at, to: Reg = to) -> None:
                element = code.mul(code.mul(word, i64(kind.per)), rs)
                found = across(code, kind, 1, code.at(kind.memory, at, element), rs, full)
                there = code.mul(word, i64(kind.columns))
                code.store(found, code.at(kind.word, to, there), 4)

            _each_word(code, kind, k, squares, move)


def _square(
    code: Function, kind: Kind, source: Reg, cs: Reg, panel: Reg, column: Reg, word: Reg
) -> None:
    """As many words of k as columns, transposed in registers."""
    found = []
    for lane in range(kind.lanes):
        element = code.add(code.mul(code.add(column, i64(lane)), cs), code.mul(word, i64(kind.per)))
        found.append(along_k(code, kind, code.at(kind.memory, source, element)))
    for step, row in enumerate(_transposed(code, kind, found)):
        there = code.mul(code.add(word, i64(step)), i64(kind.columns))
        code.store(row, code.at(kind.word, panel, code.add(there, column)), 4)


def _clear(code: Function, kind: Kind, panel: Reg, k: Reg) -> None:
    with code.loop(i64(0), code.mul(word_count(code, kind, k), i64(kind.columns)), kind.lanes) as i:
        code.store(Reg("zeroinitializer", kind.vector), code.at(kind.word, panel, i), 4)


# --- copying -------------------------------------------------------------------------------------


def copy(module: Module, kind: Kind) -> str:
    """`void f(ptr A, i64 rs, i64 cs, ptr out, i64 rso, i64 cso, i64 M, i64 K)`: the words of A.

    `rso` or `cso` is 1: the one of the stride that is 1 in A, so that vectors move along it.
    """
    return "@" + module.once(("copy", kind), lambda name: _copy(module, kind, name))


def _copy(module: Module, kind: Kind, name: str) -> Function:
    source, rs, cs = Reg("%a", "ptr"), Reg("%rs", "i64"), Reg("%cs", "i64")
    out, rso, cso = Reg("%out", "ptr"), Reg("%rso", "i64"), Reg("%cso", "i64")
    m, k = Reg("%m", "i64"), Reg("%k", "i64")
    code = Function(
        module, name, [source, rs, cs, out, rso, cso, m, k], attributes="nounwind noinline"
    )

    def place(i: Reg, word: Reg) -> tuple[Reg, Reg]:
        element = code.add(code.mul(i, rs), code.mul(code.mul(word, i64(kind.per)), cs))
        there = code.add(code.mul(i, rso), code.mul(word, cso))
        return code.at(kind.memory, source, element), code.at(kind.word, out, there)

    along, down, done = (module.label() for _ in range(3))
    code.branch(code.compare("eq", cso, i64(1)), along, down)
    code.start(along)
    adjacent = code.compare("eq", cs, i64(1))
    words = multiple(code, _full_words(code, kind, k), kind.lanes)
    vectors = code.let("i64", f"select i1 {adjacent}, i64 {words}, i64 0")
    with code.loop(i64(0), m) as i:
        with code.loop(i64(0), vectors, kind.lanes) as word:
            at, to = place(i, word)
            code.store(along_k(code, kind, at), to, 4)

        def one(word: Reg, full: bool, i: Reg = i) -> None:
            at, to = place(i, word)
            code.store(across(code, kind, 1, at, cs, full), to, 4)

        _each_word(code, kind, k, vectors, one)
    code.jump(done)
    code.start(down)

    def column(word: Reg, full: bool) -> None:
        vectors = multiple(code, m, kind.lanes)
        for count, begin, end in ((kind.lanes, i64(0), vectors), (1, vectors, m)):
            with code.loop(begin, end, count) as i:
                at, to = place(i, word)
                code.store(across(code, kind, count, at, cs, full), to, 4)

    _each_word(code, kind, k, i64(0), column)
    code.jump(done)
    code.start(done)
    code.ret()
    return code


# --- counts --------------------------------------------------------------------------------------


def multiple(code: Function, number: Reg, of: int) -> Reg:
    """The largest multiple that is not above `number`."""
    if number.isdigit():
        return i64(int(number) // of * of)
    if of & (of - 1) == 0:
        return code.let("i64", f"and i64 {number}, {-of}")
    return code.sub(number, code.let("i64", f"srem i64 {number}, {of}"))


def _full_words(code: Function, kind: Kind, k: Reg) -> Reg:
    return k if kind.per == 1 else code.let("i64", f"ashr i64 {k}, 1")


def word_count(code: Function, kind: Kind, k: Reg) -> Reg:
    """How many words hold k elements."""
    if k.isdigit():
        return i64(-(-int(k) // kind.per))
    return _full_words(code, kind, code.add(k, i64(kind.per - 1)))


def _each_word(
    code: Function, kind: Kind, k: Reg, begin: Reg, do: Callable[[Reg, bool], None]
) -> None:
    """`do(word, full)` for the words from `begin` on; the last of an odd k is half full."""
    words = _full_words(code, kind, k)
    with code.loop(begin, words) as word:
        do(word, True)
    if kind.per == 2:
        odd = code.let("i1", f"trunc i64 {k} to i1")
        with code.when(odd):
            do(words, False)
