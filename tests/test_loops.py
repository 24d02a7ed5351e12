"""`pypto.loop`, `pypto.loop_unroll` and symbolic branches mean what their text says.

In go loops and branches over symbols, with state carried in names and in tensors; out must come
the values of ordinary Python. Most kernels leave a trail in an int32 output: the element written
by the n-th trip tells which index that trip had, so order and count are checked together.
It has more than 600 lines because loops, branches and what they carry only mean something together.
"""

import sys

import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
D = pypto.DYNAMIC
S = pypto.STATIC
I32 = P([], pypto.DT_INT32)
ROWS = P([D, 32], DT)
GENERAL = pypto.error.PyptoGeneralError


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def trail(length=20):
    return torch.full((length,), -1, dtype=torch.int32)


def trail_of(values, length=20):
    want = trail(length)
    want[: len(values)] = ints(*values)
    return want


@pypto.jit
def follow(out: I32, bounds, options):
    pypto.set_vec_tile_shapes(8)
    cnt = 0
    for i in pypto.loop(*bounds, **options):
        out[cnt] = i
        cnt += 1


@pypto.jit
def grown(out: F32, in_place):
    pypto.set_vec_tile_shapes(1, 32)
    c = pypto.full([1, 32], 0.0, DT)
    for _ in pypto.loop(4):
        if in_place:
            c[:] = c + 1.0
        else:
            c = c + 1.0
    out[:] = c


@pytest.mark.parametrize("in_place", [True, False], ids=["written_case51", "rebound_case52"])
def test_tensor_carries_from_trip_to_trip(in_place):
    out = blank(1, 32)
    grown(out, in_place)
    assert torch.equal(out, torch.full((1, 32), 4.0))


def test_python_counter_carries_and_is_an_offset_afterwards_case53():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        cnt = 0
        for _ in pypto.loop(3):
            cnt += 1
        out[:] = pypto.view(a, [1, 32], [cnt, 0]) * 1.0

    out = blank(1, 32)
    k(ramp(), out)
    assert torch.equal(out, ramp()[3:4])


@pytest.mark.parametrize(
    "bounds", [(4,), (2, 6), (2, 15, 3), (0, 3, 5), (5, 5), (0,), (6, 2), (-3, 2)], ids=str
)
def test_indices_and_zero_trips_case54(bounds):
    out = trail()
    follow(out, bounds, {})
    assert torch.equal(out, trail_of(list(range(*bounds))))


@pytest.mark.parametrize("bounds", [(10, 0, -3), (10, 1, -3), (3, -1, -1), (0, 5, -1)], ids=str)
def test_negative_step_case55(bounds):
    out = trail()
    follow(out, bounds, {})
    assert torch.equal(out, trail_of(list(range(*bounds))))


@pytest.mark.parametrize("bounds", [range(3), range(1, 7, 2), range(6, 0, -2), range(0)], ids=str)
def test_range_of_ints_is_accepted_case57(bounds):
    out = trail()
    follow(out, (bounds,), {})
    assert torch.equal(out, trail_of(list(bounds)))


@pytest.mark.parametrize(
    ("bounds", "factors"),
    [
        ((7,), [4, 2]),
        ((7,), [2, 4, 4]),
        ((5,), [3, 2, 1]),
        ((1,), [8, 4, 1]),
        ((3, 16), [8, 4]),
        ((0, 5, 2), [2, 1]),
        ((10, 0, -3), [2]),
        ((0,), [4]),
    ],
    ids=str,
)
def test_unroll_list_of_a_plain_loop_changes_nothing_case59(bounds, factors):
    out = trail()
    follow(out, bounds, {"unroll_list": factors})
    assert torch.equal(out, trail_of(list(range(*bounds))))


@pytest.mark.parametrize(
    "options",
    [
        {"parallel": True},
        {"parallel": False},
        {"submit_before_loop": True},
        {"name": "rows"},
        {"idx_name": "row"},
        {"name": "a", "idx_name": "b", "submit_before_loop": True, "unroll_list": [2]},
    ],
    ids=str,
)
def test_options_of_a_loop_change_no_value_case73(options):
    @pypto.jit
    def k(a: F32, out: F32, options):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(16, **options):
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

    out = blank(16, 32)
    k(ramp(), out, options)
    assert torch.equal(out, ramp() * 2)


