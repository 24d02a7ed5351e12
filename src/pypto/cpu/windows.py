"""Memory and check nodes, by name: views, writes, elements, reshapes, requirements.

In: a node of `ops/control`.  Out: where its result lies, checks, copies.  A read is a snapshot: it
gets memory of its own where the storage is written anywhere.  A write is checked against its
destination before the first element changes.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

from pypto.cpu.buffers import Mem, numbers, restrided
from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import Emission, caught
from pypto.cpu.lanes import INT64, Lane
from pypto.cpu.moves import copy_box, fill
from pypto.cpu.nest import Cursor, Walked, walk
from pypto.errors import PyptoError, error
from pypto.ir import faults, sym
from pypto.ir.graph import Node, Value
from pypto.ir.rewrite import may_fail
from pypto.ir.sym import expr
from pypto.ir.types import TensorType
from pypto.memory import poison_value


def operand(node: Node, name: str) -> Value:
    """The tensor that an argument of a node is."""
    return node.operands[node.attrs[name].index]


def must_copy(source: Value, target: Value) -> bool:
    """Whether handing a value on needs memory of its own: there are two storages, one written."""
    a, b = source.storage, target.storage
    assert a is not None and b is not None
    return a is not b and (a.written or b.written)


def _empty(e: Emission, node: Node) -> None:
    result = node.result
    mem = e.make(result)
    # What nothing has written holds poison, as in the interpreter: results must not depend on what
    # lay there before.
    fill(e, e.ints.all(result.tensor.shape), mem, poison_value(result.tensor.dtype.numpy))


def _view(e: Emission, node: Node) -> None:
    source, result = operand(node, "input"), node.result
    starts, extents = e.ints.all(node.attrs["offsets"]), e.valid(result)
    rank = len(starts)
    wrong = Reg("false", "i1")
    for item, start in zip(node.attrs["offsets"], starts, strict=True):
        if expr(item).bounds()[0] < 0:
            wrong = e.either(wrong, e.code.compare("slt", start, i64(0)))
    e.fault(wrong, starts, lambda found: faults.negative_offset("view", found))
    if node.attrs["given"] is not None:
        _check_given(e, node, starts, rank)
    window = e.window(e.mem(source), starts)
    if must_copy(source, result):
        copy_box(e, extents, window, e.make(result))
    else:
        e.bind(result, window)


def _check_given(e: Emission, node: Node, starts: Sequence[Reg], rank: int) -> None:
    code = e.code
    asked, whole = e.valid(node.result), e.ints.all(node.result.tensor.shape)
    data = e.valid(operand(node, "input"))
    wrong = Reg("false", "i1")
    for o, n, extent, valid in zip(starts, asked, whole, data, strict=True):
        room = code.least(extent, code.most(i64(0), code.sub(valid, o)))
        wrong = e.either(wrong, e.outside(n, room))

    def make(found: list[int]) -> PyptoError:
        parts = [found[k : k + rank] for k in range(0, 4 * rank, rank)]
        return caught(lambda: faults.check_given(*parts))

    e.fault(wrong, (*starts, *asked, *whole, *data), make)


def _reshape(e: Emission, node: Node) -> None:
    source, result = operand(node, "input"), node.result
    mem, type = e.mem(source), result.tensor
    e.check_given("reshape", type.valid, type.shape)
    shape, new = source.tensor.shape, type.shape
    fixed = all(isinstance(n, int) for n in (*shape, *new))
    strides = restrided(shape, mem.strides, new) if fixed else None  # type: ignore[arg-type]
    same = _same_elements(source.tensor, type)
    if strides is not None and same and not must_copy(source, result):
        e.bind(result, mem._replace(strides=strides))
        return
    target = e.make(result)
    if not same:
        # A valid_shape may call elements valid that were not: they may not even have memory.
        fill(e, e.ints.all(new), target, poison_value(type.dtype.numpy))
    # Elements are counted in the whole of the old shape, of which the valid box is copied.
    whole = target._replace(strides=e.strides_of(shape))
    copy_box(e, e.valid(source), mem, whole)


def _same_elements(old: TensorType, new: TensorType) -> bool:
    """Whether what is valid in the new shape is provably what was valid in the old one."""
    if old.is_full:
        return True
    counts = []
    for type in (old, new):
        count, leading = sym.const(1), True
        for n, valid in zip(type.shape, type.valid, strict=True):
            if not leading and valid != n:
                return False
            leading = leading and n == 1
            count = sym.mul(count, valid)
        counts.append(count)
    # Leading elements in both, as many in one as in the other.
    return counts[0] == counts[1]


def _alias(e: Emission, node: Node) -> None:
    source, result = operand(node, "input"), node.result
    e.bind(result, e.mem(source)._replace(strides=e.strides_of(result.tensor.shape)))


def _reinterpret(e: Emission, node: Node) -> None:
    source, result = operand(node, "input"), node.result
    mem, shape = e.mem(source), source.tensor.shape
    dense = numbers(mem.strides) == numbers(e.strides_of(shape))
    if must_copy(source, result) or not dense:
        root = e.take(mem.dtype, shape)
        copy_box(e, e.valid(source), mem, root)
        mem = root
    strides = e.strides_of(result.tensor.shape)
    e.bind(result, Mem(mem.pointer, strides, result.tensor.dtype, mem.root))


# --- writes --------------------------------------------------------------------------------------


def _write(
    e: Emission, node: Node, put: Callable[[Emission, Sequence[Reg], Mem, Mem], None]
) -> None:
    source, target = operand(node, "src"), operand(node, "dst")
    starts, counts = e.ints.all(node.attrs["offsets"]), e.valid(source)
    sizes, whole = e.ints.all(target.tensor.shape), e.ints.all(source.tensor.shape)
    mem, code = e.mem(target), e.code
    if may_fail(node):
        rank, name = len(starts), node.op.name
        wrong = Reg("false", "i1")
        some = Reg("true", "i1")
        for o, n, size in zip(starts, counts, sizes, strict=True):
            negative = code.compare("slt", o, i64(0))
            past = code.compare("sgt", code.add(o, n), size)
            wrong = e.either(wrong, code.let("i1", f"or i1 {negative}, {past}"))
            some = code.let("i1", f"and i1 {some}, {code.compare('sgt', n, i64(0))}")
        wrong = code.let("i1", f"and i1 {wrong}, {some}")

        def make(found: list[int]) -> PyptoError:
            parts = [found[k : k + rank] for k in range(0, 4 * rank, rank)]
            return faults.outside(name, *parts)

        e.fault(wrong, (*starts, *counts, *sizes, *whole), make)
    put(e, counts, e.mem(source), e.window(mem, starts))
    e.bind(node.result, mem)


def add_box(e: Emission, extents: Sequence[Reg], source: Mem, target: Mem) -> None:
    def body(at: Cursor) -> None:
        lanes = at.lanes
        total = lanes.add(lanes.widen(at.load(1)), lanes.widen(at.load(0)))
        at.store(1, lanes.convert(total, target.dtype))

    tensors = [Walked(source, source.strides), Walked(target, target.strides)]
    walk(e, "add", extents, tensors, body, written=[1], exact=True)


def _move(e: Emission, node: Node) -> None:
    # The memory stays, so that every handle on it (an in-place reshape) sees the new value.
    source, target = operand(node, "src"), e.mem(operand(node, "dst"))
    copy_box(e, e.valid(source), e.mem(source), target)
    e.bind(node.result, target)


# --- elements ------------------------------------------------------------------------------------


def _check_index(e: Emission, index: Sequence[Reg], limits: Sequence[Reg]) -> None:
    wrong, rank = Reg("false", "i1"), len(index)
    for i, limit in zip(index, limits, strict=True):
        wrong = e.either(wrong, e.code.compare("uge", i, e.code.most(limit, i64(0))))

    def make(found: list[int]) -> PyptoError:
        return caught(lambda: faults.check_index(found[:rank], found[rank:]))

    e.fault(wrong, (*index, *limits), make)


def _item(e: Emission, node: Node) -> None:
    source = operand(node, "input")
    index = e.ints.all(node.attrs["index"])
    if may_fail(node):
        _check_index(e, index, e.valid(source))
    place, lanes = e.window(e.mem(source), index), e.builder(e.code, 1)
    found = lanes.convert(lanes.load(place.pointer, place.dtype), INT64)
    e.ints.set(node.result, Reg(found.reg, "i64"))


def _item_set(e: Emission, node: Node) -> None:
    target = operand(node, "dst")
    index = e.ints.all(node.attrs["index"])
    if may_fail(node):
        _check_index(e, index, e.ints.all(target.tensor.shape))
    mem, lanes = e.mem(target), e.builder(e.code, 1)
    value = lanes.convert(Lane(e.ints.of(node.attrs["value"]), INT64), mem.dtype)
    lanes.store(value, e.window(mem, index).pointer)
    e.bind(node.result, mem)


def _integer(e: Emission, node: Node) -> None:
    e.ints.set(node.result, e.ints.of(node.attrs["value"]))


def _require(e: Emission, node: Node) -> None:
    attrs = node.attrs
    builtin = getattr(builtins, attrs["error"])
    holds = e.ints.truth(attrs["cond"])
    wrong = e.code.let("i1", f"xor i1 {holds}, true")
    text, code, fix = attrs["text"], attrs["code"] or None, attrs["fix"] or None
    e.fault(wrong, (), lambda found: error(builtin, text, code=code, fix=fix))


CONTROL: dict[str, Callable[[Emission, Node], None]] = {
    "empty": _empty,
    "view": _view,
    "reshape": _reshape,
    "alias": _alias,
    "reinterpret": _reinterpret,
    "assemble": lambda e, node: _write(e, node, copy_box),
    "atomic_add": lambda e, node: _write(e, node, add_box),
    "move": _move,
    "item": _item,
    "item_set": _item_set,
    "integer": _integer,
    "require": _require,
}
