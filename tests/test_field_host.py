"""Calls, caches, processes and hand-over: situations that users of tile kernels ran into.

In: kernels called from ordinary Python with NumPy arrays and torch tensors. Out: numbers, counts of
traces (a `print` in a kernel runs once a trace), exit codes, or the exact refusal at the argument.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import pypto

pytest_plugins = ["pytester"]

F32 = pypto.Tensor([], pypto.DT_FP32)
I32 = pypto.Tensor([], pypto.DT_INT32)
ROWS = pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32)
GUARD = -7.0
SCALE = 2.0
HERE = Path(__file__)


def ramp(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def line_of(mark: str) -> int:
    """The number of the line of this file that ends with the marker comment."""
    lines = HERE.read_text().splitlines()
    return 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


def words(error: pypto.error.PyptoError) -> str:
    """What the message says in words, without the quoted source."""
    return " ".join(f"{error.text} {error.fix or ''}".split())


def run_python(source: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run a program in a process of its own that sees the same package as this one."""
    path = cwd / "program.py"
    path.write_text(source)
    root = str(Path(pypto.__file__).parents[1])
    env = dict(os.environ, PYTHONPATH=root)
    return subprocess.run(
        [sys.executable, str(path)], cwd=cwd, env=env, capture_output=True, text=True, timeout=100
    )


def test_factory_kernels_with_one_source_keep_their_own_closures_H1():
    def make_kernel(s):
        @pypto.frontend.jit
        def kernel(x: F32, out: F32):
            pypto.set_vec_tile_shapes(16, 16)
            out[:] = x * s

        return kernel

    double, triple = make_kernel(2.0), make_kernel(3.0)
    out = torch.full((8, 8), GUARD)
    for kernel, right in ((double, 2.0), (triple, 3.0), (double, 2.0), (triple, 3.0)):
        kernel(torch.ones(8, 8), out)
        assert torch.equal(out, torch.full((8, 8), right))


def test_equal_shapes_with_other_values_compile_once_H3(capsys):
    @pypto.frontend.jit
    def kernel(x: F32, n: I32, out: F32):
        print("traced")
        pypto.set_vec_tile_shapes(16, 16)
        acc = x * 1.0
        for i in pypto.loop(n[0]):
            acc = acc + x
        out[:] = acc

    for value, trips in ((1.0, 3), (2.0, 0), (5.0, 7)):
        out = torch.full((8, 8), GUARD)
        kernel(torch.full((8, 8), value), torch.tensor([trips], dtype=torch.int32), out)
        assert torch.equal(out, torch.full((8, 8), value * (trips + 1)))
    assert capsys.readouterr().out.count("traced") == 1


def test_dynamic_dim_serves_every_size_with_one_compile_H4(capsys):
    @pypto.frontend.jit
    def kernel(x: ROWS, out: ROWS):
        print("traced")
        pypto.set_vec_tile_shapes(16, 16)
        for i in pypto.loop(pypto.ceildiv(x.shape[0], 16)):
            tile = pypto.view(x, [16, 8], [i * 16, 0])
            pypto.assemble(tile * 2.0 + 1.0, [i * 16, 0], out)

    for rows in (1, 7, 64):
        x, whole = ramp(rows, 8), torch.full((rows + 17, 8), GUARD)
        kernel(x, whole[1 : 1 + rows])
        assert torch.equal(whole[1 : 1 + rows], x * 2 + 1)
        assert (whole[:1] == GUARD).all() and (whole[1 + rows :] == GUARD).all()
    assert capsys.readouterr().out.count("traced") == 1


