"""Native gathers and scatters.

The interpreter, on the same graph, judges every element and every error.
"""

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_runs import Both

import pypto

F32 = np.float32
BF16 = np.dtype(ml_dtypes.bfloat16)
ANY = pypto.Tensor()
EXTENTS = pypto.Tensor([], pypto.DT_INT32)
DYN = pypto.DYNAMIC
FLOATS = [np.dtype(F32), np.dtype(np.float16), BF16]
SCATTERED = [*FLOATS, *map(np.dtype, ("i1", "u1", "i2", "i4"))]
PUT = [*SCATTERED, *map(np.dtype, ("u2", "u4", "i8", "u8"))]


def set_tiles():
    pypto.set_vec_tile_shapes(8, 8, 8, 8, 8)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])


def part(t, extents, start):
    """All of a tensor, valid to the extents that stand from `start` on."""
    valid = [extents[start + axis] for axis in range(t.dim)]
    return pypto.view(t, t.shape, [0] * t.dim, valid_shape=valid)


def numbers(rng, dtype, shape):
    """Small numbers of both signs, special ones among floats."""
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)
    array = rng.normal(0, 3, shape)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape)
    return np.where(rng.random(shape) < 0.2, special, array).astype(dtype)


def cut(rng, shape):
    """Valid extents: often everything, sometimes nothing."""
    return tuple(int(n if rng.random() < 0.5 else rng.integers(0, n + 1)) for n in shape)


def places_within(rng, shape, size, dtype, wrong=False):
    """Places of 0..size-1, duplicates among them; with `wrong`, one may lie outside."""
    places = rng.integers(0, max(1, size), shape)
    if wrong and places.size:
        flat = places.reshape(-1)
        at = rng.integers(0, flat.size)
        flat[at] = rng.choice([size, -1, size + 100, -(2**31), 2**31 - 1])
    return places.astype(dtype)


def extents(*boxes):
    return np.array([n for box in boxes for n in box] or [0], np.int32)


def name_of(dtype):
    return dtype.name


seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=25)

# --- gather --------------------------------------------------------------------------------------


@functools.cache
def gathering(dim, shape, index, dtype, places):
    @pypto.frontend.jit
    def kernel(x: ANY, i: ANY, e: EXTENTS, out: ANY):
        set_tiles()
        out[:] = pypto.gather(part(x, e, 0), dim, part(i, e, x.dim))

    arrays = [np.zeros(shape, dtype), np.zeros(index, places)]
    return Both(kernel, *arrays, extents(shape, index), np.zeros(index, dtype))


GATHERS = [
    (0, (7,), (19,)),
    (0, (6, 5), (9, 5)),
    (1, (6, 5), (4, 17)),
    (-1, (3, 4, 16), (3, 4, 16)),
    (1, (3, 4, 9), (2, 5, 9)),
    (2, (2, 3, 4, 5), (2, 1, 9, 5)),
]


@pytest.mark.parametrize("places", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [*FLOATS, *map(np.dtype, ("i2", "u2", "i4", "u4"))], ids=name_of)
@pytest.mark.parametrize("case", GATHERS, ids=str)
def test_gather(case, dtype, places):
    dim, shape, index = case
    both = gathering(dim, shape, index, dtype, places)
    rng = np.random.default_rng(7)
    for wrong in (False, False, False, True, True):
        x, box, area = numbers(rng, dtype, shape), cut(rng, shape), cut(rng, index)
        i = places_within(rng, index, box[dim], places, wrong)
        both.run(x, i, extents(box, area), np.zeros(index, dtype))


@few
@given(st.sampled_from(GATHERS), st.booleans(), seeds)
def test_gather_of_any_part(case, wrong, seed):
    dim, shape, index = case
    both, rng = gathering(dim, shape, index, np.dtype(F32), np.int32), np.random.default_rng(seed)
    box, area = cut(rng, shape), cut(rng, index)
    i = places_within(rng, index, box[dim], np.int32, wrong)
    both.run(numbers(rng, np.dtype(F32), shape), i, extents(box, area), np.zeros(index, F32))


def test_gather_tells_the_first_place_outside():
    both = gathering(1, (6, 5), (4, 17), np.dtype(F32), np.int32)
    i = np.zeros((4, 17), np.int32)
    i[2, 16], i[3, 0] = 5, -1
    out = np.zeros((4, 17), F32)
    (_, _, _, after), problem = both.run(np.ones((6, 5), F32), i, extents((6, 5), (4, 17)), out)
    assert "gather(): index[2, 16] is 5, outside of 0..4" in problem.text
    assert (after == 0).all()


# --- scatter -------------------------------------------------------------------------------------


