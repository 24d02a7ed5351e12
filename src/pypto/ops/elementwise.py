"""Ops on two or three tensors, element by element: arithmetic, bits, comparisons, choice.

In: operands with right-aligned broadcasting; one of them may be a number.  Out: a tensor that is
valid where all operands are.  FP16 and BF16 arrive here as FP32 and are rounded once, afterwards;
integers wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir.declare import declare
from pypto.ir.dtype import FROM_NUMPY, DataType
from pypto.ir.handle import Tensor
from pypto.ir.op import (
    Arg,
    Attrs,
    Family,
    Op,
    Samples,
    Slot,
    broadcast,
    broadcast_equal_rank,
    computed_as,
    least_valid,
)
from pypto.ir.types import PrecisionType, TensorType
from pypto.ops.accepts import (
    ARITHMETIC,
    BF16,
    BYTES,
    FLOATS,
    FP16,
    FP32,
    INT16,
    INT32,
    UINT16,
    UINT32,
    WORDS,
    types,
)

Array = Any  # a NumPy array or scalar
Lane = Any  # one element of a tensor, as the back end's builder `L` knows it
HIGH_PRECISION = Arg("precision_type", "enum", PrecisionType.HIGH_PRECISION, type=PrecisionType)
ROWS = broadcast_equal_rank


def binary(
    name: str,
    sentence: str,
    formula: str,
    operands: str,
    accept: frozenset[DataType],
    reference: Callable[..., Array],
    *options: Arg,
    shape: Any = broadcast,
    either: bool = False,
    **fields: Any,
) -> Callable[..., Tensor]:
    """Declare an op on two operands; `either` of them may be the number, else only the second."""
    first, second = operands.split()
    args = (Arg(first, "operand" if either else "tensor"), Arg(second, "operand"), *options)
    return declare(
        Op(
            name,
            Family.MAP,
            sentence,
            args,
            accept,
            shape=shape,
            valid=least_valid,
            reference=reference,
            formula=formula,
            **fields,
        )
    )


def in_double(f: Callable[..., Array]) -> Callable[..., Array]:
    """The meaning of a function in FP32: computed in FP64, rounded to FP32."""

    def reference(*arrays: Array, **options: Any) -> Array:
        return f(*(np.asarray(a, np.float64) for a in arrays)).astype(np.float32)

    return reference


def is_float(x: Array) -> bool:
    return bool(np.issubdtype(x.dtype, np.floating))


def as_float(x: Array) -> Array:
    """Integers as FP32; floats are FP32 already."""
    return x if is_float(x) else x.astype(np.float32)


def floated(L: Any, x: Lane) -> Lane:
    """The lane of `as_float`."""
    return x if x.dtype.is_float else L.convert(x, FP32)


def float_result(types: Sequence[TensorType], attrs: Attrs) -> DataType:
    """The type of the first tensor; FP32 for integers."""
    return types[0].dtype if types[0].dtype.is_float else FP32


def no_zero_divisor(name: str) -> Callable[[Sequence[TensorType], Attrs], None]:
    """Integers have no quotient by 0; a tensor of divisors is the user's promise."""

    def check(types: Sequence[TensorType], attrs: Attrs) -> None:
        other = attrs["other"]
        if types[0].dtype.is_int and isinstance(other, np.generic) and other == 0:
            raise error(
                ValueError,
                f"{name}(): division of {types[0].dtype.name} by the constant 0",
                fix="divide by a number other than 0, or cast to DT_FP32 first",
            )

    return check


# --- arithmetic ----------------------------------------------------------------------------------

add = binary(
    "add",
    "Sum of two operands; integers wrap.",
    "out = input_tensor + other",
    "input_tensor other",
    types(ARITHMETIC, BYTES),
    np.add,
    lane=lambda L, a, b: L.add(a, b),
    operator=("__add__", "__radd__"),
    commutative=True,
    torch="torch.add(input_tensor, other)",
)
sub = binary(
    "sub",
    "Difference of two operands; integers wrap.",
    "out = input_tensor - other",
    "input_tensor other",
    types(ARITHMETIC, BYTES),
    np.subtract,
    lane=lambda L, a, b: L.sub(a, b),
    operator=("__sub__",),
    torch="torch.sub(input_tensor, other)",
)
mul = binary(
    "mul",
    "Product of two operands; integers wrap.",
    "out = input_tensor * other",
    "input_tensor other",
    types(ARITHMETIC, BYTES),
    np.multiply,
    lane=lambda L, a, b: L.mul(a, b),
    operator=("__mul__", "__rmul__"),
    commutative=True,
    torch="torch.mul(input_tensor, other)",
)


