"""What an op does to one element, written once, emitted for vectors of any width.

A `Lane` is a vector register and the element type that it stands for.  Records give the meaning of
an op as a function over a `Lanes` builder; the builder spells each step in LLVM IR.  FP16 and BF16
are storage: they are widened to FP32 when they are loaded and rounded once when they are stored.
Nothing is contracted or reordered here: one call is one IEEE operation, save `fma`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pypto.cpu.code import Function, Reg, float_text
from pypto.errors import InternalError
from pypto.ir.dtype import DataType

_D = DataType
FP16, BF16, FP32, FP64 = _D.DT_FP16, _D.DT_BF16, _D.DT_FP32, _D.DT_DOUBLE
INT32, INT64, BOOL = _D.DT_INT32, _D.DT_INT64, _D.DT_BOOL
UINT32, UINT64 = _D.DT_UINT32, _D.DT_UINT64

# How an element lies in memory, and what a register holds of it.
MEMORY: dict[DataType, str] = {
    _D.DT_FP32: "float",
    _D.DT_DOUBLE: "double",
    _D.DT_FP16: "half",
    _D.DT_BF16: "i16",
    _D.DT_BOOL: "i8",
    **{d: f"i{8 * d.bytes}" for d in _D if "INT" in d.name and d is not _D.DT_INT4},
}
REGISTER: dict[DataType, str] = {**MEMORY, _D.DT_BOOL: "i1"}

_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}


class Lane(NamedTuple):
    """A vector of elements: its register and the element type; a constant knows its number."""

    reg: str
    dtype: DataType
    number: Any = None


class Lanes:
    """Arithmetic on vectors of `width` elements, emitted into `code`."""

    def __init__(self, code: Function, width: int) -> None:
        self.code = code
        self.width = width

    # --- types and constants ---------------------------------------------------------------------

    def type(self, dtype: DataType) -> str:
        """The register type of a lane."""
        return self.vector(REGISTER[dtype])

    def vector(self, scalar: str) -> str:
        return scalar if self.width == 1 else f"<{self.width} x {scalar}>"

    def const(self, dtype: DataType, number: Any) -> Lane:
        """One number in every lane."""
        return Lane(self._splat(REGISTER[dtype], _literal(dtype, number)), dtype, number)

    def bits(self, dtype: DataType, word: int) -> Lane:
        """The element with these bits in every lane: an integer type, or FP32."""
        if dtype is FP32:
            return self.const(FP32, struct.unpack("<f", struct.pack("<I", word))[0])
        return self.const(dtype, word)

    def _splat(self, scalar: str, literal: str) -> str:
        return literal if self.width == 1 else f"splat ({scalar} {literal})"

    def spread(self, one: Lane) -> Lane:
        """The element of a builder of width 1 in every lane."""
        if self.width == 1:
            return one
        kind, vector = REGISTER[one.dtype], self.type(one.dtype)
        first = self.code.let(vector, f"insertelement {vector} poison, {kind} {one.reg}, i64 0")
        every = f"{vector} {first}, {vector} poison, <{self.width} x i32> zeroinitializer"
        return Lane(self.code.let(vector, f"shufflevector {every}"), one.dtype)

    # --- memory ----------------------------------------------------------------------------------

    def load(self, at: Reg, dtype: DataType) -> Lane:
        """Elements that lie side by side, FP16 and BF16 as they are stored."""
        memory = self.vector(MEMORY[dtype])
        found = self.code.load(memory, at, dtype.bytes)
        if dtype is BOOL:
            zero = self._splat("i8", "0")
            return Lane(self.code.let(self.type(BOOL), f"icmp ne {memory} {found}, {zero}"), BOOL)
        return Lane(found, dtype)

    def store(self, lane: Lane, at: Reg) -> None:
        memory = self.vector(MEMORY[lane.dtype])
        reg = lane.reg
        if lane.dtype is BOOL:
            reg = self.code.let(memory, f"zext {self.type(BOOL)} {reg} to {memory}")
        self.code.store(Reg(reg, memory), at, lane.dtype.bytes)

    # --- arithmetic ------------------------------------------------------------------------------

    def _two(self, op: str, a: Lane, b: Lane, dtype: DataType | None = None) -> Lane:
        if a.dtype is not b.dtype:
            raise InternalError(f"{op} of lanes of {a.dtype.name} and {b.dtype.name}")
        kind = self.type(a.dtype)
        made = dtype or a.dtype
        return Lane(self.code.let(self.type(made), f"{op} {kind} {a.reg}, {b.reg}"), made)

    def add(self, a: Lane, b: Lane) -> Lane:
        return self._two("fadd" if a.dtype.is_float else "add", a, b)

    def sub(self, a: Lane, b: Lane) -> Lane:
        return self._two("fsub" if a.dtype.is_float else "sub", a, b)

    def mul(self, a: Lane, b: Lane) -> Lane:
        return self._two("fmul" if a.dtype.is_float else "mul", a, b)

    def div(self, a: Lane, b: Lane) -> Lane:
        """Quotient of floats."""
        return self._two("fdiv", a, b)

    def intrinsic(self, name: str, *lanes: Lane) -> Lane:
        """An intrinsic of LLVM on lanes of one type, which is that of its result."""
        kind, scalar = self.type(lanes[0].dtype), REGISTER[lanes[0].dtype]
        suffix = _SUFFIX.get(scalar, scalar)
        if self.width > 1:
            suffix = f"v{self.width}{suffix}"
        signature = f"{kind} @({', '.join(kind for _ in lanes)})"
        where = self.code.module.declare(f"llvm.{name}.{suffix}", signature)
        regs = [Reg(lane.reg, kind) for lane in lanes]
        return Lane(self.code.call(kind, where, *regs), lanes[0].dtype)

    def fma(self, a: Lane, b: Lane, c: Lane) -> Lane:
        """The sum a * b + c, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def one(self, name: str, a: Lane) -> Lane:
        """An intrinsic of one float: sqrt, fabs, floor, ceil, trunc, roundeven."""
        return self.intrinsic(name, a)

    def sqrt(self, a: Lane) -> Lane:
        return self.one("sqrt", a)

    def floor(self, a: Lane) -> Lane:
        return self.one("floor", a)

    def ceil(self, a: Lane) -> Lane:
        return self.one("ceil", a)

    def trunc(self, a: Lane) -> Lane:
        return self.one("trunc", a)

    def rint(self, a: Lane) -> Lane:
        """The nearest whole number, of two the even one."""
        return self.one("roundeven", a)

    def copysign(self, a: Lane, b: Lane) -> Lane:
        """The magnitude of `a` with the sign bit of `b`."""
        return self.intrinsic("copysign", a, b)

    def poly(self, x: Lane, coefficients: Sequence[float]) -> Lane:
        """c[0] + c[1] x + c[2] x² + …, by Horner's rule."""
        total = self.const(x.dtype, coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.const(x.dtype, c))
        return total

    def abs(self, a: Lane) -> Lane:
        """Magnitude; the least integer is its own."""
        if a.dtype.is_float:
            return self.one("fabs", a)
        return self.select(self.compare("lt", a, self.const(a.dtype, 0)), self.neg(a), a)

    def neg(self, a: Lane) -> Lane:
        if a.dtype.is_float:
            kind = self.type(a.dtype)
            return Lane(self.code.let(kind, f"fneg {kind} {a.reg}"), a.dtype)
        return self.sub(self.const(a.dtype, 0), a)

    def sign_bit(self, a: Lane) -> Lane:
        """Whether it is set, in a float or an integer."""
        word = self.cast_bits(a, INT64 if a.dtype is FP64 else INT32) if a.dtype.is_float else a
        return self.compare("lt", word, self.const(word.dtype, 0))

    # --- bits ------------------------------------------------------------------------------------

    def bit_and(self, a: Lane, b: Lane) -> Lane:
        return self._two("and", a, b)

    def bit_or(self, a: Lane, b: Lane) -> Lane:
        return self._two("or", a, b)

    def bit_xor(self, a: Lane, b: Lane) -> Lane:
        return self._two("xor", a, b)

    def shift_left(self, a: Lane, b: Lane) -> Lane:
        """Counts from 0 to the width less one."""
        return self._two("shl", a, b)

    def shift_right(self, a: Lane, b: Lane) -> Lane:
        """Signed types fill with the sign; counts from 0 to the width less one."""
        return self._two("ashr" if a.dtype.kind == "i" else "lshr", a, b)

    def flip(self, a: Lane) -> Lane:
        """The other bits; of a truth value the other one."""
        ones = -1 if a.dtype.kind == "i" else (1 << bits_of(a.dtype)) - 1
        return self.bit_xor(a, self.const(a.dtype, True if a.dtype is BOOL else ones))

    def cast_bits(self, a: Lane, dtype: DataType) -> Lane:
        """The same bits as another type of the same size."""
        kind = self.type(dtype)
        return Lane(self.code.let(kind, f"bitcast {self.type(a.dtype)} {a.reg} to {kind}"), dtype)

    # --- choice ----------------------------------------------------------------------------------

    def compare(self, how: str, a: Lane, b: Lane) -> Lane:
        """One of eq ne lt le gt ge, as DT_BOOL; of NaN only `ne` holds."""
        if a.dtype.is_float:
            return self._two(f"fcmp {'une' if how == 'ne' else 'o' + how}", a, b, BOOL)
        sign = "" if how in ("eq", "ne") else "s" if a.dtype.kind == "i" else "u"
        return self._two(f"icmp {sign}{how}", a, b, BOOL)

    def is_nan(self, a: Lane) -> Lane:
        return self._two("fcmp uno", a, a, BOOL)

    def select(self, cond: Lane, a: Lane, b: Lane) -> Lane:
        if a.dtype is not b.dtype or cond.dtype is not BOOL:
            raise InternalError(f"select of {a.dtype.name} and {b.dtype.name}")
        kind = self.type(a.dtype)
        text = f"select {self.type(BOOL)} {cond.reg}, {kind} {a.reg}, {kind} {b.reg}"
        return Lane(self.code.let(kind, text), a.dtype)

    def maximum(self, a: Lane, b: Lane) -> Lane:
        """The larger one; NaN wins; of zeros the second."""
        return self._extreme("gt", a, b)

    def minimum(self, a: Lane, b: Lane) -> Lane:
        """The smaller one; NaN wins; of zeros the second."""
        return self._extreme("lt", a, b)

    def _extreme(self, how: str, a: Lane, b: Lane) -> Lane:
        chosen = self.select(self.compare(how, a, b), a, b)
        return self.select(self.is_nan(a), a, chosen) if a.dtype.is_float else chosen

    def limit(self, a: Lane, low: float | None = None, high: float | None = None) -> Lane:
        """A float between bounds; NaN stays.  One instruction a bound."""
        for how, number in (("gt", low), ("lt", high)):
            if number is not None:
                bound = self.const(a.dtype, number)
                a = self.select(self.compare(how, bound, a), bound, a)
        return a

    # --- control ---------------------------------------------------------------------------------

    def any(self, cond: Lane) -> Reg:
        """Whether it holds in one lane at least."""
        if self.width == 1:
            return Reg(cond.reg, "i1")
        word = f"i{self.width}"
        packed = self.code.let(word, f"bitcast {self.type(BOOL)} {cond.reg} to {word}")
        return self.code.compare("ne", packed, Reg("0", word))

    def again(
        self,
        step: Callable[..., Sequence[Lane]],
        holds: Callable[..., Lane],
        *state: Lane,
    ) -> list[Lane]:
        """The state after `step`, taken once and then for as long as `holds` in any lane."""
        kept = [self.code.local(self.type(lane.dtype)) for lane in state]
        self._keep(state, kept)
        body, done = self.code.module.label(), self.code.module.label()
        self.code.jump(body)
        self.code.start(body)
        after = step(*self._kept(state, kept))
        self._keep(after, kept)
        self.code.branch(self.any(holds(*after)), body, done)
        self.code.start(done)
        return list(after)

    def rarely(self, cond: Lane, other: Callable[[], Sequence[Lane]], *usual: Lane) -> list[Lane]:
        """`usual`, and where `cond` holds `other`, which costs nothing where it holds nowhere."""
        kept = [self.code.local(self.type(lane.dtype)) for lane in usual]
        self._keep(usual, kept)
        with self.code.when(self.any(cond)):
            pairs = zip(other(), usual, strict=True)
            self._keep([self.select(cond, new, old) for new, old in pairs], kept)
        return self._kept(usual, kept)

    def _keep(self, lanes: Sequence[Lane], kept: Sequence[Reg]) -> None:
        for lane, where in zip(lanes, kept, strict=True):
            self.code.store(Reg(lane.reg, self.type(lane.dtype)), where)

    def _kept(self, lanes: Sequence[Lane], kept: Sequence[Reg]) -> list[Lane]:
        return [
            Lane(self.code.load(self.type(lane.dtype), where), lane.dtype)
            for lane, where in zip(lanes, kept, strict=True)
        ]

    # --- element types ---------------------------------------------------------------------------

    def widen(self, a: Lane) -> Lane:
        """FP16 and BF16 as FP32, exactly; everything else as it is."""
        if a.dtype is FP16:
            kind = self.type(FP32)
            return Lane(self.code.let(kind, f"fpext {self.type(FP16)} {a.reg} to {kind}"), FP32)
        if a.dtype is BF16:
            word = self._convert("zext", Lane(a.reg, _D.DT_INT16), INT32)
            return self.cast_bits(self.shift_left(word, self.const(INT32, 16)), FP32)
        return a

    def narrow(self, a: Lane, dtype: DataType) -> Lane:
        """FP32 rounded to nearest, ties to even, as FP16 or BF16 is stored."""
        if dtype is FP16:
            # LLVM would else round FP64 that is known to fit FP32 in one step, by a function that
            # this process does not have.
            return self._convert("fptrunc", self.intrinsic("arithmetic.fence", a), FP16)
        word = self.cast_bits(a, INT32)
        upper = self._two("lshr", word, self.const(INT32, 16))
        odd = self.bit_and(upper, self.const(INT32, 1))
        rounded = self.add(self.add(word, odd), self.const(INT32, 0x7FFF))
        upper = self._two("lshr", rounded, self.const(INT32, 16))
        # A NaN keeps its sign and becomes the plain one, as in ml_dtypes.
        high = self._two("lshr", word, self.const(INT32, 16))
        sign = self.bit_and(high, self.const(INT32, 0x8000))
        plain = self.bit_or(sign, self.const(INT32, 0x7FC0))
        chosen = self.select(self.is_nan(a), plain, upper)
        return Lane(self._convert("trunc", chosen, _D.DT_INT16).reg, BF16)

    def _convert(self, how: str, a: Lane, dtype: DataType) -> Lane:
        kind = self.type(dtype)
        return Lane(self.code.let(kind, f"{how} {self.type(a.dtype)} {a.reg} to {kind}"), dtype)

    def convert(self, a: Lane, dtype: DataType) -> Lane:
        """A number as another type: floats round to nearest, integers keep their low bits, and
        floats become integers toward zero where they fit.
        """
        source = a.dtype
        if source is dtype:
            return a
        if source in (FP16, BF16):
            return self.convert(self.widen(a), dtype)
        if dtype in (FP16, BF16):
            return self.narrow(self.convert(a, FP32), dtype)
        if source.is_float and dtype.is_float:
            return self._convert("fpext" if dtype is FP64 else "fptrunc", a, dtype)
        if source.is_float:
            return self._convert("fptosi" if dtype.kind == "i" else "fptoui", a, dtype)
        if dtype.is_float:
            return self._convert("sitofp" if source.kind == "i" else "uitofp", a, dtype)
        if dtype is BOOL:
            return self.compare("ne", a, self.const(source, 0))
        old, new = bits_of(source), bits_of(dtype)
        if old == new:
            return Lane(a.reg, dtype)
        how = "trunc" if new < old else "sext" if source.kind == "i" else "zext"
        return self._convert(how, a, dtype)


def bits_of(dtype: DataType) -> int:
    return 1 if dtype is BOOL else 8 * dtype.bytes


def _literal(dtype: DataType, number: Any) -> str:
    if dtype is BOOL:
        return "true" if number else "false"
    if dtype is FP16:
        return f"0xH{np.array(number, np.float16).view(np.uint16):04X}"
    if dtype is BF16:
        return str(int(np.array(number, dtype.numpy).view(np.int16)))
    if dtype is FP32:
        return float_text(float(np.float32(number)))
    if dtype is FP64:
        return float_text(float(number))
    return str(int(number))