@functools.cache
def scattering(form, dim, shape, index, dtype, reduce):
    """`form`: elements of a tensor, a number, an integer of the run, the tensor itself."""

    @pypto.frontend.jit
    def kernel(x: ANY, i: ANY, src: ANY, e: EXTENTS, out: ANY):
        set_tiles()
        t, places = part(x, e, 0), part(i, e, x.dim)
        source = part(src, e, 2 * x.dim)
        if form == "number":
            source = 3
        elif form == "integer":
            source = e[0] + 1
        out[:] = pypto.scatter(t, dim, places, source, reduce=reduce)

    @pypto.frontend.jit
    def inplace(x: ANY, i: ANY, src: ANY, e: EXTENTS, out: ANY):
        set_tiles()
        out.scatter_(dim, part(i, e, x.dim), out, reduce=reduce)

    arrays = [np.zeros(shape, dtype), np.zeros(index, np.int32), np.zeros(index, dtype)]
    return Both(
        inplace if form == "self" else kernel,
        *arrays,
        extents(shape, index, index),
        np.zeros(shape, dtype),
    )


SCATTERS = [
    (0, (7,), (7,)),
    (0, (6, 5), (4, 5)),
    (1, (6, 5), (3, 4)),
    (1, (3, 4, 9), (2, 3, 9)),
    (-1, (2, 3, 4, 5), (2, 3, 4, 5)),
]


@pytest.mark.parametrize("reduce", [None, "add", "multiply"])
@pytest.mark.parametrize("dtype", SCATTERED, ids=name_of)
@pytest.mark.parametrize("form", ["tensor", "number", "integer", "self"])
@pytest.mark.parametrize("case", [SCATTERS[1], SCATTERS[3]], ids=str)
def test_scatter(case, form, dtype, reduce):
    dim, shape, index = case
    both = scattering(form, dim, shape, index, dtype, reduce)
    rng = np.random.default_rng(3)
    for wrong in (False, False, False, True):
        x, src = numbers(rng, dtype, shape), numbers(rng, dtype, index)
        box = shape if form == "self" else cut(rng, shape)
        area = tuple(min(a, b) for a, b in zip(cut(rng, index), box, strict=True))
        i = places_within(rng, index, box[dim], np.int32, wrong)
        both.run(x, i, src, extents(box, area, cut(rng, index)), x)


@few
@given(
    st.sampled_from(SCATTERS), st.sampled_from([None, "add"]), st.booleans(), st.booleans(), seeds
)
def test_scatter_of_any_part(case, reduce, inplace, wrong, seed):
    dim, shape, index = case
    dtype = np.dtype(np.float16 if reduce else F32)
    form = "self" if inplace else "tensor"
    both, rng = scattering(form, dim, shape, index, dtype, reduce), np.random.default_rng(seed)
    x, src = numbers(rng, dtype, shape), numbers(rng, dtype, index)
    # An index that is valid beyond the tensor is refused.
    box = shape if inplace else cut(rng, shape)
    i = places_within(rng, index, box[dim], np.int32, wrong)
    both.run(x, i, src, extents(box, cut(rng, index), cut(rng, index)), x)


def test_scatter_leaves_all_as_it_was_where_a_place_is_outside():
    both = scattering("self", 0, (6, 5), (4, 5), np.dtype(F32), None)
    x = np.arange(30, dtype=F32).reshape(6, 5)
    i = np.zeros((4, 5), np.int32)
    i[3, 4] = 6
    (*_, after), problem = both.run(x, i, x[:4], extents((6, 5), (4, 5), (4, 5)), x)
    assert "scatter_(): index[3, 4] is 6, outside of 0..5" in problem.text
    assert (after == x).all()


def test_scatter_adds_in_one_rounding():
    both = scattering("tensor", 0, (7,), (7,), np.dtype(np.float16), "add")
    x = np.full(7, 2048, np.float16)
    (*_, out), _ = both.run(
        x, np.zeros(7, np.int32), np.ones(7, np.float16), extents((7,), (7,), (7,)), x
    )
    assert out[0] == 2056  # each sum on its own would stay at 2048


# --- rows of caches ------------------------------------------------------------------------------