def _divide(input: Array, other: Array, **options: Any) -> Array:
    return np.divide(as_float(input), as_float(other))


div = binary(
    "div",
    "True quotient.  Integers are converted to FP32 first and give FP32.",
    "out = input / other",
    "input other",
    ARITHMETIC,
    _divide,
    HIGH_PRECISION,
    lane=lambda L, a, b, **options: L.div(floated(L, a), floated(L, b)),
    result=float_result,
    operator=("__truediv__",),
    torch="torch.true_divide(input, other)",
)


def _floor_divide_lane(L: Any, a: Lane, b: Lane) -> Lane:
    """Floats: what fmod leaves is taken off first, so that the quotient is whole, as in NumPy."""
    if not a.dtype.is_float:
        return L.quotient(a, b, "floor")
    zero, one = L.const(FP32, 0.0), L.const(FP32, 1.0)
    quotient, rest = L.div(a, b), L.fmod(a, b)
    whole = L.div(L.sub(a, rest), b)
    against = L.bit_xor(L.compare("lt", b, zero), L.compare("lt", rest, zero))
    lower = L.bit_and(L.compare("ne", rest, zero), against)
    whole = L.select(lower, L.sub(whole, one), whole)
    down = L.floor(whole)
    short = L.compare("gt", L.sub(whole, down), L.const(FP32, 0.5))
    down = L.select(short, L.add(down, one), down)
    down = L.select(L.compare("eq", whole, zero), L.copysign(zero, quotient), down)
    return L.select(L.compare("eq", b, zero), quotient, down)


binary(
    "floor_div",
    "Quotient rounded down, in the type of its operands.",
    "out = floor(input / other)",
    "input other",
    types(FLOATS, BYTES, INT32),
    np.floor_divide,
    lane=_floor_divide_lane,
    check=no_zero_divisor("floor_div"),
    method="",
    torch="torch.div(input, other, rounding_mode='floor')",
    tolerance=1,
    samples=Samples(other=(1, 7)),
)


