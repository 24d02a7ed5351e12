"""How the package itself comes into memory: without the collector of garbage.

Modules that are being loaded make objects that stay, no garbage.  The collector cannot know and
walks all of NumPy's objects several times meanwhile, which costs a third of the import.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
