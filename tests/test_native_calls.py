"""Machine code called: signals, threads, arrays as they come."""

import os
import signal
import threading
import time

import pytest
import torch

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)


@pytest.fixture(autouse=True)
def _native(monkeypatch):
    monkeypatch.setenv("PYPTO_INTERPRET", "0")
    monkeypatch.setenv("PYPTO_SANITIZE", "0")


@pypto.jit
def added_in_order(a: F32, out: F32, n: int):
    pypto.set_vec_tile_shapes(8, 8)
    total = a * 0.0
    for _ in pypto.loop(n):
        total = total + a
    out[:] = total


@pypto.jit
def added_by_threads(a: F32, out: F32, n: int):
    pypto.set_vec_tile_shapes(8, 8)
    for i in pypto.loop(8):
        total = a[i : i + 1] * 0.0
        for _ in pypto.loop(n):
            total = total + a[i : i + 1]
        out[i : i + 1] = total


@pytest.mark.parametrize("kernel", [added_in_order, added_by_threads], ids=lambda k: k.__name__)
def test_signal_stops_a_long_call_and_the_next_one_is_right(kernel, monkeypatch):
    monkeypatch.setenv("PYPTO_NUM_THREADS", "2")
    a, out = torch.ones(8, 8), torch.zeros(8, 8)
    kernel(a, out, 3)
    assert out.eq(3.0).all()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        kernel(a, out, 1 << 40)
    # Days, if nothing stopped it.
    assert time.monotonic() - began < 600
    kernel(a, out, 4)
    assert out.eq(4.0).all()


def test_handler_that_raises_something_else_is_what_the_caller_gets():
    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm("enough")

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm, match="enough"):
            added_in_order(torch.ones(8, 8), torch.zeros(8, 8), 1 << 40)
    finally:
        signal.signal(signal.SIGALRM, before)
