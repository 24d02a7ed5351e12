"""The gated delta rule, forward, in chunks: linear attention that forgets and corrects itself.

In: queries, keys, values, log gates, strengths β and a state for each of B × H heads.  Out: the
outputs of all steps and the state after the last.  The kernel, the constants that the host makes
for it, the golden that goes step by step, and the cases in which the two must agree.
"""

# mypy: disable-error-code="valid-type"
# (the annotations of a kernel are values: pypto.Tensor(shape, dtype))

from functools import partial

import torch

import pypto
from pypto.gym.gdr_golden import one_thread, walk
from pypto.gym.record import Arguments, Case, Kernel, Outputs

# Per head the state S [K, V] moves one step t at a time:
#
#     S ← exp(g_t)·S;   u_t = β_t (v_t − Sᵀk_t);   S ← S + k_t u_tᵀ;   o_t = scale·Sᵀq_t
#
# The kernel takes a chunk of C steps at once.  With the decays D_ij = exp(g_j+1 + … + g_i) for
# i ≥ j and E_i = exp(g_1 + … + g_i), the updates U of a chunk solve a unit lower triangular system,
#
#     (I + A) U = diag(β) (V − diag(E) K S),   A_ij = β_i D_ij k_i·k_j  for i > j,
#
# and then  O = scale·(diag(E) Q S + (Q Kᵀ ⊙ D) U)  and  S ← E_C·S + Kᵀ diag(D_C1 … D_CC) U.
# The inverse of I + A does not depend on S: the host computes it for all chunks and passes it in.

# Vector block: 64 × 64 floats are 16 KiB, so the two inputs and the output of an op take a quarter
# of the unified buffer and the copies of the next block overlap. A tail of 64 floats is 256 bytes.
TILE_ROWS, TILE_COLS = 64, 64
# Cube blocks [L0, L1]: 64 × 64 floats take 16 KiB of the 64 in L0A and L0B, so both are double
# buffered, and 64 divides the chunk and the head sizes in use.
TILE_M, TILE_K, TILE_N = [64, 64], [64, 64], [64, 64]


def chunk_decays(
    gate: pypto.Tensor, tril: pypto.Tensor, mask: pypto.Tensor, ones: pypto.Tensor
) -> tuple[pypto.Tensor, pypto.Tensor, pypto.Tensor, pypto.Tensor]:
    """The decays of one chunk from its log gates [1, C].

    Since the start of the chunk up to each step [C, 1], from each step to the end [C, 1], over the
    whole chunk [1, 1], and between any two steps [C, C], zero where the second is the later one.
    Each is the exponential of a sum of just the gates in between: differences of running sums would
    lose all digits behind a gate of −1e4, and would be positive above the diagonal.
    """
    since_start = pypto.matmul(tril, gate, pypto.DT_FP32, b_trans=True).exp()
    until_end = pypto.matmul(mask, gate, pypto.DT_FP32, a_trans=True, b_trans=True).exp()
    whole = pypto.matmul(gate, ones, pypto.DT_FP32).exp()
    between = pypto.matmul(tril * gate, mask, pypto.DT_FP32).exp() * tril
    return since_start, until_end, whole, between


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def gated_delta_rule_kernel(
    q: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T, K]
    k: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T, K]
    v: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T, V]
    g: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T], logs of the gates
    beta: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T]
    inverse: pypto.Tensor([], pypto.DT_FP32),  # [B, H, nt, C, C]
    initial_state: pypto.Tensor([], pypto.DT_FP32),  # [B, H, K, V]
    tril: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    mask: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    ones: pypto.Tensor([], pypto.DT_FP32),  # [C, 1]
    output: pypto.Tensor([], pypto.DT_FP32),  # [B, H, T, V], written
    final_state: pypto.Tensor([], pypto.DT_FP32),  # [B, H, K, V], written
    B: int,
    H: int,
    nt: int,
    scale: float,
):
    """All B × H sessions, each over its nt chunks of C = tril.shape[0] steps (T = nt·C)."""
    C, K, V = tril.shape[0], q.shape[3], v.shape[3]
    pypto.set_vec_tile_shapes(TILE_ROWS, TILE_COLS)
    pypto.set_cube_tile_shapes(TILE_M, TILE_K, TILE_N)

    for session in pypto.loop(0, B * H, 1, name="sessions"):
        b = session // H
        h = session % H
        state = pypto.view(initial_state, [1, 1, K, V], [b, h, 0, 0]).reshape([K, V])

        for c in pypto.loop(nt, name="chunks"):
            t = c * C
            query = pypto.view(q, [1, 1, C, K], [b, h, t, 0]).reshape([C, K])
            key = pypto.view(k, [1, 1, C, K], [b, h, t, 0]).reshape([C, K])
            value = pypto.view(v, [1, 1, C, V], [b, h, t, 0]).reshape([C, V])
            gate = pypto.view(g, [1, 1, C], [b, h, t]).reshape([1, C])
            strength = pypto.view(beta, [1, 1, C], [b, h, t]).reshape([1, C])
            solve = pypto.view(inverse, [1, 1, 1, C, C], [b, h, c, 0, 0]).reshape([C, C])

            since_start, until_end, whole, between = chunk_decays(gate, tril, mask, ones)

            # What the state already says about each key is taken off its value. The row of β
            # scales the columns of the inverse, which is the same as scaling the rows of the rest.
            error = value - since_start * pypto.matmul(key, state, pypto.DT_FP32)
            # A matmul result that feeds a matmul is copied first (+ 0.0): on the chip the second
            # one could otherwise be given the buffer that it reads from.
            update = pypto.matmul(solve * strength, error, pypto.DT_FP32) + 0.0

            attention = pypto.matmul(query, key, pypto.DT_FP32, b_trans=True) * between
            from_state = since_start * pypto.matmul(query, state, pypto.DT_FP32)
            from_chunk = pypto.matmul(attention, update, pypto.DT_FP32)
            out = (from_state + from_chunk) * scale
            pypto.assemble(out.reshape([1, 1, C, V]), [b, h, t, 0], output)

            written = pypto.matmul(key, update * until_end, pypto.DT_FP32, a_trans=True)
            state = state * whole + written

        pypto.assemble(state.reshape([1, 1, K, V]), [b, h, 0, 0], final_state)


