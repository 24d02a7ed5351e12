"""Matmul: situations that users of tile kernels ran into, held against float64 products.

In: one kernel of a few lines a test. Out: its numbers beside a float64 product of the same inputs.
A product accumulated in fp32 is within 2nε Σ|xy| of it; integers are exact.
"""

import pytest
import torch

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)
F16 = pypto.Tensor([], pypto.DT_FP16)
BF16 = pypto.Tensor([], pypto.DT_BF16)
I8 = pypto.Tensor([], pypto.DT_INT8)
I32 = pypto.Tensor([], pypto.DT_INT32)
EPS = 2.0**-23


def random(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def worst(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest error of `out` in units of its bound 2nε Σ|xy|; at most 1 is right."""
    a, b = a.double(), b.double()
    bound = 2 * a.shape[-1] * EPS * (a.abs() @ b.abs())
    return float(((out.double() - a @ b).abs() / bound).max())


def test_bf16_inputs_accumulate_in_fp32_F2():
    @pypto.frontend.jit
    def kernel(a: BF16, b: BF16, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32)

    a = random(16, 1536, seed=1, dtype=torch.bfloat16)
    b = random(1536, 32, seed=2, dtype=torch.bfloat16)
    out = torch.full((16, 32), -7.0)
    kernel(a, b, out)
    golden = a.double() @ b.double()
    assert (out.double() - golden).abs().max() <= 1e-3
    # The bound tells apart: a product accumulated in bf16 fails it.
    narrow = torch.zeros(16, 32, dtype=torch.bfloat16)
    for k in range(1536):
        narrow += a[:, k : k + 1] * b[k : k + 1, :]
    assert (narrow.double() - golden).abs().max() > 1e-3


def test_large_fp16_product_is_right_F3():
    @pypto.frontend.jit
    def kernel(a: F16, b: F16, wide: F32, narrow: F16):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        wide[:] = pypto.matmul(a, b, pypto.DT_FP32)
        narrow[:] = pypto.matmul(a, b, pypto.DT_FP16)

    a = random(512, 512, seed=3, dtype=torch.float16)
    b = random(512, 512, seed=4, dtype=torch.float16)
    wide = torch.full((512, 512), -7.0)
    narrow = torch.full((512, 512), -7.0, dtype=torch.float16)
    kernel(a, b, wide, narrow)
    assert worst(wide, a, b) <= 1
    # One rounding of the fp32 accumulator, to nearest even.
    assert torch.equal(narrow, wide.half())


@pytest.mark.parametrize("b_trans", [False, True])
@pytest.mark.parametrize("a_trans", [False, True])
def test_transposed_operands_F5(a_trans, b_trans):
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32, a_trans=a_trans, b_trans=b_trans)

    a, b = random(24, 40, seed=5), random(40, 16, seed=6)
    out = torch.full((24, 16), -7.0)
    kernel(a.t().contiguous() if a_trans else a, b.t().contiguous() if b_trans else b, out)
    assert worst(out, a, b) <= 1


@pytest.mark.parametrize(("a_batch", "b_batch"), [(3, 3), (1, 3), (3, 1), (1, 1)])
@pytest.mark.parametrize("trans", [False, True])
def test_batches_of_one_broadcast_F5(a_batch, b_batch, trans):
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32, a_trans=trans, b_trans=trans)

    a, b = random(a_batch, 8, 24, seed=7), random(b_batch, 24, 16, seed=8)
    out = torch.full((max(a_batch, b_batch), 8, 16), -7.0)
    kernel(
        a.transpose(1, 2).contiguous() if trans else a,
        b.transpose(1, 2).contiguous() if trans else b,
        out,
    )
    assert worst(out, a, b) <= 1


def test_two_batch_axes_broadcast_each_on_its_own_F5():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 1, 16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32, b_trans=True)

    a, b = random(2, 1, 8, 24, seed=9), random(1, 3, 16, 24, seed=10)
    out = torch.full((2, 3, 8, 16), -7.0)
    kernel(a, b, out)
    assert worst(out, a, b.transpose(2, 3)) <= 1


def test_int8_product_is_exact_beyond_fp32_F6():
    @pypto.frontend.jit
    def kernel(a: I8, b: I8, out: I32):
        pypto.set_vec_tile_shapes(16, 32)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        out[:] = pypto.matmul(a, b, pypto.DT_INT32)

    a = torch.full((16, 1024), 127, dtype=torch.int8)
    b = torch.full((1024, 32), 127, dtype=torch.int8)
    out = torch.full((16, 32), -7, dtype=torch.int32)
    kernel(a, b, out)
    assert torch.equal(out, torch.full((16, 32), 16516096, dtype=torch.int32))
    # 2^24 + 1 needs 25 bits: a sum kept in fp32 anywhere on the way loses it.
    a = torch.zeros(16, 2048, dtype=torch.int8)
    a[:, :1040], a[:, 1040], a[:, 1041] = 127, 104, 1
    b = torch.full((2048, 32), 127, dtype=torch.int8)
    exact = (a.long() @ b.long()).int()
    assert exact[0, 0] > 2**24 and exact[0, 0] % 2 == 1
    kernel(a, b, out)
    assert torch.equal(out, exact)


def test_int8_operator_gives_int32_F6():
    @pypto.frontend.jit
    def kernel(a: I8, b: I8, out: I32):
        pypto.set_vec_tile_shapes(16, 32)
        pypto.set_cube_tile_shapes([16, 16], [32, 32], [32, 32])
        out[:] = a @ b

    generator = torch.Generator().manual_seed(11)
    a = torch.randint(-128, 128, (16, 96), generator=generator, dtype=torch.int8)
    b = torch.randint(-128, 128, (96, 32), generator=generator, dtype=torch.int8)
    out = torch.full((16, 32), -7, dtype=torch.int32)
    kernel(a, b, out)
    assert torch.equal(out, (a.long() @ b.long()).int())


def test_ones_of_four_give_four_F8():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32, op: F32, method: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32)
        op[:] = a @ b
        method[:] = a.matmul(b, pypto.DT_FP32)

    outs = [torch.full((4, 4), -7.0) for _ in range(3)]
    kernel(torch.ones(4, 4), torch.ones(4, 4), *outs)
    for out in outs:
        assert torch.equal(out, torch.full((4, 4), 4.0))


@pytest.mark.parametrize("in_place", [True, False])
def test_chunks_of_k_accumulate_to_the_whole_product_F9(in_place):
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, out: F32, whole: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        acc = pypto.full([16, 32], 0.0, pypto.DT_FP32)
        for k in pypto.loop(3):
            x = a[:, k * 64 : k * 64 + 64]
            y = b[k * 64 : k * 64 + 64, :]
            if in_place:
                acc[:] = acc + pypto.matmul(x, y, pypto.DT_FP32)
            else:
                acc = acc + pypto.matmul(x, y, pypto.DT_FP32)
        out[:] = acc
        whole[:] = pypto.matmul(a, b, pypto.DT_FP32)

    a, b = random(16, 192, seed=12), random(192, 32, seed=13)
    out, whole = torch.full((16, 32), -7.0), torch.full((16, 32), -7.0)
    kernel(a, b, out, whole)
    assert worst(out, a, b) <= 1
    assert worst(whole, a, b) <= 1
