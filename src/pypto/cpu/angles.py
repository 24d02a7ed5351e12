"""Angles and their functions, over a lane builder.

In: FP32 lanes.  Out: FP32 lanes within 4 ulp for every finite number, with the right values at
zeros, infinities, NaN and denormals.  All of it computes in FP64, where the quotient by pi/2 can be
taken with room to spare.  The polynomials are fits as in `exponentials`.
"""

from __future__ import annotations

import math

from pypto.cpu.exponentials import in_double
from pypto.cpu.lanes import FP64, INT64, Lane, Lanes

_PI_2, _PI_2_LOW = math.pi / 2, 6.123233995736766e-17
_ROUND = 1.5 * 2.0**52
# Up to here the quotient by pi/2 is whole in FP64 and pi/2 in two parts is exact enough.
_NEAR = 2.0**49
# 2/pi in pieces of 28 bits: each, times an FP32 number, is exact.  The last one counts 2**-224.
_TWO_OVER_PI = tuple(
    piece * 2.0 ** (-28 * (i + 1))
    for i, piece in enumerate(
        (0xA2F9836, 0xE4E4415, 0x29FC275, 0x7D1F534, 0xDDC0DB6, 0x295993C, 0x439041F, 0xE5163AB)
    )
)

# sin(x) / x in x², |x| ≤ 0.91, 2**-45.
_SIN = (
    0.999999999999973,
    -0.1666666666643742,
    0.008333333301543882,
    -0.00019841253654654875,
    2.7553582608440833e-06,
    -2.465334311342404e-08,
)
# cos(x) likewise, 2**-41.
_COS = (
    0.9999999999995892,
    -0.49999999996669947,
    0.041666666220696334,
    -0.001388886677331788,
    2.479658646305843e-05,
    -2.7032333793831524e-07,
)
# atan(x) / x in x², x up to 1, 2**-36.6.
_ATAN = (
    0.9999999999906531,
    -0.33333333005321286,
    0.19999980837611994,
    -0.14285271438238298,
    0.11105741738522129,
    -0.09051620449734353,
    0.07503962934171579,
    -0.060426359522341266,
    0.04396727178308886,
    -0.026338630701923847,
    0.01164661794753413,
    -0.0032783004416732757,
    0.000432958179334399,
)


