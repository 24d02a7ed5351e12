"""A chunk of the gated delta rule: what its forward and backward kernels share.

In: the packed rows of ragged sequences and the triangles that the host makes once.  Out: the decays
of a chunk, the inverse of its unit lower triangle, its updates.  A chunk may be short: the rows
behind its n steps are invalid, and everything computed from them is too.
"""

from typing import NamedTuple

import torch

import pypto

# With the decays D_ij = exp(g_j+1 + … + g_i) for i ≥ j and E_i = exp(g_1 + … + g_i), the updates U
# of a chunk that starts from the state S solve a unit lower triangular system,
#
#     (I + A) U = diag(β) (V − diag(E) K S),   A_ij = β_i D_ij k_i·k_j  for i > j.

# A closed gate is −inf or some other large negative number, and 0 · −inf is not 0 in a matmul.
# exp(−110) is 0 in FP32, as is the exponential of any sum of gates with −110 in it.
LEAST_GATE = -110.0

# Vector block: 64 × 64 floats are 16 KiB, so the two inputs and the output of an op take a quarter
# of the unified buffer and the copies of the next block overlap. A tail of 64 floats is 256 bytes.
TILE_ROWS, TILE_COLS = 64, 64
# Cube blocks [L0, L1]: 64 × 64 floats take 16 KiB of the 64 in L0A and L0B, so both are double
# buffered, and 64 divides the chunk and the head sizes in use.
TILE_M, TILE_K, TILE_N = [64, 64], [64, 64], [64, 64]


class Triangles(NamedTuple):
    """Constant matrices [C, C] of a chunk; the first two are valid for its n steps."""

    tril: pypto.Tensor  # ones on and below the diagonal
    mask: pypto.Tensor  # ones below it
    eye: pypto.Tensor
    halves: list[pypto.Tensor]  # the blocks that join two blocks of 1, 2, 4, … rows


class Decays(NamedTuple):
    """What the gates of a chunk leave over, from one step to another."""

    since_start: pypto.Tensor  # [n, 1], E: up to each step
    until_end: pypto.Tensor  # [n, 1]: from each step to the last
    whole: pypto.Tensor  # [1, 1]: over all steps
    between: pypto.Tensor  # [n, n], D: zero above the diagonal
    before: pypto.Tensor  # [n, n]: D without its diagonal


class Updates(NamedTuple):
    """What a chunk writes into the state, and how that came about."""

    gram: pypto.Tensor  # [n, n]: k_i·k_j
    overlap: pypto.Tensor  # [n, n]: how much of update j a later step i finds under its key
    inverse: pypto.Tensor  # [n, n]: (I + A)⁻¹
    recalled: pypto.Tensor  # [n, V]: what the state says about the keys when the chunk starts
    error: pypto.Tensor  # [n, V]: value − recalled
    update: pypto.Tensor  # [n, V], U


def chunk_triangles(
    tril: pypto.Tensor, mask: pypto.Tensor, eye: pypto.Tensor, halves: pypto.Tensor
) -> Triangles:
    """The constants that the host made, [C, C] each and `halves` [log₂ C, C, C]."""
    levels, C, _ = halves.shape
    joints = [pypto.view(halves, [1, C, C], [i, 0, 0]).reshape([C, C]) for i in range(levels)]
    return Triangles(tril, mask, eye, joints)


def head_rows(x: pypto.Tensor, t: pypto.SymInt, head: pypto.SymInt, C: int, n: pypto.SymInt):
    """Steps t … t + n of one head of x [T, heads, width], as FP32 [C, width] valid for n rows."""
    width = x.shape[2]
    window = pypto.view(x, [C, 1, width], [t, head, 0], valid_shape=[n, 1, width])
    return window.reshape([C, width]).float()


def head_numbers(x: pypto.Tensor, t: pypto.SymInt, head: pypto.SymInt, C: int, n: pypto.SymInt):
    """Steps t … t + n of one head of x [T, heads], as FP32 [C, 1] valid for n rows."""
    return pypto.view(x, [C, 1], [t, head], valid_shape=[n, 1]).float()


def session_state(states: pypto.Tensor, slot: pypto.SymInt, head: pypto.SymInt):
    """One state [K, V] of states [slots, heads, K, V]."""
    K, V = states.shape[2:]
    # The number of slots is DYNAMIC: that this one exists is said here, and checked in the run.
    whole = [1, 1, K, V]
    return pypto.view(states, whole, [slot, head, 0, 0], valid_shape=whole).reshape([K, V])


def unit_rows(x: pypto.Tensor, eps: float) -> tuple[pypto.Tensor, pypto.Tensor]:
    """Rows divided by their length, and 1 / length [n, 1]; eps keeps rows of zeros finite."""
    shrink = ((x * x).sum(-1, keepdim=True) + eps).rsqrt()
    return x * shrink, shrink


