"""Where tensors are needed.

In: a graph.  Out: for each node the tensors that no later node needs, and the users of each value.
What runs a graph lets memory go there, so that a long kernel does not hold every intermediate.
"""

from __future__ import annotations

from typing import Any

from pypto.ir.graph import Graph, Node, Region, Value, walk
from pypto.ir.types import TensorType

# The tensor values that no later node needs, by the node after which that is so.
Ends = dict[Node, list[Value]]


def last_uses(graph: Graph) -> Ends:
    """Where each tensor value of a region is needed for the last time.

    Memory is let go there, so that a long kernel does not hold every intermediate at once.
    """
    last: dict[Value, Node | None] = {}
    depths: dict[Value, int] = {}
    path: list[Node] = []

    def use(item: Any) -> None:
        depth = depths.get(item)
        if depth is not None:
            # A value of this region that the region yields is kept.
            last[item] = path[depth] if depth < len(path) else None

    def visit(region: Region) -> None:
        depths.update((p, len(path)) for p in region.params if isinstance(p.type, TensorType))
        for node in region.nodes:
            path.append(node)
            for item in (*node.operands, *node.attrs.get("inits", ())):
                use(item)
            for inner in node.regions:
                visit(inner)
            path.pop()
            for result in node.results:
                if isinstance(result.type, TensorType):
                    depths[result], last[result] = len(path), node
        for item in region.yields:
            use(item)

    visit(graph.body)
    ends: Ends = {}
    for value, node in last.items():
        if node is not None:
            ends.setdefault(node, []).append(value)
    return ends


def users(graph: Graph) -> dict[Value, list[Node | None]]:
    """The nodes that use each tensor; None stands for the yield of a region."""
    found: dict[Value, list[Node | None]] = {}
    regions = [graph.body]
    for node in walk(graph.body):
        for item in (*node.operands, *node.attrs.get("inits", ())):
            if isinstance(item, Value):
                found.setdefault(item, []).append(node)
        regions.extend(node.regions)
    for region in regions:
        for item in region.yields:
            if isinstance(item, Value):
                found.setdefault(item, []).append(None)
    return found
