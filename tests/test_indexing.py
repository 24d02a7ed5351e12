"""Tensors in a kernel: reading and writing by index, view, assemble, reshape, move, attributes.

In go kernels over x = 0, 1, 2, … in [16, 32]; out must come the elements that NumPy indexing
picks, and nothing else in the output may change: outputs start full of -1. What a partly valid
tensor may and may not do is checked here for the movements; its refusals by code are in
`test_errors_by_case.py`. It has more than 600 lines because each rule needs a kernel of its own.
"""

import numpy as np
import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
D = pypto.DYNAMIC
I32 = P([], pypto.DT_INT32)
ROWS = P([D, 32], DT)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def check(kernel, want, *args):
    """Runs `kernel(a, *args, out)` on the ramp with a blank output of the wanted shape."""
    out = blank(*want.shape, dtype=want.dtype)
    kernel(ramp(), *args, out)
    torch.testing.assert_close(out, want, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("read", "shape", "want"),
    [
        (lambda a: a[2], [32], np.s_[2]),
        (lambda a: a[-1], [32], np.s_[15]),
        (lambda a: a[1, 4:8], [4], np.s_[1, 4:8]),
        (lambda a: a[-1, -3:-1], [2], np.s_[15, 29:31]),
        (lambda a: a[4:8, 3], [4], np.s_[4:8, 3]),
        (lambda a: a[:4], [4, 32], np.s_[:4]),
        (lambda a: a[12:], [4, 32], np.s_[12:]),
        (lambda a: a[-4:, :8], [4, 8], np.s_[12:, :8]),
        (lambda a: a[2:3, -8:], [1, 8], np.s_[2:3, 24:]),
        (lambda a: a[..., 4:8], [16, 4], np.s_[:, 4:8]),
        (lambda a: a[..., 5], [16], np.s_[:, 5]),
        (lambda a: a[3, ...], [32], np.s_[3]),
        (lambda a: a[...], [16, 32], np.s_[:]),
        (lambda a: a[0:4:1, 0:8:None], [4, 8], np.s_[0:4, 0:8]),
        (lambda a: a[True], [32], np.s_[1]),
    ],
    ids=[
        "row",
        "last row",
        "part of a row",
        "negative bounds",
        "part of a column",
        "head",
        "tail",
        "negative start",
        "from the end",
        "ellipsis",
        "ellipsis int",
        "int ellipsis",
        "bare ellipsis",
        "step of one",
        "bool",
    ],
)
def test_reading_by_index_case87_case88(read, shape, want):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(*([8] * len(shape)))
        t = read(a)
        assert t.shape == shape
        out[:] = t * 2.0

    check(k, ramp()[want] * 2)


def test_full_slices_are_the_tensor_itself_case87():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        assert a[:] is a and a[:, :] is a and a[()] is a
        out[:] = a[:] * 2.0

    check(k, ramp() * 2)


def test_read_of_four_axes():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = a.reshape([2, 4, 4, 16])
        assert t[1].shape == [4, 4, 16] and t[1, 2].shape == [4, 16]
        assert t[1, ..., 3].shape == [4, 4] and t[:, 1, :, 2:4].shape == [2, 4, 2]
        out[:] = t[1, ..., 3] + t[0, :, 1, 0:4]

    x = ramp().reshape(2, 4, 4, 16)
    check(k, x[1, ..., 3] + x[0, :, 1, 0:4])


def test_slice_past_the_end_is_partly_valid_case90():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        t = a[0:20]
        assert t.shape == [20, 32] and t.valid_shape[0] == 16 and t.valid_shape[1] == 32
        out[:] = t.sum(0, keepdim=True)

    check(k, ramp().sum(0, keepdim=True))


def test_scalars_read_are_offsets_case92():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        out[n[1, 0] : n[1, 0] + 1, :] = a[n[0, 1] : n[0, 1] + 1, :] * 2.0

    want = blank(16, 32)
    want[3] = ramp()[7] * 2
    check(k, want, torch.tensor([[0, 7], [3, 0]], dtype=torch.int32))


