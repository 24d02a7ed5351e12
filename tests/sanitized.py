"""What the tests of the sanitizers share: arrays, marked lines, runs that must end in a finding."""

import inspect
import linecache

import numpy as np
import pytest

import pypto

F = pypto.DT_FP32
I32 = pypto.DT_INT32
F32 = pypto.Tensor([], F)
INT = pypto.Tensor([], I32)
BEFORE = np.float32(-7.0)


def ramp(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def blank(*shape):
    """An output that shows what was written."""
    return np.full(shape, BEFORE)


def ints(*values):
    return np.array(values, np.int32)


def marked(kernel, mark="# <-"):
    """The line of a kernel that ends with a mark."""
    lines, first = inspect.getsourcelines(kernel._original_func)
    (found,) = [first + i for i, line in enumerate(lines) if line.rstrip().endswith(mark)]
    return found


def finding(kernel, *args, mark="# <-"):
    """The error that a run must end in, at the marked line, before it writes anything else."""
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(*args)
    problem = caught.value
    file = inspect.getsourcefile(kernel._original_func)
    assert (problem.loc.file, problem.loc.line) == (file, marked(kernel, mark))
    assert linecache.getline(file, problem.loc.line).strip() in str(problem)
    return problem


def unwritten(kernel, *args, mark="# <-"):
    """The text of a finding about elements without a value."""
    problem = finding(kernel, *args, mark=mark)
    assert problem.code == "F40000"
    assert isinstance(problem, ValueError)
    return problem.text


def race(kernel, *args, mark="# <-"):
    """The text of a finding about trips that meet."""
    problem = finding(kernel, *args, mark=mark)
    assert problem.code == "F73001"
    assert isinstance(problem, RuntimeError)
    return problem.text
