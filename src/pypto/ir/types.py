"""The types of values in a graph, and the enums of the language.

A tensor type is an element type, the extents of its memory and how many leading elements of each
axis are valid.  Extents are ints, save for DYNAMIC parameters and their kin; valid extents may be
symbolic everywhere.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from pypto.ir.dtype import DataType
from pypto.ir.sym import Expr, SymInt, to_text


class TileOpFormat(enum.Enum):
    """Memory layout: row major (ND) or the fractal layout of the cube unit (NZ)."""

    TILEOP_ND = 0
    TILEOP_NZ = 1


class StatusType(enum.Enum):
    """Markers for the dims of an annotation.

    STATIC: any size, a new size compiles again.  DYNAMIC (or DYN): a run-time size, one compiled
    kernel serves all of them.
    """

    DYN = "dyn"
    DYNAMIC = "dynamic"
    STATIC = "static"


class RunMode(enum.IntEnum):
    """Where a kernel is meant to run.  Both members run here, with right values."""

    NPU = 0
    SIM = 1


class CastMode(enum.Enum):
    """Rounding of a cast.  2.5 becomes 2 (RINT), 3 (ROUND), 2 (FLOOR), 3 (CEIL), 2 (TRUNC)."""

    CAST_NONE = 0
    CAST_RINT = 1
    CAST_ROUND = 2
    CAST_FLOOR = 3
    CAST_CEIL = 4
    CAST_TRUNC = 5
    CAST_ODD = 6


class SaturationMode(enum.Enum):
    """What a cast does outside the integer range: keep the low bits (OFF) or clamp (ON)."""

    OFF = 0
    ON = 1


class PrecisionType(enum.Enum):
    """Which algorithm the chip takes; no value changes here."""

    INTRINSIC = 0
    HIGH_PRECISION = 1


class ReLuType(enum.Enum):
    """The activation that a matmul applies to its accumulator."""

    NO_RELU = 0
    RELU = 1


class CachePolicy(enum.Enum):
    """How global memory is cached; no value changes."""

    NONE_CACHEABLE = 0


class TopKAlgo(enum.Enum):
    """The algorithm of `topk`; no value changes."""

    MERGE_SORT = 0
    RADIX_SELECT = 1


Shape = tuple[SymInt, ...]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type, extents of the memory, valid extents, layout."""

    dtype: DataType
    shape: Shape
    valid: Shape
    format: TileOpFormat = TileOpFormat.TILEOP_ND

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every extent of the memory is an int."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def is_full(self) -> bool:
        """Whether every element is valid, as far as can be told now."""
        return self.valid == self.shape

    def with_valid(self, valid: Shape) -> TensorType:
        return replace(self, valid=valid)

    def __str__(self) -> str:
        shape = ", ".join(to_text(d) for d in self.shape)
        text = f"{self.dtype.short}[{shape}]"
        if not self.is_full:
            text += f" valid [{', '.join(to_text(d) for d in self.valid)}]"
        return text if self.format is TileOpFormat.TILEOP_ND else f"{text} nz"

    def brief(self) -> str:
        """As messages name it: `Tensor[8, 8] DT_FP32`."""
        return f"Tensor[{', '.join(to_text(d) for d in self.shape)}] {self.dtype.name}"


@dataclass(frozen=True, slots=True)
class IntType:
    """A 64-bit integer known at run time."""

    def __str__(self) -> str:
        return "int"


INT = IntType()
Type = TensorType | IntType


def full(
    dtype: DataType, shape: Shape, format: TileOpFormat = TileOpFormat.TILEOP_ND
) -> TensorType:
    """A fully valid tensor type."""
    return TensorType(dtype, shape, shape, format)


def leaves(*items: SymInt) -> list[object]:
    """The run-time values that some integers depend on."""
    return [leaf for item in items if isinstance(item, Expr) for leaf in item.leaves()]
