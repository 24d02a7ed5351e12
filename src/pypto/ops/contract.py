"""Matrix products.

In: matrices, or batches of them, valid in part.  Out: products over the valid elements of the
contracted axis.  Floats are multiplied and summed in FP64 and rounded to the FP32 accumulator;
INT8 is summed exactly and wraps to INT32.  Then, in this order: bias, activation, scale, and one
rounding to the result's type.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import sym, written
from pypto.ir.declare import declare
from pypto.ir.dtype import DataType
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, Out, from_attr
from pypto.ir.sym import SymInt
from pypto.ir.types import ReLuType, Shape, TensorType, TileOpFormat
from pypto.ops.accepts import BF16, FP16, FP32, INT8, INT32, INT64, UINT64, types

Array = Any  # a NumPy array

# What a pair of operands may give, with the bias types that go with it.  INT8 from floats, and
# FP16 from INT8, are quantisations: they need a scale.
PRODUCTS = {
    FP16: types(FP16, FP32, INT8),
    BF16: types(BF16, FP32, INT8),
    FP32: types(FP32, INT8),
    INT8: types(INT32, FP16, INT8),
}
BIASES = {
    FP16: types(FP16, FP32),
    BF16: types(BF16, FP32),
    FP32: types(FP32),
    INT8: types(INT32),
}
# The scale unit keeps sign, exponent and ten bits of the fraction of an FP32 scale.
# Source: the matmul entry of the op catalogue.
SCALE_BITS = np.uint32(0xFFFFE000)


def _names(found: frozenset[DataType]) -> str:
    return " or ".join(sorted(d.name for d in found))


def _axes(attrs: Attrs) -> tuple[int, int, int, int]:
    """The axes that hold M and K of the first operand, K and N of the second."""
    m, ka = (-1, -2) if attrs["a_trans"] else (-2, -1)
    n, kb = (-2, -1) if attrs["b_trans"] else (-1, -2)
    return m, ka, kb, n


def matmul_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """Leading axes broadcast (equal or 1), then [M, N]."""
    a, b = types[:2]
    m, _, _, n = _axes(attrs)
    batch: list[SymInt] = []
    for axis, (p, q) in enumerate(zip(a.shape[:-2], b.shape[:-2], strict=True)):
        if p != q and 1 not in (p, q):
            raise error(
                ValueError,
                f"matmul(): batch axis {axis} is {p} in input and {q} in mat2",
                code="F0000B",
                fix="make the batch extents equal, or one of them 1",
            )
        batch.append(q if p == 1 else p)
    return (*batch, a.shape[m], b.shape[n])


def matmul_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """[.., valid M, valid N]; on batch axes where both operands are valid."""
    a, b = types[:2]
    m, _, _, n = _axes(attrs)
    batch: list[SymInt] = []
    for axis, size in enumerate(shape[:-2]):
        extents = [t.valid[axis] for t in (a, b) if t.shape[axis] == size]
        batch.append(_least(extents))
    columns = [b.valid[n]]
    for name in ("bias_tensor", "scale_tensor"):
        if attrs[name] is not None:
            columns.append(types[attrs[name].index].valid[-1])
    return (*batch, a.valid[m], _least(columns))


def _least(extents: Sequence[SymInt]) -> SymInt:
    least = extents[0]
    for extent in extents[1:]:
        least = sym.simple(sym.minimum(least, extent))
    return least


def _check_matmul(types: Sequence[TensorType], attrs: Attrs) -> None:
    a, b = types[:2]
    if a.rank != b.rank:
        raise error(
            RuntimeError,
            f"Tensor dimension mismatch: matmul() got an input of rank {a.rank} and a mat2 of rank "
            f"{b.rank}",
            fix="bring both to one rank with `pypto.reshape`",
            value=a.rank,
            limit=b.rank,
        )
    _check_inner(a, b, attrs)
    if FP32 in (a.dtype, b.dtype) and TileOpFormat.TILEOP_NZ in (a.format, b.format):
        raise error(
            ValueError,
            "matmul(): DT_FP32 operands must be TILEOP_ND",
            fix="cast to DT_FP16 or DT_BF16 first, or leave the format out",
        )
    if attrs["out_dtype"] not in PRODUCTS[a.dtype]:
        raise error(
            TypeError,
            f"matmul(): {a.dtype.name} operands give {_names(PRODUCTS[a.dtype])}, not "
            f"{attrs['out_dtype'].name}",
            fix="multiply to DT_FP32 and cast the result",
        )
    _check_extensions(types, attrs, matmul_shape(types, attrs))


def _check_inner(a: TensorType, b: TensorType, attrs: Attrs) -> None:
    _, ka, kb, _ = _axes(attrs)
    if a.shape[ka] != b.shape[kb]:
        a_rows, b_rows = a.shape[-3 - ka], b.shape[-3 - kb]
        fix = "the inner extents must be equal"
        if a.shape[ka] == b_rows:
            fix = _turned("b_trans", attrs)
        elif a_rows == b.shape[kb]:
            fix = _turned("a_trans", attrs)
        raise error(
            ValueError,
            f"Matrix K dimension mismatch: {a.shape[ka]} in input {list(a.shape)} and "
            f"{b.shape[kb]} in mat2 {list(b.shape)} (a_trans={attrs['a_trans']}, "
            f"b_trans={attrs['b_trans']})",
            code="F0000B",
            fix=fix,
            value=a.shape[ka],
            limit=b.shape[kb],
        )
    va, vb = a.valid[ka], b.valid[kb]
    partial = va != a.shape[ka] and vb != b.shape[kb]
    if partial and isinstance(va, int) and isinstance(vb, int) and va != vb:
        raise error(
            RuntimeError,
            f"K-dimension valid shape mismatch. input is valid to {va} and mat2 to {vb} of "
            f"{a.shape[ka]}",
            fix="give both views the same valid_shape on the K axis",
        )


def _turned(flag: str, attrs: Attrs) -> str:
    """The user's product with one operand turned; the operator has no room for that."""
    node, turned = written.expression(), str(not attrs[flag])
    if isinstance(node, ast.BinOp):
        operands = f"{written.text(node.left)}, {written.text(node.right)}"
        return f"pypto.matmul({operands}, pypto.{attrs['out_dtype'].name}, {flag}={turned})"
    return written.with_keyword(flag, turned) or f"pypto.matmul(a, b, dtype, {flag}={turned})"


