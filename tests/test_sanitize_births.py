"""The first NaN or infinity: kernels that make one, and kernels that only pass it on.

In: kernels under the sanitizer `nan`, which is only there when it is asked for by name.  Out: the
error at the op that makes a NaN or an infinity out of finite elements, with those elements.
"""

import numpy as np
import pytest
from sanitized import F32, INT, F, blank, finding, ints, ramp

import pypto

INF = np.inf


@pytest.fixture(autouse=True)
def sanitizers(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "nan")
    monkeypatch.setenv("PYPTO_CHECK", "0")


def born(kernel, *args, mark="# <-"):
    problem = finding(kernel, *args, mark=mark)
    assert problem.code == "FB200F"
    assert isinstance(problem, FloatingPointError)
    return problem.text


def test_a_root_of_a_negative_number():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 4)
        for i in pypto.loop(2):
            row = x[i : i + 1, :]
            root = pypto.sqrt(row)  # <-
            out[i : i + 1, :] = root

    x, out = ramp(2, 4), blank(2, 4)
    x[1, 2] = -4.0
    problem = finding(kernel, x, out)
    assert problem.text == (
        "sqrt makes NaN at element [0, 2] of `root` out of -4.0 (in iteration i = 1)"
    )
    assert problem.fix == (
        "keep the operands where the result is a number: clip, a larger epsilon, a wider type"
    )
    assert out[0].tolist() == np.sqrt(x[0]).tolist()
    assert out[1].tolist() == [-7.0] * 4


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda x, y: x / y, "div makes an infinity at element [1, 0] of `z` out of 3.0 and 0.0"),
        (
            lambda x, y: x * 3e38,
            "mul makes an infinity at element [0, 1] of `z` out of 2.0 and 3e+38",
        ),
        (lambda x, y: 1.0 / y, "reciprocal makes an infinity at element [1, 0] of `z` out of 0.0"),
        (lambda x, y: pypto.log(y), "log makes an infinity at element [1, 0] of `z` out of 0.0"),
        (
            lambda x, y: pypto.exp(x * 40.0),
            "exp makes an infinity at element [1, 0] of `z` out of 120.0",
        ),
        (
            lambda x, y: pypto.cast(x * 30000.0, pypto.DT_FP16).float(),
            "cast makes an infinity at element [1, 0] out of 90000.0",
        ),
        (lambda x, y: x + y[1:2, :], None),
    ],
    ids="div mul reverse log exp cast add".split(),
)
def test_element_by_element(step, said):
    @pypto.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 2)
        z = step(x, y)
        out[:] = z

    y = np.array([[1, 2], [0, 4]], np.float32)
    out = blank(2, 2)
    if said is None:
        kernel(ramp(2, 2), y, out)
        assert np.array_equal(out, ramp(2, 2) + y[1:])
        return
    with pytest.raises(FloatingPointError) as caught:
        kernel(ramp(2, 2), y, out)
    assert caught.value.text == said
    assert (out == -7.0).all()


def test_what_comes_in_is_passed_on():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 4)
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        a = x + 1.0
        b = a - a
        c = b.sum(-1, keepdim=True)
        d = pypto.matmul(x, x, F, b_trans=True)
        out[:] = (a * c + pypto.sqrt(a)) + d[:, 0:1]

    x, out = ramp(2, 4), blank(2, 4)
    x[0, 1], x[1, 3] = INF, -INF
    kernel(x, out)
    assert np.isnan(out).all()


def test_another_row_is_to_blame():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 4)
        total = (x * 1.0).sum(-1, keepdim=True)  # <-
        out[:] = total

    x = ramp(3, 4)
    x[0, 0], x[2] = INF, 2e38
    assert born(kernel, x, blank(3, 1)) == (
        "sum makes an infinity at element [2, 0] of `total` out of [2e+38, 2e+38, 2e+38, 2e+38]"
    )


def test_a_row_without_its_axis():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 8)
        out[0:2, :] = x[:, 0:4] * 1.0
        columns = x.sum(0)  # <-
        out[2:3, :] = columns.reshape([1, 8])[:, 0:4]

    x = ramp(2, 8)
    x[:, 3] = -3e38
    assert born(kernel, x, blank(3, 4)) == (
        "sum makes an infinity at element [3] of `columns` out of [-3e+38, -3e+38]"
    )


