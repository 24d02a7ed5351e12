"""Fifteen small kernels that tell a tracer which runs control flow once from one that half does.

In: kernels over six int32 elements. Out: for eleven, on three inputs each, exactly what the same
text gives as plain Python; for the other four the located error or the value meaning that the
language gives to lists, aliases and names that stand for several tensors.
"""

import copy
import linecache
import warnings

import numpy as np
import plain
import pytest

import pypto

ROW = pypto.Tensor([6], pypto.DT_INT32)
INPUTS = ([2, 0, 3, 1, 0, 2], [1, 5, 0, 9, 4, 4], [0, 1, 1, 8, 2, 1])


def store_one(dst, at, value):
    dst[at : at + 1] = value


@pypto.jit
def k1(x: ROW, out: ROW):
    """A tensor carried by rebinding, and a Python counter that is used after the loop."""
    pypto.set_vec_tile_shapes(8)
    acc, count = x * 0, 0
    for i in pypto.loop(5):
        acc = acc + x
        count += 2
    out[:] = acc * count


@pypto.jit
def k2(x: ROW, out: ROW):
    """A helper changes its argument: element by element, a parameter is read and written."""
    pypto.set_vec_tile_shapes(8)
    for i in pypto.loop(6):
        store_one(out, i, out[i : i + 1] + x[i : i + 1])


@pypto.jit
def k3(x: ROW, out: ROW):
    """An accumulator that only the first trip initialises; nothing bound it before the loop."""
    pypto.set_vec_tile_shapes(8)
    for i in pypto.loop(4):
        if i == 0:
            acc = x * 2
        else:
            acc = acc + x
    out[:] = acc


@pypto.jit
def k4(x: ROW, out: ROW):
    """Two names for one tensor: written through one, read through the other."""
    pypto.set_vec_tile_shapes(8)
    a = x + 0
    b = a
    for i in pypto.loop(3):
        b[:] = b + 1
    out[:] = a


@pypto.jit
def k5(x: ROW, out: ROW):
    """Two locals change places on every trip."""
    pypto.set_vec_tile_shapes(8)
    a = x + 0
    b = x * 10
    for i in pypto.loop(3):
        t = a
        a = b
        b = t + 1
    out[:] = a - b


@pypto.jit
def k6(x: ROW, out: ROW):
    """Ragged: the inner bound is data, sometimes zero; scalars are read back and stored."""
    pypto.set_vec_tile_shapes(8)
    for b in pypto.loop(6):
        n = x[b]
        for j in pypto.loop(n):
            out[b] = out[b] + j + 1


@pypto.jit
def k7(x: ROW, out: ROW):
    """Writes in some arms only, and a slice taken before a write keeps its values."""
    pypto.set_vec_tile_shapes(8)
    for i in pypto.loop(6):
        s = out[i : i + 1]
        if i < 2:
            out[i : i + 1] = s + 7
        elif i > 3:
            out[i] = x[i] * 3
        store_one(out, 0, out[0:1] + s)


@pypto.jit
def k8(x: ROW, out: ROW):
    """Nested branches on data: no value of an arm that was not taken gets out."""
    lo = 0
    hi = x[0]
    if x[1] > 0:
        lo = x[0]
        if x[2] > 0:
            hi = x[3]
    out[0] = lo
    out[1] = hi


@pypto.jit
def k9(x: ROW, out: ROW):
    """An element that the kernel wrote itself bounds a later loop."""
    x[0] = 3
    for i in pypto.loop(x[0]):
        out[i] = x[0] - i


@pypto.jit
def k10(x: ROW, out: ROW):
    """An inner loop updates an outer counter, and leaves a name that is read after both loops."""
    c = 0
    for i in pypto.loop(3):
        for j in pypto.loop(2):
            c = c + j + i
            last = c
    out[0] = c
    out[1] = last


@pypto.jit
def k14(x: ROW, out: ROW):
    """Writing in place through a dict changes no dict."""
    pypto.set_vec_tile_shapes(8)
    d = {"o": out}
    for i in pypto.loop(3):
        d["o"][:] = d["o"] + x


@pypto.jit
def k11(x: ROW, out: ROW):
    """A list would have to carry a tensor from trip to trip."""
    pypto.set_vec_tile_shapes(8)
    held = [x + 0]
    for i in pypto.loop(3):
        held[0] = held[0] + x  # here
    out[:] = held[0]


@pypto.jit
def k12(x: ROW, out: ROW):
    """`best = cand` in a branch keeps the value of that moment; Python keeps a reference."""
    pypto.set_vec_tile_shapes(8)
    cand = x + 0
    best = x * 0
    for i in pypto.loop(3):
        if x[0] > 0:
            best = cand
        cand[:] = cand + 1
    out[:] = best


@pypto.jit
def k13(x: ROW, out: ROW):
    """A name that is a parameter on the first trip and a local afterwards is written in place."""
    pypto.set_vec_tile_shapes(8)
    a = out
    for i in pypto.loop(2):
        a[:] = a + x  # here
        a = a * 2


@pypto.jit
def k15(x: ROW, out: ROW):
    """Two parameters change places, so that the trip decides which of them is written."""
    pypto.set_vec_tile_shapes(8)
    a = x
    b = out
    for i in pypto.loop(3):
        b[:] = a + 1  # here
        t = a
        a = b
        b = t


def arguments(values):
    return np.array(values, np.int32), np.arange(6, dtype=np.int32) * 100


@pytest.mark.parametrize("values", INPUTS, ids=str)
@pytest.mark.parametrize("kernel", [k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k14])
def test_kernel_means_what_its_text_says(kernel, values):
    expected = arguments(values)
    plain.run(kernel, *expected)
    x, out = arguments(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other front ends read differently
        kernel(x, out)
    assert x.tolist() == expected[0].tolist()
    assert out.tolist() == expected[1].tolist()


def test_plain_python_is_not_trivially_equal():
    """The eleven write something on every input, so that the comparison above compares work."""
    for kernel in (k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k14):
        for values in INPUTS:
            args = arguments(values)
            plain.run(kernel, *args)
            assert args[1].tolist() != arguments(values)[1].tolist(), kernel.__name__


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (k11, ["list"]),
        (k13, ["`a`", "different tensors on different trips"]),
        (k15, ["`b`", "different tensors on different trips"]),
    ],
)
def test_form_without_one_meaning_is_refused_where_it_stands(kernel, words):
    x, out = arguments(INPUTS[0])
    before = copy.deepcopy((x, out))
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(x, out)
    error = caught.value
    for word in words:
        assert word in error.text, error.text
    assert error.fix, str(error)
    assert linecache.getline(error.loc.file, error.loc.line).rstrip().endswith("# here"), str(error)
    assert np.array_equal(x, before[0])
    assert np.array_equal(out, before[1])


def test_name_merged_by_a_branch_holds_a_value_and_a_warning_says_so():
    x, out = arguments([2, 0, 3, 1, 0, 2])
    with pytest.warns(pypto.error.PyptoWarning, match="`best`"):
        k12(x, out)
    assert out.tolist() == [4, 2, 5, 3, 2, 4]  # x + 2: cand when the last trip began
    assert x.tolist() == [2, 0, 3, 1, 0, 2]
    x, out = arguments([0, 1, 1, 8, 2, 1])
    k12(x, out)
    assert out.tolist() == [0, 0, 0, 0, 0, 0]  # the branch is never taken
