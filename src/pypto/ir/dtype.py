"""Element types and typed scalars.

In: the names that users write (`pypto.DT_FP32`).  Out: for each its size, kind and NumPy type.
A scalar is brought to an element type here and nowhere else, so every room rounds it alike.
"""

from __future__ import annotations

import enum
import math
from typing import Any

import ml_dtypes
import numpy as np

from pypto.errors import error, not_supported
from pypto.ir import place


class DataType(enum.Enum):
    """The element type of a tensor.  Source: the data type table of the language."""

    DT_INT4 = 0
    DT_INT8 = 1
    DT_INT16 = 2
    DT_INT32 = 3
    DT_INT64 = 4
    DT_FP8 = 5
    DT_FP16 = 6
    DT_FP32 = 7
    DT_BF16 = 8
    DT_HF4 = 9
    DT_HF8 = 10
    DT_UINT8 = 11
    DT_UINT16 = 12
    DT_UINT32 = 13
    DT_UINT64 = 14
    DT_BOOL = 15
    DT_DOUBLE = 16
    DT_FP8E4M3 = 17
    DT_FP8E5M2 = 18
    DT_FP8E8M0 = 19
    DT_FP4_E2M1X2 = 20
    DT_FP4_E1M2X2 = 21
    DT_FP4_E2M1 = 22
    DT_FP4_E1M2 = 23
    DT_BOTTOM = 24

    def __repr__(self) -> str:
        return f"DataType.{self.name}"

    __str__ = __repr__

    @property
    def short(self) -> str:
        """The name without its prefix, as the text form of a graph prints it."""
        return self.name[3:].lower()

    @property
    def bytes(self) -> int:
        """Bytes that one stored element takes; the four-bit types report 1."""
        return _BYTES.get(self) or np.dtype(self.numpy).itemsize

    @property
    def numpy(self) -> np.dtype:
        """The NumPy type that holds it; an error for types that are declared but not run yet."""
        if self not in _NUMPY:
            raise not_supported(f"dtype {self.name}", "use DT_FP32, DT_FP16, DT_BF16 or an integer")
        return _NUMPY[self]

    @property
    def kind(self) -> str:
        """`f` for floats, `i` signed, `u` unsigned, `b` bool."""
        return _KIND.get(self, "f")

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"


_D = DataType
_NUMPY: dict[DataType, np.dtype] = {
    _D.DT_INT8: np.dtype(np.int8),
    _D.DT_INT16: np.dtype(np.int16),
    _D.DT_INT32: np.dtype(np.int32),
    _D.DT_INT64: np.dtype(np.int64),
    _D.DT_UINT8: np.dtype(np.uint8),
    _D.DT_UINT16: np.dtype(np.uint16),
    _D.DT_UINT32: np.dtype(np.uint32),
    _D.DT_UINT64: np.dtype(np.uint64),
    _D.DT_FP16: np.dtype(np.float16),
    _D.DT_FP32: np.dtype(np.float32),
    _D.DT_BF16: np.dtype(ml_dtypes.bfloat16),
    _D.DT_DOUBLE: np.dtype(np.float64),
    _D.DT_BOOL: np.dtype(np.bool_),
}
_KIND = {d: "i" if d.name.startswith("DT_INT") else "u" for d in DataType if "INT" in d.name}
_KIND[_D.DT_BOOL] = "b"
_BYTES = {d: 1 for d in DataType if d not in _NUMPY}
FROM_NUMPY = {v: k for k, v in _NUMPY.items()}
SUPPORTED = frozenset(_NUMPY)


@place.boundary
def bytes_of(dtype: DataType) -> int:
    """Bytes that one element of `dtype` takes in storage.

    >>> import pypto
    >>> pypto.bytes_of(pypto.DT_FP16)
    2
    """
    if not isinstance(dtype, DataType):
        raise error(
            TypeError,
            f"bytes_of() takes a DataType, got {type(dtype).__name__}",
            fix="pypto.bytes_of(pypto.DT_FP32)",
        )
    return dtype.bytes


class Element:
    """A scalar with an element type, for operands whose type must not follow the tensor's.

    `Element(dtype, value)`: `value` is an int or a float; a float given for an integer type is
    cut toward zero.  Source: the scalar class of the language.
    """

    __slots__ = ("dtype", "value")

    @place.boundary
    def __init__(self, dtype: DataType, data: int | float) -> None:
        if isinstance(data, DataType) and not isinstance(dtype, DataType):
            raise error(
                TypeError,
                f"arguments swapped: Element(dtype, value), got Element({dtype!r}, {data.name})",
                fix=f"pypto.Element(pypto.{data.name}, {dtype!r})",
            )
        if not isinstance(dtype, DataType):
            raise error(
                TypeError,
                f"Element(dtype, value): dtype must be a DataType, got {dtype!r}",
                fix="pypto.Element(pypto.DT_FP32, 1.0)",
            )
        if isinstance(data, (np.integer, np.floating, np.bool_)):
            data = data.item()
        if not isinstance(data, (int, float)):
            raise error(
                ValueError,
                f"Invalid data type {type(data).__name__} for Element",
                fix="`pypto.Element(pypto.DT_FP32, 1.0)` takes an int or a float",
            )
        self.dtype = dtype
        self.value: int | float = float(data) if dtype.is_float else int(data)

    def base(self) -> Element:
        """The element itself; the language has a native twin here."""
        return self

    def __repr__(self) -> str:
        return f"Element({self.dtype.name}, {self.value})"


def scalar(value: int | float, dtype: DataType) -> Any:
    """`value` as a NumPy scalar of `dtype`: floats round to nearest even, integers wrap."""
    if dtype.is_float:
        # One rounding, from double: large ints would otherwise round twice.
        with np.errstate(over="ignore"):
            return np.float64(value).astype(dtype.numpy)
    if dtype.kind == "b":
        return np.bool_(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise error(
                ValueError,
                f"{value} has no value in {dtype.name}",
                fix=f"give a number that {dtype.name} has",
            )
        value = int(value)
    bits = 8 * dtype.bytes
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >= 1 << (bits - 1):
        value -= 1 << bits
    return dtype.numpy.type(value)
