"""Single integer elements: read as symbolic integers, written one by one.

In: a tensor and one index per axis.  Out: an integer known when the kernel runs, or a new version
of the storage.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import build, sym
from pypto.ir.dtype import DataType
from pypto.ir.handle import Tensor
from pypto.ir.op import Slot
from pypto.ir.scalar import SymbolicScalar, as_sym_int, is_sym_int
from pypto.ir.sym import SymInt
from pypto.ir.types import INT, Shape, TensorType
from pypto.ops import advice, control


def read_item(source: Tensor, index: Shape) -> SymbolicScalar:
    """One integer element, known when the kernel runs."""
    value = source.value()
    type = value.tensor
    is_param = value.storage is not None and value.storage.param is not None
    if is_param and not type.dtype.is_int:
        raise error(
            TypeError,
            f"Not Int type, got: {type.dtype.name}; only elements of integer tensors can steer a "
            "kernel",
            code="F21003",
            fix=advice.instead_of_element(source, index),
        )
    if not is_param and type.dtype is not DataType.DT_INT32:
        raise error(
            TypeError,
            f"Tensor dtype must be DT_INT32. Got {type.dtype.name}",
            fix=advice.instead_of_element(source, index),
        )
    _check_index(type, index)
    trace = build.current()
    low, high = _int_range(type.dtype)
    # One version of a tensor has one element there: reading it twice gives one integer, so that
    # t[0] : t[0] + 4 has a known extent.
    known = trace.items.get((value, index))
    if known is None or not build.visible(trace, sym.leaf(known)):
        attrs = {"input": Slot(0), "index": index}
        known = trace.emit(control.ITEM, (value,), attrs, (INT,)).result
        trace.items[value, index] = known
    return SymbolicScalar(sym.leaf(known, low, high))


def _int_range(dtype: DataType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return max(int(info.min), -sym.INF), min(int(info.max), sym.INF)


def _check_index(type: TensorType, index: Shape) -> None:
    for axis, (i, size) in enumerate(zip(index, type.shape, strict=True)):
        if isinstance(i, int) and isinstance(size, int) and not 0 <= i < size:
            raise error(
                IndexError,
                f"index {i} is out of range for axis {axis} with extent {size}",
                fix=f"an index from 0 to {size - 1}",
            )


def require_index(index: SymInt, size: SymInt) -> None:
    """An index must name an element: known now, or checked when the kernel runs."""
    if isinstance(index, int) and isinstance(size, int):
        if not 0 <= index < size:
            raise error(
                IndexError,
                f"index {index} is out of range for an axis of extent {size}",
                fix=f"an index from 0 to {size - 1}",
            )
        return
    low, _ = sym.expr(index).bounds()
    if low >= 0 and sym.sub(index, size).bounds()[1] < 0:
        return
    inside = sym.logical("and", sym.compare("le", 0, index), sym.compare("lt", index, size))
    build.require(
        control.REQUIRE,
        sym.simple(inside),
        "IndexError",
        "F00008",
        f"index {index} is out of range for an axis of extent {size}",
        "guard it with `if`, or use a slice, which may overhang",
    )


def write_item(target: Tensor, index: Shape, item: Any) -> None:
    """Store one integer element."""
    if not is_sym_int(item):
        raise error(
            ValueError,
            f"Invalid value type: an element takes an int or a symbolic scalar, got "
            f"{type(item).__name__}",
            fix="write a tile instead: `t[0:1, 0:1] = v`",
        )
    if target.dtype is not DataType.DT_INT32:
        raise error(
            TypeError,
            f"Tensor dtype must be DT_INT32. Got {target.dtype.name}",
            fix="write a tile instead: `t[0:1, 0:1] = v`",
        )
    destination = target.destination()
    _check_index(destination.tensor, index)
    attrs = {"dst": Slot(0), "index": index, "value": as_sym_int(item)}
    node = build.current().emit(
        control.ITEM_SET, (destination,), attrs, (destination.tensor,), (target.storage,)
    )
    target.replace(node.result)
