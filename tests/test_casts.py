"""Casts between every pair of element types that a chip has: rounding, saturation, refusals.

In: one kernel a test that casts a tensor. Out: each element rounded once, in the direction that
the mode says, or the error that names a way round.
"""

import numpy as np
import op_matrix as matrix
import pytest
from op_matrix import ask, ulps

import pypto
from pypto.ir.dtype import DataType

PAIRS = [
    (source, target)
    for source, targets in pypto.ops.cast.PAIRS.items()
    for target in targets
    if source is not target
]


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda d: d.short)
def test_cast_by_default_is_torch_s(source, target):
    rng = np.random.default_rng(7)
    if source.is_float:
        array = rng.uniform(-300 if target.kind != "u" else 0, 255, 64).astype(source.numpy)
        array = np.clip(array, -127, 127) if target is DataType.DT_INT8 else array
    else:
        info = np.iinfo(source.numpy)
        array = rng.integers(max(info.min, -(2**40)), min(info.max, 2**40), 64)
        array = array.astype(source.numpy)
    got = ask(lambda t: pypto.cast(t, target), array, dtype=target.numpy)
    if target.is_float:
        # One rounding, to nearest with ties to even.
        want = matrix.to_torch(array, True).numpy().astype(np.float32).astype(target.numpy)
    else:
        wide = np.trunc(array.astype(np.float64)) if source.is_float else array
        want = wide.astype(np.int64).astype(target.numpy)
    assert ulps(got, want) == 0


ROUNDINGS = {
    pypto.CastMode.CAST_RINT: lambda down, up, x: up if x - down > up - x else down,
    pypto.CastMode.CAST_FLOOR: lambda down, up, x: down,
    pypto.CastMode.CAST_CEIL: lambda down, up, x: up,
    pypto.CastMode.CAST_TRUNC: lambda down, up, x: down if x > 0 else up,
    pypto.CastMode.CAST_ROUND: lambda down, up, x: up if x - down >= up - x else down,
}


@pytest.mark.parametrize("mode", ROUNDINGS, ids=lambda m: m.name)
@pytest.mark.parametrize("target", [np.float16, matrix.BF16], ids=["fp16", "bf16"])
def test_narrowing_rounds_by_its_mode(mode, target):
    # 1 + 3/4 and 1 + 1/2 units of the last place, and an exact number.
    unit = 2.0**-10 if target is np.float16 else 2.0**-7
    x = np.array([1 + 0.75 * unit, 1 + 0.5 * unit, 1 + 0.25 * unit, 1.0], np.float32)
    dtype = pypto.DT_FP16 if target is np.float16 else pypto.DT_BF16
    for sign in (1, -1):
        got = ask(lambda t: pypto.cast(t, dtype, mode), sign * x, dtype=target)
        want = []
        for item in (sign * x).tolist():
            down, up = np.floor(item / unit) * unit, np.ceil(item / unit) * unit
            if mode is pypto.CastMode.CAST_ROUND and sign < 0:
                want.append(-ROUNDINGS[mode](-up, -down, -item))
            elif mode is pypto.CastMode.CAST_RINT and item - down == up - item:
                want.append(down if (down / unit) % 2 == 0 else up)
            else:
                want.append(ROUNDINGS[mode](down, up, item))
        assert got.astype(np.float64).tolist() == want


def test_narrowing_of_long_integers_is_exact_about_ties():
    x = np.array([2**24 + 1, 2**53 + 1, -(2**24 + 1), 2**62 + 1, 2**63 - 1, 3], np.int64)
    modes = pypto.CastMode
    ask_mode = lambda mode: ask(
        lambda t: pypto.cast(t, pypto.DT_FP32, mode), x, dtype=np.float32
    ).tolist()
    gap = 2.0**39
    assert ask_mode(modes.CAST_RINT) == [2**24, 2.0**53, -(2**24), 2.0**62, 2.0**63, 3]
    assert ask_mode(modes.CAST_ROUND) == [2**24 + 2, 2.0**53, -(2**24 + 2), 2.0**62, 2.0**63, 3]
    assert ask_mode(modes.CAST_FLOOR) == [2**24, 2.0**53, -(2**24 + 2), 2.0**62, 2.0**63 - gap, 3]
    assert ask_mode(modes.CAST_CEIL) == [
        2**24 + 2,
        2.0**53 + 2.0**30,
        -(2**24),
        2.0**62 + gap,
        2.0**63,
        3,
    ]