def test_unknown_option_of_a_loop_has_no_effect_and_is_warned_of_case73():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(16, foo=1):
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

    out = blank(16, 32)
    with pytest.warns(pypto.error.PyptoWarning, match="has no keyword `foo`: it has no effect"):
        k(ramp(), out)
    assert torch.equal(out, ramp() * 2)


def test_broken_promise_of_parallel_runs_in_order_case73(monkeypatch):
    # The race sanitizer, which tests have on, would say that the promise is broken.
    monkeypatch.setenv("PYPTO_SANITIZE", "0")

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(1, 16, parallel=True):
            out[i : i + 1, :] = out[i - 1 : i, :] + a[i : i + 1, :]

    a, out = ramp(), torch.zeros(16, 32)
    k(a, out)
    want = a.cumsum(0)
    assert torch.equal(out, want - want[0:1])


@pytest.mark.parametrize(
    ("bounds", "factors", "groups"),
    [
        ((7,), [4, 2], [(0, 4), (4, 2), (6, 1)]),
        ((7,), [4, 1], [(0, 4), (4, 1), (5, 1), (6, 1)]),
        ((3,), None, [(0, 1), (1, 1), (2, 1)]),
        ((2, 11), [4], [(2, 4), (6, 4), (10, 1)]),
        ((5,), [3, 2], [(0, 3), (3, 2)]),
        ((0,), [4, 2], []),
    ],
    ids=str,
)
def test_groups_of_loop_unroll_case60(bounds, factors, groups):
    @pypto.jit
    def k(out: I32, bounds, options):
        pypto.set_vec_tile_shapes(1, 8)
        cnt = 0
        for i, count in pypto.loop_unroll(*bounds, **options):
            assert type(count) is int
            out[cnt, 0] = i
            out[cnt, 1] = count
            cnt += 1

    out = torch.full((8, 2), -1, dtype=torch.int32)
    k(out, bounds, {} if factors is None else {"unroll_list": factors})
    want = torch.full((8, 2), -1, dtype=torch.int32)
    for row, group in enumerate(groups):
        want[row] = ints(*group)
    assert torch.equal(out, want)


