"""Valid extents through reshape, where an axis of extent 1 holds something or nothing."""

import itertools
import math

import numpy as np
import pytest

import pypto

F = pypto.DT_FP32


@pytest.mark.parametrize("new", [(4,), (1, 4), (4, 1), (1, 4, 1), (1, 1, 4)], ids=str)
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_row_at_a_run_time_index_keeps_its_elements_or_has_none(row, new):
    @pypto.jit
    def k(
        x: pypto.Tensor([pypto.DYNAMIC, 4], F),
        n: pypto.Tensor([1], pypto.DT_INT32),
        out: pypto.Tensor([], F),
    ):
        pypto.set_vec_tile_shapes(8, 8, 8)
        out[:] = pypto.view(x, [1, 4], [n[0], 0]).reshape(list(new)) + 0.0

    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    out = np.full(new, -1, np.float32)
    k(x, np.array([row], np.int32), out)
    want = x[row] if row < 2 else np.full(4, -1)
    assert np.array_equal(out.ravel(), want)


SHAPES = [(2, 6), (12,), (1, 12), (12, 1), (2, 3, 2), (2, 1, 6), (4, 3), (1, 2, 6, 1)]


@pytest.mark.parametrize(("old", "new"), itertools.permutations(SHAPES, 2), ids=str)
def test_leading_valid_rows_are_the_same_elements_in_the_new_shape_or_are_refused(old, new):
    axis = next(a for a, d in enumerate(old) if d != 1)
    valid = list(old)
    valid[axis] -= 1

    @pypto.jit
    def k(x: pypto.Tensor([], F), out: pypto.Tensor([], F)):
        pypto.set_vec_tile_shapes(8, 8, 8, 8)
        part = pypto.view(x, list(old), [0] * len(old), valid_shape=valid)
        out[:] = part.reshape(list(new)) + 0.0

    x = np.arange(12, dtype=np.float32).reshape(old)
    out = np.full(new, -1, np.float32)
    count = math.prod(valid)
    try:
        k(x, out)
    except ValueError as problem:
        assert "is no box" in str(problem)
        # A box of leading elements exists only where they fill whole rows of the new shape.
        wide = [d for d in new if d != 1]
        assert len(wide) > 1
    else:
        assert np.array_equal(out.ravel()[:count], np.arange(count))
        assert (out.ravel()[count:] == -1).all()


@pypto.jit
def row_by_row(x: pypto.Tensor([pypto.DYNAMIC, 4], F), out: pypto.Tensor([pypto.DYNAMIC, 4], F)):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(x.shape[0] - 1, -1, -1):
        out[i : i + 1, :] = x[i : i + 1, :] * 2.0


def test_a_row_of_a_loop_over_all_rows_is_known_to_be_valid():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    out = np.full_like(x, -1)
    row_by_row(x, out)
    assert np.array_equal(out, x * 2)
    assert " valid [" not in str(row_by_row.function)
