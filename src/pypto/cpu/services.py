"""What machine code asks of Python while it runs: threads for a loop, and whether to stop.

Machine code calls these functions by addresses in its context block.  No exception may leave
through machine code: one that is raised here is kept, the code is told to stop, and the caller of
the kernel gets it.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from pypto.cpu.emission import (
    CONTEXT_WORDS,
    LEFT,
    OWN_ARENA,
    PARALLEL,
    PATIENCE,
    RAISED,
    SITE,
    STOPPED,
)
from pypto.cpu.pool import BODY, POOL, Flag, Loop

Context = ctypes.c_int64 * CONTEXT_WORDS
_PAGE = 4096


class _Thread(threading.local):
    """What belongs to a thread: memory for tensors of kernels' own, and what was raised."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)
        self.raised: BaseException | None = None


_thread = _Thread()
_go_on = Flag()


def arena(size: int) -> int:
    """The address of `size` bytes, aligned to a page, which this thread keeps for its next call."""
    if _thread.memory.nbytes < size + _PAGE:
        _thread.memory = np.empty(size + _PAGE, np.uint8)
    start: int = _thread.memory.__array_interface__["data"][0]
    return -(-start // _PAGE) * _PAGE


def context(own_arena: int) -> Any:
    """The block of one run."""
    made = Context()
    made[PARALLEL], made[OWN_ARENA], made[LEFT] = _PARALLEL_ADDRESS, own_arena, PATIENCE
    made[STOPPED] = _go_on.address
    return made


def raised(given: Any) -> BaseException | None:
    """What ended a run of this thread, if it was no fault of its own."""
    if given[RAISED] or given[RAISED + 1]:
        # Three references that a signal handler left: the class, the exception or nothing, and
        # its traceback.
        parts = []
        for word in range(RAISED, RAISED + 3):
            item = ctypes.cast(given[word], ctypes.py_object) if given[word] else None
            parts.append(None if item is None else item.value)
            if item is not None:
                ctypes.pythonapi.Py_DecRef(item)
            given[word] = 0
        kind, value, trace = parts
        assert kind is not None
        made: BaseException = value if isinstance(value, BaseException) else kind()
        return made.with_traceback(trace)
    found, _thread.raised = _thread.raised, None
    return found


def _parallel(given: Any, body: int, frame: int, size: int, trips: int) -> int:
    """Run the body of a loop over all trips; 1 where one of them ended in a fault."""
    function, caller = BODY(body), threading.get_ident()
    own = given[OWN_ARENA]
    faults: list[tuple[int, Any]] = []
    problems: list[BaseException] = []

    def run(loop: Loop, begin: int, end: int) -> bool:
        try:
            inner = Context(*given[:CONTEXT_WORDS])
            memory = own if threading.get_ident() == caller else arena(size)
            inner[STOPPED] = loop.flag.address
            failed = bool(function(inner, frame, memory, begin, end))
            problem = raised(inner) if failed else None
            if problem is not None:
                problems.append(problem)
            elif failed and inner[SITE]:
                faults.append((begin, inner))
            return failed
        except BaseException as problem:
            problems.append(problem)
            return True

    try:
        POOL.run(run, trips)
    except BaseException as problem:
        problems.append(problem)
    if problems:
        _thread.raised = problems[0]
        return 1
    if not faults:
        return 0
    # The fault of the lowest trip, whatever the number of threads.
    first = min(faults, key=lambda item: item[0])[1]
    for word in range(CONTEXT_WORDS):
        given[word] = first[word]
    return 1


_words = ctypes.POINTER(ctypes.c_int64)
# i32 parallel(ptr context, ptr body, ptr frame, i64 arena, i64 trips)
_PARALLEL_CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, _words, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2
)(_parallel)
_PARALLEL_ADDRESS = ctypes.cast(_PARALLEL_CALL, ctypes.c_void_p).value or 0
