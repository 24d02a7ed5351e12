"""Maps, fused: neighbouring ops over the same box become one nest.

In: nodes of the family MAP (and tensors of one number) in program order whose results have the same
extents.  Out: one loop over the box.  What only the group itself needs never reaches memory; what
comes in FP16 and BF16 is rounded after each op, as if it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.cpu.buffers import Mem
from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.lanes import BF16, FP16, FP64, INT64, MEMORY, Lane
from pypto.cpu.nest import Cursor, Walked, walk
from pypto.ir.dtype import FROM_NUMPY, DataType
from pypto.ir.graph import Node, Value
from pypto.ir.op import Family, Slot
from pypto.ir.operands import governing
from pypto.ir.sym import Expr, SymInt

_ELEMENTS = frozenset({"tensor", "operand", "element", "tensors"})
_HALF = frozenset({FP16, BF16})


def is_map(node: Node) -> bool:
    """Whether a node goes element by element and its meaning for machine code is known."""
    return node.op.name == "full" or (node.op.family is Family.MAP and node.op.lane is not None)


class Group:
    """Maps that wait to be emitted together."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._made: set[Value] = set()

    def takes(self, node: Node) -> bool:
        """Whether the node may join."""
        if not is_map(node):
            return False
        if not self.nodes:
            return True
        here, there = self.nodes[0].result.tensor, node.result.tensor
        return (here.shape, here.valid) == (there.shape, there.valid) and all(
            v not in self._made or v.tensor.shape == there.shape for v in node.operands
        )

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self._made.add(node.result)

    def needs(self, values: Sequence[Value]) -> bool:
        """Whether one of the values is made here."""
        return any(v in self._made for v in values)


def emit_group(e: Emission, nodes: Sequence[Node], kept: Sequence[Value]) -> None:
    """One nest for a group; `kept` are the results that are needed outside of it."""
    box = nodes[0].result
    rank = box.tensor.rank
    made = {node.result: k for k, node in enumerate(nodes)}
    tensors: list[Walked] = []
    known: dict[object, int] = {}

    def walked(item: object, mem: Mem, strides: tuple[Reg, ...]) -> int:
        if item not in known:
            known[item] = len(tensors)
            tensors.append(Walked(mem, strides))
        return known[item]

    steps = []
    for node in nodes:
        operands: list[tuple[str, Any]] = []
        options: dict[str, Any] = {}
        for arg in node.op.args:
            item = node.attrs[arg.name]
            if node.op.name == "full":
                if arg.name == "fill_value":
                    operands.append(_number(e, node, item, walked, node.result.tensor.dtype))
            elif arg.kind not in _ELEMENTS:
                options[arg.name] = item
            elif not isinstance(item, Slot):
                dtype = governing(node)
                kind = None if dtype is None else node.op.number(dtype, 0)
                operands.append(_number(e, node, item, walked, kind))
            elif (value := node.operands[item.index]) in made:
                operands.append(("made", made[value]))
            else:
                mem = e.mem(value)
                operands.append(("walked", walked(value, mem, _spread(value, mem, box))))
        steps.append((node.op, tuple(operands), options, node.result.tensor.dtype))
    outputs = []
    for value in kept:
        mem = e.make(value)
        outputs.append((made[value], walked(("out", value), mem, mem.strides[:rank])))

    def body(at: Cursor) -> None:
        results: list[Lane] = []
        for step in steps:
            results.append(_step(at, results, *step))
        for k, place in outputs:
            at.store(place, results[k])

    key = tuple((op.name, operands, repr(options), dtype) for op, operands, options, dtype in steps)
    weight = min(4, 1 + len(nodes) // 3)
    walk(
        e, ("map", repr(key), tuple(outputs)), e.valid(box), tensors, body,
        written=[place for _, place in outputs], weight=weight,
    )  # fmt: skip


def _spread(value: Value, mem: Mem, box: Value) -> tuple[Reg, ...]:
    """The strides of an operand along the axes of the box."""
    shape, target = value.tensor.shape, box.tensor.shape
    lead = len(target) - len(shape)
    own = (
        i64(0) if n == 1 and target[lead + axis] != 1 else mem.strides[axis]
        for axis, n in enumerate(shape)
    )
    return (*(i64(0) for _ in range(lead)), *own)


def _number(
    e: Emission, node: Node, item: Any, walked: Any, dtype: DataType | None
) -> tuple[str, Any]:
    """An operand that is a number: known now, or an integer that is known only at run time."""
    if item is None:
        return ("none", None)
    if not isinstance(item, Expr):
        kind = FROM_NUMPY[item.dtype] if isinstance(item, np.generic) else dtype
        return ("const", (kind, item))
    assert dtype is not None
    # It is put into memory of one element, which the nest walks like a tensor that is repeated.
    mem = place_number(e, item, dtype)
    zeros = (i64(0),) * node.result.tensor.rank
    return ("walked", walked(("number", item, dtype), mem, zeros))


def place_number(e: Emission, item: SymInt, dtype: DataType) -> Mem:
    """An integer of the run as one element of a type, in memory."""
    lanes = e.builder(e.code, 1)
    lane = Lane(e.ints.of(item), INT64)
    # The interpreter rounds through FP64, too.
    lane = lanes.convert(lanes.convert(lane, FP64) if dtype.is_float else lane, dtype)
    place = e.code.local(MEMORY[dtype])
    lanes.store(lane, place)
    return Mem(place, (), dtype)


def _step(
    at: Cursor, results: list[Lane], op: Any, operands: Any, options: Any, dtype: DataType
) -> Lane:
    lanes = at.lanes
    given = [_operand(at, results, *operand) for operand in operands]
    if op.name == "full":
        assert given[0] is not None
        return lanes.convert(given[0], dtype)
    if op.widen:
        given = [None if lane is None else lanes.widen(lane) for lane in given]
    return lanes.convert(op.lane(lanes, *given, **options), dtype)


def _operand(at: Cursor, results: list[Lane], how: str, what: Any) -> Lane | None:
    if how == "made":
        return results[what]
    if how == "walked":
        return at.load(what)
    return None if how == "none" else at.lanes.const(*what)
