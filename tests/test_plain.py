"""The judge of the front end judged: `plain.run` against values worked out by hand.

In: kernels of a few lines. Out: their arrays beside numbers that no program computed. What must
not show, invalid lanes and memory that nobody wrote, is asserted to be poison.
"""

import numpy as np
import plain
import pytest

import pypto

F32 = pypto.DT_FP32
OFFSETS = {"row": 2}
each = pypto.loop


def ramp(rows, cols):
    return np.arange(rows * cols, dtype=np.float32).reshape(rows, cols)


def blank(rows, cols):
    return np.full((rows, cols), -1, np.float32)


def test_view_that_overhangs_is_valid_up_to_the_end_of_its_source():
    seen = []

    def kernel(x, out):
        v = pypto.view(x, [4, 2], [3, 0])
        seen.append((v.shape, v.valid_shape, v.data.copy()))
        pypto.assemble(v, [0, 0], out)

    out = blank(4, 2)
    plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[6, 7], [8, 9], [-1, -1], [-1, -1]]
    assert seen[0][:2] == ([4, 2], [2, 2])
    assert np.isnan(seen[0][2][2:]).all()


def test_view_past_the_end_is_valid_nowhere_and_writes_nothing():
    def kernel(x, out):
        v = pypto.view(x, [2, 2], [9, 0])
        assert v.valid_shape == [0, 2]
        out[0:2, :] = v

    out = blank(2, 2)
    plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    ("offsets", "valid"), [([-1, 0], None), ([0, 0], [3, 2]), ([4, 0], [2, 2])]
)
def test_view_outside_its_source_or_valid_past_the_data_is_an_index_error(offsets, valid):
    def kernel(x, out):
        out[:] = pypto.view(x, [2, 2], offsets, valid_shape=valid)

    with pytest.raises(IndexError):
        plain.run(kernel, ramp(5, 2), blank(2, 2))


def test_view_is_a_snapshot_and_its_writes_do_not_reach_the_source():
    def kernel(x, out):
        s = x[0:1, :]
        x[0:1, :] = s + 10
        out[0:1, :] = s
        s[:] = s * 0
        out[1:2, :] = x[0:1, :]

    x, out = ramp(2, 2), blank(2, 2)
    plain.run(kernel, x, out)
    assert out.tolist() == [[0, 1], [10, 11]]
    assert x.tolist() == [[10, 11], [2, 3]]


def test_binary_op_is_valid_where_both_operands_are():
    def kernel(x, out):
        a = pypto.view(x, [4, 2], [0, 0], valid_shape=[3, 2])
        b = pypto.view(x, [4, 2], [0, 0], valid_shape=[2, 1])
        assert (a + b).valid_shape == [2, 1]
        assert (b > a).valid_shape == [2, 1]
        out[:] = a + b

    out = blank(4, 2)
    plain.run(kernel, ramp(4, 2), out)
    assert out.tolist() == [[0, -1], [4, -1], [-1, -1], [-1, -1]]


def test_axis_of_extent_one_is_repeated_over_the_valid_rows_only():
    def kernel(x, out):
        a = pypto.view(x, [4, 2], [0, 0], valid_shape=[3, 2])
        out[:] = a - pypto.view(x, [1, 2], [1, 0])

    out = blank(4, 2)
    plain.run(kernel, ramp(4, 2), out)
    assert out.tolist() == [[-2, -2], [0, 0], [2, 2], [-1, -1]]


def test_reductions_see_valid_elements_only():
    def kernel(x, out):
        v = pypto.view(x, [4, 3], [2, 1])  # rows 2..3 and columns 1..2 of x exist
        assert v.valid_shape == [2, 2]
        out[0:1, 0:2] = pypto.view(pypto.sum(v, 0, True), [1, 2], [0, 0])
        out[1:5, 0:1] = v.sum(-1, keepdim=True)
        out[1:5, 1:2] = pypto.amax(-v, 1, keepdim=True)
        out[5] = pypto.amin(v, 0)

    out = np.full((6, 3), -1, np.float32)
    plain.run(kernel, ramp(4, 3), out)
    assert out.tolist() == [
        [7 + 10, 8 + 11, -1],
        [7 + 8, -7, -1],
        [10 + 11, -10, -1],
        [-1, -1, -1],
        [-1, -1, -1],
        [7, 8, -1],
    ]


