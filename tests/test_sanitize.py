"""The sanitizers as a whole: the switch, guard zones, errors of the bounds, random accesses.

In: kernels and graphs under all sanitizers.  Out: findings exactly where a model in plain NumPy has
them, none in the kernels of the gym and none in random kernels.
"""

import dataclasses
import threading

import numpy as np
import pytest
import random_kernels
from graph_text import checked
from hypothesis import given, settings
from hypothesis import strategies as st
from sanitized import BEFORE, F32, INT, F, blank, finding, ints, ramp

import pypto
from pypto import knobs
from pypto.errors import InternalError
from pypto.gym import kernels
from pypto.gym.record import check
from pypto.interp.run import interpret, prepare

ALL = frozenset(knobs.SANITIZERS)


@pytest.fixture(autouse=True)
def sanitizers(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "1")
    monkeypatch.setenv("PYPTO_CHECK", "0")


# --- the switch ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ("", ""), ("0", ""), ("off", ""), ("uninit", "uninit"), ("race,nan", "race nan"),
        (" guard , poison,", "guard poison"), ("1", "uninit poison race guard"),
        ("1,nan", "uninit poison race guard nan"), ("all", "uninit poison race guard nan"),
    ],
)  # fmt: skip
def test_the_switch_is_a_list_of_names(monkeypatch, raw, names):
    monkeypatch.setenv("PYPTO_SANITIZE", raw)
    assert knobs.SANITIZE.get() == set(names.split())


def test_a_name_that_no_sanitizer_has(monkeypatch):
    monkeypatch.setenv("PYPTO_SANITIZE", "uninit,races")
    with pytest.raises(ValueError) as caught:
        knobs.SANITIZE.get()
    assert str(caught.value) == (
        "PYPTO_SANITIZE: no sanitizer is called 'races'; there are uninit, poison, race, guard, "
        "nan, and `all`"
    )


def test_the_switch_belongs_to_what_is_compiled(monkeypatch):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        t[0:2, :] = x[0:2, :]
        out[:] = t + 1.0  # <-

    for raw, is_found in (("0", False), ("uninit", True), ("race", False), ("all", True)):
        monkeypatch.setenv("PYPTO_SANITIZE", raw)
        out = blank(4, 4)
        if is_found:
            finding(kernel, ramp(4, 4), out)
            assert (out == BEFORE).all()
        else:
            kernel(ramp(4, 4), out)
            assert np.array_equal(out[:2], ramp(4, 4)[:2] + 1)
            assert np.isnan(out[2:]).all()


# --- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", ["0", "1"])
def test_a_write_past_the_end_names_tensor_line_and_iterations(monkeypatch, chosen):
    monkeypatch.setenv("PYPTO_SANITIZE", chosen)

    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(2):
            for j in pypto.loop(2, 5, 2):
                pypto.assemble(x * 2.0, [i * 4 + j, 0], out)  # <-

    out = blank(10, 4)
    problem = finding(kernel, ramp(4, 4), out)
    assert isinstance(problem, IndexError)
    assert problem.code == "F00008"
    assert problem.text == (
        "assemble writes rows 8..11 of a 10-row tensor; give valid_shape=[2, 4] (`out`, in "
        "iteration i = 1, j = 4)"
    )
    # The writes before it stay, guard zones or not.
    assert np.array_equal(out[6:10], ramp(4, 4) * 2)
    assert (out[:2] == BEFORE).all()


def test_other_bounds_name_tensor_and_iteration():
    @pypto.jit
    def kernel(x: F32, places: INT, out: F32, what):
        pypto.set_vec_tile_shapes(4, 4)
        for i in pypto.loop(3):
            k = places[i]
            if what == "view":
                out[i : i + 1, :] = pypto.view(x, [1, 4], [k, 0]) * 2.0  # <- view
            elif what == "item":
                out[i : i + 1, :] = x[i : i + 1, :] * places[k]  # <- item
            else:
                pypto.index_put_(out, [pypto.view(places, [1], [i])], x[0:1, :])  # <- put

    for what, places, said in (
        ("view", (0, -2, 0), "view: offset -2 on axis 0 is negative (`x`, in iteration i = 1)"),
        (
            "item",
            (0, 1, 9),
            "index 9 is out of range for axis 0 with extent 3 (`places`, in iteration i = 2)",
        ),
        (
            "put",
            (3, 0, 0),
            "index_put_(): indices[0][0] is 3, outside of 0..2 (`out`, in iteration i = 0)",
        ),
    ):
        problem = finding(kernel, ramp(3, 4), ints(*places), blank(3, 4), what, mark=f"# <- {what}")
        assert isinstance(problem, IndexError)
        assert problem.text == said


