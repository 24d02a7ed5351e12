"""The gated delta rule one step at a time: the form for decoding.

In: the arguments of the chunked forward kernel; each sequence brings a step or a few.  Out: the
same outputs and final states.  A chunk would be mostly empty here, so nothing is multiplied by a
cube: a step reads and changes its state by vector ops alone.
"""

# mypy: disable-error-code="valid-type"
# (the annotations of a kernel are values: pypto.Tensor(shape, dtype))

import torch

import pypto
from pypto.gym.gdr_cases import DECODING, LAYOUTS, case, random_inputs
from pypto.gym.gdr_chunk import (
    check_sequences,
    head_numbers,
    head_rows,
    session_state,
    unit_rows,
)
from pypto.gym.gdr_golden import step_form
from pypto.gym.record import Kernel, Outputs

# 64 × 64 floats of the state are 16 KiB: state, its new value and their product take a quarter of
# the unified buffer. A tail of 64 floats is 256 bytes.
TILE_ROWS, TILE_COLS = 64, 64


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def gdr_recurrent_kernel(
    q: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    k: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    v: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V]
    g: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv], logs of the gates
    beta: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv]
    initial_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V]
    cu_seqlens: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),  # [N + 1]
    output: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V], written
    final_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V], written
    scale: float,
    eps: float,
    l2norm: bool,
):
    """All N × Nv sessions, each over the steps of its sequence."""
    K, V = q.shape[2], v.shape[2]
    heads, group = v.shape[1], v.shape[1] // q.shape[1]
    pypto.set_vec_tile_shapes(TILE_ROWS, TILE_COLS)

    for session in pypto.loop(initial_state.shape[0] * heads, name="sessions"):
        b = session // heads
        h = session % heads
        state = session_state(initial_state, b, h)

        for t in pypto.loop(cu_seqlens[b], cu_seqlens[b + 1], name="steps"):
            query, key = head_rows(q, t, h // group, 1, 1), head_rows(k, t, h // group, 1, 1)
            if l2norm:
                query, _ = unit_rows(query, eps)
                key, _ = unit_rows(key, eps)
            query, key = query.reshape([K, 1]), key.reshape([K, 1])
            value = head_rows(v, t, h, 1, 1)
            gate, strength = head_numbers(g, t, h, 1, 1), head_numbers(beta, t, h, 1, 1)

            state = state * gate.exp()
            recalled = (state * key).sum(0, keepdim=True)
            state = state + key * ((value - recalled) * strength)
            out = (state * query).sum(0, keepdim=True) * scale
            pypto.assemble(pypto.cast(out, output.dtype).reshape([1, 1, V]), [t, h, 0], output)

        pypto.assemble(state.reshape([1, 1, K, V]), [b, h, 0, 0], final_state)


def gdr_recurrent(
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
) -> Outputs:
    """Run the kernel on torch tensors: arguments, results and errors are those of `gdr_forward`."""
    check_sequences(q, v, initial_state, cu_seqlens)
    output, final_state = torch.empty_like(v), torch.empty_like(initial_state)
    gdr_recurrent_kernel(
        q, k, v, g, beta, initial_state, cu_seqlens, output, final_state, scale, eps, l2norm
    )
    return {"o": output, "final_state": final_state}


KERNELS = (
    Kernel(
        name="gdr_recurrent",
        sentence="Gated delta rule one step at a time, for decoding",
        family="linear attention",
        cases=tuple(
            case(
                layout,
                inputs=random_inputs,
                run=gdr_recurrent,
                golden=step_form,
                outputs=("o", "final_state"),
                chunked=False,
            )
            for layout in (*DECODING, *LAYOUTS)
            if not layout.name.startswith("chunk_")
        ),
    ),
)
