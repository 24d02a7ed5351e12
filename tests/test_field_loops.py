"""Loops, names and control flow: situations that users of tile kernels ran into, with right values.

In: one kernel of a few lines a test. Out: its numbers beside plain arithmetic, guard values
included. The row id that ends a test's name tells the situations apart; every kernel sets its
tiles first, as a user would.
"""

import importlib.util
from dataclasses import dataclass, replace

import pytest
import torch

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)
I32 = pypto.Tensor([], pypto.DT_INT32)
GUARD = -7.0


def ramp(*shape: int) -> torch.Tensor:
    """Distinct small whole numbers, exact in fp32, so that a misplaced element shows."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def test_counter_carries_through_the_loop_and_places_a_row_A2():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        count = 0
        for i in pypto.loop(20):
            count = count + 1
        pypto.assemble(x * 2.0, [count - 1, 0], out)

    x = ramp(1, 8) + 1
    out = torch.full((20, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[19:], x * 2)
    assert torch.equal(out[:19], torch.full((19, 8), GUARD))


def test_carried_counter_serves_as_a_slice_bound_A2():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        count = 0
        for i in pypto.loop(3):
            count += 2
        out[count - 1 : count, :] = x + 1.0

    x = ramp(1, 8)
    out = torch.full((8, 8), GUARD)
    kernel(x, out)
    expected = torch.full((8, 8), GUARD)
    expected[5] = x[0] + 1
    assert torch.equal(out, expected)


def test_step_larger_than_the_range_runs_the_body_once_A4():
    @pypto.frontend.jit
    def kernel(x: F32, runs: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(0, 3, 5):
            out[:] = x + 1
            runs[0] = runs[0] + 1

    runs = torch.zeros(2, dtype=torch.int32)
    out = torch.zeros(8, 8)
    kernel(torch.ones(8, 8), runs, out)
    assert torch.equal(out, torch.full((8, 8), 2.0))
    assert runs.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("start", "stop", "step", "unroll"),
    [
        (0, 5, 1, [3, 2, 1]),
        (0, 7, 1, [4, 1]),
        (0, 1, 1, [8, 4, 1]),
        (3, 16, 1, [8, 4, 1]),
        (0, 5, 2, [2, 1]),
        (0, 5, 1, [3, 2]),
        (2, 2, 1, [4, 2]),
        (9, 1, -3, [2]),
    ],
)
def test_unrolled_loop_visits_each_index_exactly_once_A5(start, stop, step, unroll):
    @pypto.frontend.jit
    def kernel(y: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(start, stop, step, unroll_list=unroll):
            y[i : i + 1, :] = y[i : i + 1, :] + 1.0

    y = torch.zeros(18, 8)
    kernel(y)
    expected = torch.zeros(18, 8)
    expected[list(range(start, stop, step))] = 1.0
    assert torch.equal(y, expected)


def test_unrolled_loop_keeps_the_order_of_its_trips_A5():
    @pypto.frontend.jit
    def kernel(out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        acc = pypto.full([1, 8], 0.0, pypto.DT_FP32)
        for i in pypto.loop(7, unroll_list=[4, 2, 1]):
            acc = acc * 2.0 + 1.0
            out[i : i + 1, :] = acc

    out = torch.full((8, 8), GUARD)
    kernel(out)
    expected = torch.tensor([1, 3, 7, 15, 31, 63, 127, GUARD]).reshape(8, 1).expand(8, 8)
    assert torch.equal(out, expected)


def test_break_in_a_static_loop_leaves_the_rest_untouched_A8():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in range(8):
            if i == 3:
                break
            out[i : i + 1, :] = x[i : i + 1, :]

    x = ramp(8, 8)
    out = torch.full((8, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:3], x[:3])
    assert torch.equal(out[3:], torch.full((5, 8), GUARD))


def test_continue_in_a_static_loop_inside_a_dynamic_one_skips_that_column_A8():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(4):
            for j in range(4):
                if j == 2:
                    continue
                out[i : i + 1, j * 8 : j * 8 + 8] = x[i : i + 1, j * 8 : j * 8 + 8] + 1.0

    x = ramp(4, 32)
    out = torch.full((4, 32), GUARD)
    kernel(x, out)
    expected = x + 1
    expected[:, 16:24] = GUARD
    assert torch.equal(out, expected)


def test_name_with_two_types_is_no_error_while_nobody_uses_it_A10():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(2):
            if i == 0:
                t = x + 1.0
            else:
                t = 3
            out[i : i + 1, :] = x[0:1, :] * 2.0

    x = ramp(8, 8)
    out = torch.full((3, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:2], (x[:1] * 2).expand(2, 8))
    assert torch.equal(out[2:], torch.full((1, 8), GUARD))


@pytest.mark.parametrize(
    ("a", "b", "lo", "hi"),
    [(0, 0, 0, 11), (0, 1, 0, 11), (1, 0, 11, 11), (1, 1, 11, 22)],
)
def test_nested_branches_take_values_of_executed_arms_only_A11(a, b, lo, hi):
    @pypto.frontend.jit
    def kernel(flags: I32, q: I32, out: I32):
        pypto.set_vec_tile_shapes(16)
        low = 0
        high = q[0]
        if flags[0] > 0:
            low = q[0]
            if flags[1] > 0:
                high = q[1]
        out[0] = low
        out[1] = high

    out = torch.full((4,), -7, dtype=torch.int32)
    kernel(torch.tensor([a, b], dtype=torch.int32), torch.tensor([11, 22], dtype=torch.int32), out)
    assert out.tolist() == [lo, hi, -7, -7]


def test_sibling_loops_may_give_one_name_different_shapes_A13():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32, big: F32, small: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(2):
            sq_sum = pypto.sum(x[i * 16 : i * 16 + 16, :] * x[i * 16 : i * 16 + 16, :], -1, True)
            big[i * 16 : i * 16 + 16, :] = sq_sum
        for i in pypto.loop(2):
            sq_sum = pypto.sum(y[i * 4 : i * 4 + 4, :] * y[i * 4 : i * 4 + 4, :], -1, True)
            small[i * 4 : i * 4 + 4, :] = sq_sum

    x, y = ramp(32, 8) % 11, ramp(8, 8) % 5
    big, small = torch.full((33, 1), GUARD), torch.full((9, 1), GUARD)
    kernel(x, y, big, small)
    assert torch.equal(big[:32], (x * x).sum(-1, keepdim=True))
    assert torch.equal(small[:8], (y * y).sum(-1, keepdim=True))
    assert big[32] == GUARD and small[8] == GUARD


def test_name_first_bound_in_a_loop_body_is_read_after_the_loop_A14():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(3):
            t = x[i : i + 1, :] + 10.0
        out[0:1, :] = t

    x = ramp(4, 8)
    out = torch.full((2, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:1], x[2:3] + 10)
    assert torch.equal(out[1:], torch.full((1, 8), GUARD))


def test_inner_loop_updates_the_variables_of_the_outer_one_A14():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32, counts: I32):
        pypto.set_vec_tile_shapes(16, 16)
        total = 0
        acc = pypto.full([1, 8], 0.0, pypto.DT_FP32)
        for i in pypto.loop(3):
            for j in pypto.loop(2):
                acc = acc + x[i : i + 1, :]
                total = total + i + j
                last = total * 10
        out[:] = acc
        counts[0] = total
        counts[1] = last

    x = ramp(4, 8)
    out = torch.empty(1, 8)
    counts = torch.full((3,), -7, dtype=torch.int32)
    kernel(x, out, counts)
    assert torch.equal(out, 2 * x[:3].sum(0, keepdim=True))
    assert counts.tolist() == [9, 90, -7]


def test_plain_python_loop_leaves_its_names_bound_A14():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in range(3):
            t = x[i : i + 1, :] + 1.0
        out[:] = t * i

    x = ramp(4, 8)
    out = torch.empty(1, 8)
    kernel(x, out)
    assert torch.equal(out, (x[2:3] + 1) * 2)


@dataclass(frozen=True)
class Config:
    scale: float
    shift: float = 1.0


def test_config_object_replaced_in_a_loop_is_seen_in_it_and_after_it_A16():
    base = Config(2.0)

    @pypto.frontend.jit
    def kernel(x: F32, rows: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        cfg = base
        for i in pypto.loop(3):
            cfg = replace(base, scale=5.0)
            rows[i : i + 1, :] = x[i : i + 1, :] * cfg.scale
        out[:] = x * cfg.scale + cfg.shift

    x = ramp(4, 8)
    rows, out = torch.full((4, 8), GUARD), torch.empty(4, 8)
    kernel(x, rows, out)
    assert torch.equal(rows[:3], x[:3] * 5)
    assert torch.equal(rows[3:], torch.full((1, 8), GUARD))
    assert torch.equal(out, x * 5 + 1)


@pytest.mark.parametrize("flag", [0, 1])
def test_tile_set_in_a_branch_ends_with_the_branch_A17(flag, capsys):
    @pypto.frontend.jit
    def kernel(x: F32, flags: I32, out: F32):
        pypto.set_vec_tile_shapes(32, 64)
        t = x + 1.0
        if flags[0] > 0:
            pypto.set_vec_tile_shapes(4, 16)
            t = x + 2.0
        print("after the branch", list(pypto.get_vec_tile_shapes()))
        out[:] = t * 3.0

    x = ramp(64, 64)
    out = torch.empty(64, 64)
    kernel(x, torch.tensor([flag], dtype=torch.int32), out)
    assert torch.equal(out, (x + 1 + flag) * 3)
    assert "after the branch [32, 64]" in capsys.readouterr().out


def test_tile_set_in_a_loop_body_ends_with_the_loop_A17(capsys):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(32, 64)
        for i in pypto.loop(2):
            pypto.set_vec_tile_shapes(8, 8)
            out[i * 32 : i * 32 + 32, :] = x[i * 32 : i * 32 + 32, :] + 1.0
        print("after the loop", list(pypto.get_vec_tile_shapes()))

    x = ramp(64, 64)
    out = torch.empty(64, 64)
    kernel(x, out)
    assert torch.equal(out, x + 1)
    assert "after the loop [32, 64]" in capsys.readouterr().out


def test_loop_bound_read_from_a_tensor_runs_that_many_trips_A20():
    @pypto.frontend.jit
    def kernel(seqs: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for b in pypto.loop(3):
            n = seqs[b]
            for s in pypto.loop(n):
                out[b : b + 1, :] = out[b : b + 1, :] + 1.0

    out = torch.zeros(4, 8)
    kernel(torch.tensor([3, 0, 5], dtype=torch.int32), out)
    expected = torch.tensor([3.0, 0.0, 5.0, 0.0]).reshape(4, 1).expand(4, 8)
    assert torch.equal(out, expected)


def test_loop_bound_read_from_a_tensor_with_an_augmented_row_A20():
    @pypto.frontend.jit
    def kernel(seqs: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for b in pypto.loop(3):
            for s in pypto.loop(seqs[b]):
                out[b, :] += 1.0

    out = torch.zeros(4, 8)
    kernel(torch.tensor([3, 0, 5], dtype=torch.int32), out)
    expected = torch.tensor([3.0, 0.0, 5.0, 0.0]).reshape(4, 1).expand(4, 8)
    assert torch.equal(out, expected)


def test_cond_accepts_the_comparison_itself_A22():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for g in pypto.loop(3):
            if pypto.cond(g == 0):
                out[g : g + 1, :] = x[g : g + 1, :] + 100.0
            else:
                out[g : g + 1, :] = x[g : g + 1, :] * 2.0

    x = ramp(4, 8)
    out = torch.full((4, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:1], x[:1] + 100)
    assert torch.equal(out[1:3], x[1:3] * 2)
    assert torch.equal(out[3:], torch.full((1, 8), GUARD))


BODY = """\
import pypto

