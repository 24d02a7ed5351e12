"""Ops by number: worked examples of the language's ops and edge values that others got wrong.

In: one kernel of a few lines a test. Out: the numbers of the example, or torch's in float64 with
the tolerance stated. An `_N` at the end of a name counts the worked examples; a letter and number
name a situation from the field. Over 600 lines: a flat list of examples in the catalogue's order.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import pypto

DT = {
    torch.float32: pypto.DT_FP32,
    torch.float16: pypto.DT_FP16,
    torch.bfloat16: pypto.DT_BF16,
    torch.int8: pypto.DT_INT8,
    torch.uint8: pypto.DT_UINT8,
    torch.int16: pypto.DT_INT16,
    torch.int32: pypto.DT_INT32,
    torch.int64: pypto.DT_INT64,
    torch.bool: pypto.DT_BOOL,
}
F32 = pypto.Tensor([], pypto.DT_FP32)
F16 = pypto.Tensor([], pypto.DT_FP16)
BF16 = pypto.Tensor([], pypto.DT_BF16)
I8 = pypto.Tensor([], pypto.DT_INT8)
I16 = pypto.Tensor([], pypto.DT_INT16)
I32 = pypto.Tensor([], pypto.DT_INT32)
I64 = pypto.Tensor([], pypto.DT_INT64)
BOOL = pypto.Tensor([], pypto.DT_BOOL)
ANY = pypto.Tensor()
GUARD = -7.0
INF = math.inf
NAN = math.nan
HERE = Path(__file__)


def ramp(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def guarded(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, GUARD).to(dtype)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def line_of(mark: str) -> int:
    """The number of the line of this file that ends with the marker comment."""
    lines = HERE.read_text().splitlines()
    return 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


def refused(call, mark, *words, code, builtin):
    """The one error that `call` must end with, at the marked line of this file."""
    with pytest.raises(pypto.error.FeError) as caught:
        call()
    error = caught.value
    assert isinstance(error, builtin), type(error).__mro__
    assert error.code == code
    message = " ".join(f"{error.text} {error.fix or ''}".split())
    for word in words:
        assert word in message, message
    assert error.loc.file == __file__
    assert error.loc.line == line_of(mark)


def ulp_apart(out: torch.Tensor, right: torch.Tensor) -> float:
    """The largest distance between fp32 values and float64 ones, in units of the last place."""
    unit = torch.from_numpy(np.spacing(np.abs(right.float().numpy()))).double()
    return float(((out.double() - right.double()).abs() / unit).max())


def apply(op, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """`op` as a kernel of one op, on tensors of any rank and dtype; the result lands in `out`."""
    tile = [16] * max(x.dim(), out.dim())

    @pypto.frontend.jit
    def kernel(x: ANY, out: ANY):
        pypto.set_vec_tile_shapes(*tile)
        out[:] = op(x)

    kernel(x, out)
    return out


# --- Casts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "right"),
    [
        ("CAST_RINT", [2, -2, 4, 0, -1]),
        ("CAST_ROUND", [3, -3, 4, 1, -1]),
        ("CAST_FLOOR", [2, -3, 3, 0, -1]),
        ("CAST_CEIL", [3, -2, 4, 1, 0]),
        ("CAST_TRUNC", [2, -2, 3, 0, 0]),
        ("CAST_NONE", [2, -2, 3, 0, 0]),
        (None, [2, -2, 3, 0, 0]),
    ],
)
def test_cast_rounds_to_integers_as_its_mode_says_1(mode, right):
    modes = {} if mode is None else {"mode": getattr(pypto.CastMode, mode)}
    x = torch.tensor([2.5, -2.5, 3.5, 0.5, -0.7])
    for dtype in (torch.int32, torch.int16):
        out = guarded(5, dtype=dtype)
        apply(lambda t: pypto.cast(t, DT[dtype], **modes), x, out)
        assert out.tolist() == right


def test_cast_saturates_only_when_asked_2():
    x = torch.tensor([300.7, -300.2, 127.9, -128.9]).half()
    off, on, default = (guarded(4, dtype=torch.int8) for _ in range(3))
    trunc, sat = pypto.CastMode.CAST_TRUNC, pypto.SaturationMode
    apply(lambda t: pypto.cast(t, pypto.DT_INT8, trunc, sat.OFF), x, off)
    apply(lambda t: pypto.cast(t, pypto.DT_INT8, satmode=sat.ON), x, on)
    apply(lambda t: pypto.cast(t, pypto.DT_INT8), x, default)
    assert off.tolist() == [44, -44, 127, -128]
    assert on.tolist() == [127, -128, 127, -128]
    assert default.tolist() == off.tolist()


def test_cast_of_300_to_int8_C4():
    x = torch.tensor([300.0, -300.0]).half()
    off, on = guarded(2, dtype=torch.int8), guarded(2, dtype=torch.int8)
    apply(lambda t: pypto.cast(t, pypto.DT_INT8, satmode=pypto.SaturationMode.OFF), x, off)
    apply(lambda t: pypto.cast(t, pypto.DT_INT8, satmode=pypto.SaturationMode.ON), x, on)
    assert off.tolist() == [44, -44]
    assert on.tolist() == [127, -128]


def test_bf16_ties_go_to_even_C7():
    x = torch.tensor([1.00390625, 1.01171875])
    out = guarded(2, dtype=torch.bfloat16)
    apply(lambda t: pypto.cast(t, pypto.DT_BF16), x, out)
    assert out.tolist() == [1.0, 1.015625]


@pytest.mark.parametrize("op", ["round", "floor", "trunc", "ceil"])
def test_rounding_leaves_large_integers_alone_C9(op):
    x = ints(16777217, 2147483647, -16777217, -2147483648)
    out = apply(getattr(pypto, op), x, guarded(4, dtype=torch.int32))
    assert torch.equal(out, x)


# --- Valid extents -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "explicit", "valid"),
    [(0, None, 4), (2, None, 3), (4, None, 1), (6, None, 0), (2, 2, 2), (0, 3, 3), (4, 0, 0)],
)
def test_view_of_a_view_clamps_its_valid_rows_4(offset, explicit, valid):
    shape = {} if explicit is None else {"valid_shape": [explicit, 16]}

    @pypto.frontend.jit
    def kernel(x: F32, at: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        source = pypto.view(x, [8, 16], [0, 0])
        tile = pypto.view(source, [4, 16], [at[0], 0], **shape)
        pypto.assemble(tile + 0.5, [0, 0], out)

    x, out = ramp(5, 16), guarded(4, 16)
    kernel(x, ints(offset), out)
    assert torch.equal(out[:valid], x[offset : offset + valid] + 0.5)
    assert torch.equal(out[valid:], guarded(4 - valid, 16))


def test_valid_shape_past_the_data_is_refused_4():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        source = pypto.view(x, [8, 16], [0, 0])
        tile = pypto.view(source, [4, 16], [4, 0], valid_shape=[2, 16])  # <- 4
        pypto.assemble(tile + 0.5, [0, 0], out)

    refused(
        lambda: kernel(ramp(5, 16), guarded(4, 16)),
        "4",
        "valid_shape",
        code="F00008",
        builtin=IndexError,
    )


@pytest.mark.parametrize("local", [True, False])
def test_assemble_writes_the_valid_box_only_6(local):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        source = pypto.view(x, [2, 4], [0, 0], valid_shape=[2, 3])
        if local:
            dst = pypto.zeros([2, 6], dtype=pypto.DT_FP32)
            pypto.assemble(source, [0, 2], dst)
            out[:] = dst
        else:
            pypto.assemble(source, [0, 2], out)

    x = torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    whole = guarded(4, 6)
    whole[1:3] = 0.0
    kernel(x, whole[1:3])
    assert whole[1:3].tolist() == [[0, 0, 1, 2, 3, 0], [0, 0, 5, 6, 7, 0]]
    assert torch.equal(whole[[0, 3]], guarded(2, 6))


def test_fillpad_makes_the_padding_count_7():
    @pypto.frontend.jit
    def kernel(x: F32, few: F32, soft: F32, filled: F32, all_: F32, soft_all: F32):
        pypto.set_vec_tile_shapes(16, 16)
        v = pypto.view(x, [1, 4], [0, 0], valid_shape=[1, 2])
        few[:] = pypto.concat([pypto.sum(v, -1, True), pypto.amax(v, -1, True)], 1)
        soft[:] = pypto.softmax(v, -1)
        zeroed = pypto.fillpad(v, value=0)
        filled[:] = zeroed
        all_[:] = pypto.concat([pypto.sum(zeroed - 1.0, -1, True), pypto.amin(zeroed, -1, True)], 1)
        soft_all[:] = pypto.softmax(pypto.fillpad(v, "constant", -INF), -1)

    x = torch.tensor([[1.0, 2.0, NAN, NAN]])
    few, all_ = guarded(1, 2), guarded(1, 2)
    soft, filled, soft_all = (guarded(1, 4) for _ in range(3))
    kernel(x, few, soft, filled, all_, soft_all)
    assert few.tolist() == [[3, 2]]
    assert filled.tolist() == [[1, 2, 0, 0]]
    assert all_.tolist() == [[-1, 0]]
    pair = torch.tensor([1.0, 2.0]).double().softmax(0)
    assert ulp_apart(soft[0, :2], pair) <= 4
    assert soft[0, 2:].tolist() == [GUARD, GUARD]
    assert ulp_apart(soft_all[0, :2], pair) <= 4
    assert soft_all[0, 2:].tolist() == [0, 0]


# --- Sorting, gathering, scattering --------------------------------------------------------------


@pytest.mark.parametrize(
    ("largest", "values", "indices"),
    [(True, [9, 9, 3, 3], [1, 3, 0, 2]), (False, [1, 3, 3, 9], [4, 0, 2, 1])],
)
def test_topk_is_sorted_and_keeps_the_order_of_ties_9(largest, values, indices):
    @pypto.frontend.jit
    def kernel(x: F32, val: F32, idx: I32):
        pypto.set_vec_tile_shapes(16, 16)
        val[:], idx[:] = pypto.topk(x, 4, dim=-1, largest=largest)

    x = torch.tensor([[3.0, 9, 3, 9, 1]])
    val, idx = guarded(2, 4), guarded(2, 4, dtype=torch.int32)
    kernel(x, val[:1], idx[:1])
    assert val.tolist() == [values, [GUARD] * 4]
    assert idx.tolist() == [indices, [-7] * 4]


def test_topk_result_is_a_list_of_two_9():
    @pypto.frontend.jit
    def kernel(x: F32, val: F32, idx: I32):
        pypto.set_vec_tile_shapes(16, 16)
        pair = pypto.topk(x, 2)
        assert isinstance(pair, list)
        val[:] = pair[0]
        idx[:] = pair[1]

    val, idx = guarded(1, 2), guarded(1, 2, dtype=torch.int32)
    kernel(torch.tensor([[1.0, 3, 3, 2]]), val, idx)
    assert (val.tolist(), idx.tolist()) == ([[3, 3]], [[1, 2]])


def test_scatter_update_of_rows_11():
    @pypto.frontend.jit
    def kernel(cache: F32, index: I32, src: F32):
        pypto.set_vec_tile_shapes(2, 2)
        cache[:] = pypto.scatter_update(cache, -2, index, src)

    src = torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    whole = guarded(7, 2)
    cache = whole[1:6]
    kernel(cache, ints(3, 0, 1, 2).reshape(2, 2), src)
    assert cache.tolist() == [[3, 4], [5, 6], [7, 8], [1, 2], [GUARD, GUARD]]
    assert torch.equal(whole[[0, 6]], guarded(2, 2))


def test_scatter_update_of_a_paged_cache_11():
    @pypto.frontend.jit
    def kernel(cache: F32, index: I32, src: F32):
        pypto.set_vec_tile_shapes(2, 2, 1, 2)
        cache[:] = pypto.scatter_update(cache, -2, index, src)

    src = torch.tensor([[1.0, 2], [3, 4], [5, 6], [7, 8]]).reshape(2, 2, 1, 2)
    cache = guarded(3, 2, 1, 2)
    kernel(cache, ints(3, 0, 1, 2).reshape(2, 2), src)
    assert cache[:2].tolist() == [[[[3, 4]], [[5, 6]]], [[[7, 8]], [[1, 2]]]]
    assert torch.equal(cache[2:], guarded(1, 2, 1, 2))


def test_scatter_update_of_a_cache_with_a_dynamic_number_of_blocks_11():
    @pypto.frontend.jit
    def kernel(cache: pypto.Tensor([pypto.DYNAMIC, 2, 1, 2], pypto.DT_FP32), index: I32, src: F32):
        pypto.set_vec_tile_shapes(2, 2, 1, 2)
        cache[:] = pypto.scatter_update(cache, -2, index, src)

    src = torch.tensor([[1.0, 2], [3, 4]]).reshape(1, 2, 1, 2)
    cache = guarded(3, 2, 1, 2)
    kernel(cache, ints(4, 1).reshape(1, 2), src)
    expected = guarded(6, 2)
    expected[4], expected[1] = src[0, 0, 0], src[0, 1, 0]
    assert torch.equal(cache.reshape(6, 2), expected)


def test_index_put_addresses_the_leading_axes_12():
    @pypto.frontend.jit
    def kernel(t: F32, i0: I32, i1: I32, values: F32):
        pypto.set_vec_tile_shapes(16, 16)
        assert pypto.index_put_(t, (i0, i1), values) is None

    whole = guarded(4, 3, 2)
    whole[1:3] = 0.0
    kernel(whole[1:3], ints(0, 1), ints(2, 0), torch.tensor([[7.0, 8], [9, 10]]))
    assert whole[1:3].tolist() == [[[0, 0], [0, 0], [7, 8]], [[9, 10], [0, 0], [0, 0]]]
    assert (whole[[0, 3]] == GUARD).all()


def test_index_put_accumulates_duplicates_12():
    @pypto.frontend.jit
    def kernel(index: I32, values: F32, out: F32):
        pypto.set_vec_tile_shapes(16)
        t = pypto.zeros([3], dtype=pypto.DT_FP32)
        pypto.index_put_(t, (index,), values, accumulate=True)
        out[:] = t

    out = guarded(3)
    kernel(ints(1, 1, 2), torch.tensor([5.0, 6, 7]), out)
    assert out.tolist() == [0, 11, 7]


def test_gather_and_its_subscript_form_13():
    @pypto.frontend.jit
    def kernel(x: I32, index: I32, out: I32, sugar: I32, method: I32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.gather(x, 1, index)
        sugar[:] = x[1:index]
        method[:] = x.gather(1, index)

    x = ints(10, 11, 12, 20, 21, 22).reshape(2, 3)
    outs = [guarded(2, 2, dtype=torch.int32) for _ in range(3)]
    kernel(x, ints(2, 0, 1, 1).reshape(2, 2), *outs)
    for out in outs:
        assert out.tolist() == [[12, 10], [21, 21]]


def test_gather_takes_an_index_shorter_on_the_other_axes_13():
    @pypto.frontend.jit
    def kernel(x: F32, index: I64, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.gather(x, 0, index)

    x, index = ramp(3, 4), torch.tensor([[2, 0], [1, 1]])
    out = guarded(2, 2)
    kernel(x, index, out)
    assert torch.equal(out, torch.gather(x, 0, index))


@pytest.mark.parametrize(
    ("reduce", "right"),
    [("add", [21, 2, 13]), ("multiply", [100, 2, 30]), (None, [10, 2, 10])],
)
def test_scatter_of_a_scalar_14(reduce, right):
    @pypto.frontend.jit
    def kernel(x: F32, index: I32, out: F32, inplace: F32, same: F32):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.scatter(x, 0, index, 10.0, reduce=reduce)
        same[:] = x
        pypto.scatter_(inplace, 0, index, 10, reduce=reduce)

    x = torch.tensor([1.0, 2, 3])
    out, inplace, same = guarded(3), x.clone(), guarded(3)
    kernel(x, ints(0, 0, 2), out, inplace, same)
    assert out.tolist() == right
    assert inplace.tolist() == right
    assert torch.equal(same, x)


def test_scatter_in_fp16_rounds_once_at_the_end_14():
    @pypto.frontend.jit
    def kernel(x: F16, index: I32, out: F16):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.scatter(x, 0, index, 1.0, reduce="add")

    out = guarded(2, dtype=torch.float16)
    kernel(torch.tensor([2048.0, 1.0]).half(), ints(0, 0, 0, 0), out)
    assert out.tolist() == [2052, 1]


# --- Composites ----------------------------------------------------------------------------------


@pytest.mark.parametrize("valid", [4, 2])
def test_rms_norm_divides_by_the_static_size_15(valid):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.rms_norm(pypto.view(x, [1, 4], [0, 0], valid_shape=[1, valid]))

    x, out = torch.tensor([[3.0, 4.0, 0.0, 0.0]]), guarded(1, 4)
    if valid == 2:
        x[0, 2:] = NAN
    kernel(x, out)
    right = torch.tensor([1.2, 1.6, 0.0, 0.0])[:valid]
    # The default epsilon of 1e-6 moves 1.2 by 1e-7; a few roundings come on top.
    torch.testing.assert_close(out[0, :valid], right, rtol=5e-7, atol=0)
    assert torch.equal(out[0, valid:], guarded(4 - valid))


def test_rms_norm_with_gamma_and_epsilon_15():
    @pypto.frontend.jit
    def kernel(x: BF16, gamma: F32, out: BF16):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.rms_norm(x, gamma, epsilon=0.5)

    x, gamma = ((ramp(4, 16) % 7) - 3).bfloat16(), torch.linspace(0.5, 2.0, 16)
    out = guarded(4, 16, dtype=torch.bfloat16)
    kernel(x, gamma, out)
    wide = x.double()
    right = wide / (wide.pow(2).mean(-1, keepdim=True) + 0.5).sqrt() * gamma.double()
    # fp32 inside and one rounding at the end: half a bf16 unit.
    torch.testing.assert_close(out.double(), right, rtol=2**-8, atol=0)


def test_softmax_of_bf16_is_computed_in_fp32_16():
    x = torch.tensor([[1.0, 2.0, 3.0]])
    narrow = apply(
        lambda t: pypto.softmax(t, -1), x.bfloat16(), guarded(1, 3, dtype=torch.bfloat16)
    )
    assert narrow.tolist() == [[0.08984375, 0.2451171875, 0.6640625]]
    wide = apply(lambda t: t.softmax(1), x, guarded(1, 3))
    assert ulp_apart(wide, x.double().softmax(-1)) <= 4


def test_softmax_of_a_row_of_minus_infinity_is_nan_16():
    x = torch.tensor([[-INF, -INF], [0.0, -INF]])
    out = apply(lambda t: pypto.softmax(t, -1), x, guarded(2, 2))
    assert torch.isnan(out[0]).all()
    assert out[1].tolist() == [1, 0]


# --- Movement and selection ----------------------------------------------------------------------


def test_concat_places_fully_valid_pieces_22():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, wide: F32, tall: F32):
        pypto.set_vec_tile_shapes(16, 16)
        wide[:] = pypto.concat([a, b, a], dim=1)
        tall[:] = pypto.concat([a, a], 0)

    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 6.0, 7.0]])
    wide, tall = guarded(1, 7), guarded(2, 2)
    kernel(a, b, wide, tall)
    assert wide.tolist() == [[1, 2, 5, 6, 7, 1, 2]]
    assert tall.tolist() == [[1, 2], [1, 2]]


def test_concat_takes_the_smaller_valid_extent_on_the_other_axes_22():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        left = pypto.view(a, [8, 4], [0, 0], valid_shape=[5, 4])
        right = pypto.view(b, [8, 4], [0, 0], valid_shape=[3, 4])
        out[:] = pypto.concat([left, right], 1)

    a, b, out = ramp(8, 4), ramp(8, 4) + 100, guarded(8, 8)
    kernel(a, b, out)
    assert torch.equal(out[:3], torch.cat([a, b], 1)[:3])
    assert torch.equal(out[3:], guarded(5, 8))


def test_concat_refuses_a_partly_valid_piece_on_its_axis_22():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        left = pypto.view(a, [1, 4], [0, 0], valid_shape=[1, 2])
        out[:] = pypto.concat([left, b], 1)  # <- 22

    refused(
        lambda: kernel(ramp(1, 4), ramp(1, 2), guarded(1, 6)),
        "22",
        "concat",
        "fillpad",
        code="F00002",
        builtin=ValueError,
    )


def test_where_broadcasts_over_several_axes_23():
    @pypto.frontend.jit
    def kernel(cond: BOOL, x: F32, out: F32, swapped: F32, both: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.where(cond, x, 0.0)
        swapped[:] = pypto.where(cond, 0.0, x)
        both[:] = pypto.where(cond, 1.0, -1.0)

    cond = torch.tensor([[True], [False]])
    out, swapped, both = guarded(2, 2), guarded(2, 2), guarded(2, 1)
    kernel(cond, torch.tensor([[1.0, 2.0]]), out, swapped, both)
    assert out.tolist() == [[1, 2], [0, 0]]
    assert swapped.tolist() == [[0, 0], [1, 2]]
    assert both.tolist() == [[1], [-1]]


def test_where_needs_equal_ranks_23():
    @pypto.frontend.jit
    def kernel(cond: BOOL, x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.where(cond, x, 0.0)  # <- 23

    refused(
        lambda: kernel(torch.tensor([True, False]), ramp(2, 2), guarded(2, 2)),
        "23",
        "where",
        "rank",
        code="FC0002",
        builtin=ValueError,
    )


def test_where_takes_an_integer_beside_any_dtype_23():
    @pypto.frontend.jit
    def kernel(cond: BOOL, x: F16, out: F16):
        pypto.set_vec_tile_shapes(1, 16)
        out[:] = pypto.where(cond, x, 0)

    cond, x = torch.tensor([[True, False]]), torch.tensor([[3.0, 4.0]]).half()
    out = guarded(1, 2, dtype=torch.float16)
    kernel(cond, x, out)
    assert out.tolist() == [[3, 0]]


def test_expand_clone_grows_axes_of_one_24():
    x = torch.tensor([[1.0], [2.0]])
    out = apply(lambda t: pypto.expand_clone(t, [2, 3]), x, guarded(2, 3))
    assert out.tolist() == [[1, 1, 1], [2, 2, 2]]
    out = apply(lambda t: t.expand_clone([4, 3]), torch.tensor([[5.0]]), guarded(4, 3))
    assert torch.equal(out, torch.full((4, 3), 5.0))


def test_expand_clone_does_not_change_the_rank_24():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.expand_clone(x, [2, 3])  # <- 24

    refused(
        lambda: kernel(ramp(2), guarded(2, 3)),
        "24",
        "expand_clone",
        "rank",
        code="FC0002",
        builtin=ValueError,
    )


def test_expand_clone_takes_a_valid_shape_for_the_tail_24():
    @pypto.frontend.jit
    def kernel(x: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(2):
            left = pypto.min(3, n[0] - 3 * i)
            wide = pypto.expand_clone(x, [2, 3], valid_shape=[2, left])
            pypto.assemble(wide, [0, 3 * i], out)

    whole = guarded(2, 8)
    kernel(torch.tensor([[1.0], [2.0]]), ints(5), whole)
    assert whole.tolist() == [[1] * 5 + [GUARD] * 3, [2] * 5 + [GUARD] * 3]


def test_expand_clone_keeps_the_extents_of_the_other_axes_24():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        tail = pypto.view(x, [8, 1], [0, 0], valid_shape=[3, 1])
        out[:] = pypto.expand_clone(tail, [8, 4])

    x, out = ramp(8, 1), guarded(8, 4)
    kernel(x, out)
    assert torch.equal(out[:3], x[:3].expand(3, 4))
    assert torch.equal(out[3:], guarded(5, 4))


def test_clip_applies_the_maximum_last_25():
    x = torch.tensor([-1.0, 0.5, 9.0, NAN])
    out = apply(lambda t: pypto.clip(t, min=3, max=1), x, guarded(4))
    assert out[:3].tolist() == [1, 1, 1]
    assert math.isnan(out[3])
    out = apply(lambda t: pypto.clip(t, 0, 1.5), x, guarded(4))
    assert out[:3].tolist() == [0, 0.5, 1.5]
    assert math.isnan(out[3])
    out = apply(lambda t: pypto.clip(t, max=0.0), x, guarded(4))
    assert out[:3].tolist() == [-1, 0, 0]


def test_clip_without_bounds_is_the_same_tensor_25():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16)
        assert pypto.clip(x) is x
        out[:] = pypto.clip(x, None, None) + 1.0

    out = guarded(4)
    kernel(ramp(4), out)
    assert torch.equal(out, ramp(4) + 1)


def test_clip_refuses_a_tensor_bound_beside_a_scalar_one_25():
    @pypto.frontend.jit
    def kernel(x: F32, low: F32, out: F32):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.clip(x, low, 1.0)  # <- 25

    refused(
        lambda: kernel(ramp(4), ramp(4), guarded(4)),
        "25",
        "clip",
        code="F00001",
        builtin=TypeError,
    )


# --- Arithmetic ----------------------------------------------------------------------------------


def test_integer_division_family_26():
    @pypto.frontend.jit
    def kernel(x: I32, div: F32, floor_div: I32, operator: F32, remainder: I32, mod: I32):
        pypto.set_vec_tile_shapes(16)
        div[:] = pypto.div(x, 2)
        floor_div[:] = pypto.floor_div(x, 2)
        operator[:] = x // 2
        remainder[:] = pypto.remainder(x, 2)
        mod[:] = x % 2

    whole = (guarded(2), guarded(2, dtype=torch.int32), guarded(2))
    rem, mod = guarded(2, dtype=torch.int32), guarded(2, dtype=torch.int32)
    kernel(ints(7, -7), *whole, rem, mod)
    assert [out.tolist() for out in whole] == [[3.5, -3.5], [3, -4], [3, -4]]
    assert rem.tolist() == mod.tolist() == [1, 1]


def test_symbolic_division_is_pythons_26():
    @pypto.frontend.jit
    def kernel(x: I32, out: I32):
        pypto.set_vec_tile_shapes(16)
        a, b = x[0], x[1]
        out[0] = a // b
        out[1] = a % b
        out[2] = a // 2
        out[3] = -a // 2 + (-a) % 2

    for a, b in ((-7, 2), (7, -2), (-8, 3), (6, 3)):
        out = guarded(5, dtype=torch.int32)
        kernel(ints(a, b), out)
        assert out.tolist() == [a // b, a % b, a // 2, -a // 2 + (-a) % 2, -7]


def test_remainder_takes_the_sign_of_the_divisor_C12():
    @pypto.frontend.jit
    def kernel(x: I16, y: I16, f: F32, out: I16, wide: F32):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.remainder(x, y)
        wide[:] = pypto.remainder(f, 3.0)

    x = torch.tensor([-7, 7, -8, 8], dtype=torch.int16)
    y = torch.tensor([2, -2, 3, -3], dtype=torch.int16)
    out, wide = guarded(4, dtype=torch.int16), guarded(4)
    kernel(x, y, torch.tensor([-5.0, 5.0, 5.5, -5.5]), out, wide)
    assert out.tolist() == [1, -1, 1, -1]
    assert wide.tolist() == [1, 2, 2.5, 0.5]


def test_remainder_of_a_scalar_by_a_tensor_C12():
    out = apply(lambda t: pypto.remainder(-5, t), torch.tensor([3.0, -3.0]), guarded(2))
    assert out.tolist() == [1, -2]


def test_remainder_of_integers_by_a_literal_zero_is_refused_C12():
    @pypto.frontend.jit
    def kernel(x: I32, out: I32):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.remainder(x, 0)  # <- C12

    refused(
        lambda: kernel(ints(1, 2), ints(0, 0)),
        "C12",
        "remainder",
        "0",
        code="F00002",
        builtin=ValueError,
    )


def test_round_is_half_to_even_27():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5])
    assert apply(pypto.round, x, guarded(5)).tolist() == [0, 2, 2, 0, -2]
    out = apply(lambda t: pypto.round(t, decimals=-2), torch.tensor([1234.567]), guarded(1))
    assert out.tolist() == [1200]
    out = apply(lambda t: t.round(2), torch.tensor([0.125, 0.375, 1.0]), guarded(3))
    torch.testing.assert_close(out, torch.tensor([0.12, 0.38, 1.0]), rtol=1e-7, atol=0)


def test_comparisons_give_bool_and_take_numbers_27():
    x = torch.tensor([1.0, 2.0, 3.0, NAN])
    for op, right in (
        (lambda t: t > 2, [False, False, True, False]),
        (lambda t: pypto.gt(t, 2.0), [False, False, True, False]),
        (lambda t: t != 2.0, [True, False, True, True]),
        (lambda t: pypto.le(t, pypto.Element(pypto.DT_FP32, 2.0)), [True, True, False, False]),
        (lambda t: 2.0 < t, [False, False, True, False]),
        (lambda t: pypto.eq(t, t), [True, True, True, False]),
    ):
        out = apply(op, x, guarded(4, dtype=torch.bool))
        assert out.tolist() == right


def test_matmul_adds_bias_then_relu_then_a_cut_scale_28():
    @pypto.frontend.jit
    def kernel(a: I8, b: I8, bias: I32, out: F16, clipped: F16):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        relu = pypto.ReLuType.RELU
        after = {"bias_tensor": bias, "relu_type": relu, "scale": 0.1}
        out[:] = pypto.matmul(a, b, pypto.DT_FP16, extend_params=after)
        after = {"bias_tensor": bias * 100, "relu_type": relu, "scale": 0.1}
        clipped[:] = pypto.matmul(a, b, pypto.DT_FP16, extend_params=after)

    a = torch.tensor([[10, -3]], dtype=torch.int8)
    b = torch.tensor([[12], [5]], dtype=torch.int8)
    out, clipped = guarded(1, 1, dtype=torch.float16), guarded(1, 1, dtype=torch.float16)
    kernel(a, b, ints(-10).reshape(1, 1), out, clipped)
    assert out.tolist() == [[9.5]]
    assert clipped.tolist() == [[0]]


def test_matmul_scale_keeps_ten_bits_28():
    @pypto.frontend.jit
    def kernel(a: I8, b: I8, out: F16, plain: I32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        out[:] = pypto.matmul(a, b, pypto.DT_FP16, extend_params={"scale": 0.1})
        plain[:] = pypto.matmul(a, b, pypto.DT_INT32)

    a = torch.tensor([[100, 73]], dtype=torch.int8)
    b = torch.tensor([[12], [1]], dtype=torch.int8)
    out, plain = guarded(1, 1, dtype=torch.float16), guarded(1, 1, dtype=torch.int32)
    kernel(a, b, out, plain)
    assert plain.item() == 1273
    # 1273 × 0.0999755859375 = 127.2689… rounds to 127.25; 127.3 would round to 127.3125.
    assert out.item() == 127.25


@pytest.mark.parametrize(
    ("stop", "unroll", "right"),
    [(7, [4, 2], [4, 4, 4, 4, 2, 2, 1]), (5, [3, 2], [3, 3, 3, 2, 2]), (3, [1], [1, 1, 1])],
)
def test_loop_unroll_covers_each_index_once_31(stop, unroll, right):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i, k in pypto.loop_unroll(0, stop, unroll_list=unroll):
            out[i : i + k, :] = out[i : i + k, :] + x[i : i + k, :] * float(k)

    out = torch.zeros(9, 8)
    kernel(torch.ones(9, 8), out)
    expected = torch.tensor(right + [0] * (9 - stop)).float().reshape(9, 1).expand(9, 8)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("n", [0, 2, 4, 7])
def test_element_read_drives_offsets_bounds_and_branches_33(n):
    @pypto.frontend.jit
    def kernel(lens: I32, x: F32, out: F32, numbers: I32):
        pypto.set_vec_tile_shapes(16, 16)
        for b in pypto.loop(2):
            n = lens[b]
            if b == 1:
                tile = pypto.view(x, [8, 8], [n, 0], valid_shape=[8 - n, 8])
                pypto.assemble(tile + 1.0, [0, 0], out)
                numbers[0] = n.max(4)
                numbers[1] = n if n > 4 else 4
                numbers[2] = max(n, 4)
                for i in pypto.loop(n):
                    numbers[3] = numbers[3] + i + 1

    x, out = ramp(8, 8), guarded(8, 8)
    numbers = ints(0, 0, 0, 0, -7)
    kernel(ints(99, n), x, out, numbers)
    assert torch.equal(out[: 8 - n], x[n:] + 1)
    assert torch.equal(out[8 - n :], guarded(n, 8))
    top = max(n, 4)
    assert numbers.tolist() == [top, top, top, n * (n + 1) // 2, -7]


def test_fewer_indices_than_axes_give_a_sub_tensor_33():
    @pypto.frontend.jit
    def kernel(x: F32, row: F32, plane: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        for b in pypto.loop(1, 2):
            plane[:] = x[b] * 2.0
            row[:] = x[b, 2] + 1.0

    x = ramp(3, 4, 8)
    row, plane = guarded(8), guarded(4, 8)
    kernel(x, row, plane)
    assert torch.equal(row, x[1, 2] + 1)
    assert torch.equal(plane, x[1] * 2)


# --- Edge values from the field ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32])
def test_cumsum_of_integers_does_not_wrap_C10(dtype):
    x = torch.full((200,), 200, dtype=dtype)
    out = apply(lambda t: pypto.cumsum(t, 0), x, torch.full((200,), -7, dtype=torch.int64))
    assert torch.equal(out, torch.arange(200, 40001, 200))
    assert out[-1] == 40000


def test_cumsum_runs_along_any_axis_C10():
    x = (ramp(3, 4, 5) % 7) - 3
    for dim in (0, 1, 2, -1):
        out = apply(lambda t: pypto.cumsum(t, dim), x, guarded(3, 4, 5))
        assert torch.equal(out, x.cumsum(dim))


def test_numpy_ints_serve_as_sizes_C30():
    @pypto.frontend.jit
    def kernel(out: F32, ones: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.full([np.int64(4), np.int32(8)], 3.0, pypto.DT_FP32)
        ones[:] = pypto.ones(np.int64(2), np.uint8(8)).reshape([np.int16(16)])

    out, ones = guarded(4, 8), guarded(16)
    kernel(out, ones)
    assert torch.equal(out, torch.full((4, 8), 3.0))
    assert torch.equal(ones, torch.ones(16))


def test_trues_are_counted_beyond_eight_bits_C34():
    x = torch.ones(2, 256, dtype=torch.bool)
    x[1, ::2] = False
    out = apply(lambda t: pypto.sum(pypto.where(t, 1.0, 0.0), -1, True), x, guarded(2, 1))
    assert out.tolist() == [[256], [128]]


def test_sum_of_bool_is_refused_C34():
    @pypto.frontend.jit
    def kernel(x: BOOL, out: BOOL):
        pypto.set_vec_tile_shapes(1, 256)
        out[:] = pypto.sum(x, -1, True)  # <- C34

    refused(
        lambda: kernel(torch.ones(1, 256, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.bool)),
        "C34",
        "sum",
        "DT_BOOL",
        code="FC0001",
        builtin=TypeError,
    )


@pytest.mark.parametrize(("scalar", "right"), [(0.1, 0.05615234375), (0.7, 0.39453125)])
def test_bf16_times_scalar_rounds_once_D3(scalar, right):
    x = torch.full((16,), 0.5625, dtype=torch.bfloat16)
    out = apply(lambda t: t * scalar, x, guarded(16, dtype=torch.bfloat16))
    assert out.tolist() == [right] * 16
    out = apply(lambda t: pypto.mul(t, scalar), x, guarded(16, dtype=torch.bfloat16))
    assert out.tolist() == [right] * 16


@pytest.mark.parametrize(
    ("base", "exponent", "right"),
    [
        (2.0, -2, 0.25),
        (2.0, -1, 0.5),
        (2.0, -0.5, 0.7071067811865476),
        (4.0, -0.5, 0.5),
        (0.0, -1, INF),
        (-8.0, 1 / 3, NAN),
        (NAN, 0, 1.0),
        (-2.0, 3, -8.0),
        (9.0, 0.5, 3.0),
        (2.0, 10.5, 1448.1546878700494),
    ],
)
def test_power_of_special_exponents_D9(base, exponent, right):
    x = torch.full((8,), base)
    for op in (lambda t: pypto.pow(t, exponent), lambda t: t**exponent):
        out = apply(op, x, guarded(8))
        if math.isnan(right):
            assert torch.isnan(out).all()
        elif math.isinf(right):
            assert torch.equal(out, torch.full((8,), right))
        else:
            assert ulp_apart(out, torch.full((8,), right, dtype=torch.float64)) <= 2


def test_power_of_tensor_exponents_D9():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_vec_tile_shapes(16)
        out[:] = pypto.pow(x, y)

    x = torch.tensor([2.0, 2.0, 2.0, 4.0, 0.0, -8.0, -2.0, 0.0])
    y = torch.tensor([-2.0, -1.0, -0.5, -0.5, -1.0, 1 / 3, 3.0, 0.0])
    out = guarded(8)
    kernel(x, y, out)
    assert out[[0, 1, 3, 4, 6, 7]].tolist() == [0.25, 0.5, 0.5, INF, -8, 1]
    assert ulp_apart(out[2:3], torch.tensor([2**-0.5], dtype=torch.float64)) <= 2
    assert math.isnan(out[5])


def test_just_under_a_half_rounds_to_zero_D12():
    x = torch.tensor([0.49999997, -0.49999997, 0.5, 8388609.0])
    rint = apply(pypto.round, x, guarded(4))
    assert rint.tolist() == [0, 0, 0, 8388609]
    for mode in (pypto.CastMode.CAST_RINT, pypto.CastMode.CAST_ROUND):
        out = apply(lambda t: pypto.cast(t, pypto.DT_INT32, mode), x, guarded(4, dtype=torch.int32))
        assert out[[0, 1, 3]].tolist() == [0, 0, 8388609]


def test_reduction_of_an_axis_of_one_is_the_identity_D14():
    x = ramp(16, 1) - 8
    for op in (pypto.amax, pypto.amin, pypto.sum):
        out = apply(lambda t: op(t, 1, True), x, guarded(16, 1))
        assert torch.equal(out, x)
        out = apply(lambda t: op(t, 1), x, guarded(16))
        assert torch.equal(out, x[:, 0])


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_reductions_along_any_axis_D15(dim, keepdim):
    x = ((ramp(4, 8, 16) * 37) % 101) - 50
    for name in ("sum", "amax", "amin"):
        right = getattr(torch, name)(x, dim, keepdim=keepdim)
        function, method = torch.full_like(right, GUARD), torch.full_like(right, GUARD)
        apply(lambda t: getattr(pypto, name)(t, dim, keepdim), x, function)
        apply(lambda t: getattr(t, name)(dim, keepdim=keepdim), x, method)
        assert torch.equal(function, right)
        assert torch.equal(method, right)


def test_reduction_of_one_axis_of_a_vector_keeps_one_element_D15():
    assert apply(lambda t: pypto.sum(t, 0), ramp(16), guarded(1)).tolist() == [120]
    assert apply(lambda t: pypto.amax(t, -1, True), ramp(16), guarded(1)).tolist() == [15]


def test_division_broadcasts_the_last_of_four_axes_D20():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 4, 16, 16)
        out[:] = x / y

    x, y = ramp(2, 12, 16, 16), ramp(2, 12, 16, 1) + 1
    out = guarded(2, 12, 16, 16)
    kernel(x, y, out)
    assert torch.equal(out, x / y)


def test_expand_clone_to_many_columns_D21():
    x = ramp(48, 1) - 7
    out = apply(lambda t: pypto.expand_clone(t, [48, 384]), x, guarded(48, 384))
    assert torch.equal(out, x.expand(48, 384))


@pytest.mark.parametrize("out_dtype", [torch.float32, torch.bfloat16])
def test_bf16_product_of_small_integers_is_exact_D23(out_dtype):
    @pypto.frontend.jit
    def kernel(a: BF16, b: BF16, out: ANY):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, DT[out_dtype])

    a, b = (ramp(16, 16) % 5) - 2, (ramp(16, 16) % 3) - 1
    out = guarded(16, 16, dtype=out_dtype)
    kernel(a.bfloat16(), b.bfloat16(), out)
    assert torch.equal(out, (a @ b).to(out_dtype))


def test_variance_in_two_passes_survives_a_large_mean_D24():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        mean = pypto.sum(x, -1, True) / 8.0
        centred = x - mean
        out[:] = pypto.sum(centred * centred, -1, True) / 8.0

    x = 10000 + torch.tensor([[0.0, 1, 2, 3, 0, 1, 2, 3]])
    out = guarded(1, 1)
    kernel(x, out)
    assert out.tolist() == [[1.25]]


def test_sum_of_four_is_within_one_unit_of_the_last_place_D26():
    generator = torch.Generator().manual_seed(26)
    x = torch.rand(64, 4, generator=generator)
    out = apply(lambda t: pypto.sum(t, -1, True), x, guarded(64, 1))
    assert ulp_apart(out, x.double().sum(-1, keepdim=True)) <= 1
