"""How the values of a tensor are printed.

In: the valid box of a tensor as a NumPy array.  Out: nested brackets as torch prints them, long
axes summarised at both ends, with element type, shape and, where only a part is valid, the valid
extents.  `set_print_options` changes the layout for the whole process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import place
from pypto.ir.dtype import DataType
from pypto.ir.keywords import known_keywords


@dataclass(frozen=True, eq=False)
class PrintOptions:
    """Layout of printed tensors."""

    edgeitems: int = 3
    precision: int = 4
    threshold: int = 1000
    linewidth: int = 80


_options = PrintOptions()


@place.boundary
@known_keywords
def set_print_options(
    *,
    edgeitems: int | None = None,
    precision: int | None = None,
    threshold: int | None = None,
    linewidth: int | None = None,
) -> None:
    """Change how tensors are printed; what is left out stays.

    `edgeitems`: elements at each end of a summarised axis (3).  `precision`: digits after the
    point (4).  `threshold`: elements above which a tensor is summarised (1000).  `linewidth`:
    characters a line (80).  Errors: TypeError F00001 for other types, ValueError F00002 below 0
    (`edgeitems` and `linewidth`: below 1).  Source: the print options of the language.
    """
    global _options
    given: dict[str, int | None] = {
        "edgeitems": edgeitems,
        "precision": precision,
        "threshold": threshold,
        "linewidth": linewidth,
    }
    changed: dict[str, int] = {}
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise error(
                TypeError,
                f"set_print_options(): {name} must be an int, got {type(value).__name__}",
                fix=f"pypto.set_print_options({name}=4)",
            )
        least = 1 if name in ("edgeitems", "linewidth") else 0
        if value < least:
            raise error(
                ValueError,
                f"set_print_options(): {name} must be at least {least}, got {value}",
                fix=f"pypto.set_print_options({name}={least})",
            )
        changed[name] = int(value)
    _options = replace(_options, **changed)


def get_print_options() -> dict[str, int]:
    """The options in force."""
    return {f.name: getattr(_options, f.name) for f in fields(_options)}


def print_line(texts: Sequence[str]) -> None:
    """Print what a kernel shows at one place."""
    # Tensors take several lines: each starts a line of its own.
    gap = "\n" if any("\n" in text for text in texts) else " "
    sys.stdout.write(gap.join(texts) + "\n")


def show(valid: np.ndarray[Any, Any], dtype: DataType, shape: tuple[int, ...]) -> str:
    """The text of a tensor of extents `shape` whose valid elements are `valid`."""
    options = _options
    # NumPy prints only its own types so.
    values = valid if valid.dtype.kind in "fiub" else valid.astype(np.float32)
    body = np.array2string(
        values,
        max_line_width=options.linewidth,
        precision=options.precision,
        separator=", ",
        prefix="tensor(",
        threshold=options.threshold,
        edgeitems=options.edgeitems,
        floatmode="fixed",
        suppress_small=False,
    )
    facts = f"dtype={dtype.name}, shape={list(shape)}"
    if valid.shape != shape:
        facts += f", valid_shape={list(valid.shape)}"
    last = body.rpartition("\n")[2]
    room = options.linewidth - len(last) - (0 if "\n" in body else len("tensor("))
    gap = ",\n       " if "\n" in body or len(facts) + 3 > room else ", "
    return f"tensor({body}{gap}{facts})"
