"""No mistake hides those behind it: bad bounds, jumps, changed objects, late checks.

In: kernels in which something that the front end cannot follow stands before other mistakes.  Out:
all of them in one run, by line, and nothing about what would be right without the first one.
"""

import pytest
import torch
from exact_errors import blank, ints, ramp, refused, told, told_in_full, under

import pypto

DT = pypto.DT_FP32
F32 = pypto.Tensor([], DT)
I32 = pypto.Tensor([], pypto.DT_INT32)
ROWS = pypto.Tensor([pypto.DYNAMIC, 32], DT)


def messages(kernel, *args):
    return [(mark, f.builtin, f.code, under(f), f.text) for mark, f in told_in_full(kernel, *args)]


# --- loop bounds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bounds",
    [(2.0,), ("4",), (None,), (True,), (0, 4, 0), (0, 4, 1.5), (1, 2, 3, 4), (), ([4],)],
    ids=str,
)
def test_a_bad_bound_hides_nothing(bounds):
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in pypto.loop(*bounds):  # <- bound
            out[i : i + 1, :] = a.sum(4)  # <- body
            for j in pypto.loop(2.5):  # <- inner
                out[:] = a.sum(5)  # <- innermost
        out[:] = a.sum(6)  # <- behind

    assert told(kernel) == ["bound", "body", "inner", "innermost", "behind"]


