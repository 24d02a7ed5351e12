"""The ops of the language, one record each.

Importing this package fills the registry.  A record holds names, element types, shape and valid
rules and the NumPy meaning; everything else about an op is derived from it.  `composite` is the
only file with functions over other ops; it holds no meaning of its own.
"""

from pypto.ops import (
    cast,
    choice,
    composite,
    contract,
    control,
    create,
    elementwise,
    index,
    indexing,
    inspect,
    movement,
    reduce,
    reshape,
    sort,
    unary,
    window,
    write,
)

__all__ = [
    "cast",
    "choice",
    "composite",
    "contract",
    "control",
    "create",
    "elementwise",
    "index",
    "indexing",
    "inspect",
    "movement",
    "reduce",
    "reshape",
    "sort",
    "unary",
    "window",
    "write",
]
