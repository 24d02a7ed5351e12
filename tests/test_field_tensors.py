"""Views, tails, valid extents and aliases: situations that users of tile kernels ran into.

In: one kernel of a few lines a test. Out: its numbers beside plain arithmetic. Written tensors are
slices of larger ones that hold guard values, so an element too many shows. The row id that ends a
test's name tells the situations apart.
"""

import math

import pytest
import torch

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)
I32 = pypto.Tensor([], pypto.DT_INT32)
BOOL = pypto.Tensor([], pypto.DT_BOOL)
ROWS = pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32)
LINE = pypto.Tensor([pypto.DYNAMIC], pypto.DT_FP32)
GUARD = -7.0
INF = math.inf
NAN = math.nan


def ramp(*shape: int) -> torch.Tensor:
    """Distinct small whole numbers, exact in fp32, so that a misplaced element shows."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


class Guarded:
    """A tensor to write into with one guard row before and `after` guard rows behind it."""

    def __init__(self, rows: int, *rest: int, after: int = 1, fill: float = GUARD):
        self.whole = torch.full((1 + rows + after, *rest), GUARD)
        self.rows = rows
        self.out = self.whole[1 : 1 + rows]
        self.out.fill_(fill)

    def untouched(self) -> bool:
        before, after = self.whole[:1], self.whole[1 + self.rows :]
        return bool((before == GUARD).all() and (after == GUARD).all())


def test_view_of_a_local_assembled_back_into_it_runs_in_order_B1():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 16)
        a = pypto.zeros([32, 32], dtype=pypto.DT_FP32)
        b = a[:16, :16]
        a[16:, 16:] = b.exp()
        y[:] = x + a

    y = torch.full((32, 32), GUARD)
    kernel(torch.ones(32, 32), y)
    expected = torch.ones(32, 32)
    expected[16:, 16:] = 2.0
    assert torch.equal(y, expected)


def test_view_is_a_snapshot_when_its_source_is_written_before_its_use_B1():
    @pypto.frontend.jit
    def kernel(a: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 16)
        b = a[:16, :16]
        a[:16, :16] = b + 100.0
        a[16:, 16:] = b * 2.0
        y[:] = b

    a, y = ramp(32, 32), torch.full((16, 16), GUARD)
    before = a.clone()
    kernel(a, y)
    expected = before.clone()
    expected[:16, :16] += 100
    expected[16:, 16:] = before[:16, :16] * 2
    assert torch.equal(a, expected)
    assert torch.equal(y, before[:16, :16])


@pytest.mark.filterwarnings("ignore::pypto.error.PyptoWarning")
def test_value_stays_usable_after_it_is_written_to_an_output_B2():
    @pypto.frontend.jit
    def kernel(s: F32, upd: F32, again: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        m = pypto.amax(s, -1, True)
        upd[:] = m
        t = s - m
        again[:] = m
        out[:] = t

    s = (ramp(8, 16) * 37) % 101
    upd, again, out = torch.empty(8, 1), torch.empty(8, 1), torch.empty(8, 16)
    kernel(s, upd, again, out)
    rowmax = s.amax(-1, keepdim=True)
    assert torch.equal(upd, rowmax)
    assert torch.equal(again, rowmax)
    assert torch.equal(out, s - rowmax)


def test_equal_fills_are_two_tensors_B4():
    @pypto.frontend.jit
    def kernel(x: F32, o1: F32, o2: F32):
        pypto.set_vec_tile_shapes(16, 16)
        a = pypto.full([8, 8], 0.0, pypto.DT_FP32)
        b = pypto.full([8, 8], 0.0, pypto.DT_FP32)
        a[0:4, :] = x
        o1[:] = a
        o2[:] = b

    x = ramp(4, 8) + 1
    o1, o2 = torch.full((8, 8), GUARD), torch.full((8, 8), GUARD)
    kernel(x, o1, o2)
    assert torch.equal(o1, torch.cat([x, torch.zeros(4, 8)]))
    assert torch.equal(o2, torch.zeros(8, 8))


def test_buffer_filled_block_by_block_is_whole_afterwards_B5():
    @pypto.frontend.jit
    def kernel(src: F32, out: F32, total: F32):
        pypto.set_vec_tile_shapes(16, 16)
        buf = pypto.tensor([64, 32], pypto.DT_FP32)
        for i in pypto.loop(2):
            buf[i * 32 : (i + 1) * 32, 0:] = pypto.view(src, [32, 32], [i * 64, 0])
        out[:] = buf * 1.0
        total[:] = pypto.sum(buf, 0, True)

    src = ramp(128, 32) % 251
    out, total = torch.full((64, 32), GUARD), torch.full((1, 32), GUARD)
    kernel(src, out, total)
    expected = torch.cat([src[:32], src[64:96]])
    assert torch.equal(out, expected)
    assert torch.equal(total, expected.sum(0, keepdim=True))


@pytest.mark.parametrize("explicit", [False, True])
def test_one_row_through_a_tall_tile_writes_one_row_B10(explicit):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        if explicit:
            tile = pypto.view(x, [16, 16], [0, 0], valid_shape=[1, 16])
        else:
            tile = pypto.view(x, [16, 16], [0, 0])
        pypto.assemble(tile * 2.0 + 1.0, [0, 0], out)

    x, target = ramp(1, 16), Guarded(1, 16, after=15)
    kernel(x, target.out)
    assert torch.equal(target.out, x * 2 + 1)
    assert target.untouched()


def test_chunk_past_the_end_of_k_adds_nothing_B11():
    @pypto.frontend.jit
    def kernel(x: F32, w: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 128], [16, 16])
        acc = pypto.full([64, 64], 0.0, pypto.DT_FP32)
        for k in pypto.loop(3):
            a = pypto.view(x, [64, 128], [0, k * 128])
            b = pypto.view(w, [128, 64], [k * 128, 0])
            acc = acc + pypto.matmul(a, b, pypto.DT_FP32)
        out[:] = acc

    out = torch.full((64, 64), GUARD)
    kernel(torch.ones(64, 192), torch.ones(192, 64), out)
    assert torch.equal(out, torch.full((64, 64), 192.0))


def test_view_wider_than_k_contracts_over_the_valid_part_B11():
    @pypto.frontend.jit
    def kernel(x: F32, w: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 128], [16, 16])
        a = pypto.view(x, [64, 320], [0, 0])
        b = pypto.view(w, [320, 64], [0, 0])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32)

    out = torch.full((64, 64), GUARD)
    kernel(torch.ones(64, 192), torch.ones(192, 64), out)
    assert torch.equal(out, torch.full((64, 64), 192.0))


def test_reshape_keeps_the_valid_rows_as_valid_slabs_B13():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 8, 8)
        t = pypto.view(x, [8, 64], [0, 0]) + 1.0
        pypto.assemble(pypto.reshape(t, [8, 8, 8]), [0, 0, 0], out)

    x, target = ramp(5, 64), Guarded(5, 8, 8, after=3)
    kernel(x, target.out)
    assert torch.equal(target.out, (x + 1).reshape(5, 8, 8))
    assert target.untouched()


def test_state_of_a_parameter_is_updated_through_a_reshape_on_every_trip_B14():
    @pypto.frontend.jit
    def kernel(u: F32, state: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        for i in pypto.loop(3):
            flat = pypto.reshape(state, [4, 4])
            d = flat - u
            state[:] = pypto.reshape(d, [1, 4, 4])

    state = torch.full((1, 4, 4), 10.0)
    kernel(torch.ones(4, 4), state)
    assert torch.equal(state, torch.full((1, 4, 4), 7.0))


def test_state_of_a_local_is_updated_through_a_reshape_on_every_trip_B14():
    @pypto.frontend.jit
    def kernel(u: F32, first: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 16, 16)
        state = first * 1.0
        for i in pypto.loop(3):
            d = state.reshape([4, 4]) - u
            state[:] = d.reshape([1, 4, 4])
        out[:] = state

    first, out = torch.full((1, 4, 4), 10.0), torch.full((1, 4, 4), GUARD)
    kernel(torch.ones(4, 4), first, out)
    assert torch.equal(out, torch.full((1, 4, 4), 7.0))
    assert torch.equal(first, torch.full((1, 4, 4), 10.0))


def test_view_moved_onto_in_a_loop_carries_its_value_out_B16():
    @pypto.frontend.jit
    def kernel(inp: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        v = pypto.view(inp, [1, 8], [0, 0])
        for i in pypto.loop(3):
            v.move(v + 1.0)
        out[:] = v

    inp, out = ramp(4, 8), torch.full((1, 8), GUARD)
    kernel(inp, out)
    assert torch.equal(out, inp[:1] + 3)
    assert torch.equal(inp, ramp(4, 8))


@pytest.mark.parametrize("bsz", [1, 127, 128, 129, 200, 256])
def test_local_written_by_one_loop_is_read_by_the_next_B17(bsz):
    @pypto.frontend.jit
    def kernel(x: ROWS, y: F32, bias: F32, out: ROWS):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        rows = x.shape[0]
        z = pypto.tensor([rows, 64], pypto.DT_FP32)
        for i in pypto.loop(pypto.ceildiv(rows, 128)):
            block = pypto.view(x, [128, 64], [i * 128, 0])
            pypto.assemble(pypto.matmul(block, y, pypto.DT_FP32), [i * 128, 0], z)
        for i in pypto.loop(pypto.ceildiv(rows, 128)):
            block = pypto.view(z, [128, 64], [i * 128, 0])
            pypto.assemble(block + bias, [i * 128, 0], out)

    target = Guarded(bsz, 64)
    kernel(torch.ones(bsz, 64), torch.ones(64, 64), torch.full((1, 64), 0.5), target.out)
    assert torch.equal(target.out, torch.full((bsz, 64), 64.5))
    assert target.untouched()


def test_expand_exp_dif_keeps_the_valid_rows_B25():
    @pypto.frontend.jit
    def kernel(x: F32, m: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        tile = pypto.view(x, [16, 32], [0, 0], valid_shape=[3, 32])
        e = pypto.expand_exp_dif(tile, m)
        out[:] = pypto.sum(e, -1, True)

    x = torch.linspace(-2, 2, 16 * 32).reshape(16, 32)
    x[3:] = NAN
    m = torch.linspace(0, 1, 16).reshape(16, 1)
    out = torch.full((16, 1), GUARD)
    kernel(x, m, out)
    expected = (x[:3].double() - m[:3].double()).exp().sum(-1, keepdim=True)
    # 32 terms, each rounded a few times in fp32.
    torch.testing.assert_close(out[:3].double(), expected, rtol=1e-6, atol=0)
    assert torch.equal(out[3:], torch.full((13, 1), GUARD))


def test_chain_on_a_narrow_tile_stores_its_valid_columns_only_B26():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        tile = pypto.view(x, [16, 8], [0, 0], valid_shape=[16, 4])
        pypto.assemble(pypto.neg(pypto.mul(tile, 2.0)), [0, 0], out)

    x = ramp(16, 8) + 1
    out = torch.full((16, 8), GUARD)
    kernel(x, out)
    assert torch.equal(out[:, :4], x[:, :4] * -2)
    assert torch.equal(out[:, 4:], torch.full((16, 4), GUARD))


def test_expanded_rows_sliced_and_stored_to_a_shorter_output_B28():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        wide = pypto.expand_clone(x, [16, 128])
        out[:] = wide[0:5, :]

    x, target = ramp(16, 1) + 1, Guarded(5, 128)
    kernel(x, target.out)
    assert torch.equal(target.out, x[:5].expand(5, 128))
    assert target.untouched()


def test_expanded_columns_sliced_and_stored_to_a_shorter_output_B28():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        tall = pypto.expand_clone(x, [16, 128])
        out[:] = tall[0:5, :] + 1.0

    x, target = ramp(1, 128), Guarded(5, 128)
    kernel(x, target.out)
    assert torch.equal(target.out, (x + 1).expand(5, 128))
    assert target.untouched()


@pytest.mark.parametrize("n", [1, 4, 5, 8])
def test_both_arms_see_the_valid_rows_of_the_view_B29(n):
    @pypto.frontend.jit
    def kernel(x: F32, length: I32, total: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        n = length[0]
        v = pypto.view(x, [8, 8], [0, 0], valid_shape=[n, 8])
        if n > 4:
            total[:] = pypto.sum(v, 0, True)
            pypto.assemble(v + 1.0, [0, 0], out)
        else:
            total[:] = pypto.sum(v, 0, True) * 10.0
            pypto.assemble(v + 2.0, [0, 0], out)

    x = ramp(8, 8)
    total, out = torch.full((1, 8), GUARD), torch.full((8, 8), GUARD)
    kernel(x, torch.tensor([n], dtype=torch.int32), total, out)
    many = n > 4
    assert torch.equal(total, x[:n].sum(0, keepdim=True) * (1 if many else 10))
    assert torch.equal(out[:n], x[:n] + (1 if many else 2))
    assert torch.equal(out[n:], torch.full((8 - n, 8), GUARD))


@pytest.mark.parametrize("length", [1, 1023, 1024, 1025, 13243])
def test_tail_is_exact_and_nothing_is_written_past_it_B31(length):
    @pypto.frontend.jit
    def kernel(x: LINE, y: LINE, out: LINE):
        pypto.set_vec_tile_shapes(1024)
        for i in pypto.loop(pypto.ceildiv(x.shape[0], 1024)):
            a = pypto.view(x, [1024], [i * 1024])
            b = pypto.view(y, [1024], [i * 1024])
            pypto.assemble(a + b, [i * 1024], out)

    x, y, target = ramp(length), ramp(length) * 3 + 1, Guarded(length, after=1024)
    kernel(x, y, target.out)
    assert torch.equal(target.out, x * 4 + 1)
    assert target.untouched()


@pytest.mark.parametrize("junk", [NAN, INF, -INF, 1e30, 0.0])
@pytest.mark.parametrize("overhang", [False, True])
def test_reductions_do_not_see_the_padding_B32(junk, overhang):
    @pypto.frontend.jit
    def kernel(x: F32, top: F32, low: F32, total: F32, soft: F32):
        pypto.set_vec_tile_shapes(16, 16)
        if overhang:
            v = pypto.view(x, [1, 8], [0, 13])
        else:
            v = pypto.view(x, [1, 8], [0, 0], valid_shape=[1, 3])
        top[:] = pypto.amax(v, -1, True)
        low[:] = pypto.amin(v, -1, True)
        total[:] = pypto.sum(v, -1, True)
        soft[:] = pypto.softmax(v, -1)

    x = torch.full((1, 16), junk)
    x[0, :3] = -5.0
    x[0, 13:] = -5.0
    top, low, total = (torch.full((1, 1), GUARD) for _ in range(3))
    soft = torch.full((1, 8), GUARD)
    kernel(x, top, low, total, soft)
    assert (top.item(), low.item(), total.item()) == (-5.0, -5.0, -15.0)
    # Three equal lanes; one rounding of 1/3 in fp32.
    torch.testing.assert_close(soft[0, :3], torch.full((3,), 1 / 3), rtol=1e-6, atol=0)
    assert torch.equal(soft[0, 3:], torch.full((5,), GUARD))


def test_reduction_over_rows_does_not_see_the_padding_B32():
    @pypto.frontend.jit
    def kernel(x: F32, top: F32, total: F32):
        pypto.set_vec_tile_shapes(16, 16)
        v = pypto.view(x, [8, 8], [4, 0])
        top[:] = pypto.amax(v * 2.0, 0, True)
        total[:] = pypto.sum(v + 1.0, 0, True)

    x = ramp(6, 8) - 1000
    top, total = torch.full((1, 8), GUARD), torch.full((1, 8), GUARD)
    kernel(x, top, total)
    assert torch.equal(top, (x[4:] * 2).amax(0, keepdim=True))
    assert torch.equal(total, (x[4:] + 1).sum(0, keepdim=True))


def test_flat_tensors_compare_element_by_element_B37():
    @pypto.frontend.jit
    def kernel(a: F32, b: F32, eq: BOOL, ne: BOOL, gt: BOOL, ge: BOOL, lt: BOOL, le: BOOL):
        pypto.set_vec_tile_shapes(16)
        eq[:] = a == b
        ne[:] = a != b
        gt[:] = a > b
        ge[:] = pypto.ge(a, b)
        lt[:] = a < b
        le[:] = a <= b

    a = torch.tensor([1.0, 2.0, 3.0, NAN, 0.0, -INF, 5.0, -1.0])
    b = torch.tensor([1.0, 3.0, 2.0, NAN, -0.0, INF, 4.0, 1.0])
    outs = [torch.zeros(9, dtype=torch.bool) for _ in range(6)]
    kernel(a, b, *(out[:8] for out in outs))
    expected = [a == b, a != b, a > b, a >= b, a < b, a <= b]
    for out, right in zip(outs, expected, strict=True):
        assert torch.equal(out[:8], right)
        assert not out[8]


def test_pieces_joined_in_a_loop_reshape_to_rows_B40():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(3):
            both = pypto.concat([x[i : i + 1, :], y[i : i + 1, :]], 1)
            out[i * 2 : i * 2 + 2, :] = pypto.reshape(both, [-1, 8])

    x, y, target = ramp(4, 8), ramp(4, 8) + 100, Guarded(6, 8)
    kernel(x, y, target.out)
    assert torch.equal(target.out, torch.stack([x[:3], y[:3]], 1).reshape(6, 8))
    assert target.untouched()


def test_rows_joined_in_a_loop_keep_their_shape_under_reshape_B40():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(3):
            row = x[i : i + 1, :]
            pair = pypto.reshape(pypto.concat([row, row * 2.0], 0), [-1, 8])
            pypto.assemble(pair, [i * 2, 0], out)

    x, target = ramp(4, 8) + 1, Guarded(6, 8)
    kernel(x, target.out)
    assert torch.equal(target.out, torch.stack([x[:3], x[:3] * 2], 1).reshape(6, 8))
    assert target.untouched()