# --- guard zones ---------------------------------------------------------------------------------

SCRIBBLE = """
graph g:                                                                # k.py:3
  param x : fp32[4]
  param places : int32[4]
  param out : fp32[4]
  %0 = loop(0, 3, 1) : fp32[4] in out                                   # k.py:5
    index %1 : int 0..2
    carry %2 = out : fp32[4] in out
    %3 = scatter_(%2, 0, places, x, reduce=None) : fp32[4] in out       # k.py:6
    yield %3
"""
COPY = """
graph g:                                                                # k.py:3
  param x : fp32[4]
  param out : fp32[4]
  %0 = add(x, out) : fp32[4]                                            # k.py:4
  %1 = assemble(%0, out, offsets=(0,)) : fp32[4] in out                 # k.py:5
"""


def beside(array, element):
    """One element past an end of an array, which no op may touch."""
    start = np.lib.stride_tricks.as_strided(array, (2 * len(array),))
    base = start.__array_interface__["data"][0] + element * array.itemsize
    at = {"data": (base, False), "shape": (1,), "typestr": array.dtype.str, "version": 3}
    return np.asarray(type("At", (), {"__array_interface__": at})())


def with_defect(text, name, reference):
    """A graph in which the op of a name has another reference."""
    graph = checked(text)
    nodes = [n for r in (graph.body, *graph.body.nodes[0].regions) for n in r.nodes]
    for node in nodes:
        if node.op.name == name:
            node.op = dataclasses.replace(node.op, reference=reference)
    return graph


@pytest.mark.parametrize(
    ("element", "said"),
    [(4, "bytes 0..3 after the end"), (-2, "bytes 5..8 before the start")],
)
def test_a_guard_zone_that_an_op_writes_into(element, said):
    calls = []

    def scatter(x, dim, index, src, reduce):
        calls.append(x.tolist())
        x[index] = src
        if len(calls) == 2:
            beside(x, element)[0] = 0

    graph = with_defect(SCRIBBLE, "scatter_", scatter)
    out = blank(4)
    with pytest.raises(InternalError) as caught:
        interpret(graph, [ramp(4), ints(2, 0, 1, 3), out], frozenset({"guard"}))
    assert isinstance(caught.value, IndexError)
    assert caught.value.text == (
        f"`out` was written outside of its memory by scatter_: {said}; this is a defect of "
        "pypto-anywhere, not of the kernel (in iteration %1 = 1)"
    )
    assert (caught.value.loc.file, caught.value.loc.line) == ("k.py", 6)
    assert len(calls) == 2
    assert out.tolist() == [2, 3, 1, 4]


def test_guard_zones_are_looked_at_behind_the_run():
    def scribble(x, y):
        beside(y, 5)[0] = 0
        return x + y

    graph = with_defect(COPY, "add", scribble)
    # The op writes beside `out` while another one writes `out` itself.
    out = blank(4)
    with pytest.raises(InternalError) as caught:
        interpret(graph, [ramp(4), out], frozenset({"guard"}))
    assert caught.value.text == (
        "`out` was written outside of its memory by assemble: bytes 4..7 after the end; this is a "
        "defect of pypto-anywhere, not of the kernel"
    )
    assert out.tolist() == (ramp(4) + BEFORE).tolist()


def test_guard_zones_that_nobody_writes():
    for text in (SCRIBBLE, COPY):
        graph = checked(text)
        args = [ramp(4), ints(2, 0, 1, 3), blank(4)] if text is SCRIBBLE else [ramp(4), blank(4)]
        plain = [a.copy() for a in args]
        interpret(graph, plain)
        interpret(graph, args, ALL)
        assert all(np.array_equal(a, b) for a, b in zip(args, plain))


# --- random accesses, against a model ------------------------------------------------------------

SIDE = 6
spans = st.tuples(st.integers(0, SIDE - 1), st.integers(1, SIDE)).map(
    lambda pair: (pair[0], min(pair[1], SIDE - pair[0]))
)
boxes = st.tuples(spans, spans)
moves = st.sampled_from(["clone", "transpose", "move", "flat", "rows", "swap"])
writes = st.tuples(st.sampled_from(["write", "copy"]), boxes)


def window(box):
    return tuple(slice(o, o + n) for o, n in box)


