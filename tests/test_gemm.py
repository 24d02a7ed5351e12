"""Matrix products of the CPU backend against NumPy in FP64."""

import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest
from gemm_harness import TYPES, compiled_for, native

from pypto.cpu.gemm import Product, scratch_bytes
from pypto.cpu.target import Target, host

FP32, FP16, BF16, INT8 = TYPES
SIZES = (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 130)
DEPTHS = (0, 1, 2, 7, 16, 17, 33, 64, 100, 385, 770)
GUARD = 77

_LINUX = "x86_64-unknown-linux-gnu"
_AVX512 = "+avx512f,+avx512bw,+avx512vl,+avx512dq,+avx2,+fma,+f16c,-prefer-256-bit"
TARGETS = {
    "sse2": Target(_LINUX, "x86-64", "", 16, 16),
    "avx2": Target(_LINUX, "haswell", "+avx2,+fma,+f16c", 32, 16),
    "avx512": Target(_LINUX, "skylake-avx512", _AVX512, 64, 32),
    "neon": Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", 16, 32),
    "apple": Target("arm64-apple-macosx", "apple-m1", "+neon", 16, 32),
}


def values(rng, dtype, rows, columns, layout):
    """A matrix as a view: of itself, of its transpose, of every other element of a larger one."""
    shape = {"rows": (rows, columns), "columns": (columns, rows)}.get(
        layout, (2 * rows + 1, 3 * columns + 2)
    )
    if dtype is INT8:
        made = rng.integers(-128, 128, shape)
    else:
        made = rng.standard_normal(shape)
    made = made.astype(TYPES[dtype])
    if layout == "rows":
        return made
    if layout == "columns":
        return made.T
    if layout == "window":
        return made[1 : rows + 1, 2 : columns + 2]
    return made[1::2, 2::3][:rows, :columns]


def result_of(dtype, m, n):
    """A window of C in a larger array full of the guard value."""
    whole = np.full((m + 3, n + 5), GUARD, np.int32 if dtype is INT8 else np.float32)
    return whole, whole[1 : m + 1, 2 : n + 2]


def check(spec, a, b):
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    whole, c = result_of(spec.dtype, m, n)
    before = c.astype(np.float64)
    native(spec)(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = x @ y + (before if spec.accumulate else 0)
    bound = np.zeros((m, n))
    if spec.dtype is INT8:
        expected = expected.astype(np.int64).astype(np.int32).astype(np.float64)
    else:
        bound = 2 * (k + 1) * 2.0**-24 * (abs(x) @ abs(y) + abs(before) * spec.accumulate)
    wrong = abs(c.astype(np.float64) - expected) > bound
    assert not wrong.any(), f"{m}×{n}×{k}: {np.argwhere(wrong)[:3].tolist()}"
    c[:] = GUARD
    assert (whole == GUARD).all(), f"{m}×{n}×{k}: written beside the result"


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "layouts", list(itertools.product(("rows", "columns"), repeat=2)), ids="-".join
)
def test_every_size_and_transposition(dtype, layouts):
    rng = np.random.default_rng(1)
    for m, n in itertools.product(SIZES, repeat=2):
        k = DEPTHS[(m + n) % len(DEPTHS)]
        a, b = (values(rng, dtype, *s, l) for s, l in zip(((m, k), (k, n)), layouts))
        check(Product(dtype), a, b)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_every_depth(dtype):
    rng = np.random.default_rng(2)
    for k in (*SIZES, 383, 384, 385, 767, 768, 769, 2047, 2049):
        for (m, n), layout in itertools.product(((9, 33), (40, 1), (1, 40)), ("rows", "columns")):
            check(
                Product(dtype), values(rng, dtype, m, k, layout), values(rng, dtype, k, n, layout)
            )


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "layouts", list(itertools.product(("window", "spread"), repeat=2)), ids="-".join
)
def test_views_of_larger_arrays(dtype, layouts):
    rng = np.random.default_rng(3)
    for m, n, k in ((1, 20, 17), (20, 1, 65), (3, 3, 3), (16, 64, 33), (37, 70, 129)):
        a, b = (values(rng, dtype, *s, l) for s, l in zip(((m, k), (k, n)), layouts))
        check(Product(dtype), a, b)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_blocks_of_large_matrices(dtype):
    rng = np.random.default_rng(4)
    for layout in ("rows", "columns"):
        a, b = values(rng, dtype, 395, 800, layout), values(rng, dtype, 800, 1041, layout)
        check(Product(dtype), a, b)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_known_sizes(dtype):
    rng = np.random.default_rng(5)
    for m, n, k in (
        (64, 128, 128),
        (16, 16, 16),
        (65, 17, 33),
        (64, 1, 64),
        (1, 64, 64),
        (4, 4, 0),
    ):
        for layout in ("rows", "columns"):
            a, b = values(rng, dtype, m, k, layout), values(rng, dtype, k, n, layout)
            check(Product(dtype, m, n, k), a, b)


