"""The NumPy meaning of ops and memory, on graphs written in the text form."""

import dataclasses
import threading
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from graph_text import F32, SUM_ROWS, VIEW, checked, ramp, run

from pypto.errors import FeError, InternalError
from pypto.interp.run import interpret, prepare

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