def test_scalars_are_written_case93():
    @pypto.jit
    def k(a: F32, n: I32, out: I32):
        out[1, 2] = n[0, 0] + 2 * n[0, 1]
        out[0, 0] = 7
        out[-1, -1] = -5
        out[1, 0] = True

    want = blank(2, 4, dtype=torch.int32)
    want[1, 2], want[0, 0], want[1, 3], want[1, 0] = 25, 7, -5, 1
    check(k, want, torch.tensor([[5, 10]], dtype=torch.int32))


def test_slice_is_a_snapshot_case94():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        t = a * 1.0
        s = t[0:4, 0:8]
        kept = t[0:4, 0:8]
        s[:] = s + 1000.0
        t[0:2, 0:8] = s[0:2, :]
        out[0:4, 0:8] = kept
        out[4:8, 0:8] = t[0:4, 0:8]
        out[8:12, 0:8] = s

    x, want = ramp()[0:4, 0:8], blank(16, 32)
    want[0:4, 0:8] = x
    want[4:6, 0:8], want[6:8, 0:8] = x[0:2] + 1000, x[2:4]
    want[8:12, 0:8] = x + 1000
    check(k, want)


def test_row_snapshot_of_an_output_case94():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(1, 16):
            before = out[i : i + 1, :]
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0
            out[0:1, :] = out[0:1, :] + before

    want = ramp() * 2
    want[0] = -16
    check(k, want)


def test_alias_is_the_same_tensor_case95():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        c = a * 1.0
        b = c
        b[:] = a + 1.0
        b[0:1, :] = a[1:2, :]
        out[:] = c

    want = ramp() + 1
    want[0] = ramp()[1]
    check(k, want)


