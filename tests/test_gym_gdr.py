"""The complete gated delta rule: forward, backward and step by step, against numbers worked by
hand, finite differences, each other, and their golden on random layouts.

Few widths of keys occur: the scale follows from the width, each is a specialisation of its own, and
a kernel with many is worth a note.
"""

import math

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import pypto
from pypto.gym import gdr_backward as backward
from pypto.gym import gdr_forward as forward
from pypto.gym import kernels
from pypto.gym.gated_delta_rule import chunk_gated_delta_rule
from pypto.gym.gated_delta_rule import random_inputs as inputs_of_heads
from pypto.gym.gdr_backward import gated_delta_rule, gradients_by_kernels
from pypto.gym.gdr_cases import Layout, random_inputs, with_output_gradients
from pypto.gym.gdr_chunk import (
    LEAST_GATE,
    chunk_constants,
    chunk_triangles,
    invert_unit_lower,
    state_slots,
)
from pypto.gym.gdr_forward import gdr_forward
from pypto.gym.gdr_golden import Segment, step_form, step_gradients, walk
from pypto.gym.gdr_recurrent import gdr_recurrent
from pypto.gym.record import compare

INF = math.inf
GRADIENTS = ("dq", "dk", "dv", "dg", "dbeta", "dinitial_state")


def chunked(**arguments):
    return gdr_forward(**arguments, chunk_size=8)


FORMS = {"golden": step_form, "chunked": chunked, "recurrent": gdr_recurrent}


def largest_error(found, golden) -> dict[str, float]:
    """Of each output, the largest error by the largest of its golden."""
    assert set(found) == set(golden)
    return {name: compare(name, found[name], golden[name], 0.0).max_rel for name in golden}


def agree(found, golden, tolerance: float) -> None:
    wrong = {name: e for name, e in largest_error(found, golden).items() if not e <= tolerance}
    assert wrong == {}


# Numbers worked by hand.


def steps(k, v, beta=None, gates=None, q=None, state=(0.0, 0.0), scale=1.0):
    """One sequence of one head from plain lists; gates are given as their logs."""
    T = len(k)
    return {
        "q": torch.tensor(q or k).reshape(T, 1, 2),
        "k": torch.tensor(k).reshape(T, 1, 2),
        "v": torch.tensor(v).reshape(T, 1, 1),
        "g": torch.tensor(gates or [0.0] * T).reshape(T, 1),
        "beta": torch.tensor(beta or [1.0] * T).reshape(T, 1),
        "initial_state": torch.tensor(state).reshape(1, 1, 2, 1),
        "cu_seqlens": torch.tensor([0, T], dtype=torch.int32),
        "scale": scale,
        "eps": 0.0,
        "l2norm": False,
    }


