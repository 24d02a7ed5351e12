"""Functions over ops, methods in place, and tensors made from numbers.

In: one kernel a test, on tensors that are valid in part. Out: what NumPy says of the valid boxes,
with the tolerance that several roundings ask for.
"""

import numpy as np
import pytest
from op_matrix import BF16, F32, OUTSIDE, check_box, cut, noise, public, ramp, run

import pypto

# --- functions over ops --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [F32, np.float16, BF16], ids=["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_softmax_of_the_valid_elements(dim, dtype):
    x, valid = noise(5, 7, dtype=dtype), (4, 6)
    wide = cut(x, valid).astype(np.float64)
    powers = np.exp(wide - wide.max(dim, keepdims=True))
    want = (powers / powers.sum(dim, keepdims=True)).astype(F32).astype(dtype)
    out = run(lambda t: t.softmax(dim), [(x, valid)], (5, 7), dtype)
    check_box(out, want, within=4 if dtype is F32 else 1)


@pytest.mark.parametrize("dtype", [F32, np.float16], ids=["fp32", "fp16"])
def test_rms_norm_divides_by_the_extent(dtype):
    x, gamma = noise(3, 8, dtype=dtype), noise(8, seed=5)
    part = x[:, :6].astype(np.float64)
    want = part / np.sqrt((part**2).sum(1, keepdims=True) / 8 + 1e-6) * gamma[:6]
    apply = lambda t, g: pypto.rms_norm(t, g)
    out = run(apply, [(x, (3, 6)), gamma], (3, 8), dtype)
    check_box(out, want.astype(F32).astype(dtype), within=4 if dtype is F32 else 1)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 4, 5), (2, 4, 3, 2)], ids=str)
def test_prelu_has_a_slope_per_channel(shape):
    x = noise(*shape)
    weight = noise(shape[1] if len(shape) > 1 else 1, seed=6)
    spread = weight.reshape([1, -1] + [1] * (len(shape) - 2)) if len(shape) > 1 else weight
    out = run(lambda t, w: t.prelu(w), [x, weight], shape)
    check_box(out, np.where(x > 0, x, spread * x))


def test_axpy_changes_its_first_tensor_and_returns_it():
    same = []

    def apply(y, x):
        local = y + 0.0
        same.append(local.axpy_(x, 0.5) is local)
        return local

    y, x = ramp(3, 4), ramp(1, 4, dtype=np.float16)
    check_box(run(apply, [y, x], (3, 4)), y + 0.5 * x.astype(F32))
    assert same == [True]


@pytest.mark.parametrize(
    ("apply", "want"),
    [
        (lambda t: t.fill_(3), np.full((3, 3), 3.0)),
        (lambda t: t.triu_(), np.triu(ramp(3, 3))),
        (lambda t: t.tril_(-1), np.tril(ramp(3, 3), -1)),
    ],
    ids=["fill_", "triu_", "tril_"],
)
def test_method_in_place_returns_the_tensor(apply, want):
    same = []

    def body(t):
        local = t + 0.0
        same.append(apply(local) is local)
        return local

    check_box(run(body, [ramp(3, 3)], (3, 3)), want)
    assert same == [True]


def test_online_softmax_of_two_blocks_is_the_softmax_of_both():
    s, v = noise(6, 4), noise(6, 5, seed=7)
    block, update = (
        public("experimental.online_softmax"),
        public("experimental.online_softmax_update"),
    )

    def apply(scores, values):
        parts = []
        for start in (0, 3):
            powers, top, total = block(pypto.view(scores, [3, 4], [start, 0]), 0.5)
            rows = pypto.view(values, [3, 5], [start, 0])
            product = pypto.matmul(rows, powers.float(), pypto.DT_FP32, a_trans=True)
            parts.append((top, total, product))
        _, total, out = update(*parts[0], *parts[1])
        return out / total

    out = run(apply, [s, v], (5, 4))
    powers = np.exp(0.5 * s.astype(np.float64))
    want = v.T.astype(np.float64) @ (powers / powers.sum(0))
    # The powers are BF16 on the way.
    assert np.abs(out - want).max() < 0.01


# --- numbers to tensors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ((4,), [0, 1, 2, 3]),
        ((2, 5), [2, 3, 4]),
        ((0, 5, 2), [0, 2, 4]),
        ((5, 0, -2), [5, 3, 1]),
        ((0, 1.0, 0.25), [0, 0.25, 0.5, 0.75]),
        ((1.0, 0.0, -0.5), [1.0, 0.5]),
    ],
    ids=str,
)
def test_arange(arguments, want):
    floating = any(isinstance(x, float) for x in arguments)
    apply = lambda t: pypto.arange(*arguments)
    out = run(apply, [ramp(2)], (len(want),), F32 if floating else np.int32)
    assert out.tolist() == want


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 5, 0), "step is 0"),
        ((5, 0), "no number from 5 to 0 by 1"),
        ((0, 2**40, 2**39), "do not fit into DT_INT32"),
        ((), "takes 1 to 3 arguments, got 0"),
    ],
    ids=str,
)
def test_arange_of_nothing(arguments, words):
    with pytest.raises(ValueError) as caught:
        run(lambda t: pypto.arange(*arguments), [ramp(2)], (2,))
    assert words in caught.value.text


@pytest.mark.parametrize(
    "dtype", [pypto.DT_FP32, pypto.DT_BF16, pypto.DT_INT8, pypto.DT_UINT32], ids=lambda d: d.name
)
def test_full_cuts_a_number_to_its_type(dtype):
    out = run(lambda t: pypto.full([2, 3], 1.9, dtype), [ramp(2)], (2, 3), dtype.numpy)
    want = np.float32(1.9).astype(dtype.numpy)
    assert (out == want).all()


def test_full_is_valid_to_run_time_extents():
    @pypto.frontend.jit
    def kernel(n: pypto.Tensor([], pypto.DT_INT32), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 8)
        out[:] = pypto.full([4, 4], n[0], pypto.DT_INT32, valid_shape=[n[0], 3])

    for n in (0, 2, 4):
        out = np.full((4, 4), OUTSIDE, np.int32)
        kernel(np.array([n], np.int32), out)
        check_box(out, np.full((n, 3), n, np.int32))
