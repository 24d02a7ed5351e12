"""Functions of one tensor, element by element: roots, exponentials, angles, rounding, tests.

In: a tensor.  Out: a tensor of the same shape and valid extents.  FP16 and BF16 arrive here as
FP32 and are rounded once, afterwards.  Functions that have no exact FP32 value are computed in
FP64 and rounded to FP32, so that this room can be the judge of faster ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir.declare import declare
from pypto.ir.dtype import DataType, Element
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, Samples, always, same_shape, same_valid
from pypto.ir.types import PrecisionType, TensorType
from pypto.ops.accepts import (
    ARITHMETIC,
    BOOL,
    BYTES,
    FLOATS,
    FP16,
    FP32,
    FP64,
    INT8,
    INT16,
    INT32,
    LONGS,
    WORDS,
    types,
)
from pypto.ops.elementwise import (
    HIGH_PRECISION,
    Array,
    Lane,
    float_result,
    floated,
    in_double,
    is_float,
)

INTRINSIC = Arg("precision_type", "enum", PrecisionType.INTRINSIC, type=PrecisionType)
SIGNED = types(FLOATS, INT8, INT16, INT32)


def unary(
    name: str,
    sentence: str,
    reference: Callable[..., Array],
    *options: Arg,
    arg: str = "input",
    accept: frozenset[DataType] = FLOATS,
    torch: str = "",
    **fields: Any,
) -> Callable[..., Tensor]:
    """Declare a function of one tensor.

    From its name follow its formula, its twin in torch, and its lane: the builder's function of
    that name, on FP32.
    """
    fields.setdefault("formula", f"out = {name}({arg})")
    fields.setdefault("lane", lambda L, x, **options: getattr(L, name)(floated(L, x)))
    return declare(
        Op(
            name,
            Family.MAP,
            sentence,
            (Arg(arg), *options),
            accept,
            shape=same_shape,
            valid=same_valid,
            reference=reference,
            torch=torch or f"torch.{name}({arg})",
            **fields,
        )
    )


def exactly(f: Callable[..., Array]) -> Callable[..., Array]:
    """A function that FP32 and integers compute exactly, or rounded to nearest as it is."""

    def reference(x: Array, **options: Any) -> Array:
        return f(x)

    return reference


# --- sign and size -------------------------------------------------------------------------------

unary(
    "abs",
    "Magnitude; the least integer is its own.",
    exactly(np.abs),
    lane=lambda L, x: L.abs(x),
    arg="a",
    accept=SIGNED,
    formula="out = |a|",
)
neg = unary(
    "neg",
    "Opposite; 0.0 becomes -0.0 and the least integer is its own.",
    exactly(np.negative),
    lane=lambda L, x: L.neg(x),
    arg="a",
    accept=ARITHMETIC,
    formula="out = -a",
    operator=("__neg__",),
)


def _sign(x: Array) -> Array:
    # NaN has no sign and becomes 0, as in torch.
    return np.where(x != x, np.zeros_like(x), np.sign(x))


def _sign_lane(L: Any, x: Lane) -> Lane:
    zero, one = L.const(x.dtype, 0), L.const(x.dtype, 1)
    below = L.select(L.compare("lt", x, zero), L.neg(one), zero)
    return L.select(L.compare("gt", x, zero), one, below)


unary("sign", "-1, 0 or 1.", exactly(_sign), lane=_sign_lane, arg="a", accept=SIGNED)


def _signbit(x: Array) -> Array:
    return np.signbit(x) & (x == x) if is_float(x) else x < 0


unary(
    "signbit",
    "Whether the sign bit is set: true for -0.0, false for NaN.",
    exactly(_signbit),
    lane=lambda L, x: L.bit_and(L.sign_bit(x), L.compare("eq", x, x)),
    arg="a",
    accept=SIGNED,
    result=always(BOOL),
)
unary(
    "relu",
    "The larger of an element and 0.",
    exactly(lambda x: np.maximum(x, np.zeros_like(x))),
    lane=lambda L, x: L.maximum(x, L.const(x.dtype, 0)),
    arg="a",
    accept=ARITHMETIC,
    formula="out = max(a, 0)",
)


def number_of(item: Any) -> float | None:
    """The value of a number or an Element, None for anything else."""
    if isinstance(item, Element):
        return float(item.value)
    return float(item) if isinstance(item, (int, float, np.generic)) else None


def _slope(types: Sequence[TensorType], attrs: Attrs) -> None:
    slope = number_of(attrs["negative_slope"])
    if slope is None or not (math.isfinite(slope) and slope >= 0):
        raise error(
            ValueError,
            f"lrelu(): negative_slope must be ≥ 0 and finite, got {attrs['negative_slope']}",
            fix="negative_slope=0.01",
        )


def _lrelu(x: Array, negative_slope: Any) -> Array:
    return np.where(x > 0, x, np.float32(number_of(negative_slope)) * x)


def _leaking(L: Any, x: Lane, slope: Lane) -> Lane:
    """An element, or `slope` times it where it is not above 0."""
    return L.select(L.compare("gt", x, L.const(FP32, 0.0)), x, L.mul(slope, x))


def _lrelu_lane(L: Any, x: Lane, negative_slope: Any) -> Lane:
    return _leaking(L, x, L.const(FP32, number_of(negative_slope)))


unary(
    "lrelu",
    "An element, or a multiple of it where it is not above 0.",
    _lrelu,
    Arg("negative_slope", "any", 0.01),
    lane=_lrelu_lane,
    arg="other",
    check=_slope,
    formula="out = other > 0 ? other : negative_slope * other",
    torch="torch.where(other > 0, other, torch.tensor(negative_slope).to(other) * other)",
    tolerance=1,
)


def _matching_weight(types: Sequence[TensorType], attrs: Attrs) -> None:
    given, channels = types[1].shape, types[0].shape[1] if types[0].rank > 1 else 1
    size = math.prod(d for d in given if isinstance(d, int))
    if size != channels:
        raise error(
            ValueError,
            f"prelu(): weight has {size} elements, one per channel (axis 1) is {channels}",
            code="FC0000",
            fix=f"a weight of shape [{channels}]",
        )


PRELU: Callable[..., Tensor] = declare(
    Op(
        "prelu",
        Family.MAP,
        "An element, or its channel's weight times it where it is not above 0.",
        (Arg("self"), Arg("weight")),
        FLOATS,
        shape=same_shape,
        valid=same_valid,
        reference=lambda x, weight: np.where(x > 0, x, weight * x),
        lane=_leaking,
        formula="out = self > 0 ? self : weight[c] * self",
        check=_matching_weight,
        hidden=True,
    )
)

# --- roots, exponentials, logarithms -------------------------------------------------------------

sqrt = unary("sqrt", "Square root; NaN below 0.", exactly(np.sqrt), INTRINSIC)
unary(
    "rsqrt",
    "1 divided by the square root, rounded after each step; infinite at 0.",
    exactly(lambda x: 1 / np.sqrt(x)),
    INTRINSIC,
    lane=lambda L, x, **options: L.div(L.const(FP32, 1.0), L.sqrt(x)),
    formula="out = 1 / sqrt(input)",
    torch="1 / torch.sqrt(input)",
    tolerance=2,
)
unary(
    "cbrt",
    "Real cube root.",
    in_double(np.cbrt),
    arg="self",
    method="",
    tolerance=1,
    torch="torch.copysign(torch.abs(self) ** (1 / 3), self)",
)
reciprocal = unary(
    "reciprocal",
    "1 divided by an element; infinite at 0.",
    exactly(lambda x: 1 / x),
    HIGH_PRECISION,
    lane=lambda L, x, **options: L.div(L.const(FP32, 1.0), x),
    arg="a",
    formula="out = 1 / a",
)
exp = unary("exp", "Exponential.", in_double(np.exp), INTRINSIC, tolerance=1)
unary(
    "exp2",
    "Power of 2.  Integers give FP32.",
    in_double(np.exp2),
    accept=types(ARITHMETIC, BYTES),
    result=float_result,
    formula="out = 2**input",
    tolerance=1,
)
unary(
    "expm1",
    "Exponential less 1, accurate near 0.  Integers give FP32.",
    in_double(np.expm1),
    accept=ARITHMETIC,
    result=float_result,
    formula="out = exp(input) - 1",
    tolerance=1,
)
_POSITIVE = Samples(0.01, 50)
unary(
    "log",
    "Natural logarithm; -inf at 0, NaN below.",
    in_double(np.log),
    INTRINSIC,
    samples=_POSITIVE,
    tolerance=1,
)
unary(
    "log2",
    "Logarithm to base 2; -inf at 0, NaN below.",
    in_double(np.log2),
    INTRINSIC,
    samples=_POSITIVE,
    tolerance=1,
)
unary(
    "log10",
    "Logarithm to base 10; -inf at 0, NaN below.",
    in_double(np.log10),
    INTRINSIC,
    samples=_POSITIVE,
    tolerance=1,
)
unary(
    "log1p",
    "Natural logarithm of 1 + x, accurate near 0.",
    in_double(np.log1p),
    formula="out = log(1 + input)",
    samples=Samples(-0.9, 9),
    tolerance=1,
)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


sigmoid = unary(
    "sigmoid",
    "Logistic function.",
    in_double(_sigmoid),
    formula="out = 1 / (1 + exp(-input))",
    tolerance=1,
)

# --- angles --------------------------------------------------------------------------------------

_UNIT = Samples(-1, 1)
_NO_BF16 = types(FP16, FP32)
unary(
    "sin",
    "Sine of radians up to 65504.",
    in_double(np.sin),
    arg="self",
    accept=_NO_BF16,
    tolerance=1,
)
unary(
    "cos",
    "Cosine of radians up to 65504.",
    in_double(np.cos),
    arg="self",
    accept=_NO_BF16,
    tolerance=1,
)
unary("tan", "Tangent of radians.", in_double(np.tan), arg="x", method="", tolerance=1)
unary(
    "asin",
    "Inverse sine; NaN beyond 1.",
    in_double(np.arcsin),
    arg="self",
    method="",
    samples=_UNIT,
    tolerance=1,
)
unary(
    "acos",
    "Inverse cosine, from 0 to pi; NaN beyond 1.",
    in_double(np.arccos),
    arg="self",
    method="",
    samples=_UNIT,
    tolerance=1,
)
unary("atan", "Inverse tangent.", in_double(np.arctan), arg="self", method="", tolerance=1)
unary("sinh", "Hyperbolic sine.", in_double(np.sinh), tolerance=1)
unary("cosh", "Hyperbolic cosine.", in_double(np.cosh), tolerance=1)
unary("tanh", "Hyperbolic tangent.", in_double(np.tanh), arg="a", tolerance=1)
unary("asinh", "Inverse hyperbolic sine.", in_double(np.arcsinh), tolerance=1)
unary(
    "acosh",
    "Inverse hyperbolic cosine; NaN below 1.",
    in_double(np.arccosh),
    samples=Samples(1, 9),
    tolerance=1,
)
unary(
    "atanh",
    "Inverse hyperbolic tangent; infinite at ±1, NaN beyond.",
    in_double(np.arctanh),
    method="",
    samples=_UNIT,
    tolerance=1,
)

# --- error function ------------------------------------------------------------------------------

# NumPy has none; the one of the standard library is exact to an ulp of FP64.
_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
unary(
    "erf",
    "Gauss error function.",
    in_double(_erf),
    arg="self",
    method="",
    tolerance=1,
)
unary(
    "erfc",
    "1 less the error function, accurate for large elements.",
    in_double(_erfc),
    formula="out = 1 - erf(input)",
    tolerance=1,
)

# --- rounding ------------------------------------------------------------------------------------


def whole(f: Callable[[Array], Array]) -> Callable[..., Array]:
    """A rounding of floats; integers are whole already, whatever their size."""

    def reference(x: Array, **options: Any) -> Array:
        return f(x) if is_float(x) else x

    return reference


def _whole_lane(name: str) -> Callable[..., Lane]:
    return lambda L, x: L.one(name, x) if x.dtype.is_float else x


def rounding(name: str, sentence: str, f: Callable[[Array], Array]) -> Callable[..., Tensor]:
    """Declare a rounding to whole numbers."""
    return unary(name, sentence, whole(f), accept=ARITHMETIC, lane=_whole_lane(name))


rounding("ceil", "Rounds up.", np.ceil)
floor = rounding("floor", "Rounds down.", np.floor)
rounding("trunc", "Rounds toward zero.", np.trunc)


def _round(x: Array, decimals: int) -> Array:
    if not is_float(x):
        return x if decimals >= 0 else np.round(x, decimals)
    if decimals < 0:
        unit = np.float32(10.0**-decimals)
        return np.rint(x / unit) * unit
    unit = np.float32(10.0 ** min(decimals, 39))
    return np.rint(x * unit) / unit


def _round_lane(L: Any, x: Lane, decimals: int) -> Lane:
    if not x.dtype.is_float:
        return x if decimals >= 0 else _round_integer(L, x, -decimals)
    places = abs(decimals)
    unit = L.const(FP32, float(f"1e{places}") if places <= 38 else np.inf)
    if decimals < 0:
        return L.mul(L.rint(L.div(x, unit)), unit)
    return L.div(L.rint(L.mul(x, unit)), unit)


def _round_integer(L: Any, x: Lane, places: int) -> Lane:
    """In FP64, as NumPy does; what has no place in 32 bits becomes the least of them."""
    unit = L.const(FP64, float(f"1e{places}"))
    rounded = L.mul(L.rint(L.div(L.convert(x, FP64), unit)), unit)
    least = L.const(FP64, -(2.0**31))
    fits = L.compare("lt", L.abs(rounded), L.neg(least))
    return L.convert(L.convert(L.select(fits, rounded, least), INT32), x.dtype)


unary(
    "round",
    "Rounds to a number of decimals, halves to even; negative ones round left of the point.",
    _round,
    Arg("decimals", "int", 0),
    lane=_round_lane,
    accept=ARITHMETIC,
    formula="out = rint(input * 10**decimals) / 10**decimals",
    torch="torch.round(input, decimals=decimals) if input.is_floating_point() else input",
)

# --- tests ---------------------------------------------------------------------------------------

unary(
    "logical_not",
    "Whether an element is zero; NaN is not.",
    exactly(np.logical_not),
    lane=lambda L, x: L.compare("eq", x, L.const(x.dtype, 0)),
    accept=types(FLOATS, WORDS, BOOL),
    result=always(BOOL),
    formula="out = input == 0",
    samples=Samples(-1, 1),
)
unary(
    "bitwise_not",
    "The other bits; for DT_BOOL the other truth value.",
    exactly(np.invert),
    lane=lambda L, x: L.flip(x),
    arg="self",
    accept=types(WORDS, BOOL),
    formula="out = ~self",
    method="",
    samples=Samples(-100, 100),
)


def _finite_lane(L: Any, x: Lane) -> Lane:
    if not x.dtype.is_float:
        return L.const(BOOL, True)
    return L.compare("lt", L.abs(x), L.const(FP32, np.inf))


unary(
    "isfinite",
    "Whether an element is neither infinite nor NaN; integers are.",
    exactly(np.isfinite),
    lane=_finite_lane,
    arg="self",
    accept=types(FLOATS, WORDS, LONGS),
    result=always(BOOL),
    method="",
)
unary(
    "isnan",
    "Whether an element is NaN.",
    exactly(np.isnan),
    lane=lambda L, x: L.is_nan(x),
    arg="self",
    result=always(BOOL),
    method="",
)