def test_moved_tensor_stays_usable_case96():
    @pypto.jit
    def k(a: F32, out: F32, second: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 3.0
        out[:] = t
        assert not t.is_empty()
        y = t + 1.0
        second.move(y)
        assert y.shape == [16, 32]

    out, second = blank(16, 32), blank(16, 32)
    k(ramp(), out, second)
    assert torch.equal(out, ramp() * 3) and torch.equal(second, ramp() * 3 + 1)


def test_two_outputs_from_one_value_case124():
    @pypto.jit
    def k(a: F32, first: F32, second: F32, third: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 3.0
        first[:] = t.clone()
        second[:] = t
        third[:] = t

    outs = [blank(16, 32) for _ in range(3)]
    k(ramp(), *outs)
    for out in outs:
        assert torch.equal(out, ramp() * 3)


def test_start_alone_places_a_tile_case98():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        small = a[0:4, 0:8] * 2.0
        out[0:, 0:] = small
        for i in pypto.loop(1, 4):
            out[i * 4 :, 8:] = small + 1.0
        out[:4, 24:] = small
        out[-2:, :8] = small[0:2, :]

    small, want = ramp()[0:4, 0:8] * 2, blank(16, 32)
    want[0:4, 0:8] = want[0:4, 24:32] = small
    for i in range(1, 4):
        want[i * 4 : i * 4 + 4, 8:16] = small + 1
    want[14:16, 0:8] = small[0:2]
    check(k, want)


def test_int_in_a_key_takes_an_axis_off_the_value_case99():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4)
        v = a[0, 0:4] * 2.0
        out[2, 4:8] = v
        out[8:12, -1] = v
        out[..., 5] = a[:, 7]
        out[15, ...] = a[1]

    want = blank(16, 32)
    want[2, 4:8] = want[8:12, 31] = ramp()[0, 0:4] * 2
    want[:, 5] = ramp()[:, 7]
    want[15] = ramp()[1]
    check(k, want)


def test_symbols_in_a_key_of_three_axes_case100():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(2):
            row, idx = n[i], n[i + 2]
            out[row : row + 4, idx, :] = a[i * 4 : i * 4 + 4, :] * 2.0

    want = blank(8, 3, 32)
    want[4:8, 2], want[0:4, 1] = ramp()[0:4] * 2, ramp()[4:8] * 2
    check(k, want, ints(4, 0, 2, 1))


def test_augmented_slice_reads_and_writes():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        out[4:8, :] += a[0:4, :]
        out[0:1, 0:4] *= 5.0
        out[:] -= a * 0.0

    want = blank(16, 32)
    want[4:8] += ramp()[0:4]
    want[0, 0:4] *= 5
    check(k, want)


@pytest.mark.parametrize("moved", [False, True], ids=["assembled_case101", "moved_case102"])
def test_tail_of_a_view_writes_its_valid_rows_only(moved):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        v = pypto.view(a, [4, 32], [14, 0])
        assert v.valid_shape[0] == 2
        v = v + 1.0
        if moved:
            out[:] = v
        else:
            pypto.assemble(v, [0, 0], out)

    want = blank(4, 32)
    want[0:2] = ramp()[14:16] + 1
    check(k, want)


def test_view_beyond_the_end_has_no_valid_rows_case103():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        v = pypto.view(a, [4, 32], [20, 0])
        assert v.shape == [4, 32] and v.valid_shape[0] == 0
        pypto.assemble(v + 1.0, [0, 0], out)
        out[8:12, :] = v

    check(k, blank(16, 32))


def test_view_at_a_symbolic_offset_clamps_at_run_time_case103():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(4):
            v = pypto.view(a, [4, 32], [i * 6, 0]) * 1.0
            pypto.assemble(v, [i * 4, 0], out)

    want = blank(16, 32)
    want[0:4], want[4:8], want[8:12] = ramp()[0:4], ramp()[6:10], ramp()[12:16]
    check(k, want)


def test_reductions_see_valid_elements_only_case104():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        v = pypto.view(a - 1000.0, [4, 32], [0, 0], valid_shape=[2, 32])
        out[0:1, :] = v.sum(0, keepdim=True)
        out[1:2, :] = v.amax(0, keepdim=True)
        out[2:3, :] = pypto.amin(-v, 0, keepdim=True)
        out[4:8, :] = v.softmax(0)
        out[8:12, :] = pypto.view(a * 0.01, [4, 32], [0, 0], valid_shape=[4, 8]).softmax(-1)

    x, want = ramp() - 1000, blank(16, 32)
    want[0], want[1], want[2] = x[0:2].sum(0), x[1], -x[1]
    want[4:6] = torch.softmax(x[0:2], 0)
    want[8:12, 0:8] = torch.softmax(ramp()[0:4, 0:8] * 0.01, -1)
    out = blank(16, 32)
    k(ramp(), out)
    torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(out[8:12, 0:8].sum(1), torch.ones(4), rtol=1e-6, atol=0)


def test_matmul_contracts_over_the_valid_k_case105():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        ones = pypto.full([16, 16], 1.0, DT)
        left = pypto.view(ones, [16, 16], [0, 0], valid_shape=[16, 5])
        right = pypto.view(ones, [16, 16], [0, 0], valid_shape=[5, 16])
        out[0:16, 0:16] = pypto.matmul(left, right, DT)
        t = pypto.matmul(pypto.view(left, [16, 16], [0, 0], valid_shape=[3, 5]), ones, DT)
        assert t.valid_shape[0] == 3 and t.valid_shape[1] == 16
        out[0:16, 16:32] = t

    want = blank(16, 32)
    want[:, 0:16] = 5
    want[0:3, 16:32] = 5
    check(k, want)


def test_binary_op_is_valid_where_both_operands_are():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        two = pypto.view(a, [4, 32], [0, 0], valid_shape=[2, 32])
        narrow = pypto.view(a, [4, 32], [0, 0], valid_shape=[3, 16])
        out[0:4, :] = two + narrow
        out[4:8, :] = narrow * two
        out[8:12, :] = narrow + pypto.view(a, [1, 32], [0, 0])
        out[12:16, :] = pypto.where(two > 5.0, two, narrow)

    x, want = ramp(), blank(16, 32)
    want[0:2, 0:16] = x[0:2, 0:16] * 2
    want[4:6, 0:16] = x[0:2, 0:16] ** 2
    want[8:11, 0:16] = x[0:3, 0:16] + x[0:1, 0:16]
    want[12:14, 0:16] = x[0:2, 0:16]
    check(k, want)


def test_note_when_the_left_operand_was_the_larger_one():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        two = pypto.view(a, [4, 32], [0, 0], valid_shape=[2, 32])
        out[0:4, :] = a[0:4, :] + two

    want = blank(16, 32)
    want[0:2] = ramp()[0:2] * 2
    with pytest.warns(pypto.error.PortabilityNote, match="valid"):
        check(k, want)


def test_fillpad_makes_the_padding_take_part():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        two = pypto.view(a, [4, 32], [14, 0])
        full = pypto.fillpad(two, value=3.0)
        assert full.valid_shape[0] == 4
        out[:] = full.sum(0, keepdim=True)

    check(k, (ramp()[14:16].sum(0, keepdim=True) + 6))


def test_view_reads_bytes_as_another_dtype_case107():
    @pypto.jit
    def k(a: F32, h: P([], pypto.DT_FP16), out: P([], pypto.DT_INT8)):
        pypto.set_vec_tile_shapes(2, 16)
        t = pypto.view(h, dtype=pypto.DT_INT8)
        assert t.shape == [2, 16] and t.dtype == pypto.DT_INT8
        out[:] = t

    h = torch.arange(16, dtype=torch.float16).reshape(2, 8)
    check(k, h.view(torch.int8), h)


@pytest.mark.parametrize("shape", [[32, 16], [-1], [8, -1], [2, 2, 8, 16], [16, 32]], ids=str)
def test_reshape_case108(shape):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(*([8] * len(shape)))
        out[:] = pypto.reshape(a, shape) * 2.0

    check(k, ramp().reshape(shape) * 2)


def test_in_place_reshape_takes_dynamic_dims_case108():
    @pypto.jit
    def k(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(2, 16)
        t = pypto.reshape(a, [a.shape[0] * 2, 16], inplace=True)
        for i in pypto.loop(a.shape[0]):
            out[i : i + 1, 0:16] = t[i * 2 + 1 : i * 2 + 2, :] * 2.0

    want = blank(16, 32)
    want[:, 0:16] = ramp()[:, 16:32] * 2
    check(k, want)


def test_in_place_reshape_of_an_output_writes_it_case109():
    @pypto.jit
    def k(a: F32, out: P([D, D, 32], DT)):
        pypto.set_vec_tile_shapes(1, 32)
        n, m = out.shape[0], out.shape[1]
        v = pypto.reshape(out, [n * m, 32], inplace=True)
        for i in pypto.loop(n * m - 1):
            pypto.assemble(a[i : i + 1, :] * 2.0, [i, 0], v)
        v[n * m - 1 : n * m, :] = a[0:1, :] + 0.5

    want = (ramp(6) * 2).reshape(2, 3, 32)
    want[1, 2] = ramp()[0] + 0.5
    check(k, want)


def test_in_place_reshape_of_a_local_shares_its_storage_case109():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 16)
        t = a * 1.0
        v = t.reshape([32, 16], inplace=True)
        v[0:2, :] = v[0:2, :] + 1000.0
        t[15:16, 0:32] = a[0:1, :]
        out[0:8, 0:16] = v[24:32, :]
        out[8:9, :] = t[0:1, :]

    x, want = ramp(), blank(16, 32)
    x[15] = ramp()[0]
    want[0:8, 0:16] = x.reshape(32, 16)[24:32]
    want[8] = x[0] + 1000
    check(k, want)


def test_reshape_maps_the_valid_box_case111():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 2, 8)
        five = pypto.view(a, [8, 32], [0, 0], valid_shape=[5, 32])
        split = five.reshape([8, 2, 16])
        assert split.valid_shape[0] == 5 and split.valid_shape[1] == 2
        out[0:8, 0:2, :] = split
        ones = five.reshape([1, 8, 1, 32])
        assert ones.valid_shape[1] == 5 and ones.valid_shape[3] == 32
        corner = pypto.view(a, [4, 16], [0, 0], valid_shape=[3, 7]).unsqueeze(1)
        assert corner.valid_shape[0] == 3 and corner.valid_shape[2] == 7
        out[8:12, 0:1, :] = corner
        merged = split.reshape([8, 32])
        assert merged.valid_shape[0] == 5 and merged.valid_shape[1] == 32
        out[12:16, 0:2, :] = merged[3:7, :].reshape([4, 2, 16])

    x, want = ramp().reshape(16, 2, 16), blank(16, 2, 16)
    want[0:5] = x[0:5]
    want[8:11, 0, 0:7] = ramp()[0:3, 0:7]
    want[12:14] = x[3:5]
    check(k, want)