def test_failure_while_running_is_an_exception_and_the_next_kernel_is_right_H6():
    @pypto.frontend.jit
    def bad(x: F32, at: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        pypto.assemble(x + 1.0, [at[0], 0], out)  # <- H6

    @pypto.frontend.jit
    def good(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    whole = torch.full((8, 8), GUARD)
    with pytest.raises(pypto.error.PyptoError) as caught:
        bad(ramp(4, 8), torch.tensor([3], dtype=torch.int32), whole[2:6])
    assert isinstance(caught.value, IndexError)
    assert caught.value.code == "F00008"
    assert caught.value.loc.file == __file__
    assert caught.value.loc.line == line_of("H6")
    assert torch.equal(whole, torch.full((8, 8), GUARD))
    bad(ramp(4, 8), torch.tensor([0], dtype=torch.int32), whole[2:6])
    assert torch.equal(whole[2:6], ramp(4, 8) + 1)
    out = torch.empty(4, 8)
    good(ramp(4, 8), out)
    assert torch.equal(out, ramp(4, 8) + 1)


FAILS = """\
import numpy as np
import pypto

@pypto.frontend.jit
def kernel(x: pypto.Tensor([], pypto.DT_FP32), at: pypto.Tensor([], pypto.DT_INT32),
           out: pypto.Tensor([], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(16, 16)
    pypto.assemble(x + 1.0, [at[0], 0], out)

kernel(np.ones((4, 8), np.float32), np.array([3], np.int32), np.zeros((4, 8), np.float32))
print("not reached")
"""


def test_failure_ends_the_process_with_an_exit_code_H6(tmp_path):
    done = run_python(FAILS, tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "ErrCode: F00008, IndexError" in done.stderr
    assert "program.py:8" in done.stderr


def test_global_that_changes_between_calls_takes_effect_H9(monkeypatch):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x * SCALE

    out = torch.full((8, 8), GUARD)
    for scale in (2.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        kernel(torch.ones(8, 8), out)
        assert torch.equal(out, torch.full((8, 8), scale))


class Settings:
    scale = 2.0


SETTINGS = Settings()


def test_attribute_that_changes_between_calls_takes_effect_H9(monkeypatch):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x * SETTINGS.scale

    out = torch.full((8, 8), GUARD)
    for scale in (2.0, 5.0, 2.0):
        monkeypatch.setattr(SETTINGS, "scale", scale)
        kernel(torch.ones(8, 8), out)
        assert torch.equal(out, torch.full((8, 8), scale))


def test_closure_cell_that_changes_between_calls_takes_effect_H9():
    scale = 2.0

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x * scale

    out = torch.full((8, 8), GUARD)
    kernel(torch.ones(8, 8), out)
    assert torch.equal(out, torch.full((8, 8), 2.0))
    scale = 5.0
    kernel(torch.ones(8, 8), out)
    assert torch.equal(out, torch.full((8, 8), 5.0))


SUITE = """
import numpy as np
import pypto
import pytest

@pypto.frontend.jit
def kernel(x: pypto.Tensor([], pypto.DT_FP32), out: pypto.Tensor([], pypto.DT_FP32)):
    pypto.set_vec_tile_shapes(16, 16)
    out[:] = x + 1.0

@pytest.mark.pypto_kernel
def test_calls_the_kernel():
    out = np.zeros((4, 8), np.float32)
    kernel(np.ones((4, 8), np.float32), out)
    assert (out == 2).all()

@pytest.mark.pypto_kernel
def test_forgets_to_call_the_kernel():
    assert callable(kernel)

def test_promises_no_kernel():
    assert callable(kernel)
"""


def test_plugin_fails_a_test_that_ran_no_kernel_H10(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(pypto.__file__).parents[1]))
    pytester.makepyfile(test_suite=SUITE)
    result = pytester.runpytest_subprocess("-p", "pypto.pytest", "--strict-markers")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*no kernel was executed*"])
    result.stdout.fnmatch_lines(["*FAILED*test_forgets_to_call_the_kernel*"])


@pytest.mark.parametrize("value", [None, "", "0", "7", "nonsense"])
def test_device_id_of_the_environment_is_ignored_H12(value, monkeypatch):
    monkeypatch.delenv("TILE_FWK_DEVICE_ID", raising=False)
    if value is not None:
        monkeypatch.setenv("TILE_FWK_DEVICE_ID", value)

    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    out = torch.full((4, 8), GUARD)
    kernel(ramp(4, 8), out)
    assert torch.equal(out, ramp(4, 8) + 1)


def test_numpy_arrays_and_torch_tensors_mix_H13():
    @pypto.frontend.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + y * 2.0

    x, y = ramp(4, 8), ramp(4, 8) + 5
    into_numpy, into_torch = np.full((4, 8), GUARD, np.float32), torch.full((4, 8), GUARD)
    kernel(x.numpy(), y, into_numpy)
    kernel(x, y.numpy(), into_torch)
    assert np.array_equal(into_numpy, (x + y * 2).numpy())
    assert torch.equal(into_torch, x + y * 2)


def test_bf16_torch_tensors_H13():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor([], pypto.DT_BF16), out: pypto.Tensor([], pypto.DT_BF16)):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x * 0.1

    x = ramp(4, 8).bfloat16()
    whole = torch.full((6, 8), GUARD, dtype=torch.bfloat16)
    kernel(x, whole[1:5])
    assert torch.equal(whole[1:5], (x.float() * 0.1).bfloat16())
    assert (whole[:1] == GUARD).all() and (whole[5:] == GUARD).all()


@pytest.mark.parametrize("make", [torch.tensor, np.float32], ids=["torch", "numpy"])
def test_tensor_without_dims_has_shape_one_H13(make):
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        assert list(x.shape) == [1]
        pypto.set_vec_tile_shapes(16)
        out[:] = x * 2.0

    x = make(3.5)
    x = np.array(x) if isinstance(x, np.generic) else x
    assert x.shape == ()
    out = torch.full((1,), GUARD)
    kernel(x, out)
    assert out.tolist() == [7.0]


def test_read_only_array_can_be_read_H13():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    x, out = ramp(4, 8).numpy().copy(), np.full((4, 8), GUARD, np.float32)
    x.flags.writeable = False
    kernel(x, out)
    assert np.array_equal(out, x + 1)


def test_read_only_array_cannot_be_written_H13():
    @pypto.frontend.jit
    def kernel(x: F32, target: F32):
        pypto.set_vec_tile_shapes(16, 16)
        target[:] = x + 1.0

    x, target = ramp(4, 8).numpy(), np.full((4, 8), GUARD, np.float32)
    target.flags.writeable = False
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(x, target)  # <- H13
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "F00002"
    assert "read-only" in words(caught.value) and "target" in words(caught.value)
    assert caught.value.loc.file == __file__
    assert caught.value.loc.line == line_of("H13")
    assert (target == GUARD).all()


def test_fixed_extent_names_the_argument_and_the_axis_H15():
    @pypto.frontend.jit
    def kernel(x: F32, weight: pypto.Tensor([4, 8], pypto.DT_FP32), out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + weight

    out = torch.full((4, 8), GUARD)
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(ramp(4, 8), ramp(4, 9), out)  # <- H15
    assert isinstance(caught.value, ValueError)
    assert caught.value.code == "F00002"
    message = words(caught.value)
    assert "The shape of 2nd input tensor" in message
    for part in ("weight", "axis 1", "8", "9"):
        assert part in message
    assert caught.value.loc.file == __file__
    assert caught.value.loc.line == line_of("H15")
    assert (out == GUARD).all()
    kernel(ramp(4, 8), ramp(4, 8), out)
    assert torch.equal(out, ramp(4, 8) * 2)


IMPORTS = """\
import os, signal, sys, threading, warnings
import numpy

def state():
    handlers = {s: signal.getsignal(s) for s in signal.valid_signals()}
    return (dict(os.environ), os.getcwd(), threading.enumerate(), warnings.filters[:], handlers,
            sys.excepthook, sys.getrecursionlimit(), numpy.geterr(), sorted(os.listdir(".")))

before = state()
import pypto
after = state()
assert before == after, [pair for pair in zip(before, after) if pair[0] != pair[1]]
assert "torch" not in sys.modules and "llvmlite" not in sys.modules
print("clean")
"""


def test_import_without_a_device_has_no_side_effects_H16(tmp_path):
    done = run_python(IMPORTS, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "clean\n", "")


def test_meta_tensors_are_refused_by_name_and_nothing_runs_H17():
    @pypto.frontend.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 16)
        out[:] = x + 1.0

    out = torch.full((4, 8), GUARD)
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(torch.empty(4, 8, device="meta"), out)  # <- H17
    message = words(caught.value)
    assert "`x`" in message and "meta" in message
    assert caught.value.loc.line == line_of("H17")
    assert (out == GUARD).all()
