"""What the kernels of the gated delta rule are judged by: its definition, a step at a time.

In: packed sequences, as the kernels take them.  Out: outputs and states in float64, and by
autograd the gradients.  Nothing here knows of chunks; gates are not clamped.
"""

import torch
from torch.utils.checkpoint import checkpoint

from pypto.gym.record import Outputs

# Autograd keeps the steps of one segment at a time and recomputes them from the state before it.
SEGMENT = 64


def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    """x / √(Σx² + eps) along the last axis."""
    return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()


def walk(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    state: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Some steps of all heads: q, k [steps, H, 1, K], v [steps, H, 1, V], g, beta [steps, H, 1, 1].

    From the state [H, K, V] to the outputs [steps, H, 1, V] and the state after them.
    """
    outputs = []
    for t in range(len(q)):
        state = state * g[t].exp()
        update = beta[t] * (v[t] - k[t] @ state)
        state = torch.baddbmm(state, k[t].mT, update)  # state + kᵀ update
        outputs.append(q[t] @ state)
    return torch.stack(outputs), state


def step_form(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    scale: float,
    eps: float,
    l2norm: bool,
) -> Outputs:
    """`o` [T, Nv, V] and `final_state` [N, Nv, K, V] in float64, differentiable."""
    heads, group = v.shape[1], v.shape[1] // q.shape[1]
    q, k, v, g, beta, state = (x.double() for x in (q, k, v, g, beta, initial_state))
    if l2norm:
        q, k = normalised(q, eps), normalised(k, eps)
    q, k = (x.repeat_interleave(group, dim=1).unsqueeze(2) for x in (q, k))
    rows = (q, k, v.unsqueeze(2), g[..., None, None], beta[..., None, None])
    outputs, final_states = [v.new_empty(0, heads, 1, v.shape[-1])], []
    ends = cu_seqlens.tolist()
    for begin, end, now in zip(ends, ends[1:], state, strict=False):
        for t in range(begin, end, SEGMENT):
            segment = [x[t : min(t + SEGMENT, end)] for x in rows]
            o, now = checkpoint(walk, *segment, now, use_reentrant=False)
            outputs.append(o)
        final_states.append(now)
    return {"o": scale * torch.cat(outputs).squeeze(2), "final_state": torch.stack(final_states)}


def step_gradients(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    do: torch.Tensor,
    dfinal_state: torch.Tensor,
    cu_seqlens: torch.Tensor,
    scale: float,
    eps: float,
    l2norm: bool,
) -> Outputs:
    """Gradients of Σ o·do + Σ final_state·dfinal_state in float64, by autograd through the steps."""
    named = dict(q=q, k=k, v=v, g=g, beta=beta, initial_state=initial_state)
    leaves = {name: x.detach().double().requires_grad_() for name, x in named.items()}
    found = step_form(**leaves, cu_seqlens=cu_seqlens, scale=scale, eps=eps, l2norm=l2norm)
    gradients = torch.autograd.grad(
        [found["o"], found["final_state"]],
        list(leaves.values()),
        [do.double(), dfinal_state.double()],
    )
    return {f"d{name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}
