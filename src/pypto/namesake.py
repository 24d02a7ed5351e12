"""The name `pypto` on the package index belongs to the vendor's toolkit.

If that distribution is installed too, both lie in one folder and neither can be trusted, so
importing says so.
"""

from __future__ import annotations

import os
import re
import sys
import warnings

_THEIRS = re.compile(r"pypto-\d[^-]*\.(dist|egg)-info$", re.IGNORECASE)


def find(folders: list[str]) -> str | None:
    """The record of the vendor's distribution in one of the folders, if there is one."""
    for folder in folders:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if _THEIRS.match(name):
                return os.path.join(folder, name)
    return None


def check() -> None:
    """Warn where both distributions are installed."""
    found = find([p for p in sys.path if p.endswith(("site-packages", "dist-packages"))])
    if found is not None:
        warnings.warn(
            f"the vendor's `pypto` is installed too ({found}); it and pypto-anywhere share the "
            "import name, so install only one of them: pip uninstall pypto",
            UserWarning,
            stacklevel=3,
        )
