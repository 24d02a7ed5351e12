"""Quotients, remainders, powers and divisors of whole numbers, over a lane builder.

In: lanes of integers up to 32 bits, or FP32 for `fmod`.  Out: exact results; integers wrap, a zero
divisor gives 0 as in NumPy, nothing traps.  Machines have no vector division of integers, so it is
done in floats that are wide enough: FP32 up to 16 bits, FP64 above.
"""

from __future__ import annotations

from pypto.cpu.lanes import FP32, FP64, INT32, UINT32, Lane, Lanes, bits_of
from pypto.ir.dtype import DataType


def fmod(lanes: Lanes, a: Lane, b: Lane) -> Lane:
    """The remainder of FP32 numbers with the sign of `a`, exactly.

    Each step takes off a multiple of b near a, which leaves less than 2**-50 of it and is exact in
    FP64: what remains is a multiple of the last place of b, or of the quotient's last place times
    it.  Most divisions need one step, the farthest six.
    """
    size, divisor = (lanes.abs(lanes.convert(x, FP64)) for x in (a, b))
    zero = lanes.const(FP64, 0.0)

    def step(rest: Lane) -> list[Lane]:
        whole = lanes.trunc(lanes.div(rest, divisor))
        # An infinite divisor goes into nothing.
        taken = lanes.fma(lanes.neg(whole), divisor, rest)
        return [lanes.select(lanes.compare("eq", whole, zero), rest, taken)]

    def left(rest: Lane) -> Lane:
        # A zero divisor has given NaN.
        return lanes.compare("ge", lanes.abs(rest), divisor)

    (rest,) = lanes.again(step, left, size)
    # A quotient that was rounded up took one divisor too many.
    rest = lanes.select(lanes.compare("lt", rest, zero), lanes.add(rest, divisor), rest)
    return lanes.copysign(lanes.convert(rest, FP32), a)


def _room(dtype: DataType) -> DataType:
    """A float type in which quotients of these integers, rounded down or up, are exact."""
    return FP32 if bits_of(dtype) <= 16 else FP64


def _unsigned(dtype: DataType) -> DataType:
    return DataType[dtype.name.replace("_INT", "_UINT")]


def _to_integer(lanes: Lanes, a: Lane, dtype: DataType) -> Lane:
    """A whole number as an integer type that is at most one too small for it."""
    if dtype is not INT32:
        return lanes.convert(lanes.convert(a, INT32), dtype)
    end = 2.0**31
    fits = lanes.compare("lt", a, lanes.const(a.dtype, end))
    return lanes.convert(lanes.select(fits, a, lanes.const(a.dtype, -end)), dtype)


def quotient(lanes: Lanes, a: Lane, b: Lane, rounding: str) -> Lane:
    """The quotient of integers, rounded by "floor" or "ceil"; 0 where b is."""
    room = _room(a.dtype)
    wide, divisor = lanes.convert(a, room), lanes.convert(b, room)
    zero = lanes.const(room, 0.0)
    whole = lanes.one(rounding, lanes.div(wide, divisor))
    whole = lanes.select(lanes.compare("eq", divisor, zero), zero, whole)
    return _to_integer(lanes, whole, a.dtype)


def remainder(lanes: Lanes, a: Lane, b: Lane) -> Lane:
    """What is left of a above a multiple of b; 0 where b is."""
    rest = lanes.sub(a, lanes.mul(quotient(lanes, a, b, "floor"), b))
    zero = lanes.const(a.dtype, 0)
    return lanes.select(lanes.compare("eq", b, zero), zero, rest)


def gcd(lanes: Lanes, a: Lane, b: Lane) -> Lane:
    """Euclid's algorithm on magnitudes."""
    room = _room(a.dtype)
    zero = lanes.const(room, 0.0)

    def step(a: Lane, b: Lane) -> list[Lane]:
        whole = lanes.trunc(lanes.div(a, b))
        rest = lanes.fma(lanes.neg(whole), b, a)
        done = lanes.compare("eq", b, zero)
        return [lanes.select(done, a, b), lanes.select(done, b, rest)]

    def left(a: Lane, b: Lane) -> Lane:
        return lanes.compare("ne", b, zero)

    sizes = (lanes.abs(lanes.convert(x, room)) for x in (a, b))
    found, _ = lanes.again(step, left, *sizes)
    # The magnitude of the least integer has the bits of that integer.
    return lanes.convert(lanes.convert(found, UINT32), a.dtype)


def power(lanes: Lanes, base: Lane, other: Lane) -> Lane:
    """A power of integers of one type; by exponents below 0 it is 0, save for the units."""
    dtype = base.dtype
    plain = _unsigned(dtype)
    zero, one = lanes.const(dtype, 0), lanes.const(dtype, 1)
    none = lanes.const(plain, 0)

    def odd(x: Lane) -> Lane:
        last = lanes.bit_and(x, lanes.const(x.dtype, 1))
        return lanes.compare("ne", last, lanes.const(x.dtype, 0))

    def step(product: Lane, square: Lane, left: Lane) -> list[Lane]:
        return [
            lanes.select(odd(left), lanes.mul(product, square), product),
            lanes.mul(square, square),
            lanes.shift_right(left, lanes.const(plain, 1)),
        ]

    def more(product: Lane, square: Lane, left: Lane) -> Lane:
        return lanes.compare("ne", left, none)

    # As a product of squares, as many as the exponent has bits.
    left = lanes.convert(other if dtype.kind == "u" else lanes.abs(other), plain)
    product, _, _ = lanes.again(step, more, one, base, left)
    if dtype.kind == "u":
        return product
    minus = lanes.const(dtype, -1)
    turned = lanes.select(odd(other), minus, one)
    inverse = lanes.select(lanes.compare("eq", base, minus), turned, zero)
    inverse = lanes.select(lanes.compare("eq", base, one), one, inverse)
    return lanes.select(lanes.compare("lt", other, zero), inverse, product)