def _check_extensions(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> None:
    bias, scales = attrs["bias_tensor"], attrs["scale_tensor"]
    source, target = types[0].dtype, attrs["out_dtype"]
    if bias is not None:
        _check_row("bias_tensor", types[bias.index], BIASES[source], shape)
    if scales is not None:
        _check_row("scale_tensor", types[scales.index], frozenset({INT64, UINT64}), shape)
    quantised = target is INT8 or (source is INT8 and target is FP16)
    if quantised and scales is None and not attrs["scale"]:
        raise error(
            ValueError,
            f"matmul(): {source.name} operands give {target.name} only with a scale",
            fix='`extend_params={"scale": 0.5}`, or a `"scale_tensor"` of shape [1, N]',
        )


def _check_row(name: str, row: TensorType, accept: frozenset[DataType], shape: Shape) -> None:
    if row.dtype not in accept:
        raise error(
            TypeError,
            f"matmul(): {name} must be {_names(accept)}, got {row.dtype.name}",
            fix="cast it: `pypto.cast(t, pypto.DT_FP32)`",
        )
    batched = len(shape) == 3 and row.rank == 3 and row.shape[0] in (1, shape[0])
    if not (row.rank == 2 or batched):
        raise error(
            RuntimeError,
            f"matmul(): {name} {list(row.shape)} does not fit a result {list(shape)}",
            fix=f"give it the shape [1, {shape[-1]}]",
        )
    if row.shape[-2] != 1 or row.shape[-1] != shape[-1]:
        raise error(
            ValueError,
            f"matmul(): {name} {list(row.shape)} does not fit a result {list(shape)}",
            code="F0000B",
            fix=f"give it the shape [1, {shape[-1]}]",
        )


def accumulate(a: Array, b: Array) -> Array:
    """The product in the accumulator's type: INT32 for INT8, else FP32."""
    # FP64 holds every sum of INT8 products exactly, and NumPy multiplies it fast.
    wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
    if a.dtype == np.int8:
        return wide.astype(np.int64).astype(np.int32)
    return wide.astype(np.float32)


def _matmul(
    a: Array,
    b: Array,
    out_dtype: DataType,
    a_trans: bool,
    b_trans: bool,
    bias: Array | None,
    relu: ReLuType,
    scale: float,
    scales: Array | None,
    out: Out,
) -> Array:
    a = np.swapaxes(a, -1, -2) if a_trans else a
    b = np.swapaxes(b, -1, -2) if b_trans else b
    depth = min(a.shape[-1], b.shape[-2])
    batch, columns = out.valid[:-2], out.valid[-1]
    total = accumulate(_leading(a, batch)[..., :depth], _leading(b, batch)[..., :depth, :columns])
    if bias is not None:
        total = total + bias[..., :columns].astype(total.dtype)
    if relu is ReLuType.RELU:
        total = np.maximum(total, total.dtype.type(0))
    if scales is not None:
        words = (scales[..., :columns].astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        total = total.astype(np.float32) * (words & SCALE_BITS).view(np.float32)
    elif scale:
        word = np.array(scale, np.float32).view(np.uint32) & SCALE_BITS
        total = total.astype(np.float32) * word.view(np.float32)
    if out.dtype == np.int8:
        total = np.clip(np.rint(total), -128, 127)
    return total.astype(out.dtype)


def _leading(x: Array, batch: tuple[int, ...]) -> Array:
    """The valid part of the batch axes; an axis of extent 1 stays whole and broadcasts."""
    return x[tuple(slice(n) for n in batch)]


# `extend_params` of the public function becomes arguments of its own here: tensors are operands.
MATMUL: Callable[..., Tensor] = declare(
    Op(
        "matmul",
        Family.CONTRACT,
        "Matrix product, by batches for 3-D and 4-D tensors.",
        (
            Arg("input"),
            Arg("mat2"),
            Arg("out_dtype", "dtype"),
            Arg("a_trans", "bool", False),
            Arg("b_trans", "bool", False),
            Arg("bias_tensor", "tensor", None),
            Arg("relu_type", "enum", ReLuType.NO_RELU, type=ReLuType),
            Arg("scale", "float", 0.0),
            Arg("scale_tensor", "tensor", None),
        ),
        types(FP16, BF16, FP32, INT8),
        shape=matmul_shape,
        valid=matmul_valid,
        reference=_matmul,
        formula="out = relu(input @ mat2 + bias) * scale",
        result=from_attr("out_dtype"),
        ranks=(2, 4),
        hidden=True,
        engine="cube",
        index_args=frozenset({"bias_tensor", "scale_tensor"}),
        index_accept=types(FP16, BF16, FP32, INT32, INT64, UINT64),
        check=_check_matmul,
        torch="torch.matmul(input, mat2)",
    )
)


def transposed_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """[M, B, K] times [B, K, N] gives [M, B, N]."""
    a, b = types
    if a.shape[1] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise error(
            ValueError,
            f"transposed_batchmatmul(): [M, B, K] times [B, K, N], got {list(a.shape)} times "
            f"{list(b.shape)}",
            code="F0000B",
            fix="permute first: `pypto.permute(a, [1, 0, 2])`",
        )
    return (a.shape[0], a.shape[1], b.shape[2])


def transposed_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """Valid M, the batches valid in both, valid N."""
    a, b = types
    return (a.valid[0], _least([a.valid[1], b.valid[0]]), b.valid[2])


def _check_transposed(types: Sequence[TensorType], attrs: Attrs) -> None:
    if attrs["out_dtype"] not in (FP16, BF16):
        raise error(
            TypeError,
            f"transposed_batchmatmul(): out_dtype must be DT_FP16 or DT_BF16, got "
            f"{attrs['out_dtype'].name}",
            fix="out_dtype=pypto.DT_FP16",
        )


def _transposed(a: Array, b: Array, out_dtype: DataType, out: Out) -> Array:
    batches, depth = out.valid[1], min(a.shape[2], b.shape[1])
    left = np.swapaxes(a[:, :batches, :depth], 0, 1)
    return np.swapaxes(accumulate(left, b[:batches, :depth]), 0, 1).astype(out.dtype)


declare(
    Op(
        "experimental.transposed_batchmatmul",
        Family.CONTRACT,
        "Matrix products by batches that lie on the middle axis of the first operand.",
        (Arg("tensor_a"), Arg("tensor_b"), Arg("out_dtype", "dtype")),
        types(FP16, BF16),
        shape=transposed_shape,
        valid=transposed_valid,
        reference=_transposed,
        formula="out[m, b, n] = sum over k of tensor_a[m, b, k] * tensor_b[b, k, n]",
        result=from_attr("out_dtype"),
        ranks=(3, 3),
        method="",
        engine="cube",
        check=_check_transposed,
        torch="torch.einsum('mbk,bkn->mbn', tensor_a, tensor_b)",
    )
)
