"""Exponentials, logarithms, and what is made of them, over a lane builder.

In: FP32 lanes (`_wide` functions: FP64).  Out: FP32 lanes within 4 ulp, with the right values at
zeros, infinities, NaN and denormals.  exp, exp2, expm1, log and its kin, sigmoid, tanh and erf stay
in FP32; the others compute in FP64, at half the speed, where nothing cancels and nothing overflows.

Every polynomial is a weighted minimax fit: least squares in Chebyshev polynomials on 800 nodes,
reweighted by Lawson's iteration until the relative error is level, which stands beside it.  Those
in FP32 are fitted once more for each coefficient, to what those that are rounded already leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from pypto.cpu.lanes import FP32, FP64, INT32, INT64, UINT64, Lane, Lanes

_INF, _NAN = math.inf, math.nan
_LOG2_E = 1 / math.log(2)

# Added to a small number, they leave in the low bits of the sum its nearest whole number and the
# bias of an exponent, which a shift makes a power of 2.  `_ROUND_TWICE` brings the bias of two.
_ROUND32, _ROUND64 = 1.5 * 2.0**23 + 127, 1.5 * 2.0**52 + 1023
_ROUND_TWICE = 1.5 * 2.0**23 + 254

# 2**r on ±1/2, 2**-28.3.
_EXP = (
    1.0,
    0.6931472,
    0.24022648,
    0.055503596,
    0.009618506,
    0.0013391024,
    0.00015326768,
)
# (exp(r) - 1 - r) / r² on ±log(2)/2, 2**-26 of exp(r) - 1.
_EXPM1 = (
    0.5,
    0.16666548,
    0.041666858,
    0.008366169,
    0.0013898119,
)
# (log(1 + f) - f) / f² on ±1/3, 2**-27.6 of log(1 + f).
_LOG = (
    -0.5,
    0.33333212,
    -0.249998,
    0.20010632,
    -0.16680478,
    0.14001946,
    -0.121832825,
    0.14004996,
    -0.12899819,
)
# erf(x) / x - 1 in x², x up to 0.875, 2**-26 of erf(x).
_ERF_NEAR = (
    0.12837915,
    -0.37612507,
    0.11281965,
    -0.026772428,
    0.005002323,
    -0.0006040721,
)
# log(erfc(x)) to base 2, x from 0.875 to 4, 2**-28.9 of erf(x).
_ERF_FAR = (
    -0.00019270695,
    -1.6272678,
    -0.9186177,
    -0.15051265,
    0.032345448,
    -0.004461203,
    0.00028997168,
)
# exp(x²) erfc(x) over (x - 2.5) / (x + 2.5), x from 0 to 10.4, 2**-35.
_ERFC = (
    0.2108063640606886,
    -0.37173673383970063,
    0.25171319311933626,
    -0.1250330580533821,
    0.03992254378915684,
    -0.003993616246773657,
    -0.0026424120389102945,
    0.0008753512957984159,
    0.00022849369932977147,
    -0.00012696676824569206,
    -3.391229447726584e-05,
    1.5344536946959332e-05,
    6.0506185725518125e-06,
)
# 2**r on ±1/2, 2**-45.8.
_EXP_WIDE = (
    1.0,
    0.6931471805598841,
    0.2402265069571937,
    0.055504108668463406,
    0.009618129182161029,
    0.0013333557622237909,
    0.00015403440098795345,
    1.5252989955262936e-05,
    1.3258519030246692e-06,
    1.014864570987879e-07,
)
# log((1 + s) / (1 - s)) / s in s², |s| ≤ 0.172, 2**-50.
_LOG_WIDE = (
    2.0,
    0.6666666666664428,
    0.40000000021539667,
    0.285714218256609,
    0.22223059866368503,
    0.1813306584890775,
    0.16713661690083917,
)
# sinh(x) / x in x², x up to 1, 2**-34.
_SINH = (
    1.0000000000459763,
    0.1666666643024715,
    0.00833335259289289,
    0.00019835812449270107,
    2.8185239365319094e-06,
)


def _as_single(number: float) -> float:
    return float(np.float32(number))


def in_double(wide: Callable[..., Lane]) -> Callable[..., Lane]:
    """A function of FP64 lanes for lanes of any number type, rounded once to FP32."""

    def narrow(lanes: Lanes, *operands: Lane) -> Lane:
        return lanes.convert(wide(lanes, *(lanes.convert(x, FP64) for x in operands)), FP32)

    return narrow


# --- exponentials --------------------------------------------------------------------------------


def _power_of_two(lanes: Lanes, number: Lane) -> Lane:
    """2**n, where n and a bias stand in the low bits of a float, or of its bits."""
    dtype, word, places = (FP64, INT64, 52) if number.dtype in (FP64, INT64) else (FP32, INT32, 23)
    bits = lanes.cast_bits(number, word)
    return lanes.cast_bits(lanes.shift_left(bits, lanes.const(word, places)), dtype)


def _scaled(lanes: Lanes, rounded: Lane, r: Lane) -> Lane:
    """2**(n + r), where `rounded` is n and `_ROUND_TWICE`.

    The power of n comes in two halves, so that no step but the last is denormal or infinite.
    """
    bits = lanes.cast_bits(rounded, INT32)
    half = lanes.shift_right(bits, lanes.const(INT32, 1))
    size = lanes.mul(lanes.poly(r, _EXP), _power_of_two(lanes, half))
    return lanes.mul(size, _power_of_two(lanes, lanes.sub(bits, half)))


def _exp_within(lanes: Lanes, x: Lane) -> Lane:
    """exp(x) for x from -104 to 89."""
    scale, magic = lanes.const(FP32, _LOG2_E), lanes.const(FP32, _ROUND_TWICE)
    rounded = lanes.fma(x, scale, magic)
    # The rest of x / log(2), with the constant in two parts: the product is not rounded.
    rest = lanes.fma(x, scale, lanes.sub(magic, rounded))
    low = _LOG2_E - _as_single(_LOG2_E)
    return _scaled(lanes, rounded, lanes.fma(x, lanes.const(FP32, low), rest))


def exp(lanes: Lanes, x: Lane) -> Lane:
    return _exp_within(lanes, lanes.limit(x, -104.0, 89.0))


def exp2(lanes: Lanes, x: Lane) -> Lane:
    return _exp2_within(lanes, lanes.limit(x, -151.0, 129.0))


def _exp2_within(lanes: Lanes, x: Lane) -> Lane:
    magic = lanes.const(FP32, _ROUND_TWICE)
    rounded = lanes.add(x, magic)
    return _scaled(lanes, rounded, lanes.add(x, lanes.sub(magic, rounded)))


def expm1(lanes: Lanes, x: Lane) -> Lane:
    # Half of the power, which may be 2**128, gives half of the result.
    power, p = _expm1_parts(lanes, lanes.limit(x, -18.0, 88.9), -1)
    half = lanes.fma(power, p, lanes.sub(power, lanes.const(FP32, 0.5)))
    # Half of a denormal is not exact, and -0 would become 0.
    tiny = lanes.compare("lt", lanes.abs(x), lanes.const(FP32, 2.0**-25))
    return lanes.select(tiny, x, lanes.add(half, half))


def _expm1_parts(lanes: Lanes, x: Lane, shift: int = 0) -> tuple[Lane, Lane]:
    """2**(n + shift) and exp(r) - 1, where x = n log(2) + r."""
    magic = lanes.const(FP32, _ROUND32 + shift)
    rounded = lanes.fma(x, lanes.const(FP32, _LOG2_E), magic)
    n = lanes.neg(lanes.sub(rounded, magic))
    high = _as_single(math.log(2))
    r = lanes.fma(n, lanes.const(FP32, high), x)
    r = lanes.fma(n, lanes.const(FP32, math.log(2) - high), r)
    return _power_of_two(lanes, rounded), lanes.fma(lanes.mul(r, r), lanes.poly(r, _EXPM1), r)


def sigmoid(lanes: Lanes, x: Lane) -> Lane:
    """1 / (1 + exp(-x)) above 0, exp(x) / (1 + exp(x)) below, where it may be denormal."""
    negative = lanes.neg(lanes.abs(x))
    e = _exp_within(lanes, lanes.limit(negative, -104.0))
    one = lanes.const(FP32, 1.0)
    over = lanes.select(lanes.compare("lt", x, lanes.const(FP32, 0.0)), e, one)
    return lanes.div(over, lanes.add(one, e))


def tanh(lanes: Lanes, x: Lane) -> Lane:
    """The quotient t / (t + 2), where t is exp(2|x|) - 1: 1 from 9.1 on."""
    size = lanes.limit(lanes.abs(x), high=9.1)
    power, p = _expm1_parts(lanes, lanes.add(size, size))
    t = lanes.fma(power, p, lanes.sub(power, lanes.const(FP32, 1.0)))
    return lanes.copysign(lanes.div(t, lanes.add(t, lanes.const(FP32, 2.0))), x)


def erf(lanes: Lanes, x: Lane) -> Lane:
    """Near 0 a polynomial, then 1 less a power of 2: 1 from 4 on."""
    size = lanes.limit(lanes.abs(x), high=4.0)
    near = lanes.fma(lanes.poly(lanes.mul(x, x), _ERF_NEAR), size, size)
    rest = _exp2_within(lanes, lanes.poly(size, _ERF_FAR))
    far = lanes.sub(lanes.const(FP32, 1.0), rest)
    close = lanes.compare("lt", size, lanes.const(FP32, 0.875))
    return lanes.copysign(lanes.select(close, near, far), x)


# --- logarithms ----------------------------------------------------------------------------------


def _log_parts(lanes: Lanes, x: Lane, low: Lane | None = None) -> tuple[Lane, Lane]:
    """The exponent e and log(m) of a positive normal x + low = 2**e m, m from 2/3 to 4/3."""
    word = lanes.cast_bits(x, INT32)
    offset = lanes.sub(word, lanes.const(INT32, 0x3F2AAAAB))  # 2/3
    exponent = lanes.bit_and(offset, lanes.const(INT32, -(1 << 23)))
    m = lanes.cast_bits(lanes.sub(word, exponent), FP32)
    f = lanes.sub(m, lanes.const(FP32, 1.0))
    if low is not None:
        # Of the largest numbers 2**-e would be denormal; there the low part is nothing.
        scale = lanes.sub(lanes.const(INT32, 127 << 23), exponent)
        scale = lanes.maximum(scale, lanes.const(INT32, 0))
        f = lanes.fma(low, lanes.cast_bits(scale, FP32), f)
    e = lanes.mul(lanes.convert(exponent, FP32), lanes.const(FP32, 2.0**-23))
    return e, lanes.fma(lanes.mul(f, f), lanes.poly(f, _LOG), f)


def _log_ends(lanes: Lanes, x: Lane, usual: Lane) -> Lane:
    """A logarithm at its ends: -inf at 0, NaN below, inf and NaN as they are."""
    zero = lanes.const(x.dtype, 0.0)
    least = lanes.select(
        lanes.compare("eq", x, zero), lanes.const(x.dtype, -_INF), lanes.const(x.dtype, _NAN)
    )
    usual = lanes.select(lanes.compare("gt", x, zero), usual, least)
    return lanes.select(lanes.compare("lt", x, lanes.const(x.dtype, _INF)), usual, x)


def _logarithm(lanes: Lanes, x: Lane, scale: float, unit: float) -> Lane:
    """log(x) * scale, where `unit` is log(2) * scale."""
    # Denormals are lifted by 23 binary places.
    small = lanes.compare("lt", x, lanes.const(FP32, 2.0**-126))
    lifted = lanes.select(small, lanes.mul(x, lanes.const(FP32, 2.0**23)), x)
    e, log_m = _log_parts(lanes, lifted)
    shift = lanes.select(small, lanes.const(FP32, 23.0), lanes.const(FP32, 0.0))
    e = lanes.sub(e, shift)
    if scale != 1:
        log_m = lanes.mul(log_m, lanes.const(FP32, scale))
    return _log_ends(lanes, x, lanes.fma(e, lanes.const(FP32, unit), log_m))


def log(lanes: Lanes, x: Lane) -> Lane:
    return _logarithm(lanes, x, 1.0, math.log(2))


def log2(lanes: Lanes, x: Lane) -> Lane:
    return _logarithm(lanes, x, _LOG2_E, 1.0)


def log10(lanes: Lanes, x: Lane) -> Lane:
    return _logarithm(lanes, x, math.log10(math.e), math.log10(2))


def log1p(lanes: Lanes, x: Lane) -> Lane:
    one = lanes.const(FP32, 1.0)
    total = lanes.add(one, x)
    low = lanes.sub(x, lanes.sub(total, one))
    e, log_m = _log_parts(lanes, total, low)
    usual = lanes.fma(e, lanes.const(FP32, math.log(2)), log_m)
    # -0 is lost in the sum.
    zero = lanes.compare("eq", x, lanes.const(FP32, 0.0))
    return lanes.select(zero, x, _log_ends(lanes, total, usual))


# --- in FP64 -------------------------------------------------------------------------------------


def exp2_wide(lanes: Lanes, x: Lane) -> Lane:
    """2**x, which far from the range of FP32 is only far from it."""
    x = lanes.limit(x, -200.0, 200.0)
    magic = lanes.const(FP64, _ROUND64)
    rounded = lanes.add(x, magic)
    rest = lanes.sub(x, lanes.sub(rounded, magic))
    return lanes.mul(lanes.poly(rest, _EXP_WIDE), _power_of_two(lanes, rounded))


def exp_wide(lanes: Lanes, x: Lane) -> Lane:
    return exp2_wide(lanes, lanes.mul(x, lanes.const(FP64, _LOG2_E)))


def log_wide(lanes: Lanes, x: Lane, low: Lane | None = None) -> Lane:
    """log(x + low) of FP64 numbers that are no denormals."""
    word = lanes.cast_bits(x, INT64)
    offset = lanes.sub(word, lanes.const(INT64, 0x3FE6A09E667F3BCD - (1023 << 52)))  # sqrt(1/2)
    # The biased exponent becomes a number in the low bits of 2**52.
    biased = lanes.convert(
        lanes.shift_right(lanes.convert(offset, UINT64), lanes.const(UINT64, 52)), INT64
    )
    base = lanes.cast_bits(lanes.const(FP64, 2.0**52), INT64)
    e = lanes.sub(
        lanes.cast_bits(lanes.bit_or(biased, base), FP64), lanes.const(FP64, 2.0**52 + 1023)
    )
    exponent = lanes.sub(
        lanes.shift_left(biased, lanes.const(INT64, 52)), lanes.const(INT64, 1023 << 52)
    )
    m = lanes.cast_bits(lanes.sub(word, exponent), FP64)
    one = lanes.const(FP64, 1.0)
    f = lanes.sub(m, one)
    if low is not None:
        scale = lanes.sub(lanes.const(INT64, 1023 << 52), exponent)
        f = lanes.fma(low, lanes.cast_bits(scale, FP64), f)
    s = lanes.div(f, lanes.add(m, one))
    log_m = lanes.mul(s, lanes.poly(lanes.mul(s, s), _LOG_WIDE))
    return _log_ends(lanes, x, lanes.fma(e, lanes.const(FP64, math.log(2)), log_m))


def log1p_wide(lanes: Lanes, x: Lane) -> Lane:
    one = lanes.const(FP64, 1.0)
    total = lanes.add(one, x)
    return log_wide(lanes, total, lanes.sub(x, lanes.sub(total, one)))


def _cosh(lanes: Lanes, x: Lane) -> Lane:
    e = exp_wide(lanes, lanes.abs(x))
    half = lanes.const(FP64, 0.5)
    return lanes.mul(half, lanes.add(e, lanes.div(lanes.const(FP64, 1.0), e)))


def _sinh(lanes: Lanes, x: Lane) -> Lane:
    size = lanes.abs(x)
    e = exp_wide(lanes, size)
    half, one = lanes.const(FP64, 0.5), lanes.const(FP64, 1.0)
    far = lanes.mul(half, lanes.sub(e, lanes.div(one, e)))
    near = lanes.mul(size, lanes.poly(lanes.mul(x, x), _SINH))
    return lanes.copysign(lanes.select(lanes.compare("lt", size, one), near, far), x)


def _asinh(lanes: Lanes, x: Lane) -> Lane:
    """log(|x| + sqrt(x² + 1)) as log(1 + …), which is right near 0."""
    size = lanes.abs(x)
    square, one = lanes.mul(x, x), lanes.const(FP64, 1.0)
    root = lanes.sqrt(lanes.add(square, one))
    more = lanes.add(size, lanes.div(square, lanes.add(root, one)))
    finite = lanes.compare("lt", size, lanes.const(FP64, _INF))
    return lanes.copysign(lanes.select(finite, log1p_wide(lanes, more), size), x)


def _acosh(lanes: Lanes, x: Lane) -> Lane:
    more = lanes.sub(x, lanes.const(FP64, 1.0))
    root = lanes.sqrt(lanes.mul(more, lanes.add(more, lanes.const(FP64, 2.0))))
    found = log1p_wide(lanes, lanes.add(more, root))
    inside = lanes.compare("ge", x, lanes.const(FP64, 1.0))
    return lanes.select(inside, found, lanes.const(FP64, _NAN))


def _atanh(lanes: Lanes, x: Lane) -> Lane:
    size = lanes.abs(x)
    ratio = lanes.div(lanes.add(size, size), lanes.sub(lanes.const(FP64, 1.0), size))
    half = lanes.mul(lanes.const(FP64, 0.5), log1p_wide(lanes, ratio))
    return lanes.copysign(half, x)


def _erfc(lanes: Lanes, x: Lane) -> Lane:
    """exp(-x²) times a polynomial above 0; below 2 less that."""
    size = lanes.limit(lanes.abs(x), high=10.4)
    k = lanes.const(FP64, 2.5)
    t = lanes.div(lanes.sub(size, k), lanes.add(size, k))
    e = exp_wide(lanes, lanes.neg(lanes.mul(size, size)))
    above = lanes.mul(e, lanes.poly(t, _ERFC))
    negative = lanes.compare("lt", x, lanes.const(FP64, 0.0))
    return lanes.select(negative, lanes.sub(lanes.const(FP64, 2.0), above), above)


def _cbrt(lanes: Lanes, x: Lane) -> Lane:
    third = lanes.mul(log_wide(lanes, lanes.abs(x)), lanes.const(FP64, _LOG2_E / 3))
    root = exp2_wide(lanes, third)
    # Zero and infinity are their own roots.
    same = lanes.compare("eq", x, lanes.add(x, x))
    return lanes.copysign(lanes.select(same, x, root), x)


def _pow(lanes: Lanes, base: Lane, other: Lane) -> Lane:
    """A power; NaN only where IEEE 754 has no number."""
    zero, one = lanes.const(FP64, 0.0), lanes.const(FP64, 1.0)
    exponent = lanes.mul(log_wide(lanes, lanes.abs(base)), other)
    size = exp2_wide(lanes, lanes.mul(exponent, lanes.const(FP64, _LOG2_E)))
    half = lanes.mul(other, lanes.const(FP64, 0.5))
    whole = lanes.compare("eq", other, lanes.trunc(other))
    odd = lanes.bit_and(whole, lanes.compare("ne", half, lanes.trunc(half)))
    signed = lanes.select(odd, lanes.copysign(size, base), size)
    negative = lanes.bit_and(
        lanes.compare("lt", base, zero), lanes.compare("gt", base, lanes.const(FP64, -_INF))
    )
    none = lanes.bit_and(negative, lanes.flip(whole))
    found = lanes.select(none, lanes.const(FP64, _NAN), signed)
    # 1 has every power and 0 is a power of everything, of NaN too; -1 has its infinite ones.
    unit = lanes.bit_or(lanes.compare("eq", base, one), lanes.compare("eq", other, zero))
    endless = lanes.bit_and(
        lanes.compare("eq", base, lanes.const(FP64, -1.0)),
        lanes.compare("eq", lanes.abs(other), lanes.const(FP64, _INF)),
    )
    return lanes.select(lanes.bit_or(unit, endless), one, found)


def _hypot(lanes: Lanes, a: Lane, b: Lane) -> Lane:
    length = lanes.sqrt(lanes.fma(a, a, lanes.mul(b, b)))
    endless = lanes.const(FP64, _INF)
    either = lanes.bit_or(
        lanes.compare("eq", lanes.abs(a), endless), lanes.compare("eq", lanes.abs(b), endless)
    )
    return lanes.select(either, endless, length)


cosh, sinh, asinh, acosh, atanh = (in_double(f) for f in (_cosh, _sinh, _asinh, _acosh, _atanh))
erfc, cbrt, pow, hypot = (in_double(f) for f in (_erfc, _cbrt, _pow, _hypot))
