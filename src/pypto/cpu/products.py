"""Matrix products of a graph, over the emitter of `gemm`.

In: a node of the family CONTRACT.  Out: calls of a product, one per matrix of a batch, then what
follows on the accumulator, in the record's order: bias, activation, scale, one rounding.
Transposition is a matter of strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from pypto.cpu.buffers import Mem, number
from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.gemm import Product, product, scratch_bytes
from pypto.cpu.lanes import FP32, INT32, INT64, Lane
from pypto.cpu.nest import Cursor, Walked, walk
from pypto.ir.dtype import DataType
from pypto.ir.graph import Node, Value
from pypto.ir.types import ReLuType

INT8 = DataType.DT_INT8
# The scale unit keeps sign, exponent and ten bits of the fraction of an FP32 scale.
# Source: the matmul entry of the op catalogue.
_SCALE_BITS = -0x2000  # 0xFFFFE000


def emit_product(e: Emission, node: Node) -> None:
    """matmul, with what its unit does to the accumulator."""
    attrs, (a, b) = node.attrs, node.operands[:2]
    result = node.result
    left, right = e.mem(a), e.mem(b)
    rows, depth_a = _turned(e.valid(a)[-2:], attrs["a_trans"])
    depth_b, _ = _turned(e.valid(b)[-2:], attrs["b_trans"])
    depth = e.code.least(depth_a, depth_b)
    *batch, rows, columns = e.valid(result)
    kind = INT32 if left.dtype is INT8 else FP32
    plain = attrs["bias_tensor"] is None and attrs["relu_type"] is ReLuType.NO_RELU
    plain = plain and not attrs["scale"] and attrs["scale_tensor"] is None
    direct = plain and attrs["out_dtype"] is kind
    total = e.make(result) if direct else e.take(kind, result.tensor.shape)
    near = [_batched(left, a, result), _batched(right, b, result), list(total.strides[:-2])]
    _multiply(
        e,
        batch,
        near,
        (left, _turned(left.strides[-2:], attrs["a_trans"])),
        (right, _turned(right.strides[-2:], attrs["b_trans"])),
        (total, total.strides[-2:]),
        (rows, columns, depth),
    )
    if not direct:
        _finish(e, node, total, kind)


def emit_transposed(e: Emission, node: Node) -> None:
    """Batches on the middle axis of the first operand and of the result."""
    a, b = node.operands
    left, right, result = e.mem(a), e.mem(b), node.result
    rows, batch, columns = e.valid(result)
    depth = e.code.least(e.valid(a)[2], e.valid(b)[1])
    total = e.take(FP32, result.tensor.shape)
    _multiply(
        e,
        [batch],
        [[left.strides[1]], [right.strides[0]], [total.strides[1]]],
        (left, (left.strides[0], left.strides[2])),
        (right, (right.strides[1], right.strides[2])),
        (total, (total.strides[0], total.strides[2])),
        (rows, columns, depth),
    )
    target = e.make(result)
    tensors = [Walked(total, total.strides), Walked(target, target.strides)]

    def body(at: Cursor) -> None:
        at.store(1, at.lanes.convert(at.load(0), target.dtype))

    walk(e, "rounded", e.valid(result), tensors, body, written=[1])
    e.drop(total)


def _turned(pair: Sequence[Reg], turned: bool) -> tuple[Reg, Reg]:
    return (pair[1], pair[0]) if turned else (pair[0], pair[1])


def _batched(mem: Mem, value: Value, result: Value) -> list[Reg]:
    """Strides along the batch axes: one matrix may serve all."""
    sizes = zip(mem.strides[:-2], value.tensor.shape, result.tensor.shape, strict=False)
    return [i64(0) if n == 1 and m != 1 else s for s, n, m in sizes]


Matrix = tuple[Mem, tuple[Reg, ...]]


def _multiply(
    e: Emission,
    batch: Sequence[Reg],
    near: Sequence[Sequence[Reg]],
    a: Matrix,
    b: Matrix,
    c: Matrix,
    sizes: tuple[Reg, Reg, Reg],
) -> None:
    """A product per matrix of a batch."""
    code, (rows, columns, depth) = e.code, sizes
    spec = Product(a[0].dtype, number(rows), number(columns), number(depth))
    name = product(e.module, e.target, spec)
    scratch = e.take(DataType.DT_INT8, (scratch_bytes(e.target, spec),))
    work = 2.0
    for n in (*batch, *sizes):
        work *= number(n) or 32
    e.cost += work / (4 * e.target.lanes)
    with ExitStack() as loops:
        offsets = [i64(0)] * 3
        for axis, count in enumerate(batch):
            index = loops.enter_context(code.loop(i64(0), count))
            offsets = [
                code.add(o, code.mul(index, strides[axis]))
                for o, strides in zip(offsets, near, strict=True)
            ]
        given: list[Reg] = []
        for (mem, strides), offset in zip((a, b, c), offsets, strict=True):
            given.append(e.moved(mem, offset).pointer)
            given += strides[:1] if mem is c[0] else strides
        code.call("void", name, *given, rows, columns, depth, scratch.pointer)
    e.drop(scratch)


def _finish(e: Emission, node: Node, total: Mem, kind: DataType) -> None:
    """Bias, activation, scale, rounding."""
    attrs, result = node.attrs, node.result
    shape = result.tensor.shape
    tensors = [Walked(total, total.strides)]
    places: dict[str, int] = {}
    for name in ("bias_tensor", "scale_tensor"):
        if attrs[name] is not None:
            value = node.operands[attrs[name].index]
            mem, lead = e.mem(value), len(shape) - value.tensor.rank
            own = [
                i64(0) if n == 1 and shape[lead + axis] != 1 else mem.strides[axis]
                for axis, n in enumerate(value.tensor.shape)
            ]
            places[name] = len(tensors)
            tensors.append(Walked(mem, (*(i64(0) for _ in range(lead)), *own)))
    target = e.make(result)
    tensors.append(Walked(target, target.strides))
    relu, scale = attrs["relu_type"] is ReLuType.RELU, float(attrs["scale"])
    key = ("finish", kind, tuple(places.items()), relu, scale, target.dtype)

    def body(at: Cursor) -> None:
        lanes, value = at.lanes, at.load(0)
        if "bias_tensor" in places:
            bias = lanes.convert(at.load(places["bias_tensor"]), kind)
            value = lanes.add(value, bias)
        if relu:
            value = lanes.maximum(value, lanes.const(kind, 0))
        factor = _factor(at, places.get("scale_tensor"), scale)
        if factor is not None:
            value = lanes.mul(lanes.convert(value, FP32), factor)
        at.store(len(tensors) - 1, _rounded(lanes, value, target.dtype))

    walk(e, key, e.valid(result), tensors, body, written=[len(tensors) - 1])
    e.drop(total)


def _factor(at: Cursor, place: int | None, scale: float) -> Lane | None:
    lanes = at.lanes
    if place is not None:
        word = lanes.convert(at.load(place)._replace(dtype=INT64), INT32)
        return lanes.cast_bits(lanes.bit_and(word, lanes.const(INT32, _SCALE_BITS)), FP32)
    if scale:
        bits = np.array(scale, np.float32).view(np.int32) & np.int32(_SCALE_BITS)
        return lanes.const(FP32, bits.view(np.float32))
    return None


def _rounded(lanes: Any, value: Lane, dtype: DataType) -> Lane:
    if dtype is not INT8:
        made: Lane = lanes.convert(value, dtype)
        return made
    if value.dtype is FP32:
        value = lanes.one("roundeven", value)
        # NaN compares with nothing and stays out of both limits; as an integer it is 0.
        value = lanes.select(lanes.is_nan(value), lanes.const(FP32, 0), value)
    low, high = lanes.const(value.dtype, -128), lanes.const(value.dtype, 127)
    return lanes.convert(lanes.minimum(lanes.maximum(value, low), high), INT8)
