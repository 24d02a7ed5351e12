"""Trips of a parallel loop that meet in memory, and trips that only come near each other.

In: kernels with `parallel=True`.  Out: the error at the second of two accesses to one element, with
the iterations of both; right values where each trip keeps to itself.
"""

import numpy as np
import pytest
from sanitized import BEFORE, F32, INT, F, blank, finding, ints, race, ramp

import pypto

pytestmark = pytest.mark.filterwarnings("ignore::pypto.error.PyptoWarning")


@pytest.fixture(autouse=True)
def sanitizers(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "race")
    monkeypatch.setenv("PYPTO_CHECK", "0")


@pytest.mark.parametrize("rows", [2, 3])
def test_two_trips_write_one_row(rows):
    @pypto.jit
    def kernel(x: F32, out: F32, rows):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3, parallel=True):
            out[i * 2 : i * 2 + rows, :] = x[i * 2 : i * 2 + rows, :] + 1.0  # <-

    out = blank(8, 4)
    if rows == 2:
        kernel(ramp(8, 4), out, rows)
        assert np.array_equal(out[:6], ramp(8, 4)[:6] + 1)
        return
    problem = finding(kernel, ramp(8, 4), out, rows)
    assert problem.text == (
        "element [2, 0] of `out` is written here and was written in iteration i = 0 of the same "
        "loop, which says parallel=True (in iteration i = 1)"
    )
    assert problem.code == "F73001"
    assert (
        problem.fix == "let each iteration write elements of its own, or leave `parallel=True` out"
    )
    # Nothing of the second write has happened.
    assert np.array_equal(out[:3], ramp(8, 4)[:3] + 1)
    assert (out[3:] == BEFORE).all()


def test_only_valid_elements_count():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3, parallel=True):
            tile = pypto.view(x, [4, 4], [i * 2, 0], valid_shape=[2, 4])
            pypto.assemble(tile * 2.0, [i * 2, 0], out)

    out = blank(6, 4)
    kernel(ramp(6, 4), out)
    assert np.array_equal(out, ramp(6, 4) * 2)


def test_a_trip_reads_what_another_wrote():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(1, 4, parallel=True):
            out[i : i + 1, :] = (
                out[i - 1 : i, :]  # <-
                + x[i : i + 1, :]
            )

    out = blank(4, 4)
    assert race(kernel, ramp(4, 4), out) == (
        "element [1, 0] of `out` is read here and was written in iteration i = 1 of the same loop, "
        "which says parallel=True (in iteration i = 2)"
    )


def test_a_trip_writes_what_another_read():
    @pypto.jit
    def kernel(out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3, 0, -1, parallel=True):
            out[i : i + 1, 0:2] = out[i - 1 : i, 0:2] + 1.0  # <-

    out = ramp(4, 4)
    assert race(kernel, out) == (
        "element [2, 0] of `out` is written here and was read in iteration i = 3 of the same loop, "
        "which says parallel=True (in iteration i = 2)"
    )
    assert out[3].tolist() == [10, 11, 15, 16]


