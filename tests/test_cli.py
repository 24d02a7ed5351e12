"""The `pypto` command: what it prints, its JSON and its exit status."""

import json
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch
from typer.testing import CliRunner

from pypto.gym.gated_delta_rule import gated_delta_rule_kernel
from pypto.gym.record import Case, Kernel
from pypto.tools import gym
from pypto.tools.cli import app

RUN_KEYS = {
    "kernel", "case", "size", "sizes", "seed", "passed", "error", "outputs",
    "seconds_first", "seconds_again", "seconds_golden", "seconds_peer",
}  # fmt: skip
OUTPUT_KEYS = {"name", "shape", "dtype", "max_abs", "max_rel", "tolerance", "passed"}


def call(*words: str):
    return CliRunner().invoke(app, list(words))


def test_version_is_that_of_the_distribution():
    done = call("--version")
    assert (done.exit_code, done.stdout) == (0, f"pypto-anywhere {version('pypto-anywhere')}\n")


def test_python_dash_m_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "pypto", "gym", "list", "--json"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gated_delta_rule" in [kernel["name"] for kernel in json.loads(done.stdout)]


def test_list_shows_every_kernel_and_case():
    done = call("gym", "list")
    assert done.exit_code == 0
    for kernel in gym.kernels().values():
        assert kernel.sentence in done.stdout
        for case in kernel.cases:
            assert case.name in done.stdout


def test_list_as_json_is_the_records():
    done = call("gym", "list", "--json")
    assert done.exit_code == 0
    listed = {kernel["name"]: kernel for kernel in json.loads(done.stdout)}
    assert list(listed) == list(gym.kernels())
    assert set(listed["gated_delta_rule"]) == {"name", "sentence", "family", "cases"}
    assert listed["gated_delta_rule"]["cases"][0] == {
        "name": "two_heads",
        "sentence": "two heads, two chunks",
        "size": "quick",
        "sizes": {"B": 1, "H": 2, "T": 128, "K": 64, "V": 64, "chunk": 64},
    }


def test_run_as_json_has_the_errors_of_every_output():
    done = call("gym", "run", "gated_delta_rule", "--case", "two_heads", "--seed", "3", "--json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (set(report), report["passed"], report["seed"]) == ({"passed", "seed", "runs"}, True, 3)
    (run,) = report["runs"]
    assert set(run) == RUN_KEYS
    assert (run["kernel"], run["case"], run["seed"]) == ("gated_delta_rule", "two_heads", 3)
    assert (run["passed"], run["error"]) == (True, None)
    outputs = {output["name"]: output for output in run["outputs"]}
    assert {name: output["shape"] for name, output in outputs.items()} == {
        "o": [1, 2, 128, 64],
        "final_state": [1, 2, 64, 64],
    }
    for output in outputs.values():
        assert set(output) == OUTPUT_KEYS
        assert (output["dtype"], output["tolerance"], output["passed"]) == ("float32", 1e-5, True)
        # float32 against float64: an error of exactly zero would mean that nothing was compared.
        assert 0 < output["max_rel"] <= 1e-5
        assert 0 < output["max_abs"] <= 1e-4


def test_run_prints_sizes_errors_and_a_summary():
    done = call("gym", "run", "gated_delta_rule", "--case", "ragged")
    assert done.exit_code == 0
    words = done.stdout.split()
    for word in ("ragged", "T=100", "1×2×100×64", "float32", "1e-05", "final_state", "agrees"):
        assert word in words
    assert "differs" not in words
    assert "1 of 1 cases agree with their golden" in done.stdout


def made(run) -> dict[str, Kernel]:
    case = {
        "sentence": "made up",
        "sizes": {"T": 1},
        "inputs": lambda seed: {},
        "golden": lambda: {"y": torch.tensor([2.0])},
        "tolerances": {"y": 0.1},
    }
    right = Case(name="right", run=lambda: {"y": torch.tensor([2.0])}, **case)
    wrong = Case(name="wrong", run=run, size="real", **case)
    return {"made": Kernel("made", "Made up", "none", (wrong, right))}


def test_a_difference_is_shown_and_gives_status_1(monkeypatch):
    monkeypatch.setattr(gym, "kernels", lambda: made(lambda: {"y": torch.tensor([3.0])}))
    done = call("gym", "run", "made")
    assert done.exit_code == 1
    assert "y 1 float32 1.0e+00 5.0e-01 1e-01 differs" in " ".join(done.stdout.split())
    assert "1 of 2 cases agree with their golden" in done.stdout


def test_quick_leaves_out_real_sizes_and_all_runs_every_kernel(monkeypatch):
    monkeypatch.setattr(gym, "kernels", lambda: made(lambda: {"y": torch.tensor([3.0])}))
    done = call("gym", "run", "--all", "--quick", "--json")
    assert done.exit_code == 0
    assert [run["case"] for run in json.loads(done.stdout)["runs"]] == ["right"]
    done = call("gym", "run", "--all", "--json")
    assert done.exit_code == 1
    assert [run["case"] for run in json.loads(done.stdout)["runs"]] == ["wrong", "right"]


def test_a_nan_is_null_in_json(monkeypatch):
    monkeypatch.setattr(gym, "kernels", lambda: made(lambda: {"y": torch.tensor([torch.nan])}))
    done = call("gym", "run", "made", "--case", "wrong", "--json")
    assert done.exit_code == 1
    (output,) = json.loads(done.stdout)["runs"][0]["outputs"]
    assert (output["max_abs"], output["max_rel"], output["passed"]) == (None, None, False)


def test_a_kernel_that_fails_is_reported_and_the_others_run(monkeypatch):
    # A kernel called without its arguments is an error of the call.
    monkeypatch.setattr(gym, "kernels", lambda: made(gated_delta_rule_kernel))
    done = call("gym", "run", "made", "--json")
    assert done.exit_code == 1
    failed, right = json.loads(done.stdout)["runs"]
    assert (failed["passed"], failed["outputs"], right["passed"]) == (False, [], True)
    assert failed["error"] == {**failed["error"], "code": "F00003", "error": "RuntimeError"}
    done = call("gym", "run", "made")
    assert done.exit_code == 1
    assert "ErrCode: F00003, RuntimeError: " in done.stdout
    assert "1 of 2 cases agree with their golden" in done.stdout


@pytest.mark.parametrize(
    "words, text",
    [
        (
            ["gated_delta"],
            "No kernel is named 'gated_delta'; did you mean 'gated_delta_rule'?",
        ),
        (
            ["gated_delta_rule", "--case", "two_head"],
            "No case of gated_delta_rule is named 'two_head'; did you mean 'two_heads'?",
        ),
        (["zzz"], "No kernel is named 'zzz'; there are: gated_delta_rule"),
        ([], "Name one kernel (pypto gym list shows them), or say --all."),
        (["gated_delta_rule", "--all"], "Name one kernel"),
        (["--all", "--case", "ragged"], "--case needs the name of its kernel."),
    ],
)
def test_a_wrong_command_says_what_is_meant_and_gives_status_2(words, text):
    done = call("gym", "run", *words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert text in done.stderr


def test_without_torch_the_gym_says_what_to_install(monkeypatch):
    def absent():
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(gym, "kernels", absent)
    done = call("gym", "list")
    assert done.exit_code == 2
    assert "pip install 'pypto-anywhere[torch]'" in done.stderr