@pypto.jit
def copied_in_groups(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(4, 32)
    for i, count in pypto.loop_unroll(a.shape[0], unroll_list=[4, 2], name="rows"):
        out[i : i + count, :] = a[i : i + count, :]


@pytest.mark.parametrize("rows", [7, 4, 1, 0, 16])
def test_loop_unroll_covers_every_row_case60(rows):
    out = blank(rows, 32)
    copied_in_groups(ramp(rows), out)
    assert torch.equal(out, ramp(rows))


def test_loop_unroll_with_a_step_gives_the_extent_of_the_group_case60():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(1, 8)
        cnt = 0
        for i, count in pypto.loop_unroll(0, 14, 2, unroll_list=[4, 2]):
            out[cnt, 0] = i
            out[cnt, 1] = count
            cnt += 1

    out = torch.full((8, 2), -1, dtype=torch.int32)
    k(out)
    assert out[:4].tolist() == [[0, 8], [8, 4], [12, 2], [-1, -1]]


@pypto.jit
def doubled_rows(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(1, 32)
    for i in pypto.loop(a.shape[0]):
        out[i : i + 1, :] = a[i : i + 1, :] * 2.0


@pytest.mark.parametrize("rows", [1, 5, 17])
def test_loop_over_dynamic_rows_case62(rows):
    out = blank(rows, 32)
    doubled_rows(ramp(rows), out)
    assert torch.equal(out, ramp(rows) * 2)


@pypto.jit
def begin_and_end(out: I32, bounds, options):
    pypto.set_vec_tile_shapes(8)
    cnt = 0
    for i in pypto.loop(*bounds, **options):
        if pypto.is_loop_begin(i):
            out[cnt] = 1
        elif pypto.is_loop_end(i):
            out[cnt] = 2
        else:
            out[cnt] = 3
        cnt += 1


@pytest.mark.parametrize(
    ("bounds", "marks"),
    [
        ((5,), [1, 3, 3, 3, 2]),
        ((1,), [1]),
        ((2,), [1, 2]),
        ((2, 15, 3), [1, 3, 3, 3, 2]),
        ((10, 0, -3), [1, 3, 3, 2]),
        ((0,), []),
    ],
    ids=str,
)
@pytest.mark.parametrize("options", [{}, {"unroll_list": [2, 1]}], ids=["plain", "unrolled"])
def test_begin_and_end_case63(bounds, marks, options):
    out = trail()
    begin_and_end(out, bounds, options)
    assert torch.equal(out, trail_of(marks))


def test_end_of_the_outer_loop_is_asked_in_the_inner_one_case64():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(1, 8)
        for i in pypto.loop(3):
            for j in pypto.loop(2):
                if pypto.is_loop_end(i):
                    out[i, j] = 2
                else:
                    out[i, j] = 1
                if pypto.is_loop_begin(i):
                    out[i, j + 2] = 7

    out = torch.full((3, 4), -1, dtype=torch.int32)
    k(out)
    assert out.tolist() == [[1, 1, 7, 7], [1, 1, -1, -1], [2, 2, -1, -1]]


def test_begin_of_a_derived_index_is_that_of_the_innermost_loop_with_a_note_case64():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(2, 6):
            j = i + 0
            if pypto.is_loop_begin(j * 1):
                out[i] = 1
            else:
                out[i] = 2

    out = trail()
    with pytest.warns(pypto.error.PortabilityNote, match="loop index"):
        k(out)
    assert out[:7].tolist() == [-1, -1, 1, 2, 2, 2, -1]


@pypto.jit
def begun_in_the_loop(a: ROWS, out: F32):
    pypto.set_vec_tile_shapes(1, 32)
    acc = pypto.tensor([1, 32], DT)
    for i in pypto.loop(a.shape[0]):
        t = a[i : i + 1, :] * 1.0
        if pypto.is_loop_begin(i):
            acc[:] = pypto.clone(t)
        else:
            acc[:] = acc + t
        if pypto.is_loop_end(i):
            out[:] = acc * 1.0


@pypto.jit
def published_after_the_loop(a: ROWS, out: F32):
    pypto.set_vec_tile_shapes(1, 32)
    acc = pypto.tensor([1, 32], DT)
    for i in pypto.loop(a.shape[0]):
        if pypto.is_loop_begin(i):
            acc[:] = a[i : i + 1, :] * 1.0
        else:
            acc[:] = acc + a[i : i + 1, :]
    out[:] = acc


@pypto.jit
def begun_by_binding(a: ROWS, out: F32):
    pypto.set_vec_tile_shapes(1, 32)
    for i in pypto.loop(a.shape[0]):
        if pypto.is_loop_begin(i):
            acc = a[i : i + 1, :] * 1.0
        else:
            acc = acc + a[i : i + 1, :]
    out[:] = acc


@pytest.mark.parametrize(
    "kernel",
    [begun_in_the_loop, published_after_the_loop, begun_by_binding],
    ids=["case65", "case66", "bound_in_the_loop"],
)
def test_accumulator_that_is_begun_in_the_loop(kernel):
    for rows in (5, 1):
        out = blank(1, 32)
        kernel(torch.ones(rows, 32), out)
        assert torch.equal(out, torch.full((1, 32), float(rows)))


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_bound_is_read_from_a_tensor_case67(trips):
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(n[1]):
            out[i] = i * 10

    out = trail()
    k(ints(9, trips, 9, 9), out)
    assert torch.equal(out, trail_of([i * 10 for i in range(trips)]))


def test_ragged_sequences_case67():
    @pypto.jit
    def k(a: ROWS, act: I32, out: ROWS):
        pypto.set_vec_tile_shapes(1, 32)
        for b in pypto.loop(4):
            start = act[b]
            s = act[b + 1] - act[b]
            acc = pypto.full([1, 32], 0.0, DT)
            for j in pypto.loop(0, s, 2):
                t = pypto.view(a, [2, 32], [start + j, 0], valid_shape=[pypto.min(s - j, 2), 32])
                acc = acc + t.sum(0, keepdim=True)
            out[b : b + 1, :] = acc

    edges = [0, 3, 3, 8, 9]
    a, out = ramp(9), blank(4, 32)
    k(a, ints(*edges), out)
    want = torch.stack([a[p:q].sum(0) for p, q in zip(edges, edges[1:], strict=False)])
    assert torch.equal(out, want)


def test_three_nested_loops_case68():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 16)
        h = 3
        for b in pypto.loop(2):
            for j in pypto.loop(h):
                for c in pypto.loop(2):
                    row = (b * h + j) * 4
                    out[row : row + 4, c * 16 : c * 16 + 16] = (
                        a[row : row + 4, (1 - c) * 16 : (1 - c) * 16 + 16] * 1.0
                    )

    a, out = ramp(24), blank(24, 32)
    k(a, out)
    assert torch.equal(out, torch.cat([a[:, 16:], a[:, :16]], 1))


@pypto.jit
def branch_by_index(a: F32, out: F32, trips):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(trips):
        if i == 1:
            t = a + 1.0
        else:
            t = a + 5.0
        out[:] = t


@pytest.mark.parametrize(("trips", "added"), [(3, 5), (2, 1), (1, 5)])
def test_last_trip_decides_case69(trips, added):
    out = blank(16, 32)
    branch_by_index(ramp(), out, trips)
    assert torch.equal(out, ramp() + added)


def test_branch_without_else_on_a_value_read_case70():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(16):
            if i < n[0]:
                out[i : i + 1, :] = a[i : i + 1, :] * 2.0

    for n in (0, 5, 16):
        out, want = blank(16, 32), blank(16, 32)
        k(ramp(), ints(n, 3), out)
        want[:n] = ramp()[:n] * 2
        assert torch.equal(out, want)


def test_elif_chain_case71():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(6):
            if i < 2:
                group = 10
            elif i < 4:
                group = 20
            else:
                group = 30
            out[i] = group + i

    out = trail()
    k(out)
    assert torch.equal(out, trail_of([10, 11, 22, 23, 34, 35]))


def test_branches_nested_in_arms():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        lo = 0
        hi = n[0]
        if n[1] > 0:
            lo = n[0]
            if n[2] > 0:
                hi = n[3]
        out[0] = lo
        out[1] = hi

    for a in (0, 1):
        for b in (0, 1):
            out = trail(4)
            k(ints(5, a, b, 9), out)
            assert out.tolist() == [5 if a else 0, 9 if a and b else 5, -1, -1]


def test_cond_is_its_condition_case72():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(3):
            if pypto.cond(i == 0):
                out[i] = 1
            else:
                out[i] = 2
            if pypto.cond(1):
                out[i + 4] = 5
            if pypto.cond(0):
                out[i + 4] = 6

    out = trail(8)
    k(out)
    assert out.tolist() == [1, 2, 2, -1, 5, 5, 5, -1]


def test_cond_takes_no_float_case72():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        if pypto.cond(1.5):  # float
            out[0] = 1

    with refused(ValueError, "Invalid value type", code="F00002", at="float"):
        k(trail())


def test_tiles_set_in_a_loop_or_a_symbolic_branch_do_not_leak_case74():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in pypto.loop(2):
            assert list(pypto.get_vec_tile_shapes()) == [16, 32]
            pypto.set_vec_tile_shapes(1, 32)
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0
            assert list(pypto.get_vec_tile_shapes()) == [1, 32]
        assert list(pypto.get_vec_tile_shapes()) == [16, 32]
        if n[0] > 0:
            pypto.set_vec_tile_shapes(8, 16)
            assert list(pypto.get_vec_tile_shapes()) == [8, 16]
        else:
            assert list(pypto.get_vec_tile_shapes()) == [16, 32]
            pypto.set_vec_tile_shapes(2, 16)
        assert list(pypto.get_vec_tile_shapes()) == [16, 32]
        if a.shape[0] == 16:
            pypto.set_vec_tile_shapes(8, 8)
        assert list(pypto.get_vec_tile_shapes()) == [8, 8]
        out[2:16, :] = a[2:16, :] * 3.0

    out = blank(16, 32)
    k(ramp(), ints(1), out)
    assert torch.equal(out, torch.cat([ramp()[:2] * 2, ramp()[2:] * 3]))


@pytest.mark.parametrize(("bounds", "last"), [((5,), 4), ((2, 15, 3), 14), ((10, 0, -3), 1)])
def test_index_after_the_loop_is_the_last_one_case75(bounds, last):
    @pypto.jit
    def k(out: I32, bounds):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(*bounds):
            out[0] = 100
        out[1] = i
        assert isinstance(i, pypto.SymbolicScalar)

    out = trail(4)
    k(out, bounds)
    assert out.tolist() == [100, last, -1, -1]


def test_index_that_was_bound_before_survives_zero_trips_case75():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        i = 41
        for i in pypto.loop(n[0]):
            out[0] = 100
        out[1] = i + 1

    for trips, want in ((0, [-1, 42]), (3, [100, 3])):
        out = trail(2)
        k(ints(trips), out)
        assert out.tolist() == want


def test_name_first_bound_in_the_loop_is_read_after_it():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(n[0]):
            last = i * 10
        out[0] = last  # unbound

    out = trail(2)
    k(ints(3), out)
    assert out.tolist() == [20, -1]
    with refused(NameError, "last", code="F00004", cls=GENERAL, at="unbound"):
        k(ints(0), trail(2))


def test_name_bound_in_one_arm_is_read_after_it():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        if n[0] > 0:
            found = 7
        out[0] = found  # unbound

    out = trail(2)
    k(ints(1), out)
    assert out.tolist() == [7, -1]
    with refused(NameError, "found", code="F00004", cls=GENERAL, at="unbound"):
        k(ints(0), trail(2))


def test_loop_under_another_name_is_still_a_loop():
    @pypto.jit
    def k(a: ROWS, out: I32):
        pypto.set_vec_tile_shapes(8)
        loop = pypto.loop
        cnt = 0
        for i in loop(a.shape[0]):
            cnt += i
        bound = pypto.loop(a.shape[0])
        for i in bound:
            cnt += 100
        out[0] = cnt

    out = trail(2)
    k(ramp(5), out)
    assert out.tolist() == [510, -1]


def test_inner_loop_updates_an_outer_name():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        c = 0
        for i in pypto.loop(3):
            for j in pypto.loop(2):
                c = c + j + i
                last = c
        out[0] = c
        out[1] = last

    out = trail(2)
    k(out)
    assert out.tolist() == [9, 9]


def test_sibling_loops_may_use_one_name_for_different_shapes():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 32)
        for i in pypto.loop(2):
            t = a[i * 8 : i * 8 + 8, :] * 2.0
            out[i * 8 : i * 8 + 8, :] = t
        for i in pypto.loop(4):
            t = a[i : i + 1, 0:8] * 3.0
            out[i : i + 1, 0:8] = t

    out, want = blank(16, 32), ramp() * 2
    want[0:4, 0:8] = ramp()[0:4, 0:8] * 3
    k(ramp(), out)
    assert torch.equal(out, want)


