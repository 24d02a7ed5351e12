"""Running a kernel's machine code on the arrays of one call.

In: a graph, made ready once.  Out: the arrays written in place, or an error at the user's line.
The code holds no state of a run, so several threads may run it at the same time.  Code that an
earlier run has left in the cache is not made again.
"""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pypto.cpu import cache, keys, services
from pypto.cpu.emission import NUMBERS, PRINTER, SITE, TRIPS
from pypto.cpu.emit import KERNEL, Emitted, emit
from pypto.cpu.load import Code, to_object
from pypto.cpu.prints import CALL, texts
from pypto.cpu.target import host
from pypto.errors import InternalError
from pypto.ir.faults import told
from pypto.ir.graph import Graph
from pypto.ir.show import print_line

_PAGE = 4096


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
        arena = services.arena(self._arena_size + self._body_arena)
        context = services.context(arena + self._arena_size)
        if self._recipe.prints:
            self._run_printing(context, pointers, dims, arena)
        elif self._call(context, pointers, dims, arena):
            self._raise(context)

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
            self._raise(context)

    def _raise(self, context: Any) -> None:
        stopped = services.raised(context)
        if stopped is not None:
            raise stopped
        fault = self._emitted.faults[context[SITE] - 1]
        problem = fault.make(context[NUMBERS : NUMBERS + fault.numbers])
        problem.loc = fault.node.loc
        indices = context[TRIPS : TRIPS + len(fault.loops)]
        trips = [f"{name} = {i}" for name, i in zip(fault.loops, indices, strict=True)]
        culprit = fault.node if isinstance(problem, IndexError) else None
        problem.text = told(self._graph, problem.text, trips, culprit)
        problem.args = (problem.text,)
        raise problem