def test_reading_and_writing_its_own_elements():
    @pypto.jit
    def kernel(out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(4, parallel=True):
            out[i : i + 1, :] = out[i : i + 1, :] + 1.0
            out[i : i + 1, :] = out[i : i + 1, :] * 2.0

    out = ramp(4, 4)
    kernel(out)
    assert np.array_equal(out, (ramp(4, 4) + 1) * 2)


def test_every_trip_may_read_what_none_writes():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        first = out[0:1, :]
        for i in pypto.loop(4, parallel=True):
            out[i : i + 1, :] = x[0:1, :] + first

    out = ramp(4, 4)
    kernel(ramp(4, 4), out)
    assert np.array_equal(out, np.repeat(2 * ramp(4, 4)[:1], 4, 0))


def test_a_loop_in_order_may_meet_itself():
    @pypto.jit
    def kernel(out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(1, 4):
            out[i : i + 1, :] = out[i - 1 : i, :] + 1.0

    out = ramp(4, 4)
    kernel(out)
    assert out[3].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize("trips", [0, 1])
def test_no_trip_and_one_trip_meet_nobody(trips):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        buffer = x * 1.0
        for i in pypto.loop(n[0], parallel=True):
            buffer[:] = buffer + 1.0
        out[:] = buffer

    out = blank(4, 4)
    kernel(ramp(4, 4), ints(trips), out)
    assert np.array_equal(out, ramp(4, 4) + trips)


# --- loops in loops ------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [True, False])
def test_a_loop_inside_of_a_parallel_one(outer):
    @pypto.jit
    def kernel(x: F32, out: F32, outer):
        pypto.set_vec_tile_shapes(4, 4)
        for b in pypto.loop(2, parallel=outer):
            for j in pypto.loop(3):
                out[b * 2 : b * 2 + 3, :] = x[j : j + 3, :] + 1.0  # <-

    out = blank(5, 4)
    if outer:
        assert race(kernel, ramp(5, 4), out, outer) == (
            "element [2, 0] of `out` is written here and was written in iteration b = 0 of the "
            "same loop, which says parallel=True (in iteration b = 1, j = 0)"
        )
    else:
        kernel(ramp(5, 4), out, outer)
        assert np.array_equal(out[2:], ramp(5, 4)[2:] + 1)


def test_each_run_of_an_inner_parallel_loop_starts_anew():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for step in pypto.loop(3):
            for i in pypto.loop(4, parallel=True):
                out[i : i + 1, :] = out[i : i + 1, :] + x[step : step + 1, :]
            for i in pypto.loop(3, -1, -1, parallel=True):
                out[i : i + 1, :] = out[i : i + 1, :] * 2.0

    out = np.zeros((4, 4), np.float32)
    kernel(ramp(4, 4), out)
    want = np.zeros(4, np.float32)
    for step in range(3):
        want = (want + ramp(4, 4)[step]) * 2
    assert np.array_equal(out, np.repeat(want[None], 4, 0))


def test_parallel_loops_in_each_other():
    @pypto.jit
    def kernel(x: F32, out: F32, width):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(2, parallel=True):
            for j in pypto.loop(2, parallel=True):
                out[i : i + 1, j * 2 : j * 2 + width] = x[i : i + 1, 0:width] + 1.0  # <-

    out = blank(2, 5)
    kernel(ramp(2, 4), out, 2)
    assert np.array_equal(out[:, :4], np.tile(ramp(2, 4)[:, :2] + 1, 2))
    assert race(kernel, ramp(2, 4), out, 3) == (
        "element [0, 2] of `out` is written here and was written in iteration j = 0 of the same "
        "loop, which says parallel=True (in iteration i = 0, j = 1)"
    )


# --- memory of the kernel's own ------------------------------------------------------------------


@pytest.mark.parametrize("behind", [False, True])
def test_a_buffer_shared_by_the_trips(behind):
    @pypto.jit
    def kernel(x: F32, out: F32, behind):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.tensor([1, 4], F)
        for b in pypto.loop(3, parallel=True):
            h[:] = x[b : b + 1, :] * 2.0  # <-
            out[b : b + 1, :] = h + 1.0
        if behind:
            out[0:1, :] = h

    out = blank(3, 4)
    if not behind:
        # Each trip writes it before it reads it: each may have one of its own.
        kernel(ramp(3, 4), out, behind)
        assert np.array_equal(out, ramp(3, 4) * 2 + 1)
        return
    # What is found in it behind the loop hangs on which trip comes last.
    assert race(kernel, ramp(3, 4), out, behind) == (
        "element [0, 0] of `h` is written here and was written in iteration b = 0 of the same "
        "loop, which says parallel=True (in iteration b = 1)"
    )
    assert np.array_equal(out[0], ramp(3, 4)[0] * 2 + 1)
    assert (out[1:] == BEFORE).all()


def test_a_buffer_that_an_inner_loop_writes_and_reads():
    @pypto.jit
    def kernel(x: F32, out: F32, first):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.full([1, 4], 0.0, F)
        for b in pypto.loop(3, parallel=True):
            if first:
                h[:] = x[b : b + 1, :]
            for _ in pypto.loop(2):
                h[:] = h * 2.0  # <-
            out[b : b + 1, :] = h

    out = blank(3, 4)
    kernel(ramp(3, 4), out, True)
    assert np.array_equal(out, ramp(3, 4) * 4)
    # The first trip reads zeros that the second one would find doubled.
    assert race(kernel, ramp(3, 4), out, False) == (
        "element [0, 0] of `h` is read here and was written in iteration b = 0 of the same loop, "
        "which says parallel=True (in iteration b = 1, _ = 0)"
    )


def test_a_buffer_that_a_trip_writes_in_part():
    @pypto.jit
    def kernel(x: F32, out: F32, width):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.full([1, 4], 0.0, F)
        for b in pypto.loop(3, parallel=True):
            h[:, 0:width] = x[b : b + 1, 0:width]
            out[b : b + 1, :] = h + 0.5  # <-

    out = blank(3, 4)
    kernel(ramp(3, 4), out, 4)
    assert np.array_equal(out, ramp(3, 4) + 0.5)
    # Nobody writes the rest, so all may read it.
    kernel(ramp(3, 4), out, 2)
    assert np.array_equal(out[:, 2:], np.full((3, 2), 0.5, np.float32))


def test_a_buffer_that_one_trip_reads_and_a_later_one_writes():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.full([1, 4], 0.0, F)
        for b in pypto.loop(3, parallel=True):
            if b > 0:
                h[:] = x[b : b + 1, :]  # <-
            out[b : b + 1, :] = h + 0.5

    assert race(kernel, ramp(3, 4), blank(3, 4)) == (
        "element [0, 0] of `h` is written here and was read in iteration b = 0 of the same loop, "
        "which says parallel=True (in iteration b = 1)"
    )


def test_a_buffer_that_an_outer_loop_carries():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.full([1, 4], 0.0, F)
        for _ in pypto.loop(2):
            out[3:4, :] = h
            for b in pypto.loop(3, parallel=True):
                h[:] = x[b : b + 1, :] * 2.0  # <-
                out[b : b + 1, :] = h + 1.0

    race(kernel, ramp(3, 4), blank(4, 4))


def test_a_buffer_of_each_trip():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for b in pypto.loop(3, parallel=True):
            h = pypto.tensor([1, 4], F)
            h[:] = x[b : b + 1, :] * 2.0
            for t in pypto.loop(2):
                h[:] = h + 1.0
            state = h
            for t in pypto.loop(2):
                state = state * 2.0
            out[b : b + 1, :] = state

    out = blank(3, 4)
    kernel(ramp(3, 4), out)
    assert np.array_equal(out, (ramp(3, 4) * 2 + 2) * 4)


def test_rows_of_a_shared_buffer():
    @pypto.jit
    def kernel(x: F32, out: F32, back):
        pypto.set_vec_tile_shapes(4, 4)
        h = pypto.tensor([4, 4], F)
        flat = h.reshape([16], inplace=True)
        h[0:1, :] = x[0:1, :]
        for b in pypto.loop(1, 4, parallel=True):
            flat[b * 4 : b * 4 + 4] = x[b : b + 1, :].reshape([4])
            mine = h[b - back : b - back + 1, :]  # <-
            out[b : b + 1, :] = mine + 1.0

    out = blank(4, 4)
    kernel(ramp(4, 4), out, 0)
    assert np.array_equal(out[1:], ramp(4, 4)[1:] + 1)
    # Row 0 was written before the loop, so the first trip meets nobody.
    assert race(kernel, ramp(4, 4), out, 1) == (
        "element [1, 0] of `h` is read here and was written in iteration b = 1 of the same loop, "
        "which says parallel=True (in iteration b = 2)"
    )


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallel", [False, True])
def test_a_value_that_a_name_carries(parallel):
    @pypto.jit
    def kernel(x: F32, out: F32, parallel):
        pypto.set_vec_tile_shapes(4, 4)
        acc = x[0:1, :] * 0.0
        for i in pypto.loop(4, parallel=parallel):
            acc = acc + x[i : i + 1, :]  # <-
        out[:] = acc

    out = blank(1, 4)
    if parallel:
        problem = finding(kernel, ramp(4, 4), out, parallel)
        assert problem.text == (
            "`acc` is read here and holds what iteration i = 0 of the same loop left in it, which "
            "says parallel=True (in iteration i = 1)"
        )
        assert problem.fix == "give `acc` its value inside the body, or leave `parallel=True` out"
    else:
        kernel(ramp(4, 4), out, parallel)
        assert np.array_equal(out, ramp(4, 4).sum(0, keepdims=True))


def test_a_carried_value_is_read_in_an_inner_loop():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        acc = x[0:1, :] * 0.0
        for i in pypto.loop(2, parallel=True):
            for j in pypto.loop(2):
                acc = acc + x[j : j + 1, :]  # <-
        out[:] = acc

    assert race(kernel, ramp(4, 4), blank(1, 4)) == (
        "`acc` is read here and holds what iteration i = 0 of the same loop left in it, which says "
        "parallel=True (in iteration i = 1, j = 0)"
    )


def test_names_that_every_trip_binds_before_it_reads_them():
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        last = x[0:1, :] * 0.0
        for i in pypto.loop(4, parallel=True):
            if n[0] == 1:
                last = x[i : i + 1, :] * 2.0
            else:
                last = x[i : i + 1, :] * 3.0
            for j in pypto.loop(2):
                last = last + 1.0
            out[i : i + 1, :] = last
        out[4:5, :] = last

    out = blank(5, 4)
    kernel(ramp(4, 4), ints(1), out)
    assert np.array_equal(out[:4], ramp(4, 4) * 2 + 2)
    assert np.array_equal(out[4], out[3])


def test_counting_is_no_meeting():
    # Integers steer the kernel; they are not memory that the trips share.
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        count = 0
        for i in pypto.loop(4, parallel=True):
            out[count : count + 1, :] = x[i : i + 1, :] * 2.0
            count = count + 1

    out = blank(4, 4)
    kernel(ramp(4, 4), out)
    assert np.array_equal(out, ramp(4, 4) * 2)


# --- ops that write at places --------------------------------------------------------------------


def test_additions_meet_freely_but_nothing_else_may_come_between():
    @pypto.jit
    def kernel(x: F32, out: F32, reads):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(4, parallel=True):
            pypto.atomic_add(x[i : i + 1, :], [0, 0], out)
            if i == reads:
                out[1:2, :] = out[0:1, :] + 0.0  # <-

    out = np.zeros((2, 4), np.float32)
    kernel(ramp(4, 4), out, 9)
    assert np.array_equal(out[0], ramp(4, 4).sum(0))
    assert race(kernel, ramp(4, 4), out, 3) == (
        "element [0, 0] of `out` is read here and was added to in iteration i = 0 of the same "
        "loop, which says parallel=True (in iteration i = 3)"
    )


def test_an_addition_meets_a_write():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(2, parallel=True):
            if i == 0:
                out[0:1, :] = x[0:1, :] * 1.0
            pypto.atomic_add(x[i : i + 1, 0:2], [0, 2], out)  # <-

    assert race(kernel, ramp(4, 4), blank(2, 4)) == (
        "element [0, 2] of `out` is added to here and was written in iteration i = 0 of the same "
        "loop, which says parallel=True (in iteration i = 1)"
    )


@pytest.mark.parametrize("places", [(2, 0, 1), (2, 0, 2)])
def test_rows_of_a_cache(places):
    @pypto.jit
    def kernel(x: F32, places: INT, cache: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3, parallel=True):
            row = pypto.view(places, [1], [i])
            pypto.index_put_(cache, [row], x[i : i + 1, :])  # <-

    cache = blank(4, 4)
    if 1 in places:
        kernel(ramp(3, 4), ints(*places), cache)
        assert np.array_equal(cache[[2, 0, 1]], ramp(3, 4))
    else:
        assert race(kernel, ramp(3, 4), ints(*places), cache) == (
            "element [2, 0] of `cache` is written here and was written in iteration i = 0 of the "
            "same loop, which says parallel=True (in iteration i = 2)"
        )
        assert np.array_equal(cache[2], ramp(3, 4)[0])


@pytest.mark.parametrize("picks", [(0, 1), (1, 0)])
def test_rows_picked_from_a_shared_buffer(picks):
    @pypto.jit
    def kernel(x: F32, picks: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        h = x * 1.0
        for i in pypto.loop(2, parallel=True):
            h[i : i + 1, :] = x[i : i + 1, :] * 2.0
            index = pypto.view(picks, [1, 4], [i, 0])
            picked = pypto.gather(h, 0, index)  # <-
            out[i : i + 1, :] = picked

    index = np.repeat(np.array(picks, np.int32)[:, None], 4, 1)
    out = blank(2, 4)
    if picks == (0, 1):
        kernel(ramp(2, 4), index, out)
        assert np.array_equal(out, ramp(2, 4) * 2)
    else:
        # Trip 0 read row 1 before trip 1 writes it.
        with pytest.raises(RuntimeError) as caught:
            kernel(ramp(2, 4), index, out)
        assert caught.value.text == (
            "element [1, 0] of `h` is written here and was read in iteration i = 0 of the same "
            "loop, which says parallel=True (in iteration i = 1)"
        )


def test_elements_read_one_by_one():
    @pypto.jit
    def kernel(x: F32, counts: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3, parallel=True):
            before = counts[0]  # <-
            out[i : i + 1, :] = x[i : i + 1, :] * before
            if i == 1:
                counts[0] = 5

    assert race(kernel, ramp(3, 4), ints(2, 2), blank(3, 4), mark="counts[0] = 5") == (
        "element [0] of `counts` is written here and was read in iteration i = 0 of the same loop, "
        "which says parallel=True (in iteration i = 1)"
    )


def test_groups_of_an_unrolled_loop():
    @pypto.jit
    def kernel(x: F32, out: F32, wide):
        pypto.set_vec_tile_shapes(4, 4)
        for i, k in pypto.loop_unroll(6, unroll_list=[2], parallel=True):
            out[i : i + k + wide, :] = x[i : i + k + wide, :] * 2.0  # <-

    out = blank(7, 4)
    kernel(ramp(7, 4), out, 0)
    assert np.array_equal(out[:6], ramp(7, 4)[:6] * 2)
    assert race(kernel, ramp(7, 4), out, 1) == (
        "element [2, 0] of `out` is written here and was written in iteration i = 0 of the same "
        "loop, which says parallel=True (in iteration i = 2)"
    )