def test_names_swapped_on_every_trip():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        p, q = a * 1.0, a * 10.0
        for _ in pypto.loop(3):
            p, q = q, p + 1.0
        out[:] = p - q

    p, q = ramp(), ramp() * 10
    for _ in range(3):
        p, q = q, p + 1
    out = blank(16, 32)
    k(ramp(), out)
    assert torch.equal(out, p - q)


def test_alias_made_before_the_loop_sees_the_writes():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 1.0
        alias = t
        for _ in pypto.loop(3):
            alias[:] = alias + 1.0
        out[:] = t

    out = blank(16, 32)
    k(ramp(), out)
    assert torch.equal(out, ramp() + 3)


def test_value_kept_under_another_name_is_not_an_alias():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 1.0
        for i in pypto.loop(5):
            if i == n[0]:
                kept = t + 0.0
            t[:] = t + 1.0
        out[:] = kept

    out = blank(16, 32)
    k(ramp(), ints(2), out)
    assert torch.equal(out, ramp() + 2)


def test_write_through_a_container_in_a_loop_is_fine():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        d = {"o": out}
        lst = [a * 1.0]
        for _ in pypto.loop(3):
            d["o"][:] = d["o"] + a
            lst[0][:] = lst[0] + 1.0
        out[0:1, :] = lst[0][0:1, :]

    a, out = ramp(), ramp() * 100
    k(a, out)
    want = a * 103
    want[0] = a[0] + 3
    assert torch.equal(out, want)


