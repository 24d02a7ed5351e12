"""The kernels of the gym against their goldens, and the goldens against numbers worked by hand."""

import math

import pytest
import torch

from pypto.gym import FAMILIES, kernels
from pypto.gym.gated_delta_rule import (
    chunk_gated_delta_rule,
    invert_chunks,
    prepare_chunk_helpers,
    random_inputs,
    step_gated_delta_rule,
    torch_gated_delta_rule,
)
from pypto.gym.record import Case, Kernel, check, compare

GYM = kernels()
CASES = [(kernel, case) for kernel in GYM.values() for case in kernel.cases]
QUICK = [pair for pair in CASES if pair[1].size == "quick"]
REAL = [pair for pair in CASES if pair[1].size == "real"]


def name_of(pair) -> str:
    return f"{pair[0].name}-{pair[1].name}"


# Kernels of the library are models for others: nothing about them is worth a note.
@pytest.mark.filterwarnings("error::pypto.error.PyptoWarning")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("pair", QUICK, ids=name_of)
def test_quick_cases_agree_with_their_golden(pair, seed):
    verdict = check(*pair, seed=seed)
    assert {one.output: one.max_rel for one in verdict.comparisons if not one.passed} == {}
    assert verdict.passed


@pytest.mark.filterwarnings("error::pypto.error.PyptoWarning")
@pytest.mark.parametrize("pair", REAL, ids=name_of)
def test_real_sized_cases_agree_with_their_golden(pair):
    verdict = check(*pair)
    assert {one.output: one.max_rel for one in verdict.comparisons if not one.passed} == {}
    assert verdict.passed


def test_real_sized_cases_have_the_sizes_of_a_model():
    sizes = {kernel.name: dict(case.sizes) for kernel, case in REAL}
    assert sizes == {
        "gated_delta_rule": {"B": 2, "H": 8, "T": 1024, "K": 128, "V": 128, "chunk": 64},
        "gdr_forward": {"N": 1, "T": 32768, "Nqk": 1, "Nv": 1, "K": 128, "V": 128, "chunk": 64},
        "gdr_backward": {"N": 1, "T": 8192, "Nqk": 1, "Nv": 1, "K": 64, "V": 64, "chunk": 64},
    }


# The records.


def test_names_are_unique_and_every_kernel_has_quick_cases():
    records = [kernel.name for kernel in GYM.values()]
    assert len(set(records)) == len(records) >= len(FAMILIES)
    for kernel in GYM.values():
        names = [case.name for case in kernel.cases]
        assert len(set(names)) == len(names)
        assert any(case.size == "quick" for case in kernel.cases)


@pytest.mark.parametrize("pair", QUICK, ids=name_of)
def test_inputs_depend_on_the_seed_alone(pair):
    first, again, other = (pair[1].inputs(seed) for seed in (7, 7, 8))
    assert list(first) == list(again) == list(other)
    tensors = [name for name, value in first.items() if isinstance(value, torch.Tensor)]
    assert all(torch.equal(first[name], again[name]) for name in tensors)
    assert any(not torch.equal(first[name], other[name]) for name in tensors)


def test_the_inputs_of_a_case_are_not_written():
    for kernel, case in QUICK:
        arguments = case.inputs(0)
        case.run(**arguments)
        for name, value in case.inputs(0).items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, arguments[name]), (kernel.name, case.name, name)


def record(found, golden, tolerance=0.1) -> tuple[Kernel, Case]:
    case = Case(
        name="one",
        sentence="",
        sizes={},
        inputs=lambda seed: {"x": torch.tensor(float(seed))},
        run=lambda x: {"y": torch.tensor(found) + x},
        golden=lambda x: {"y": torch.tensor(golden) + x},
        tolerances={"y": tolerance},
    )
    return Kernel("k", "", "", (case,)), case


def test_errors_are_measured_against_the_largest_golden():
    verdict = check(*record([1.0, 4.5], [1.25, 4.0]))
    (one,) = verdict.comparisons
    assert (one.output, one.shape, one.dtype) == ("y", (2,), "float32")
    assert (one.max_abs, one.max_rel, one.passed, verdict.passed) == (0.5, 0.125, False, False)
    assert check(*record([1.0, 4.5], [1.25, 4.0], tolerance=0.125)).passed
    # The seed reaches the inputs: 1 more on both sides leaves 0.5 of 5.
    assert check(*record([1.0, 4.5], [1.25, 4.0]), seed=1).comparisons[0].max_rel == 0.1


@pytest.mark.parametrize("found, golden", [([math.nan], [1.0]), ([1.0], [math.nan])])
def test_a_nan_never_agrees(found, golden):
    verdict = check(*record(found, golden, tolerance=math.inf))
    assert math.isnan(verdict.comparisons[0].max_rel)
    assert not verdict.passed


def test_a_golden_of_zeros_is_measured_absolutely():
    one = compare("y", torch.tensor([0.25]), torch.tensor([0.0]), 0.5)
    assert (one.max_abs, one.max_rel, one.passed) == (0.25, 0.25, True)


def test_a_wrong_shape_is_no_comparison():
    with pytest.raises(ValueError, match=r"output y has shape \[2\], its golden \[2, 1\]"):
        compare("y", torch.zeros(2), torch.zeros(2, 1), 1.0)


def test_outputs_and_tolerances_must_be_the_same_names():
    kernel, case = record([1.0], [1.0])
    wrong = Case(**{**vars(case), "tolerances": {"z": 0.1}})
    with pytest.raises(ValueError, match=r"k one: .*\['y'\].*\['y'\].*\['z'\]"):
        check(kernel, wrong)


# The gated delta rule.


