"""One handler per family of ops: from a node to the step that computes its results.

A step reads the valid boxes of its operands, calls the reference of the record, rounds once to the
element type of the result, and puts the result's valid box into memory whose other lanes are
poison.  An op of a known family needs no line here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.errors import InternalError
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step, box, check_valid, fresh, static
from pypto.ir.dtype import DataType, scalar
from pypto.ir.graph import Node, Value
from pypto.ir.op import Arg, Family, NumberRule, Out, Slot
from pypto.ir.operands import governing
from pypto.ir.sym import Expr
from pypto.memory import BFLOAT16, poisoned

_HALF = frozenset({np.dtype(np.float16), BFLOAT16})
_COMPUTE = np.dtype(np.float32)
_ELEMENTS = frozenset({"tensor", "operand", "element", "tensors"})


def _widened(item: Any) -> Any:
    """FP16 and BF16 as FP32, everything else as it is."""
    return item.astype(_COMPUTE) if getattr(item, "dtype", None) in _HALF else item


def _place(plan: Plan, node: Node, result: Value) -> Callable[[Frame, np.ndarray], None]:
    """What puts the valid box of a result into its slot."""
    type = result.tensor
    slot, dtype = plan.define(result), type.dtype.numpy
    valid, shape = plan.numbers(type.valid), plan.numbers(type.shape)
    name = node.op.name
    storage = result.storage
    assert storage is not None
    written = storage.written
    # A reference may hand back an operand, or a view of one: writes must not meet there.
    sources = [plan.slot(v) for v in node.operands if v.storage is not None]
    guarded = written or any(v.storage is not None and v.storage.written for v in node.operands)

    def place(f: Frame, array: np.ndarray) -> None:
        if array.dtype != dtype:
            array = array.astype(dtype)
        extents, whole = valid(f), shape(f)
        if array.shape != extents:
            raise InternalError(
                f"the reference of {name} gave the shape {list(array.shape)} where "
                f"{list(extents)} are valid"
            )
        if extents != whole:
            memory = poisoned(whole, dtype)
            memory[box(extents)] = array
        else:
            memory = array
            if guarded and any(np.may_share_memory(array, f[s]) for s in sources):
                memory = fresh(array)
            elif written and not (array.flags.c_contiguous and array.flags.writeable):
                memory = fresh(array)
        f[slot] = memory

    return place


def _get(plan: Plan, node: Node, arg: Arg, item: Any, beside: DataType | None) -> Get:
    """A function from the frame to one argument of a reference: valid boxes, numbers, constants."""
    if isinstance(item, Slot):
        return plan.valid_array(node.operands[item.index])
    if isinstance(item, tuple) and item and isinstance(item[0], Slot):
        parts = [plan.valid_array(node.operands[s.index]) for s in item]
        return lambda f: [part(f) for part in parts]
    if isinstance(item, Expr):
        number = plan.number(item)
        if arg.kind != "operand" or beside is None:
            return number
        dtype, kind = beside, node.op.number
        return lambda f: _typed(number(f), kind, dtype)
    if isinstance(item, (tuple, list)) and any(isinstance(x, Expr) for x in item):
        return plan.numbers(item)
    return lambda f: item


def _typed(value: int, kind: NumberRule, dtype: DataType) -> Any:
    return scalar(value, kind(dtype, value))


def _keywords(plan: Plan, node: Node, names: list[str]) -> Callable[[Frame], dict[str, Any]]:
    """A function from the frame to the keyword arguments of a reference."""
    args = {arg.name: arg for arg in node.op.args}
    items = {name: node.attrs[name] for name in names}
    if not any(_depends(item) for item in items.values()):
        return lambda f: items
    gets = {name: _get(plan, node, args[name], item, None) for name, item in items.items()}
    return lambda f: {name: get(f) for name, get in gets.items()}


def _depends(item: Any) -> bool:
    if isinstance(item, (tuple, list)):
        return any(_depends(x) for x in item)
    return isinstance(item, Expr)


def _cut(plan: Plan, node: Node, item: Any, result: Value) -> Callable[[Frame, Any], Any]:
    """An operand of a MAP cut to the valid extents of the result."""
    type, target = node.operands[item.index].tensor, result.tensor
    slot, lead = plan.slot(node.operands[item.index]), target.rank - type.rank
    # An axis of extent 1 that is broadcast has its one element everywhere.
    repeated = [n == 1 and target.shape[a + lead] != 1 for a, n in enumerate(type.shape)]

    def cut(f: Frame, valid: tuple[int, ...]) -> Any:
        own = valid[lead:]
        index = tuple([slice(0, 1 if again else n) for n, again in zip(own, repeated, strict=True)])
        return f[slot][index]

    return cut


def _uncut(get: Get) -> Callable[[Frame, Any], Any]:
    return lambda f, valid: get(f)


def _map(plan: Plan, node: Node) -> Step:
    op, result = node.op, node.result
    reference = op.reference
    assert reference is not None
    dtype = governing(node)
    whole: list[Get] = []
    cuts: list[Callable[[Frame, Any], Any]] = []
    names: list[str] = []
    widen = _widened if op.widen else lambda item: item
    for arg in op.args:
        item = node.attrs[arg.name]
        if arg.kind not in _ELEMENTS:
            names.append(arg.name)
        elif isinstance(item, Slot):
            whole.append(plan.array(node.operands[item.index]))
            cuts.append(_cut(plan, node, item, result))
        else:
            get = _get(plan, node, arg, item, dtype)
            whole.append(get)
            cuts.append(_uncut(get))
    keywords = _keywords(plan, node, names)
    type = result.tensor
    valid, shape = plan.numbers(type.valid), static(type.shape)
    place = _place(plan, node, result)

    def step(f: Frame) -> None:
        extents = valid(f)
        if extents == shape:
            operands = [widen(get(f)) for get in whole]
        else:
            operands = [widen(cut(f, extents)) for cut in cuts]
        place(f, reference(*operands, **keywords(f)))

    return step


def _along(plan: Plan, node: Node) -> Step:
    """REDUCE and SCAN: along the axis `dim` of the first tensor."""
    op, result = node.op, node.result
    reference = op.reference
    assert reference is not None
    source = op.args[0].name
    operand = node.operands[node.attrs[source].index]
    array = plan.valid_array(operand)
    dim = node.attrs["dim"]
    names = [a.name for a in op.args if a.name not in (source, "dim", "keepdim")]
    keywords = _keywords(plan, node, names)
    # A reference keeps the axis that it reduces, with extent 1.
    drop = op.family is Family.REDUCE and result.tensor.rank < operand.tensor.rank
    widen = _widened if op.widen else lambda item: item
    place = _place(plan, node, result)

    def step(f: Frame) -> None:
        out = reference(widen(array(f)), dim, **keywords(f))
        place(f, out.reshape(out.shape[:dim] + out.shape[dim + 1 :]) if drop else out)

    return step


def _boxes(plan: Plan, node: Node) -> Step:
    """CONTRACT, MOVE, INDEX, CREATE, SORT: the reference is told what its results look like."""
    reference = node.op.reference
    assert reference is not None
    dtype = governing(node)
    gets = [_get(plan, node, arg, node.attrs[arg.name], dtype) for arg in node.op.args]
    outs: list[Get] = []
    for result in node.results:
        type = result.tensor
        outs.append(_out(plan, type.shape, type.valid, type.dtype.numpy))
    places = [_place(plan, node, result) for result in node.results]
    if len(places) == 1:
        place, out = places[0], outs[0]

        def step(f: Frame) -> None:
            place(f, reference(*[get(f) for get in gets], out=out(f)))

        return step

    def step_many(f: Frame) -> None:
        arrays = reference(*[get(f) for get in gets], out=tuple(out(f) for out in outs))
        for place, array in zip(places, arrays, strict=True):
            place(f, array)

    return step_many


def _out(plan: Plan, shape: Any, valid: Any, dtype: np.dtype) -> Get:
    extents, box_ = static(shape), static(valid)
    if extents is not None and box_ is not None:
        fixed = Out(extents, box_, dtype)
        return lambda f: fixed
    run_shape, run_valid = plan.numbers(shape), plan.numbers(valid)
    return lambda f: Out(run_shape(f), run_valid(f), dtype)


def _write(plan: Plan, node: Node) -> Step:
    """Ops that change a tensor in place: the reference writes into a view of its valid box."""
    op = node.op
    reference = op.reference
    assert reference is not None and op.writes is not None
    dtype = governing(node)
    target = node.operands[node.attrs[op.writes].index]
    gets: list[Get] = []
    for arg in op.args:
        get = _get(plan, node, arg, node.attrs[arg.name], dtype)
        slot = node.attrs[arg.name]
        if isinstance(slot, Slot) and arg.name != op.writes:
            source = node.operands[slot.index]
            if source.storage is target.storage:
                # `t.scatter_(0, index, t)`: what is read is the value before the write.
                get = _before(get)
        gets.append(get)
    memory, result = plan.slot(target), plan.define(node.result)

    def step(f: Frame) -> None:
        reference(*[get(f) for get in gets])
        f[result] = f[memory]

    return step


def _before(get: Get) -> Get:
    return lambda f: fresh(get(f))


FAMILIES: dict[Family, Callable[[Plan, Node], Step]] = {
    Family.MAP: _map,
    Family.REDUCE: _along,
    Family.SCAN: _along,
    Family.CONTRACT: _boxes,
    Family.MOVE: _boxes,
    Family.INDEX: _boxes,
    Family.CREATE: _boxes,
    Family.SORT: _boxes,
}


def compute(plan: Plan, node: Node) -> Step:
    """The step of a node that has a reference."""
    if node.op.reference is None:
        raise InternalError(f"the interpreter has no meaning for {node.op.name}")
    if node.op.writes is not None:
        return _write(plan, node)
    handler = FAMILIES.get(node.op.family)
    if handler is None:
        raise InternalError(
            f"the interpreter has no handler for the family {node.op.family.value} ({node.op.name})"
        )
    step = handler(plan, node)
    check = _check_given(plan, node)
    if check is None:
        return step

    def checked(f: Frame) -> None:
        check(f)
        step(f)

    return checked


def _check_given(plan: Plan, node: Node) -> Step | None:
    """A check of the argument `valid_shape`, where its numbers are known only now."""
    given = node.attrs.get("valid_shape")
    if given is None:
        return None
    limits = list(node.result.tensor.shape)
    for value in node.operands:
        # An axis that is not expanded holds no more than its source.
        for axis, size in enumerate(value.tensor.shape):
            if size == limits[axis]:
                limits[axis] = value.tensor.valid[axis]
    return check_valid(plan, f"{node.op.name}()", given, limits)
