"""What machine code asks of the process that it runs in: memory of run-time sizes, and prints.

The interpreter, on the same graph, judges results, printed lines and errors.
"""

import contextlib
import os

import numpy as np
import pytest
from native_runs import Both

import pypto
from pypto.cpu.launch import NativeProgram

F32 = np.float32
ANY = pypto.Tensor()
N = pypto.Tensor([], pypto.DT_INT32)


def words(*numbers):
    return np.array(numbers, np.int32)


# --- memory --------------------------------------------------------------------------------------


@pypto.frontend.jit
def rows_of_a_run(n: N, x: ANY, out: ANY):
    """Adds up the rows of x in a tensor of n[0] + trip rows, of which n[1] are written."""
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(n[2]):
        t = pypto.tensor([n[0] + i * n[3], 4], pypto.DT_FP32)
        pypto.assemble(x + out, [n[1], 0], t)
        u = pypto.tensor([n[0] + i * n[3], 4], pypto.DT_FP32)
        pypto.assemble(x, [n[1], 0], u)
        out[:] = pypto.view(t, [2, 4], [n[1], 0]) + pypto.view(u, [2, 4], [n[1], 0])


@pytest.fixture(scope="module")
def rows():
    return Both(rows_of_a_run, words(2, 0, 1, 1), np.zeros((2, 4), F32), np.zeros((2, 4), F32))


@pytest.mark.parametrize(
    ("first", "row", "trips", "more"),
    [(2, 0, 3, 0), (2, 0, 9, 7), (300, 298, 5, -40), (1000, 5, 4, 1000), (7, 3, 0, 1)],
)
def test_memory_of_a_size_that_the_run_knows(rows, first, row, trips, more):
    x = np.arange(8, dtype=F32).reshape(2, 4)
    rows.run(words(first, row, trips, more), x, np.zeros((2, 4), F32))


@pytest.mark.parametrize(
    ("first", "more", "kind", "text"),
    [
        (-3, 0, ValueError, "a tensor cannot have -3 elements on axis 0 (in iteration i = 0)"),
        (8, -9, ValueError, "a tensor cannot have -1 elements on axis 0 (in iteration i = 1)"),
        (2**31 - 1, 0, MemoryError, "there is no memory for a tensor of DT_FP32 [2147483647, 4"),
    ],
)
def test_sizes_that_cannot_be_had(rows, first, more, kind, text):
    limit = _limited(16 << 30) if kind is MemoryError else contextlib.nullcontext()
    with limit:
        _, problem = rows.run(words(first, 2, 3, more), np.ones((2, 4), F32), np.zeros((2, 4), F32))
    assert isinstance(problem, kind)
    assert text in problem.text


@contextlib.contextmanager
def _limited(size):
    """No more than so many bytes of address space: machines differ in what they promise."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_size_beyond_all_integers():
    @pypto.frontend.jit
    def kernel(n: N, out: ANY):
        pypto.set_vec_tile_shapes(8, 8)
        t = pypto.tensor([n[0] * n[0], n[0] * 2, 4], pypto.DT_FP32)
        pypto.assemble(pypto.reshape(out, [1, 1, 4]), [0, 0, 0], t)
        out[:] = pypto.reshape(pypto.view(t, [1, 1, 4], [0, 0, 0]), [4]) + 1.0

    both = Both(kernel, words(1), np.zeros(4, F32))
    (_, out), _ = both.run(words(2), np.zeros(4, F32))
    assert (out == 1).all()
    _, problem = both.run(words(2**31 - 1), np.zeros(4, F32))
    assert isinstance(problem, MemoryError)
    _, problem = both.run(words(0), np.zeros(4, F32))
    assert isinstance(problem, IndexError)


def test_memory_is_given_back_however_a_run_ends():
    @pypto.frontend.jit
    def kernel(n: N, out: ANY):
        pypto.set_vec_tile_shapes(8, 8)
        for _ in pypto.loop(n[1]):
            t = pypto.tensor([n[0], 1024], pypto.DT_FP32)
            pypto.assemble(out, [n[2], 0], t)
            out[:] = pypto.view(t, [1, 1024], [n[2], 0]) + 1.0

    out = np.zeros((1, 1024), F32)
    program = NativeProgram(kernel.graph(words(1, 1, 0), out))
    before = _resident()
    for k in range(60):
        # 32 MB a trip, and an end in an error each second time.
        program_fails = k % 2 == 1
        if program_fails:
            with pytest.raises(IndexError, match="assemble writes rows 9000..9000 of a 8192-row"):
                program.run([words(8192, 3, 9000), out])
        else:
            program.run([words(8192, 3, 5), out])
    assert (out == 90).all()
    assert _resident() - before < 300 << 20


def _resident():
    """Bytes of this process that lie in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_of_a_parallel_loop():
    @pypto.frontend.jit
    def kernel(n: N, x: ANY, out: ANY):
        pypto.set_vec_tile_shapes(8, 8)
        for i in pypto.loop(64, parallel=True):
            t = pypto.tensor([n[0] + i, 128], pypto.DT_FP32)
            for j in pypto.loop(n[1]):
                pypto.assemble(pypto.view(x, [1, 128], [i, 0]) * 2.0, [j, 0], t)
            pypto.assemble(pypto.view(t, [1, 128], [n[1] - 1, 0]) + 1.0, [i, 0], out)

    x = np.arange(64 * 128, dtype=F32).reshape(64, 128)
    both = Both(kernel, words(1, 1), x, x)
    both.run(words(300, 300), x, np.zeros_like(x))
    _, problem = both.run(words(300, 320), x, np.zeros_like(x))
    assert "in iteration i = 0, j = 300" in problem.text


