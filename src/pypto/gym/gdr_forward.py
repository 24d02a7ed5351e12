"""The gated delta rule, forward, complete: all that the model gives it is read in the kernel.

In: packed sequences of any length, each with its own state; queries and keys shared by groups of
value heads; gates from 1 down to 0.  Out: the outputs of all steps, the state after each sequence,
and on demand the state before each chunk, which the backward kernel starts from.
"""

# mypy: disable-error-code="valid-type"
# (the annotations of a kernel are values: pypto.Tensor(shape, dtype))

import torch

import pypto
from pypto.gym.gdr_cases import LAYOUTS, LONG_FORWARD, case, random_inputs
from pypto.gym.gdr_chunk import (
    TILE_COLS,
    TILE_K,
    TILE_M,
    TILE_N,
    TILE_ROWS,
    check_sequences,
    chunk_constants,
    chunk_decays,
    chunk_triangles,
    chunk_updates,
    cut_triangles,
    head_numbers,
    head_rows,
    session_state,
    state_slots,
    unit_rows,
)
from pypto.gym.gdr_golden import step_form
from pypto.gym.record import Kernel, Outputs


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def gdr_forward_kernel(
    q: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    k: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nqk, K]
    v: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V]
    g: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv], logs of the gates
    beta: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC]),  # [T, Nv]
    initial_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V]
    cu_seqlens: pypto.Tensor([pypto.DYNAMIC], pypto.DT_INT32),  # [N + 1]
    tril: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    mask: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    eye: pypto.Tensor([], pypto.DT_FP32),  # [C, C]
    halves: pypto.Tensor([], pypto.DT_FP32),  # [log₂ C, C, C]
    output: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC, pypto.STATIC]),  # [T, Nv, V], written
    final_state: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [N, Nv, K, V], written
    states: pypto.Tensor([pypto.DYNAMIC, ...], pypto.DT_FP32),  # [slots, Nv, K, V], written
    scale: float,
    eps: float,
    l2norm: bool,
    keep_states: bool,
):
    """All N × Nv sessions, each over the chunks of C = tril.shape[0] steps of its sequence."""
    C, K, V = tril.shape[0], q.shape[2], v.shape[2]
    heads, group = v.shape[1], v.shape[1] // q.shape[1]
    pypto.set_vec_tile_shapes(TILE_ROWS, TILE_COLS)
    pypto.set_cube_tile_shapes(TILE_M, TILE_K, TILE_N)
    constants = chunk_triangles(tril, mask, eye, halves)

    for session in pypto.loop(initial_state.shape[0] * heads, name="sessions"):
        b = session // heads
        h = session % heads
        begin = cu_seqlens[b]
        end = cu_seqlens[b + 1]
        state = session_state(initial_state, b, h)

        for c in pypto.loop(pypto.ceildiv(end - begin, C), name="chunks"):
            t = begin + c * C
            n = pypto.min(end - t, C)
            if keep_states:
                slot = begin // C + b + c
                pypto.assemble(state.reshape([1, 1, K, V]), [slot, h, 0, 0], states)

            query, key = head_rows(q, t, h // group, C, n), head_rows(k, t, h // group, C, n)
            if l2norm:
                query, _ = unit_rows(query, eps)
                key, _ = unit_rows(key, eps)
            value = head_rows(v, t, h, C, n)
            gate, strength = head_numbers(g, t, h, C, n), head_numbers(beta, t, h, C, n)

            triangles = cut_triangles(constants, n)
            decays = chunk_decays(gate, triangles)
            update = chunk_updates(key, value, strength, state, decays, triangles).update

            attention = pypto.matmul(query, key, pypto.DT_FP32, b_trans=True) * decays.between
            from_state = pypto.matmul(query, state, pypto.DT_FP32) * decays.since_start
            from_chunk = pypto.matmul(attention, update, pypto.DT_FP32)
            out = pypto.cast((from_state + from_chunk) * scale, output.dtype)
            pypto.assemble(out.reshape([C, 1, V]), [t, h, 0], output)

            written = pypto.matmul(key, update * decays.until_end, pypto.DT_FP32, a_trans=True)
            state = state * decays.whole + written

        pypto.assemble(state.reshape([1, 1, K, V]), [b, h, 0, 0], final_state)


def gdr_forward(
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
    keep_states: bool = False,
) -> Outputs:
    """Run the kernel on torch tensors.

    q, k [T, Nqk, K] and v [T, Nv, V] in float32 or bfloat16, g (logs of the gates, −inf closes one)
    and beta [T, Nv], initial_state [N, Nv, K, V] in float32, cu_seqlens [N + 1] in int32: sequence
    i holds the steps from cu_seqlens[i] to before cu_seqlens[i + 1], perhaps none.  Value head h
    goes with query head h // (Nv / Nqk).  Gives `o` [T, Nv, V] in the type of v, `final_state` in
    float32 and, with `keep_states`, `states`: the one before each chunk, where `state_slots` says.
    Errors: ValueError for heads, sequences or a chunk size that do not fit.
    """
    check_sequences(q, v, initial_state, cu_seqlens)
    slots = state_slots(len(q), len(initial_state), chunk_size) if keep_states else 0
    output, final_state = torch.empty_like(v), torch.empty_like(initial_state)
    states = initial_state.new_empty(slots, *initial_state.shape[1:])
    gdr_forward_kernel(
        q, k, v, g, beta, initial_state, cu_seqlens, *chunk_constants(chunk_size),
        output, final_state, states, scale, eps, l2norm, keep_states,
    )  # fmt: skip
    found = {"o": output, "final_state": final_state}
    return found | {"states": states} if keep_states else found


KERNELS = (
    Kernel(
        name="gdr_forward",
        sentence="Gated delta rule, forward, complete: ragged sequences, grouped heads, any gates",
        family="linear attention",
        cases=tuple(
            case(
                layout,
                inputs=random_inputs,
                run=gdr_forward,
                golden=step_form,
                outputs=("o", "final_state"),
            )
            for layout in (*LAYOUTS, LONG_FORWARD)
        ),
    ),
)
