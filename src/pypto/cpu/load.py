"""From the text of a module to code in memory.

In: LLVM IR and a target.  Out: the machine code as an object file, and an object file loaded, whose
functions are called through ctypes.  LLVM's vectoriser, SLP and unroller are off: what is emitted
is vector code already, and they would undo its shape.
"""

from __future__ import annotations

import threading
from typing import Any

import llvmlite.binding as llvm

from pypto.cpu.target import Target, host

_lock = threading.Lock()


def to_object(text: str, target: Target) -> bytes:
    """Optimised machine code of a module."""
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    machine = target.machine()
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    emitted: bytes = machine.emit_object(module)
    return emitted


class Code:
    """An object file in memory; its functions live as long as it does."""

    def __init__(self, name: str, emitted: bytes, exports: list[str]) -> None:
        with _lock:
            self._jit = _jit()
            builder = llvm.JITLibraryBuilder().add_object_img(emitted).add_current_process()
            for export in exports:
                builder.export_symbol(export)
            self._library = builder.link(self._jit, name)

    def address(self, name: str) -> int:
        found: int = self._library[name]
        return found


_instance: list[Any] = []


def _jit() -> Any:
    if not _instance:
        _instance.append(llvm.create_lljit_compiler(host().machine()))
    return _instance[0]