# --- pieces ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second"), [(2, 3), (2, 2), (1, 3), (0, 0)])
def test_pieces_that_leave_a_hole_are_refused(first, second):
    @pypto.frontend.jit
    def kernel(n: N, x: ANY, out: ANY):
        pypto.set_vec_tile_shapes(8, 8)
        a = pypto.view(x, [2, 4], [0, 0], valid_shape=[n[0], 3])
        b = pypto.view(x, [3, 4], [2, 0], valid_shape=[n[1], 4])
        out[:] = pypto.concat([a, b], 0)

    x = np.arange(20, dtype=F32).reshape(5, 4)
    both = Both(kernel, words(2, 3), x, x)
    _, problem = both.run(words(first, second), x, np.zeros_like(x))
    if (first, second) == (2, 3):
        assert problem is None
    else:
        assert f"concat(): {first + second} of 5 elements are valid on axis 0" in problem.text


# --- prints --------------------------------------------------------------------------------------


@pypto.frontend.jit
def printing(n: N, x: ANY, mask: ANY, out: ANY):
    pypto.set_vec_tile_shapes(8, 8)
    pypto.pass_verify_print("nothing but text")
    for i in pypto.loop(n[0]):
        part = pypto.view(x, [3, 5], [0, i], valid_shape=[2, n[1]])
        pypto.pass_verify_print("trip", i, -i * 3, cond=i % 2 == 0)
        pypto.pass_verify_print(i, part, part.transpose(0, 1), mask, "end", cond=i == 1)
        out[:] = x + 1.0
    pypto.pass_verify_print(out, cond=n[0] - 1)


@pytest.fixture(scope="module")
def printer():
    return NativeProgram(printing.graph(*_printed(1, 1)))


def _printed(trips, valid, dtype=F32):
    x = np.linspace(-4, 4, 24).astype(F32).reshape(3, 8)
    return [words(trips, valid), x, np.eye(3, 4, dtype=bool), np.zeros((3, 8), F32)]


@pytest.mark.parametrize(("trips", "valid"), [(0, 1), (1, 5), (3, 4), (3, 0)])
def test_prints(trips, valid):
    both = Both(printing, *_printed(1, 1))
    both.run(*_printed(trips, valid))


def test_what_printing_runs_into_reaches_the_caller(printer, monkeypatch):
    class Closed:
        calls = 0

        def write(self, text):
            self.calls += 1
            if self.calls == 2:
                raise BrokenPipeError("nobody reads")

    closed = Closed()
    monkeypatch.setattr("sys.stdout", closed)
    arrays = _printed(5, 2)
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        printer.run(arrays)
    # The run stopped where the second print failed, in the first trip.
    assert closed.calls == 2
    assert (arrays[-1] == 0).all()


def test_an_interrupted_print_ends_the_run(printer, monkeypatch):
    class Interrupted:
        def write(self, text):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("sys.stdout", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            printer.run(_printed(5, 2))
    arrays = _printed(2, 2)
    printer.run(arrays)
    assert (arrays[-1] == arrays[1] + 1).all()


def test_an_error_behind_a_print(capsys):
    @pypto.frontend.jit
    def kernel(n: N, out: ANY):
        pypto.set_vec_tile_shapes(8)
        pypto.pass_verify_print("before")
        out[n[0]] = 1

    both = Both(kernel, words(0), np.zeros(4, np.int32))
    _, problem = both.run(words(4), np.zeros(4, np.int32))
    assert isinstance(problem, IndexError)