@pytest.mark.parametrize("poisoned", [0, 3])
def test_a_scan_is_to_blame_only_for_what_came_before(poisoned):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(8, 4)
        out[:] = pypto.cumsum(x, 0)  # <-

    x = np.full((6, 1), 2e38, np.float32)
    x[poisoned] = INF
    if poisoned == 0:
        out = blank(6, 1)
        kernel(x, out)
        assert out.tolist() == [[INF]] * 6
    else:
        assert born(kernel, x, blank(6, 1)) == (
            "cumsum makes an infinity at element [1, 0] out of [2e+38, 2e+38]"
        )


def test_a_product_overflows():
    @pypto.jit
    def kernel(x: F32, y: F32, out: F32):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        pypto.set_vec_tile_shapes(2, 4)
        product = pypto.matmul(x, y, F)  # <-
        out[:] = product

    x, y = np.ones((2, 4), np.float32), np.ones((4, 2), np.float32)
    x[0, 0] = INF
    out = blank(2, 2)
    kernel(x, y, out)
    assert out.tolist() == [[INF, INF], [4, 4]]
    x[1], y[:, 1] = 1e20, 1e19
    assert born(kernel, x, y, out) == (
        "matmul makes an infinity at element [1, 1] of `product` out of finite elements, in size "
        "at most 1e+20 and 1e+19"
    )


def test_numbers_of_the_text_are_meant():
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(2, 4)
        masked = pypto.where(x > 2.0, x, float("-inf"))
        floor = pypto.full([2, 4], float("-inf"), F)
        some = pypto.view(x, [2, 4], [0, 0], valid_shape=[2, 3])
        out[0:2, :] = pypto.exp(masked + floor)
        out[2:4, :] = pypto.fillpad(some, "constant", float("-inf"))

    out = blank(4, 4)
    kernel(ramp(2, 4), out)
    assert out[:2].tolist() == [[0] * 4] * 2
    assert out[2:].tolist() == [[1, 2, 3, -INF], [5, 6, 7, -INF]]


def test_elements_outside_of_the_valid_ones_are_nobodys():
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(2, 4)
        some = pypto.view(x, [2, 4], [0, 0], valid_shape=[2, n[0]])
        out[:] = 1.0 / some  # <-

    x, out = ramp(2, 4), blank(2, 4)
    x[1, 3] = 0
    kernel(x, ints(3), out)
    assert np.array_equal(out[:, :3], 1 / x[:, :3])
    assert born(kernel, x, ints(4), out) == (
        "reciprocal makes an infinity at element [1, 3] out of 0.0"
    )


@pytest.mark.parametrize("op", ["atomic_add", "index_put_"])
def test_sums_in_memory(op):
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32, op):
        pypto.set_vec_tile_shapes(1, 2)
        for i in pypto.loop(3):
            if op == "atomic_add":
                pypto.atomic_add(x[0:1, :], [1, 0], out)  # <- atomic_add
            else:
                pypto.index_put_(out, [places], x, accumulate=True)  # <- index_put_

    x, out = np.array([[1, 1.5e38]], np.float32), np.zeros((2, 2), np.float32)
    assert born(kernel, x, ints(1), out, op, mark=f"# <- {op}") == (
        f"{op} makes an infinity at element [1, 1] of `out` out of 3e+38 and what is added to it "
        "(in iteration i = 2)"
    )


def test_it_is_there_only_by_name(monkeypatch):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 2)
        out[:] = 1.0 / x  # <-

    x = np.zeros((1, 2), np.float32)
    for chosen in ("", "0", "1", "uninit,race,guard,poison"):
        monkeypatch.setenv("PYPTO_SANITIZE", chosen)
        out = blank(1, 2)
        kernel(x, out)
        assert out.tolist() == [[INF, INF]]
    for chosen in ("all", "race, nan"):
        monkeypatch.setenv("PYPTO_SANITIZE", chosen)
        assert born(kernel, x, blank(1, 2)).startswith("reciprocal makes an infinity")
