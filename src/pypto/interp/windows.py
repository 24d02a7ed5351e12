"""Memory and check nodes, by name: views, writes, elements, reshapes, prints, requirements.

In: a node of `ops/control`.  Out: the step that runs it.  A read is a snapshot: it gets memory of
its own where the storage is written anywhere.  A write is checked against its destination before
the first element changes, and the error says which places it would have written.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.errors import InternalError, error
from pypto.interp.integers import Frame
from pypto.interp.plan import Get, Plan, Step, box, check_valid, fresh, must_copy, operand
from pypto.ir.dtype import scalar
from pypto.ir.faults import check_given, check_index, negative_offset, no_memory, outside
from pypto.ir.graph import Node
from pypto.ir.op import Slot
from pypto.ir.show import print_line, show
from pypto.memory import BFLOAT16, poisoned

_HALF = frozenset({np.dtype(np.float16), BFLOAT16})


def _empty(plan: Plan, node: Node) -> Step:
    type = node.result.tensor
    shape, dtype, slot = plan.numbers(type.shape), type.dtype, plan.define(node.result)

    def step(f: Frame) -> None:
        extents = shape(f)
        try:
            f[slot] = poisoned(extents, dtype.numpy)
        except (MemoryError, ValueError):
            raise no_memory(dtype, extents) from None

    return step


def _view(plan: Plan, node: Node) -> Step:
    source, type = operand(node, "input"), node.result.tensor
    memory, data = plan.slot(source), plan.numbers(source.tensor.valid)
    offsets, shape = plan.numbers(node.attrs["offsets"]), plan.numbers(type.shape)
    given = node.attrs["given"] is not None
    valid, dtype = plan.numbers(type.valid), type.dtype.numpy
    copy = must_copy(source, node.result)
    slot = plan.define(node.result)

    def step(f: Frame) -> None:
        starts, extents, whole = offsets(f), valid(f), shape(f)
        for start in starts:
            if start < 0:
                raise negative_offset("view", starts)
        if given:
            check_given(starts, extents, whole, data(f))
        index = tuple([slice(o, o + n) for o, n in zip(starts, extents, strict=True)])
        window = f[memory][index]
        if extents == whole:
            f[slot] = fresh(window) if copy else window
        else:
            f[slot] = out = poisoned(whole, dtype)
            out[box(extents)] = window

    return step


def _reshape(plan: Plan, node: Node) -> Step:
    source = operand(node, "input")
    memory, copy = plan.slot(source), must_copy(source, node.result)
    type = node.result.tensor
    shape, slot = plan.numbers(type.shape), plan.define(node.result)
    check = check_valid(plan, "reshape", type.valid, type.shape)

    def step(f: Frame) -> None:
        array = f[memory]
        f[slot] = (fresh(array) if copy else array).reshape(shape(f))

    if check is None:
        return step

    def checked(f: Frame) -> None:
        check(f)
        step(f)

    return checked


def _alias(plan: Plan, node: Node) -> Step:
    source = operand(node, "input")
    memory, written = plan.slot(source), source.storage is not None and source.storage.written
    shape, slot = plan.numbers(node.result.tensor.shape), plan.define(node.result)

    def step(f: Frame) -> None:
        array = f[memory]
        second = array.reshape(shape(f))
        # Where nothing writes, a copy is as good.
        if written and second.size and not np.may_share_memory(second, array):
            raise InternalError("an in-place reshape of memory that is not in row-major order")
        f[slot] = second

    return step


def _reinterpret(plan: Plan, node: Node) -> Step:
    source = operand(node, "input")
    memory, copy = plan.slot(source), must_copy(source, node.result)
    dtype, slot = node.result.tensor.dtype.numpy, plan.define(node.result)

    def step(f: Frame) -> None:
        array = fresh(f[memory]) if copy else np.ascontiguousarray(f[memory])
        f[slot] = array.view(dtype)

    return step


# --- writes --------------------------------------------------------------------------------------


def _write(plan: Plan, node: Node, put: Callable[[np.ndarray, Any, np.ndarray], None]) -> Step:
    source, target = operand(node, "src"), operand(node, "dst")
    array, extents = plan.valid_array(source), plan.numbers(source.tensor.valid)
    memory, size = plan.slot(target), plan.numbers(target.tensor.shape)
    offsets, slot = plan.numbers(node.attrs["offsets"]), plan.define(node.result)
    name, capacity = node.op.name, plan.numbers(source.tensor.shape)

    def step(f: Frame) -> None:
        starts, counts, sizes = offsets(f), extents(f), size(f)
        f[slot] = f[memory]
        if 0 in counts:
            return
        for o, n, whole in zip(starts, counts, sizes, strict=True):
            if o < 0 or o + n > whole:
                raise outside(name, starts, counts, sizes, capacity(f))
        index = tuple([slice(o, o + n) for o, n in zip(starts, counts, strict=True)])
        put(f[memory], index, array(f))

    return step


def _store(memory: np.ndarray, index: Any, values: np.ndarray) -> None:
    memory[index] = values


def _add(memory: np.ndarray, index: Any, values: np.ndarray) -> None:
    if memory.dtype in _HALF:
        total = memory[index].astype(np.float32) + values.astype(np.float32)
        memory[index] = total.astype(memory.dtype)
    else:
        memory[index] += values


def _move(plan: Plan, node: Node) -> Step:
    # The memory stays, so that every handle on it (an in-place reshape) sees the new value.
    source, target = plan.slot(operand(node, "src")), plan.slot(operand(node, "dst"))
    slot = plan.define(node.result)

    def step(f: Frame) -> None:
        f[target][...] = f[source]
        f[slot] = f[target]

    return step


# --- elements ------------------------------------------------------------------------------------


def _item(plan: Plan, node: Node) -> Step:
    source = operand(node, "input")
    memory, valid = plan.slot(source), plan.numbers(source.tensor.valid)
    index, slot = plan.numbers(node.attrs["index"]), plan.define(node.result)

    def step(f: Frame) -> None:
        at = index(f)
        check_index(at, valid(f))
        f[slot] = int(f[memory][at])

    return step


def _item_set(plan: Plan, node: Node) -> Step:
    target = operand(node, "dst")
    memory, size = plan.slot(target), plan.numbers(target.tensor.shape)
    index, value = plan.numbers(node.attrs["index"]), plan.number(node.attrs["value"])
    dtype, slot = target.tensor.dtype, plan.define(node.result)

    def step(f: Frame) -> None:
        at = index(f)
        check_index(at, size(f))
        f[memory][at] = scalar(value(f), dtype)
        f[slot] = f[memory]

    return step


def _integer(plan: Plan, node: Node) -> Step:
    value, slot = plan.number(node.attrs["value"]), plan.define(node.result)

    def step(f: Frame) -> None:
        f[slot] = value(f)

    return step


# --- checks and prints ---------------------------------------------------------------------------


def _require(plan: Plan, node: Node) -> Step:
    attrs = node.attrs
    cond, text, code, fix = plan.number(attrs["cond"]), attrs["text"], attrs["code"], attrs["fix"]
    builtin = getattr(builtins, attrs["error"])

    def step(f: Frame) -> None:
        if not cond(f):
            raise error(builtin, text, code=code or None, fix=fix or None)

    return step


def _print(plan: Plan, node: Node) -> Step:
    cond = plan.number(node.attrs["cond"])
    parts: list[Get] = [_printed(plan, node, item) for item in node.attrs["items"]]

    def step(f: Frame) -> None:
        if cond(f):
            print_line([part(f) for part in parts])

    return step


def _printed(plan: Plan, node: Node, item: Any) -> Get:
    if isinstance(item, str):
        return lambda f: item
    if not isinstance(item, Slot):
        number = plan.number(item)
        return lambda f: str(number(f))
    value = node.operands[item.index]
    array, shape = plan.valid_array(value), plan.numbers(value.tensor.shape)
    dtype = value.tensor.dtype
    return lambda f: show(array(f), dtype, shape(f))


CONTROL: dict[str, Callable[[Plan, Node], Step]] = {
    "empty": _empty,
    "view": _view,
    "reshape": _reshape,
    "alias": _alias,
    "reinterpret": _reinterpret,
    "assemble": lambda plan, node: _write(plan, node, _store),
    "atomic_add": lambda plan, node: _write(plan, node, _add),
    "move": _move,
    "item": _item,
    "item_set": _item_set,
    "integer": _integer,
    "require": _require,
    "print": _print,
}