@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
def test_accumulation_onto_what_is_there(dtype):
    rng = np.random.default_rng(6)
    for m, n, k in ((8, 32, 4), (19, 45, 800), (64, 1, 64), (3, 50, 70), (50, 2, 0), (9, 9, 0)):
        a, b = values(rng, dtype, m, k, "rows"), values(rng, dtype, k, n, "rows")
        check(Product(dtype, accumulate=True), a, b)


@pytest.mark.parametrize("shape", [(9, 40), (40, 1), (1, 40)], ids=str)
def test_int8_extremes_are_exact_and_wrap(shape):
    m, n = shape
    # 2¹⁷ products of 2¹⁴ are 2³¹: one more than INT32 holds.
    for k, low in ((3, -128), (1 << 17, -128), ((1 << 17) + 1, 127)):
        a, b = np.full((m, k), -128, np.int8), np.full((k, n), low, np.int8)
        whole, c = result_of(INT8, m, n)
        native(Product(INT8))(a, b, c)
        total = -128 * low * k
        assert (c == (total + (1 << 31)) % (1 << 32) - (1 << 31)).all()


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(9, 40, 33), (40, 1, 33), (1, 40, 33), (64, 64, 64)], ids=str)
def test_nan_and_infinity_stay_in_their_rows(dtype, shape):
    m, n, k = shape
    rng = np.random.default_rng(7)
    a, b = values(rng, dtype, m, k, "rows"), abs(values(rng, dtype, k, n, "columns"))
    a[m - 1, k - 1] = np.nan
    a[0, 0] = np.inf if m > 1 else np.nan
    whole, c = result_of(dtype, m, n)
    native(Product(dtype))(a, b, c)
    assert np.isnan(c[m - 1]).all()
    assert m == 1 or (c[0] == np.inf).all()
    assert np.isfinite(c[1 : m - 1]).all()


def test_the_order_of_summation_does_not_depend_on_strides():
    rng = np.random.default_rng(8)
    for m, n, k in ((33, 65, 500), (40, 1, 100), (40, 3, 77), (2, 70, 100)):
        results = []
        a, b = values(rng, FP32, m, k, "rows"), values(rng, FP32, k, n, "rows")
        wide_a, wide_b = np.zeros((2 * m, 2 * k), np.float32), np.zeros((2 * k, 2 * n), np.float32)
        wide_a[::2, ::2], wide_b[::2, ::2] = a, b
        for x in (a, np.asfortranarray(a), wide_a[::2, ::2]):
            for y in (b, np.asfortranarray(b), wide_b[::2, ::2]):
                c = np.empty((m, n), np.float32)
                native(Product(FP32))(x, y, c)
                results.append(c)
        for other in results[1:]:
            assert (other == results[0]).all()


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_gets_an_object(name):
    specs = [Product(dtype) for dtype in TYPES] + [Product(FP32, 64, 64, 64)]
    made = compiled_for(specs, TARGETS[name])
    magic = b"\xcf\xfa\xed\xfe" if name == "apple" else b"\x7fELF"
    assert made.startswith(magic)


NARROWER = [("avx2", dtype) for dtype in TYPES] + [("sse2", FP32), ("sse2", BF16), ("sse2", INT8)]


@pytest.mark.parametrize(("name", "dtype"), NARROWER, ids=str)
def test_narrower_vectors_give_the_same_products(name, dtype):
    target = TARGETS[name]
    features = llvm.get_host_cpu_features()
    needed = [f.strip("+") for f in target.features.split(",") if f]
    if host().triple.split("-")[0] != "x86_64" or not all(features.get(f) for f in needed):
        pytest.skip(f"this machine has no {name}")
    rng = np.random.default_rng(9)
    for m, n, k in (
        (1, 20, 17),
        (20, 1, 65),
        (3, 3, 3),
        (16, 64, 33),
        (37, 70, 129),
        (13, 12, 400),
    ):
        for layout in ("rows", "columns"):
            a, b = values(rng, dtype, m, k, layout), values(rng, dtype, k, n, layout)
            whole, c = result_of(dtype, m, n)
            native(Product(dtype), target)(a, b, c)
            x, y = a.astype(np.float64), b.astype(np.float64)
            bound = 0 if dtype is INT8 else 2 * k * 2.0**-24 * (abs(x) @ abs(y))
            assert (abs(c - x @ y) <= bound).all()
            c[:] = GUARD
            assert (whole == GUARD).all()


def test_scratch_is_bounded():
    assert scratch_bytes(host(), Product(FP32)) < 1 << 21
    assert scratch_bytes(host(), Product(FP32, 64, 64, 64)) <= 1 << 14
    assert scratch_bytes(host(), Product(BF16, 64, 64, 64)) <= 1 << 15