def test_list_changed_in_a_loop_is_refused():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        state = [a * 1.0]
        for _ in pypto.loop(3):
            state[0] = state[0] + a  # changed
        out[:] = state[0]

    with refused(TypeError, "list", "pypto.loop", code="F00001"):
        k(ramp(), blank(16, 32))


def test_none_that_becomes_a_tensor_in_a_loop_is_refused():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        acc = None
        for _ in pypto.loop(3):
            acc = a * 1.0 if acc is None else acc + a
        out[:] = acc

    with refused(TypeError, "`acc`", "None", "is_loop_begin", code="F00001"):
        k(ramp(), blank(16, 32))


def test_parameters_swapped_on_every_trip_cannot_be_written():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        p, q = a, out
        for _ in pypto.loop(3):
            q[:] = p + 1.0  # which
            p, q = q, p

    with refused(ValueError, "`q`", code="F00002"):
        k(ramp(), blank(16, 32))


def test_list_of_equal_objects_may_be_rebound_on_every_trip():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        mode = "before"
        for i in pypto.loop(3):
            mode = "inside"
            out[i] = len(mode)
        out[3] = {"before": 1, "inside": 2}[mode]

    out = trail(6)
    k(out)
    assert out.tolist() == [6, 6, 6, 2, -1, -1]