def test_reshape_that_cannot_map_the_valid_box_names_both_ways_out_case111():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 32)
        t = pypto.view(a, [16, 32], [0, 0], valid_shape=[16, 5])
        out[:] = t.reshape([512])[0:32].reshape([1, 32])  # box

    with refused(ValueError, "valid_shape=", "fillpad", code="F00002", at="box"):
        k(ramp(), blank(1, 32))


def test_reshape_with_a_valid_shape_takes_it_as_it_is_case111():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 32)
        t = a.reshape([32, 16], valid_shape=[2, 3])
        assert t.valid_shape[0] == 2 and t.valid_shape[1] == 3
        pypto.assemble(t, [0, 0], out)

    want = blank(32, 16)
    want[0:2, 0:3] = ramp().reshape(32, 16)[0:2, 0:3]
    check(k, want)


@pytest.mark.parametrize("parallel", [False, True], ids=["in order", "parallel"])
def test_list_form_of_assemble_case113(parallel):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        pypto.assemble([], out)
        left, right = a[0:4, 0:8] * 2.0, a[4:8, 8:16] * 3.0
        pypto.assemble([(left, [0, 0]), (right, [8, 8])], out, parallel=parallel)
        pypto.assemble(right, [12, 24], out, parallel=parallel)

    want = blank(16, 32)
    want[0:4, 0:8] = ramp()[0:4, 0:8] * 2
    want[8:12, 8:16] = want[12:16, 24:32] = ramp()[4:8, 8:16] * 3
    check(k, want)


