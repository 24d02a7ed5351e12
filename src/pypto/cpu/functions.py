"""The lane builder with all functions that records may ask of it.

The functions stand in modules of their own, each over the plain `Lanes`; here they become methods,
so that a record says `L.exp(x)`.
"""

from __future__ import annotations

from pypto.cpu import angles, exponentials, whole
from pypto.cpu.lanes import Lanes


class Elementary(Lanes):
    """Lanes, with elementary functions of FP32 and with division of integers."""

    exp = exponentials.exp
    exp2 = exponentials.exp2
    expm1 = exponentials.expm1
    log = exponentials.log
    log2 = exponentials.log2
    log10 = exponentials.log10
    log1p = exponentials.log1p
    sigmoid = exponentials.sigmoid
    tanh = exponentials.tanh
    sinh = exponentials.sinh
    cosh = exponentials.cosh
    asinh = exponentials.asinh
    acosh = exponentials.acosh
    atanh = exponentials.atanh
    erf = exponentials.erf
    erfc = exponentials.erfc
    cbrt = exponentials.cbrt
    pow = exponentials.pow
    hypot = exponentials.hypot

    sin = angles.sin
    cos = angles.cos
    tan = angles.tan
    asin = angles.asin
    acos = angles.acos
    atan = angles.atan
    atan2 = angles.atan2

    fmod = whole.fmod
    quotient = whole.quotient
    remainder = whole.remainder
    gcd = whole.gcd
    integer_power = whole.power
