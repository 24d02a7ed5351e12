"""Elements that hold no value: kernels that read one, and kernels that nearly do.

In: kernels whose own tensors are filled in part.  Out: the error at the line that computes with an
element that nothing has written, or hands it to an argument; right values where none does.
"""

import numpy as np
import pytest
from sanitized import BEFORE, F32, INT, F, blank, finding, ints, ramp, unwritten

import pypto


@pytest.fixture(autouse=True)
def sanitizers(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "uninit,poison")
    monkeypatch.setenv("PYPTO_CHECK", "0")


def test_half_filled_tensor_is_computed_with():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        out[0:1, :] = x[0:1, :] * 2.0
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        out[:] = t + 1.0  # <-

    out = blank(4, 4)
    problem = finding(kernel, ramp(4, 4), out)
    assert problem.text == "`t` is read at element [2, 0], which nothing has written"
    assert problem.code == "F40000"
    assert problem.fix == (
        "fill it first, `t[:] = pypto.zeros(…)`, or take a view of what is written"
    )
    assert problem.loc.column == 18
    # What came before has happened, what comes after has not.
    assert out.tolist() == [[2, 4, 6, 8], *[[BEFORE] * 4] * 3]


def test_half_filled_tensor_goes_into_an_argument():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[:, 0:3] = x[:, 0:3]
        out[:] = t  # <-

    out = blank(4, 4)
    said = unwritten(kernel, ramp(4, 4), out)
    assert said == "element [0, 3] of `t` would go into `out`, which nothing has written"
    assert (out == BEFORE).all()


@pytest.mark.parametrize("rows", [3, 4])
def test_only_what_is_read_counts(rows):
    @pypto.jit
    def kernel(x: F32, out: F32, rows):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:3, :] = x[0:3, :]
        part = t[0:rows, :]
        out[0:rows, :] = part * 2.0  # <-

    out = blank(4, 4)
    if rows == 4:
        said = unwritten(kernel, ramp(4, 4), out, rows)
        assert said == "`part` is read at element [3, 0], which nothing has written"
    else:
        kernel(ramp(4, 4), out, rows)
        assert np.array_equal(out[:3], ramp(4, 4)[:3] * 2)


def test_overhanging_view_of_what_is_written():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([6, 4], F)
        t[0:6, :] = x[0:6, :]
        for i in pypto.loop(2):
            tail = t[i * 4 : i * 4 + 4, :]
            pypto.assemble(tail + 1.0, [i * 4, 0], out)

    out = blank(6, 4)
    kernel(ramp(6, 4), out)
    assert np.array_equal(out, ramp(6, 4) + 1)


def test_valid_extents_keep_what_is_unwritten_out():
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        k = n[0]
        t = pypto.tensor([4, 4], F)
        t[0:4, :] = pypto.view(x, [4, 4], [0, 0], valid_shape=[k, 4])
        some = pypto.view(t, [4, 4], [0, 0], valid_shape=[n[1], 4])
        out[0:4, :] = some + 1.0  # <-

    out = blank(4, 4)
    kernel(ramp(4, 4), ints(2, 2), out)
    assert np.array_equal(out[:2], ramp(4, 4)[:2] + 1)
    assert (out[2:] == BEFORE).all()
    said = unwritten(kernel, ramp(4, 4), ints(2, 3), out)
    assert said == "`some` is read at element [2, 0], which nothing has written"


# --- marks travel --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda t: t.clone(), "`u` is read at element [2, 0]"),
        (lambda t: pypto.transpose(t, 0, 1), "`u` is read at element [0, 2]"),
        (lambda t: t.reshape([2, 8]), "`u` is read at element [1, 0]"),
        (lambda t: pypto.concat([t, t], 1), "`u` is read at element [2, 0]"),
        (
            lambda t: pypto.expand_clone(t[2:3, :].reshape([1, 1, 4]), [2, 2, 4]),
            "`u` is read at element [0, 0, 0]",
        ),
        (lambda t: pypto.view(t, dtype=pypto.DT_FP16), "`u` is read at element [2, 0]"),
        (lambda t: pypto.triu(t), "`u` is read at element [2, 2]"),
        (lambda t: pypto.view(t, [2, 2], [1, 1]).reshape([4]), "`u` is read at element [2]"),
    ],
    ids="clone transpose reshape concat expand reinterpret triu view".split(),
)
def test_moving_elements_without_a_value_is_no_reading(step, said):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        u = step(t)
        out[:] = x * 3.0
        v = u + 1.0  # <-
        out[0:1, 0:1] = v.reshape([-1])[0:1].reshape([1, 1]).float()

    out = blank(4, 4)
    assert unwritten(kernel, ramp(4, 4), out) == f"{said}, which nothing has written"
    assert np.array_equal(out, ramp(4, 4) * 3)