def test_later_piece_of_a_list_wins_case113():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        low, high = a[0:4, 0:8] * 2.0, a[0:4, 0:8] * 3.0
        pypto.assemble([(low, [0, 0]), (high, [2, 0])], out)
        out.assemble(low, [10, 8])

    want = blank(16, 32)
    want[0:4, 0:8] = ramp()[0:4, 0:8] * 2
    want[2:6, 0:8] = ramp()[0:4, 0:8] * 3
    want[10:14, 8:16] = ramp()[0:4, 0:8] * 2
    check(k, want)


def test_assemble_writes_the_valid_box_only():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        t = pypto.view(a, [4, 8], [0, 0], valid_shape=[3, 5]) * 2.0
        pypto.assemble(t, [n[0], n[1]], out)

    want = blank(16, 32)
    want[13:16, 27:32] = ramp()[0:3, 0:5] * 2
    check(k, want, ints(13, 27))
    for offsets in ((14, 27), (13, 28), (-1, 0)):
        out = blank(16, 32)
        with refused(IndexError, code="F00008", cls=pypto.error.PyptoGeneralError):
            k(ramp(), ints(*offsets), out)
        assert torch.equal(out, blank(16, 32))


def test_atomic_add_adds_into_its_region():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        for i in pypto.loop(3):
            pypto.atomic_add(a[0:4, 0:8] * 1.0, [i * 2, 0], out)

    want = blank(16, 32)
    for i in range(3):
        want[i * 2 : i * 2 + 4, 0:8] += ramp()[0:4, 0:8]
    check(k, want)


