"""Rules about tile shapes.

In: nodes in the order of the program, each with the tile setting in force where it was written.
Out: findings.  Today there is one rule: an op that the chip runs tile by tile needs a tile of its
kind in scope.
"""

from __future__ import annotations

from collections.abc import Iterable

from pypto.errors import FeError, PyptoError, error
from pypto.ir.graph import Node
from pypto.ir.types import TensorType


def unset_tiles(nodes: Iterable[Node]) -> list[PyptoError]:
    """The first vector op without a vec tile and the first matmul without a cube tile.

    One call mends them all; 3-D and 4-D matmuls bring their vec tile.
    """
    found: dict[str, PyptoError] = {}
    for node in nodes:
        engine = node.op.engine
        if node.tile is None or engine in found:
            continue
        if engine == "vec" and not node.tile.vec:
            found[engine] = _unset(node, "set_vec_tile_shapes", _vec_entries(node))
        elif engine == "cube" and node.tile.cube is None:
            entries = "[64, 64], [64, 64], [64, 64]"
            found[engine] = _unset(node, "set_cube_tile_shapes", entries)
    return list(found.values())


def _unset(node: Node, setter: str, entries: str) -> PyptoError:
    return error(
        ValueError,
        f"tile shape not set for {node.op.name}; call {setter}() at the start of the kernel",
        code="F21004",
        loc=node.loc,
        fix=f"pypto.{setter}({entries})",
        kind=FeError,
    )


def _vec_entries(node: Node) -> str:
    """One entry an axis of the largest tensor that the op handles."""
    types = [value.type for value in (*node.operands, *node.results)]
    rank = max((t.rank for t in types if isinstance(t, TensorType)), default=2)
    return ", ".join((["1"] * (rank - 2) + ["32", "64"])[-max(rank, 1) :])