def cut_triangles(constants: Triangles, n: pypto.SymInt) -> Triangles:
    """The triangles of a chunk of n steps."""
    C = constants.tril.shape[0]
    tril = pypto.view(constants.tril, [C, C], [0, 0], valid_shape=[n, n])
    mask = pypto.view(constants.mask, [C, C], [0, 0], valid_shape=[n, n])
    return constants._replace(tril=tril, mask=mask)


def chunk_decays(gate: pypto.Tensor, triangles: Triangles) -> Decays:
    """The decays of a chunk from its log gates [n, 1].

    Each is the exponential of a running sum of just the gates in between.  A difference of two sums
    from the start would lose all digits behind a closed gate, and be positive above the diagonal.
    """
    tril, mask = triangles.tril, triangles.mask
    gate = pypto.maximum(gate, LEAST_GATE)
    between = pypto.matmul(tril, gate * mask, pypto.DT_FP32).exp()
    return Decays(
        since_start=pypto.matmul(tril, gate, pypto.DT_FP32).exp(),
        until_end=pypto.matmul(mask, gate, pypto.DT_FP32, a_trans=True).exp(),
        whole=gate.sum(0, keepdim=True).exp(),
        between=between * tril,
        before=between * mask,
    )


def invert_unit_lower(below: pypto.Tensor, triangles: Triangles) -> pypto.Tensor:
    """(I + A)⁻¹ of a strictly lower triangle A, from inverses of blocks twice as large each time.

    Two inverted blocks P and Q on the diagonal and the block B that joins them are together the
    inverse [[P, 0], [−Q B P, Q]].  All pairs of one size at once are X − X B X, where X holds the
    inverted blocks and B all the joints; blocks of one row are their own inverses.  As in forward
    substitution nothing is summed but products of the entries themselves, so no digits are lost to
    powers of A that grow and cancel.
    """
    inverse = triangles.eye - below * triangles.halves[0]
    for half in triangles.halves[1:]:
        # A matmul result that feeds a matmul is copied first (+ 0.0): on the chip the second one
        # could otherwise be given the buffer that it reads from.
        joined = pypto.matmul(inverse, below * half, pypto.DT_FP32) + 0.0
        inverse = inverse - pypto.matmul(joined, inverse, pypto.DT_FP32)
    return inverse


def chunk_updates(
    key: pypto.Tensor,
    value: pypto.Tensor,
    strength: pypto.Tensor,
    state: pypto.Tensor,
    decays: Decays,
    triangles: Triangles,
) -> Updates:
    """The updates of a chunk that starts from `state` [K, V]; the others have n rows."""
    gram = pypto.matmul(key, key, pypto.DT_FP32, b_trans=True)
    overlap = gram * decays.before
    inverse = invert_unit_lower(overlap * strength, triangles)
    recalled = pypto.matmul(key, state, pypto.DT_FP32) * decays.since_start
    error = value - recalled
    update = pypto.matmul(inverse, error * strength, pypto.DT_FP32) + 0.0
    return Updates(gram, overlap, inverse, recalled, error, update)


def chunk_constants(chunk_size: int) -> tuple[torch.Tensor, ...]:
    """`tril`, `mask`, `eye` [C, C] and `halves` [log₂ C, C, C], made once on the host.

    A chunk size that is no multiple of 8 is refused with a ValueError: a row of 8 floats is one
    32-byte block, the unit of the chip.
    """
    if chunk_size < 8 or chunk_size % 8 != 0:
        raise ValueError(f"chunk_size must be a positive multiple of 8, got {chunk_size}")
    row, column = torch.arange(chunk_size)[:, None], torch.arange(chunk_size)
    halves, block = [], 1
    while block < chunk_size:
        same_pair = row // (2 * block) == column // (2 * block)
        halves.append(same_pair & (row // block > column // block))
        block *= 2
    matrices = (row >= column, row > column, row == column, torch.stack(halves))
    return tuple(matrix.float() for matrix in matrices)


def check_sequences(
    q: torch.Tensor, v: torch.Tensor, initial_state: torch.Tensor, cu_seqlens: torch.Tensor
) -> None:
    """Refuse with a ValueError what no kernel of the family can mean.

    The heads of q must divide those of v, the sequences must cover the steps in order, and each
    needs its initial state.
    """
    if v.shape[1] % q.shape[1] != 0:
        raise ValueError(f"{v.shape[1]} heads of v are no multiple of {q.shape[1]} heads of q")
    ends = cu_seqlens.tolist()
    if ends != sorted(ends) or ends[0] != 0 or ends[-1] != len(v):
        raise ValueError(f"cu_seqlens must rise from 0 to the {len(v)} steps, got {ends}")
    if len(initial_state) != len(ends) - 1:
        raise ValueError(f"{len(ends) - 1} sequences need as many states, got {len(initial_state)}")


def state_slots(steps: int, sequences: int, chunk_size: int) -> int:
    """How many slots the chunk states of ragged sequences take.

    Chunk c of the sequence that begins at step t as number b is in slot t // C + b + c.  A sequence
    never reaches into the next one's slots: ⌊t/C⌋ + ⌈length/C⌉ ≤ ⌊(t + length)/C⌋ + 1.
    """
    return steps // chunk_size + sequences