def test_operators_case115():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 32)
        t = a[0:1, :] + 1.0
        rows = [
            1.0 - t,
            2.0 / t,
            t // 2.0,
            t % 3.0,
            t**2,
            -t,
            +t,
            t / 4.0,
            t - t * 2.0,
            3 + t,
            2 * t,
            t + 3,
            t**0.5,
        ]
        for i, row in enumerate(rows):
            out[i : i + 1, :] = row
        assert +t is t

    t = ramp()[0] + 1
    rows = [
        1 - t,
        2 / t,
        torch.floor(t / 2),
        torch.remainder(t, 3),
        t * t,
        -t,
        t,
        t / 4,
        -t,
        t + 3,
        t * 2,
        t + 3,
        t.sqrt(),
    ]
    want = torch.cat([torch.stack(rows), blank(3, 32)])
    out = blank(16, 32)
    k(ramp(), out)
    torch.testing.assert_close(out, want, rtol=1e-6, atol=1e-7)


def test_comparisons_give_booleans_case115():
    @pypto.jit
    def k(a: F32, out: P([], pypto.DT_BOOL)):
        pypto.set_vec_tile_shapes(8, 32)
        t = a[0:1, :]
        rows = [t > 5.0, 5.0 < t, t < 5.0, t >= 5.0, t <= 5.0, t == 5.0, t != 5.0, t > t]
        for i, row in enumerate(rows):
            assert row.dtype == pypto.DT_BOOL
            out[i : i + 1, :] = row

    t = ramp()[0]
    rows = [t > 5, t > 5, t < 5, t >= 5, t <= 5, t == 5, t != 5, t > t]
    out = torch.zeros(8, 32, dtype=torch.bool)
    k(ramp(), out)
    assert torch.equal(out, torch.stack(rows))


def test_integer_tensors_take_integer_scalars_case116():
    @pypto.jit
    def k(a: F32, n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        out[:] = (n + 2) * 3 - 1

    check(k, ints(8, 11, -7, 5, 5, 5, 5, 5), ints(1, 2, -4, 0, 0, 0, 0, 0))


def test_broadcast_of_extents_that_are_one():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 32)
        out[:] = a[0:1, :] + a[:, 0:1] * a

    check(k, ramp()[0:1] + ramp()[:, 0:1] * ramp())


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.bfloat16),
        (torch.float32, torch.float32),
        (torch.int8, torch.int32),
    ],
    ids=str,
)
def test_matmul_operator_case117(dtype, result):
    @pypto.jit
    def k(a: P(), b: P(), out: P()):
        pypto.set_vec_tile_shapes(16, 32)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        out[:] = a @ b

    a = (torch.arange(16 * 32).reshape(16, 32) % 5 - 2).to(dtype)
    b = (torch.arange(32 * 32).reshape(32, 32) % 3 - 1).to(dtype)
    out = torch.zeros(16, 32, dtype=result)
    k(a, b, out)
    assert torch.equal(out, (a.double() @ b.double()).to(result))


def test_methods_that_the_guide_names_exist_case118():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        h = pypto.cast(a, pypto.DT_FP16)
        assert h.dtype == pypto.DT_FP16 and h.float().dtype == DT
        t = (-(h.float())).abs() - a.neg() + pypto.abs(a) + pypto.neg(a)
        out[:] = t.transpose(0, 1)

    check(k, (ramp() * 2).t().contiguous())


