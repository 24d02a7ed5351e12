"""Checks that can come only when a kernel has been read to its end are told with all others.

In: kernels without tile shapes, with unwritten tensors, with outputs that are bound instead of
written; and one kernel with a mistake of every kind.  Out: everything in one run, by line, and
nothing of what a failed op may have been meant to do.
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


def test_an_input_rebound_to_what_failed_is_no_output():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        a = undefined  # <- name  # noqa: F821
        out[:] = a + 1.0

    ((_, found),) = told_in_full(kernel)
    assert found.text == "name 'undefined' is not defined"


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


# --- extents -------------------------------------------------------------------------------------


def test_setting_an_extent_is_refused():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        a.shape[0] = 8  # <- shape
        out.valid_shape[1] -= 8  # <- valid
        out[:] = a.sum(4)  # <- behind

    shape, valid, _ = told_in_full(kernel)
    assert [(mark, under(f), f.builtin, f.code, f.text, f.fix) for mark, f in (shape, valid)] == [
        (
            "shape",
            "a.shape[0]",
            "TypeError",
            "F00001",
            "the extents of a tensor are fixed: `a.shape` gives a fresh list, and setting an entry "
            "of it changes no tensor; to compute another shape, bind it first: shape = a.shape",
            "pypto.reshape(a, […]), or a part of it, pypto.view(a, […], […])",
        ),
        (
            "valid",
            "out.valid_shape[1]",
            "TypeError",
            "F00001",
            "the extents of a tensor are fixed: `out.valid_shape` gives a fresh list, and setting "
            "an entry of it changes no tensor",
            "pypto.view(out, out.shape, […], valid_shape=[…])",
        ),
    ]


def test_a_shape_of_ones_own_may_be_computed():
    class Plan:
        shape = [1, 2]

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        shape = a.shape
        shape[0] = 8
        plan = Plan()
        plan.shape = shape
        plan.shape[1] = 16
        out[0:8, 0:16] = pypto.view(a, plan.shape, [0, 0])

    out = blank()
    kernel(ramp(), out)
    assert torch.equal(out[:8, :16], ramp()[:8, :16])


# --- all together --------------------------------------------------------------------------------


def test_thirteen_mistakes_of_thirteen_kinds_are_told_in_one_run():
    @pypto.jit
    def attention(q: ROWS, n: I32, out: F32, lse: F32):
        scores = pypto.tensor([16, 16], DT)
        rows = []
        for b in pypto.loop(q.shape[0] / 16.0):  # <- float bound
            tile = pypto.view(q, [16, 32], [b * 16, 0])
            product = pypto.matmul(tile, tile, DT, b_trans=True)  # <- no cube tile
            largest = product.amax(1, keepdims=True)  # <- keyword
            weights = pypto.exp(product)  # <- no vec tile
            weights = weights / scores  # <- unwritten
            weights = weights * SCALE  # <- undefined  # noqa: F821
            rows.append(weights.sum(-1, keepdim=True))  # <- list
            if b > n[0]:
                break  # <- break
            q.shape[0] = 16  # <- extent
            total += largest  # <- unbound  # noqa: F821
            pypto.assemble(tile.T, [b * 16, 0], out)  # <- attribute
        out[0:16] = 0.0  # <- number
        lse = pypto.concat(rows, 0)  # <- rebound

    found = told_in_full(attention, ramp(32), ints(1), blank(), blank())
    assert [(m.partition("  #")[0], f.builtin, under(f)) for m, f in found] == [
        ("float bound", "TypeError", "q.shape[0] / 16.0"),
        ("no cube tile", "ValueError", "pypto.matmul(tile, tile, DT, b_trans=True)"),
        ("keyword", "TypeError", "keepdims=True"),
        ("no vec tile", "ValueError", "pypto.exp(product)"),
        ("unwritten", "ValueError", "weights / scores"),
        ("undefined", "NameError", "SCALE"),
        ("list", "TypeError", "rows.append(weights.sum(-1, keepdim=True))"),
        ("break", "SyntaxError", "break"),
        ("extent", "TypeError", "q.shape[0]"),
        ("unbound", "NameError", "total"),
        ("attribute", "AttributeError", "tile.T"),
        ("number", "TypeError", "out[0:16]"),
        ("rebound", "ValueError", "lse"),
    ]
