"""Ops that move, pick or contract elements, on tensors that are valid in part.

Each row is a function, operands with the extents to which they are valid, and what NumPy says of
the valid boxes. What a kernel must not touch holds a number that is looked for afterwards.
"""

import numpy as np
import pytest
from op_matrix import BF16, F32, check_box, cut, name_of, noise, public, ramp, run, ulps

import pypto

# --- moves ---------------------------------------------------------------------------------------

MOVES = {
    "transpose2": (lambda t: t.transpose(0, 1), (5, 7), (3, 6), (7, 5), lambda x: x.T),
    "transpose3": (
        lambda t: pypto.transpose(t, 0, -1),
        (2, 3, 5),
        (1, 3, 4),
        (5, 3, 2),
        lambda x: x.swapaxes(0, 2),
    ),
    "transpose4": (
        lambda t: pypto.transpose(t, 1, 3),
        (2, 3, 4, 5),
        (2, 2, 3, 5),
        (2, 5, 4, 3),
        lambda x: x.swapaxes(1, 3),
    ),
    "permute": (
        lambda t: t.permute([3, 0, -2, 1]),
        (2, 3, 4, 5),
        (1, 3, 2, 5),
        (5, 2, 4, 3),
        lambda x: x.transpose(3, 0, 2, 1),
    ),
    "expand": (
        lambda t: t.expand_clone([4, 6, 3]),
        (4, 1, 3),
        (2, 1, 2),
        (4, 6, 3),
        lambda x: np.repeat(x, 6, 1),
    ),
    "expand of nothing": (
        lambda t: t.expand_clone([4, 6]),
        (4, 1),
        (4, 0),
        (4, 6),
        lambda x: np.zeros((4, 0)),
    ),
    "expand to a part": (
        lambda t: pypto.expand_clone(t, [4, 6], valid_shape=[2, 5]),
        (4, 1),
        (2, 1),
        (4, 6),
        lambda x: np.repeat(x, 5, 1),
    ),
    "triu": (lambda t: t.triu(1), (5, 6), (3, 4), (5, 6), lambda x: np.triu(x, 1)),
    "tril": (
        lambda t: pypto.tril(t, -1),
        (2, 5, 6),
        (2, 4, 3),
        (2, 5, 6),
        lambda x: np.tril(x, -1),
    ),
}


@pytest.mark.parametrize(
    "dtype",
    [F32, np.float16, BF16, np.int8, np.int32],
    ids=lambda d: d.__name__ if isinstance(d, type) else "bf16",
)
@pytest.mark.parametrize("row", MOVES.values(), ids=MOVES)
def test_move_keeps_what_is_valid(row, dtype):
    apply, shape, valid, result, numpy = row
    x = (ramp(*shape) % 100 + 1).astype(dtype)
    check_box(run(apply, [(x, valid)], result, dtype), numpy(cut(x, valid)))


def test_triangle_along_a_symbolic_diagonal():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), n: pypto.Tensor([], pypto.DT_INT32), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 8)
        out[:] = pypto.triu(x, n[0] - 1)

    x, out = ramp(4, 4), np.zeros((4, 4), F32)
    for diagonal in (-3, 0, 2, 5):
        kernel(x, np.array([diagonal + 1], np.int32), out)
        assert (out == np.triu(x, diagonal)).all()


@pytest.mark.parametrize("value", [-np.inf, 0, 2.5])
def test_fillpad_makes_everything_valid(value):
    x = ramp(3, 4)
    out = run(lambda t: t.fillpad(value=value) + 0.0, [(x, (2, 3))], (3, 4))
    want = np.full((3, 4), value, F32)
    want[:2, :3] = x[:2, :3]
    assert (out == want).all()


def test_fillpad_takes_ints_for_ints():
    x = ramp(2, 2, dtype=np.int16)
    out = run(lambda t: pypto.fillpad(t, value=-3), [(x, (1, 1))], (2, 2), np.int16)
    assert out.tolist() == [[0, -3], [-3, -3]]
    with pytest.raises(ValueError, match="2.5 is a float and the tensor DT_INT16"):
        run(lambda t: pypto.fillpad(t, value=2.5), [x], (2, 2), np.int16)


