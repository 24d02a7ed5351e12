"""The NumPy meaning of loops, branches, checks and prints, and the errors that a run may end in."""

import numpy as np
import pytest
from graph_text import F32, SUM_ROWS, VIEW, checked, fails, ramp, run

from pypto.interp.run import interpret
from pypto.ir.rewrite import PASSES

# --- loops and branches --------------------------------------------------------------------------


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
    said = "assemble writes rows 0..15 of a 1-row tensor; give valid_shape=[1, 8]"
    assert problem.text == f"{said} (`out`)"
    assert (problem.loc.file, problem.loc.line) == ("kernel.py", 12)
    assert problem.fix == "limit the source: `pypto.view(t, [16, 8], …, valid_shape=[1, 8])`"


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
            assert problem.text == f"{said} (`out`)"


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


def test_a_negative_offset_of_a_view():
    text = VIEW.replace("GIVEN", "None").replace("VALID", "[min(2, max(4 - %0, 0)), 2]")
    problem = fails(
        IndexError, text, np.array([-1, 0], np.int32), ramp(4, 2), np.zeros((2, 2), F32)
    )
    assert (problem.code, problem.loc.line) == ("F00008", 3)
    assert problem.text == "view: offset -1 on axis 0 is negative (`x`)"


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
    assert problem.text.endswith(f"{said} (`x`)")
    good = [np.array([3, 1], np.int32), ramp(4, 2), np.zeros((2, 2), F32)]
    assert run(text, *good)[2].tolist() == [[6, 7], [0, 0]]


@pytest.mark.parametrize(
    ("node", "n", "said"),
    [
        ("full(size=(4, 2), fill_value=fp32(1.0), dtype=DT_FP32, valid_shape=(%0, 2))", 5,
         "full(): valid_shape 5 on axis 0 is not within 0..4"),
        ("full(size=(4, 2), fill_value=fp32(1.0), dtype=DT_FP32, valid_shape=(%0, 2))", -1,
         "full(): valid_shape -1 on axis 0 is not within 0..4"),
        ("reshape(x, shape=(4, 2))", 7,
         "reshape: valid_shape 7 on axis 0 is not within 0..4 (`x`)"),
    ],
)  # fmt: skip
def test_valid_extents_that_are_known_only_at_run_time(node, n, said):
    text = f"""
graph g:
  param i : int32[1]
  param x : fp32[2, 4]
  param out : fp32[4, 2]
  %0 = item(i, index=(0,)) : int
  %1 = {node} : fp32[4, 2] valid [%0, 2]   # k.py:5
  %2 = assemble(%1, out, offsets=(0, 0)) : fp32[4, 2] in out
"""
    arrays = ramp(2, 4), np.full((4, 2), 9, F32)
    problem = fails(IndexError, text, np.array([n], np.int32), *arrays)
    assert (problem.code, problem.loc.line, problem.text) == ("F00008", 5, said)
    *_, out = run(text, np.array([1], np.int32), *arrays)
    assert (out[1:] == 9).all()
    assert out[0].tolist() == ([1, 1] if "full" in node else [0, 1])


def test_expanded_extents_hold_no_more_than_their_source():
    text = """
graph g:
  param i : int32[1]
  param x : fp32[1, 4]
  param out : fp32[2, 4]
  %0 = item(i, index=(0,)) : int
  %1 = view(x, shape=(1, 4), offsets=(0, 1)) : fp32[1, 4] valid [1, 3]
  %2 = expand_clone(%1, shape=(2, 4), valid_shape=(2, %0)) : fp32[2, 4] valid [2, min(%0, 3)]
  %3 = assemble(%2, out, offsets=(0, 0)) : fp32[2, 4] in out
"""
    for n, said in ((4, "4 on axis 1 is not within 0..3"), (-1, "-1 on axis 1 is not within 0..3")):
        problem = fails(
            IndexError, text, np.array([n], np.int32), ramp(1, 4), np.zeros((2, 4), F32)
        )
        assert problem.text == f"expand_clone(): valid_shape {said} (a view of `x`)"
    *_, out = run(text, np.array([2], np.int32), ramp(1, 4), np.zeros((2, 4), F32))
    assert out.tolist() == [[1, 2, 0, 0]] * 2


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
        name = "i" if line == 4 else "out"
        assert problem.text == f"index {index} is out of range for axis 0 with extent 2 (`{name}`)"
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
    assert problem.text == "index 3 is out of range for axis 0 with extent 2 (a view of `x`)"


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
