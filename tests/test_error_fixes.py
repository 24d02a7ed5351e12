"""Ways out, typed into the kernels that they are told for: they run, and give what was meant.

In: kernels with one mistake each, the way out that is told, and the values that were meant.  Code
is put where the message points: for the expression that it underlines, for the call of a name, for
the statement.  Of advice in words, the test says where the user types the code that it quotes.
It has more than 600 lines because each mistake needs a kernel of its own.
"""

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from exact_errors import blank, ints, line_of, ramp

import pypto

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)
F16 = P([], pypto.DT_FP16)
I16 = P([], pypto.DT_INT16)
I32 = P([], pypto.DT_INT32)
ROWS = P([pypto.DYNAMIC, 32], DT)

MISTAKES = []


@dataclass(frozen=True)
class Mistake:
    """A kernel, what its error tells to do, and what the kernel was meant to write."""

    function: object
    fix: str
    want: object
    args: object
    typed: tuple[str, str] | None


def mistake(fix, want, args=lambda: (ramp() / 64, blank()), typed=None):
    """Collects a kernel; `want` makes its output of its inputs; `typed` is (before, after)."""

    def add(function):
        MISTAKES.append(Mistake(function, fix, want, args, typed))
        return function

    return add


def rows(want, count=16, cols=32):
    """What an output holds whose first rows and columns alone are written."""

    def whole(*args):
        out = blank()
        out[:count, :cols] = want(*args)
        return out

    return whole


# --- numbers read from tensors -------------------------------------------------------------------