@pytest.mark.parametrize(
    ("target", "off", "on"),
    [
        (pypto.DT_INT8, [44, -44, 127, 127, -128, 0, 0], [127, -128, 127, 127, -128, 0, 0]),
        (pypto.DT_UINT8, [44, 212, 127, 255, 0, 0, 0], [255, 0, 127, 255, 0, 0, 0]),
        (pypto.DT_INT16, [300, -300, 127, 2**15 - 1, -(2**15), 0, 0], None),
        (pypto.DT_INT32, [300, -300, 127, 2**31 - 1, -(2**31), 0, 0], None),
    ],
    ids=lambda d: getattr(d, "short", ""),
)
def test_cast_beyond_the_range_of_an_integer(target, off, on):
    x = np.array([300.7, -300.2, 127.9, np.inf, -np.inf, np.nan, -0.9], np.float16)
    for mode, want in ((pypto.SaturationMode.OFF, off), (pypto.SaturationMode.ON, on or off)):
        cast = lambda t: pypto.cast(t, target, satmode=mode)
        assert ask(cast, x, dtype=target.numpy).tolist() == want


def test_cast_of_a_huge_float_keeps_the_low_bits_of_its_integer():
    x = np.array([2.0**32 + 512, -(2.0**32) - 512, 2.0**40, 2.0**80], np.float32)
    off = lambda t: pypto.cast(t, pypto.DT_INT32)
    assert ask(off, x, dtype=np.int32).tolist() == [512, -512, 0, 0]
    on = lambda t: pypto.cast(t, pypto.DT_INT32, satmode=pypto.SaturationMode.ON)
    low, high = -(2**31), 2**31 - 1
    assert ask(on, x, dtype=np.int32).tolist() == [high, low, high, high]


def test_bf16_to_fp16_clamps_and_fp32_to_fp16_does_not():
    x = np.array([1e6, -1e6, np.nan, 1.5])
    clamped = ask(lambda t: pypto.cast(t, pypto.DT_FP16), x.astype(matrix.BF16), dtype=np.float16)
    assert ulps(clamped, np.array([65504, -65504, np.nan, 1.5], np.float16)) == 0
    infinite = ask(lambda t: pypto.cast(t, pypto.DT_FP16), x.astype(np.float32), dtype=np.float16)
    assert ulps(infinite, np.array([np.inf, -np.inf, np.nan, 1.5], np.float16)) == 0


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (np.int8, pypto.DT_FP32, "no direct path from DT_INT8 to DT_FP32; use INT8→FP16→FP32"),
        (np.float16, pypto.DT_BF16, "use FP16→FP32→BF16"),
        (np.int64, pypto.DT_INT16, "use INT64→INT32→INT16"),
        (np.float32, pypto.DT_BOOL, "no path from DT_FP32 to DT_BOOL"),
        (np.uint16, pypto.DT_FP32, "no path from DT_UINT16 to DT_FP32"),
    ],
)
def test_cast_between_types_that_no_chip_pairs(source, target, words):
    with pytest.raises(TypeError) as caught:
        ask(lambda t: pypto.cast(t, target), np.zeros(4, source), dtype=target.numpy)
    assert caught.value.code == "FC0001"
    assert words in caught.value.text
    if target is pypto.DT_BOOL:
        assert caught.value.fix == "compare instead: `pypto.ne(x, 0.0)`"


def test_cast_of_bool_names_the_way_to_numbers():
    with pytest.raises(TypeError) as caught:
        ask(lambda t: pypto.cast(t, pypto.DT_FP32), np.zeros(4, np.bool_), dtype=np.float32)
    assert caught.value.code == "FC0001"
    assert caught.value.fix == "pypto.cast(pypto.where(t, 1.0, 0.0), pypto.DT_FP32)"


def test_cast_mode_that_a_pair_lacks_is_warned_of():
    odd = pypto.CastMode.CAST_ODD
    with pytest.warns(pypto.error.PyptoWarning, match="has no CAST_ODD; it rounds by CAST_RINT"):
        x = np.array([1.0039, 1.0], np.float32)
        got = ask(lambda t: pypto.cast(t, pypto.DT_BF16, odd), x, dtype=matrix.BF16)
    assert got.astype(np.float32).tolist() == [1.0, 1.0]


def test_cast_to_odd_keeps_what_was_lost_in_the_last_bit():
    x = np.array([1.0003, 1.001220703125, 1.0, -1.0003], np.float32)
    odd = lambda t: pypto.cast(t, pypto.DT_FP16, pypto.CastMode.CAST_ODD)
    want = [1.0009765625, 1.0009765625, 1.0, -1.0009765625]
    assert ask(odd, x, dtype=np.float16).tolist() == want
