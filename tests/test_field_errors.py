"""Refusals and warnings: what users of tile kernels got wrong, and the message that helps them.

In: one mistake a kernel. Out: the class, the code, the words and the line of the one finding. The
line is the one that ends with the row's marker comment; words are sought in the sentence and its
way out, not in the quoted source. Over 600 lines: one mistake after the other, nothing else, and
the messages are best compared side by side.
"""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from exact_errors import line_of, refused

import pypto

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = pypto.Tensor([], pypto.DT_FP32)
F16 = pypto.Tensor([], pypto.DT_FP16)
I32 = pypto.Tensor([], pypto.DT_INT32)
I8 = pypto.Tensor([], pypto.DT_INT8)
U8 = pypto.Tensor([], pypto.DT_UINT8)
BOOL = pypto.Tensor([], pypto.DT_BOOL)
ROWS = pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32)
GUARD = -7.0
HERE = Path(__file__)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def guarded(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, GUARD).to(dtype)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def warned(call, mark, text, *, category):
    """The one warning of that category that `call` must give, at the marked line of this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    found = [(w.filename, w.lineno, str(w.message)) for w in caught if w.category is category]
    assert found == [(__file__, line_of(__file__, mark), text)]


# --- Loops, names, control flow ------------------------------------------------------------------


def test_rebound_output_parameter_A1():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 16)
        y = x + 1.0  # <- A1

    x, y = zeros(8, 8), guarded(8, 8)
    refused(
        lambda: kernel(x, y),
        "A1",
        "output parameter `y` is never written: rebinding the name does not write the tensor; "
        "use `y[:] = …`",
        under="y",
        code="F00002",
        builtin=ValueError,
        fix="y[:] = …",
    )
    assert torch.equal(y, guarded(8, 8))


def test_carried_counter_is_noted_for_other_front_ends_A2():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        count = 0
        for i in pypto.loop(20):  # <- A2
            count = count + 1
        pypto.assemble(x + 1.0, [count - 1, 0], out)

    out = guarded(20, 8)
    warned(
        lambda: kernel(zeros(1, 8), out),
        "A2",
        "`count` is counted on from trip to trip; older front ends leave it as it was after the "
        "first",
        category=pypto.error.PortabilityNote,
    )
    assert torch.equal(out, torch.cat([guarded(19, 8), torch.ones(1, 8)]))


def test_break_in_a_dynamic_loop_A7():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(4):
            out[i : i + 1, :] = x[i : i + 1, :] + 1.0
            if i == 2:
                break  # <- A7 break

    out = guarded(4, 8)
    refused(
        lambda: kernel(zeros(4, 8), out),
        "A7 break",
        "break is not supported in pypto.loop",
        under="break",
        code="F0FFFF",
        builtin=SyntaxError,
        kind=pypto.error.PyptoGeneralError,
        fix="guard the rest of the body with `if`, or loop over a Python range",
    )
    assert torch.equal(out, guarded(4, 8))


def test_continue_in_a_dynamic_loop_A7():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(4):
            if i == 2:
                continue  # <- A7 continue
            out[i : i + 1, :] = x[i : i + 1, :] + 1.0

    out = guarded(4, 8)
    refused(
        lambda: kernel(zeros(4, 8), out),
        "A7 continue",
        "continue is not supported in pypto.loop",
        under="continue",
        code="F0FFFF",
        builtin=SyntaxError,
        kind=pypto.error.PyptoGeneralError,
        fix="guard the rest of the body with `if`, or loop over a Python range",
    )
    assert torch.equal(out, guarded(4, 8))


def test_name_with_two_types_is_an_error_at_its_use_A10():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(2):
            if i == 0:
                t = x + 1.0
            else:
                t = 3
            out[:] = t + 1.0  # <- A10

    refused(
        lambda: kernel(zeros(8, 8), guarded(8, 8)),
        "A10",
        "Conflicted var t: `t` has different types in the two branches (Tensor[8,8] / int)",
        under="t + 1.0",
        code="F00001",
        builtin=TypeError,
        fix="bind `t` to the same kind of value on every path, or use two names",
    )


def test_name_read_after_a_loop_that_may_not_run_is_warned_of_A14():
    @pypto.frontend.jit
    def kernel(x: ROWS, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(x.shape[0]):  # <- A14 loop
            t = x[i : i + 1, :] + 1.0
        out[:] = t  # <- A14

    x = torch.arange(24, dtype=torch.float32).reshape(3, 8)
    out = guarded(1, 8)
    warned(
        lambda: kernel(x, out),
        "A14",
        "`t` is read behind a loop that may run no time, which would leave it unbound; bind `t` "
        "before the loop",
        category=pypto.error.PyptoWarning,
    )
    assert torch.equal(out, x[2:] + 1)
    out = guarded(1, 8)
    refused(
        lambda: kernel(zeros(0, 8), out),
        "A14",
        "name 't' is not bound: no path that ran has bound `t`",
        under="out[:]",
        code="F00004",
        builtin=NameError,
        fix="bind `t` before the loop or in both arms of the branch",
    )
    assert torch.equal(out, guarded(1, 8))


def test_loop_bound_that_is_a_tensor_A19():
    @pypto.frontend.jit
    def kernel(q_cur: I32, q_off: I32, out: F32):
        pypto.set_vec_tile_shapes(16)
        n = pypto.sub(q_cur, q_off)
        for i in pypto.loop(n):  # <- A19
            out[i : i + 1] = out[i : i + 1] + 1.0

    refused(
        lambda: kernel(ints(*[3] * 8), ints(*[1] * 8), guarded(8)),
        "A19",
        "Invalid value type: a loop bound must be int or symbolic scalar, got a Tensor; read an "
        "element: `t[0]`",
        under="pypto.loop(n)",
        code="F21004",
        builtin=ValueError,
        fix="`n = t[0]` with an integer tensor, then `pypto.loop(n)`",
    )


def test_with_cond_is_refused_in_words_A22():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for g in pypto.loop(2):
            with pypto.cond(g == 0):  # <- A22
                out[:] = x + 1.0

    refused(
        lambda: kernel(zeros(8, 8), guarded(8, 8)),
        "A22",
        "`with` takes a context manager, got SymbolicScalar; a condition belongs to `if`",
        under="pypto.cond(g == 0)",
        code="F00001",
        builtin=TypeError,
        fix="write `if pypto.cond(i == 0):`",
    )


def test_buffer_shared_by_parallel_batches_is_noted_A25(monkeypatch):
    # The sanitizer of races, which the tests have on, refuses what this row runs in order.
    monkeypatch.setenv("PYPTO_SANITIZE", "0")

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 8, 8)
        h = pypto.Tensor([1, 8, 8], pypto.DT_FP32)
        for b in pypto.loop(3, parallel=True):  # <- A25
            for t in pypto.loop(2):
                if pypto.is_loop_begin(t):
                    h[:] = x[b : b + 1, :, :] * 1.0
                else:
                    h[:] = h * 2.0
            out[b : b + 1, :, :] = h + 1.0

    x, out = torch.arange(192, dtype=torch.float32).reshape(3, 8, 8), guarded(3, 8, 8)
    warned(
        lambda: kernel(x, out),
        "A25",
        "`h` is shared across parallel outer iterations; they run in order here; make it inside "
        "the body",
        category=pypto.error.PyptoNote,
    )
    assert torch.equal(out, x * 2 + 1)


def test_local_that_is_read_but_never_written_A26():
    @pypto.frontend.jit
    def kernel(x: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        t = pypto.tensor((1,), pypto.DT_INT32, "t")
        for i in pypto.loop(n[0]):
            _ = t[0]  # <- A26
            out[:] = x + 1.0

    refused(
        lambda: kernel(zeros(8, 8), ints(2), guarded(8, 8)),
        "A26",
        "`t` is read but never written before: its elements hold no value",
        under="t[0]",
        code="F40000",
        builtin=ValueError,
        fix="fill it first: `t[:] = pypto.zeros(…)`, `t.fill_(0)`, or write the part that is read",
    )


def test_assertion_on_a_static_extent_A28():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        assert x.shape[0] == 4, "four rows, please"  # <- A28
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    out = guarded(8, 8)
    refused(
        lambda: kernel(zeros(8, 8), out),
        "A28",
        "assertion failed: four rows, please",
        under="x.shape[0] == 4",
        code="F0FFFF",
        builtin=AssertionError,
        fix=None,
    )
    assert torch.equal(out, guarded(8, 8))
    out = guarded(4, 8)
    kernel(zeros(4, 8), out)
    assert torch.equal(out, torch.ones(4, 8))


# --- Views, tails, valid extents, aliases --------------------------------------------------------


def test_use_after_full_assignment_is_noted_for_other_front_ends_B2():
    @pypto.frontend.jit
    def kernel(s: F32, upd: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        m = pypto.amax(s, -1, True)
        upd[:] = m
        out[:] = s - m  # <- B2

    s = torch.arange(128, dtype=torch.float32).reshape(8, 16)
    upd, out = guarded(8, 1), guarded(8, 16)
    warned(
        lambda: kernel(s, upd, out),
        "B2",
        "a tensor is used after `[:] =` gave its value to another; older front ends leave it "
        "empty; write `t.clone()` there",
        category=pypto.error.PortabilityNote,
    )
    assert torch.equal(upd, s.amax(-1, keepdim=True))
    assert torch.equal(out, s - s.amax(-1, keepdim=True))


def test_view_with_too_few_extents_B7():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(2):
            tile = pypto.view(x, [8, 8], [i, 0, 0, 0])  # <- B7
            out[:] = tile + 1.0

    refused(
        lambda: kernel(zeros(2, 3, 8, 8), guarded(8, 8)),
        "B7",
        "view: shape has 2 dims, offsets 4, input 4. Their size actually are 4 and 2",
        under="pypto.view(x, [8, 8], [i, 0, 0, 0])",
        code="F21004",
        builtin=ValueError,
        fix=(
            "take a view of rank 4, `pypto.view(t, [1, 1, 8, 8], […])`, and reshape it to [8, "
            "8]; or reshape the input first"
        ),
    )


def test_view_with_a_symbolic_extent_B8():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(1, 4):
            tile = pypto.view(x, [i, 16], [0, 0])  # <- B8
            pypto.assemble(tile + 1.0, [0, 0], out)

    refused(
        lambda: kernel(zeros(16, 16), guarded(16, 16)),
        "B8",
        "Not concrete value: view shape must be int; `i` is symbolic: put it in offsets or "
        "valid_shape",
        under="pypto.view(x, [i, 16], [0, 0])",
        code="F21004",
        builtin=ValueError,
        fix="pypto.view(x, [3, 16], [0, 0], valid_shape=[i, 16])",
    )


def test_tall_tile_assembled_into_one_row_B10():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.assemble(x + 1.0, [0, 0], out)  # <- B10

    whole = guarded(17, 16)
    refused(
        lambda: kernel(zeros(16, 16), whole[:1]),
        "B10",
        "assemble writes rows 0..15 of a 1-row tensor; give valid_shape=[1, 16]",
        under="pypto.assemble(x + 1.0, [0, 0], out)",
        code="F00008",
        builtin=IndexError,
        fix="limit the source: `pypto.view(t, [16, 16], …, valid_shape=[1, 16])`",
    )
    assert torch.equal(whole, guarded(17, 16))


def test_assemble_of_another_dtype_B19():
    @pypto.frontend.jit
    def kernel(x: F16, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.assemble(x + 1.0, [0, 0], out)  # <- B19

    out = guarded(8, 16)
    refused(
        lambda: kernel(zeros(8, 16, dtype=torch.float16), out),
        "B19",
        "Assemble: src and dest requires same dtype: dtype mismatch DT_FP16 → DT_FP32; cast first",
        under="pypto.assemble(x + 1.0, [0, 0], out)",
        code="F00002",
        builtin=ValueError,
        fix="pypto.assemble(pypto.cast(x + 1.0, pypto.DT_FP32), [0, 0], out)",
    )
    assert torch.equal(out, guarded(8, 16))


def test_assemble_of_another_rank_B20():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        for i in pypto.loop(2):
            row = x[i : i + 1, :] * 2.0
            pypto.assemble(row, [i, 0, 0], out)  # <- B20

    refused(
        lambda: kernel(zeros(2, 16), guarded(2, 1, 16)),
        "B20",
        "Assemble: src and dest requires same shape size: rank 2 vs 3",
        under="pypto.assemble(row, [i, 0, 0], out)",
        code="F00002",
        builtin=ValueError,
        fix="reshape to [1,1,16]: t.reshape([1,1,16])",
    )


def test_reshape_to_a_symbolic_extent_B22():
    @pypto.frontend.jit
    def kernel(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(16)
        flat = pypto.reshape(a, [a.shape[0] * a.shape[1]])  # <- B22
        out[:] = flat[0:8]

    error = refused(
        lambda: kernel(zeros(4, 8), guarded(8)),
        "B22",
        "reshape() requires integer shape when using non-inplace reshape, but got "
        "[SymbolicScalar]. Use 'inplace=True' for dynamic shapes.",
        under="pypto.reshape(a, [a.shape[0] * a.shape[1]])",
        code="F00001",
        builtin=TypeError,
        fix="`pypto.reshape(t, shape, inplace=True)`, or give int extents",
    )
    text = str(error)
    assert f"{HERE.name}:{line_of(__file__, 'B22')}" in text
    assert "flat = pypto.reshape(a, [a.shape[0] * a.shape[1]])" in text
    assert re.search(r"^[ |]*\^+$", text, re.MULTILINE)


def test_in_place_reshape_of_a_view_B23():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        flat = pypto.reshape(pypto.view(x, [4, 16], [0, 0]), [8, 8], inplace=True)  # <- B23
        out[:] = flat + 1.0

    refused(
        lambda: kernel(zeros(8, 16), guarded(8, 8)),
        "B23",
        "reshape of a view needs inplace=False: a view is a snapshot, not the memory of its source",
        under="pypto.reshape(pypto.view(x, [4, 16], [0, 0]), [8, 8], inplace=True)",
        code="F00002",
        builtin=ValueError,
        fix="pypto.reshape(t, shape)",
    )


def test_three_dims_viewed_as_two_B34():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for b in pypto.loop(2):
            tile = pypto.view(x, [8, 16], [b, 0, 0])  # <- B34
            out[:] = tile + 1.0

    refused(
        lambda: kernel(zeros(2, 8, 16), guarded(8, 16)),
        "B34",
        "view: shape has 2 dims, offsets 3, input 3. Their size actually are 3 and 2",
        under="pypto.view(x, [8, 16], [b, 0, 0])",
        code="F21004",
        builtin=ValueError,
        fix=(
            "take a view of rank 3, `pypto.view(t, [1, 8, 16], […])`, and reshape it to [8, 16]; "
            "or reshape the input first"
        ),
    )


def test_transposed_torch_tensor_B35():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    out = guarded(4, 8)
    refused(
        lambda: kernel(zeros(8, 4).t(), out),  # <- B35
        "B35",
        "not all tensors are contiguous: input 0 `x` is not contiguous (strides (1, 4))",
        under="zeros(8, 4).t()",
        code="F00003",
        builtin=RuntimeError,
        fix="x = x.contiguous() before the call; what the kernel writes is in that tensor",
    )
    assert torch.equal(out, guarded(4, 8))


@pytest.mark.parametrize("name", ["eq", "ne", "gt", "ge", "lt", "le"])
def test_comparison_of_an_empty_tensor_B38(name):
    compare = getattr(pypto, name)

    @pypto.frontend.jit
    def kernel(x: F32, out: BOOL):
        pypto.set_vec_tile_shapes(16)
        out[:] = compare(x, 1.0)  # <- B38

    refused(
        lambda: kernel(zeros(0), zeros(0, dtype=torch.bool)),
        "B38",
        f"Empty tensor is not supported for op {name}, dimension[0] has shape value 0",
        under="compare(x, 1.0)",
        code="FC0000",
        builtin=ValueError,
        fix="loop over the axis with `pypto.loop`: an empty axis makes zero trips",
    )


# --- Dtypes, scalars and misused names -----------------------------------------------------------


def test_scalars_are_cut_to_the_dtype_of_the_tensor_C15():
    @pypto.frontend.jit
    def kernel(u: U8, s: I8, added: U8, product: I8, masked: I8, low: I8):
        pypto.set_vec_tile_shapes(32)
        added[:] = u + 300
        product[:] = s * 200
        masked[:] = pypto.bitwise_and(s, 511)
        low[:] = pypto.bitwise_and(s, 0x10F)

    u = torch.tensor([0, 1, 200, 255] * 8, dtype=torch.uint8)
    s = torch.tensor([1, -1, 2, -128] * 8, dtype=torch.int8)
    outs = [zeros(33, dtype=t) for t in (torch.uint8, torch.int8, torch.int8, torch.int8)]
    kernel(u, s, *(out[:32] for out in outs))
    added, product, masked, low = outs
    assert added[:4].tolist() == [44, 45, 244, 43]
    # 200 becomes −56; the products wrap again.
    assert product[:4].tolist() == [-56, 56, -112, 0]
    # 511 becomes −1, and 0x10F becomes 0x0F.
    assert masked[:4].tolist() == [1, -1, 2, -128]
    assert low[:4].tolist() == [1, 15, 2, 0]
    assert [int(out[32]) for out in outs] == [0, 0, 0, 0]


def test_negative_scalar_beside_an_unsigned_tensor_C16():
    @pypto.frontend.jit
    def kernel(c: BOOL, t: U8, out: U8):
        pypto.set_vec_tile_shapes(1, 32)
        out[:] = pypto.where(c, t, -100)  # <- C16 where

    refused(
        lambda: kernel(
            zeros(1, 32, dtype=torch.bool),
            zeros(1, 32, dtype=torch.uint8),
            zeros(1, 32, dtype=torch.uint8),
        ),
        "C16 where",
        "where(): negative scalar for unsigned DT_UINT8: -100",
        under="pypto.where(c, t, -100)",
        code="F00002",
        builtin=ValueError,
        fix="use a signed type, or the number that the bits stand for",
    )


def test_float_scalar_beside_an_fp16_tensor_C16():
    @pypto.frontend.jit
    def kernel(c: BOOL, t: F16, out: F16):
        pypto.set_vec_tile_shapes(1, 32)
        out[:] = pypto.where(c, t, 1.0)  # <- C16 fp16

    refused(
        lambda: kernel(
            zeros(1, 32, dtype=torch.bool),
            zeros(1, 32, dtype=torch.float16),
            zeros(1, 32, dtype=torch.float16),
        ),
        "C16 fp16",
        "where(): input and other data type inconsistent (DT_FP16 vs DT_FP32), use "
        "Element(DT_FP16, 1.0)",
        under="pypto.where(c, t, 1.0)",
        code="F00002",
        builtin=TypeError,
        fix="pypto.Element(pypto.DT_FP16, 1.0)",
    )


def test_element_of_the_right_dtype_beside_an_fp16_tensor_C16():
    @pypto.frontend.jit
    def kernel(c: BOOL, t: F16, out: F16):
        pypto.set_vec_tile_shapes(1, 32)
        out[:] = pypto.where(c, t, pypto.Element(pypto.DT_FP16, 1.0))

    c = (torch.arange(32) % 3 == 0).reshape(1, 32)
    t, out = torch.arange(32).reshape(1, 32).half(), guarded(1, 32, dtype=torch.float16)
    kernel(c, t, out)
    assert torch.equal(out, torch.where(c, t, torch.tensor(1.0).half()))


def test_negative_fill_of_an_unsigned_tensor_C16():
    @pypto.frontend.jit
    def kernel(out: U8):
        pypto.set_vec_tile_shapes(32)
        out[:] = pypto.full([4], -100, pypto.DT_UINT8)  # <- C16 full

    out = zeros(4, dtype=torch.uint8)
    refused(
        lambda: kernel(out),
        "C16 full",
        "full(): negative scalar for unsigned DT_UINT8: -100",
        under="pypto.full([4], -100, pypto.DT_UINT8)",
        code="F00002",
        builtin=ValueError,
        fix="use a signed type, or the number that the bits stand for",
    )
    assert out.tolist() == [0, 0, 0, 0]


def test_operators_with_scalars_on_both_sides_C22():
    @pypto.frontend.jit
    def kernel(t: F32, sub: F32, div: F32, floor: F32, mod: F32, power: F32, neg: F32, gt: BOOL):
        pypto.set_vec_tile_shapes(16)
        sub[:] = 3 - t
        div[:] = 6 / t
        floor[:] = t // 2
        mod[:] = t % 2
        power[:] = t**2
        neg[:] = -t
        gt[:] = t > 1

    t = torch.tensor([1.0, 2.0, 4.0])
    sub, div, floor, mod, power, neg = (guarded(3) for _ in range(6))
    gt = zeros(3, dtype=torch.bool)
    kernel(t, sub, div, floor, mod, power, neg, gt)
    assert sub.tolist() == [2, 1, -1]
    assert div.tolist() == [6, 3, 1.5]
    assert floor.tolist() == [0, 1, 2]
    assert mod.tolist() == [1, 0, 0]
    assert power.tolist() == [1, 4, 16]
    assert neg.tolist() == [-1, -2, -4]
    assert gt.tolist() == [False, True, True]


def test_dtype_given_as_an_extent_C24():
    @pypto.frontend.jit
    def kernel(out: F16):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.zeros([4, 8], pypto.DT_FP16)  # <- C24

    refused(
        lambda: kernel(zeros(4, 8, dtype=torch.float16)),
        "C24",
        "zeros(): dtype must be given by keyword, got DT_FP16 as an extent",
        under="pypto.zeros([4, 8], pypto.DT_FP16)",
        code="F00001",
        builtin=TypeError,
        fix="pypto.zeros([4, 8], dtype=pypto.DT_FP16)",
    )


def test_element_with_its_arguments_swapped_C25():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + pypto.Element(0.0, pypto.DT_FP32)  # <- C25 Element

    refused(
        lambda: kernel(zeros(4, 8), guarded(4, 8)),
        "C25 Element",
        "arguments swapped: Element(dtype, value), got Element(0.0, DT_FP32)",
        under="pypto.Element(0.0, pypto.DT_FP32)",
        code="F00001",
        builtin=TypeError,
        fix="pypto.Element(pypto.DT_FP32, 0.0)",
    )


def test_full_with_its_arguments_swapped_C25():
    @pypto.frontend.jit
    def kernel(out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.full([1, 8], pypto.DT_FP32, 0.0)  # <- C25 full

    refused(
        lambda: kernel(guarded(1, 8)),
        "C25 full",
        "arguments swapped: full(size, fill_value, dtype), got DT_FP32 as fill_value",
        under="pypto.full([1, 8], pypto.DT_FP32, 0.0)",
        code="F00001",
        builtin=TypeError,
        fix="pypto.full([1, 8], 0.0, pypto.DT_FP32)",
    )


def test_misspelt_keyword_gets_the_nearest_name_C27():
    @pypto.frontend.jit
    def kernel(x: F32, g: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = pypto.rms_norm(x, g, eps=1e-6)  # <- C27

    refused(
        lambda: kernel(zeros(4, 8), zeros(8), guarded(4, 8)),
        "C27",
        "rms_norm() got an unexpected keyword argument 'eps'; did you mean `epsilon`?",
        under="eps=1e-6",
        code="F00001",
        builtin=TypeError,
        fix="epsilon=1e-6",
    )


def test_transpose_with_a_permutation_C28():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        out[:] = pypto.transpose(x, [0, 2, 1])  # <- C28 transpose

    refused(
        lambda: kernel(zeros(2, 8, 16), guarded(2, 16, 8)),
        "C28 transpose",
        "transpose() missing a required argument: 'dim1'",
        under="pypto.transpose(x, [0, 2, 1])",
        code="F00001",
        builtin=TypeError,
        fix="use permute for an order of axes: `pypto.permute(t, [0, 2, 1])`",
    )


def test_topk_has_no_sorted_C28():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        values, _ = pypto.topk(x, 2, sorted=False)  # <- C28 topk
        out[:] = values

    refused(
        lambda: kernel(zeros(4, 8), guarded(4, 2)),
        "C28 topk",
        "topk() got an unexpected keyword argument 'sorted': there is no `sorted`",
        under="sorted=False",
        code="F00001",
        builtin=TypeError,
        fix="leave `sorted=` out: the call is `pypto.topk(input, k, dim=None, largest=True, "
        "algo=pypto.TopKAlgo.MERGE_SORT)`",
    )


def test_numpy_int_serves_as_an_extent_C30():
    four, eight = np.int64(4), np.int32(8)

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(np.int64(16), 16)
        tile = pypto.view(x, [four, eight], [np.int64(2), 0])
        flat = pypto.reshape(tile, [eight, four])
        out[:] = flat + pypto.full([eight, four], 1.0, pypto.DT_FP32)

    x, out = torch.arange(64, dtype=torch.float32).reshape(8, 8), guarded(8, 4)
    kernel(x, out)
    assert torch.equal(out, x[2:6].reshape(8, 4) + 1)


def test_dynamic_and_fixed_axis_in_one_operation_C36():
    @pypto.frontend.jit
    def kernel(
        x: pypto.Tensor([pypto.DYNAMIC, 8], pypto.DT_FP32),
        y: pypto.Tensor([16, 8], pypto.DT_FP32),
        out: F32,
    ):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + y  # <- C36

    refused(
        lambda: kernel(zeros(16, 8), zeros(16, 8), guarded(16, 8)),
        "C36",
        "add(): Dynamic shape tensors are not allowed as operation operands. Use view in "
        "pypto.loop to get static shape tensors before computation. Got Tensor[x_dim0, 8] "
        "DT_FP32; the same axis declared DYNAMIC and 16; declare alike",
        under="x + y",
        code="F0000A",
        builtin=ValueError,
        fix=(
            "declare the axis 16 in both, or compute on `pypto.view(t, [64, 8], [i * 64, 0])` "
            "inside a `pypto.loop` over i"
        ),
    )


def test_declared_nz_but_given_nd_C37():
    @pypto.frontend.jit
    def kernel(
        w: pypto.Tensor([], pypto.DT_INT8, format=pypto.TileOpFormat.TILEOP_NZ),
        out: I8,
    ):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = w

    out = zeros(16, 32, dtype=torch.int8)
    refused(
        lambda: kernel(torch.ones(16, 32, dtype=torch.int8), out),  # <- C37
        "C37",
        "The format of 1st input tensor ND does not match the input tensor definition: format NZ "
        "declared, ND tensor given (`w`)",
        under="torch.ones(16, 32, dtype=torch.int8)",
        code="F00002",
        builtin=ValueError,
        fix="declare the parameter without format",
    )
    assert not out.any()


def undecorated(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 16)
    out[:] = x + 1.0


@pytest.mark.parametrize(
    ("call", "op", "under"),
    [
        (lambda: pypto.full([4, 8], 0.0, DT), "full", "pypto.full([4, 8], 0.0, DT)"),
        (lambda: pypto.exp(P([4, 8], DT)), "exp", "pypto.exp(P([4, 8], DT))"),
        (lambda: undecorated(P([4, 8], DT), P([4, 8], DT)), "add", "x + 1.0"),
        (lambda: undecorated(*map(pypto.from_torch, zeros(2, 4, 8))), "add", "x + 1.0"),
    ],
    ids=["full", "exp", "undecorated", "from_torch"],
)
def test_ops_need_a_decorated_kernel_C39(call, op, under):
    # Outside of a kernel a setter holds for the host, and so for every later test.
    with pypto.options(), pytest.raises(pypto.error.FeError) as caught:
        call()
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert error.code == "F21003"
    assert error.text == f"pypto.{op} is not inside a @pypto.frontend.jit kernel"
    assert error.fix == "decorate the function with `@pypto.frontend.jit` and call that"
    assert error.loc.file == __file__
    line = HERE.read_text().splitlines()[error.loc.line - 1]
    assert line[error.loc.column - 1 : error.loc.end_column - 1] == under


def test_from_torch_results_are_accepted_as_arguments_C40():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    x, whole = torch.arange(32, dtype=torch.float32).reshape(4, 8), guarded(6, 8)
    kernel(pypto.from_torch(x), pypto.from_torch(whole[1:5]))
    assert torch.equal(whole, torch.cat([guarded(1, 8), x + 1, guarded(1, 8)]))
