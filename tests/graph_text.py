"""Graphs in their text form, run and compared; for tests that need no front end."""

import numpy as np
import pytest

import pypto.ops  # noqa: F401 - the texts name ops
from pypto.errors import FeError
from pypto.interp.run import interpret
from pypto.ir.parse import parse
from pypto.ir.rewrite import PASSES
from pypto.ir.verify import verify

F32 = np.float32


def checked(text):
    graph = parse(text)
    verify(graph)
    return graph


def run(text, *arrays):
    """Interpret a text on copies; the arrays as they are afterwards.  Rewriting changes nothing."""
    graph = checked(text)
    before = [a.copy() for a in arrays]
    interpret(graph, before)
    after = [a.copy() for a in arrays]
    for rewrite in PASSES:
        graph = rewrite(graph)
    verify(graph)
    interpret(graph, after)
    for x, y in zip(before, after):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
    return before


def fails(builtin, text, *arrays):
    """The error of a run, and that it wrote nothing."""
    graph = checked(text)
    copies = [a.copy() for a in arrays]
    with pytest.raises(builtin) as caught:
        interpret(graph, copies)
    for a, b in zip(arrays, copies):
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert isinstance(caught.value, FeError)
    for rewrite in PASSES:
        graph = rewrite(graph)
    with pytest.raises(builtin) as again:
        interpret(graph, copies)
    assert again.value.text == caught.value.text
    return caught.value


def ramp(*shape, dtype=F32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


SUM_ROWS = """
graph g:
  dim n = x[0] : int 0..
  param x : fp32[n, 2]
  param out : fp32[1, 2]
  %0 = full(size=(1, 2), fill_value=fp32(0.0), dtype=DT_FP32) : fp32[1, 2]
  %1, %2 = loop(START, STOP, STEP) : fp32[1, 2], int
    index %3 : int
    carry %4 = %0 : fp32[1, 2] in %1
    carry %5 = 0 : int
    %6 = view(x, shape=(1, 2), offsets=(%3, 0)) : fp32[1, 2] valid [min(1, max(n - %3, 0)), 2]
    %7 = mul(%4, 10.0) : fp32[1, 2]
    %8 = reshape(%6, shape=(1, 2)) : fp32[1, 2]
    %9 = add(%7, %8) : fp32[1, 2]
    yield %9, %5 + 1
  %10 = add(%1, %2) : fp32[1, 2]
  %11 = assemble(%10, out, offsets=(0, 0)) : fp32[1, 2] in out
"""

VIEW = """
graph g:
  param i : int32[2]
  param x : fp32[4, 2]
  param out : fp32[2, 2]
  %0 = item(i, index=(0,)) : int
  %1 = item(i, index=(1,)) : int
  %2 = view(x, shape=(2, 2), offsets=(%0, 0), given=GIVEN) : fp32[2, 2] valid VALID   # k.py:3
  %3 = assemble(%2, out, offsets=(0, 0)) : fp32[2, 2] in out
"""
