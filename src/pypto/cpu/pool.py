"""Threads that share the trips of a parallel loop.

In: the address of a loop's body, which runs a range of trips, and how many there are.  Out: all of
them have run, or the fault of the lowest trip that ended in one.  Threads are Python's; machine
code holds no lock of the interpreter, so they run at the same time.  The calling thread takes part,
and the loop is done when its trips are, not when all threads have looked at it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from pypto import knobs

# i32 body(ptr context, ptr frame, ptr arena, i64 begin, i64 end)
BODY = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
)
# Pieces per thread: enough that threads which are slowed down do not hold up the others.
_PIECES = 4


def threads() -> int:
    """How many threads run a parallel loop: `PYPTO_NUM_THREADS`, or the cores of this process."""
    return knobs.NUM_THREADS.get() or len(os.sched_getaffinity(0))


# run(loop, begin, end), which says whether it ended in a fault
Run = Callable[["Loop", int, int], bool]


class Flag:
    """A word that machine code looks at."""

    def __init__(self) -> None:
        self._word = ctypes.c_int64(0)
        self.address = ctypes.addressof(self._word)

    def set(self) -> None:
        self._word.value = 1

    def is_set(self) -> bool:
        return bool(self._word.value)


class Loop:
    """One parallel loop while it runs."""

    def __init__(self, run: Run, trips: int, pieces: int) -> None:
        self._run = run
        self._size = -(-trips // pieces)
        self._trips = trips
        self._lock = threading.Lock()
        self._next = 0
        self._open = -(-trips // self._size)
        self._done = threading.Event()
        self.flag = Flag()  # set where trips that have not begun need not run

    def work(self) -> None:
        """Take pieces until there are none."""
        while True:
            with self._lock:
                begin = self._next
                self._next += self._size
            if begin >= self._trips:
                return
            end = min(begin + self._size, self._trips)
            if not self.flag.is_set() and self._run(self, begin, end):
                # Pieces are given out in order, so what lies before this one runs to its end.
                self.flag.set()
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    self._done.set()

    def wait(self) -> None:
        """Until all trips have run: what they use must not go before, whatever interrupts."""
        interrupted: BaseException | None = None
        while not self._done.is_set():
            try:
                self._done.wait()
            except BaseException as problem:
                self.flag.set()
                interrupted = problem
        if interrupted is not None:
            raise interrupted


class Pool:
    """Threads that wait for loops."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._count = 0
        self._loops: SimpleQueue[Loop] = SimpleQueue()

    def run(self, run: Run, trips: int) -> None:
        """Call `run(loop, begin, end)` over all trips; it says whether it ended in a fault."""
        count = min(threads(), trips)
        self._grow(count - 1)
        loop = Loop(run, trips, min(trips, count * _PIECES))
        for _ in range(count - 1):
            self._loops.put(loop)
        loop.work()
        loop.wait()

    def _grow(self, wanted: int) -> None:
        with self._lock:
            if self._owner != os.getpid():
                # Threads do not survive a fork.
                self._owner, self._count, self._loops = os.getpid(), 0, SimpleQueue()
            while self._count < wanted:
                self._count += 1
                threading.Thread(
                    target=_serve, args=(self._loops,), name=f"pypto-{self._count}", daemon=True
                ).start()


def _serve(loops: SimpleQueue[Any]) -> None:
    while True:
        loops.get().work()


POOL = Pool()
