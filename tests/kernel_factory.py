"""What the language tests share: kernels that live in a second module, and `refused`.

In come the classes, code and words that an error must have; out comes nothing, or a failing test.
The kernels here are made by factories or read a global of this module, so that a caller elsewhere
can change what they closed over between two calls.
"""

import contextlib
import linecache

import pytest
import torch

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)

GAIN = 2.0


class Knobs:
    """A plain settings object whose attribute a kernel reads while it is traced."""

    def __init__(self, gain):
        self.gain = gain


KNOBS = Knobs(2.0)


def make_scaled(factor):
    """One source, one kernel per factor."""

    @pypto.frontend.jit
    def scaled(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * factor

    return scaled


def make_applied(step, *, name="applied"):
    """A kernel that closes over a function and a string."""

    @pypto.frontend.jit
    def applied(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = step(a)
        t.name = name
        out[:] = t

    return applied


@pypto.frontend.jit
def gained(a: F32, out: F32):
    print("traced")
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * GAIN


def gained_by_helper(t):
    return t * GAIN


@pypto.frontend.jit
def gained_twice(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = gained_by_helper(gained_by_helper(a))


@pypto.frontend.jit
def gained_by_attribute(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * KNOBS.gain


def ramp(rows=16, cols=32):
    """[rows, cols] fp32 that counts up from 0 in row order."""
    return torch.arange(rows * cols, dtype=torch.float32).reshape(rows, cols)


def blank(*shape, dtype=torch.float32):
    """An output full of -1, so that an element that nobody wrote is seen."""
    return torch.full(shape, -1, dtype=dtype)


@contextlib.contextmanager
def refused(builtin, *words, code, cls=pypto.error.FeError, at=None):
    """The body must raise an error that is a `cls` and a `builtin`, prints its code and all words.

    `at` is a word of the comment that stands on the line where the error must be located.
    """
    with pytest.raises(pypto.error.PyptoError) as caught:
        yield caught
    error = caught.value
    assert isinstance(error, cls), type(error).__mro__
    assert isinstance(error, builtin), type(error).__mro__
    assert error.code == code, str(error)
    shown = " ".join(str(error).split())
    assert f"ErrCode: {code}" in shown
    if isinstance(builtin, type):
        assert builtin.__name__ in shown
    for word in words:
        assert word in shown, shown
    if at is not None:
        assert error.loc is not None, shown
        line = linecache.getline(error.loc.file, error.loc.line)
        assert f"# {at}" in line, f"located at {error.loc.file}:{error.loc.line}: {line}"
