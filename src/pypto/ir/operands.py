"""What the arguments of a node stand for.

In: a node.  Out: the slots that name its operands, and the element type of a number beside its
tensors, which the interpreter, the passes and the text form must agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto.ir.dtype import DataType, scalar
from pypto.ir.graph import Node
from pypto.ir.op import Slot


def slots(item: Any) -> list[int]:
    """The operands that an attribute names, in order, at any depth."""
    if isinstance(item, Slot):
        return [item.index]
    if isinstance(item, (tuple, list)):
        return [index for part in item for index in slots(part)]
    if isinstance(item, Mapping):
        return [index for part in item.values() for index in slots(part)]
    return []


def governing(node: Node) -> DataType | None:
    """The element type that a number among the operands goes with: that of the first tensor."""
    for arg in node.op.args:
        if arg.name not in node.op.index_args:
            for index in slots(node.attrs[arg.name]):
                return node.operands[index].tensor.dtype
    return None


def typed(node: Node, number: int | float) -> Any:
    """A number among the operands as a scalar of the element type that the record gives it."""
    dtype = governing(node)
    return number if dtype is None else scalar(number, node.op.number(dtype, number))
