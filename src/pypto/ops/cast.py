"""Conversions between element types.

In: a tensor, a type, a rounding mode, a saturation mode.  Out: the same elements, each rounded
once.  The table says which pairs exist and which modes a pair knows; a pair that no chip has is
refused with a way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir.declare import declare
from pypto.ir.dtype import FROM_NUMPY, DataType
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, from_attr, same_shape, same_valid
from pypto.ir.types import CastMode, SaturationMode, TensorType
from pypto.ops.accepts import (
    BF16,
    BOOL,
    FP16,
    FP32,
    FP64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    types,
)

Array = Any  # a NumPy array
Lane = Any  # one element, as the back end's builder `L` knows it

_FIVE = frozenset(
    {
        CastMode.CAST_RINT,
        CastMode.CAST_ROUND,
        CastMode.CAST_FLOOR,
        CastMode.CAST_CEIL,
        CastMode.CAST_TRUNC,
    }
)
_SIX = _FIVE | {CastMode.CAST_ODD}
_EXACT: frozenset[CastMode] = frozenset()  # no mode: the value fits, or only one way is known

# Rounding modes by source and target, on any chip.  Source: the cast entry of the op catalogue.
PAIRS: dict[DataType, dict[DataType, frozenset[CastMode]]] = {
    FP32: {FP16: _SIX, FP32: _FIVE, BF16: _FIVE, INT64: _FIVE, INT32: _FIVE, INT16: _FIVE},
    FP16: {FP32: _EXACT, INT32: _FIVE, INT16: _FIVE, INT8: _FIVE, UINT8: _FIVE},
    BF16: {FP32: _EXACT, INT32: _FIVE, FP16: _FIVE},
    INT64: {INT32: _EXACT, FP32: _FIVE},
    INT32: {
        INT64: _EXACT,
        INT16: _EXACT,
        FP32: _FIVE,
        FP16: _EXACT,
        UINT16: _EXACT,
        UINT8: _EXACT,
    },
    INT16: {FP32: _FIVE, FP16: _FIVE, INT32: _EXACT, UINT8: _EXACT, UINT32: _EXACT},
    # The way by FP16 comes first: it is the one that every chip has.
    INT8: {FP16: _EXACT, INT16: _EXACT, INT32: _EXACT},
    UINT8: {FP16: _EXACT, UINT16: _EXACT},
    UINT32: {UINT8: _EXACT, UINT16: _EXACT, INT16: _EXACT},
}


def modes_of(source: DataType, target: DataType) -> frozenset[CastMode] | None:
    """The rounding modes that a pair knows; None for a pair that does not exist."""
    if source is target:
        return _FIVE
    return PAIRS.get(source, {}).get(target)


def default_mode(source: DataType, target: DataType) -> CastMode:
    """Toward zero from floats to integers, else to nearest with ties to even."""
    to_integer = source.is_float and target.is_int
    return CastMode.CAST_TRUNC if to_integer else CastMode.CAST_RINT


def route(source: DataType, target: DataType) -> list[DataType] | None:
    """The shortest chain of pairs from one type to another."""
    chains = [[source]]
    seen = {source}
    for chain in chains:
        for step in PAIRS.get(chain[-1], {}):
            if step is target:
                return [*chain, step]
            if step not in seen:
                seen.add(step)
                chains.append([*chain, step])
    return None


def _check_pair(types: Sequence[TensorType], attrs: Attrs) -> None:
    source, target = types[0].dtype, attrs["dtype"]
    if modes_of(source, target) is not None:
        return
    if target is BOOL:
        fix = "compare instead: `pypto.ne(x, 0.0)`"
    elif (chain := route(source, target)) is not None:
        names = "→".join(d.name[3:] for d in chain)
        fix = f"go by {names}: " + f"pypto.cast(t, pypto.{chain[1].name}), then on"
        raise error(
            TypeError,
            f"cast(): no direct path from {source.name} to {target.name}; use {names}",
            code="FC0001",
            fix=fix,
        )
    else:
        fix = f"no chain of casts leads from {source.name} to {target.name}"
    raise error(
        TypeError, f"cast(): no path from {source.name} to {target.name}", code="FC0001", fix=fix
    )


def _fallback(types: Sequence[TensorType], attrs: Attrs) -> str | None:
    source, target, mode = types[0].dtype, attrs["dtype"], attrs["mode"]
    known = modes_of(source, target) or frozenset()
    if mode is CastMode.CAST_NONE or mode in known:
        return None
    if not known and (source, target) != (INT32, FP16):
        # Widening, or integers: every mode gives the same value.
        return None
    return (
        f"cast(): {source.name} to {target.name} has no {mode.name}; it rounds by "
        f"{default_mode(source, target).name}"
    )


def _unchanged(types: Sequence[TensorType], attrs: Attrs) -> bool:
    kept = attrs["mode"] in (CastMode.CAST_NONE, CastMode.CAST_RINT)
    return types[0].dtype is attrs["dtype"] and (kept or not types[0].dtype.is_float)


# --- rounding ------------------------------------------------------------------------------------


def to_whole(x: Array, mode: CastMode) -> Array:
    """Floats rounded to whole numbers, in FP64."""
    wide = x.astype(np.float64)
    if mode is CastMode.CAST_ROUND:
        return np.copysign(np.floor(np.abs(wide) + 0.5), wide)
    return _WHOLE[mode](wide)


_WHOLE = {
    CastMode.CAST_RINT: np.rint,
    CastMode.CAST_FLOOR: np.floor,
    CastMode.CAST_CEIL: np.ceil,
    CastMode.CAST_TRUNC: np.trunc,
}


def to_integer(whole: Array, target: np.dtype[Any], saturate: bool) -> Array:
    """Whole numbers as integers: the low bits, or the nearest end of the range.

    Infinities are the ends of the range either way, and NaN is 0, as on the chip.
    """
    low, high = np.iinfo(target).min, np.iinfo(target).max
    if whole.dtype.kind in "iu":
        return (np.clip(whole, low, high) if saturate else whole).astype(target)
    finite = np.isfinite(whole)
    # Below 2**64 the remainder is exact, and two words of 64 bits hold any low part.
    rest = np.fmod(np.where(finite, whole, 0), 2.0**64)
    size = np.abs(rest).astype(np.uint64)
    bits = np.where(rest < 0, np.uint64(0) - size, size)
    narrow = bits.astype(target)
    over, under = whole >= float(high), whole <= float(low)
    ends = np.where(over, high, low).astype(target)
    use_ends = (over | under) & (saturate | np.isinf(whole))
    return np.where(use_ends, ends, narrow).astype(target)


def narrow(x: Array, target: np.dtype[Any], mode: CastMode) -> Array:
    """Numbers rounded to a float type in a direction."""
    nearest = x.astype(target)
    if mode is CastMode.CAST_RINT:
        return nearest
    exact, back = _exactly(x), _exactly(nearest)
    below = np.where(back > exact, _step(nearest, -1), nearest)
    above = np.where(back < exact, _step(nearest, 1), nearest)
    if mode is CastMode.CAST_FLOOR:
        return below
    if mode is CastMode.CAST_CEIL:
        return above
    inner, outer = np.where(exact < 0, above, below), np.where(exact < 0, below, above)
    if mode is CastMode.CAST_TRUNC:
        return inner
    if mode is CastMode.CAST_ODD:
        odd = (inner.view(_word(inner)) & 1).astype(bool)
        return np.where((inner == outer) | odd, inner, outer)
    tie = exact - _exactly(inner) == _exactly(outer) - exact
    return np.where(tie & (inner != outer), outer, nearest)


def _exactly(x: Array) -> Array:
    """Values that compare and subtract exactly: FP64, or Python's numbers for DT_INT64."""
    if x.dtype == np.int64:
        return x.astype(object)
    return x.astype(np.float64)


