"""From the text of a module to code in memory.

In: LLVM IR and a target.  Out: the machine code as an object file, and an object file loaded, whose
functions are called through ctypes.  LLVM's vectoriser, SLP and unroller are off: what is emitted
is vector code already, and they would undo its shape.  llvmlite lets one thread at a time into
LLVM, so threads may compile at the same time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from pypto.cpu.target import Target, host

# Part of the key of every object file, as is the rest of what `to_object` asks for.
PASSES = {
    "speed_level": 2,
    "loop_vectorization": False,
    "slp_vectorization": False,
    "loop_unrolling": False,
    "loop_interleaving": False,
}


def to_object(text: str, target: Target) -> bytes:
    """Optimised machine code of a module."""
    # What LLVM knows of types and constants stays as long as its context does.
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = target.triple
    machine = target.machine()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options()
    for name, setting in PASSES.items():
        setattr(options, name, setting)
    passes = llvm.create_pass_builder(machine, options)
    manager = passes.getModulePassManager()
    manager.run(module, passes)
    # llvmlite has a way to free this, some 50 kB, but its own classes do not find it.
    NewPassManager._dispose(manager)
    manager.detach()
    emitted: bytes = machine.emit_object(module)
    return emitted


class Code:
    """An object file in memory; its functions live as long as it does."""

    def __init__(self, emitted: bytes, exports: list[str]) -> None:
        number = next(_numbers)
        # Held, since what it links needs it.
        self._linker = _linker(number)
        builder = llvm.JITLibraryBuilder().add_object_img(emitted).add_current_process()
        for export in exports:
            builder.export_symbol(export)
        self._library = builder.link(self._linker, f"library{number}")

    def address(self, name: str) -> int:
        found: int = self._library[name]
        return found


# LLVM keeps some 9 kB of every library until its linker goes, and some 160 kB of every linker.  So
# a linker serves a few libraries, and goes with the last of them.
_LIBRARIES = 32
_numbers = itertools.count()
_current: list[Any] = []


def _linker(number: int) -> Any:
    if not _current or number % _LIBRARIES == 0:
        _current[:] = [llvm.create_lljit_compiler(host().machine())]
    return _current[0]


# A fork while another thread is in LLVM would leave the child with a lock that nobody opens.
_llvm_lock = getattr(llvm.ffi.lib, "_lock", contextlib.nullcontext())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_llvm_lock.__enter__,
        after_in_parent=_llvm_lock.__exit__,
        after_in_child=_llvm_lock.__exit__,
    )