def test_concat_takes_the_least_of_the_other_axes():
    a, b = ramp(4, 2), -ramp(4, 3)
    out = run(lambda p, q: pypto.concat([p, q], 1), [(a, (3, 2)), (b, (2, 3))], (4, 5))
    check_box(out, np.concatenate([a[:2], b[:2]], 1))


def test_concat_of_pieces_that_leave_a_hole_is_refused():
    with pytest.raises(ValueError, match="fully valid along it") as caught:
        run(lambda p, q: pypto.concat([p, q], 0), [(ramp(4, 2), (3, 2)), ramp(1, 2)], (5, 2))
    assert caught.value.loc is not None
    assert "fillpad" in caught.value.fix


def test_transpose_names_the_pairs_that_it_takes():
    with pytest.raises(ValueError) as caught:
        run(lambda t: pypto.transpose(t, 3, 0), [ramp(2, 3, 4, 5)], (5, 3, 4, 2))
    assert caught.value.code == "FC0000"
    assert "(0, 2), (1, 2), (1, 3), (2, 3)" in caught.value.text
    assert caught.value.fix == "pypto.permute(t, [3, 1, 2, 0])"


# --- places --------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [np.int32, np.int64])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_reads_valid_elements(dim, places):
    x, valid = ramp(4, 5, 6), (3, 4, 5)
    axis = dim % 3
    index = np.random.default_rng(1).integers(0, valid[axis], (3, 4, 6)).astype(places)
    out = run(lambda t, i: pypto.gather(t, dim, i), [(x, valid), (index, (2, 4, 6))], (3, 4, 6))
    # Along the axis the index decides, elsewhere the tensor may be shorter.
    box = [min(a, b) for a, b in zip(valid, (2, 4, 6), strict=True)]
    box[axis] = (2, 4, 6)[axis]
    kept = [slice(n) for n in box]
    kept[axis] = slice(None)
    want = np.take_along_axis(x[tuple(kept)], cut(index, box).astype(np.int64), axis)
    check_box(out, want)


@pytest.mark.parametrize("wrong", [3, -1], ids=["after", "before"])
def test_place_outside_of_what_is_valid_is_an_index_error(wrong):
    index = np.array([[0, 2], [1, wrong]], np.int32)
    with pytest.raises(IndexError) as caught:
        run(lambda t, i: pypto.gather(t, 1, i), [(ramp(2, 4), (2, 3)), index], (2, 2))
    assert caught.value.code == "F00008"
    assert f"gather(): index[1, 1] is {wrong}, outside of 0..2" in caught.value.text
    assert caught.value.loc is not None


@pytest.mark.parametrize(
    ("reduce", "want"),
    [
        (None, [[9, 9, 2, 3], [4, 9, 6, 7]]),
        ("add", [[9, 10, 2, 3], [4, 23, 6, 7]]),
        ("multiply", [[0, 9, 2, 3], [4, 405, 6, 7]]),
    ],
)
@pytest.mark.parametrize("dtype", [F32, np.float16, np.int16])
def test_scatter_of_a_number(reduce, want, dtype):
    x = ramp(2, 4, dtype=dtype)
    index = np.array([[0, 1], [1, 1]], np.int32)
    number = 9 if dtype is np.int16 else 9.0
    out = run(lambda t, i: pypto.scatter(t, 1, i, number, reduce=reduce), [x, index], (2, 4), dtype)
    assert out.tolist() == want
    assert x.tolist() == ramp(2, 4).tolist()


def test_scatter_adds_in_fp32_and_rounds_once():
    x, index = np.full((1, 2), 2048, np.float16), np.zeros((1, 4), np.int32)
    add = lambda t, i: pypto.scatter(t, 1, i, 1.0, reduce="add")
    # One by one, each 1 would be lost.
    assert run(add, [x, index], (1, 2), np.float16).tolist() == [[2052, 2048]]