def _word(x: Array) -> Any:
    return {2: np.int16, 4: np.int32}[x.dtype.itemsize]


def _step(x: Array, direction: int) -> Array:
    """The next number of the same type, up or down."""
    word = _word(x)
    bits = x.view(word)
    # Words of floats count magnitudes: through zero the sign changes.
    up = (bits >= 0) == (direction > 0)
    moved = np.where(up, bits + word(1), bits - word(1))
    smallest = np.array(1, word) if direction > 0 else np.array(np.iinfo(word).min + 1, word)
    return np.where(x == 0, smallest, moved).astype(word).view(x.dtype)


def _cast(x: Array, dtype: DataType, mode: CastMode, satmode: SaturationMode) -> Array:
    source, target = FROM_NUMPY[x.dtype], dtype.numpy
    if mode not in (modes_of(source, dtype) or ()):
        mode = default_mode(source, dtype)
    if source is dtype:
        return to_whole(x, mode).astype(target) if source.is_float else x
    if dtype.is_int:
        whole = to_whole(x, mode) if source.is_float else x
        return to_integer(whole, target, satmode is SaturationMode.ON)
    if source is BF16 and dtype is FP16:
        # The unit clamps to the range of FP16 before it rounds.
        x = np.clip(x.astype(np.float32), -65504, 65504)
    return narrow(x, target, mode)