def test_a_bad_bound_of_an_unrolled_loop_hides_nothing():
    @pypto.jit
    def kernel(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i, k in pypto.loop_unroll(a.shape[0] / 16.0, unroll_list=[4, 2]):  # <- bound
            out[i : i + k, :] = a[i : i + k, :]
            out[:] = a[0:16, :].sum(4)  # <- body

    bound, body = messages(kernel)
    assert bound == (
        "bound",
        "TypeError",
        "F00001",
        "a.shape[0] / 16.0",
        "Invalid type. A symbolic integer goes with ints and symbolic integers, got float",
    )
    assert body[0] == "body"


def test_behind_a_bad_bound_names_are_bound_and_carried():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        rows, total, count = None, a, 0
        for i in pypto.loop(2.0):  # <- bound
            rows = a[i : i + 1, :]
            late = rows * 2.0
            total = total + late
            count += 1
            if pypto.is_loop_end(i):
                out[:] = total
        out[count : count + 1, :] = rows + late

    assert told(kernel) == ["bound"]


def test_a_tensor_as_bound():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for _ in pypto.loop(a):  # <- tensor
            out[:] = a

    refused(
        lambda: kernel(ramp(), blank()),
        "tensor",
        "Invalid value type: a loop bound must be int or symbolic scalar, got a Tensor; read an "
        "element: `t[0]`",
        under="pypto.loop(a)",
        code="F21004",
        builtin=ValueError,
        fix="n = t[0] with an integer tensor, then pypto.loop(n)",
    )


def test_questions_about_a_failed_index_say_nothing():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        bad = a.sum(4)  # <- first
        if pypto.cond(bad > 0):
            out[:] = a.sum(5)  # <- in the branch
        if pypto.is_loop_begin(bad):
            out[:] = a
        if pypto.is_loop_end(bad[0, 0]):
            out[:] = a
        if pypto.is_loop_begin(a):  # <- no index
            out[:] = a
        if pypto.cond(a):  # <- no number
            out[:] = a.sum(6)  # <- behind

    assert told(kernel) == ["first", "in the branch", "no index", "no number", "behind"]


# --- jumps ---------------------------------------------------------------------------------------


def test_a_refused_jump_hides_nothing():
    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in pypto.loop(4):
            out[:] = a.sum(4)  # <- before
            if i > 2:
                out[:] = a.sum(5)  # <- arm
                break  # <- break
            if n[0] > 2:
                continue  # <- continue
            out[:] = a.sum(6)  # <- body
        for _ in range(3):
            if n[0] > 1:
                break  # <- plain loop
            out[:] = a.sum(7)  # <- plain body
        while True:
            if n[0] > 0:
                raise ValueError("never")  # <- raise
            break
        for i in pypto.loop(4):  # <- else
            out[:] = a
        else:
            out[:] = a.sum(8)  # <- orelse
        out[:] = a.sum(9)  # <- behind

    found = messages(kernel, ramp(), ints(1, 2), blank())
    assert [mark for mark, *_ in found] == [
        "before",
        "arm",
        "break",
        "continue",
        "body",
        "plain loop",
        "plain body",
        "raise",
        "else",
        "orelse",
        "behind",
    ]
    jumps = {mark: rest for mark, *rest in found if rest[0] == "SyntaxError"}
    symbolic = "is not supported under a symbolic condition"
    assert [(under, text) for _, _, under, text in jumps.values()] == [
        ("break", "break is not supported in pypto.loop"),
        ("continue", "continue is not supported in pypto.loop"),
        ("break", f"break {symbolic}"),
        ('raise ValueError("never")', f"raise {symbolic}"),
        ("for i in pypto.loop(4):", "else is not supported on pypto.loop"),
    ]


def test_what_a_plain_jump_leaves_out_is_no_mistake():
    @pypto.jit
    def kernel(a: F32, out: F32, bias=None):
        pypto.set_vec_tile_shapes(16, 32)
        for _ in pypto.loop(4):
            if bias is None:
                continue  # <- continue
            out[:] = a + bias.no_such
            out[0:3] = 1.0
        out[:] = a.sum(9)  # <- behind

    assert told(kernel, ramp(), blank()) == ["continue"]

    @pypto.jit
    def number(a: F32, out: F32, bias=0):
        pypto.set_vec_tile_shapes(16, 32)
        for _ in pypto.loop(4):
            if bias == 0:
                continue  # <- number
            out[:] = a.sum(bias + 7)
        out[:] = a.sum(9)  # <- behind number

    assert told(number, ramp(), blank()) == ["number", "behind number"]


def test_a_refused_return_gives_something_all_the_same():
    def early(a, n):
        if n > 0:
            return a * 2.0  # <- early
        if n is None:
            return None

    def either(a, n):
        if n > 1:
            return a, n  # <- either
        else:
            return a, 3  # <- or

    def in_loop(a):
        for i in pypto.loop(4):
            out = a.sum(4)  # <- in loop
            return i  # <- return

    def plain(a, k):
        for j in range(k):
            if j == 1:
                return a[j : j + 1, :]

    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = early(a, n[0]) + 1.0
        first, second = either(a, n[0])
        out[:] = first * second
        k = in_loop(a)
        out[k : k + 1, :] = plain(a, 3)
        assert plain(a, 1) is None
        out[:] = plain(a, 3).sum(5)  # <- behind

    marks = ["early", "either", "or", "in loop", "return", "behind"]
    assert told(kernel, ramp(), ints(1, 2), blank()) == marks


def test_jumps_of_plain_python_are_made():
    def first_even(a, k):
        for j in range(k):
            if j % 2:
                continue
            while True:
                if j > 2:
                    break
                j += 1
            return a * float(j)
        return a

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = first_even(a, 3)
        for i in pypto.loop(2):
            for j in range(9):
                if j == 2:
                    break
                if j == 0:
                    continue
                out[:] = out + first_even(a, 0)
        return None

    out = blank()
    kernel(ramp(), out)
    assert torch.equal(out, 5 * ramp())


# --- objects -------------------------------------------------------------------------------------


def test_a_changed_object_hides_nothing_and_is_told_once():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        rows, seen = [], {}
        for i in pypto.loop(4):
            for j in pypto.loop(4):
                rows.append(a[i : i + 1, :] + 1.0)  # <- list
                if j > 2:
                    seen["last"] = i, a * 2.0  # <- dict
        out[:] = pypto.concat(rows, 0)
        out[0:1, :] = rows[0]
        index, last = seen["last"]
        out[index : index + 1, :] = a[0:1, :]
        for _ in pypto.loop(index):
            last = last + 1.0
        out[:] = a.sum(4)  # <- behind
        for i in pypto.loop(4):
            rows.append(a[i : i + 1, :])  # <- again

    found = messages(kernel)
    assert [mark for mark, *_ in found] == ["list", "dict", "behind", "again"]
    assert found[0][1:] == (
        "TypeError",
        "F00001",
        "rows.append(a[i : i + 1, :] + 1.0)",
        "`rows` changes inside pypto.loop: a list is a compile-time object, so a later trip or the "
        "code behind the loop would read something else",
    )


def test_a_name_that_cannot_be_carried_hides_nothing():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        last = None
        for _ in pypto.loop(4):  # <- loop
            last = a if last is None else last + a
        out[:] = last * 2.0
        out[:] = a.sum(4)  # <- behind

    assert told(kernel) == ["loop", "behind"]


# --- late checks ---------------------------------------------------------------------------------


def test_late_checks_are_told_with_the_rest():
    @pypto.jit
    def kernel(a: F32, out: F32, other: F32):
        one = pypto.tensor([16, 32], DT)
        two = pypto.tensor([16, 32], DT)
        squares = (a * a).sum(-1, keepdim=True)  # <- vec
        out[:] = a + one  # <- one
        out[:] = two * squares + one  # <- two
        out[:] = a.sum(4)  # <- axis
        product = pypto.matmul(a, a, DT, b_trans=True)  # <- cube
        other = product.exp()  # <- rebound

    found = messages(kernel, ramp(), blank(), blank(16, 16))
    assert found == [
        (
            "vec",
            "ValueError",
            "F21004",
            "a * a",
            "tile shape not set for mul; call set_vec_tile_shapes() at the start of the kernel",
        ),
        (
            "one",
            "ValueError",
            "F40000",
            "a + one",
            "`one` is read but never written before: its elements hold no value",
        ),
        (
            "two",
            "ValueError",
            "F40000",
            "two * squares",
            "`two` is read but never written before: its elements hold no value",
        ),
        (
            "axis",
            "IndexError",
            "F00008",
            "a.sum(4)",
            "sum(): dim=4 is no axis of a tensor of rank 2; allowed -2..1",
        ),
        (
            "cube",
            "ValueError",
            "F21004",
            "pypto.matmul(a, a, DT, b_trans=True)",
            "tile shape not set for matmul; call set_cube_tile_shapes() at the start of the kernel",
        ),
        (
            "rebound",
            "ValueError",
            "F00002",
            "other",
            "output parameter `other` is never written: rebinding the name does not write the "
            "tensor; use `other[:] = …`",
        ),
    ]


def test_late_checks_are_told_together_where_nothing_else_is_wrong():
    @pypto.jit
    def kernel(a: F32, out: F32, other: F32):
        out[:] = a * 2.0  # <- vec
        other = a  # <- rebound

    assert told(kernel, ramp(), blank(), blank()) == ["vec", "rebound"]


def test_what_a_failed_op_may_have_written_counts_as_written():
    def fill(t, n):
        t.fil_(n)  # <- method

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        one, two, three, four, five = (pypto.tensor([16, 32], DT) for _ in range(5))
        one[:] = a.sum(4)  # <- sum
        two[0:1] = 1.0  # <- number
        pypto.no_such_copy(a, three)  # <- function
        fill(four, 0.0)
        for _ in pypto.loop(2):
            five[:] = five.sum(5)  # <- loop
            five = five + 1.0
        out[:] = one + two + three + four + five

    assert told(kernel) == ["method", "sum", "number", "function", "loop"]


def test_an_output_that_a_failed_op_was_to_write_counts_as_written():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a.sum(4)  # <- sum

    assert told(kernel) == ["sum"]


def test_a_wrong_tile_shape_is_none_that_is_missing():
    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(n[0], 32)  # <- vec
        pypto.set_cube_tile_shapes(16, 16, 16)  # <- cube
        pypto.set_pass_options(no_such=1)  # <- option
        out[:] = pypto.matmul(a, a, DT, b_trans=True)
        out[:] = a.sum(4)  # <- sum

    assert told(kernel, ramp(), ints(1), blank(16, 16)) == ["vec", "cube", "option", "sum"]


@pytest.mark.parametrize("rank, entries", [(1, "64"), (2, "32, 64"), (4, "1, 1, 32, 64")])
def test_a_missing_tile_shape_is_asked_for_once_and_by_rank(rank, entries):
    @pypto.jit
    def kernel(a: F32, out: F32):
        t = a + 1.0  # <- no tile
        for _ in pypto.loop(2):
            t = t * 2.0
        out[:] = t.exp()

    shape = [2] * rank
    error = refused(
        lambda: kernel(torch.ones(shape), torch.ones(shape)),
        "no tile",
        "tile shape not set for add; call set_vec_tile_shapes() at the start of the kernel",
        under="a + 1.0",
        code="F21004",
        builtin=ValueError,
        fix=...,
    )
    assert error.fix == f"pypto.set_vec_tile_shapes({entries})"


# --- rebound parameters --------------------------------------------------------------------------

REBOUND = (
    "output parameter `out` is rebound to a value that nothing reads: rebinding the name does not "
    "write the tensor; use `out[:] = …`"
)


def rebound_refused(kernel, mark):
    refused(
        lambda: kernel(ramp(), blank()),
        mark,
        REBOUND,
        under="out",
        code="F00002",
        builtin=ValueError,
        fix="out[:] = …",
    )


def test_an_output_rebound_after_it_was_written():
    @pypto.jit
    def computed(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a
        out = a * 2.0  # <- computed

    @pypto.jit
    def alias(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a
        out = a  # <- alias

    @pypto.jit
    def augmented(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = pypto.exp(a)
        out /= a.sum(-1, keepdim=True)  # <- augmented

    @pypto.jit
    def swapped(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0
        a, out = out, a  # <- swapped
        a = a + 1.0

    for kernel, mark in ((computed, "computed"), (alias, "alias"), (augmented, "augmented")):
        rebound_refused(kernel, mark)
    rebound_refused(swapped, "swapped")


def test_a_parameter_may_be_rebound_for_reading():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for _ in range(2):
            out[:] = a + 1.0
            a, b = (a + out), a
        kept = out
        out = a - b
        kept[:] = out
        for _ in pypto.loop(1):
            out = out + 1.0
            later = lambda: out  # noqa: B023
        kept[:] = later()

    out = blank()
    kernel(ramp(), out)
    assert torch.equal(out, 2 * ramp() + 3)


def test_an_input_bound_to_what_nothing_uses_warns():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a
        a = a * 2.0

    text = "`a` is bound to a value that nothing uses; binding the name of a parameter does not"
    with pytest.warns(pypto.error.PyptoWarning, match=text):
        kernel(ramp(), blank())