def test_matmul_contracts_over_the_smaller_valid_extent():
    def kernel(x, out):
        a = pypto.view(x, [4, 4], [0, 0], valid_shape=[1, 3])
        out[:] = pypto.matmul(a, pypto.full([4, 2], 1.0, F32), F32)
        out[2:4, :] = (x @ pypto.full([4, 2], 2.0, F32))[0:2, :]

    out = blank(4, 2)
    plain.run(kernel, ramp(4, 4), out)
    assert out.tolist() == [[3, 3], [-1, -1], [12, 12], [44, 44]]


def test_move_on_a_local_replaces_value_and_validity():
    def kernel(x, out):
        t = pypto.full([4, 2], 9.0, F32)
        alias = t
        t[:] = pypto.view(x, [4, 2], [3, 0])
        assert alias.valid_shape == [2, 2]
        out[:] = alias
        t.move(pypto.full([4, 2], 5.0, F32))
        out[3:4, :] = alias[3:4, :]

    out = blank(4, 2)
    plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[6, 7], [8, 9], [-1, -1], [5, 5]]


def test_move_on_a_parameter_copies_the_valid_box_and_leaves_the_source_usable():
    def kernel(x, out):
        v = pypto.view(x, [2, 2], [4, 0])
        out[:] = v
        assert out.valid_shape == [2, 2]
        out[1:2, :] = v[0:1, :] + 1

    out = blank(2, 2)
    plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[8, 9], [9, 10]]


@pytest.mark.parametrize("value", [[2, 3], [1, 2]])
def test_move_needs_equal_shapes(value):
    def kernel(x, out):
        out[:] = pypto.full(value, 1.0, F32)

    with pytest.raises(ValueError):
        plain.run(kernel, ramp(2, 2), blank(2, 2))


def test_assemble_copies_the_valid_box_and_refuses_to_leave_the_destination():
    def kernel(x, out):
        pypto.assemble([(x, [1, 0]), (pypto.view(x, [4, 2], [1, 0]), [3, 0])], out)

    out = blank(4, 2)
    plain.run(kernel, ramp(2, 2), out)
    assert out.tolist() == [[-1, -1], [0, 1], [2, 3], [2, 3]]

    def outside(x, out):
        pypto.assemble(x, [3, 0], out)

    with pytest.raises(IndexError):
        plain.run(outside, ramp(2, 2), blank(4, 2))


def test_write_beyond_the_valid_box_grows_it_if_a_box_remains():
    def kernel(x, out):
        t = pypto.view(x, [4, 2], [3, 0])
        t[2:3, :] = x[0:1, :]
        assert t.valid_shape == [3, 2]
        out[:] = t

    out = blank(4, 2)
    plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[6, 7], [8, 9], [0, 1], [-1, -1]]

    def hole(x, out):
        t = pypto.view(x, [4, 2], [3, 0])
        t[3:4, :] = x[0:1, :]

    with pytest.raises(IndexError):
        plain.run(hole, ramp(5, 2), out)


def test_inplace_reshape_is_a_second_handle_on_the_memory():
    def kernel(x, out):
        rows = pypto.reshape(out, [4, 1], inplace=True)
        rows[1:2, :] = x[0:1, 1:2]
        rows[:] = pypto.view(rows, [4, 1], [1, 0])
        t = x + 0
        flat = pypto.reshape(t, [4], inplace=True)
        flat[0:1] = flat[3:4]
        out[1:2, :] = t[0:1, :]

    out = blank(2, 2)
    plain.run(kernel, ramp(2, 2), out)
    assert out.tolist() == [[1, -1], [3, 1]]


def test_reshape_maps_the_valid_box_or_is_refused():
    def kernel(x, out):
        v = pypto.view(x, [4, 2], [3, 0])
        assert pypto.reshape(v, [1, 4, 1, 2]).valid_shape == [1, 2, 1, 2]
        assert pypto.reshape(x + 0, [2, 5]).valid_shape == [2, 5]
        assert pypto.reshape(v, [2, 4], valid_shape=[1, 4]).valid_shape == [1, 4]
        out[:] = pypto.reshape(pypto.view(x, [4, 2], [0, 0], valid_shape=[3, 1]), [2, 4])

    with pytest.raises(ValueError, match="fillpad"):
        plain.run(kernel, ramp(5, 2), blank(2, 4))