def test_scatter_writes_where_index_and_source_are_valid():
    x, src = np.zeros((4, 3), F32), ramp(2, 3) + 1
    index = np.array([[3, 0, 9], [1, 9, 9]], np.int32)
    apply = lambda t, i, s: pypto.scatter(t, 0, i, s)
    out = run(apply, [x, (index, (1, 3)), (src, (2, 2))], (4, 3))
    assert out.tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]


def test_scatter_in_place_returns_the_tensor():
    same = []

    def apply(t, i):
        local = t + 0.0
        same.append(local.scatter_(1, i, 5.0) is local)
        return local

    out = run(apply, [ramp(1, 3), np.array([[0, 2]], np.int32)], (1, 3))
    assert out.tolist() == [[5, 1, 5]]
    assert same == [True]


@pytest.mark.parametrize("valid", [(2, 2), (2, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("dtype", [F32, BF16, np.int32], ids=name_of)
def test_scatter_update_writes_valid_rows(dtype, valid):
    cache = np.zeros((6, 3), dtype)
    index, src = np.array([[4, 0], [2, 5]], np.int32), (ramp(4, 3) + 1).astype(dtype)
    apply = lambda t, i, s: (t + 0 if dtype is np.int32 else t + 0.0).scatter_update(-2, i, s)
    out = run(apply, [cache, (index, valid), (src, (3, 2))], (6, 3), dtype)
    want = np.zeros((6, 3))
    for i in range(valid[0]):
        for j in range(valid[1]):
            if 2 * i + j < 3:
                want[index[i, j], :2] = src[2 * i + j, :2].astype(np.float64)
    assert out.astype(np.float64).tolist() == want.tolist()


def test_scatter_update_refuses_before_it_writes():
    @pypto.frontend.jit
    def kernel(cache: pypto.Tensor(), i: pypto.Tensor(), src: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 8)
        pypto.scatter_update(cache, -2, i, src)

    cache = np.zeros((2, 2), F32)
    with pytest.raises(IndexError, match=r"index\[0, 1\] is 2, outside of 0..1"):
        kernel(cache, np.array([[0, 2]], np.int32), ramp(2, 2) + 1)
    assert cache.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("places", [np.int16, np.uint8, np.int64])
def test_index_put(accumulate, places):
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), i: pypto.Tensor(), j: pypto.Tensor(), v: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 8)
        pypto.index_put_(x, (i, j), v, accumulate=accumulate)

    x, v = np.ones((2, 3, 2), F32), ramp(3, 2) + 5
    i, j = np.array([0, 1, 0], places), np.array([2, 0, 1], places)
    want = x.copy()
    if accumulate:
        np.add.at(want, (i, j), v)
    else:
        want[i, j] = v
    kernel(x, i, j, v)
    assert x.tolist() == want.tolist()


def test_index_put_adds_at_one_place_again_and_again():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), i: pypto.Tensor(), v: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8)
        pypto.index_put_(x, (i,), v, accumulate=True)

    for dtype, want in ((np.float16, [2052]), (np.int8, [4])):
        x = np.array([2048 if dtype is np.float16 else 0], dtype)
        kernel(x, np.zeros(4, np.int32), np.ones(4, dtype))
        assert x.tolist() == want


PAGED = {
    "ub": (
        lambda x, i, t: public("experimental.gather_in_ub")(x, i, t, 2, -2),
        lambda rows: rows,
    ),
    "l1": (
        lambda x, i, t: public("experimental.gather_in_l1")(x, i, t, 2, 2, True, False),
        lambda rows: rows[:, :2],
    ),
    "l1 turned": (
        lambda x, i, t: public("experimental.gather_in_l1")(x, i, t, 2, 2, True, True),
        lambda rows: rows[:, :2].T,
    ),
}


@pytest.mark.parametrize("row", PAGED.values(), ids=PAGED)
def test_rows_of_a_paged_tensor(row):
    apply, pick = row
    x, index = ramp(6, 3), np.array([[1, 4, 3, 77]], np.int32)
    table = np.array([[2, 0, 1]], np.int32)
    want = pick(x[[5, 2, 1]])
    out = run(apply, [x, (index, (1, 3)), table], pick(np.zeros((4, 3))).shape)
    check_box(out, want)
    with pytest.raises(IndexError, match="is 77, outside of 0..5"):
        run(apply, [x, index, table], pick(np.zeros((4, 3))).shape)


