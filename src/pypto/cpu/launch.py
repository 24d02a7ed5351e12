"""Running a kernel's machine code on the arrays of one call.

In: a graph, made ready once.  Out: the arrays written in place, or an error at the user's line.
The code holds no state of a run, so several threads may run it at the same time.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.cpu import services
from pypto.cpu.emission import NUMBERS, PRINTER, SITE, TRIPS
from pypto.cpu.emit import KERNEL, emit
from pypto.cpu.load import Code, to_object
from pypto.cpu.prints import CALL, texts
from pypto.cpu.target import host
from pypto.ir.faults import told
from pypto.ir.graph import Graph
from pypto.ir.show import print_line

_PAGE = 4096
_count = itertools.count()  # so that no two libraries have one name


class NativeProgram:
    """A graph as machine code."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        emitted = emit(graph, host())
        self._faults, self._arena_size = emitted.faults, -(-emitted.arena // _PAGE) * _PAGE
        self._body_arena, self._prints = emitted.body_arena, emitted.prints
        self.text = emitted.module.text()
        self._code = Code(f"{graph.name}.{next(_count)}", to_object(self.text, host()), [KERNEL])
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
        self._call = kind(self._code.address(KERNEL))
        self._dims = [(k, axis) for k, p in enumerate(graph.params) for axis in p.dims]

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays of one call, one per tensor parameter; outputs are written in place."""
        pointers = (ctypes.c_int64 * len(arrays))(
            *[a.__array_interface__["data"][0] for a in arrays]
        )
        dims = (ctypes.c_int64 * len(self._dims))(*[arrays[k].shape[a] for k, a in self._dims])
        arena = services.arena(self._arena_size + self._body_arena)
        context = services.context(arena + self._arena_size)
        if self._prints:
            self._run_printing(context, pointers, dims, arena)
        elif self._call(context, pointers, dims, arena):
            self._raise(context)

    def _run_printing(self, context: Any, pointers: Any, dims: Any, arena: int) -> None:
        """Run code that prints; an error of the printing is the caller's."""
        raised: list[BaseException] = []

        def show(place: int, words: Any) -> int:
            try:
                print_line(list(texts(self._prints[place], words)))
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
        fault = self._faults[context[SITE] - 1]
        problem = fault.make(context[NUMBERS : NUMBERS + fault.numbers])
        problem.loc = fault.node.loc
        indices = context[TRIPS : TRIPS + len(fault.loops)]
        trips = [f"{name} = {i}" for name, i in zip(fault.loops, indices, strict=True)]
        culprit = fault.node if isinstance(problem, IndexError) else None
        problem.text = told(self._graph, problem.text, trips, culprit)
        problem.args = (problem.text,)
        raise problem