def test_reverse_iteration_carries_state_case55():
    @pypto.jit
    def k(a: ROWS, out: ROWS, nt):
        pypto.set_vec_tile_shapes(1, 32)
        state = pypto.full([1, 32], 0.0, DT)
        for i in pypto.loop(range(nt), name="chunks_reverse"):
            c = nt - 1 - i
            updated = state + a[c : c + 1, :]
            out[c : c + 1, :] = updated
            state = updated

    a, out = ramp(6), blank(6, 32)
    k(a, out, 6)
    assert torch.equal(out, a.flip(0).cumsum(0).flip(0))


def test_sessions_that_carry_their_state_over_chunks():
    @pypto.jit
    def k(x: P([], DT), initial: P([], DT), out: P([], DT), final: P([], DT), H: int, nt: int):
        pypto.set_vec_tile_shapes(1, 1, 8, 8)
        K, V = initial.shape[2], initial.shape[3]
        for session in pypto.loop(0, 2 * H, 1, name="sessions"):
            b = session // H
            h = session % H
            state = pypto.view(initial, [1, 1, K, V], [b, h, 0, 0]).reshape([K, V])
            for c in pypto.loop(nt, name="chunks"):
                pypto.set_vec_tile_shapes(8, 8)
                step = pypto.view(x, [1, 1, 1, V], [b, h, c, 0]).reshape([1, V])
                updated_state = state * 0.5 + step
                out[b, h, c : c + 1, :] = updated_state.sum(0, keepdim=True)
                state = updated_state
            final[b, h, :, :] = state

    x = torch.arange(2 * 3 * 4 * 8, dtype=torch.float32).reshape(2, 3, 4, 8)
    initial = torch.arange(2 * 3 * 8 * 8, dtype=torch.float32).reshape(2, 3, 8, 8)
    out, final = blank(2, 3, 4, 8), blank(2, 3, 8, 8)
    k(x, initial, out, final, H=3, nt=4)
    state, want = initial, []
    for c in range(4):
        state = state * 0.5 + x[:, :, c : c + 1, :]
        want.append(state.sum(2))
    assert torch.equal(final, state)
    torch.testing.assert_close(out, torch.stack(want, 2), rtol=1e-6, atol=0.0)


def test_values_of_chosen_trips_are_printed(capfd):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 8)
        for i in pypto.loop(5):
            t = a[i : i + 1, :] * 2.0
            pypto.pass_verify_print(t, cond=i == 3)
            out[i : i + 1, :] = t

    a = (torch.arange(5.0) + 100.25).reshape(5, 1).repeat(1, 8)
    out = blank(5, 8)
    k(a, out)
    assert torch.equal(out, a * 2)
    shown = capfd.readouterr().out
    assert "206.5" in shown
    assert "204.5" not in shown and "208.5" not in shown