def test_paged_tensor_and_its_table_may_be_dynamic():
    rows = pypto.Tensor([pypto.DYNAMIC, 3], pypto.DT_FP32)
    table = pypto.Tensor([1, pypto.DYNAMIC], pypto.DT_INT32)

    @pypto.frontend.jit
    def kernel(x: rows, i: pypto.Tensor(), t: table, out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 8)
        out[:] = pypto.experimental.gather_in_ub(x, i, t, 2, -2)

    index, out = np.array([[1, 2]], np.int32), np.zeros((2, 3), F32)
    for blocks in ([1, 0], [0, 2, 1]):
        x = ramp(2 * len(blocks), 3)
        kernel(x, index, np.array([blocks], np.int32), out)
        assert (out == x[[2 * blocks[0] + 1, 2 * blocks[1]]]).all()


# --- order ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("valid", [(3, 9), (2, 5), (3, 2)], ids=str)
def test_topk_orders_valid_elements(largest, valid):
    x = np.random.default_rng(2).integers(0, 4, (3, 9)).astype(F32)
    values = run(lambda t: t.topk(4, largest=largest)[0], [(x, valid)], (3, 4))
    places = run(lambda t: pypto.topk(t, 4, -1, largest)[1], [(x, valid)], (3, 4), np.int32)
    part = cut(x, valid)
    order = np.argsort(-part if largest else part, axis=1, kind="stable")[:, :4]
    check_box(places, order)
    check_box(values, np.take_along_axis(part, order, 1))


# --- products ------------------------------------------------------------------------------------

SIDES = [(False, False), (True, False), (False, True), (True, True)]
BATCHES = [((), ()), ((3,), (3,)), ((1,), (3,)), ((2, 3), (2, 1))]


@pytest.mark.parametrize("sides", SIDES, ids=["ab", "aTb", "abT", "aTbT"])
@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (F32, pypto.DT_FP32),
        (np.float16, pypto.DT_FP16),
        (BF16, pypto.DT_FP32),
        (np.int8, pypto.DT_INT32),
    ],
    ids=["fp32", "fp16", "bf16", "int8"],
)
def test_matmul_contracts_over_what_is_valid(sides, batches, dtype, result):
    m, k, n = 5, 7, 6
    a_trans, b_trans = sides
    lead_a, lead_b = batches
    draw = lambda shape, seed: (10 * noise(*shape, seed=seed)).astype(dtype)
    a = draw((*lead_a, k, m) if a_trans else (*lead_a, m, k), 1)
    b = draw((*lead_b, n, k) if b_trans else (*lead_b, k, n), 2)
    apply = lambda p, q: pypto.matmul(p, q, result, a_trans=a_trans, b_trans=b_trans)
    lead = np.broadcast_shapes(lead_a, lead_b)
    for vm, va, vb, vn in ((m, k, k, n), (3, 4, k, 5), (m, k, 2, n), (2, 5, 5, 1)):
        valid_a = (*lead_a, va, vm) if a_trans else (*lead_a, vm, va)
        valid_b = (*lead_b, vn, vb) if b_trans else (*lead_b, vb, vn)
        out = run(apply, [(a, valid_a), (b, valid_b)], (*lead, m, n), result.numpy)
        wide_a, wide_b = cut(a, valid_a).astype(np.float64), cut(b, valid_b).astype(np.float64)
        wide_a = wide_a.swapaxes(-1, -2) if a_trans else wide_a
        wide_b = wide_b.swapaxes(-1, -2) if b_trans else wide_b
        depth = min(va, vb)
        want = wide_a[..., :depth] @ wide_b[..., :depth, :]
        want = want.astype(np.int32) if dtype is np.int8 else want.astype(F32)
        check_box(out, want.astype(result.numpy), within=0)