TWO_KEYS = [[1.0, 0.0], [0.6, 0.8]]
THREE_STEPS = {
    "k": [*TWO_KEYS, [0.0, 1.0]],
    "v": [2.0, 3.0, 1.0],
    "beta": [1.0, 0.5, 1.0],
    "gates": [0.0, math.log(0.5), 0.0],
    "q": [[1.0, 1.0]] * 3,
}
HAND_WORKED = {
    # S = [2, 0]; it says 1.2 about the second key, so u = 1.8 and S = [3.08, 1.44].
    "no gate is the plain delta rule": (steps(TWO_KEYS, [2.0, 3.0]), [2.0, 3.0], [3.08, 1.44]),
    # The second gate forgets everything: only 3·k₂ is left.
    "gate -1e4": (steps(TWO_KEYS, [2.0, 3.0], gates=[0.0, -1e4]), [2.0, 3.0], [1.8, 2.4]),
    "gate -inf": (steps(TWO_KEYS, [2.0, 3.0], gates=[0.0, -INF]), [2.0, 3.0], [1.8, 2.4]),
    # The first gate forgets the initial state.
    "gate -inf first": (
        steps(TWO_KEYS, [2.0, 3.0], gates=[-INF, 0.0], state=(5.0, 7.0)),
        [2.0, 3.0],
        [3.08, 1.44],
    ),
    # Gate ½: S = [1, 0], u = ½(3 − 0.6) = 1.2, S = [1.72, 0.96]; then u = 1 − 0.96 = 0.04.
    "three steps": (steps(**THREE_STEPS), [2.0, 2.68, 2.72], [1.72, 1.0]),
    # S = [1, 1] → u = 2 − 1, S = [2, 1] → u = 3 − 2, S = [2.6, 1.8]; o = ¼·2, ¼·(1.56 + 1.44).
    "initial state and scale": (
        steps(TWO_KEYS, [2.0, 3.0], state=(1.0, 1.0), scale=0.25),
        [0.5, 0.75],
        [2.6, 1.8],
    ),
    # √(1 + 3) = 2 halves the key and the query.
    "eps": (steps([[1.0, 0.0]], [2.0]) | {"l2norm": True, "eps": 3.0}, [0.5], [1.0, 0.0]),
    # Keys and queries of length 2 and 10 are divided by it.
    "l2norm": (
        steps([[2.0, 0.0], [6.0, 8.0]], [2.0, 3.0]) | {"l2norm": True},
        [2.0, 3.0],
        [3.08, 1.44],
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", HAND_WORKED)
def test_numbers_worked_by_hand(name, form, monkeypatch):
    # Keys of two floats are below the 32 bytes of the chip, which is not the point here.
    monkeypatch.setenv("PYPTO_CHECK", "0")
    arguments, o, state = HAND_WORKED[name]
    found = FORMS[form](**arguments)
    assert found["o"].flatten().tolist() == pytest.approx(o, rel=1e-6)
    assert found["final_state"].flatten().tolist() == pytest.approx(state, rel=1e-6)


def test_gradients_worked_by_hand(monkeypatch):
    monkeypatch.setenv("PYPTO_CHECK", "0")
    # One step from S = [1, 1] with gate ½: S′ = [½, ½], u = ½(3 − ½) = 1.25, S = [1.75, ½];
    # o = 2·1.75 + ½ = 4. With do = 1: dS = q, du = k·q = 2.
    arguments = steps([[1.0, 0.0]], [3.0], [0.5], [math.log(0.5)], q=[[2.0, 1.0]], state=(1.0, 1.0))
    arguments |= {"do": torch.ones(1, 1, 1), "dfinal_state": torch.zeros(1, 1, 2, 1)}
    expected = {
        "dq": [1.75, 0.5],  # S
        "dk": [2.0, 0.75],  # u·q − du·β·S′ = 1.25·[2, 1] − 1·[½, ½]
        "dv": [1.0],  # β·du
        "dbeta": [5.0],  # (3 − ½)·du
        "dinitial_state": [0.5, 0.5],  # ½·(q − du·β·k)
        "dg": [1.0],  # S₀·dS₀
    }
    for gradients in (step_gradients(**arguments), gradients_by_kernels(**arguments, chunk_size=8)):
        found = {name: x.flatten().tolist() for name, x in gradients.items()}
        assert found == {name: pytest.approx(x, rel=1e-6) for name, x in expected.items()}


# Finite differences.

TINY = Layout("tiny", "", (4,), Nqk=1, Nv=2, K=2, V=2, chunk=8)


@pytest.mark.parametrize("l2norm", [True, False])
def test_gradients_are_those_of_finite_differences(l2norm, monkeypatch):
    monkeypatch.setenv("PYPTO_CHECK", "0")
    arguments = with_output_gradients(TINY, 0) | {"l2norm": l2norm}
    do, dfinal_state = arguments["do"], arguments["dfinal_state"]
    forward_only = {
        name: x.double() if torch.is_tensor(x) and x.is_floating_point() else x
        for name, x in arguments.items()
        if name not in ("do", "dfinal_state")
    }

    def objective(name: str, shifted: torch.Tensor) -> float:
        found = step_form(**forward_only | {name: shifted})
        return float((found["o"] * do).sum() + (found["final_state"] * dfinal_state).sum())

    differences = {}
    for name in ("q", "k", "v", "g", "beta", "initial_state"):
        x, step = forward_only[name], 1e-5
        slope = torch.empty_like(x)
        for i in range(x.numel()):
            shift = torch.zeros_like(x)
            shift.view(-1)[i] = step
            rise = objective(name, x + shift) - objective(name, x - shift)
            slope.view(-1)[i] = rise / (2 * step)
        differences[f"d{name}"] = slope
    assert all(slope.abs().min() > 0 for slope in differences.values())
    agree(step_gradients(**arguments), differences, 1e-8)
    agree(gradients_by_kernels(**arguments, chunk_size=8), differences, 1e-5)


def test_segments_have_the_gradients_of_their_steps():
    normal = torch.Generator().manual_seed(3)
    shapes = [(5, 2, 1, 4), (5, 2, 1, 4), (5, 2, 1, 3), (5, 2, 1, 1), (5, 2, 1, 1), (2, 4, 3)]
    inputs = [
        torch.randn(s, generator=normal, dtype=torch.float64).requires_grad_() for s in shapes
    ]
    found, plain = Segment.apply(*inputs), walk(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))
    weights = [torch.randn(x.shape, generator=normal, dtype=torch.float64) for x in plain]
    by_segment = torch.autograd.grad(found, inputs, weights)
    for a, b in zip(by_segment, torch.autograd.grad(plain, inputs, weights), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


# Ragged sequences.

THREE = Layout("three", "", (57, 2, 5), Nqk=2, Nv=4, K=32, V=32)


def of_sequence(arguments, i: int):
    """The arguments of sequence i alone, in memory of their own."""
    begin, end = arguments["cu_seqlens"][i : i + 2].tolist()
    alone = dict(arguments)
    for name in ("q", "k", "v", "g", "beta", "do"):
        if name in arguments:
            alone[name] = arguments[name][begin:end].clone()
    for name in ("initial_state", "dfinal_state"):
        if name in arguments:
            alone[name] = arguments[name][i : i + 1].clone()
    return alone | {"cu_seqlens": torch.tensor([0, end - begin], dtype=torch.int32)}


def joined(parts):
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("chunk_size", [128, 64, 16])
def test_ragged_sequences_are_separate_sequences(chunk_size):
    arguments = with_output_gradients(THREE, 0)
    assert arguments["cu_seqlens"].tolist() == [0, 57, 59, 64]
    apart = [of_sequence(arguments, i) for i in range(3)]

    found = gradients_by_kernels(**arguments, chunk_size=chunk_size)
    agree(
        found, joined([gradients_by_kernels(**one, chunk_size=chunk_size) for one in apart]), 1e-6
    )
    for one in (arguments, *apart):
        del one["do"], one["dfinal_state"]
    found = gdr_forward(**arguments, chunk_size=chunk_size)
    agree(found, joined([gdr_forward(**one, chunk_size=chunk_size) for one in apart]), 1e-6)
    agree(gdr_recurrent(**arguments), joined([gdr_recurrent(**one) for one in apart]), 1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_no_state_reaches_the_next_sequence(form):
    arguments = random_inputs(THREE, 0)
    whole = FORMS[form](**arguments)
    arguments["v"][:57] += 100.0
    arguments["initial_state"][0] -= 100.0
    changed = FORMS[form](**arguments)
    assert torch.equal(whole["o"][57:], changed["o"][57:])
    assert torch.equal(whole["final_state"][1:], changed["final_state"][1:])
    assert float((whole["o"][:57] - changed["o"][:57]).abs().min()) > 0


@pytest.mark.parametrize("form", FORMS)
def test_empty_sequences_keep_their_state(form):
    arguments = random_inputs(Layout("empty", "", (0, 9, 0), K=32, V=32), 0)
    found = FORMS[form](**arguments)
    initial = arguments["initial_state"].to(found["final_state"].dtype)
    assert torch.equal(found["final_state"][[0, 2]], initial[[0, 2]])
    assert not torch.equal(found["final_state"][1], initial[1])


def test_sequences_without_any_step():
    arguments = with_output_gradients(Layout("nothing", "", (0, 0), K=32, V=32), 0)
    gradients = gradients_by_kernels(**arguments, chunk_size=64)
    assert gradients["dq"].shape == (0, 2, 32)
    assert torch.equal(gradients["dinitial_state"], arguments["dfinal_state"])
    del arguments["do"], arguments["dfinal_state"]
    for form in FORMS.values():
        found = form(**arguments)
        assert found["o"].shape == (0, 4, 32)
        assert torch.equal(found["final_state"].float(), arguments["initial_state"])


def test_one_trace_serves_all_lengths():
    def run(lengths):
        layout = Layout("any", "", lengths, Nqk=1, Nv=1, K=16, V=40, chunk=24)
        gradients_by_kernels(**with_output_gradients(layout, 0), chunk_size=24)

    run((5,))
    counts = forward.gdr_forward_kernel.compile_count, backward.gdr_backward_kernel.compile_count
    run((100, 3, 0, 24))
    assert counts == (
        forward.gdr_forward_kernel.compile_count,
        backward.gdr_backward_kernel.compile_count,
    )


gate_values = st.sampled_from([0.0, -0.1, -3.0, -109.0, -111.0, -1e4, -INF])


# An example takes a tenth of a second: no time for Hypothesis to explain what it has minimised.
@settings(max_examples=20, deadline=None, phases=set(Phase) - {Phase.explain})
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    closed=st.lists(st.tuples(st.integers(0, 159), gate_values), max_size=12),
    seed=st.integers(0, 1000),
)
@example(lengths=[1], closed=[(0, -109.0)], seed=0)  # a golden that FP32 has no number for
def test_random_layouts_agree_with_the_golden(lengths, closed, seed):
    T = sum(lengths)
    layout = Layout(
        "random", "", tuple(lengths), Nqk=1, Nv=2, K=16, V=24, chunk=16,
        closed=tuple((step, gate) for step, gate in closed if step < T),
    )  # fmt: skip
    arguments = with_output_gradients(layout, seed)
    agree(gradients_by_kernels(**arguments, chunk_size=16), step_gradients(**arguments), 1e-4)
    del arguments["do"], arguments["dfinal_state"]
    golden = step_form(**arguments)
    agree(gdr_forward(**arguments, chunk_size=16), golden, 1e-4)
    agree(gdr_recurrent(**arguments), golden, 1e-4)


# Gates.


def test_the_least_gate_is_closed_in_fp32():
    assert float(torch.tensor(LEAST_GATE).exp()) == 0.0


@pytest.mark.parametrize("gate", [-INF, -1e4, LEAST_GATE])
def test_closed_gates_have_no_gradient_and_give_no_nan(gate):
    closed = [0, 10, 11, 63, 64, 99]
    layout = Layout("closed", "", (100,), K=32, V=32, closed=tuple((t, gate) for t in closed))
    found = gradients_by_kernels(**with_output_gradients(layout, 0), chunk_size=64)
    assert all(bool(x.isfinite().all()) for x in found.values())
    assert found["dg"][closed].abs().max() == 0.0
    assert found["dinitial_state"].abs().max() == 0.0
    is_open = [t for t in range(100) if t not in closed]
    assert float(found["dg"][is_open].abs().min()) > 0.0


def test_digits_behind_closed_gates_are_kept():
    """A running sum of −110s has lost five digits; every other gate here must still count."""
    layout = Layout("alternating", "", (64,), closed=tuple((t, -INF) for t in range(0, 64, 2)))
    arguments = random_inputs(layout, 0)
    agree(gdr_forward(**arguments), step_form(**arguments), 1e-6)


# Groups, and the forms beside each other.


def test_value_heads_share_the_query_head_of_their_group():
    grouped = with_output_gradients(Layout("grouped", "", (70,), Nqk=2, Nv=6, K=32, V=32), 0)
    own = dict(grouped)
    for name in ("q", "k"):
        own[name] = grouped[name][:, [0, 0, 0, 1, 1, 1]].contiguous()
    found = gradients_by_kernels(**grouped, chunk_size=64)
    of_own = gradients_by_kernels(**own, chunk_size=64)
    for name in ("dq", "dk"):
        of_own[name] = of_own[name].unflatten(1, (2, 3)).sum(2)
    agree(found, of_own, 1e-6)


def test_the_first_kernel_of_the_library_gives_the_same():
    heads = inputs_of_heads(0, B=1, H=2, T=100, K=32, V=32)
    first = chunk_gated_delta_rule(**heads)
    packed = {name: heads[name][0].transpose(0, 1).contiguous() for name in "qkvg"}
    found = gdr_forward(
        **packed,
        beta=heads["beta"][0].T.contiguous(),
        initial_state=heads["initial_state"],
        cu_seqlens=torch.tensor([0, 100], dtype=torch.int32),
        scale=heads["scale"],
        l2norm=False,
    )
    agree({"o": found["o"].transpose(0, 1)[None], "final_state": found["final_state"]}, first, 1e-6)


def test_kept_states_are_those_before_each_chunk():
    arguments = random_inputs(Layout("kept", "", (20, 0, 33), Nqk=1, Nv=2, K=16, V=16), 0)
    states = gdr_forward(**arguments, chunk_size=16, keep_states=True)["states"]
    assert len(states) == state_slots(steps=53, sequences=3, chunk_size=16) == 6
    for i, begin, length in ((0, 0, 20), (2, 20, 33)):
        alone = of_sequence(arguments, i)
        for c in range(math.ceil(length / 16)):
            until = {name: alone[name][: c * 16] for name in ("q", "k", "v", "g", "beta")}
            until["cu_seqlens"] = torch.tensor([0, c * 16], dtype=torch.int32)
            golden = step_form(**alone | until)["final_state"]
            found = states[begin // 16 + i + c][None]
            agree({"state": found}, {"state": golden}, 1e-6)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.sampled_from([8, 16, 64]))
def test_every_chunk_state_has_a_slot_of_its_own(lengths, C):
    taken, begin = [], 0
    for b, length in enumerate(lengths):
        taken += [begin // C + b + c for c in range(math.ceil(length / C))]
        begin += length
    assert len(set(taken)) == len(taken)
    assert all(0 <= slot < state_slots(begin, len(lengths), C) for slot in taken)


def test_autograd_takes_gradients_from_the_kernels():
    arguments = random_inputs(Layout("trained", "", (70,), K=32, V=32), 0)
    arguments["v"].requires_grad_()
    o, final_state = gated_delta_rule(**arguments)
    # The gradient of a sum is one number seen from every element; no gradient comes to the state.
    o.sum().backward()
    ones = {"do": torch.ones_like(o), "dfinal_state": torch.zeros_like(final_state)}
    golden = step_gradients(**arguments | ones)
    agree({"dv": arguments["v"].grad}, {"dv": golden["dv"]}, 1e-5)
    assert arguments["q"].grad is None


# The inverse.


@pypto.frontend.jit
def invert_kernel(
    below: pypto.Tensor([], pypto.DT_FP32),
    tril: pypto.Tensor([], pypto.DT_FP32),
    mask: pypto.Tensor([], pypto.DT_FP32),
    eye: pypto.Tensor([], pypto.DT_FP32),
    halves: pypto.Tensor([], pypto.DT_FP32),
    inverse: pypto.Tensor([], pypto.DT_FP32),
):
    pypto.set_vec_tile_shapes(64, 64)
    pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])
    inverse[:] = invert_unit_lower(below, chunk_triangles(tril, mask, eye, halves))


def invert(below):
    inverse = torch.empty_like(below)
    invert_kernel(below, *chunk_constants(len(below)), inverse)
    return inverse


@pytest.mark.parametrize("C", [8, 24, 64, 128])
def test_inverse_of_all_ones_is_exact(C):
    # Powers of this triangle grow to binomial coefficients, 1e17 for 64 rows; its inverse has the
    # entries 1 and −1 alone.
    expected = torch.eye(C) - torch.diag(torch.ones(C - 1), -1)
    assert torch.equal(invert(torch.ones(C, C).tril(-1)), expected)


@pytest.mark.parametrize("C", [8, 24, 64, 128])
def test_inverse_of_overlapping_keys_is_exact_to_rounding(C):
    normal = torch.Generator().manual_seed(0)
    keys = torch.randn(1, 16, generator=normal) + 0.5 * torch.randn(C, 16, generator=normal)
    keys = torch.nn.functional.normalize(keys, dim=-1)
    below = (keys @ keys.T).tril(-1)
    exact = torch.linalg.inv(torch.eye(C, dtype=torch.float64) + below.double())
    error = float((invert(below) - exact).abs().max() / exact.abs().max())
    assert error < 1e-6


def test_inverse_worked_by_hand():
    below = torch.zeros(8, 8)
    below[1, 0], below[2, 0], below[2, 1], below[7, 2] = 2.0, 3.0, 4.0, 5.0
    expected = torch.eye(8)
    # Row 2 is e₂ − 3·e₀ − 4·(e₁ − 2·e₀); row 7 is e₇ − 5·(row 2).
    expected[1, 0] = -2.0
    expected[2, 0], expected[2, 1] = 5.0, -4.0
    expected[7, 0], expected[7, 1], expected[7, 2] = -25.0, 20.0, -5.0
    assert torch.equal(invert(below), expected)


def test_constants_of_a_chunk():
    tril, mask, eye, halves = chunk_constants(24)
    assert torch.equal(tril, torch.ones(24, 24).tril())
    assert torch.equal(mask, tril - torch.eye(24))
    assert torch.equal(eye, torch.eye(24))
    # Each place below the diagonal is joined once.
    assert halves.shape == (5, 24, 24)
    assert torch.equal(halves.sum(0), mask)
    assert halves[0].nonzero().tolist() == [[i + 1, i] for i in range(0, 24, 2)]


# What is refused, and what is declared.


@pytest.mark.parametrize("form", [gdr_forward, gdr_recurrent])
@pytest.mark.parametrize(
    "change, text",
    [
        ({"q": torch.zeros(9, 3, 32)}, "4 heads of v are no multiple of 3 heads of q"),
        ({"cu_seqlens": [0, 9, 8]}, r"cu_seqlens must rise from 0 to the 9 steps, got \[0, 9, 8\]"),
        ({"cu_seqlens": [1, 4, 9]}, r"cu_seqlens must rise from 0 to the 9 steps, got \[1, 4, 9\]"),
        ({"cu_seqlens": [0, 4, 8]}, r"cu_seqlens must rise from 0 to the 9 steps, got \[0, 4, 8\]"),
        ({"cu_seqlens": [0, 9]}, "1 sequences need as many states, got 2"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(form, change, text):
    arguments = random_inputs(Layout("refused", "", (4, 5), K=32, V=32), 0)
    for name, value in change.items():
        tensor = torch.is_tensor(value)
        arguments[name] = value if tensor else torch.tensor(value, dtype=torch.int32)
    with pytest.raises(ValueError, match=text):
        form(**arguments)


@pytest.mark.parametrize("chunk_size", [12, 4, 0, -8])
def test_chunk_sizes_are_multiples_of_eight(chunk_size):
    arguments = random_inputs(Layout("refused", "", (4,), K=32, V=32), 0)
    text = f"chunk_size must be a positive multiple of 8, got {chunk_size}"
    with pytest.raises(ValueError, match=text):
        gdr_forward(**arguments, chunk_size=chunk_size)


def test_the_cases_cover_what_the_library_promises():
    library = kernels()
    for name, longest in (("gdr_forward", 32768), ("gdr_backward", 8192)):
        cases = {case.name: case for case in library[name].cases}
        lengths = {case.sizes["T"] for case in cases.values() if case.sizes["N"] == 1}
        assert lengths >= {1, 63, 64, 65, 100, 1026, longest}
        assert cases["steps_1026"].sizes["Nv"] == 4
        for case in cases.values():
            expected = 2e-2 if case.name.startswith("bf16") else 1e-4
            assert set(case.tolerances.values()) == {expected}
    assert {case.name for case in library["gdr_recurrent"].cases} >= {"decode", "speculate"}


def test_dtypes_of_bf16_cases():
    (case,) = [case for case in kernels()["gdr_backward"].cases if case.name == "bf16"]
    arguments = case.inputs(0)
    found = case.run(**arguments)
    assert {name: str(x.dtype) for name, x in found.items()} == {
        "dq": "torch.bfloat16", "dk": "torch.bfloat16", "dv": "torch.bfloat16",
        "dbeta": "torch.bfloat16", "dg": "torch.float32", "dinitial_state": "torch.float32",
    }  # fmt: skip
    del arguments["do"], arguments["dfinal_state"]
    assert gdr_forward(**arguments)["o"].dtype is gdr_recurrent(**arguments)["o"].dtype
    assert gdr_forward(**arguments)["o"].dtype is torch.bfloat16