def prepare_chunk_helpers(chunk_size: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Constants of a chunk, made once on the host.

    `tril` [C, C] has ones on and below the diagonal, `mask` [C, C] only below it, `eye` [C, C] is
    the identity, `ones` [C, 1] sums a row by a matmul.  A chunk size that is no multiple of 8 is
    refused with a ValueError: a row of 8 floats is one 32-byte block, the unit of the chip.
    """
    if chunk_size < 8 or chunk_size % 8 != 0:
        raise ValueError(f"chunk_size must be a positive multiple of 8, got {chunk_size}")
    square = torch.ones(chunk_size, chunk_size, dtype=dtype)
    return {
        "mask": torch.tril(square, -1),
        "tril": torch.tril(square),
        "eye": torch.eye(chunk_size, dtype=dtype),
        "ones": torch.ones(chunk_size, 1, dtype=dtype),
    }


def invert_chunks(
    k: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, constants: dict[str, torch.Tensor]
) -> torch.Tensor:
    """(I + A)⁻¹ of every chunk, [B, H, nt, C, C], from k [B, H, T, K] and g, beta [B, H, T]."""
    tril, mask, eye = constants["tril"], constants["mask"], constants["eye"]
    B, H, T, K = k.shape
    C = len(eye)
    k = k.reshape(B, H, T // C, C, K)
    g, beta = g.reshape(B, H, T // C, 1, C), beta.reshape(B, H, T // C, C, 1)
    between = ((tril * g) @ mask).exp() * mask
    system = eye + beta * (k @ k.mT) * between
    return torch.linalg.solve_triangular(
        system, eye.expand_as(system), upper=False, unitriangular=True
    ).contiguous()


def pad_steps(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Append steps of zeros to axis 2.  With β = 0 and g = 0 a step leaves the state as it is."""
    return torch.cat([x, x.new_zeros(*x.shape[:2], steps, *x.shape[3:])], dim=2).contiguous()


def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    scale: float,
    chunk_size: int = 64,
) -> Outputs:
    """Run the kernel on float32 torch tensors.

    q, k [B, H, T, K], v [B, H, T, V], g (logs of the gates) and beta [B, H, T], initial_state
    [B, H, K, V]; any T, filled up to whole chunks with steps that change nothing.  Gives `o`
    [B, H, T, V] and `final_state` [B, H, K, V].
    """
    constants = prepare_chunk_helpers(chunk_size, q.dtype)
    B, H, T, _ = q.shape
    q, k, v, g, beta = (pad_steps(x, -T % chunk_size) for x in (q, k, v, g, beta))
    inverse = invert_chunks(k, g, beta, constants)
    output, final_state = torch.empty_like(v), torch.empty_like(initial_state)
    gated_delta_rule_kernel(
        q, k, v, g, beta, inverse, initial_state,
        constants["tril"], constants["mask"], constants["ones"],
        output, final_state, B, H, q.shape[2] // chunk_size, scale,
    )  # fmt: skip
    return {"o": output[:, :, :T], "final_state": final_state}


