"""Ops that read elements without a value, and ops that leave such elements alone.

In: a tensor that is filled in part, and one op of each kind on it.  Out: the error that names the
first element that the op reads though nothing has written it; right values where it reads none.
"""

import numpy as np
import pytest
from sanitized import BEFORE, F32, I32, INT, F, blank, finding, ints, ramp, unwritten

import pypto


@pytest.fixture(autouse=True)
def sanitizers(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "uninit,poison")
    monkeypatch.setenv("PYPTO_CHECK", "0")


@pytest.mark.parametrize(
    ("step", "at"),
    [
        (lambda t, x: t.sum(-1, keepdim=True), [2, 0]),
        (lambda t, x: t.amax(0, keepdim=True), [2, 0]),
        (lambda t, x: pypto.cumsum(t, 0), [2, 0]),
        (lambda t, x: x + t, [2, 0]),
        (lambda t, x: pypto.cast(t, pypto.DT_FP16).float(), [2, 0]),
        (lambda t, x: pypto.topk(t, 2)[0], [2, 0]),
        (lambda t, x: x * t[3:4, :], [0, 0]),
        (lambda t, x: pypto.where(x > 8.0, 0.0, t) + t[0:1, :], None),
        (lambda t, x: pypto.where(x > 10.0, 0.0, t) + t[0:1, :], [2, 0]),
        (lambda t, x: pypto.where(t > 1.0, x, x), [2, 0]),
    ],
    ids="sum amax cumsum add cast topk broadcast where where_reads where_condition".split(),
)
def test_computing_is_reading(step, at):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        result = step(t, x)
        out[0:1, 0:1] = result[0:1, 0:1] + 0.0

    out = blank(4, 4)
    if at is None:
        kernel(ramp(4, 4), out)
        assert out[0, 0] == 2.0
        return
    with pytest.raises(pypto.error.FeError) as caught:
        kernel(ramp(4, 4), out)
    assert f"is read at element {at}, which nothing has written" in caught.value.text
    # The place is in the function that holds the op, called from the kernel.
    assert [frame.function for frame in caught.value.loc.frames] == ["<lambda>", "kernel"]
    assert (out == BEFORE).all()


@pytest.mark.parametrize("k", [2, 3])
def test_a_product_reads_the_valid_part_of_the_contracted_axis(k):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[:, 0:2] = x[:, 0:2]
        t[0:2, 2:3] = x[0:2, 2:3]
        rows = pypto.view(x, [4, 4], [0, 0], valid_shape=[n[0], 4])
        out[:] = pypto.matmul(t, rows, F)  # <-

    x, out = ramp(4, 4), blank(4, 4)
    if k == 2:
        kernel(x, ints(k), out)
        assert np.array_equal(out, x[:, :2] @ x[:2])
    else:
        said = unwritten(kernel, x, ints(k), out)
        assert said == "`t` is read at element [2, 2], which nothing has written"


@pytest.mark.parametrize("rows", [(0, 1), (1, 3)])
def test_gather_reads_the_rows_that_it_picks(rows):
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:3, :] = x[0:3, :]
        picked = pypto.gather(t, 0, places)
        out[0:2, :] = picked + 1.0  # <-

    places = np.repeat(np.array(rows, np.int32)[:, None], 4, 1)
    out = blank(4, 4)
    if 3 in rows:
        said = unwritten(kernel, ramp(4, 4), places, out)
        assert said == "`picked` is read at element [1, 0], which nothing has written"
    else:
        kernel(ramp(4, 4), places, out)
        assert np.array_equal(out[:2], ramp(4, 4)[list(rows)] + 1)


@pytest.mark.parametrize("rows", [(2, 1, 0), (0, 2, 2)])
def test_writes_at_places_fill(rows):
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([3, 4], F)
        t[2:3, :] = x[2:3, :]
        pypto.index_put_(t, [places], x)
        out[:] = t + 1.0  # <-

    x, out = ramp(3, 4), blank(3, 4)
    if 1 in rows:
        kernel(x, ints(*rows), out)
        assert np.array_equal(out[list(rows)], x + 1)
    else:
        said = unwritten(kernel, x, ints(*rows), out)
        assert said == "`t` is read at element [1, 0], which nothing has written"


def test_writes_at_places_carry_marks():
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        rows = pypto.tensor([2, 4], F)
        rows[0:1, :] = x[0:1, :]
        t = x * 1.0
        pypto.scatter_update(t, -2, places, rows)
        out[:] = t + 1.0  # <-

    said = unwritten(kernel, ramp(3, 4), ints(2, 1).reshape(1, 2), blank(3, 4))
    assert said == "`t` is read at element [1, 0], which nothing has written"


@pytest.mark.parametrize("op", ["index_put_", "atomic_add"])
def test_adding_reads_what_is_there(op):
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32, op):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([3, 4], F)
        t[0:2, :] = x[0:2, :]
        part = x[0:1, :]
        for i in pypto.loop(1, 3):
            if op == "atomic_add":
                pypto.atomic_add(part, [i, 0], t)  # <- atomic_add
            else:
                pypto.index_put_(t, [places[i : i + 1]], part, accumulate=True)  # <- index_put_
        out[:] = t

    said = unwritten(kernel, ramp(3, 4), ints(0, 1, 2), blank(3, 4), op, mark=f"# <- {op}")
    assert said == ("`t` is read at element [2, 0], which nothing has written (in iteration i = 2)")