def test_fillpad_concat_and_expand_clone_keep_to_the_valid_box():
    def kernel(x, out):
        v = pypto.view(x, [2, 2], [4, 0])
        out[0:2, :] = pypto.fillpad(v, "constant", 7.0)
        c = pypto.concat([v, v], dim=1)
        assert c.valid_shape == [1, 4]
        e = pypto.expand_clone(pypto.view(x, [2, 1], [4, 0]), [2, 3])
        assert e.valid_shape == [1, 3]
        out[2:4, :] = e[:, 0:2]
        pypto.concat([v, v], 0)

    out = blank(4, 2)
    with pytest.raises(ValueError, match="concat"):
        plain.run(kernel, ramp(5, 2), out)
    assert out.tolist() == [[8, 9], [7, 7], [8, 8], [-1, -1]]


def test_indices_drop_axes_and_reads_of_integers_steer():
    def kernel(x, n, out):
        out[n[0]] = x[n[1], :] + n[1]
        out[-1, 1:2] = x[n[0], 0:1]
        n[n[1]] = n[0] + 5
        n[0] = n[2]

    x, n, out = ramp(3, 2), np.array([1, 2, 0], np.int32), blank(3, 2)
    plain.run(kernel, x, n, out)
    assert out.tolist() == [[-1, -1], [6, 7], [-1, 2]]
    assert n.tolist() == [6, 2, 6]


def test_loops_visit_what_their_bounds_say():
    seen = []

    def kernel(x: pypto.Tensor([pypto.DYNAMIC, 2], F32), out):
        for i in pypto.loop(7, 0, -3):
            seen.append(int(i))
        for i in each(2, 2):
            seen.append("never")
        for i, width in pypto.loop_unroll(7, unroll_list=[4, 2]):
            seen.append((int(i), width, bool(pypto.is_loop_begin(i)), bool(pypto.is_loop_end(i))))
        for i in pypto.loop(x.shape[0].min(2) / 2):
            seen.append(~(i == 0))
        out[0:1, :] = x[OFFSETS["row"] : OFFSETS["row"] + 1, :]

    out = blank(1, 2)
    plain.run(kernel, ramp(3, 2), out)
    assert seen == [
        *(7, 4, 1),
        *((0, 4, True, False), (4, 2, False, False), (6, 1, False, True)),
        0,
    ]
    assert out.tolist() == [[4, 5]]


def doubled(t):
    return pypto.mul(t, 2)


def rows_doubled(t, out, depth=1):
    if depth:
        return rows_doubled(t, out, depth - 1)
    for i in pypto.loop(t.shape[0]):
        out[i : i + 1, :] = doubled(t[i : i + 1, :])


def test_helpers_and_closures_speak_the_same_language():
    add = pypto.add

    def shifted(t):
        return add(t, 1)

    @pypto.jit
    def kernel(x: pypto.Tensor([], F32), out: pypto.Tensor([], F32)):
        rows_doubled(shifted(x), out)

    out = blank(2, 2)
    plain.run(kernel, ramp(2, 2), out)
    assert out.tolist() == [[2, 4], [6, 8]]


def test_half_precision_computes_in_fp32_and_rounds_once_an_op():
    def kernel(x, out):
        out[:] = (x + 1) - 2048

    x, out = np.array([[2047, 2048]], np.float16), np.zeros((1, 2), np.float16)
    plain.run(kernel, x, out)
    assert out.tolist() == [[0, 0]]  # 2049 is a tie between 2048 and 2050, which goes to even


def test_limit_stops_at_poison_and_at_sums_that_are_not_exact():
    def unwritten(x, out):
        t = pypto.tensor([2, 2], F32)
        out[:] = t + x

    def large(x, out):
        out[:] = (x + 1) * 10_000_000

    out = blank(2, 2)
    plain.run(unwritten, ramp(2, 2), out)
    assert np.isnan(out).all()
    for kernel in unwritten, large:
        with pytest.raises(plain.Unspecified):
            plain.run(kernel, ramp(2, 2), out, limit=2**24)
    plain.run(large, ramp(2, 2), out)
    assert out.tolist() == [[1e7, 2e7], [3e7, 4e7]]