def test_tril_and_fillpad_bring_values():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([2, 2], F)
        t[0:1, 0:1] = x[0:1, 0:1]
        t[1:2, 0:2] = x[1:2, 0:2]
        out[0:2, 0:2] = pypto.tril(t) + 1.0
        some = pypto.view(t, [2, 2], [0, 0], valid_shape=[2, 1])
        out[2:4, 0:2] = pypto.fillpad(some, "constant", 9) + 1.0

    out = blank(4, 2)
    kernel(np.array([[5, 0], [6, 7]], np.float32), out)
    assert out.tolist() == [[6, 1], [7, 8], [6, 10], [7, 10]]


@pytest.mark.parametrize("filled", [False, True])
def test_one_tensor_is_assembled_from_others(filled):
    @pypto.jit
    def kernel(x: F32, out: F32, filled):
        pypto.set_vec_tile_shapes(4, 4)
        left = pypto.tensor([4, 2], F)
        left[0:3, :] = x[0:3, 0:2]
        both = pypto.tensor([4, 4], F)
        both[:, 2:4] = x[:, 2:4]
        both[:, 0:2] = left
        if filled:
            both[3:4, :] = x[3:4, :]
        out[:] = both + 1.0  # <-

    out = blank(4, 4)
    if filled:
        kernel(ramp(4, 4), out, filled)
        assert np.array_equal(out, ramp(4, 4) + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), out, filled)
        assert said == "`both` is read at element [3, 0], which nothing has written"


def test_what_is_overwritten_by_a_blank_is_blank_again():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[:] = x + 1.0
        other = pypto.tensor([4, 4], F)
        other[0:1, :] = x[0:1, :]
        t[:] = other
        out[:] = t * 2.0  # <-

    said = unwritten(kernel, ramp(4, 4), blank(4, 4))
    assert said == "`t` is read at element [1, 0], which nothing has written"


@pytest.mark.parametrize("rows", [3, 4])
def test_an_in_place_reshape_is_the_same_memory(rows):
    @pypto.jit
    def kernel(x: F32, out: F32, rows):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        flat = t.reshape([16], inplace=True)
        flat[0 : rows * 4] = x.reshape([16])[0 : rows * 4]
        out[:] = t + 1.0  # <-

    out = blank(4, 4)
    if rows == 4:
        kernel(ramp(4, 4), out, rows)
        assert np.array_equal(out, ramp(4, 4) + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), out, rows)
        assert said == "`t` is read at element [3, 0], which nothing has written"


def test_an_in_place_reshape_is_read():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(8)
        t = pypto.tensor([4, 4], F)
        flat = t.reshape([16], inplace=True)
        t[0:2, :] = x[0:2, :]
        out[0:8] = flat[0:8] + 1.0
        out[8:16] = flat[8:16] + 1.0  # <-

    out = blank(16)
    said = unwritten(kernel, ramp(4, 4), out)
    assert said == "a view of `t` is read at element [0], which nothing has written"
    assert np.array_equal(out[:8], ramp(8) + 1)


# --- loops and branches --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 3, 4])
def test_a_loop_fills_row_by_row(n):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        for i in pypto.loop(n[0]):
            t[i : i + 1, :] = x[i : i + 1, :] * 2.0
        out[:] = t + 1.0  # <-

    out = blank(4, 4)
    if n == 4:
        kernel(ramp(4, 4), ints(n), out)
        assert np.array_equal(out, ramp(4, 4) * 2 + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), ints(n), out)
        assert said == f"`t` is read at element [{n}, 0], which nothing has written"


def test_the_iteration_of_every_open_loop_is_named():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3):
            t = pypto.tensor([4, 4], F)
            t[0:3, :] = x[0:3, :]
            for j in pypto.loop(8, -1, -2):
                if i == 1:
                    row = t[i + 2 : i + 3, :]
                    out[0:1, :] = row + out[0:1, :]  # <-

    said = unwritten(kernel, ramp(4, 4), blank(4, 4))
    assert said == (
        "`row` is read at element [0, 0], which nothing has written (in iteration i = 1, j = 8)"
    )


