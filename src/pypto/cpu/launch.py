"""Running a kernel's machine code on the arrays of one call.

In: a graph, made ready once.  Out: the arrays written in place, or an error at the user's line.
The code holds no state of a run, so several threads may run it at the same time; each has an arena
of its own, which stays for its next call.  Code that an earlier run has left in the cache is not
made again.
"""

from __future__ import annotations

import ctypes
import functools
import json
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pypto.cpu import cache, keys
from pypto.cpu.emission import CONTEXT_WORDS, NUMBERS, OWN_ARENA, PARALLEL, PRINTER, SITE, TRIPS
from pypto.cpu.emit import KERNEL, Emitted, emit
from pypto.cpu.load import Code, to_object
from pypto.cpu.pool import BODY, POOL
from pypto.cpu.prints import CALL, texts
from pypto.cpu.target import host
from pypto.errors import InternalError
from pypto.ir.faults import told
from pypto.ir.graph import Graph
from pypto.ir.show import print_line

_PAGE = 4096


class _Arena(threading.local):
    """Memory for the tensors of kernels' own, one piece per thread."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def at_least(self, size: int) -> int:
        """The address of `size` bytes, aligned to a page."""
        if self._memory.nbytes < size + _PAGE:
            self._memory = np.empty(size + _PAGE, np.uint8)
        start: int = self._memory.__array_interface__["data"][0]
        return -(-start // _PAGE) * _PAGE


_arena = _Arena()


# i32 parallel(ptr context, ptr body, ptr frame, i64 arena, i64 trips)
_PARALLEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.c_void_p,
    ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip
_Context = ctypes.c_int64 * CONTEXT_WORDS


def _run_parallel(context: Any, body: int, frame: int, arena: int, trips: int) -> int:
    """Run the body of a loop over all trips; 1 where one of them ended in a fault."""
    function, caller = BODY(body), threading.get_ident()
    own = context[OWN_ARENA]
    found: list[tuple[int, Any]] = []

    def run(begin: int, end: int) -> bool:
        inner = _Context(*context[:CONTEXT_WORDS])
        memory = own if threading.get_ident() == caller else _arena.at_least(arena)
        failed = bool(function(inner, frame, memory, begin, end))
        if failed:
            found.append((begin, inner))
        return failed

    POOL.run(run, trips)
    if not found:
        return 0
    # The fault of the lowest trip, whatever the number of threads.
    first = min(found, key=lambda item: item[0])[1]
    for word in range(CONTEXT_WORDS):
        context[word] = first[word]
    return 1


_PARALLEL_CALL = _PARALLEL(_run_parallel)
_PARALLEL_ADDRESS = ctypes.cast(_PARALLEL_CALL, ctypes.c_void_p).value or 0


class _Recipe(NamedTuple):
    """What a run needs to know of a kernel, and the key of its object file."""

    arena: int
    body_arena: int
    prints: bool
    module: str

    def to_bytes(self) -> bytes:
        return json.dumps(self).encode()

    @staticmethod
    def of_bytes(raw: bytes) -> _Recipe:
        return _Recipe(*json.loads(raw))


def _make(graph: Graph) -> tuple[_Recipe, bytes]:
    """The recipe and the object file of a kernel, from the cache as far as they are there."""
    key = keys.of_graph(graph, host()) if cache.enabled() else None
    known = cache.load(key) if key is not None else None
    if known is not None:
        recipe = _Recipe.of_bytes(known)
        code = cache.load(recipe.module)
        if code is not None:
            return recipe, code
    emitted = emit(graph, host())
    text = emitted.module.text()
    prints, module = bool(emitted.prints), keys.of_module(text, host())
    recipe = _Recipe(emitted.arena, emitted.body_arena, prints, module)
    code = cache.load(recipe.module)
    if code is None:
        code = to_object(text, host())
        cache.store(recipe.module, code)
    if key is not None:
        cache.store(key, recipe.to_bytes())
    return recipe, code


class NativeProgram:
    """A graph as machine code."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._recipe, code = _make(graph)
        self._arena_size = -(-self._recipe.arena // _PAGE) * _PAGE
        self._body_arena = self._recipe.body_arena
        self._code = Code(code, [KERNEL])
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
        self._call = kind(self._code.address(KERNEL))
        self._dims = [(k, axis) for k, p in enumerate(graph.params) for axis in p.dims]

    @property
    def text(self) -> str:
        """The LLVM IR."""
        return emit(self._graph, host()).module.text()

    @functools.cached_property
    def _emitted(self) -> Emitted:
        """What a run may end in, and what it prints.  Few runs need to know, so it is not kept with
        the code but found again.
        """
        emitted = emit(self._graph, host())
        if keys.of_module(emitted.module.text(), host()) != self._recipe.module:
            raise InternalError(
                "a fault or a print of a run cannot be told: the kernel's machine code is not what "
                "its graph gives",
                fix="remove what is kept of earlier runs: pypto cache clear",
            )
        return emitted

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays of one call, one per tensor parameter; outputs are written in place."""
        pointers = (ctypes.c_int64 * len(arrays))(
            *[a.__array_interface__["data"][0] for a in arrays]
        )
        dims = (ctypes.c_int64 * len(self._dims))(*[arrays[k].shape[a] for k, a in self._dims])
        arena = _arena.at_least(self._arena_size + self._body_arena)
        context = _Context()
        context[PARALLEL] = _PARALLEL_ADDRESS
        context[OWN_ARENA] = arena + self._arena_size
        if self._recipe.prints:
            self._run_printing(context, pointers, dims, arena)
        elif self._call(context, pointers, dims, arena):
            self._raise(list(context))

    def _run_printing(self, context: Any, pointers: Any, dims: Any, arena: int) -> None:
        """Run code that prints; an error of the printing is the caller's."""
        raised: list[BaseException] = []
        prints = self._emitted.prints

        def show(place: int, words: Any) -> int:
            try:
                print_line(list(texts(prints[place], words)))
            except BaseException as problem:
                # It must not leave through machine code, which stops and comes back here.
                raised.append(problem)
            return len(raised)

        printer = CALL(show)
        context[PRINTER] = ctypes.cast(printer, ctypes.c_void_p).value
        failed = self._call(context, pointers, dims, arena)
        if raised:
            raise raised[0]
        if failed:
            self._raise(list(context))

    def _raise(self, context: list[int]) -> None:
        fault = self._emitted.faults[context[SITE] - 1]
        problem = fault.make(context[NUMBERS : NUMBERS + fault.numbers])
        problem.loc = fault.node.loc
        indices = context[TRIPS : TRIPS + len(fault.loops)]
        trips = [f"{name} = {i}" for name, i in zip(fault.loops, indices, strict=True)]
        culprit = fault.node if isinstance(problem, IndexError) else None
        problem.text = told(self._graph, problem.text, trips, culprit)
        problem.args = (problem.text,)
        raise problem