def test_methods_that_no_kernel_tensor_has_case118():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for name in (
            "T",
            "half",
            "int",
            "to",
            "cast",
            "minimum",
            "mean",
            "squeeze",
            "size",
            "numel",
            "item",
            "gelu",
            "contiguous",
            "expand",
            "flatten",
            "clamp",
        ):
            assert not hasattr(a, name), name
        for name in ("abs", "neg", "float", "exp", "sqrt", "rsqrt", "sum", "reshape", "transpose"):
            assert hasattr(a, name), name
        out[:] = a

    check(k, ramp())


def test_slice_by_an_index_tensor_gathers_case120():
    @pypto.jit
    def k(a: F32, index: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[0:2, :] = a[0:index]
        out[2:4, :] = pypto.gather(a, 0, index)
        out[4:6, :] = a[1:index]
        out[6:8, :] = a.gather(1, index)

    index = (torch.arange(64).reshape(2, 32) * 7 % 16).int()
    rows, cols = ramp().gather(0, index.long()), ramp().gather(1, index.long())
    check(k, torch.cat([rows, rows, cols, cols, blank(8, 32)]), index)


def test_in_place_methods_return_their_tensor_case121():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t, u, v = a * 1.0, a * 1.0, a[0:16, 0:16] * 1.0
        assert t.fill_(2.0) is t and u.triu_() is u and v.tril_(1) is v
        out[:] = t + u
        out[0:16, 0:16] = v

    want = 2 + ramp().triu()
    want[:, 0:16] = ramp()[:, 0:16].tril(1)
    check(k, want)


def test_fill_of_an_output_case121():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        assert out.fill_(2.5) is out

    check(k, torch.full((16, 32), 2.5))


def test_copy_has_the_shape_and_no_data_case121():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        c = a.copy(name="fresh")
        assert c.shape == [16, 32] and c.dtype == a.dtype and c is not a and c.name == "fresh"
        c[:] = a + 1.0
        out[:] = c + a

    check(k, ramp() * 2 + 1)


def test_shape_is_a_fresh_list_case122():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        s = a.shape
        s[-1] //= 2
        assert s == [16, 16] and a.shape == [16, 32] and a.shape is not a.shape
        out[:] = pypto.view(a, s, [0, 16]) * 2.0

    check(k, ramp()[:, 16:] * 2)


def test_read_after_write_in_one_body_case123():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(2):
            buf = pypto.tensor([8, 32], DT)
            buf[0:4, :] = a[i * 8 : i * 8 + 4, :] + 1.0
            y = buf[0:4, :] * 2.0
            buf[4:8, :] = buf[0:4, :]
            buf[0:4, :] = y
            out[i * 8 : i * 8 + 8, :] = buf

    x, want = ramp(), blank(16, 32)
    for i in (0, 8):
        want[i : i + 4], want[i + 4 : i + 8] = (x[i : i + 4] + 1) * 2, x[i : i + 4] + 1
    check(k, want)


def test_attributes_of_a_tensor():
    @pypto.jit
    def k(a: F32, h: P([D, 8, 4]), out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        assert (a.dim, len(a.shape), a.dtype) == (2, 2, DT)
        assert a.format == pypto.TileOpFormat.TILEOP_ND and not a.is_empty()
        assert len(a.valid_shape) == 2 and a.valid_shape[1] == 32
        assert h.dim == 3 and h.shape[1:] == [8, 4] and type(h.shape[2]) is int
        t = pypto.Tensor([4, 8], pypto.DT_INT32, "mine")
        assert t.name == "mine" and t.shape == [4, 8] and t.dtype == pypto.DT_INT32
        t.name = "yours"
        assert t.name == "yours" and isinstance(t.id, int) and t.id != a.id
        assert pypto.tensor([4]).dtype == DT and pypto.Tensor is pypto.tensor
        out[:] = a

    check(k, ramp(), torch.zeros(2, 8, 4, dtype=torch.float16))


def test_element_carries_its_dtype():
    e = pypto.Element(pypto.DT_FP16, 1.5)
    assert (e.dtype, e.value) == (pypto.DT_FP16, 1.5)

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        h = pypto.cast(a, pypto.DT_FP16)
        out[:] = pypto.where(a > 100.0, h, pypto.Element(pypto.DT_FP16, 1.5)).float()

    check(k, torch.where(ramp() > 100, ramp(), torch.tensor(1.5)))


def test_local_takes_value_and_valid_extents_of_what_is_moved_in():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        buf = pypto.full([4, 32], 7.0, DT)
        buf[:] = pypto.view(a, [4, 32], [0, 0], valid_shape=[2, 32])
        assert buf.valid_shape[0] == 2
        pypto.assemble(buf * 2.0, [0, 0], out)
        kept = pypto.full([4, 32], 7.0, DT)
        kept[0:, 0:] = pypto.view(a, [4, 32], [0, 0], valid_shape=[2, 32])
        out[4:8, :] = kept

    want = blank(16, 32)
    want[0:2] = ramp()[0:2] * 2
    want[4:6], want[6:8] = ramp()[0:2], 7
    check(k, want)


def test_write_beyond_the_valid_box_extends_it_when_the_union_is_a_box():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        buf = pypto.view(a, [4, 32], [0, 0], valid_shape=[2, 32]) * 1.0
        buf[2:3, :] = a[9:10, :] * 1.0
        assert buf.valid_shape[0] == 3
        pypto.assemble(buf, [0, 0], out)

    want = blank(16, 32)
    want[0:2], want[2] = ramp()[0:2], ramp()[9]
    check(k, want)


def test_extents_that_differ_per_arm_and_trip_travel_with_the_tensor():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(4):
            if i == 1:
                t = pypto.view(a, [4, 32], [4, 0], valid_shape=[1, 32])
            else:
                t = pypto.view(a, [4, 32], [0, 0], valid_shape=[i, 32])
            pypto.assemble(t * 2.0, [i * 4, 0], out)
            if i == 3:
                last = t
        out[8:12, :] = last.sum(0, keepdim=True).reshape([1, 32]) + pypto.full([4, 32], 0.0, DT)

    x, want = ramp() * 2, blank(16, 32)
    want[4], want[12:15] = x[4], x[0:3]
    want[8:12] = ramp()[0:3].sum(0)
    check(k, want)


def test_concat_keeps_the_minimum_elsewhere_and_transpose_swaps():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        left = pypto.view(a, [4, 8], [0, 0], valid_shape=[3, 8])
        right = pypto.view(a, [4, 8], [4, 0], valid_shape=[2, 8])
        both = pypto.concat([left, right], 1)
        assert both.shape == [4, 16] and both.valid_shape[0] == 2 and both.valid_shape[1] == 16
        out[0:4, 0:16] = both
        out[8:16, 0:4] = pypto.transpose(left, 0, 1)

    x, want = ramp(), blank(16, 32)
    want[0:2, 0:8], want[0:2, 8:16] = x[0:2, 0:8], x[4:6, 0:8]
    want[8:16, 0:3] = x[0:3, 0:8].t()
    check(k, want)


def test_expand_clone_keeps_the_extents_that_it_does_not_expand():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 8)
        row = pypto.view(a, [1, 8], [3, 0], valid_shape=[1, 5])
        wide = pypto.expand_clone(row, [4, 8])
        assert wide.valid_shape[0] == 4 and wide.valid_shape[1] == 5
        out[0:4, 0:8] = wide
        out[8:12, 0:8] = row.expand_clone([4, 8], valid_shape=[2, 5])

    want = blank(16, 32)
    want[0:4, 0:5] = want[8:10, 0:5] = ramp()[3, 0:5]
    check(k, want)
