"""A kernel's mistakes are told together, and each of them once.

In: kernels with several mistakes, or one whose result goes on through the kernel.  Out: exactly the
marked lines, in order.  What an op that failed gives may go anywhere a tensor goes: through loops,
branches, helpers, containers, keys and bounds, without a further word.
"""

import contextlib
import operator

import numpy as np
import pytest
import torch
from exact_errors import blank, ints, line_of, ramp, told

import pypto
from pypto.errors import FeError, Loc, Stopped, collected, error
from pypto.ir.op import REGISTRY

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)
I32 = P([], pypto.DT_INT32)
ROWS = P([pypto.DYNAMIC, 32], DT)


def test_several_ops_on_one_line_and_on_many():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = a.sum(4) + a.amax(5)  # <- two
        c = pypto.exp(a, 1)  # <- exp
        out[:] = b + c

    assert told(kernel) == ["two", "two", "exp"]


def test_findings_come_by_line_though_found_in_another_order():
    def below(a):
        return a.sum(4)  # <- below

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in range(2):
            if i == 1:
                out[0:3] = 1  # <- first
            else:
                out[:] = a.sum(5)  # <- second
        out[:] = below(a)

    assert told(kernel) == ["below", "first", "second"]


def test_a_failed_value_goes_on_without_a_word():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        bad = a.sum(4)  # <- bad
        rows, cols = bad.shape
        for j in [bad, -bad, bad * 2, 2 / bad, bad @ a, a @ bad, bad[0:4, :], bad[0], bad.exp()]:
            out[:] = j
        out[0:rows, :] = a
        out[rows : rows + 4, :] = bad
        bad[:] = a
        bad[0:4, :] = a
        pypto.assemble(a, [0, 0], bad)
        pypto.assemble(bad, [0, rows], out)
        pypto.assemble([(a, [0, 0]), (bad, [0, 0])], out)
        t = pypto.concat([a, bad], 0)
        v, k = pypto.topk(bad, 3)
        w = pypto.full([rows, 32], 0.0, DT) + pypto.tensor([rows, cols], DT)
        bad += t + v + k + w
        bad.name = "bad"
        out[:] = pypto.where(bad > 1.0, a, bad)
        n = bad.dim * bad.valid_shape[0] + pypto.min(3, rows)
        out[pypto.ceildiv(rows, 4) : 16, :] = a
        pypto.pass_verify_print(bad, n, f"{bad} {n}", cond=n)
        assert isinstance(bad, pypto.Tensor)
        x, y, z = bad.reshape([3, -1])

    assert told(kernel) == ["bad"]