@settings(max_examples=80)
@given(st.lists(writes | moves, max_size=8), boxes, st.booleans())
def test_marks_are_where_a_model_has_them(steps, last, in_loop):
    @pypto.jit
    def kernel(x: F32, out: F32, steps, box, in_loop):
        pypto.set_vec_tile_shapes(4, 4)
        t, u = pypto.tensor([SIDE, SIDE], F), pypto.tensor([SIDE, SIDE], F)
        t[0:1, 0:1], u[5:6, 5:6] = x[0:1, 0:1], x[5:6, 5:6]
        for step in steps:
            if step == "clone":
                t = t.clone()
            elif step == "transpose":
                t = pypto.transpose(t, 0, 1)
            elif step == "move":
                u[:] = t
            elif step == "flat":
                flat = t.reshape([SIDE * SIDE], inplace=True)
                flat[2:9] = x.reshape([SIDE * SIDE])[2:9]
            elif step == "rows":
                for i in pypto.loop(1, SIDE, 2):
                    t[i : i + 1, :] = u[i - 1 : i, :]
            elif step == "swap":
                if in_loop:
                    for i in pypto.loop(3):
                        t, u = u, t
                    # These names stand for one tensor or the other, so they are not written.
                    t, u = t.clone(), u.clone()
                else:
                    t, u = u, t
            else:
                (o, n), (p, m) = step[1]
                source = x if step[0] == "write" else u
                t[o : o + n, p : p + m] = source[o : o + n, p : p + m]
        (o, n), (p, m) = box
        result = t[o : o + n, p : p + m]
        out[o : o + n, p : p + m] = result * 2.0

    t, u = np.ones((SIDE, SIDE), bool), np.ones((SIDE, SIDE), bool)
    t[0, 0] = u[5, 5] = False
    for step in steps:
        if step == "transpose":
            t = t.T.copy()
        elif step == "clone":
            t = t.copy()
        elif step == "move":
            u[:] = t
        elif step == "flat":
            t.reshape(-1)[2:9] = False
        elif step == "rows":
            t[1::2] = u[0::2]
        elif step == "swap":
            t, u = u, t
        else:
            t[window(step[1])] = u[window(step[1])] if step[0] == "copy" else False
    out = blank(SIDE, SIDE)
    found = np.argwhere(t[window(last)])
    if len(found):
        with pytest.raises(ValueError) as caught:
            kernel(ramp(SIDE, SIDE), out, steps, last, in_loop)
        assert caught.value.text == (
            f"`result` is read at element {found[0].tolist()}, which nothing has written"
        )
        assert (out == BEFORE).all()
    else:
        kernel(ramp(SIDE, SIDE), out, steps, last, in_loop)
        assert not np.isnan(out).any()


kinds = st.lists(st.sampled_from(["read", "write", "add", "flat"]), min_size=1, max_size=3)
ROWS, COLUMNS, TRIPS = 4, 8, 4
# A tile of two rows, and of the same rows seen as one.
TILE, RUN = (2, 3), 5