T = pypto.Tensor([], pypto.DT_FP32)


@pypto.frontend.jit
def by_name(x: T, y: T) -> None:
    pypto.set_vec_tile_shapes(16, 16)
    t: pypto.Tensor = x + 1.0
    y[:] = t * 2.0


@pypto.frontend.jit
def quoted(x: "pypto.Tensor([], pypto.DT_FP32)", y: "T") -> None:
    pypto.set_vec_tile_shapes(16, 16)
    t: "pypto.Tensor" = x + 1.0
    y[:] = t * 2.0
"""


@pytest.mark.parametrize("postponed", [False, True])
@pytest.mark.parametrize("name", ["by_name", "quoted"])
def test_string_annotations_return_none_and_annotated_locals_work_A23(name, postponed, tmp_path):
    path = tmp_path / f"annotations_{postponed}.py"
    path.write_text("from __future__ import annotations\n" * postponed + BODY)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x = ramp(4, 8)
    y = torch.full((4, 8), GUARD)
    assert getattr(module, name)(x, y) is None
    assert torch.equal(y, (x + 1) * 2)


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.filterwarnings("ignore::pypto.error.PyptoWarning")
def test_buffer_shared_by_the_batches_keeps_them_apart_A25(batches, parallel, monkeypatch):
    # With parallel=True it is a race, which the sanitizer refuses; without it they go in turn.
    monkeypatch.setenv("PYPTO_SANITIZE", "uninit,poison,guard")

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 8, 8)
        h = pypto.Tensor([1, 8, 8], pypto.DT_FP32)
        for b in pypto.loop(batches, parallel=parallel):
            for t in pypto.loop(3):
                if pypto.is_loop_begin(t):
                    h[:] = x[b : b + 1, :, :] * 1.0
                else:
                    h[:] = h * 2.0 + x[b : b + 1, :, :]
                out[b : b + 1, :, :] = h + 1.0

    x = ramp(batches, 8, 8)
    out = torch.full((batches + 1, 8, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:batches], x * 7 + 1)
    assert torch.equal(out[batches:], torch.full((1, 8, 8), GUARD))


def branchy(arms: int):
    """A kernel with `arms` symbolic branches in a row in an unrolled loop."""

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        acc = x * 1.0
        for i in pypto.loop(6, unroll_list=[2, 1]):
            for k in range(arms):
                if i > k:
                    acc = acc + 1.0
        out[:] = acc

    return kernel


def test_symbolic_branches_in_a_row_cost_nodes_linearly_A29():
    x, out = ramp(8, 8), torch.full((8, 8), GUARD)
    ten, twenty, forty = (branchy(n).graph(x, out).count() for n in (10, 20, 40))
    assert ten < twenty
    assert forty - twenty == 2 * (twenty - ten)
    branchy(10)(x, out)
    assert torch.equal(out, x + 15)
