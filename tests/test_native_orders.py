"""Native reductions, places of extremes, variances and the best k elements.

The interpreter, on the same graph, judges every element: bit for bit, but for sums, whose order is
another one.
"""

import functools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_runs import Both, assert_same, outcome
from op_matrix import ulps

import pypto
from pypto.ir.types import TopKAlgo

F32 = np.dtype(np.float32)
F16 = np.dtype(np.float16)
BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [F32, F16, BF16]
ANY = pypto.Tensor()
EXTENTS = pypto.Tensor([], pypto.DT_INT32)


def part(t, extents):
    return pypto.view(t, t.shape, [0] * t.dim, valid_shape=[extents[a] for a in range(t.dim)])


def drawn(rng, dtype, shape, special=True):
    """Few different numbers, so that many are equal; zeros of both signs, infinities and NaN."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        few = rng.integers(info.min, info.max, 9, dtype=dtype, endpoint=True)
        few[:2] = info.min, info.max
        return rng.choice(few, shape)
    array = np.round(rng.normal(0, 2, shape), 1)
    if special:
        odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], shape)
        array = np.where(rng.random(shape) < 0.05, odd, array)
    return array.astype(dtype)


def cut(rng, shape):
    return [int(n if rng.random() < 0.4 else rng.integers(0, n + 1)) for n in shape]


seeds = st.integers(0, 2**32 - 1)

# --- reductions ----------------------------------------------------------------------------------

# Shapes and axes: along rows, beside them, the only axis, in the middle, an axis of one element.
REDUCED = [((5, 131), 1), ((37, 35), 0), ((133,), 0), ((3, 7, 19), 1), ((4, 1, 9), 1), ((9, 1), 1)]


@functools.cache
def reducing(name, shape, dim, dtype, result):
    functions = {
        "argmax": lambda t: pypto.argmax(t, dim, True),
        "argmin": lambda t: pypto.argmin(t, dim, True),
        "var": lambda t: pypto.var(t, dim, correction=1, keepdim=True),
        "var0": lambda t: pypto.var(t, dim, correction=0, keepdim=True),
        "var9": lambda t: pypto.var(t, dim, correction=9, keepdim=True),
        "sum": lambda t: pypto.sum(t, dim, True),
        "amax": lambda t: pypto.amax(t, dim, True),
        "amin": lambda t: pypto.amin(t, dim, True),
    }

    @pypto.frontend.jit
    def kernel(x: ANY, e: EXTENTS, out: ANY):
        pypto.set_vec_tile_shapes(8, 8, 8)
        out[:] = functions[name](part(x, e))

    kept = [1 if axis == dim else n for axis, n in enumerate(shape)]
    return Both(
        kernel, np.zeros(shape, dtype), np.array(shape, np.int32), np.zeros(kept, result)
    ), np.zeros(kept, result)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), REDUCED)
def test_places_of_extremes(shape, dim, dtype, name):
    both, out = reducing(name, shape, dim, dtype, np.int32)
    rng = np.random.default_rng(1)
    for k in range(6):
        both.run(drawn(rng, dtype, shape, k % 2 == 0), np.array(cut(rng, shape), np.int32), out)


@settings(max_examples=40)
@given(st.sampled_from(REDUCED), st.sampled_from(["argmax", "argmin"]), seeds)
def test_places_of_extremes_in_any_part(case, name, seed):
    shape, dim = case
    both, out = reducing(name, shape, dim, F32, np.int32)
    rng = np.random.default_rng(seed)
    x = drawn(rng, F32, shape, seed % 3 != 0)
    if seed % 5 == 0:
        x = np.where(rng.random(shape) < 0.5, x, np.nan).astype(F32)
    both.run(x, np.array(cut(rng, shape), np.int32), out)


def test_extremes_of_nothing_of_equals_and_of_nan():
    both, out = reducing("argmax", (5, 131), 1, F32, np.int32)
    x = np.full((5, 131), -np.inf, F32)
    x[1, 130] = 3
    x[2, [7, 99]] = 3
    x[3, [128, 129]] = np.nan
    x[3, 0] = np.inf
    x[4, [64, 65]] = -0.0, 0.0
    (*_, found), _ = both.run(x, np.array([5, 131], np.int32), out)
    assert found[:, 0].tolist() == [0, 130, 7, 128, 64]
    (*_, found), _ = both.run(x, np.array([5, 0], np.int32), out)
    assert (found == 0).all()


def close(both, distance, *arrays):
    """Run both; the last array may differ by so many units of the last place."""
    wanted, _, problem = outcome(both.judge, arrays)
    found, _, own = outcome(both.native, arrays)
    assert problem is own is None
    assert ulps(found[-1], wanted[-1]) <= distance
    return found[-1]


@pytest.mark.parametrize("name", ["var", "var0", "var9"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), REDUCED)
def test_variance(shape, dim, dtype, name):
    both, out = reducing(name, shape, dim, dtype, dtype)
    rng = np.random.default_rng(4)
    for k in range(6):
        x = drawn(rng, dtype, shape, k == 5)
        # Large numbers beside their spread: one pass in FP32 would lose it.
        x = x + dtype.type(1000 if k == 4 else 0)
        close(both, 1, x, np.array(cut(rng, shape), np.int32), out)


@pytest.mark.parametrize("name", ["sum", "amax", "amin"])
@pytest.mark.parametrize(("shape", "dim"), REDUCED)
def test_folds_of_any_part(shape, dim, name):
    for dtype in map(np.dtype, ("i2", "i4")):
        both, out = reducing(name, shape, dim, dtype, dtype)
        rng = np.random.default_rng(6)
        for _ in range(5):
            both.run(drawn(rng, dtype, shape), np.array(cut(rng, shape), np.int32), out)


# --- topk ----------------------------------------------------------------------------------------

TYPES = [*FLOATS, *map(np.dtype, ("i1", "u1", "i2", "u2", "i4", "u4"))]
RANKED = [((9,), 3), ((4, 133), 1), ((4, 133), 7), ((3, 70), 70), ((2, 3, 40), 33), ((1, 1), 1)]


@functools.cache
def ranking(shape, k, largest, dtype, turned=False):
    """`turned`: the rows do not lie side by side in memory."""
    algo = TopKAlgo.MERGE_SORT if dtype == F32 else TopKAlgo.RADIX_SELECT

    @pypto.frontend.jit
    def kernel(x: ANY, e: EXTENTS, values: ANY, places: ANY):
        pypto.set_vec_tile_shapes(8, 8, 8)
        if turned:
            t = pypto.view(x, [x.shape[0], 1], [0, e[1]], valid_shape=[e[0], 1])
            t = pypto.reshape(t, [1, x.shape[0]], valid_shape=[1, e[0]])
        else:
            t = part(x, e)
        v, p = pypto.topk(t, k, largest=largest, algo=algo)
        values[:] = v
        places[:] = p

    out = (1, k) if turned else (*shape[:-1], k)
    arrays = np.zeros(shape, dtype), np.array(shape, np.int32)
    outs = np.zeros(out, dtype), np.zeros(out, np.int32)
    return Both(kernel, *arrays, *outs), outs


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("shape", "k"), RANKED)
def test_topk(shape, k, dtype, largest):
    both, outs = ranking(shape, k, largest, dtype)
    rng = np.random.default_rng(8)
    for n in range(4):
        both.run(drawn(rng, dtype, shape, n % 2), np.array(cut(rng, shape), np.int32), *outs)


@settings(max_examples=40)
@given(st.sampled_from(RANKED), st.booleans(), seeds)
def test_topk_of_any_part(case, largest, seed):
    both, outs = ranking(*case, largest, F32)
    rng = np.random.default_rng(seed)
    x = drawn(rng, F32, case[0], seed % 2)
    if seed % 3 == 0:
        x = np.sort(x, -1)[..., :: -1 if seed % 2 else 1].copy()
    both.run(x, np.array(cut(rng, case[0]), np.int32), *outs)


def test_topk_of_a_column():
    both, outs = ranking((40, 6), 11, True, F32, True)
    rng = np.random.default_rng(9)
    for rows in (40, 8, 0):
        both.run(drawn(rng, F32, (40, 6)), np.array([rows, 3], np.int32), *outs)


def test_topk_keeps_the_order_of_equals_and_the_bits():
    both, (values, places) = ranking((4, 133), 7, True, F32)
    x = np.full((4, 133), np.nan, F32)
    x[0, [3, 5, 130]] = 0.0, -0.0, 0.0
    x[1] = 2
    x[2, [0, 132]] = -np.inf, np.inf
    (*_, v, p), _ = both.run(x, np.array([4, 133], np.int32), values, places)
    assert p.tolist()[:3] == [[3, 5, 130, 0, 1, 2, 4], list(range(7)), [132, 0, 1, 2, 3, 4, 5]]
    assert np.signbit(v[0, :3]).tolist() == [False, True, False]
    assert_same(v[2], np.array([np.inf, -np.inf, *[np.nan] * 5], F32))