@pytest.mark.parametrize("first", [0, 1])
def test_memory_made_in_a_body_is_fresh_on_every_trip(first):
    @pypto.jit
    def kernel(x: F32, out: F32, first):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3):
            t = pypto.tensor([2, 4], F)
            t[0:1, :] = x[i : i + 1, :]
            if i >= first:
                t[1:2, :] = x[3:4, :]
            out[i : i + 1, :] = t.sum(0, keepdim=True)  # <-

    out = blank(4, 4)
    if first == 0:
        kernel(ramp(4, 4), out, first)
        assert np.array_equal(out[:3], ramp(4, 4)[:3] + ramp(4, 4)[3:])
    else:
        said = unwritten(kernel, ramp(4, 4), out, first)
        assert said == (
            "`t` is read at element [1, 0], which nothing has written (in iteration i = 0)"
        )


@pytest.mark.parametrize("flag", [0, 1])
def test_one_arm_of_a_branch_fills(flag):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        if n[0] == 1:
            t[:] = x * 2.0
        else:
            t[0:2, :] = x[0:2, :]
        out[:] = t + 1.0  # <-

    out = blank(4, 4)
    if flag:
        kernel(ramp(4, 4), ints(flag), out)
        assert np.array_equal(out, ramp(4, 4) * 2 + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), ints(flag), out)
        assert said == "`t` is read at element [2, 0], which nothing has written"


@pytest.mark.parametrize("flag", [0, 1])
def test_a_name_that_a_branch_binds_anew(flag):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        if n[0] == 1:
            t = x * 2.0
        out[:] = t + 1.0  # <-

    out = blank(4, 4)
    if flag:
        kernel(ramp(4, 4), ints(flag), out)
        assert np.array_equal(out, ramp(4, 4) * 2 + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), ints(flag), out)
        assert said == "`t` is read at element [2, 0], which nothing has written"


def test_a_carried_name_starts_from_memory_that_is_half_filled():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        start = pypto.tensor([4, 4], F)
        start[0:3, :] = x[0:3, :]
        state = start
        for i in pypto.loop(3):
            state = state * 2.0  # <-
        out[:] = state

    said = unwritten(kernel, ramp(4, 4), blank(4, 4))
    assert said == (
        "`state` is read at element [3, 0], which nothing has written (in iteration i = 0)"
    )


@pytest.mark.parametrize("trips", [1, 2])
def test_marks_change_places_with_their_tensors(trips):
    @pypto.jit
    def kernel(x: F32, out: F32, trips):
        pypto.set_vec_tile_shapes(4, 4)
        a, b = x * 1.0, pypto.tensor([4, 4], F)
        b[0:3, :] = x[0:3, :]
        for i in pypto.loop(trips):
            a, b = b, a
        out[:] = a + 1.0  # <-

    out = blank(4, 4)
    if trips == 2:
        kernel(ramp(4, 4), out, trips)
        assert np.array_equal(out, ramp(4, 4) + 1)
    else:
        said = unwritten(kernel, ramp(4, 4), out, trips)
        assert said == "`a` is read at element [3, 0], which nothing has written"


@pytest.mark.parametrize("last", [2, 3])
def test_an_accumulator_that_the_first_trip_starts(last):
    @pypto.jit
    def kernel(x: F32, out: F32, last):
        pypto.set_vec_tile_shapes(4, 4)
        acc = pypto.tensor([1, 4], F)
        for i in pypto.loop(3):
            if pypto.is_loop_begin(i):
                acc[:, 0 : last + 1] = x[0:1, 0 : last + 1]
            else:
                acc[:] = acc + x[i : i + 1, :]  # <-
            if pypto.is_loop_end(i):
                out[:] = acc * 1.0

    out = blank(1, 4)
    if last == 3:
        kernel(ramp(4, 4), out, last)
        assert np.array_equal(out, ramp(4, 4)[:3].sum(0, keepdims=True))
    else:
        said = unwritten(kernel, ramp(4, 4), out, last)
        assert said == (
            "`acc` is read at element [0, 3], which nothing has written (in iteration i = 1)"
        )


def test_a_helper_names_what_it_returns_by_its_caller():
    def halved(x):
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        return t.clone()

    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        mine = halved(x)
        out[:] = mine + 1.0  # <-

    said = unwritten(kernel, ramp(4, 4), blank(4, 4))
    assert said == "`mine` is read at element [2, 0], which nothing has written"