@pypto.jit
def many_branches(out: F32, n):
    pypto.set_vec_tile_shapes(1, 32)
    for i in pypto.loop(8):
        t = out[i : i + 1, :] * 1.0
        for j in range(n):
            if i == j:
                t = t + 1.0
            else:
                t = t - 1.0
        out[i : i + 1, :] = t


def test_symbolic_branches_cost_nodes_linearly():
    def nodes(n):
        return many_branches.graph(P([8, 32], DT), n).count()

    ten, twenty, forty = nodes(10), nodes(20), nodes(40)
    assert forty - twenty == 2 * (twenty - ten)
    assert twenty > ten
    out = torch.zeros(8, 32)
    many_branches(out, 40)
    assert torch.equal(out, torch.full((8, 32), 1.0 - 39.0))


def test_unrolled_branches_cost_nodes_linearly():
    @pypto.jit
    def k(out: F32, n):
        pypto.set_vec_tile_shapes(2, 32)
        for i, count in pypto.loop_unroll(8, unroll_list=[2, 1]):
            t = out[i : i + count, :] * 1.0
            for j in range(n):
                if i == j:
                    t = t + 1.0
            out[i : i + count, :] = t

    def nodes(n):
        return k.graph(P([8, 32], DT), n).count()

    assert nodes(40) - nodes(20) == 2 * (nodes(20) - nodes(10)) > 0


def counted_by_branches(n, out, length):
    c = n[0]
    for k in range(length):
        if c < n[1]:
            c = c + k
        else:
            c = c - 1
    out[0] = c


def counted_by_ternaries(n, out, length):
    c = n[0]
    for k in range(length):
        c = c + k if c < n[1] else c - 1
    out[0] = c


def counted_by_min_and_max(n, out, length):
    c = n[0]
    for k in range(length):
        c = min(c + k, n[1]) + max(c, k % 3) - c
    out[0] = c


def counted_by_sums(n, out, length):
    c = n[0]
    for k in range(length):
        c = c + n[k % 2] * k
    out[0] = c


def counted_by_remainders(n, out, length):
    c = n[0]
    for k in range(length):
        c = (c * c + c // 3 + k) % 101
    out[0] = c


def calls_made(f):
    """How many Python functions run while `f` does: a measure of work that no machine changes."""
    made = 0

    def count(frame, event, arg):
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        f()
    finally:
        sys.setprofile(before)
    return made


# Each step uses the integer of the step before it more than once. Walked as a tree instead of a
# graph, each three steps would cost four to thirty times as much as the three before them, and
# forty would never end.
@pytest.mark.parametrize(
    "count",
    [
        counted_by_branches,
        counted_by_ternaries,
        counted_by_min_and_max,
        counted_by_sums,
        counted_by_remainders,
    ],
    ids=lambda count: count.__name__,
)
def test_long_chains_of_symbolic_integers_stay_cheap(count):
    @pypto.jit
    def k(n: I32, out: I32, length):
        pypto.set_vec_tile_shapes(8)
        count(n, out, length)

    def right(length):
        out, want = trail(1), [0]
        k(ints(2, 9), out, length)
        count([2, 9], want, length)
        assert out.tolist() == want

    right(2)
    three, six, nine = (calls_made(lambda: right(length)) for length in (3, 6, 9))
    assert nine - six < 3 * (six - three) + 1000
    right(40)


@pypto.jit
def long_chain(a: F32, out: F32, n):
    pypto.set_vec_tile_shapes(8)
    t = a
    for _ in range(n):
        t = t + 1.0
    out[:] = t


def test_graph_of_twenty_thousand_nodes_overflows_no_stack():
    a, out = torch.arange(8.0), blank(8)
    long_chain(a, out, 20000)
    assert torch.equal(out, a + 20000)
    graph = long_chain.graph(P([8], DT), P([8], DT), 20000)
    assert graph.count() >= 20000
    assert str(graph).count("\n") >= 20000


def test_deeply_nested_branches_overflow_no_stack():
    def nest(i, depth, out):
        if depth == 0:
            out[0] = 1
        elif i > -depth:
            nest(i, depth - 1, out)

    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        nest(n[0], 60, out)

    for n, want in ((0, 1), (-1, -1), (-60, -1)):
        out = trail(1)
        k(ints(n), out)
        assert out.tolist() == [want]
