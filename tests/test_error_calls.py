"""Mistakes in calls of kernels, each with its exact error.

In: one wrong call, or a call with several faults.  Out: class, code, sentence, way out, the line,
and the argument that is underlined there.
"""

import functools

import numpy as np
import pytest
import torch
from exact_errors import blank, ramp, refused

import pypto

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)


@pypto.jit
def kernel(a: F32, out: F32, scale: float = 1.0):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * scale


@pypto.jit
def fixed(a: P([16, 32], DT), out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + 1.0


@pypto.jit
def needs_a_number(a: F32, out: F32, count: int):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * count


def findings(call):
    """All that a call is answered with."""
    with pytest.raises(pypto.error.PyptoError) as caught:
        call()
    return caught.value.findings


def test_too_few_tensors_E4():
    refused(
        lambda: kernel(ramp()),  # <- E4
        "E4",
        "Expected at least 2 tensor argument(s), got 1.",
        under="kernel(ramp())",
        code="F00003",
        builtin=RuntimeError,
        fix="kernel(a, out)",
    )


def test_too_many_arguments_E5():
    refused(
        lambda: kernel(ramp(), blank(), 1.0, 2.0),  # <- E5
        "E5",
        "Too many positional arguments: expected 2 tensor(s) and up to 1 non-tensor(s), got 4 "
        "total.",
        under="2.0",
        code="F00003",
        builtin=RuntimeError,
        fix="kernel(a, out, scale)",
    )


def test_unknown_keyword_E6():
    refused(
        lambda: kernel(ramp(), blank(), scala=2.0),  # <- E6
        "E6",
        "Unknown keyword argument(s): ['scala']. Valid non-tensor parameters: ['scale']; did you "
        "mean 'scale'?",
        under="scala=2.0",
        code="F00003",
        builtin=RuntimeError,
        fix="kernel(a, out, scale=…)",
    )


def test_missing_number_E7():
    refused(
        lambda: needs_a_number(ramp(), blank()),  # <- E7
        "E7",
        "Missing required non-tensor argument 'count'.",
        under="needs_a_number(ramp(), blank())",
        code="F00003",
        builtin=RuntimeError,
        fix="needs_a_number(a, out, count=…)",
    )


def test_tensor_in_place_of_a_number_E8():
    refused(
        lambda: kernel(ramp(), blank(), torch.ones(1)),  # <- E8
        "E8",
        "Non-tensor parameter 'scale' must not be a torch.Tensor. Use positional arguments for "
        "tensors.",
        under="torch.ones(1)",
        code="F00003",
        builtin=RuntimeError,
        fix="annotate it: scale: pypto.Tensor([], pypto.DT_FP32)",
    )


def test_list_in_place_of_a_tensor_E9():
    refused(
        lambda: kernel([1.0, 2.0], blank()),  # <- E9
        "E9",
        "Input 1 (index 0) must be a torch.Tensor or a NumPy array, got <class 'list'> for `a`",
        under="[1.0, 2.0]",
        code="F00003",
        builtin=RuntimeError,
        fix="a = torch.tensor(a)",
    )


def test_tensor_that_is_not_contiguous_E10():
    refused(
        lambda: kernel(ramp().t(), blank(32, 16)),  # <- E10
        "E10",
        "not all tensors are contiguous: input 0 `a` is not contiguous (strides (1, 32))",
        under="ramp().t()",
        code="F00003",
        builtin=RuntimeError,
        fix="a = a.contiguous() before the call; what the kernel writes is in that tensor",
    )


def test_rank_of_an_argument_E11():
    refused(
        lambda: fixed(ramp().reshape(2, 8, 32), blank()),  # <- E11 rank
        "E11 rank",
        "The number of dimensions of 1st input tensor [2, 8, 32] does not match the number of "
        "dimensions of input tensor definition [16, 32] (`a`).",
        under="ramp().reshape(2, 8, 32)",
        code="F00002",
        builtin=ValueError,
        fix="reshape the argument to 2 dim(s), or declare a: pypto.Tensor([], pypto.DT_FP32)",
    )


def test_extent_of_an_argument_E11():
    refused(
        lambda: fixed(ramp(16, 33), blank()),  # <- E11 extent
        "E11 extent",
        "The shape of 1st input tensor [16, 33] does not match the shape of input tensor "
        "definition [16, 32]: axis 1 of `a` is 33, declared 32.",
        under="ramp(16, 33)",
        code="F00002",
        builtin=ValueError,
        fix="pass a tensor of that shape, or declare a: pypto.Tensor([16, pypto.STATIC], "
        "pypto.DT_FP32)",
    )


def test_dtype_of_an_argument_E11():
    refused(
        lambda: kernel(ramp().half(), blank()),  # <- E11 dtype
        "E11 dtype",
        "The dtype of 1st input tensor DT_FP16 does not match the dtype of input tensor definition "
        "DT_FP32 (`a`).",
        under="ramp().half()",
        code="F00002",
        builtin=ValueError,
        fix="convert the argument, or declare a: pypto.Tensor([], pypto.DT_FP16)",
    )


def test_dtype_that_the_language_does_not_have_E12():
    complex_numbers = torch.ones(4, dtype=torch.complex64)
    refused(
        lambda: kernel(complex_numbers, blank()),  # <- E12
        "E12",
        "Input torch.dtype is not supported. Got torch.complex64",
        under="complex_numbers",
        code="F00002",
        builtin=ValueError,
        fix="convert it: `x.to(torch.float32)`",
    )


def test_kernel_called_by_code_that_the_front_end_does_not_see_E47():
    calls = []

    class Called:
        def __index__(self):
            calls.append(1)
            kernel(ramp(), blank())  # <- E47
            return 1

    @pypto.jit
    def outer(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        n = [0, 1][Called()]
        out[:] = a * n

    with pytest.raises(pypto.error.FeError) as caught:
        outer(ramp(), blank())
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert error.code == "F00003"
    assert "is called while another kernel is traced" in error.text
    assert np.sum(calls) == 1


# --- several faults of one call ------------------------------------------------------------------


@pypto.jit
def picky(a: P([16, 32], pypto.DT_FP16), b: P([16, 32], DT), out: F32, count: int, *, s: int = 2):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = b * count * s


def shown(finding):
    """What a finding says: class, the first words, what is underlined."""
    loc = finding.loc
    assert loc.file == __file__
    return finding.builtin, finding.text, loc.text[loc.column - 1 : loc.end_column - 1]


def test_faults_of_several_arguments_are_told_together():
    told = findings(
        lambda: picky(
            ramp(),
            ramp().reshape(2, 8, 32),
            blank(),
            cuont=3,
        )
    )
    assert [shown(f) for f in told] == [
        (
            "RuntimeError",
            "Missing required non-tensor argument 'count'.",
            "picky(",
        ),
        (
            "ValueError",
            "The dtype of 1st input tensor DT_FP32 does not match the dtype of input tensor "
            "definition DT_FP16 (`a`).",
            "ramp()",
        ),
        (
            "ValueError",
            "The number of dimensions of 2nd input tensor [2, 8, 32] does not match the number of "
            "dimensions of input tensor definition [16, 32] (`b`).",
            "ramp().reshape(2, 8, 32)",
        ),
        (
            "RuntimeError",
            "Unknown keyword argument(s): ['cuont']. Valid non-tensor parameters: ['count', 's']; "
            "did you mean 'count'?",
            "cuont=3",
        ),
    ]
    assert [f.code for f in told] == ["F00003", "F00002", "F00002", "F00003"]
    assert [f.fix for f in told] == [
        "picky(a, b, out, count=…)",
        "convert the argument, or declare a: pypto.Tensor([16, 32], pypto.DT_FP32)",
        "reshape the argument to 2 dim(s), or declare b: pypto.Tensor([], pypto.DT_FP32)",
        "picky(a, b, out, count=…)",
    ]


def test_faults_of_one_argument_are_told_together():
    told = findings(lambda: picky(ramp(16, 31), ramp(15, 33), blank(), 3))
    assert [shown(f) for f in told] == [
        (
            "ValueError",
            "The dtype of 1st input tensor DT_FP32 does not match the dtype of input tensor "
            "definition DT_FP16 (`a`).",
            "ramp(16, 31)",
        ),
        (
            "ValueError",
            "The shape of 1st input tensor [16, 31] does not match the shape of input tensor "
            "definition [16, 32]: axis 1 of `a` is 31, declared 32.",
            "ramp(16, 31)",
        ),
        (
            "ValueError",
            "The shape of 2nd input tensor [15, 33] does not match the shape of input tensor "
            "definition [16, 32]: axis 0 of `b` is 15, declared 16; axis 1 of `b` is 33, declared "
            "32.",
            "ramp(15, 33)",
        ),
    ]
    assert told[2].fix == (
        "pass a tensor of that shape, or declare b: pypto.Tensor([pypto.STATIC, pypto.STATIC], "
        "pypto.DT_FP32)"
    )


def test_memory_and_declaration_are_told_together():
    told = findings(lambda: fixed(ramp(32, 15).t(), [1.0]))
    assert [shown(f)[1:] for f in told] == [
        (
            "The shape of 1st input tensor [15, 32] does not match the shape of input tensor "
            "definition [16, 32]: axis 0 of `a` is 15, declared 16.",
            "ramp(32, 15).t()",
        ),
        (
            "not all tensors are contiguous: input 0 `a` is not contiguous (strides (1, 15))",
            "ramp(32, 15).t()",
        ),
        (
            "Input 2 (index 1) must be a torch.Tensor or a NumPy array, got <class 'list'> for "
            "`out`",
            "[1.0]",
        ),
    ]


def test_with_too_few_tensors_nothing_is_said_of_their_kinds():
    told = findings(lambda: picky(ramp(), blank(), s=3, t=4))
    assert [shown(f)[1:] for f in told] == [
        (
            "Expected at least 3 tensor argument(s), got 2.",
            "picky(ramp(), blank(), s=3, t=4)",
        ),
        (
            "Unknown keyword argument(s): ['t']. Valid non-tensor parameters: ['count', 's'].",
            "t=4",
        ),
    ]
    assert [f.fix for f in told] == ["picky(a, b, out, count=…)", "picky(a, b, out, count=…, s=…)"]


def test_tensors_by_keyword():
    told = findings(lambda: kernel(ramp(), out=blank(), scal=2.0))
    assert [shown(f)[1:] for f in told] == [
        (
            "Expected at least 2 tensor argument(s), got 1. Tensors are passed by position; "
            "['out'] came by name.",
            "kernel(ramp(), out=blank(), scal=2.0)",
        ),
        (
            "Unknown keyword argument(s): ['scal']. Valid non-tensor parameters: ['scale']; did "
            "you mean 'scale'?",
            "scal=2.0",
        ),
    ]


def test_written_arguments_that_may_not_be_written_are_told_together():
    @pypto.jit
    def both(a: F32, x: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 32)
        x[:] = a + 1.0
        y[:] = a + 2.0

    frozen = blank().numpy()
    frozen.flags.writeable = False
    shared = blank().requires_grad_()
    told = findings(lambda: both(ramp(), frozen, shared))
    assert [shown(f) for f in told] == [
        (
            "ValueError",
            "Input 2 (index 1) `x` is written by the kernel, but its memory is read-only",
            "frozen",
        ),
        (
            "RuntimeError",
            "Input 3 (index 2) `y` is written by the kernel, but requires grad: autograd would not "
            "see the write",
            "shared",
        ),
    ]
    assert told[0].fix == "pass a copy: x.copy()"
    x = blank()
    told = findings(lambda: both(ramp(), x, x))
    assert [shown(f)[1:] for f in told] == [
        (
            "Input 2 (index 1) `x` is written by the kernel and shares memory with Input 3 (index "
            "2) `y`",
            "x",
        )
    ]
    assert torch.equal(x, blank())


def test_one_symbol_with_two_sizes():
    n = pypto.symbolic_scalar("n")

    @pypto.jit
    def pair(a: P([n, 32], DT), b: P([n, 32], DT), out: F32):
        out[:] = out

    refused(
        lambda: pair(ramp(4), ramp(5), blank()),  # <- symbol
        "symbol",
        "Symbolic scalar n has multiple concrete values: 4 in `a` and 5 in `b` (axis 0)",
        under="ramp(5)",
        code="F00002",
        builtin=ValueError,
        fix="pass tensors of one size there, or declare the two dims with two symbols",
    )


# --- where the text of the call does not show the argument ---------------------------------------


def test_argument_behind_a_star():
    args = (ramp().half(), blank())
    refused(
        lambda: kernel(*args),  # <- star
        "star",
        "The dtype of 1st input tensor DT_FP16 does not match the dtype of input tensor definition "
        "DT_FP32 (`a`).",
        under="kernel(*args)",
        code="F00002",
        builtin=ValueError,
        fix="convert the argument, or declare a: pypto.Tensor([], pypto.DT_FP16)",
    )


def test_argument_of_a_partial_call():
    partial = functools.partial(kernel, ramp().half())
    refused(
        lambda: partial(blank()),  # <- partial
        "partial",
        "The dtype of 1st input tensor DT_FP16 does not match the dtype of input tensor definition "
        "DT_FP32 (`a`).",
        under="partial(blank())",
        code="F00002",
        builtin=ValueError,
        fix="convert the argument, or declare a: pypto.Tensor([], pypto.DT_FP16)",
    )


def test_keyword_from_a_dict():
    refused(
        lambda: kernel(ramp(), blank(), **{"scala": 2.0}),  # <- dict
        "dict",
        "Unknown keyword argument(s): ['scala']. Valid non-tensor parameters: ['scale']; did you "
        "mean 'scale'?",
        under='kernel(ramp(), blank(), **{"scala": 2.0})',
        code="F00003",
        builtin=RuntimeError,
        fix="kernel(a, out, scale=…)",
    )


# --- what resembles a mistake and is none --------------------------------------------------------


def test_values_by_position_by_name_and_by_default():
    for call, factor in (
        (lambda out: picky(ramp().half(), ramp(), out, 3), 6),
        (lambda out: picky(ramp().half(), ramp(), out, count=3), 6),
        (lambda out: picky(ramp().half(), ramp(), out, 3, s=1), 3),
        (lambda out: picky(*(ramp().half(), ramp(), out), **{"count": 2, "s": 1}), 2),
    ):
        out = blank()
        call(out)
        assert torch.equal(out, ramp() * factor)


def test_tensor_twice_where_nothing_is_written_to_it():
    @pypto.jit
    def add(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + b

    x, out = ramp(), blank()
    add(x, x, out)
    assert torch.equal(out, ramp() * 2)


def test_call_after_a_refused_call():
    findings(lambda: kernel(ramp().half(), blank()))
    out = blank()
    kernel(ramp(), out, scale=2.0)
    assert torch.equal(out, ramp() * 2)
