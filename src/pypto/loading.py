"""How the package itself comes into memory: quickly.

Modules that are being loaded make objects that stay, no garbage.  The collector cannot know and
walks all of NumPy's objects several times meanwhile, so it rests.  The rooms that only running a
kernel needs come when the first kernel does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

# When loading the package began, in seconds since the epoch.
BEGAN = time.time()


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """The collector rests inside, and afterwards is as it was."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


class Later:
    """A module that loads when something of it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def on_demand(package: str, *modules: str) -> Callable[[str], ModuleType]:
    """What a package takes as its `__getattr__`, so that these modules of it load on first use."""

    def load(name: str) -> ModuleType:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    return load