def test_a_failed_value_is_carried_by_loops_and_branches():
    @pypto.jit
    def kernel(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        one = a[0:16, :].sum(4)  # <- one
        total = pypto.full([16, 32], 0.0, DT)
        for i in pypto.loop(a.shape[0]):
            one = one + total
            total = total.amax(4)  # <- two
            if i == 0:
                late = total
            else:
                late = one
            if i == 1:
                out[:] = late
            chosen = total if i == 2 else pypto.full([16, 32], 1.0, DT)
            out[:] = chosen
        out[:] = one + total
        for _ in pypto.loop(2):
            inner = one
        out[:] = inner
        out[:] = inner.amax(4) + a[0:16, :].amax(4)  # <- behind

    assert told(kernel) == ["one", "two", "behind"]


def test_a_good_name_that_ends_a_trip_with_a_failed_value():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        state = a + 1.0
        for i in pypto.loop(4):
            out[:] = state * 2.0
            state = state.sum(4)  # <- state
        out[:] = state
        out[:] = a.amax(5)  # <- behind

    assert told(kernel) == ["state", "behind"]


def test_a_good_name_that_ends_a_trip_with_a_failed_value_of_known_type():
    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        state = a + 1.0
        for i in pypto.loop(4):
            out[:] = state * 2.0
            state = state + n  # <- state
        out[:] = state
        chosen = state if n[0, 0] > 1 else a
        out[:] = chosen * 2.0
        out[:] = a.amax(5)  # <- behind

    assert told(kernel, ramp(), ramp().int(), blank()) == ["state", "behind"]


def test_a_failed_bound():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        n = a.no_such(4)  # <- bound
        for i in pypto.loop(n):
            out[:] = a
        out[:] = a.amax(5)  # <- behind

    assert told(kernel) == ["bound", "behind"]


def test_a_failed_element_steers_loops_and_branches():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        n = a[0, 0]  # <- element
        for i in pypto.loop(n):
            if i < n:
                out[i : i + 1, :] = a[i : i + 1, :] * n
        out[n : n + 1, :] = a.sum(5)  # <- sum
        for _ in range(n):
            out[:] = a.sum(6)

    assert told(kernel) == ["element", "sum"]


def test_where_python_must_know_a_failed_value_tracing_stops_quietly():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = a.sum(4)  # <- first
        c = a.sum(5)  # <- second
        if b:
            out[:] = c
        out[:] = a.sum(6)

    assert told(kernel) == ["first", "second"]


@pytest.mark.parametrize(
    "ask",
    [bool, int, float, len, list, range, set, lambda t: [1, 2][t]],
    ids=["bool", "int", "float", "len", "list", "range", "set", "index"],
)
def test_every_question_to_a_failed_value_stops_quietly(ask):
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = ask(a.sum(4))  # <- sum

    assert told(kernel) == ["sum"]


def test_an_error_that_ends_the_trace_comes_with_the_findings_before_it():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = a.sum(4)  # <- sum
        for i in pypto.loop(2):
            out[int(i) : 1, :] = b  # <- int
            out[:] = a.sum(5)

    assert told(kernel) == ["sum", "int"]


def test_what_python_itself_refuses_comes_with_the_findings_before_it():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a.sum(4)  # <- sum
        out[:] = no_such_name  # <- name

    assert told(kernel) == ["sum", "name"]


def test_a_mistake_in_a_python_loop_is_told_once():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for j in range(4):
            out[:] = a.sum(4 + j)  # <- sum
        out[:] = [a.amax(4 + j) for j in range(3)][0]  # <- amax

    assert told(kernel) == ["sum", "amax"]


def test_a_mistake_in_a_function_is_told_once_though_it_is_called_twice():
    def scaled(t):
        return t * t.sum(4)  # <- sum

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = scaled(a)
        out[:] = scaled(a) + b

    assert told(kernel) == ["sum"]


def test_a_function_that_two_calls_give_wrong_tensors_is_told_for_each():
    def joined(t, u):
        return t + u  # <- add

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = joined(a, a[0:3, :])
        out[:] = joined(a, a[0:5, :]) + b

    with pytest.raises(pypto.error.FeError) as caught:
        kernel(ramp(), blank())
    first, second = caught.value.findings
    assert (first.loc.line, second.loc.line) == (line_of(__file__, "add"),) * 2
    assert [f.function for f in first.loc.frames] == ["joined", "kernel"]
    assert second.loc.outer.line == first.loc.outer.line + 1


def test_functions_over_other_ops_tell_only_the_users_call():
    @pypto.jit
    def kernel(n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        a = pypto.softmax(n, -1)  # <- softmax
        b = 3.0 - n  # <- sub
        n.fill_("x")  # <- fill
        out[:] = a + b

    assert told(kernel, torch.ones(16, 32, dtype=torch.int32), blank()) == [
        "softmax",
        "sub",
        "fill",
    ]


def test_a_name_of_two_types_is_told_once():
    @pypto.jit
    def kernel(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        if a.shape[0] > 3:
            t = a[0:16, :]
        else:
            t = 3
        out[:] = t + 1.0  # <- use
        out[:] = t * 2.0
        out[:] = pypto.exp(t)
        t.name = "t"
        out[:] = out.sum(4)  # <- sum

    assert told(kernel) == ["use", "sum"]


def test_an_iterated_tensor_and_an_unpacked_one():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        first, second = a  # <- unpack
        rows = [row * 2.0 for row in a]  # <- comprehension
        out[:] = first + second + rows[0]

    assert told(kernel) == ["unpack", "comprehension"]


def test_new_tensors_with_wrong_dims():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = pypto.tensor([2.5, 16], DT)  # <- dims
        t[:] = a
        u = pypto.Tensor([16, 32], "fp32")  # <- dtype
        u[:] = t
        out[:] = u

    assert told(kernel) == ["dims", "dtype"]


def test_a_trace_that_starts_again_tells_nothing_twice():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        bad = a.sum(4)  # <- sum
        acc = pypto.full([16, 32], 0.0, DT)
        for i in pypto.loop(4):
            # The valid extents change, so the loop is traced a second time.
            acc = acc + pypto.view(a, [16, 32], [i * 8, 0])
        out[:] = acc
        out[:] = bad.exp() + a.amax(5)  # <- amax

    assert told(kernel) == ["sum", "amax"]


def test_the_next_kernel_works_and_so_does_the_mended_one():
    @pypto.jit
    def kernel(a: F32, out: F32, dim: int):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a - a.amax(dim, keepdim=True)  # <- amax

    assert told(kernel, ramp(), blank(), 4) == ["amax"]
    out = blank()
    kernel(ramp(), out, 1)
    assert torch.equal(out, ramp() - ramp().amax(1, keepdim=True))
    assert told(kernel, ramp(), blank(), 5) == ["amax"]


def test_the_graph_tells_the_same():
    @pypto.jit
    def kernel(a: F32, out: F32):
        out[:] = a.sum(4)  # <- sum
        out[:] = a.amax(4)  # <- amax

    assert told(kernel.graph, P([16, 32], DT), P([16, 32], DT)) == ["sum", "amax"]


# --- where the user's own code catches -----------------------------------------------------------


def test_try_in_a_kernel_sees_the_error_at_once():
    seen = []

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        try:
            t = a.sum(4)
        except IndexError as problem:
            seen.append(problem.code)
            t = a + 1.0
        out[:] = t

    out = blank()
    kernel(ramp(), out)
    assert seen == ["F00008"]
    assert torch.equal(out, ramp() + 1)


def test_try_around_a_call_of_a_function():
    def tried(t):
        return t.no_such

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        try:
            t = tried(a)
        except AttributeError:
            t = a + 2.0
        out[:] = t

    out = blank()
    kernel(ramp(), out)
    assert torch.equal(out, ramp() + 2)


def test_handlers_and_finally_are_outside_of_their_try():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        try:
            raise ValueError("no")
        except ValueError:
            out[:] = a.sum(4)  # <- handler
        else:
            out[:] = a
        try:
            out[:] = a.sum(5)  # <- try
        finally:
            out[:] = a.sum(6)  # <- finally
        out[:] = a.sum(7)  # <- behind

    assert told(kernel) == ["handler", "try", "finally", "behind"]


def test_try_round_a_definition_catches_nothing_of_its_body():
    try:

        @pypto.jit
        def kernel(a: F32, out: F32):
            pypto.set_vec_tile_shapes(16, 32)
            out[:] = a.sum(4)  # <- sum
            out[:] = a.amax(4)  # <- amax

    except ValueError:
        raise AssertionError from None
    assert told(kernel) == ["sum", "amax"]


def test_a_context_manager_that_swallows():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a
        with contextlib.suppress(IndexError):
            out[:] = a.sum(4)

    out = blank()
    kernel(ramp(), out)
    assert torch.equal(out, ramp())


def test_options_for_a_stretch_swallow_nothing():
    @pypto.jit
    def kernel(a: F32, out: F32):
        with pypto.options(vec_tile_shapes=[16, 32]):
            out[:] = a.sum(4)  # <- sum
            out[:] = a.amax(4)  # <- amax

    assert told(kernel) == ["sum", "amax"]


def test_a_failed_value_in_a_try():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        bad = a.sum(4)  # <- sum
        try:
            out[:] = bad + 1.0
        except TypeError:
            out[:] = a.no_such
        out[:] = a.amax(4)  # <- amax

    assert told(kernel) == ["sum", "amax"]


def test_asking_for_an_attribute_is_no_mistake():
    found = []

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        found.append([hasattr(a, "T"), getattr(a, "mean", 7), hasattr(pypto, "sofmax")])
        out[:] = a + 1.0

    kernel(ramp(), blank())
    assert found == [[False, 7, False]]


# --- whose mistake it is -------------------------------------------------------------------------


def test_a_defect_of_an_op_says_that_it_is_ours():
    op = REGISTRY["exp"]
    rule = op.shape

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = pypto.exp(a)  # <- defect

    try:
        object.__setattr__(op, "shape", operator.truediv)
        with pytest.raises(pypto.error.InternalError) as caught:
            kernel(ramp(), blank())
    finally:
        object.__setattr__(op, "shape", rule)
    assert caught.value.text == (
        "internal error in an op: TypeError: unsupported operand type(s) for /: 'list' and 'dict'; "
        "this is a defect of pypto-anywhere, not of the kernel"
    )
    assert caught.value.fix == "set `PYPTO_DEBUG=1` for the full traceback"
    assert caught.value.loc.line == line_of(__file__, "defect")
    out = blank()
    kernel(ramp(4, 4), out[:4, :4].contiguous())


def test_an_error_of_an_object_of_the_user_is_the_users():
    class Odd:
        def __repr__(self):
            raise ValueError("no text")  # <- odd

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = pypto.view(Odd(), [16, 32], [0, 0])

    with pytest.raises(ValueError, match="no text") as caught:
        kernel(ramp(), blank())
    assert caught.value.loc.line == line_of(__file__, "odd")


# --- other front ends ----------------------------------------------------------------------------


def test_forms_that_are_not_portable_are_told_together(monkeypatch):
    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = a * n[0]  # <- scalar
        out[:] = b
        out[:] = b + a  # <- moved

    monkeypatch.setenv("PYPTO_PORTABLE", "1")
    assert told(kernel, ramp(), ints(1), blank()) == ["scalar", "moved"]


# --- one error of many ---------------------------------------------------------------------------


def at(line, column=4):
    return Loc(__file__, line, column, line, column + 3)


def test_one_finding_is_the_error_itself():
    one = error(ValueError, "a", loc=at(3))
    assert collected([one]) is one
    assert one.findings == (one,)


def test_several_findings_are_one_error_of_the_first_ones_class():
    later = error(ValueError, "later", loc=at(30), code="F21004", fix="b")
    first = error(IndexError, "first", loc=at(3), fix="a", value=7, limit=[0, 3])
    whole = collected([later, first])
    assert whole.findings == (first, later)
    assert isinstance(whole, IndexError)
    assert isinstance(whole, FeError)
    assert not isinstance(whole, ValueError)
    assert (whole.text, whole.code, whole.loc, whole.fix) == ("first", "F00008", first.loc, "a")
    assert (whole.value, whole.limit) == (7, [0, 3])
    assert str(whole) == f"{first}\n\n{later}"
    assert str(first) != str(whole)


def test_two_columns_of_one_line_are_in_order():
    right = error(ValueError, "right", loc=at(3, 20))
    left = error(ValueError, "left", loc=at(3, 4))
    assert collected([right, left]).findings == (left, right)


def test_two_rules_that_one_place_breaks_are_two_findings():
    one = error(ValueError, "one", loc=at(3), code="F0000C")
    two = error(ValueError, "two", loc=at(3), code="FC4001")
    assert collected([one, two, error(ValueError, "one", loc=at(3))]).findings == (one, two)


def test_stopping_says_nothing_beside_a_finding():
    one = error(ValueError, "one", loc=at(3))
    assert collected([Stopped("nothing"), one]) is one


def test_numpy_integers_of_a_failed_value():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        bad = a.sum(np.int64(4))  # <- sum
        out[np.int64(0) : 4, :] = np.int64(2) * bad

    assert told(kernel) == ["sum"]
