"""Named sets of element types, for the `accept` field of records.

A record accepts what any chip accepts; what one chip leaves out is a rule of that chip.
"""

from __future__ import annotations

from pypto.ir.dtype import DataType

FP16 = DataType.DT_FP16
BF16 = DataType.DT_BF16
FP32 = DataType.DT_FP32
FP64 = DataType.DT_DOUBLE
INT8 = DataType.DT_INT8
INT16 = DataType.DT_INT16
INT32 = DataType.DT_INT32
INT64 = DataType.DT_INT64
UINT8 = DataType.DT_UINT8
UINT16 = DataType.DT_UINT16
UINT32 = DataType.DT_UINT32
UINT64 = DataType.DT_UINT64
BOOL = DataType.DT_BOOL


def types(*items: DataType | frozenset[DataType]) -> frozenset[DataType]:
    """The union of element types and sets of them."""
    return frozenset().union(*({i} if isinstance(i, DataType) else i for i in items))


FLOATS = types(FP16, BF16, FP32)
# What the vector unit computes with on every chip.
ARITHMETIC = types(FLOATS, INT16, INT32)
BYTES = types(INT8, UINT8)
WORDS = types(BYTES, INT16, UINT16, INT32, UINT32)
LONGS = types(INT64, UINT64)
# Elements that are only moved.
MOVED = types(FLOATS, WORDS)
PLACES = types(INT32, INT64)
