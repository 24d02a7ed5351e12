"""The road of a kernel, stage by stage; the one module that knows all the rooms.

    trace      the kernel's Python, run once, becomes a graph that reads no unwritten memory; where
               that fails, what the later stages can find already is told besides
    rewrite    passes that keep the meaning and make the graph smaller
    verify     what is legal in a graph holds
    check      what the chip asks holds (`PYPTO_CHECK`)
    results    no result is lost
    prepare    the graph becomes machine code, or a program of NumPy steps (`PYPTO_INTERPRET`)

Each stage takes what the one before left.  `until=` stops behind a stage; `PYPTO_DUMP` keeps the
text of the graph behind each, and the LLVM IR.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from pypto import cpu, interp, knobs
from pypto.check.tile_rules import unset_tiles
from pypto.errors import PyptoError, PyptoWarning, collected, error, warn
from pypto.ir.graph import Graph, Node, walk
from pypto.ir.rewrite import PASSES
from pypto.ir.text import to_text
from pypto.ir.verify import verify
from pypto.trace.results import lost_results, unwritten_reads, warn_of_lost, written_params
from pypto.trace.run import TensorSpec, Traced, trace_kernel
from pypto.trace.world import World, freeze

__all__ = ["Compiled", "Request", "TensorSpec", "World", "compile_kernel", "freeze"]


class Program(Protocol):
    """A graph made ready to run; `text` is the LLVM IR of machine code, empty for NumPy steps."""

    @property
    def text(self) -> str: ...

    def run(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays of one call, one per tensor parameter, written in place."""


@dataclass(eq=False)
class Request:
    """What to compile: a function, the kinds of its tensors, the values of its other arguments."""

    function: FunctionType
    tensors: list[TensorSpec]
    values: dict[str, Any]


@dataclass(eq=False)
class Compiled:
    """What the road has made so far."""

    request: Request
    traced: Traced | None = None
    graph: Graph | None = None
    program: Program | None = None
    written: frozenset[int] = frozenset()
    nodes: list[Node] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> Graph:
        """The graph, which exists behind the first stage."""
        assert self.graph is not None
        return self.graph


def _trace(c: Compiled) -> None:
    c.traced = trace_kernel(c.request.function, c.request.tensors, c.request.values)
    c.graph = c.traced.graph
    # Before dead code goes: a read whose result is unused is still the user's mistake.
    c.nodes = list(walk(c.text.body))
    found = [*c.traced.findings, *unwritten_reads(c.text, c.traced.doubtful)]
    if found:
        found += _broken_rules(c)
        if c.traced.whole:
            found += lost_results(c.text, c.traced)
        raise collected(found)


def _rewrite(c: Compiled) -> None:
    for rewrite in PASSES:
        c.graph = rewrite(c.text)


def _verify(c: Compiled) -> None:
    verify(c.text)


def _check(c: Compiled) -> None:
    assert c.traced is not None
    found = _broken_rules(c)
    if found:
        raise collected([*found, *lost_results(c.text, c.traced)])


def _broken_rules(c: Compiled) -> list[PyptoError]:
    """Rules of the chip that are errors; where they are to warn only, they have warned."""
    level = knobs.CHECK.get()
    found = unset_tiles(c.nodes) if level else []
    if level >= 2:
        return found
    for finding in found:
        warn(PyptoWarning, f"{finding.code}: {finding.text}", finding.loc, finding.fix)
    return []


def _results(c: Compiled) -> None:
    assert c.traced is not None
    found = lost_results(c.text, c.traced)
    if found:
        raise collected(found)
    c.written = written_params(c.text)
    warn_of_lost(c.nodes, c.text, c.traced)
    c.nodes = []


def _prepare(c: Compiled) -> None:
    # Sanitizers look at single steps, which only the interpreter has.
    sanitizers = knobs.sanitizers()
    if knobs.INTERPRET.get() or sanitizers:
        c.program = interp.run.prepare(c.text, sanitizers)
    else:
        c.program = cpu.launch.NativeProgram(c.text)


STAGES: list[tuple[str, Callable[[Compiled], None]]] = [
    ("trace", _trace),
    ("rewrite", _rewrite),
    ("verify", _verify),
    ("check", _check),
    ("results", _results),
    ("prepare", _prepare),
]


def compile_kernel(request: Request, until: str = "prepare") -> Compiled:
    """Walk the road up to and including the stage `until`."""
    names = [name for name, _ in STAGES]
    if until not in names:
        text = f"no stage is called {until!r}; there are {', '.join(names)}"
        raise error(ValueError, text, fix=f"until={names[-1]!r}")
    compiled = Compiled(request)
    for name, stage in STAGES:
        began = time.perf_counter()
        stage(compiled)
        compiled.seconds[name] = time.perf_counter() - began
        _dump(name, compiled)
        if name == until:
            break
    _report(compiled)
    return compiled


def _dump(stage: str, compiled: Compiled) -> None:
    folder = knobs.DUMP.get()
    if not folder or compiled.graph is None or stage in ("check", "results"):
        return
    name, text = f"{compiled.graph.name}.{stage}.txt", ""
    if stage != "prepare":
        text = to_text(compiled.graph) + "\n"
    elif compiled.program is not None:
        name, text = f"{compiled.graph.name}.ll", compiled.program.text
    if text:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def _report(compiled: Compiled) -> None:
    level = knobs.DEBUG.get()
    if level >= 1:
        times = ", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in compiled.seconds.items())
        sys.stderr.write(f"[pypto] {compiled.text.name}: {times}\n")
    if level >= 3:
        sys.stderr.write(to_text(compiled.text) + "\n")
    if level >= 4 and compiled.program is not None:
        sys.stderr.write(compiled.program.text)