# --- the same on lanes ---------------------------------------------------------------------------


def _whole_lane(L: Any, x: Lane, mode: CastMode) -> Lane:
    """FP32 rounded to whole numbers."""
    if mode is not CastMode.CAST_ROUND:
        return _WHOLE_LANES[mode](L, x)
    down = L.trunc(x)
    up = L.compare("ge", L.abs(L.sub(x, down)), L.const(FP32, 0.5))
    away = L.add(down, L.copysign(L.const(FP32, 1.0), x))
    return L.copysign(L.select(up, away, down), x)


_WHOLE_LANES: dict[CastMode, Callable[[Any, Lane], Lane]] = {
    CastMode.CAST_RINT: lambda L, x: L.rint(x),
    CastMode.CAST_FLOOR: lambda L, x: L.floor(x),
    CastMode.CAST_CEIL: lambda L, x: L.ceil(x),
    CastMode.CAST_TRUNC: lambda L, x: L.trunc(x),
}


def _to_integer_lane(L: Any, whole: Lane, target: DataType, saturate: bool) -> Lane:
    """Whole numbers in FP32 as integers, as in `to_integer`."""
    size, zero = L.abs(whole), L.const(FP32, 0.0)
    finite = L.compare("lt", size, L.const(FP32, np.inf))
    size = L.select(finite, size, zero)
    word = UINT64 if target is INT64 else UINT32
    if word is UINT64:
        size = _modulo(L, size, 2.0**64)
        upper = L.trunc(L.mul(size, L.const(FP32, 2.0**-32)))
        lower = L.fma(upper, L.const(FP32, -(2.0**32)), size)
        high, low = (L.convert(L.convert(part, UINT32), UINT64) for part in (upper, lower))
        bits = L.bit_or(L.shift_left(high, L.const(UINT64, 32)), low)
    else:
        bits = L.convert(_modulo(L, size, 2.0**32), UINT32)
    bits = L.select(L.compare("lt", whole, zero), L.neg(bits), bits)
    info = np.iinfo(target.numpy)
    over, under = (float(info.max), float(info.min)) if saturate else (np.inf, -np.inf)
    found = L.convert(bits, target)
    for how, bound, end in (("ge", over, info.max), ("le", under, info.min)):
        beyond = L.compare(how, whole, L.const(FP32, bound))
        found = L.select(beyond, L.const(target, end), found)
    return found


def _modulo(L: Any, size: Lane, modulus: float) -> Lane:
    """What is left above a multiple of a power of 2: exact, since no digit is added."""
    times = L.trunc(L.mul(size, L.const(FP32, 1 / modulus)))
    return L.fma(times, L.const(FP32, -modulus), size)


def _exact_lane(L: Any, x: Lane) -> Lane:
    """A float that rounds, and compares, as the number itself would."""
    if x.dtype is INT64:
        # What FP64 cannot hold ends in a bit that says there was more: beyond any rounding bit.
        negative = L.compare("lt", x, L.const(INT64, 0))
        size = L.convert(L.select(negative, L.neg(x), x), UINT64)
        rest = L.bit_and(size, L.const(UINT64, 0x7FF))
        more = L.compare("ne", rest, L.const(UINT64, 0))
        cut = L.bit_xor(size, rest)
        cut = L.select(more, L.bit_or(cut, L.const(UINT64, 0x800)), cut)
        small = L.compare("lt", size, L.const(UINT64, 1 << 53))
        wide = L.convert(L.select(small, size, cut), FP64)
        return L.select(negative, L.neg(wide), wide)
    return L.convert(x, FP64) if x.dtype.is_int else x