@settings(max_examples=80)
@given(kinds, st.data())
def test_races_are_where_a_model_has_them(kinds, data):
    @pypto.jit
    def kernel(x: F32, places: INT, sink: F32, out: F32, kinds):
        pypto.set_vec_tile_shapes(4, 4)
        flat = out.reshape([ROWS * COLUMNS], inplace=True)
        for i in pypto.loop(TRIPS, parallel=True):
            for k in range(len(kinds)):
                row, column = places[i, k * 2], places[i, k * 2 + 1]
                if kinds[k] == "read":
                    part = out[row : row + TILE[0], column : column + TILE[1]]
                    pypto.assemble(part, [i * 2, 0], sink)
                elif kinds[k] == "write":
                    pypto.assemble(x[0 : TILE[0], 0 : TILE[1]], [row, column], out)
                elif kinds[k] == "add":
                    pypto.atomic_add(x[0 : TILE[0], 0 : TILE[1]], [row, column], out)
                else:
                    pypto.assemble(x.reshape([16])[0:RUN], [row * COLUMNS + column], flat)

    # Every trip has a corner; it goes elsewhere now and then, so that some kernels have no race.
    elsewhere = st.tuples(st.integers(0, ROWS - 2), st.integers(0, COLUMNS - 3))
    places = []
    for i in range(TRIPS):
        home = st.just((i // 2 * 2, i % 2 * 4))
        pairs = [data.draw(elsewhere if data.draw(st.integers(0, 9)) == 0 else home) for _ in kinds]
        places.append(pairs)
    meeting = _meeting(kinds, places)
    table = np.array(places, np.int32).reshape(TRIPS, -1)
    args = ramp(4, 4), table, blank(TRIPS * 2, TILE[1]), blank(ROWS, COLUMNS), kinds
    if meeting is None:
        kernel(*args)
    else:
        with pytest.raises(RuntimeError) as caught:
            kernel(*args)
        at, now, before, trip, i = meeting
        assert caught.value.text == (
            f"element {at} of `out` is {now} here and was {before} in iteration i = {trip} of the "
            f"same loop, which says parallel=True (in iteration i = {i})"
        )


WORDS = {"read": "read", "write": "written", "add": "added to"}
# What an access is held against, in this order.
MEETS = {"read": ("write", "add"), "write": ("write", "add", "read"), "add": ("write", "read")}


def _meeting(kinds, places):
    """The first access to an element that another trip touched, from all accesses before it."""
    past = {}
    for i in range(TRIPS):
        for kind, (row, column) in zip(kinds, places[i]):
            start = row * COLUMNS + column
            if kind == "flat":
                elements = list(range(start, start + RUN))
                kind = "write"
            else:
                elements = [start + a * COLUMNS + b for a in range(2) for b in range(3)]
            is_flat = len(elements) == RUN
            for other in MEETS[kind]:
                for element in elements:
                    trip = past.get((other, element), i)
                    if trip != i:
                        at = [element] if is_flat else [element // COLUMNS, element % COLUMNS]
                        return at, WORDS[kind], WORDS[other], trip, i
            for element in elements:
                past.setdefault((kind, element), i)
    return None


# --- what is right stays right -------------------------------------------------------------------

QUICK = [(k, case) for k in kernels().values() for case in k.cases if case.size == "quick"]


@pytest.mark.parametrize("pair", QUICK, ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_no_finding_in_the_gym(monkeypatch, pair):
    monkeypatch.setenv("PYPTO_SANITIZE", "all")
    assert check(*pair).passed


@pytest.mark.parametrize("first", range(1000, 1100, 20))
def test_no_finding_in_random_kernels(first):
    for seed in range(first, first + 20):
        source, make_args = random_kernels.build(seed)
        assert random_kernels.check(source, make_args) is None, source


def test_a_program_that_is_not_sanitized_has_no_trace_of_it():
    # The same graph: as many slots as values, and the two of errors.
    graph = checked(SCRIBBLE)
    plain, sanitized = prepare(graph), prepare(graph, ALL)
    values = 3 + 1 + 2 + 1
    assert plain._size == values + 2
    assert sanitized._size > plain._size


def test_threads_run_one_sanitized_program():
    @pypto.jit
    def kernel(x: F32, n: INT, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([4, 4], F)
        for i in pypto.loop(n[0], parallel=True):
            t[i : i + 1, :] = x[i : i + 1, :] + 0.0
        out[:] = t + 1.0

    kernel(ramp(4, 4), ints(4), blank(4, 4))
    said = {}

    def run(number):
        for _ in range(20):
            rows = number % 5
            out = blank(4, 4)
            try:
                kernel(ramp(4, 4), ints(rows), out)
                said.setdefault(rows, set()).add(float(out[3, 3]))
            except ValueError as problem:
                said.setdefault(rows, set()).add(problem.text)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {
        **{
            rows: {f"`t` is read at element [{rows}, 0], which nothing has written"}
            for rows in range(4)
        },
        4: {17.0},
    }


def test_interpreting_sanitizes_unless_it_is_told_not_to(monkeypatch):
    @pypto.jit
    def kernel(x: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 4)
        t = pypto.tensor([2, 4], pypto.DT_FP32)
        t[0:1, :] = x[0:1, :]
        out[:] = t + 1.0

    x, out = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    monkeypatch.delenv("PYPTO_SANITIZE")
    monkeypatch.setenv("PYPTO_INTERPRET", "0")
    kernel(x, out)
    assert np.isnan(out[1]).all() and (out[0] == 2).all()
    monkeypatch.setenv("PYPTO_INTERPRET", "1")
    with pytest.raises(pypto.error.PyptoError, match="which nothing has written"):
        kernel(x, out)
    monkeypatch.setenv("PYPTO_SANITIZE", "0")
    kernel(x, out)
    assert np.isnan(out[1]).all()