def steps(k, v, beta=None, gates=None, q=None):
    """One head from plain lists; gates are given as their logs, the state starts at zero."""
    T, K = len(k), len(k[0])
    return {
        "q": torch.tensor(q or k).reshape(1, 1, T, K),
        "k": torch.tensor(k).reshape(1, 1, T, K),
        "v": torch.tensor(v).reshape(1, 1, T, 1),
        "g": torch.tensor(gates or [0.0] * T).reshape(1, 1, T),
        "beta": torch.tensor(beta or [1.0] * T).reshape(1, 1, T),
        "initial_state": torch.zeros(1, 1, K, 1),
        "scale": 1.0,
    }


# S after step 1 is [2, 0].  Step 2 reads 1.2 there, so u = 3 − 1.2 = 1.8 and S = [3.08, 1.44].
TWO_STEPS = steps(k=[[1.0, 0.0], [0.6, 0.8]], v=[2.0, 3.0])
HAND_WORKED = {
    "two_steps": (TWO_STEPS, [2.0, 3.0], [3.08, 1.44]),
    # The second gate forgets everything: only 3·k₂ is left.
    "closed": (
        steps(k=[[1.0, 0.0], [0.6, 0.8]], v=[2.0, 3.0], gates=[0.0, -1e4]),
        [2.0, 3.0],
        [1.8, 2.4],
    ),
    # Gate ½: S = [1, 0], u = ½(3 − 0.6) = 1.2, S = [1.72, 0.96]; then u = 1 − 0.96 = 0.04.
    "three_steps": (
        steps(
            k=[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]],
            v=[2.0, 3.0, 1.0],
            beta=[1.0, 0.5, 1.0],
            gates=[0.0, math.log(0.5), 0.0],
            q=[[1.0, 1.0]] * 3,
        ),
        [2.0, 2.68, 2.72],
        [1.72, 1.0],
    ),
}


@pytest.mark.parametrize("name", HAND_WORKED)
def test_golden_equals_numbers_worked_by_hand(name):
    arguments, o, state = HAND_WORKED[name]
    golden = step_gated_delta_rule(**arguments)
    assert golden["o"].flatten().tolist() == pytest.approx(o, rel=1e-6)
    assert golden["final_state"].flatten().tolist() == pytest.approx(state, rel=1e-6)


@pytest.mark.parametrize("name", HAND_WORKED)
def test_kernel_equals_numbers_worked_by_hand(name, monkeypatch):
    # Keys of two floats are below the 32 bytes of the chip, which is not the point here.
    monkeypatch.setenv("PYPTO_CHECK", "0")
    arguments, o, state = HAND_WORKED[name]
    found = chunk_gated_delta_rule(**arguments, chunk_size=8)
    assert found["o"].flatten().tolist() == pytest.approx(o, rel=1e-6)
    assert found["final_state"].flatten().tolist() == pytest.approx(state, rel=1e-6)


def test_golden_scales_the_outputs_and_starts_from_the_initial_state():
    arguments = TWO_STEPS | {"scale": 0.5, "initial_state": torch.tensor([[[[1.0], [1.0]]]])}
    golden = step_gated_delta_rule(**arguments)
    # S = [1, 1] → u = 2 − 1, S = [2, 1] → u = 3 − 2, S = [2.6, 1.8]; o = ½·2, ½·(1.56 + 1.44).
    assert golden["o"].flatten().tolist() == pytest.approx([1.0, 1.5], rel=1e-6)
    assert golden["final_state"].flatten().tolist() == pytest.approx([2.6, 1.8], rel=1e-6)


@pytest.mark.parametrize("chunk_size", [12, 4, 0, -8])
def test_chunk_sizes_are_multiples_of_eight(chunk_size):
    text = f"chunk_size must be a positive multiple of 8, got {chunk_size}"
    with pytest.raises(ValueError, match=text):
        prepare_chunk_helpers(chunk_size, torch.float32)


def test_constants_of_a_chunk():
    constants = prepare_chunk_helpers(8, torch.float64)
    row, column = torch.arange(8), torch.arange(8)[:, None]
    assert {tensor.dtype for tensor in constants.values()} == {torch.float64}
    assert torch.equal(constants["mask"] == 1, column > row)
    assert torch.equal(constants["tril"] == 1, column >= row)
    assert torch.equal(constants["eye"] == 1, column == row)
    assert torch.equal(constants["ones"], torch.ones(8, 1, dtype=torch.float64))
    assert {float(tensor.sum()) for tensor in constants.values()} == {28.0, 36.0, 8.0}


def test_inverse_of_a_chunk_worked_by_hand():
    # k₁·k₂ = 0.6, β₂ = ½ and gate ½ between them: A₂₁ = 0.15, all else is 0.
    k, g, beta = torch.zeros(1, 1, 8, 2), torch.zeros(1, 1, 8), torch.zeros(1, 1, 8)
    k[0, 0, :2] = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    g[0, 0, 1], beta[0, 0, 1] = math.log(0.5), 0.5
    inverse = invert_chunks(k, g, beta, prepare_chunk_helpers(8, torch.float32))
    expected = torch.eye(8)
    expected[1, 0] = -0.15
    assert inverse.shape == (1, 1, 1, 8, 8)
    torch.testing.assert_close(inverse[0, 0, 0], expected, rtol=1e-6, atol=0)


def test_torch_form_of_the_gated_delta_rule_is_the_same_function():
    arguments = random_inputs(0, B=1, H=2, T=100, K=16, V=24)
    found = torch_gated_delta_rule(**arguments, chunk_size=32)
    golden = step_gated_delta_rule(**arguments)
    for name, values in golden.items():
        assert (found[name] - values).abs().max() <= 1e-5 * values.abs().max()