def _step_lane(L: Any, x: Lane, direction: int) -> Lane:
    """The next number of the same type, up or down."""
    word = INT32 if x.dtype is FP32 else INT16
    bits, zero = L.cast_bits(x, word), L.const(word, 0)
    # Words of floats count magnitudes: through zero the sign changes.
    ahead, back = L.const(word, direction), L.const(word, -direction)
    moved = L.add(bits, L.select(L.compare("ge", bits, zero), ahead, back))
    least = int(np.iinfo(word.numpy).min)
    smallest = L.const(word, 1 if direction > 0 else least + 1)
    nothing = L.compare("eq", L.bit_and(bits, L.const(word, ~least)), zero)
    return L.cast_bits(L.select(nothing, smallest, moved), x.dtype)


def _narrow_lane(L: Any, x: Lane, target: DataType, mode: CastMode) -> Lane:
    """Numbers rounded to a float type in a direction, as in `narrow`."""
    if mode is CastMode.CAST_RINT:
        return L.convert(x, target)
    exact = _exact_lane(L, x)
    nearest = L.convert(exact, target)
    back = L.convert(nearest, exact.dtype)
    below = L.select(L.compare("gt", back, exact), _step_lane(L, nearest, -1), nearest)
    above = L.select(L.compare("lt", back, exact), _step_lane(L, nearest, 1), nearest)
    if mode is CastMode.CAST_FLOOR:
        return below
    if mode is CastMode.CAST_CEIL:
        return above
    negative = L.compare("lt", exact, L.const(exact.dtype, 0.0))
    inner, outer = L.select(negative, above, below), L.select(negative, below, above)
    if mode is CastMode.CAST_TRUNC:
        return inner
    word = INT32 if target is FP32 else INT16
    bits, outer_bits = L.cast_bits(inner, word), L.cast_bits(outer, word)
    if mode is CastMode.CAST_ODD:
        odd = L.compare("ne", L.bit_and(bits, L.const(word, 1)), L.const(word, 0))
        kept = L.bit_or(odd, L.compare("eq", bits, outer_bits))
        return L.select(kept, inner, outer)
    under, over = (L.convert(end, exact.dtype) for end in (inner, outer))
    tie = L.compare("eq", L.sub(exact, under), L.sub(over, exact))
    between = L.bit_and(tie, L.compare("ne", bits, outer_bits))
    return L.select(between, outer, nearest)


def _cast_lane(L: Any, x: Lane, dtype: DataType, mode: CastMode, satmode: SaturationMode) -> Lane:
    source = x.dtype
    if mode not in (modes_of(source, dtype) or ()):
        mode = default_mode(source, dtype)
    saturate = satmode is SaturationMode.ON
    x = L.widen(x)
    if source is dtype:
        return _whole_lane(L, x, mode) if source.is_float else x
    if dtype.is_int and source.is_float:
        return _to_integer_lane(L, _whole_lane(L, x, mode), dtype, saturate)
    if dtype.is_int:
        ours, theirs = np.iinfo(source.numpy), np.iinfo(dtype.numpy)
        if saturate:
            x = L.maximum(x, L.const(source, max(ours.min, theirs.min)))
            x = L.minimum(x, L.const(source, min(ours.max, theirs.max)))
        return L.convert(x, dtype)
    if source is BF16 and dtype is FP16:
        x = L.limit(x, -65504.0, 65504.0)
    return _narrow_lane(L, x, dtype, mode)


cast: Callable[..., Tensor] = declare(
    Op(
        "cast",
        Family.MAP,
        "The same elements in another element type.",
        (
            Arg("input"),
            Arg("dtype", "dtype"),
            Arg("mode", "enum", CastMode.CAST_NONE, type=CastMode),
            Arg("satmode", "enum", SaturationMode.OFF, type=SaturationMode),
        ),
        types(*PAIRS, UINT16, UINT64),
        shape=same_shape,
        valid=same_valid,
        reference=_cast,
        lane=_cast_lane,
        formula="out = dtype(input)",
        result=from_attr("dtype"),
        method="",
        widen=False,
        identity=_unchanged,
        check=_check_pair,
        warns=_fallback,
    )
)