@functools.cache
def updating(dtype, places, paged):
    @pypto.frontend.jit
    def kernel(cache: pypto.Tensor([DYN, ...]), i: ANY, src: ANY, e: EXTENTS):
        set_tiles()
        pypto.scatter_update(cache, -2, part(i, e, 0), part(src, e, 2))

    src = (3, 2, 1, 9) if paged else (6, 9)
    cache = (4, 5, 1, 9) if paged else (7, 9)
    arrays = np.zeros(cache, dtype), np.zeros((3, 2), places), np.zeros(src, dtype)
    return Both(kernel, *arrays, extents((3, 2), src))


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("places", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("dtype", [*FLOATS, np.dtype("i2"), np.dtype("i4")], ids=name_of)
def test_scatter_update(dtype, places, paged):
    both = updating(dtype, places, paged)
    rng = np.random.default_rng(11)
    for wrong, blocks in itertools.product((False, False, True), (1, 4, 13)):
        shape = (blocks, 5, 1, 9) if paged else (blocks, 9)
        src = (3, 2, 1, 9) if paged else (6, 9)
        i = places_within(rng, (3, 2), 5 * blocks if paged else blocks, places)
        if wrong:
            i[1, 1] = -1
        boxes = cut(rng, (3, 2)), cut(rng, src)
        both.run(numbers(rng, dtype, shape), i, numbers(rng, dtype, src), extents(*boxes))


def test_scatter_update_tells_the_first_place_outside():
    both = updating(np.dtype(F32), np.int32, False)
    cache = np.ones((4, 9), F32)
    i = np.array([[0, 1], [2, 4], [9, 9]], np.int32)
    (after, *_), problem = both.run(cache, i, np.zeros((6, 9), F32), extents((3, 2), (6, 9)))
    assert "scatter_update(): index[1, 1] is 4, outside of 0..3" in problem.text
    assert (after == 1).all()


@functools.cache
def putting(dtype, places, count, accumulate):
    """`count` vectors of places for the leading axes of a [DYNAMIC, 4, 19] tensor."""

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, ...]), a: ANY, b: ANY, v: ANY, e: EXTENTS):
        set_tiles()
        vectors = (part(a, e, 0), part(b, e, 1))[:count]
        pypto.index_put_(x, vectors, part(v, e, 2), accumulate)

    arrays = np.zeros((5, 4, 19), dtype), np.zeros(6, places), np.zeros(6, places)
    v = (6, 19) if count == 2 else (6, 4, 19)
    return Both(kernel, *arrays, np.zeros(v, dtype), extents((6,), (6,), v))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "accumulate"),
    [*((d, False) for d in PUT), *((d, True) for d in SCATTERED if d.kind != "u")],
    ids=str,
)
def test_index_put(dtype, accumulate, count):
    places = np.int64 if count == 2 else np.uint32
    both, rng = putting(dtype, places, count, accumulate), np.random.default_rng(5)
    v = (6, 19) if count == 2 else (6, 4, 19)
    for wrong, size in itertools.product((False, False, True), (1, 3, 8)):
        a = places_within(rng, 6, size, places)
        b = places_within(rng, 6, 4, places)
        if wrong:
            (a, b)[count - 1][3] = 99
        boxes = cut(rng, (6,)), cut(rng, (6,)), cut(rng, v)
        x = numbers(rng, dtype, (size, 4, 19))
        both.run(x, a, b, numbers(rng, dtype, v), extents(*boxes))


@pytest.mark.parametrize("places", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint64])
def test_index_put_takes_places_of_every_integer_type(places):
    both = putting(np.dtype(F32), places, 1, False)
    x, v = np.zeros((5, 4, 19), F32), np.ones((6, 4, 19), F32)
    a = np.array([4, 0, 0, 2, 4, 1], places)
    whole = extents((6,), (6,), (6, 4, 19))
    both.run(x, a, a, v, whole)
    a[2] = np.iinfo(places).max
    (after, *_), problem = both.run(x, a, a, v, whole)
    assert f"indices[0][2] is {np.iinfo(places).max}, outside of 0..4" in problem.text
    assert (after == 0).all()


def test_values_longer_than_the_rows_are_refused():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, DYN]), a: ANY, v: ANY):
        set_tiles()
        pypto.index_put_(x, (a,), v)

    a, v = np.zeros(2, np.int32), np.ones((2, 5), F32)
    both = Both(kernel, np.zeros((3, 5), F32), a, v)
    both.run(np.zeros((3, 5), F32), a, v)
    (after, *_), problem = both.run(np.zeros((3, 4), F32), a, v)
    assert "index_put_(): values is valid to 5 on axis 1, input to 4" in problem.text
    assert (after == 0).all()


# --- paged tables --------------------------------------------------------------------------------


@functools.cache
def paging(dtype, form):
    trans = form == "turned"

    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([DYN, ...]), i: ANY, table: ANY, e: EXTENTS, out: ANY):
        set_tiles()
        places, blocks = part(i, e, 0), part(table, e, 2)
        if form == "vector":
            rows = pypto.experimental.gather_in_ub(x, places, blocks, 3, -2)
        else:
            rows = pypto.experimental.gather_in_l1(x, places, blocks, 3, 7, False, trans)
        pypto.assemble(rows, [0, 0], out)

    shape = {"vector": (6, 10), "plain": (6, 7), "turned": (7, 6)}[form]
    arrays = np.zeros((12, 10), dtype), np.zeros((1, 6), np.int32), np.zeros((1, 4), np.int32)
    return Both(kernel, *arrays, extents((1, 6), (1, 4)), np.zeros(shape, dtype)), shape


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        *(("vector", np.dtype(d)) for d in (F32, np.float16)),
        *((f, d) for f in ("plain", "turned") for d in (*FLOATS, np.dtype("i1"))),
    ],
    ids=str,
)
def test_rows_of_a_paged_tensor(form, dtype):
    (both, shape), rng = paging(dtype, form), np.random.default_rng(2)
    for wrong in ("", "", "", "places", "table", "overflow"):
        x = numbers(rng, dtype, (12, 10))
        boxes = (1 if wrong else int(rng.random() < 0.8), 6), (1, 4)
        i = places_within(rng, (1, 6), 12, np.int32)
        table = rng.permutation(4).astype(np.int32).reshape(1, 4)
        if wrong == "places":
            i[0, 4] = 12
        elif wrong:
            table[0, i[0, 2] // 3] = 4 if wrong == "table" else -(2**31)
        both.run(x, i, table, extents(*boxes), np.zeros(shape, dtype))
