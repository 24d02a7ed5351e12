"""The gated delta rule, backward: a chunk at a time, from the last to the first.

In: what the forward kernel had, the state before each chunk that it kept, and the gradients of its
outputs and final states.  Out: the gradients of queries, keys, values, log gates, strengths and
initial states.  The updates of a chunk are computed again; its gradients follow from them.
"""

# mypy: disable-error-code="valid-type"
# (the annotations of a kernel are values: pypto.Tensor(shape, dtype))

from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

import pypto
from pypto.gym.gdr_cases import LAYOUTS, LONG_BACKWARD, case, with_output_gradients
from pypto.gym.gdr_chunk import (
    TILE_COLS,
    TILE_K,
    TILE_M,
    TILE_N,
    TILE_ROWS,
    Decays,
    Triangles,
    Updates,
    check_sequences,
    chunk_constants,
    chunk_decays,
    chunk_triangles,
    chunk_updates,
    cut_triangles,
    head_numbers,
    head_rows,
    session_state,
    unit_rows,
)
from pypto.gym.gdr_forward import gdr_forward
from pypto.gym.gdr_golden import step_gradients
from pypto.gym.record import Kernel, Outputs


class Gradients(NamedTuple):
    """The gradients of what goes into a chunk."""

    query: pypto.Tensor  # [n, K]
    key: pypto.Tensor  # [n, K]
    value: pypto.Tensor  # [n, V]
    gate: pypto.Tensor  # [n, 1]
    strength: pypto.Tensor  # [n, 1]
    state: pypto.Tensor  # [K, V]


def chunk_gradients(
    query: pypto.Tensor,
    key: pypto.Tensor,
    strength: pypto.Tensor,
    state: pypto.Tensor,
    decays: Decays,
    updates: Updates,
    triangles: Triangles,
    dout: pypto.Tensor,
    dstate: pypto.Tensor,
) -> Gradients:
    """From the gradients of a chunk's outputs [n, V] and of the state after it [K, V]."""
    FP32 = pypto.DT_FP32
    update, written = updates.update, updates.update * decays.until_end

    # Back through  out = E ⊙ Q S + (Q Kᵀ ⊙ D) U  and  next = whole · S + Kᵀ (until_end ⊙ U).
    attention = pypto.matmul(query, key, FP32, b_trans=True) * decays.between
    asked = pypto.matmul(key, dstate, FP32)
    dupdate = pypto.matmul(attention, dout, FP32, a_trans=True) + asked * decays.until_end
    dattention = pypto.matmul(dout, update, FP32, b_trans=True)

    # Back through  U + β ⊙ overlap U = β ⊙ error,  overlap = K Kᵀ ⊙ D below the diagonal,
    # error = V − E ⊙ K S.  The adjoint of solving is solving with the transpose.
    dsolved = pypto.matmul(updates.inverse, dupdate, FP32, a_trans=True)
    corrected = updates.error - pypto.matmul(updates.overlap, update, FP32)
    dvalue = dsolved * strength
    doverlap = -pypto.matmul(dvalue, update, FP32, b_trans=True)

    # Back through the four products with keys and the two with the state.
    dscores, dgram = dattention * decays.between, doverlap * decays.before
    decayed, drecalled = dout * decays.since_start, -(dvalue * decays.since_start)
    query_by_state = pypto.matmul(decayed, state, FP32, b_trans=True)
    key_by_state = pypto.matmul(drecalled, state, FP32, b_trans=True)
    dkey = pypto.matmul(dgram, key, FP32) + pypto.matmul(dgram, key, FP32, a_trans=True)
    dkey = dkey + pypto.matmul(dscores, query, FP32, a_trans=True)
    dkey = dkey + pypto.matmul(written, dstate, FP32, b_trans=True) + key_by_state
    dwritten = pypto.matmul(query, decayed, FP32, a_trans=True)
    drecall = pypto.matmul(key, drecalled, FP32, a_trans=True)

    return Gradients(
        query=pypto.matmul(dscores, key, FP32) + query_by_state,
        key=dkey,
        value=dvalue,
        gate=gate_gradient(
            between=doverlap * updates.overlap + dattention * attention,
            since_start=(query * query_by_state + key * key_by_state).sum(-1, keepdim=True),
            until_end=(written * asked).sum(-1, keepdim=True),
            whole=(state * dstate).sum(-1, keepdim=True).sum(0, keepdim=True) * decays.whole,
            triangles=triangles,
        ),
        strength=(dsolved * corrected).sum(-1, keepdim=True),
        state=dstate * decays.whole + dwritten + drecall,
    )