@pytest.mark.parametrize("at", [1, 2])
def test_an_element_steers_the_kernel(at):
    @pypto.jit
    def kernel(x: F32, out: F32, at):
        pypto.set_vec_tile_shapes(4, 4)
        counts = pypto.tensor([4], I32)
        counts[0] = 3
        counts[1] = 2
        for i in pypto.loop(counts[at]):  # <-
            out[i : i + 1, :] = x[i : i + 1, :] * 2.0

    out = blank(4, 4)
    if at == 1:
        kernel(ramp(4, 4), out, at)
        assert np.array_equal(out[:2], ramp(4, 4)[:2] * 2)
        assert (out[2:] == BEFORE).all()
    else:
        said = unwritten(kernel, ramp(4, 4), out, at)
        assert said == "`counts` is read at element [2], which nothing has written"


@pytest.mark.parametrize("cond", [0, 1])
def test_printing_is_reading(cond, capsys):
    @pypto.jit
    def kernel(x: F32, out: F32, n: INT):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([2, 4], F)
        t[0:1, :] = x[0:1, :]
        pypto.pass_verify_print(t, cond=n[0])  # <-
        out[:] = x * 2.0

    if cond:
        said = unwritten(kernel, ramp(2, 4), blank(2, 4), ints(cond))
        assert said == "`t` is read at element [1, 0], which nothing has written"
    else:
        kernel(ramp(2, 4), blank(2, 4), ints(cond))
    assert capsys.readouterr().out == ""


def test_a_local_of_dynamic_extent():
    @pypto.jit
    def kernel(x: pypto.Tensor([pypto.DYNAMIC, 4], F), out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        n = x.shape[0]
        t = pypto.tensor([n, 4], F)
        for i in pypto.loop(n - 1):
            t[i : i + 1, :] = x[i : i + 1, :] * 2.0
        for i in pypto.loop(n):
            pypto.assemble(t[i : i + 1, :] + 1.0, [i, 0], out)  # <-

    for n in (2, 5):
        out = blank(5, 4)
        said = unwritten(kernel, ramp(n, 4), out)
        assert said == (
            "a view of `t` is read at element [0, 0], which nothing has written "
            f"(in iteration i = {n - 1})"
        )
        assert np.array_equal(out[: n - 1], ramp(n, 4)[:-1] * 2 + 1)


# --- outside of the valid elements ---------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2])
def test_reshape_may_not_make_elements_valid(rows):
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        some = pypto.view(x, [1, 16], [0, 0], valid_shape=[1, n[0]])
        square = some.reshape([4, 4], valid_shape=[n[1], 4])
        out[0:4, :] = square + 1.0  # <-

    out = blank(4, 4)
    if rows == 1:
        kernel(ramp(1, 16), ints(6, 1), out)
        assert out.tolist() == [[2, 3, 4, 5], *[[BEFORE] * 4] * 3]
    else:
        problem = finding(kernel, ramp(1, 16), ints(6, 2), out)
        assert problem.text == (
            "`square` is read at element [1, 2], which is outside of the valid elements that were "
            "reshaped"
        )
        assert problem.fix == (
            "give reshape a valid_shape that holds valid elements only, or fillpad first"
        )


@pytest.mark.parametrize(("chosen", "said"), [("uninit", False), ("poison", True), ("0", False)])
def test_each_finding_has_its_switch(monkeypatch, chosen, said):
    monkeypatch.setenv("PYPTO_SANITIZE", chosen)

    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        some = pypto.view(x, [1, 4], [0, 0], valid_shape=[1, 3])
        out[:] = some.reshape([2, 2], valid_shape=[2, 2]) + 1.0  # <-

    out = blank(2, 2)
    if said:
        assert "[1, 1]" in unwritten(kernel, ramp(1, 4), out)
    else:
        kernel(ramp(1, 4), out)
        assert out.tolist()[0] == [2, 3]
        assert np.isnan(out[1, 1])


def test_invalid_elements_are_told_from_unwritten_ones(monkeypatch):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        some = pypto.view(x, [1, 4], [0, 0], valid_shape=[1, 3])
        t = pypto.tensor([3, 2], F)
        t[0:2, :] = some.reshape([2, 2], valid_shape=[2, 2])
        out[0:1, :] = t[2:3, :] + 1.0  # <- unwritten
        out[1:3, :] = t[0:2, :] + 1.0  # <- invalid

    out = blank(3, 2)
    said = unwritten(kernel, ramp(1, 4), out, mark="# <- unwritten")
    assert said == "a view of `t` is read at element [0, 0], which nothing has written"
    monkeypatch.setenv("PYPTO_SANITIZE", "poison")
    said = unwritten(kernel, ramp(1, 4), out, mark="# <- invalid")
    assert said == (
        "a view of `t` is read at element [1, 1], which is outside of the valid elements that were "
        "reshaped"
    )