@mistake(
    "in place of the whole comparison: "
    "`pypto.cast(pypto.where(x.sum(-1)[0:1] > 7.5, 1.0, 0.0), pypto.DT_INT32)[0] == 1`",
    lambda x: x + 1.0,
    typed=(
        "x.sum(-1)[0] > 7.5",
        "pypto.cast(pypto.where(x.sum(-1)[0:1] > 7.5, 1.0, 0.0), pypto.DT_INT32)[0] == 1",
    ),
)
def fraction_in_a_condition(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    if x.sum(-1)[0] > 7.5:  # <- fraction_in_a_condition
        out[:] = x + 1.0
    else:
        out[:] = x


@mistake(
    "in place of the whole comparison: "
    "`pypto.cast(pypto.where(0.5 < x[-1:, 1:2], 1.0, 0.0), pypto.DT_INT32)[0, 0] == 1`",
    lambda x: x + 1.0,
    typed=(
        "0.5 < x[-1, 1]",
        "pypto.cast(pypto.where(0.5 < x[-1:, 1:2], 1.0, 0.0), pypto.DT_INT32)[0, 0] == 1",
    ),
)
def fraction_of_a_parameter_in_a_condition(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    if 0.5 < x[-1, 1]:  # <- fraction_of_a_parameter_in_a_condition
        out[0:16, :] = x[0:16, :] + 1.0
    else:
        out[0:16, :] = x[0:16, :]


@mistake("s[3:4]", lambda x: x * x.sum(-1)[3])
def fraction_in_arithmetic(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    s = x.sum(-1)
    out[:] = x * s[3]  # <- fraction_in_arithmetic


@mistake("x[i:i + 1, 1:2]", lambda x: x * x[:, 1:2])
def fraction_at_a_symbolic_place(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(16):
        out[i : i + 1, :] = x[i : i + 1, :] * x[i, 1]  # <- fraction_at_a_symbolic_place


@mistake(
    "pypto.cast(long, pypto.DT_INT32)[0, 40 - 9]",
    lambda n, x: x + 1.0,
    lambda: (ints(*range(512)).reshape(16, 32), ramp(), blank()),
)
def wide_integer_in_a_condition(n: I32, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    long = pypto.cast(n, pypto.DT_INT64)
    if long[0, 40 - 9] == 31:  # <- wide_integer_in_a_condition
        out[:] = x + 1.0


# --- numbers written into tensors ----------------------------------------------------------------


@mistake("out[:] = pypto.full([16, 32], 1.5, pypto.DT_FP32)", lambda x: blank() * 0 + 1.5)
def number_into_a_tensor(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = 1.5  # <- number_into_a_tensor


@mistake(
    "for row in pypto.loop(out.shape[0]): "
    "out[row:row + 1] = pypto.full([1, 32], 1.5, pypto.DT_FP32)",
    lambda x: blank() * 0 + 1.5,
)
def number_into_a_dynamic_tensor(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = 1.5  # <- number_into_a_dynamic_tensor


@mistake(
    "for row in pypto.loop(i * 8, out.shape[0]): "
    "out[row:row + 1, 0:16] = pypto.full([1, 16], 2.0, pypto.DT_FP32)",
    rows(lambda x: 2.0, cols=16),
)
def number_into_the_rest_of_a_tensor(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2):
        out[i * 8 : out.shape[0], 0:16] = 2.0  # <- number_into_the_rest_of_a_tensor


@mistake("out[3] = pypto.full([32], 2.0, pypto.DT_FP32)", lambda x: _row(3))
def number_into_a_row(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[3] = 2.0  # <- number_into_a_row


def _row(at):
    out = blank()
    out[at] = 2.0
    return out


# --- slices --------------------------------------------------------------------------------------


@mistake("x[0:16, :].reshape([8, 2, 32])[:, 0, :]", rows(lambda x: x[::2], 8))
def step(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = x[0:16:2, :]  # <- step


@mistake("x[:, 0:32].reshape([16, 16, 2])[:, :, 1]", rows(lambda x: x[:, 1::2], cols=16))
def step_from_one(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32, 2)
    out[:, 0:16] = x[:, 1:32:2]  # <- step_from_one


@mistake("x[i * 8:i * 8 + 8, :].reshape([4, 2, 32])[:, 0, :]", rows(lambda x: x[::2], 8))
def step_from_a_symbol(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2):
        out[i * 4 : i * 4 + 4, :] = x[i * 8 : i * 8 + 8 : 2, :]  # <- step_from_a_symbol


@mistake("pypto.concat([x[k:k + 1] for k in range(0, 16, 3)], 0)", rows(lambda x: x[::3], 6))
def step_that_divides_nothing(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:6, :] = x[::3]  # <- step_that_divides_nothing


@mistake(
    "pypto.concat([x[k:k + 1, :] for k in range(15, -1, -1)], 0)", lambda x: torch.flip(x, [0])
)
def step_backwards(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x[::-1, :]  # <- step_backwards


@mistake(
    "for k in pypto.loop(16): out[:, 1 + 2 * k:1 + 2 * k + 1] = (x[:, 0:16] + 1.0)[:, k:k + 1]",
    lambda x: _odd(x),
)
def step_of_a_write(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:, 1:32:2] = x[:, 0:16] + 1.0  # <- step_of_a_write


def _odd(x):
    out = blank()
    out[:, 1::2] = x[:, 0:16] + 1.0
    return out


@mistake("x[i * 6:i * 6 + 6, :]", lambda x: x)
def slice_to_the_end(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(3):
        pypto.assemble(x[i * 6 :, :], [i * 6, 0], out)  # <- slice_to_the_end


@mistake("pypto.view(x, [6, 32], [i * 6, 0])", lambda x: x)
def view_of_the_rest(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(3):
        n = x.shape[0] - i * 6
        t = pypto.view(x, [n, 32], [i * 6, 0])  # <- view_of_the_rest
        pypto.assemble(t, [i * 6, 0], out)


@mistake("pypto.view(x, [3, 32], [0, 0], valid_shape=[i, 32])", rows(lambda x: x[:3], 3))
def view_that_grows(x: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(1, 4):
        t = pypto.view(x, [i, 32], [0, 0])  # <- view_that_grows
        pypto.assemble(t, [0, 0], out)


# --- keywords, and the order of arguments --------------------------------------------------------


@mistake("keepdim=True", lambda x: x - x.sum(-1, keepdim=True))
def keyword_of_numpy(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x - x.sum(-1, keepdims=True)  # <- keyword_of_numpy


@mistake("dim=-1", lambda x: torch.softmax(x, -1))
def axis_of_numpy(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.softmax(x, axis=-1)  # <- axis_of_numpy


@mistake("pypto.assemble(x, [0, 0], out)", lambda x: x)
def assemble_by_another_order(x: F32, out: F32):
    pypto.assemble(x, out, [0, 0])  # <- assemble_by_another_order


@mistake("out.assemble(x, [0, 0])", lambda x: x)
def assemble_method_by_another_order(x: F32, out: F32):
    out.assemble([0, 0], x)  # <- assemble_method_by_another_order


@mistake("pypto.atomic_add(x, [0, 0], out)", lambda x: x - 1.0)
def atomic_add_by_another_order(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.atomic_add(x, out, [0, 0])  # <- atomic_add_by_another_order


@mistake("pypto.view(x, [16, 32], [0, 0])", lambda x: x)
def view_by_another_order(x: F32, out: F32):
    out[:] = pypto.view([16, 32], x, [0, 0])  # <- view_by_another_order


@mistake("pypto.reshape(x, [16, 32])", lambda x: x)
def reshape_by_another_order(x: F32, out: F32):
    out[:] = pypto.reshape([16, 32], x)  # <- reshape_by_another_order


@mistake("x.reshape([32, 16])", lambda x: x)
def reshape_without_brackets(x: F32, out: F32):
    out[:] = x.reshape(32, 16).reshape([16, 32])  # <- reshape_without_brackets


@mistake("pypto.permute(x, [1, 0])", lambda x: x)
def permute_without_brackets(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.permute(x, 1, 0).reshape([32, 16]).transpose(0, 1)  # <- permute_without_brackets


@mistake("pypto.concat([x[0:8, :], x[8:16, :]])", lambda x: x)
def concat_without_brackets(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.concat(x[0:8, :], x[8:16, :])  # <- concat_without_brackets


@mistake("pypto.where(x > 3.0, x, x + 1.0)", lambda x: torch.where(x > 3.0, x, x + 1.0))
def where_by_another_order(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.where(x, x + 1.0, x > 3.0)  # <- where_by_another_order


@mistake(
    "pypto.gather(x, 0, places)",
    lambda n, x: x[n[:, 0].long()],
    lambda: ((15 - torch.arange(16, dtype=torch.int32))[:, None].repeat(1, 32), ramp(), blank()),
)
def gather_by_another_order(places: I32, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.gather(x, places, 0)  # <- gather_by_another_order


@mistake("pypto.sum(x, -1)", lambda x: x + x.sum(-1).reshape(16, 1))
def sum_by_another_order(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x + pypto.sum(-1, x).reshape([16, 1])  # <- sum_by_another_order


@mistake("pypto.full([16, 32], 2.0, DT)", lambda x: x + 2.0)
def full_by_another_order(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x + pypto.full(2.0, [16, 32], DT)  # <- full_by_another_order


@mistake("pypto.tensor([16, 32], DT)", lambda x: x)
def tensor_by_another_order(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    t = pypto.tensor(DT, [16, 32])  # <- tensor_by_another_order
    t[:] = x
    out[:] = t


# --- element types -------------------------------------------------------------------------------


def half():
    return (ramp() / 64).half(), ramp() / 64, blank()


@mistake("pypto.cast(h, pypto.DT_FP32) + x", lambda h, x: h.float() + x, half)
def halves_in_front(h: F16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = h + x  # <- halves_in_front


@mistake("pypto.mul(x, pypto.cast(h, pypto.DT_FP32))", lambda h, x: h.float() * x, half)
def halves_behind(h: F16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.mul(x, h)  # <- halves_behind


@mistake("(pypto.where(x > 3.0, 1.0, 0.0)) * x", lambda x: (x > 3.0) * x)
def mask_in_arithmetic(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = (x > 3.0) * x  # <- mask_in_arithmetic


@mistake("out[:] = pypto.cast(h, pypto.DT_FP32)", lambda h, x: h.float(), half)
def halves_written(h: F16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = h  # <- halves_written


@mistake(
    "out[0:8, :] = pypto.cast(h[0:8, :] + 1.0, pypto.DT_FP32)",
    rows(lambda h, x: h[0:8].float() + 1.0, 8),
    half,
)
def halves_written_into_a_part(h: F16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = h[0:8, :] + 1.0  # <- halves_written_into_a_part


@mistake("pypto.assemble(pypto.cast(h, pypto.DT_FP32), [0, 0], out)", lambda h, x: h.float(), half)
def halves_assembled(h: F16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.assemble(h, [0, 0], out)  # <- halves_assembled


@mistake(
    "pypto.gather(x, 0, pypto.cast(places, pypto.DT_INT32))",
    lambda n, x: x[n[:, 0].long()],
    lambda: ((15 - torch.arange(16).to(torch.int16))[:, None].repeat(1, 32), ramp(), blank()),
)
def short_places(places: I16, x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.gather(x, 0, places)  # <- short_places


# --- matrix products -----------------------------------------------------------------------------


@mistake("pypto.matmul(x, x, pypto.DT_FP32, b_trans=True)", rows(lambda x: x @ x.T, cols=16))
def product_by_the_operator(x: F32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:, 0:16] = x @ x  # <- product_by_the_operator


@mistake("x.matmul(x, DT, b_trans=True)", rows(lambda x: x @ x.T, cols=16))
def product_by_the_method(x: F32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:, 0:16] = x.matmul(x, DT, b_trans=False)  # <- product_by_the_method


# --- names of other libraries --------------------------------------------------------------------


@mistake("x.sum(-1, keepdim=True) * (1.0 / x.shape[-1])", lambda x: x - x.mean(-1, keepdim=True))
def method_mean(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x - x.mean(-1, keepdim=True)  # <- method_mean


@mistake(
    "x.reshape([1, -1]).sum(-1, keepdim=True) * (1.0 / x.reshape([1, -1]).shape[-1])",
    lambda x: x - x.mean(),
)
def mean_of_all(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x - pypto.reduce_mean(x)  # <- mean_of_all


@mistake("pypto.amax(x, -1)", lambda x: x - x.amax(-1).reshape(16, 1))
def greatest_of_an_axis(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x - pypto.max(x, -1).reshape([16, 1])  # <- greatest_of_an_axis


@mistake("pypto.minimum(x, y)", lambda x: x)
def smaller_of_two(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    y = x + 1.0
    out[:] = pypto.min(x, y)  # <- smaller_of_two


@mistake("x.amax", lambda x: x - x.amax(-1, keepdim=True))
def method_max(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x - x.max(-1, keepdim=True)  # <- method_max


@mistake("pypto.zeros(x.shape, dtype=x.dtype)", lambda x: x * 0.0)
def zeros_like(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.zeros_like(x)  # <- zeros_like


@mistake("pypto.full(x.shape, 2.0, x.dtype)", lambda x: x * 0.0 + 2.0)
def full_like(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.full_like(x, 2.0)  # <- full_like


@mistake("pypto.matmul(x, y, x.dtype)", rows(lambda x: x @ x.T, cols=16))
def dot(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    y = x.transpose(0, 1)
    out[:, 0:16] = pypto.dot(x, y)  # <- dot


@mistake(
    "`pypto.transpose(x, 0, 1)`, or in `pypto.matmul` `a_trans=True`, `b_trans=True`",
    lambda x: x.T.reshape(16, 32),
    typed=("x.T", "pypto.transpose(x, 0, 1)"),
)
def transposed_by_a_property(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x.T.reshape([16, 32])  # <- transposed_by_a_property


@mistake("pypto.cast(x * 2.0, pypto.DT_INT32)", lambda x: (x * 2.0).int().float())
def cast_by_to(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = (x * 2.0).to(torch.int32).float()  # <- cast_by_to


@mistake("pypto.cast(x, pypto.DT_FP16)", lambda x: x.half().float())
def cast_by_half(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x.half().float()  # <- cast_by_half


@mistake("x.shape[0]", lambda x: x * 16)
def extent_by_size(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x * x.size(0)  # <- extent_by_size


@mistake("(x + 1.0) * (x + 1.0)", lambda x: (x + 1.0) ** 2)
def square(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.square(x + 1.0)  # <- square


@mistake("x * 0.5 * (pypto.erf(x * 0.7071067811865476) + 1.0)", torch.nn.functional.gelu)
def gelu(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.gelu(x)  # <- gelu


@mistake("y[:] = pypto.exp(y)", lambda x: torch.exp(x * -1.0))
def in_place(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    y = x * -1.0
    y.exp_()  # <- in_place
    out[:] = y


@mistake("pypto.rms_norm(x, epsilon=0.5)", lambda x: x / torch.sqrt((x * x).mean(-1, True) + 0.5))
def function_as_a_method(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = x.rms_norm(epsilon=0.5)  # <- function_as_a_method


@mistake("x.rsqrt", lambda x: torch.rsqrt(x + 1.0))
def misspelt_method(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    x = x + 1.0
    out[:] = x.rsqr()  # <- misspelt_method


@mistake("pypto.exp(x * -1.0)", lambda x: torch.exp(-x))
def function_of_torch(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = torch.exp(x * -1.0)  # <- function_of_torch


@mistake("pypto.softmax(x, dim=-1)", lambda x: torch.softmax(x, -1))
def function_of_torch_in_python(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = torch.nn.functional.softmax(x, dim=-1)  # <- function_of_torch_in_python


@mistake("pypto.tanh(x)", torch.tanh)
def function_of_numpy(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = np.tanh(x)  # <- function_of_numpy


@mistake("pypto.concat([x[0:8, :], x[8:16, :]], 0)", lambda x: x)
def function_of_numpy_over_a_list(x: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = np.concatenate([x[0:8, :], x[8:16, :]], 0)  # <- function_of_numpy_over_a_list


# --- the test ------------------------------------------------------------------------------------


@pytest.mark.parametrize("found", MISTAKES, ids=lambda m: m.function.__name__)
def test_the_way_out_gives_what_was_meant(found):
    name = found.function.__name__
    args = found.args()
    with pytest.raises(pypto.error.PyptoError) as caught:
        pypto.jit(found.function)(*args)
    problem = caught.value
    assert problem.findings == (problem,), str(problem)
    assert problem.fix == found.fix
    assert problem.loc.line == line_of(__file__, name)
    mended = _mended(found, problem.loc)
    args = found.args()
    pypto.jit(mended)(*args)
    want = found.want(*args[:-1])
    torch.testing.assert_close(args[-1], want, rtol=1e-5, atol=1e-5)


def _mended(found, loc):
    """The kernel with its way out typed in."""
    lines, first = inspect.getsourcelines(found.function)
    start = next(i for i, line in enumerate(lines) if line.startswith("def "))
    bad = lines[loc.line - first]
    if found.typed is not None:
        before, after = found.typed
        assert f"`{after}`" in found.fix
        good = bad.replace(before, after)
    else:
        good = _typed(bad, found.fix, loc)
    assert good != bad
    lines[loc.line - first] = good
    source = textwrap.dedent("".join(lines[start:]))
    file = f"/mended/{found.function.__name__}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = dict(globals())
    exec(compile(source, file, "exec"), names)
    return names[found.function.__name__]


def _typed(line, fix, loc):
    """A line with code put where it belongs."""
    first, last = loc.column - 1, loc.end_column - 1
    shown = line[first:last]
    code = ast.parse(fix).body[0]
    if isinstance(code, ast.For) or (isinstance(code, ast.Assign) and "[" in fix.split("=")[0]):
        return line[: len(line) - len(line.lstrip())] + fix + "\n"
    name = isinstance(getattr(code, "value", None), (ast.Name, ast.Attribute))
    if not shown.endswith(")") and "=" not in shown and not name and line[last] == "(":
        last = _end_of_call(line, last)
    if isinstance(getattr(code, "value", None), ast.BinOp):
        fix = f"({fix})"
    return line[:first] + fix + line[last:]


def _end_of_call(line, first):
    """Where the first bracket that is opened is closed."""
    depth = 0
    for at in range(first, len(line)):
        depth += (line[at] in "([") - (line[at] in ")]")
        if depth == 0 and line[at] == ")":
            return at + 1
    raise AssertionError(line)
