"""Rules about tile shapes.

In: a graph whose nodes carry the tile setting in force where they were written.  Out: findings, in
the order of the source.  Today there is one rule: an op that the chip runs tile by tile needs a
tile of its kind in scope.
"""

from __future__ import annotations

from pypto.errors import FeError, PyptoError, error
from pypto.ir.graph import Graph, Node, walk

SETTERS = {
    "vec": ("set_vec_tile_shapes", "pypto.set_vec_tile_shapes(32, 64)"),
    "cube": ("set_cube_tile_shapes", "pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])"),
}


def tile_is_set(node: Node) -> PyptoError | None:
    """Vector ops need a vec tile, matmuls a cube tile; 3-D and 4-D matmuls bring their vec tile."""
    engine = node.op.engine
    if engine not in SETTERS or node.tile is None:
        return None
    if node.tile.vec if engine == "vec" else node.tile.cube is not None:
        return None
    setter, fix = SETTERS[engine]
    return error(
        ValueError,
        f"tile shape not set for {node.op.name}; call {setter}()",
        code="F21004",
        loc=node.loc,
        fix=fix,
        kind=FeError,
    )


def findings(graph: Graph) -> list[PyptoError]:
    """What the rules find in a graph, by line."""
    found = [problem for node in walk(graph.body) if (problem := tile_is_set(node)) is not None]
    return sorted(found, key=lambda p: (p.loc.file, p.loc.line, p.loc.col) if p.loc else ("", 0, 0))
