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
        fix="`n = t[0]` with an integer tensor, then `pypto.loop(n)`",
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


# --- names ---------------------------------------------------------------------------------------


def test_a_name_without_a_value_hides_nothing():
    def helper(a):
        later = a
        return latr * later  # <- helper  # noqa: F821

    @pypto.jit
    def kernel(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * scale + no_such_function(a)  # <- globals  # noqa: F821
        for i in pypto.loop(TRIPS):  # <- bound  # noqa: F821
            total += a  # <- augmented  # noqa: F821
            out[:] = before + math.sqrt(2.0)  # <- local  # noqa: F821
            before = a.sum(4)  # <- axis
        if n[0] > 9:
            once = a
        out[:] = once + helper(a)
        if out is a:
            never = 1
        out[:] = a * never  # <- never
        with no_such_setting():  # <- with  # noqa: F821
            out[:] = a.sum(5)  # <- behind

    def mark(line):
        return line.partition("  #")[0]

    found = told_in_full(kernel, ramp(), ints(1), blank())
    assert [(mark(m), under(f)) for m, f in found if isinstance(f, NameError)] == [
        ("helper", "latr"),
        ("globals", "scale"),
        ("globals", "no_such_function"),
        ("bound", "TRIPS"),
        ("augmented", "total"),
        ("local", "before"),
        ("local", "math"),
        ("never", "never"),
        ("with", "no_such_setting"),
    ]
    assert [mark(m) for m, f in found if not isinstance(f, NameError)] == ["axis", "behind"]
    texts = {under(f): (f.text, f.fix) for _, f in found}
    assert texts["latr"] == ("name 'latr' is not defined; did you mean `later`?", "later")
    assert texts["TRIPS"] == (
        "name 'TRIPS' is not defined",
        "bind `TRIPS` before this line, or import it",
    )
    assert texts["total"] == (
        "cannot access local variable 'total' where it is not associated with a value",
        "bind the name before it is read; before a `pypto.loop` if a later trip reads it",
    )


def test_a_failed_value_that_the_first_trip_binds_is_bound_on_the_others():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in pypto.loop(4):
            if pypto.is_loop_begin(i):
                total = a.sum(4)  # <- first trip
            else:
                total = total + a
            out[:] = total

    assert told(kernel) == ["first trip"]


def test_names_that_get_a_value_in_time_are_no_mistake():
    def late():
        return number + SHIFT  # noqa: F821

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)

        class Local:
            factor = 2.0
            twice = factor * 1.0

        for k in range(2):
            if k:
                out[:] = (first + late()) * Local.twice
            else:
                first = a
        try:
            out[:] = not_there  # noqa: F821
        except NameError:
            out[:] = out + sum([j for j in range(3)])
        try:
            missing += 1  # noqa: F821
        except UnboundLocalError:
            missing = 1.0
        del first
        first = out * missing
        out[:] = first

    number = 1.0
    globals()["SHIFT"] = 2.0
    try:
        out = blank()
        kernel(ramp(), out)
    finally:
        del globals()["SHIFT"]
    assert torch.equal(out, (ramp() + 3) * 2 + 3)
