"""The NumPy meaning of graphs, on graphs written in the text form."""

import dataclasses
import threading
import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import pypto.ops  # noqa: F401 - the texts name ops
from pypto.errors import FeError, InternalError
from pypto.interp.run import interpret, prepare
from pypto.ir.parse import parse
from pypto.ir.rewrite import PASSES
from pypto.ir.verify import verify

F32 = np.float32


def checked(text):
    graph = parse(text)
    verify(graph)
    return graph


def run(text, *arrays):
    """Interpret a text on copies; the arrays as they are afterwards.  Rewriting changes nothing."""
    graph = checked(text)
    before = [a.copy() for a in arrays]
    interpret(graph, before)
    after = [a.copy() for a in arrays]
    for rewrite in PASSES:
        graph = rewrite(graph)
    verify(graph)
    interpret(graph, after)
    for x, y in zip(before, after):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    return before


def fails(builtin, text, *arrays):
    """The error of a run, and that it wrote nothing."""
    graph = checked(text)
    copies = [a.copy() for a in arrays]
    with pytest.raises(builtin) as caught:
        interpret(graph, copies)
    for a, b in zip(arrays, copies):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert isinstance(caught.value, FeError)
    for rewrite in PASSES:
        graph = rewrite(graph)
    with pytest.raises(builtin) as again:
        interpret(graph, copies)
    assert again.value.text == caught.value.text
    return caught.value


