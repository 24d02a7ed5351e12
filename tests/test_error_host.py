"""Mistakes on the host: decorating and calling kernels, each with its exact error.

In: one wrong declaration or call.  Out: class, code, sentence, way out; for a call also the line
and the call itself underlined.
"""

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


def declared_wrongly(make, text, *, code, builtin, fix):
    """What `make` declares is refused where it is written, before any call."""
    with pytest.raises(pypto.error.FeError) as caught:
        make()
    error = caught.value
    assert isinstance(error, builtin)
    assert (error.text, error.code) == (text, code)
    assert fix is ... or error.fix == fix


def test_jit_on_a_class_E1():
    class Thing:
        pass

    declared_wrongly(
        lambda: pypto.jit(Thing),
        "jit decorator can only be used on functions, got type",
        code="F00001",
        builtin=TypeError,
        fix=...,
    )


def test_tensor_behind_a_number_E2():
    def function(n: int, a: F32):
        pass

    declared_wrongly(
        lambda: pypto.jit(function),
        "Non-tensor parameters must come after all tensor parameters. Found tensor parameter 'a' "
        "after non-tensor parameter(s).",
        code="F00002",
        builtin=ValueError,
        fix="move `a` before `n`",
    )


def test_run_mode_E3():
    declared_wrongly(
        lambda: pypto.jit(runtime_options={"run_mode": 7})(lambda a: None),
        "Invalid run mode, run mode must be RunMode.NPU or RunMode.SIM, got 7.",
        code="F00003",
        builtin=RuntimeError,
        fix='runtime_options={"run_mode": pypto.RunMode.NPU}',
    )


@pytest.mark.parametrize("shape", [(pypto.STATIC, 4), ["4", 4]], ids=["tuple", "string"])
def test_dims_of_an_annotation_E13(shape):
    entry = shape[0]
    declared_wrongly(
        lambda: P(shape, DT),
        f"Invalid value type: {entry!r} is no dim of a shape",
        code="F00002",
        builtin=ValueError,
        fix="dims are ints, pypto.DYNAMIC, pypto.STATIC, a pypto.SymbolicScalar or, last, `...`, "
        "in a list",
    )


def test_too_few_tensors_E4():
    refused(
        lambda: kernel(ramp()),  # <- E4
        "E4",
        "Expected at least 2 tensor argument(s), got 1.",
        under="kernel(ramp())",
        code="F00003",
        builtin=RuntimeError,
        fix=...,
    )


def test_too_many_arguments_E5():
    refused(
        lambda: kernel(ramp(), blank(), 1.0, 2.0),  # <- E5
        "E5",
        "Too many positional arguments: expected 2 tensor(s) and up to 1 non-tensor(s), got 4 "
        "total.",
        under="kernel(ramp(), blank(), 1.0, 2.0)",
        code="F00003",
        builtin=RuntimeError,
        fix=...,
    )


def test_unknown_keyword_E6():
    refused(
        lambda: kernel(ramp(), blank(), scala=2.0),  # <- E6
        "E6",
        "Unknown keyword argument(s): ['scala']. Valid non-tensor parameters: ['scale'].",
        under="kernel(ramp(), blank(), scala=2.0)",
        code="F00003",
        builtin=RuntimeError,
        fix=...,
    )


def test_missing_number_E7():
    refused(
        lambda: needs_a_number(ramp(), blank()),  # <- E7
        "E7",
        "Missing required non-tensor argument 'count'.",
        under="needs_a_number(ramp(), blank())",
        code="F00003",
        builtin=RuntimeError,
        fix=...,
    )


def test_tensor_in_place_of_a_number_E8():
    refused(
        lambda: kernel(ramp(), blank(), torch.ones(1)),  # <- E8
        "E8",
        "Non-tensor parameter 'scale' must not be a torch.Tensor. Use positional arguments for "
        "tensors.",
        under="kernel(ramp(), blank(), torch.ones(1))",
        code="F00003",
        builtin=RuntimeError,
        fix="annotate it: scale: pypto.Tensor([], pypto.DT_FP32)",
    )


def test_list_in_place_of_a_tensor_E9():
    refused(
        lambda: kernel([1.0, 2.0], blank()),  # <- E9
        "E9",
        "Input 1 (index 0) must be a torch.Tensor or a NumPy array, got <class 'list'> for `a`",
        under="kernel([1.0, 2.0], blank())",
        code="F00003",
        builtin=RuntimeError,
        fix=...,
    )


def test_tensor_that_is_not_contiguous_E10():
    refused(
        lambda: kernel(ramp().t(), blank(32, 16)),  # <- E10
        "E10",
        "not all tensors are contiguous: input 0 `a` is not contiguous (strides (1, 32)); call "
        ".contiguous()",
        under="kernel(ramp().t(), blank(32, 16))",
        code="F00003",
        builtin=RuntimeError,
        fix="a.contiguous()",
    )


def test_rank_of_an_argument_E11():
    refused(
        lambda: fixed(ramp().reshape(2, 8, 32), blank()),  # <- E11 rank
        "E11 rank",
        "The number of dimensions of 1st input tensor [2, 8, 32] does not match the number of "
        "dimensions of input tensor definition [16, 32] (`a`).",
        under="fixed(ramp().reshape(2, 8, 32), blank())",
        code="F00002",
        builtin=ValueError,
        fix=...,
    )


def test_extent_of_an_argument_E11():
    refused(
        lambda: fixed(ramp(16, 33), blank()),  # <- E11 extent
        "E11 extent",
        "The shape of 1st input tensor [16, 33] does not match the shape of input tensor "
        "definition [16, 32]: axis 1 of `a` is 33, declared 32.",
        under="fixed(ramp(16, 33), blank())",
        code="F00002",
        builtin=ValueError,
        fix=...,
    )


def test_dtype_of_an_argument_E11():
    refused(
        lambda: kernel(ramp().half(), blank()),  # <- E11 dtype
        "E11 dtype",
        "The dtype of 1st input tensor DT_FP16 does not match the dtype of input tensor definition "
        "DT_FP32 (`a`).",
        under="kernel(ramp().half(), blank())",
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
        under="kernel(complex_numbers, blank())",
        code="F00002",
        builtin=ValueError,
        fix="convert it: x.to(torch.float32)",
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
