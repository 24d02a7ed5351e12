"""The whole road in two seconds: a kernel in, right numbers out, and a look at each stage."""

import numpy as np
import pytest

import pypto
from pypto.compile import STAGES, Request, TensorSpec, compile_kernel

F = pypto.DT_FP32


@pypto.frontend.jit
def running(x: pypto.Tensor([pypto.DYNAMIC, 8], F), out: pypto.Tensor([pypto.DYNAMIC, 8], F)):
    pypto.set_vec_tile_shapes(4, 8)
    total = pypto.zeros(1, 8)
    for i in pypto.loop((x.shape[0] + 3) // 4):
        tile = pypto.view(x, [4, 8], [i * 4, 0])
        total = total + tile.sum(0, keepdim=True)
        if i == 1:
            total = total * 0.5
        out[i * 4 : i * 4 + 4, :] = tile + total


def by_hand(x):
    out, total = np.empty_like(x), np.zeros((1, 8), np.float32)
    for i, start in enumerate(range(0, len(x), 4)):
        tile = x[start : start + 4]
        total = total + tile.sum(0, keepdims=True)
        if i == 1:
            total = total * np.float32(0.5)
        out[start : start + 4] = tile + total
    return out


@pytest.mark.parametrize("rows", [1, 4, 5, 11])
def test_a_kernel_runs_over_any_number_of_rows(rows):
    x = np.arange(rows * 8, dtype=np.float32).reshape(rows, 8)
    padded = np.full((rows + 4, 8), -1, np.float32)
    running(x, padded[:rows])
    assert np.array_equal(padded[:rows], by_hand(x))
    assert (padded[rows:] == -1).all()
    assert running.compile_count == 1


def test_each_stage_can_be_stopped_behind():
    specs = [TensorSpec(n, F, (None, 8)) for n in ("x", "out")]
    counts = {}
    for stage, _ in STAGES:
        compiled = compile_kernel(Request(running._original_func, specs, {}), until=stage)
        assert list(compiled.seconds)[-1] == stage
        counts[stage] = compiled.text.count()
    assert counts["trace"] >= counts["rewrite"] == counts["prepare"]


def test_an_error_says_where_and_how_to_mend_it():
    @pypto.frontend.jit
    def wrong(x: pypto.Tensor([], F), out: pypto.Tensor([], F)):
        pypto.set_vec_tile_shapes(4, 8)
        for i in pypto.loop(2):
            out[0:1, :] = pypto.view(x, [i, 8], [0, 0])

    x = np.zeros((4, 8), np.float32)
    with pytest.raises(ValueError, match="view shape must be int; `i` is symbolic") as caught:
        wrong(x, x.copy())
    assert caught.value.code == "F21004"
    assert caught.value.loc.line == wrong._original_func.__code__.co_firstlineno + 4
    assert caught.value.fix == "pypto.view(x, [1, 8], [0, 0], valid_shape=[i, 8])"


def test_places_may_be_put_into_memory_that_nothing_has_written():
    @pypto.frontend.jit
    def k(x: pypto.Tensor([], F), n: pypto.Tensor([], pypto.DT_INT32), out: pypto.Tensor([], F)):
        pypto.set_vec_tile_shapes(4, 8)
        t = pypto.tensor([3, 4], F)
        pypto.index_put_(t, (n,), x)
        out[:] = t + 0.0

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.zeros_like(x)
    k(x, np.array([2, 0, 1], np.int32), out)
    assert np.array_equal(out, x[[1, 2, 0]])