def torch_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    scale: float,
    chunk_size: int = 64,
) -> Outputs:
    """The same algorithm in torch: all sessions take a chunk together."""
    constants = prepare_chunk_helpers(chunk_size, q.dtype)
    tril, mask = constants["tril"], constants["mask"]
    _B, _H, T, _ = q.shape
    q, k, v, g, beta = (pad_steps(x, -T % chunk_size) for x in (q, k, v, g, beta))
    inverse = invert_chunks(k, g, beta, constants)
    output, state = torch.empty_like(v), initial_state
    for c in range(q.shape[2] // chunk_size):
        steps = slice(c * chunk_size, (c + 1) * chunk_size)
        query, key, value = q[:, :, steps], k[:, :, steps], v[:, :, steps]
        gate, strength = g[:, :, None, steps], beta[:, :, None, steps]
        since_start = (gate @ tril.mT).mT.exp()
        until_end = (gate @ mask).mT.exp()
        between = ((tril * gate) @ mask).exp() * tril
        error = value - since_start * (key @ state)
        update = (inverse[:, :, c] * strength) @ error
        attention = (query @ key.mT) * between
        from_state = since_start * (query @ state)
        output[:, :, steps] = (from_state + attention @ update) * scale
        state = state * gate.sum(-1, keepdim=True).exp() + key.mT @ (update * until_end)
    return {"o": output[:, :, :T], "final_state": state}


@one_thread()
def step_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    scale: float,
) -> Outputs:
    """The golden: the four lines of the definition, one step at a time, in float64."""
    B, H, T, _ = q.shape
    # All heads of all batches take a step together, and a step is a row.
    q, k, v, g, beta = (
        x.double().reshape(B * H, T, 1, -1).transpose(0, 1) for x in (q, k, v, g, beta)
    )
    o, state = walk(q, k, v, g, beta, initial_state.double().flatten(0, 1))
    return {
        "o": scale * o.transpose(0, 1).reshape(B, H, T, -1),
        "final_state": state.reshape(initial_state.shape),
    }


def random_inputs(
    seed: int,
    B: int,
    H: int,
    T: int,
    K: int,
    V: int,
    gated: bool = True,
    closed: tuple[int, ...] = (),
) -> Arguments:
    """Queries and keys of length 1, gates mostly near 1, β in (0, 1), a state that is not zero.

    Without `gated` every gate is 1; steps in `closed` have a log gate of −1e4 and forget the past.
    """
    source = torch.Generator().manual_seed(seed)
    normal = partial(torch.randn, generator=source)
    q, k = (torch.nn.functional.normalize(normal(B, H, T, K), dim=-1) for _ in range(2))
    v, beta, initial_state = normal(B, H, T, V), normal(B, H, T).sigmoid(), normal(B, H, K, V)
    g = torch.nn.functional.logsigmoid(normal(B, H, T) + 3.0) * float(gated)
    g[:, :, list(closed)] = -1e4
    return {
        "q": q, "k": k, "v": v, "g": g, "beta": beta,
        "initial_state": initial_state, "scale": K**-0.5,
    }  # fmt: skip


def case(
    name: str,
    sentence: str,
    sizes: tuple[int, int, int, int, int],
    chunk: int = 64,
    gated: bool = True,
    closed: tuple[int, ...] = (),
) -> Case:
    """A case of B, H, T, K, V = `sizes`; a kilostep and more counts as real-sized."""
    named = dict(zip("BHTKV", sizes, strict=True))
    return Case(
        name=name,
        sentence=sentence,
        sizes=named | {"chunk": chunk},
        inputs=partial(random_inputs, **named, gated=gated, closed=closed),
        run=partial(chunk_gated_delta_rule, chunk_size=chunk),
        golden=step_gated_delta_rule,
        # fp32 sums of a few hundred terms; the same algebra in float32 torch is off by 6e-7.
        tolerances={"o": 1e-5, "final_state": 1e-5},
        size="real" if named["T"] >= 1024 else "quick",
        peer=partial(torch_gated_delta_rule, chunk_size=chunk) if named["T"] >= 1024 else None,
    )


KERNELS = (
    Kernel(
        name="gated_delta_rule",
        sentence="Gated delta rule, forward, in chunks with the state carried from chunk to chunk",
        family="linear attention",
        cases=(
            case("two_heads", "two heads, two chunks", (1, 2, 128, 64, 64)),
            case("chunk_32", "four small chunks", (1, 2, 128, 64, 64), chunk=32),
            case("wide_values", "values wider than keys", (2, 1, 128, 64, 128)),
            case("ragged", "a last chunk that is not full", (1, 2, 100, 64, 64)),
            case("no_gate", "every gate 1: the plain delta rule", (1, 2, 128, 64, 64), gated=False),
            case(
                "closed_gates",
                "log gates of -1e4 first, twice in a row, last and in between",
                (1, 2, 192, 64, 64),
                closed=(0, 20, 21, 63, 64, 100, 191),
            ),
            case("sixteen_sessions", "16 sessions of 1024 steps", (2, 8, 1024, 128, 128)),
        ),
    ),
)