def gate_gradient(
    between: pypto.Tensor,
    since_start: pypto.Tensor,
    until_end: pypto.Tensor,
    whole: pypto.Tensor,
    triangles: Triangles,
) -> pypto.Tensor:
    """The gradient of the log gates [n, 1] from those of the logs of the decays.

    A gate l is in the decay between j and i where j < l ≤ i, since the start where l ≤ i, until the
    end where j < l.  These are sums of the terms concerned, each with its decay in it: behind a
    closed gate they are zero, and there is no difference of large sums.
    """
    tril, mask = triangles.tril, triangles.mask
    across = pypto.matmul(tril, between, pypto.DT_FP32, a_trans=True) * mask
    later = pypto.matmul(tril, since_start, pypto.DT_FP32, a_trans=True)
    earlier = pypto.matmul(mask, until_end, pypto.DT_FP32)
    return across.sum(-1, keepdim=True) + later + earlier + whole


def through_unit_rows(
    dunit: pypto.Tensor, unit: pypto.Tensor, shrink: pypto.Tensor
) -> pypto.Tensor:
    """The gradient of rows from that of the rows divided by their length."""
    return (dunit - unit * (unit * dunit).sum(-1, keepdim=True)) * shrink


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def gdr_backward_kernel(
    q: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    k: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    v: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V]
    g: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv], logs of the gates
    beta: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv]
    states: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [slots, Nv, K, V]
    cu_seqlens: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),  # [N + 1]
    do: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V]
    dfinal_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V]
    tril: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    mask: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    eye: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    halves: pypto.Tensor([], pypto.DT_FP32),  # [log₂ C, C, C]
    dq: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [T, Nqk, K], added to
    dk: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [T, Nqk, K], added to
    dv: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V], written
    dg: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv], written
    dbeta: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv], written
    dinitial_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V], written
    scale: float,
    eps: float,
    l2norm: bool,
):
    """All N × Nv sessions, each back over the chunks of C = tril.shape[0] steps of its sequence."""
    C, K, V = tril.shape[0], q.shape[2], v.shape[2]
    heads, group = v.shape[1], v.shape[1] // q.shape[1]
    pypto.set_vec_tile_shapes(TILE_ROWS, TILE_COLS)
    pypto.set_cube_tile_shapes(TILE_M, TILE_K, TILE_N)
    constants = chunk_triangles(tril, mask, eye, halves)

    for session in pypto.loop(dfinal_state.shape[0] * heads, name="sessions"):
        b = session // heads
        h = session % heads
        begin = cu_seqlens[b]
        end = cu_seqlens[b + 1]
        nt = pypto.ceildiv(end - begin, C)
        dstate = session_state(dfinal_state, b, h)

        for i in pypto.loop(nt, name="chunks_reverse"):
            c = nt - 1 - i
            t = begin + c * C
            n = pypto.min(end - t, C)
            state = session_state(states, begin // C + b + c, h)

            query, key = head_rows(q, t, h // group, C, n), head_rows(k, t, h // group, C, n)
            if l2norm:
                query, query_shrink = unit_rows(query, eps)
                key, key_shrink = unit_rows(key, eps)
            value, dout = head_rows(v, t, h, C, n), head_rows(do, t, h, C, n) * scale
            gate, strength = head_numbers(g, t, h, C, n), head_numbers(beta, t, h, C, n)

            triangles = cut_triangles(constants, n)
            decays = chunk_decays(gate, triangles)
            updates = chunk_updates(key, value, strength, state, decays, triangles)
            gradients = chunk_gradients(
                query, key, strength, state, decays, updates, triangles, dout, dstate
            )
            dstate = gradients.state

            dquery, dkey = gradients.query, gradients.key
            if l2norm:
                dquery = through_unit_rows(dquery, query, query_shrink)
                dkey = through_unit_rows(dkey, key, key_shrink)
            # The value heads of a group share their query and key, so they add up.
            pypto.atomic_add(dquery.reshape([C, 1, K]), [t, h // group, 0], dq)
            pypto.atomic_add(dkey.reshape([C, 1, K]), [t, h // group, 0], dk)
            dvalue = pypto.cast(gradients.value, dv.dtype)
            pypto.assemble(dvalue.reshape([C, 1, V]), [t, h, 0], dv)
            pypto.assemble(pypto.cast(gradients.gate, dg.dtype), [t, h], dg)
            pypto.assemble(pypto.cast(gradients.strength, dbeta.dtype), [t, h], dbeta)

        pypto.assemble(dstate.reshape([1, 1, K, V]), [b, h, 0, 0], dinitial_state)


def gdr_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    states: torch.Tensor,
    do: torch.Tensor,
    dfinal_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    scale: float,
    eps: float = 1e-6,
    l2norm: bool = True,
    chunk_size: int = 64,
) -> Outputs:
    """Run the kernel on torch tensors.

    The arguments of `gdr_forward`, with the `states` that it kept at the same chunk size, and the
    gradients `do` [T, Nv, V] and `dfinal_state` [N, Nv, K, V].  Gives `dq`, `dk`, `dv`, `dg`,
    `dbeta` in the types of their tensors and `dinitial_state` in float32.
    """
    check_sequences(q, v, dfinal_state, cu_seqlens)
    dq, dk = torch.zeros_like(q, dtype=torch.float32), torch.zeros_like(k, dtype=torch.float32)
    dv, dg, dbeta = torch.empty_like(v), torch.empty_like(g), torch.empty_like(beta)
    dinitial_state = torch.empty_like(dfinal_state)
    gdr_backward_kernel(
        q, k, v, g, beta, states, cu_seqlens, do, dfinal_state, *chunk_constants(chunk_size),
        dq, dk, dv, dg, dbeta, dinitial_state, scale, eps, l2norm,
    )  # fmt: skip
    return {
        "dq": dq.to(q.dtype), "dk": dk.to(k.dtype), "dv": dv, "dg": dg, "dbeta": dbeta,
        "dinitial_state": dinitial_state,
    }  # fmt: skip


class GatedDeltaRule(torch.autograd.Function):
    """Both kernels as one differentiable function; see `gated_delta_rule`."""

    @staticmethod
    def forward(ctx, q, k, v, g, beta, initial_state, cu_seqlens, settings):
        kept = gdr_forward(
            q, k, v, g, beta, initial_state, cu_seqlens, **settings, keep_states=True
        )
        ctx.save_for_backward(q, k, v, g, beta, kept["states"])
        ctx.rest = settings | {"cu_seqlens": cu_seqlens}
        return kept["o"], kept["final_state"]

    @staticmethod
    @once_differentiable
    def backward(ctx, do, dfinal_state):
        q, k, v, g, beta, states = ctx.saved_tensors
        do, dfinal_state = do.contiguous(), dfinal_state.contiguous()
        found = gdr_backward(q, k, v, g, beta, states, do, dfinal_state, **ctx.rest)
        return *found.values(), None, None


def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    scale: float,
    eps: float = 1e-6,
    l2norm: bool = True,
    chunk_size: int = 64,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`o` and `final_state` of `gdr_forward`, which takes the same arguments, for training.

    Autograd gets the gradients of q, k, v, g, beta and initial_state from the backward kernel.
    """
    settings = {"scale": scale, "eps": eps, "l2norm": l2norm, "chunk_size": chunk_size}
    return GatedDeltaRule.apply(q, k, v, g, beta, initial_state, cu_seqlens, settings)


def gradients_by_kernels(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    do: torch.Tensor,
    dfinal_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    **settings: Any,
) -> Outputs:
    """Gradients of Σ o·do + Σ final_state·dfinal_state, as training gets them."""
    named = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state}
    leaves = {name: x.detach().requires_grad_() for name, x in named.items()}
    found = gated_delta_rule(**leaves, cu_seqlens=cu_seqlens, **settings)
    gradients = torch.autograd.grad(found, list(leaves.values()), (do, dfinal_state))
    return {f"d{name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}


KERNELS = (
    Kernel(
        name="gdr_backward",
        sentence="Gradients of the gated delta rule, chunk by chunk from the last to the first",
        family="linear attention",
        cases=tuple(
            case(
                layout,
                inputs=with_output_gradients,
                run=gradients_by_kernels,
                golden=step_gradients,
                outputs=("dq", "dk", "dv", "dg", "dbeta", "dinitial_state"),
            )
            for layout in (*LAYOUTS, LONG_BACKWARD)
        ),
    ),
)