def test_matmul_of_two_different_known_parts_of_k_is_refused():
    def apply(p, q):
        left = pypto.view(p, [4, 8], [0, 0], valid_shape=[4, 3])
        right = pypto.view(q, [8, 4], [0, 0], valid_shape=[5, 4])
        return pypto.matmul(left, right, pypto.DT_FP32)

    with pytest.raises(RuntimeError, match="K-dimension valid shape mismatch") as caught:
        run(apply, [ramp(4, 8), ramp(8, 4)], (4, 4))
    assert caught.value.code == "F00003"


def test_matmul_names_the_flag_that_would_fit():
    with pytest.raises(ValueError) as caught:
        run(lambda p, q: pypto.matmul(p, q, pypto.DT_FP32), [ramp(4, 8), ramp(6, 8)], (4, 6))
    assert caught.value.code == "F0000B"
    assert caught.value.fix == "pypto.matmul(p, q, pypto.DT_FP32, b_trans=True)"


def test_matmul_epilogue_comes_in_its_order():
    a, b = np.array([[10, -3], [1, 0]], np.int8), np.array([[12, 1], [5, -9]], np.int8)
    # Accumulators [[105, 37], [12, 1]].
    bias = np.array([[-10, -40]], np.int32)
    product = lambda result, **extension: (
        lambda p, q, r: pypto.matmul(p, q, result, extend_params={"bias_tensor": r, **extension})
    )
    plain = run(product(pypto.DT_INT32), [a, b, bias], (2, 2), np.int32)
    assert plain.tolist() == [[95, -3], [2, -39]]
    relu = product(pypto.DT_INT32, relu_type=pypto.ReLuType.RELU)
    assert run(relu, [a, b, bias], (2, 2), np.int32).tolist() == [[95, 0], [2, 0]]
    # The scale 0.1 is cut to 0.0999755859375 first.
    scaled = run(product(pypto.DT_FP16, scale=0.1), [a, b, bias], (2, 2), np.float16)
    want = np.array([[95, -3], [2, -39]]) * 0.0999755859375
    assert ulps(scaled, want.astype(F32).astype(np.float16)) == 0
    # INT8 results are rounded, halves to even, and clamped.
    narrow = run(product(pypto.DT_INT8, scale=0.5), [a, b, bias], (2, 2), np.int8)
    assert narrow.tolist() == [[48, -2], [1, -20]]
    wide = run(product(pypto.DT_INT8, scale=4.0), [a, b, bias], (2, 2), np.int8)
    assert wide.tolist() == [[127, -12], [8, -128]]


def test_matmul_scale_per_column_is_the_low_half_of_a_word():
    a, b = np.array([[2, 3]], np.int8), np.array([[1, 4], [1, 1]], np.int8)
    words = np.array([0.5, 3.0], F32).view(np.uint32).astype(np.int64).reshape(1, 2) | (7 << 40)
    apply = lambda p, q, s: pypto.matmul(p, q, pypto.DT_FP16, extend_params={"scale_tensor": s})
    assert run(apply, [a, b, words], (1, 2), np.float16).tolist() == [[2.5, 33.0]]


@pytest.mark.parametrize(
    ("extension", "words"),
    [
        ({"bias": 1}, "no key 'bias'"),
        ([1], "extend_params must be a dict, got list"),
        ({"scale": "1"}, "scale must be a number, got str"),
    ],
)
def test_matmul_extension_that_is_none(extension, words):
    apply = lambda p, q: pypto.matmul(p, q, pypto.DT_FP32, extend_params=extension)
    with pytest.raises((TypeError, ValueError)) as caught:
        run(apply, [ramp(4, 8), ramp(8, 4)], (4, 4))
    assert words in caught.value.text


def test_transposed_batches_lie_on_the_middle_axis():
    a, b = noise(4, 3, 5, dtype=np.float16), noise(3, 5, 6, dtype=np.float16, seed=4)
    apply = lambda p, q: public("experimental.transposed_batchmatmul")(p, q, pypto.DT_FP16)
    out = run(apply, [(a, (3, 2, 4)), (b, (3, 5, 5))], (4, 3, 6), np.float16)
    left, right = a[:3, :2, :4].astype(np.float64), b[:2, :4, :5].astype(np.float64)
    check_box(out, np.einsum("mbk,bkn->mbn", left, right).astype(F32).astype(np.float16))