def ramp(*shape, dtype=F32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


# --- one op of each family -----------------------------------------------------------------------


def test_map_with_broadcast_and_number():
    x, row = ramp(3, 4), ramp(1, 4)
    text = """
graph g:
  param x : fp32[3, 4]
  param row : fp32[1, 4]
  param out : fp32[3, 4]
  %0 = mul(x, row) : fp32[3, 4]
  %1 = add(%0, 0.5) : fp32[3, 4]
  %2 = assemble(%1, out, offsets=(0, 0)) : fp32[3, 4] in out
"""
    (_, _, out) = run(text, x, row, np.zeros((3, 4), F32))
    assert np.array_equal(out, x * row + F32(0.5))


def test_half_precision_rounds_once_per_op():
    one, tiny = np.float16(1.0), np.float16(2.0**-11)
    x = np.array([[one, one]], np.float16)
    text = """
graph g:
  param x : fp16[1, 2]
  param out : fp16[1, 2]
  %0 = add(x, 0.00048828125) : fp16[1, 2]
  %1 = add(%0, 0.00048828125) : fp16[1, 2]
  %2 = assemble(%1, out, offsets=(0, 0)) : fp16[1, 2] in out
"""
    (_, out) = run(text, x, np.zeros((1, 2), np.float16))
    # 1 + 2^-11 is a tie and goes back to 1, twice; one rounding at the end would give 1 + 2^-10.
    assert out.tolist() == [[1.0, 1.0]]
    assert float(one) + 2 * float(tiny) == 1.0009765625


def test_bfloat16_sum_accumulates_in_fp32():
    x = np.full((1, 512), 1.0, ml_dtypes.bfloat16)
    text = """
graph g:
  param x : bf16[1, 512]
  param out : bf16[1, 1]
  %0 = sum(x, dim=1, keepdim=True) : bf16[1, 1]
  %1 = assemble(%0, out, offsets=(0, 0)) : bf16[1, 1] in out
"""
    (_, out) = run(text, x, np.zeros((1, 1), ml_dtypes.bfloat16))
    assert float(out[0, 0]) == 512.0


def test_integer_known_at_run_time_is_an_operand():
    text = """
graph g:
  param n : int32[1]
  param out : int16[1, 2]
  %0 = item(n, index=(0,)) : int
  %1 = full(size=(1, 2), fill_value=int16(3), dtype=DT_INT16) : int16[1, 2]
  %2 = mul(%1, %0*2) : int16[1, 2]
  %3 = assemble(%2, out, offsets=(0, 0)) : int16[1, 2] in out
"""
    (_, out) = run(text, np.array([7], np.int32), np.zeros((1, 2), np.int16))
    assert out.tolist() == [[42, 42]]


def test_only_the_valid_box_takes_part():
    x = ramp(4, 4) + 1
    text = """
graph g:
  param x : fp32[4, 4]
  param out : fp32[4, 4]
  %0 = view(x, shape=(4, 4), offsets=(2, 0)) : fp32[4, 4] valid [2, 4]
  %1 = exp(%0) : fp32[4, 4] valid [2, 4]
  %2 = sum(%1, dim=0, keepdim=True) : fp32[1, 4]
  %3 = assemble(%1, out, offsets=(0, 0)) : fp32[4, 4] in out
  %4 = assemble(%2, %3, offsets=(3, 0)) : fp32[4, 4] in out
"""
    (_, out) = run(text, x, np.full((4, 4), -1, F32))
    assert np.array_equal(out[:2], np.exp(x[2:].astype(np.float64)).astype(F32))
    assert np.array_equal(out[2], np.full(4, -1))
    assert np.allclose(out[3], np.exp(x[2:]).sum(0), rtol=1e-6)


def test_a_broadcast_operand_keeps_its_one_element():
    x, column = ramp(4, 2), ramp(4, 1)
    text = """
graph g:
  param x : fp32[4, 2]
  param c : fp32[4, 1]
  param out : fp32[4, 2]
  %0 = view(x, shape=(4, 2), offsets=(1, 0)) : fp32[4, 2] valid [3, 2]
  %1 = sub(%0, c) : fp32[4, 2] valid [3, 2]
  %2 = assemble(%1, out, offsets=(0, 0)) : fp32[4, 2] in out
"""
    (_, _, out) = run(text, x, column, np.zeros((4, 2), F32))
    assert np.array_equal(out[:3], x[1:] - column[:3])
    assert out[3].tolist() == [0, 0]


def test_reduce_drops_its_axis_unless_told_to_keep_it():
    x = ramp(2, 3)
    text = """
graph g:
  param x : fp32[2, 3]
  param out : fp32[2]
  %0 = amax(x, dim=1) : fp32[2]
  %1 = assemble(%0, out, offsets=(0,)) : fp32[2] in out
"""
    (_, out) = run(text, x, np.zeros(2, F32))
    assert out.tolist() == [2, 5]


def test_several_results():
    x = np.array([[3, 1, 2]], F32)
    text = """
graph g:
  param x : fp32[1, 3]
  param v : fp32[1, 2]
  param i : int32[1, 2]
  %0, %1 = topk(x, k=2, dim=1, largest=True) : fp32[1, 2], int32[1, 2]
  %2 = assemble(%0, v, offsets=(0, 0)) : fp32[1, 2] in v
  %3 = assemble(%1, i, offsets=(0, 0)) : int32[1, 2] in i
"""
    (_, v, i) = run(text, x, np.zeros((1, 2), F32), np.zeros((1, 2), np.int32))
    assert v.tolist() == [[3, 2]]
    assert i.tolist() == [[0, 2]]


def test_matmul_contracts_the_valid_part():
    a, b = ramp(2, 4), ramp(4, 3)
    text = """
graph g:
  param a : fp32[2, 4]
  param b : fp32[4, 3]
  param out : fp32[2, 3]
  %0 = view(a, shape=(2, 4), offsets=(0, 1)) : fp32[2, 4] valid [2, 3]
  %1 = view(b, shape=(4, 3), offsets=(1, 0)) : fp32[4, 3] valid [3, 3]
  %2 = matmul(%0, %1, out_dtype=DT_FP32) : fp32[2, 3]
  %3 = assemble(%2, out, offsets=(0, 0)) : fp32[2, 3] in out
"""
    (_, _, out) = run(text, a, b, np.zeros((2, 3), F32))
    assert np.array_equal(out, a[:, 1:] @ b[1:])


def test_write_in_place_through_a_reference():
    x, rows = np.zeros((4, 2), F32), np.array([2, 0], np.int32)
    text = """
graph g:
  param x : fp32[4, 2]
  param rows : int32[2]
  param v : fp32[2, 2]
  %0 = index_put_(x, (rows,), v) : fp32[4, 2] in x
"""
    (out, _, _) = run(text, x, rows, ramp(2, 2) + 1)
    assert out.tolist() == [[3, 4], [0, 0], [1, 2], [0, 0]]


# --- memory --------------------------------------------------------------------------------------


def test_a_view_is_a_snapshot_of_a_written_tensor():
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[2, 2]
  %0 = view(x, shape=(1, 2), offsets=(0, 0)) : fp32[1, 2]
  %1 = full(size=(2, 2), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[2, 2]
  %2 = assemble(%1, x, offsets=(0, 0)) : fp32[2, 2] in x
  %3 = assemble(%0, out, offsets=(1, 0)) : fp32[2, 2] in out
"""
    x, out = run(text, ramp(2, 2), np.zeros((2, 2), F32))
    assert x.tolist() == [[9, 9], [9, 9]]
    assert out.tolist() == [[0, 0], [0, 1]]


def test_a_reshape_is_a_snapshot_of_a_written_tensor():
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[4]
  %0 = reshape(x, shape=(4,)) : fp32[4]
  %1 = full(size=(2, 2), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[2, 2]
  %2 = assemble(%1, x, offsets=(0, 0)) : fp32[2, 2] in x
  %3 = assemble(%0, out, offsets=(0,)) : fp32[4] in out
"""
    _, out = run(text, ramp(2, 2), np.zeros(4, F32))
    assert out.tolist() == [0, 1, 2, 3]


def test_an_alias_is_the_same_memory():
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[2, 2]
  %0 = empty(name='t') : fp32[2, 2]
  %1 = move(x, %0) : fp32[2, 2] in %0
  %2 = alias(%1, shape=(4,)) : fp32[4] in %0
  %3 = full(size=(2,), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[2]
  %4 = assemble(%3, %2, offsets=(1,)) : fp32[4] in %0
  %5 = alias(%4, shape=(2, 2)) : fp32[2, 2] in %0
  %6 = assemble(%5, out, offsets=(0, 0)) : fp32[2, 2] in out
"""
    _, out = run(text, ramp(2, 2), np.zeros((2, 2), F32))
    assert out.tolist() == [[0, 9], [9, 3]]


def test_an_alias_of_a_dynamic_parameter():
    text = """
graph g:
  dim n = x[0] : int 0..
  param x : fp32[n, 2]
  %0 = alias(x, shape=(n*2,)) : fp32[n*2] in x
  %1 = full(size=(1,), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[1]
  %2 = assemble(%1, %0, offsets=(n*2 - 1,)) : fp32[n*2] in x
  %3 = alias(%2, shape=(n, 2)) : fp32[n, 2] in x
"""
    (x,) = run(text, ramp(3, 2))
    assert x.tolist() == [[0, 1], [2, 3], [4, 9]]


def test_an_alias_of_elements_that_an_op_has_moved():
    text = """
graph g:
  param x : fp32[2, 3]
  param out : fp32[6]
  param more : fp32[6]
  %0 = transpose(x, dim0=0, dim1=1) : fp32[3, 2]
  %1 = alias(%0, shape=(6,)) : fp32[6] in %0
  %2 = assemble(%1, out, offsets=(0,)) : fp32[6] in out
  %3 = transpose(x, dim0=0, dim1=1) : fp32[3, 2]
  %4 = alias(%3, shape=(6,)) : fp32[6] in %3
  %5 = full(size=(2,), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[2]
  %6 = assemble(%5, %4, offsets=(1,)) : fp32[6] in %3
  %7 = alias(%6, shape=(3, 2)) : fp32[3, 2] in %3
  %8 = reshape(%7, shape=(6,)) : fp32[6]
  %9 = assemble(%8, more, offsets=(0,)) : fp32[6] in more
"""
    x, out, more = run(text, ramp(2, 3), np.zeros(6, F32), np.zeros(6, F32))
    assert out.tolist() == [0, 3, 1, 4, 2, 5]
    assert more.tolist() == [0, 9, 9, 4, 2, 5]
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_move_takes_a_whole_value_and_its_valid_extents():
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[2, 2]
  %0 = full(size=(2, 2), fill_value=fp32(7.0), dtype=DT_FP32) : fp32[2, 2]
  %1 = view(x, shape=(2, 2), offsets=(1, 0)) : fp32[2, 2] valid [1, 2]
  %2 = move(%1, %0) : fp32[2, 2] valid [1, 2] in %0
  %3 = assemble(%2, out, offsets=(0, 0)) : fp32[2, 2] in out
"""
    _, out = run(text, ramp(2, 2), np.full((2, 2), -1, F32))
    assert out.tolist() == [[2, 3], [-1, -1]]


def test_written_memory_never_meets_its_source():
    # The reference of a copying op may hand back its operand; a later write must not reach it.
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[2, 2]
  %0 = add(x, 0.0) : fp32[2, 2]
  %1 = expand_clone(%0, shape=(2, 2)) : fp32[2, 2]
  %2 = full(size=(1, 2), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[1, 2]
  %3 = assemble(%2, %1, offsets=(0, 0)) : fp32[2, 2] in %1
  %4 = assemble(%0, out, offsets=(0, 0)) : fp32[2, 2] in out
"""
    _, out = run(text, ramp(2, 2), np.zeros((2, 2), F32))
    assert out.tolist() == [[0, 1], [2, 3]]


def test_reinterpret_reads_the_same_bytes():
    text = """
graph g:
  param x : fp32[1, 2]
  param out : int16[1, 4]
  %0 = reinterpret(x, dtype=DT_INT16) : int16[1, 4]
  %1 = assemble(%0, out, offsets=(0, 0)) : int16[1, 4] in out
"""
    x = np.array([[1.0, -2.5]], F32)
    _, out = run(text, x, np.zeros((1, 4), np.int16))
    assert np.array_equal(out, x.view(np.int16))


def test_atomic_add():
    text = """
graph g:
  param x : fp16[1, 2]
  param out : fp16[2, 2]
  %0 = atomic_add(x, out, offsets=(1, 0)) : fp16[2, 2] in out
  %1 = atomic_add(x, %0, offsets=(1, 0)) : fp16[2, 2] in out
"""
    _, out = run(text, np.array([[1, 2]], np.float16), np.ones((2, 2), np.float16))
    assert out.tolist() == [[1, 1], [3, 5]]


def test_elements_are_read_and_written():
    text = """
graph g:
  param x : int32[2, 2]
  %0 = item(x, index=(1, 0)) : int
  %1 = item_set(x, index=(0, 1), value=%0*10 + 1) : int32[2, 2] in x
  %2 = item(%1, index=(0, 1)) : int
  %3 = integer(%2 % 4) : int
  %4 = item_set(%1, index=(%3 % 2, 1), value=-%2) : int32[2, 2] in x
"""
    (x,) = run(text, np.array([[1, 2], [3, 4]], np.int32))
    assert x.tolist() == [[1, 31], [3, -31]]


def test_poison_never_leaks():
    """Fresh memory and lanes outside of the valid extents hold NaN, and stay where they are."""
    text = """
graph g:
  param x : fp32[3, 2]
  param out : fp32[4, 2]
  %0 = empty(name='t') : fp32[4, 2]
  %1 = view(x, shape=(4, 2), offsets=(1, 0)) : fp32[4, 2] valid [2, 2]
  %2 = assemble(%1, %0, offsets=(1, 0)) : fp32[4, 2] in %0
  %3 = cumsum(%1, dim=0) : fp32[4, 2] valid [2, 2]
  %4 = assemble(%2, out, offsets=(0, 0)) : fp32[4, 2] in out
  %5 = assemble(%3, %4, offsets=(0, 0)) : fp32[4, 2] in out
"""
    _, out = run(text, ramp(3, 2), np.zeros((4, 2), F32))
    assert out[:3].tolist() == [[2, 3], [6, 8], [4, 5]]
    # Row 3 of the fresh tensor was never written: it is the only poison that the kernel asked for.
    assert np.isnan(out[3]).all()


def test_a_view_hides_what_lies_beside_its_valid_extents():
    text = """
graph g:
  param x : fp32[4]
  param out : fp32[4]
  %0 = view(x, shape=(4,), offsets=(0,), given=(2,)) : fp32[4] valid [2]
  %1 = reshape(%0, shape=(4,)) : fp32[4]
  %2 = assemble(%1, out, offsets=(0,)) : fp32[4] in out
"""
    _, out = run(text, ramp(4), np.zeros(4, F32))
    assert out[:2].tolist() == [0, 1]
    assert np.isnan(out[2:]).all()


# --- loops and branches --------------------------------------------------------------------------

SUM_ROWS = """
graph g:
  dim n = x[0] : int 0..
  param x : fp32[n, 2]
  param out : fp32[1, 2]
  %0 = full(size=(1, 2), fill_value=fp32(0.0), dtype=DT_FP32) : fp32[1, 2]
  %1, %2 = loop(START, STOP, STEP) : fp32[1, 2], int
    index %3 : int
    carry %4 = %0 : fp32[1, 2] in %1
    carry %5 = 0 : int
    %6 = view(x, shape=(1, 2), offsets=(%3, 0)) : fp32[1, 2] valid [min(1, max(n - %3, 0)), 2]
    %7 = mul(%4, 10.0) : fp32[1, 2]
    %8 = reshape(%6, shape=(1, 2)) : fp32[1, 2]
    %9 = add(%7, %8) : fp32[1, 2]
    yield %9, %5 + 1
  %10 = add(%1, %2) : fp32[1, 2]
  %11 = assemble(%10, out, offsets=(0, 0)) : fp32[1, 2] in out
"""


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 3, 1), (2, -1, -1), (0, 0, 1), (2, 2, -1), (0, 4, 3), (3, 0, 1)]
)
def test_a_loop_carries_what_its_body_changes(start, stop, step):
    x = ramp(4, 2)
    text = SUM_ROWS.replace("START", str(start)).replace("STOP", str(stop))
    _, out = run(text.replace("STEP", str(step)), x, np.zeros((1, 2), F32))
    acc, count = np.zeros(2, F32), 0
    for i in range(start, stop, step):
        acc, count = acc * 10 + x[i], count + 1
    assert out[0].tolist() == (acc + count).tolist()


def test_dynamic_bounds_and_no_rows():
    text = SUM_ROWS.replace("START", "n - 1").replace("STOP", "-1").replace("STEP", "-1")
    for n in (0, 1, 3):
        x = ramp(n, 2)
        _, out = run(text, x, np.zeros((1, 2), F32))
        acc = np.zeros(2, F32)
        for i in reversed(range(n)):
            acc = acc * 10 + x[i]
        assert out[0].tolist() == (acc + n).tolist()


def test_step_zero_is_an_error():
    text = """
graph g:
  param s : int32[1]
  param out : int32[1]
  %0 = item(s, index=(0,)) : int
  loop(0, 4, %0)   # k.py:7
    index %1 : int
"""
    problem = fails(ValueError, text, np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert (problem.code, problem.loc.line) == ("F21004", 7)
    assert "step" in problem.text


def test_ping_pong_of_two_carried_tensors():
    text = """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = mul(x, 10.0) : fp32[2]
  %1, %2 = loop(0, 3, 1) : fp32[2], fp32[2]
    index %3 : int 0..2
    carry %4 = x : fp32[2] in %1
    carry %5 = %0 : fp32[2] in %2
    %6 = add(%4, 1.0) : fp32[2]
    yield %5, %6
  %7 = sub(%1, %2) : fp32[2]
  %8 = assemble(%7, out, offsets=(0,)) : fp32[2] in out
"""
    x = ramp(2)
    _, out = run(text, x, np.zeros(2, F32))
    a, b = x, x * 10
    for _ in range(3):
        a, b = b, a + 1
    assert out.tolist() == (a - b).tolist()


def test_a_carried_value_is_not_the_memory_that_it_came_from():
    """`best = cand` before `cand[:] = cand + 1`: the name keeps the value of that trip."""
    text = """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0 = add(x, 0.0) : fp32[2]
  %1 = mul(x, 0.0) : fp32[2]
  %2, %3 = loop(0, 3, 1) : fp32[2], fp32[2] in %0
    index %4 : int 0..2
    carry %5 = %1 : fp32[2] in %2
    carry %6 = %0 : fp32[2] in %0
    %7 = cond(%4 == 1) : fp32[2]
    then:
      yield %6
    else:
      yield %5
    %8 = add(%6, 1.0) : fp32[2]
    %9 = move(%8, %6) : fp32[2] in %0
    yield %7, %9
  %10 = assemble(%2, out, offsets=(0,)) : fp32[2] in out
"""
    _, out = run(text, ramp(2), np.zeros(2, F32))
    assert out.tolist() == [1, 2]


def test_writes_through_nested_loops_and_branches():
    text = """
graph g:
  param x : fp32[4, 4]
  param out : fp32[4, 4]
  %0 = loop(0, 4, 1) : fp32[4, 4] in out
    index %1 : int 0..3
    carry %2 = out : fp32[4, 4] in out
    %3 = loop(%1, -1, -1) : fp32[4, 4] in out
      index %4 : int 0..3
      carry %5 = %2 : fp32[4, 4] in out
      %6 = cond(%4 == %1) : fp32[4, 4] in out
      then:
        yield %5
      else:
        %7 = view(x, shape=(1, 1), offsets=(%1, %4)) : fp32[1, 1]
        %8 = assemble(%7, %5, offsets=(%4, %1)) : fp32[4, 4] in out
        yield %8
      yield %6
    yield %3
"""
    x = ramp(4, 4)
    _, out = run(text, x, np.zeros((4, 4), F32))
    assert np.array_equal(out, np.tril(x, -1).T)


def test_read_after_write_in_a_loop():
    """Each trip reads what the trip before has written; views of it are snapshots."""
    text = """
graph g:
  param out : fp32[4, 1]
  %0 = loop(1, 4, 1) : fp32[4, 1] in out
    index %1 : int 1..3
    carry %2 = out : fp32[4, 1] in out
    %3 = view(%2, shape=(1, 1), offsets=(%1 - 1, 0)) : fp32[1, 1]
    %4 = add(%3, 1.0) : fp32[1, 1]
    %5 = assemble(%4, %2, offsets=(%1, 0)) : fp32[4, 1] in out
    %6 = assemble(%3, %5, offsets=(0, 0)) : fp32[4, 1] in out
    yield %6
"""
    (out,) = run(text, np.array([[5], [0], [0], [0]], F32))
    assert out[:, 0].tolist() == [7, 6, 7, 8]


def test_ragged_bounds_read_from_a_tensor():
    text = """
graph g:
  param n : int32[4]
  param out : int32[4]
  %0 = loop(0, 4, 1) : int32[4] in out
    index %1 : int 0..3
    carry %2 = out : int32[4] in out
    %3 = item(n, index=(%1,)) : int
    %4 = loop(0, %3, 1) : int32[4] in out
      index %5 : int 0..
      carry %6 = %2 : int32[4] in out
      %7 = item(%6, index=(%1,)) : int
      %8 = item_set(%6, index=(%1,), value=%5 + %7 + 1) : int32[4] in out
      yield %8
    yield %4
"""
    _, out = run(text, np.array([3, 0, 1, 2], np.int32), np.zeros(4, np.int32))
    assert out.tolist() == [6, 0, 1, 3]


def test_extents_carried_beside_a_tensor():
    """A loop that cuts its tensor shorter and shorter carries the extent as an integer."""
    text = """
graph g:
  param x : fp32[4]
  param out : fp32[4]
  %0, %1 = loop(0, 2, 1) : fp32[4] valid [%1], int 0..4
    index %2 : int 0..1
    carry %3 = x : fp32[4] valid [%4] in %0
    carry %4 = 4 : int 0..4
    %5 = view(%3, shape=(4,), offsets=(1,)) : fp32[4] valid [max(%4 - 1, 0)]
    yield %5, max(%4 - 1, 0)
  %6 = assemble(%0, out, offsets=(0,)) : fp32[4] in out
"""
    _, out = run(text, ramp(4), np.full(4, -1, F32))
    assert out.tolist() == [2, 3, -1, -1]


def test_unbound_values_are_carried_unread():
    text = """
graph g:
  param x : fp32[2]
  param out : fp32[2]
  %0, %1 = loop(0, 2, 1) : fp32[2], int
    index %2 : int 0..1
    carry %3 = None : fp32[2] in %0
    carry %4 = None : int
    %5, %6 = cond(%2 == 0) : fp32[2], int
    then:
      %7 = mul(x, 2.0) : fp32[2]
      yield %7, 5
    else:
      %8 = add(%3, x) : fp32[2]
      yield %8, %4 + 1
    yield %5, %6
  %9 = add(%0, %1) : fp32[2]
  %10 = assemble(%9, out, offsets=(0,)) : fp32[2] in out
"""
    _, out = run(text, ramp(2), np.zeros(2, F32))
    assert out.tolist() == [6, 9]


def test_arms_that_write_and_do_not():
    text = """
graph g:
  param c : int32[1]
  param out : fp32[2]
  %0 = item(c, index=(0,)) : int
  %1 = full(size=(2,), fill_value=fp32(1.0), dtype=DT_FP32) : fp32[2]
  %2 = full(size=(1,), fill_value=fp32(9.0), dtype=DT_FP32) : fp32[1]
  %3 = cond(0 < %0) : fp32[2] in %1
  then:
    %4 = assemble(%2, %1, offsets=(1,)) : fp32[2] in %1
    yield %4
  else:
    yield %1
  %5 = assemble(%3, out, offsets=(0,)) : fp32[2] in out
"""
    for c, wanted in ((1, [1, 9]), (0, [1, 1]), (-3, [1, 1])):
        _, out = run(text, np.array([c], np.int32), np.zeros(2, F32))
        assert out.tolist() == wanted


# --- errors at run time --------------------------------------------------------------------------


def test_a_write_past_the_end_is_refused_before_it_happens():
    text = """
graph g:
  param i : int32[1]
  param x : fp32[16, 8]
  param out : fp32[1, 8]
  %0 = item(i, index=(0,)) : int
  %1 = assemble(x, out, offsets=(%0, 0)) : fp32[1, 8] in out   # kernel.py:12
"""
    problem = fails(IndexError, text, np.zeros(1, np.int32), ramp(16, 8), np.full((1, 8), 5, F32))
    assert problem.code == "F00008"
    assert problem.text == "assemble writes rows 0..15 of a 1-row tensor; give valid_shape=[1, 8]"
    assert (problem.loc.file, problem.loc.line) == ("kernel.py", 12)
    assert problem.fix == "limit the source: pypto.view(t, [16, 8], …, valid_shape=[1, 8])"


def test_the_numbers_of_a_write_past_the_end():
    text = """
graph g:
  dim n = out[0] : int 0..
  param i : int32[2]
  param x : fp32[2, 8]
  param out : fp32[n, 10]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(1,)) : int
  %2 = OP(x, out, offsets=(%0, %1)) : fp32[n, 10] in out
"""
    for op in ("assemble", "atomic_add"):
        for at, said in (
            ((2, 0), f"{op} writes rows 2..3 of a 3-row tensor; give valid_shape=[1, 8]"),
            (
                (1, 4),
                f"{op} writes positions of axis 1 4..11 of a 10-long tensor; "
                "give valid_shape=[2, 6]",
            ),
            ((7, 0), f"{op} writes rows 7..8 of a 3-row tensor; give valid_shape=[0, 8]"),
            ((0, -1), f"{op}: offset -1 on axis 1 is negative"),
        ):
            problem = fails(
                IndexError,
                text.replace("OP", op),
                np.array(at, np.int32),
                ramp(2, 8),
                np.zeros((3, 10), F32),
            )
            assert problem.text == said


def test_an_empty_source_writes_nothing_anywhere():
    text = """
graph g:
  param x : fp32[2, 2]
  param i : int32[1]
  param out : fp32[2, 2]
  %0 = item(i, index=(0,)) : int 0..
  %1 = view(x, shape=(2, 2), offsets=(%0, 0)) : fp32[2, 2] valid [min(2, max(2 - %0, 0)), 2]
  %2 = assemble(%1, out, offsets=(%0, 0)) : fp32[2, 2] in out
"""
    for i in (2, 5):
        *_, out = run(text, ramp(2, 2), np.array([i], np.int32), np.full((2, 2), 3, F32))
        assert out.tolist() == [[3, 3], [3, 3]]
    *_, out = run(text, ramp(2, 2), np.array([1], np.int32), np.full((2, 2), 3, F32))
    assert out.tolist() == [[3, 3], [2, 3]]


VIEW = """
graph g:
  param i : int32[2]
  param x : fp32[4, 2]
  param out : fp32[2, 2]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(1,)) : int
  %2 = view(x, shape=(2, 2), offsets=(%0, 0), given=GIVEN) : fp32[2, 2] valid VALID   # k.py:3
  %3 = assemble(%2, out, offsets=(0, 0)) : fp32[2, 2] in out
"""


def test_a_negative_offset_of_a_view():
    text = VIEW.replace("GIVEN", "None").replace("VALID", "[min(2, max(4 - %0, 0)), 2]")
    problem = fails(
        IndexError, text, np.array([-1, 0], np.int32), ramp(4, 2), np.zeros((2, 2), F32)
    )
    assert (problem.code, problem.loc.line) == ("F00008", 3)
    assert problem.text == "view: offset -1 on axis 0 is negative"


@pytest.mark.parametrize(
    ("offset", "given", "said"),
    [
        (0, 3, "valid_shape 3 reaches past the view's 2"),
        (3, 2, "valid_shape 2 reaches past the 1 left of the data"),
        (9, 1, "valid_shape 1 reaches past the 0 left of the data"),
        (0, -1, "valid_shape -1 is negative"),
    ],
)
def test_given_valid_extents_stay_within_view_and_data(offset, given, said):
    text = VIEW.replace("GIVEN", "(%1, 2)").replace("VALID", "[%1, 2]")
    problem = fails(
        IndexError, text, np.array([offset, given], np.int32), ramp(4, 2), np.zeros((2, 2), F32)
    )
    assert problem.code == "F00008"
    assert problem.text.endswith(said)
    good = [np.array([3, 1], np.int32), ramp(4, 2), np.zeros((2, 2), F32)]
    assert run(text, *good)[2].tolist() == [[6, 7], [0, 0]]


def test_an_element_out_of_range():
    text = """
graph g:
  param i : int32[2]
  param out : int32[2]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(%0,)) : int   # k.py:4
  %2 = item_set(out, index=(%1,), value=1) : int32[2] in out   # k.py:5
"""
    out = np.zeros(2, np.int32)
    for values, line, index in (((2, 0), 4, 2), ((-1, 0), 4, -1), ((1, 7), 5, 7)):
        problem = fails(IndexError, text, np.array(values, np.int32), out)
        assert (problem.code, problem.loc.line) == ("F00008", line)
        assert problem.text == f"index {index} is out of range for axis 0 with extent 2"
    assert run(text, np.array([1, 1], np.int32), out)[1].tolist() == [0, 1]


def test_an_element_outside_of_the_valid_extents():
    text = """
graph g:
  param x : int32[4]
  param out : int32[1]
  %0 = view(x, shape=(4,), offsets=(2,)) : int32[4] valid [2]
  %1 = item(x, index=(0,)) : int
  %2 = item(%0, index=(%1,)) : int
  %3 = item_set(out, index=(0,), value=%2) : int32[1] in out
"""
    problem = fails(IndexError, text, np.array([3, 1, 2, 3], np.int32), np.zeros(1, np.int32))
    assert problem.text == "index 3 is out of range for axis 0 with extent 2"


def test_division_by_zero_of_integers():
    text = """
graph g:
  param i : int32[2]
  param out : int32[1]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(1,)) : int
  %2 = integer(EXPR) : int   # k.py:9
  %3 = item_set(out, index=(0,), value=%2) : int32[1] in out
"""
    for expr, wanted in (("%0 // %1", -3), ("%0 % %1", -2), ("%0 // %1 if %1 else 7", -3)):
        body = text.replace("EXPR", expr)
        assert run(body, np.array([7, -3], np.int32), np.zeros(1, np.int32))[1][0] == wanted
    for expr in ("%0 // %1", "%0 % %1"):
        problem = fails(
            ValueError,
            text.replace("EXPR", expr),
            np.array([7, 0], np.int32),
            np.zeros(1, np.int32),
        )
        assert "by zero" in problem.text
        assert problem.loc.line == 9
    guarded = text.replace("EXPR", "%0 // %1 if %1 else 7")
    assert run(guarded, np.array([3, 0], np.int32), np.zeros(1, np.int32))[1][0] == 7


def test_require():
    text = """
graph g:
  param i : int32[1]
  param out : int32[1]
  %0 = item(i, index=(0,)) : int
  require(0 < %0, error='NameError', code='F00004', text="'c' is unbound", fix='bind it')   # k.py:2
  %1 = item_set(out, index=(0,), value=4) : int32[1] in out
"""
    assert run(text, np.array([1], np.int32), np.zeros(1, np.int32))[1][0] == 4
    problem = fails(NameError, text, np.array([0], np.int32), np.zeros(1, np.int32))
    assert (problem.code, problem.text, problem.fix) == ("F00004", "'c' is unbound", "bind it")
    assert problem.loc.line == 2


def test_an_unused_read_out_of_range_is_still_an_error():
    text = """
graph g:
  param i : int32[1]
  param out : int32[1]
  %0 = item(i, index=(0,)) : int
  %1 = view(i, shape=(1,), offsets=(%0,)) : int32[1] valid [min(1, max(1 - %0, 0))]
  %2 = item_set(out, index=(0,), value=4) : int32[1] in out
"""
    graph = checked(text)
    for rewrite in PASSES:
        graph = rewrite(graph)
    with pytest.raises(IndexError, match="offset -4 on axis 0"):
        interpret(graph, [np.array([-4], np.int32), np.zeros(1, np.int32)])


def test_unknown_ops_and_wrong_arrays_are_ours():
    graph = checked("graph g:\n  param x : fp32[2]\n  %0 = move(x, x) : fp32[2] in x\n")
    with pytest.raises(InternalError, match=r"x is Tensor\[2\] DT_FP32, got float32\[3\]"):
        interpret(graph, [np.zeros(3, F32)])
    with pytest.raises(InternalError, match="got float64"):
        interpret(graph, [np.zeros(2)])
    with pytest.raises(InternalError, match="takes 1 arrays, got 0"):
        interpret(graph, [])
    node = graph.body.nodes[0]
    node.op = dataclasses.replace(node.op, name="teleport")
    with pytest.raises(InternalError, match="no meaning for teleport"):
        prepare(graph)


def test_what_a_reference_lets_escape_has_a_place():
    graph = checked(
        "graph g:\n  param x : fp32[2]\n  %0 = exp(x) : fp32[2]   # k.py:8\n"
        "  %1 = move(%0, x) : fp32[2] in x\n"
    )
    node = graph.body.nodes[0]

    def fail_with(problem):
        def reference(x, **options):
            raise problem

        node.op = dataclasses.replace(node.op, reference=reference)
        return prepare(graph)

    arrays = [np.zeros(2, F32)]
    with pytest.raises(InternalError, match="failed in exp: KeyError: 'y'") as caught:
        fail_with(KeyError("y")).run(arrays)
    assert caught.value.loc.line == 8
    for problem in (IndexError("place 9 of 4"), MemoryError("too large")):
        with pytest.raises(type(problem), match=str(problem)) as caught:
            fail_with(problem).run(arrays)
        assert isinstance(caught.value, FeError)
        assert caught.value.loc.line == 8
    with pytest.raises(InternalError, match=r"gave the shape \[1\] where \[2\] are valid"):
        node.op = dataclasses.replace(node.op, reference=lambda x, **options: x[:1])
        prepare(graph).run(arrays)


# --- printing ------------------------------------------------------------------------------------


def test_print_shows_values_of_chosen_trips(capsys):
    text = """
graph g:
  param x : fp32[2, 2]
  param out : fp32[2, 2]
  loop(0, 3, 1)
    index %0 : int 0..2
    print(items=('row', %0), cond=%0 == 1)
  print(items=(x, 'end'), cond=1)
  %1 = move(x, out) : fp32[2, 2] in out
"""
    graph = checked(text)
    interpret(graph, [ramp(2, 2), np.zeros((2, 2), F32)])
    assert capsys.readouterr().out == (
        "row 1\n"
        "tensor([[0.0000, 1.0000],\n"
        "        [2.0000, 3.0000]],\n"
        "       dtype=DT_FP32, shape=[2, 2])\n"
        "end\n"
    )


# --- the program as a whole ----------------------------------------------------------------------


def test_one_program_serves_several_threads():
    text = SUM_ROWS.replace("START", "0").replace("STOP", "n").replace("STEP", "1")
    program = prepare(checked(text))
    results = {}

    def work(k):
        x = ramp(3, 2) + k
        for _ in range(50):
            out = np.zeros((1, 2), F32)
            program.run([x, out])
            results.setdefault(k, set()).add(tuple(out[0]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        x = ramp(3, 2) + k
        assert results[k] == {tuple((x[0] * 10 + x[1]) * 10 + x[2] + 3)}


def test_a_program_is_right_after_a_failed_run():
    text = VIEW.replace("GIVEN", "None").replace("VALID", "[min(2, max(4 - %0, 0)), 2]")
    program = prepare(checked(text))
    x, out = ramp(4, 2), np.zeros((2, 2), F32)
    with pytest.raises(IndexError):
        program.run([np.array([-1, 0], np.int32), x, out])
    program.run([np.array([1, 0], np.int32), x, out])
    assert out.tolist() == [[2, 3], [4, 5]]


def test_a_long_graph_and_deep_integers():
    lines = ["graph g:", "  param x : fp32[1]", "  %0 = add(x, 0.0) : fp32[1]"]
    count = 20_000
    lines += [f"  %{i} = add(%{i - 1}, 1.0) : fp32[1]" for i in range(1, count)]
    lines.append(f"  %{count} = assemble(%{count - 1}, x, offsets=(0,)) : fp32[1] in x")
    (x,) = run("\n".join(lines), np.zeros(1, F32))
    assert x[0] == count - 1
    deep = "%0"
    for _ in range(60):
        deep = f"max(7, ({deep}) // 2 * 2)"
    text = f"""
graph g:
  param x : int32[1]
  %0 = item(x, index=(0,)) : int
  %1 = item_set(x, index=(0,), value={deep}) : int32[1] in x
"""
    (x,) = run(text, np.array([31], np.int32))
    assert x[0] == 30


def test_memory_is_let_go():
    """A long chain holds a few of its tensors at a time, not all of them."""
    size, count = 250_000, 40
    lines = [f"graph g:\n  param x : fp32[{size}]\n  %0 = add(x, 0.0) : fp32[{size}]"]
    lines += [f"  %{i} = add(%{i - 1}, 1.0) : fp32[{size}]" for i in range(1, count)]
    lines.append(f"  %{count} = assemble(%{count - 1}, x, offsets=(0,)) : fp32[{size}] in x")
    program = prepare(checked("\n".join(lines)))
    x = np.zeros(size, F32)
    tracemalloc.start()
    program.run([x])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert x[0] == count - 1
    assert peak < 8 * size * 4
