"""What machine code depends on, as keys of the cache.

In: the text of a module, or a graph.  Out: a key that changes with all that the machine code of it
follows from.  The key of a graph spares even the emitter: its code follows from the text of the
graph and from the source of the rooms below, which are part of the key.  (Whoever changes the
record of an op while the process runs must switch the cache off.)
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from pypto import loading
from pypto.cpu import cache
from pypto.cpu.load import PASSES
from pypto.cpu.target import MACHINE, Target
from pypto.ir.graph import Graph
from pypto.ir.text import to_text

# What the emitter consists of, and what it asks of ops and graphs.
_ROOMS = ("cpu", "ir", "ops")
# A file that was changed about when the package was loaded may not be what was loaded.
_SETTLED = 10.0


def of_module(text: str, target: Target) -> str:
    """The key of the object file of a module."""
    return cache.key_of("module", text, *_toolchain(target))


def of_graph(graph: Graph, target: Target) -> str | None:
    """The key of a kernel; None where it is not sure which source this process runs."""
    source = source_digest()
    if source is None:
        return None
    return cache.key_of("graph", to_text(graph, places=False), source, *_toolchain(target))


def _toolchain(target: Target) -> tuple[str, ...]:
    """What turns a module into an object file, and for which machine."""
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return llvmlite.__version__, llvm_version, target.key, repr(MACHINE), repr(PASSES)


@functools.cache
def source_digest() -> str | None:
    """Of the source that the emitter consists of, or None if it is not what this process runs."""
    digest, count = hashlib.sha256(), 0
    root = Path(__file__).parents[1]
    try:
        for path in sorted(path for room in _ROOMS for path in (root / room).glob("*.py")):
            if path.stat().st_ctime > loading.BEGAN - _SETTLED:
                return None
            raw = path.read_bytes()
            digest.update(f"{path.name} {len(raw)} ".encode() + raw)
            count += 1
    except OSError:
        return None
    # A package without its source files has nothing to tell.
    return digest.hexdigest() if count else None