def _ceil_divide(self: Array, other: Array) -> Array:
    wide, divisor = self.astype(np.int64), other.astype(np.int64)
    return (-(-wide // divisor)).astype(self.dtype)


binary(
    "ceil_div",
    "Quotient rounded up.  The chip is exact up to magnitudes of 2**24.",
    "out = ceil(self / other)",
    "self other",
    types(INT32),
    _ceil_divide,
    lane=lambda L, a, b: L.quotient(a, b, "ceil"),
    check=no_zero_divisor("ceil_div"),
    method="",
    torch="-torch.div(-self, other, rounding_mode='floor')",
    samples=Samples(-50, 50, other=(1, 7)),
)


def _finite_divisor(types: Sequence[TensorType], attrs: Attrs) -> None:
    other = attrs["other"]
    if isinstance(other, np.generic) and not np.isfinite(other):
        raise error(
            ValueError,
            f"fmod(): the divisor must be finite, got {other}",
            fix="divide by a tensor where a divisor may be infinite",
        )


def _fmod(input: Array, other: Array, **options: Any) -> Array:
    return np.fmod(input, other)


binary(
    "fmod",
    "Remainder with the sign of the dividend.",
    "out = input - trunc(input / other) * other",
    "input other",
    FLOATS,
    _fmod,
    HIGH_PRECISION,
    lane=lambda L, a, b, **options: L.fmod(a, b),
    check=_finite_divisor,
    torch="torch.fmod(input, other)",
)


def _remainder(input: Array, other: Array, **options: Any) -> Array:
    if not is_float(input):
        return np.remainder(input, other)
    # A zero keeps the sign of the dividend, which np.remainder would take from the divisor.
    rest = np.fmod(input, other)
    return np.where((rest != 0) & ((other < 0) != (rest < 0)), rest + other, rest)


def _remainder_lane(L: Any, a: Lane, b: Lane, **options: Any) -> Lane:
    if not a.dtype.is_float:
        return L.remainder(a, b)
    rest, zero = L.fmod(a, b), L.const(FP32, 0.0)
    against = L.bit_xor(L.compare("lt", b, zero), L.compare("lt", rest, zero))
    turned = L.bit_and(L.compare("ne", rest, zero), against)
    return L.select(turned, L.add(rest, b), rest)


binary(
    "remainder",
    "Remainder with the sign of the divisor; either operand may be the number.",
    "out = input - floor(input / other) * other",
    "input other",
    ARITHMETIC,
    _remainder,
    HIGH_PRECISION,
    lane=_remainder_lane,
    either=True,
    check=no_zero_divisor("remainder"),
    operator=("__mod__",),
    torch="torch.remainder(input, other)",
    samples=Samples(-50, 50, other=(1, 7)),
)

# Exponents that the language computes by other means than a power.
_POWERS: dict[float, Callable[[Array], Array]] = {
    0.0: np.ones_like,
    0.5: np.sqrt,
    -0.5: lambda x: 1 / np.sqrt(x),
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
}


def _power(base: Array, other: Array, **options: Any) -> Array:
    if not is_float(base) and not is_float(other):
        return _integer_power(base, other)
    special = _POWERS.get(float(other)) if np.ndim(other) == 0 else None
    if special is not None:
        return special(as_float(base))
    return in_double(np.power)(base, other)


def _integer_power(base: Array, other: Array) -> Array:
    base, other = np.broadcast_arrays(base, other)
    product, square = np.ones_like(base), base.copy()
    left = np.abs(other.astype(np.int64))
    while left.any():
        product = np.where(left & 1, product * square, product)
        square = square * square
        left >>= 1
    odd = (other & 1).astype(bool)
    inverse = np.where(base == 1, 1, 0) + np.where(base == -1, np.where(odd, -1, 1), 0)
    return np.where(other < 0, inverse.astype(base.dtype), product)


_POWER_LANES: dict[float, Callable[[Any, Lane, Lane], Lane]] = {
    0.0: lambda L, x, one: one,
    0.5: lambda L, x, one: L.sqrt(x),
    -0.5: lambda L, x, one: L.div(one, L.sqrt(x)),
    2.0: lambda L, x, one: L.mul(x, x),
    3.0: lambda L, x, one: L.mul(L.mul(x, x), x),
    -1.0: lambda L, x, one: L.div(one, x),
    -2.0: lambda L, x, one: L.div(one, L.mul(x, x)),
}


def _power_lane(L: Any, base: Lane, other: Lane, **options: Any) -> Lane:
    if not base.dtype.is_float and not other.dtype.is_float:
        return L.integer_power(base, other)
    # A number that is known only when the kernel runs has no shorter way.
    special = None if other.number is None else _POWER_LANES.get(float(other.number))
    if special is not None:
        return special(L, floated(L, base), L.const(FP32, 1.0))
    return L.pow(base, other)


def power_type(types: Sequence[TensorType], attrs: Attrs) -> DataType:
    """The base's type; with a tensor or a float exponent the wider one, FP32 over FP16 over BF16
    over INT32, FP16 with BF16 giving FP32."""
    base, other = types[0].dtype, attrs["other"]
    if not isinstance(other, Slot):
        number = FROM_NUMPY[other.dtype] if isinstance(other, np.generic) else base
        return FP32 if number.is_float and not base.is_float else base
    found = {base, types[other.index].dtype}
    if len(found) == 1:
        return base
    if not found <= {FP32, FP16, BF16, INT32}:
        raise error(
            TypeError,
            f"pow(): dtypes differ: base {base.name} and other {types[other.index].dtype.name}",
            code="FC0001",
            fix=f"cast the exponent: `pypto.cast(t, pypto.{base.name})`",
        )
    if FP32 in found or found == {FP16, BF16}:
        return FP32
    return FP16 if FP16 in found else BF16


def exponent_as(dtype: DataType, number: int | float) -> DataType:
    """As `computed_as`; a float beside INT32 stays a float."""
    return FP32 if dtype is INT32 and isinstance(number, float) else computed_as(dtype, number)


binary(
    "pow",
    "Power.  Integer bases with integer exponents wrap; x**0 is 1 for every x.",
    "out = base ** other",
    "base other",
    types(ARITHMETIC, BYTES),
    _power,
    HIGH_PRECISION,
    lane=_power_lane,
    shape=ROWS,
    result=power_type,
    number=exponent_as,
    same_dtype=False,
    method="",
    operator=("__pow__",),
    torch="torch.pow(base, other)",
    tolerance=2,
    samples=Samples(0, 4, other=(0, 3), scalar=3.0),
)
maximum = binary(
    "maximum",
    "The larger of two operands; NaN wins.  Either operand may be the number.",
    "out = max(input, other)",
    "input other",
    types(ARITHMETIC, BYTES, UINT16, UINT32),
    np.maximum,
    lane=lambda L, a, b: L.maximum(a, b),
    either=True,
    commutative=True,
    torch="torch.maximum(input, other)",
)
binary(
    "minimum",
    "The smaller of two operands; NaN wins.  Either operand may be the number.",
    "out = min(input, other)",
    "input other",
    types(ARITHMETIC, BYTES, UINT16, UINT32),
    np.minimum,
    lane=lambda L, a, b: L.minimum(a, b),
    either=True,
    commutative=True,
    method="",
    torch="torch.minimum(input, other)",
)


def _exp_difference(input: Array, other: Array) -> Array:
    return in_double(np.exp)(input - other)


binary(
    "expand_exp_dif",
    "Exponential of a difference.",
    "out = exp(input - other)",
    "input other",
    FLOATS,
    _exp_difference,
    lane=lambda L, a, b: L.exp(L.sub(a, b)),
    shape=ROWS,
    method="",
    torch="torch.exp((input - other).to(torch.float32).to(input.dtype))",
    tolerance=1,
)
binary(
    "gcd",
    "Greatest common divisor of the magnitudes; gcd(0, 0) is 0.",
    "out = gcd(|input|, |other|)",
    "input other",
    types(BYTES, INT16, INT32),
    np.gcd,
    lane=lambda L, a, b: L.gcd(a, b),
    commutative=True,
    torch="torch.gcd(input, other)",
    samples=Samples(-50, 50, scalar=6),
)
binary(
    "hypot",
    "Length of the vector (self, other).",
    "out = sqrt(self**2 + other**2)",
    "self other",
    FLOATS,
    in_double(np.hypot),
    lane=lambda L, a, b: L.hypot(a, b),
    shape=ROWS,
    commutative=True,
    torch="torch.hypot(self, other)",
    tolerance=1,
)


def _copysign(input: Array, other: Array) -> Array:
    return np.copysign(as_float(input), as_float(other))


binary(
    "copysign",
    "Magnitude of the first operand, sign bit of the second.  Integers give FP32.",
    "out = |input| * sign(other)",
    "input other",
    ARITHMETIC,
    _copysign,
    lane=lambda L, a, b: L.copysign(floated(L, a), floated(L, b)),
    result=float_result,
    method="",
    torch="torch.copysign(input, other)",
)
binary(
    "atan2",
    "Angle of the vector (x, y) in radians, from -pi to pi; y comes first.",
    "out = atan2(y, x)",
    "y x",
    FLOATS,
    in_double(np.arctan2),
    lane=lambda L, y, x: L.atan2(y, x),
    method="",
    torch="torch.atan2(y, x)",
    tolerance=1,
)

# --- bits ------------------------------------------------------------------------------

binary(
    "bitwise_and",
    "Bits that both operands have; a number is an int and wraps.",
    "out = self & other",
    "self other",
    WORDS,
    np.bitwise_and,
    lane=lambda L, a, b: L.bit_and(a, b),
    commutative=True,
    integer_scalars_only=True,
    method="",
    torch="torch.bitwise_and(self, other)",
    samples=Samples(-100, 100, scalar=6),
)
binary(
    "bitwise_or",
    "Bits that either operand has; a number is an int and wraps.",
    "out = input1 | input2",
    "input1 input2",
    WORDS,
    np.bitwise_or,
    lane=lambda L, a, b: L.bit_or(a, b),
    commutative=True,
    integer_scalars_only=True,
    method="",
    torch="torch.bitwise_or(input1, input2)",
    samples=Samples(-100, 100, scalar=6),
)
binary(
    "bitwise_xor",
    "Bits that one operand has; a number is an int and wraps.",
    "out = first ^ second",
    "first second",
    WORDS,
    np.bitwise_xor,
    lane=lambda L, a, b: L.bit_xor(a, b),
    commutative=True,
    integer_scalars_only=True,
    method="",
    torch="torch.bitwise_xor(first, second)",
    samples=Samples(-100, 100, scalar=6),
)
binary(
    "bitwise_left_shift",
    "Bits moved up by a count from 0 to the width less one; either operand may be the number.",
    "out = input << other",
    "input other",
    WORDS,
    np.left_shift,
    lane=lambda L, a, b: L.shift_left(a, b),
    either=True,
    integer_scalars_only=True,
    method="",
    torch="torch.bitwise_left_shift(input, other)",
    samples=Samples(-100, 100, other=(0, 6), scalar=3),
)
binary(
    "bitwise_right_shift",
    "Bits moved down by a count from 0 to the width less one; signed types fill with the sign.",
    "out = input >> other",
    "input other",
    WORDS,
    np.right_shift,
    lane=lambda L, a, b: L.shift_right(a, b),
    either=True,
    integer_scalars_only=True,
    method="",
    torch="torch.bitwise_right_shift(input, other)",
    samples=Samples(-100, 100, other=(0, 6), scalar=3),
)
