"""Runs a kernel's graph as machine code and by the interpreter, on copies of the same arrays.

In: a kernel and its arguments.  Out: both results, or both errors; they must agree.
"""

import contextlib
import io

import numpy as np

from pypto.cpu.launch import NativeProgram
from pypto.errors import PyptoError
from pypto.interp.run import prepare


def outcome(program, arrays):
    """The arrays after a run, what it printed, its error."""
    arrays, printed, problem = [a.copy() for a in arrays], io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            program.run(arrays)
        except PyptoError as caught:
            problem = caught
    return arrays, printed.getvalue(), problem


class Both:
    """A kernel made ready twice, for arguments of one kind."""

    def __init__(self, kernel, *arrays):
        self.native = NativeProgram(kernel.graph(*arrays))
        self.judge = prepare(kernel.graph(*arrays))

    def run(self, *arrays):
        """The arrays after the run and its error, once both agree on them, bit for bit.

        All NaN are one number.
        """
        wanted, printed, problem = outcome(self.judge, arrays)
        found, shown, own = outcome(self.native, arrays)
        assert _told(own) == _told(problem)
        assert shown == printed
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
        return found, own


def _told(problem):
    if problem is None:
        return None
    kind = next(c for c in type(problem).__mro__ if c.__module__ == "builtins")
    return kind, problem.code, problem.text, problem.fix, problem.loc.line


def assert_same(a, b):
    """Two arrays hold the same bits, but for those of a NaN."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype.kind not in "iub":
        nan = np.isnan(a.astype(np.float32))
        assert (nan == np.isnan(b.astype(np.float32))).all()
        a, b = np.where(nan, 0, a), np.where(nan, 0, b)
    same = a == b if a.dtype.kind in "iub" else (a == b) & (np.signbit(a) == np.signbit(b))
    assert same.all(), f"{np.argwhere(~same)[:5].tolist()}: {a[~same][:5]} for {b[~same][:5]}"