def _quadrant(lanes: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """The n, in the low bits of an integer, and the r within ±0.91 of x = n pi/2 + r."""
    magic = lanes.const(FP64, _ROUND)
    rounded = lanes.fma(x, lanes.const(FP64, 2 / math.pi), magic)
    n = lanes.neg(lanes.sub(rounded, magic))
    r = lanes.fma(n, lanes.const(FP64, _PI_2), x)
    r = lanes.fma(n, lanes.const(FP64, _PI_2_LOW), r)
    far = lanes.compare("gt", lanes.abs(x), lanes.const(FP64, _NEAR))
    rounded, r = lanes.rarely(far, lambda: _far_quadrant(lanes, x), rounded, r)
    return lanes.cast_bits(rounded, INT64), r


def _far_quadrant(lanes: Lanes, x: Lane) -> tuple[Lane, Lane]:
    """The same for large numbers: x times 2/pi, piece by piece, less multiples of 4."""
    four, quarter = lanes.const(FP64, 4.0), lanes.const(FP64, 0.25)
    total = low = lanes.const(FP64, 0.0)
    for piece in _TWO_OVER_PI:
        part = lanes.mul(x, lanes.const(FP64, piece))
        turns = lanes.rint(lanes.mul(part, quarter))
        part = lanes.fma(lanes.neg(turns), four, part)
        # What the sum loses is kept beside it.
        after = lanes.add(total, part)
        back = lanes.sub(after, total)
        lost = lanes.add(lanes.sub(total, lanes.sub(after, back)), lanes.sub(part, back))
        total, low = after, lanes.add(low, lost)
    magic = lanes.const(FP64, _ROUND)
    rounded = lanes.add(total, magic)
    rest = lanes.add(lanes.sub(total, lanes.sub(rounded, magic)), low)
    return rounded, lanes.mul(rest, lanes.const(FP64, _PI_2))


def _both(lanes: Lanes, r: Lane) -> tuple[Lane, Lane]:
    """Sine and cosine of a small angle."""
    square = lanes.mul(r, r)
    return lanes.mul(r, lanes.poly(square, _SIN)), lanes.poly(square, _COS)


def _odd(lanes: Lanes, quadrant: Lane) -> Lane:
    bit = lanes.bit_and(quadrant, lanes.const(INT64, 1))
    return lanes.compare("ne", bit, lanes.const(INT64, 0))


def _wave(lanes: Lanes, quadrant: Lane, r: Lane) -> Lane:
    """The sine of an angle that lies in this quadrant."""
    sine, cosine = _both(lanes, r)
    size = lanes.cast_bits(lanes.select(_odd(lanes, quadrant), cosine, sine), INT64)
    # Bit 1 of the quadrant turns the sign.
    half = lanes.bit_and(quadrant, lanes.const(INT64, 2))
    turn = lanes.shift_left(half, lanes.const(INT64, 62))
    return lanes.cast_bits(lanes.bit_xor(size, turn), FP64)


def _sin(lanes: Lanes, x: Lane) -> Lane:
    return _wave(lanes, *_quadrant(lanes, x))


def _cos(lanes: Lanes, x: Lane) -> Lane:
    quadrant, r = _quadrant(lanes, x)
    return _wave(lanes, lanes.add(quadrant, lanes.const(INT64, 1)), r)


def _tan(lanes: Lanes, x: Lane) -> Lane:
    quadrant, r = _quadrant(lanes, x)
    sine, cosine = _both(lanes, r)
    odd = _odd(lanes, quadrant)
    over = lanes.select(odd, lanes.neg(cosine), sine)
    return lanes.div(over, lanes.select(odd, sine, cosine))


def _atan2(lanes: Lanes, y: Lane, x: Lane) -> Lane:
    """The angle in the first octant, mirrored out of it."""
    height, width = lanes.abs(y), lanes.abs(x)
    steep = lanes.compare("gt", height, width)
    over, under = lanes.select(steep, width, height), lanes.select(steep, height, width)
    zero = lanes.const(FP64, 0.0)
    # inf / inf is 1 here, and 0 / 0 is 0.
    same = lanes.compare("eq", over, under)
    ratio = lanes.select(same, lanes.const(FP64, 1.0), lanes.div(over, under))
    nothing = lanes.compare("eq", lanes.add(over, under), zero)
    ratio = lanes.select(nothing, zero, ratio)
    angle = lanes.mul(ratio, lanes.poly(lanes.mul(ratio, ratio), _ATAN))
    angle = lanes.select(steep, lanes.sub(lanes.const(FP64, math.pi / 2), angle), angle)
    back = lanes.sign_bit(x)
    angle = lanes.select(back, lanes.sub(lanes.const(FP64, math.pi), angle), angle)
    return lanes.copysign(angle, y)


def _atan(lanes: Lanes, x: Lane) -> Lane:
    return _atan2(lanes, x, lanes.const(FP64, 1.0))


def _other_leg(lanes: Lanes, x: Lane) -> Lane:
    """sqrt(1 - x²), NaN beyond 1."""
    one = lanes.const(FP64, 1.0)
    return lanes.sqrt(lanes.mul(lanes.sub(one, x), lanes.add(one, x)))


def _asin(lanes: Lanes, x: Lane) -> Lane:
    return _atan2(lanes, x, _other_leg(lanes, x))


def _acos(lanes: Lanes, x: Lane) -> Lane:
    return _atan2(lanes, _other_leg(lanes, x), x)


sin, cos, tan = in_double(_sin), in_double(_cos), in_double(_tan)
atan2, atan, asin, acos = in_double(_atan2), in_double(_atan), in_double(_asin), in_double(_acos)
