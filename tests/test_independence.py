"""Which loops may run their trips at the same time, and that it changes nothing when they do."""

import numpy as np
import pytest
import torch

import pypto
from pypto.cpu.independence import independent
from pypto.ir.graph import walk

F32 = pypto.Tensor([], pypto.DT_FP32)
I32 = pypto.Tensor([], pypto.DT_INT32)


def rows(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(4):
        out[i * 2 : i * 2 + 2, :] = a[i * 2 : i * 2 + 2, :] * 2.0


def rows_from_an_offset_of_the_run(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(4):
        pypto.assemble(a[i : i + 1, :] * 2.0, [n[0] + i, 0], out)


def backwards(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(7, -1, -1):
        out[i : i + 1, :] = a[7 - i : 8 - i, :] + 1.0


def own_row_read_and_written(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        out[i : i + 1, :] = out[i : i + 1, :] + a[i : i + 1, :]


def quotient_and_rest(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for s in pypto.loop(16):
        pypto.assemble(a[0:1, 0:1] + a[0:1, 1:2], [s // 4, s % 4], out)


def inner_loop_inside_its_rows(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(2):
        for j in pypto.loop(4):
            pypto.assemble(a[j : j + 1, :] * 3.0, [i * 4 + j, 0], out)


def state_of_a_trip(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        total = a[i : i + 1, :] * 0.0
        for _ in pypto.loop(n[1]):
            total = total + a[i : i + 1, :]
        out[i : i + 1, :] = total


def own_memory_of_a_trip(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        box = pypto.tensor([1, 8], pypto.DT_FP32)
        box[:] = a[i : i + 1, :] - 1.0
        out[i : i + 1, :] = box


APART = [
    rows,
    rows_from_an_offset_of_the_run,
    backwards,
    own_row_read_and_written,
    quotient_and_rest,
    inner_loop_inside_its_rows,
    state_of_a_trip,
    own_memory_of_a_trip,
]


def overlapping_rows(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(7):
        out[i : i + 2, :] = a[i : i + 2, :] * 2.0


def same_row(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        out[0:1, :] = a[i : i + 1, :] * 2.0


def row_before(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(7):
        out[i + 1 : i + 2, :] = out[i : i + 1, :] + a[i : i + 1, :]


def carried(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    total = a[0:1, :] * 0.0
    for i in pypto.loop(8):
        total = total + a[i : i + 1, :]
        out[i : i + 1, :] = total


def counted(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    at = 0
    for i in pypto.loop(8):
        pypto.assemble(a[i : i + 1, :] * 1.0, [at, 0], out)
        at = at + 1


def places_from_a_tensor(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(4):
        pypto.assemble(a[i : i + 1, :] * 1.0, [n[i], 0], out)


def other_quotients(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for s in pypto.loop(16):
        pypto.assemble(a[0:1, 0:1] + a[0:1, 1:2], [s // 4, s % 2], out)


def inner_loop_beyond_its_rows(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(2):
        for j in pypto.loop(4):
            pypto.assemble(a[j : j + 1, :] * 3.0, [i * 3 + j, 0], out)


def shared_memory(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    box = pypto.tensor([1, 8], pypto.DT_FP32)
    for i in pypto.loop(8):
        box[:] = a[i : i + 1, :] - 1.0
        out[i : i + 1, :] = box + 0.0


def added_up(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        pypto.atomic_add(a[i : i + 1, :] * 1.0, [0, 0], out)


def printed(a: F32, out: F32, n: I32):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        out[i : i + 1, :] = a[i : i + 1, :] * 2.0
        pypto.pass_verify_print("trip", i)


MEETING = [
    overlapping_rows,
    same_row,
    row_before,
    carried,
    counted,
    places_from_a_tensor,
    other_quotients,
    inner_loop_beyond_its_rows,
    shared_memory,
    added_up,
    printed,
]


def arguments():
    a = torch.arange(64, dtype=torch.float32).reshape(8, 8) / 7
    return a, torch.zeros(8, 8), torch.tensor([2, 3, 1, 0], dtype=torch.int32)


def outer_loop(function):
    graph = pypto.jit(function).graph(*arguments())
    return next(node for node in walk(graph.body) if node.op.name == "loop")


@pytest.mark.parametrize("function", APART, ids=lambda f: f.__name__)
def test_trips_that_do_not_meet_may_run_at_the_same_time(function):
    assert independent(outer_loop(function))


@pytest.mark.parametrize("function", MEETING, ids=lambda f: f.__name__)
def test_trips_that_may_meet_run_in_order(function):
    assert not independent(outer_loop(function))


@pytest.mark.parametrize("function", [*APART, *MEETING], ids=lambda f: f.__name__)
def test_threads_change_no_value(function, monkeypatch, capfd):
    monkeypatch.setenv("PYPTO_SANITIZE", "0")
    # Every loop that may is spread, however short it is.
    monkeypatch.setenv("PYPTO_CACHE_DIR", "off")  # whose keys do not know of this
    monkeypatch.setattr("pypto.cpu.emit._WORTH_THREADS", 0.0)
    found = []
    for interpret, threads in (("1", "1"), ("0", "1"), ("0", "3")):
        monkeypatch.setenv("PYPTO_INTERPRET", interpret)
        monkeypatch.setenv("PYPTO_NUM_THREADS", threads)
        a, out, n = arguments()
        pypto.jit(function)(a, out, n)
        found.append(out.numpy())
    assert found[0].any()
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])
