"""What the kernels of the gated delta rule are judged by: its definition, a step at a time.

In: packed sequences, as the kernels take them.  Out: outputs and states in float64, and by
autograd the gradients.  Nothing here knows of chunks; gates are not clamped.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.autograd.function import once_differentiable

from pypto.gym.record import Outputs

# Autograd would keep the states of all steps: a gigabyte for 8192 steps of one head. Here it keeps
# those between segments, and those of the steps for one segment at a time.
SEGMENT = 64


@contextmanager
def one_thread() -> Iterator[None]:
    """Steps are too small to share: waking a second thread takes longer than what it computes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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
    for query, key, value, gate, strength in zip(q, k, v, g, beta, strict=True):
        state = state * gate.exp()
        update = strength * (value - key @ state)
        state = torch.baddbmm(state, key.mT, update)  # state + keyᵀ update
        outputs.append(query @ state)
    return torch.stack(outputs), state


class Segment(torch.autograd.Function):
    """`walk` that remembers its inputs alone and walks again when gradients are asked for."""

    @staticmethod
    def forward(ctx, *inputs):
        ctx.save_for_backward(*inputs)
        return walk(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
        with torch.enable_grad():
            found = walk(*inputs)
        return torch.autograd.grad(found, inputs, gradients)


def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Rows x divided by √(Σx² + eps)."""
    return x / (x.square().sum(-1, keepdim=True) + eps).sqrt()


@one_thread()
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
    """`o` [T, Nv, V] and `final_state` [N, Nv, K, V] in float64, differentiable.

    The arguments are those of `gdr_forward`.
    """
    group = v.shape[1] // q.shape[1]
    q, k, v, g, beta, initial_state = (x.double() for x in (q, k, v, g, beta, initial_state))
    if l2norm:
        q, k = normalised(q, eps), normalised(k, eps)
    q, k = (x.repeat_interleave(group, dim=1) for x in (q, k))
    rows = (q[:, :, None], k[:, :, None], v[:, :, None], g[..., None, None], beta[..., None, None])
    lengths = cu_seqlens.diff().tolist()
    outputs, final_states = [v[:0, :, None]], []
    for state, *sequence in zip(initial_state, *(x.split(lengths) for x in rows), strict=True):
        for segment in zip(*(x.split(SEGMENT) for x in sequence), strict=True):
            if len(segment[0]):
                o, state = Segment.apply(*segment, state)
                outputs.append(o)
        final_states.append(state)
    return {"o": scale * torch.cat(outputs)[:, :, 0], "final_state": torch.stack(final_states)}


@one_thread()
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
    """Gradients of Σ o·do + Σ final_state·dfinal_state in float64, by autograd."""
    named = {"q": q, "k": k, "v": v, "g": g, "beta": beta, "initial_state": initial_state}
    leaves = {name: x.detach().double().requires_grad_() for name, x in named.items()}
    found = step_form(**leaves, cu_seqlens=cu_seqlens, scale=scale, eps=eps, l2norm=l2norm)
    gradients = torch.autograd.grad(
        [found["o"], found["final_state"]],
        list(leaves.values()),
        [do.double(), dfinal_state.double()],
        materialize_grads=True,  # without any step, most inputs reach no output
    )
    return {f"d{name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}
