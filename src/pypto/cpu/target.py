"""The machine that code is made for: its name, features, vector width, caches.

In: what LLVM tells of the host, or the name of another target for cross checks.  Out: a `Target`,
which is part of the key of every compiled object.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import llvmlite.binding as llvm

# What is asked of LLVM's code generator for every target; part of the key of every object file.
MACHINE = {"opt": 3, "reloc": "pic", "codemodel": "small", "jit": True}


class Target(NamedTuple):
    """`vector`: bytes of one register; `registers`: how many there are; `key` names all of it."""

    triple: str
    cpu: str
    features: str
    vector: int
    registers: int

    @property
    def lanes(self) -> int:
        """FP32 elements of one register."""
        return self.vector // 4

    @property
    def key(self) -> str:
        return f"{self.triple} {self.cpu} {self.features}"

    def machine(self) -> Any:
        """LLVM's code generator for it."""
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.features, **MACHINE
        )


@functools.cache
def host() -> Target:
    """This machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    vector, registers = 16, 16
    if features.get("avx512f") and features.get("avx512vl"):
        vector, registers = 64, 32
        # LLVM keeps to 256 bits on some of these machines unless told otherwise.
        features["prefer-256-bit"] = False
    elif features.get("avx2") and features.get("fma"):
        vector = 32
    elif features.get("neon"):
        registers = 32
    return Target(
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        features.flatten(),
        vector,
        registers,
    )
