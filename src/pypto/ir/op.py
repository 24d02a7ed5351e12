"""The vocabulary of op records, and their registry.

A record says everything there is to say about one op, once: what users write, which element types
it takes, the shape and valid extents of its result, its meaning in NumPy.  The public function,
the tensor method, the operator, the checks, the text form, the interpreter and the tests are
derived from it.  Records live in `ops/`; this module holds their fields and the named rules.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.dtype import DataType
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape, TensorType

Attrs = Mapping[str, Any]
ShapeRule = Callable[[Sequence[TensorType], Attrs], Any]
ValidRule = Callable[[Sequence[TensorType], Attrs, Any], Any]
DtypeRule = Callable[[Sequence[TensorType], Attrs], Any]
NumberRule = Callable[[DataType, int | float], DataType]


class Family(enum.Enum):
    """How an op meets its elements; each stage has one handler a family."""

    MAP = "map"  # element by element, with broadcasting
    REDUCE = "reduce"  # along one axis
    SCAN = "scan"  # along one axis, keeping it
    CONTRACT = "contract"  # matrix products
    MOVE = "move"  # elements go elsewhere, none is computed
    INDEX = "index"  # places read from an integer tensor
    CREATE = "create"  # no tensor comes in
    SORT = "sort"  # along the last axis, several results
    CONTROL = "control"  # loops, branches, memory, checks
    WRITE = "write"  # into memory that exists


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()


@dataclass(frozen=True, eq=False)
class Arg:
    """One argument of an op.

    Kinds: `tensor`; `operand` (a tensor, or a scalar that takes the tensor's element type);
    `element` (a tensor, or a scalar that brings its own type, FP32 for bare numbers); `tensors`;
    `dim` (an axis of the first tensor); `dims`; `sizes` (symbolic ints, or None); `symint`;
    `int`; `float`; `bool`; `str`; `dtype`; `enum`; `any`.
    """

    name: str
    kind: str = "tensor"
    default: Any = REQUIRED
    keyword_only: bool = False
    type: type | None = None  # the class of an `enum`


class Slot(NamedTuple):
    """In a node's attributes: the operand of this index stands here."""

    index: int  # type: ignore[assignment]


class Out(NamedTuple):
    """What a reference of the families MOVE, INDEX, CREATE and CONTRACT is told of its result."""

    shape: tuple[int, ...]
    valid: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True, eq=False)
class Samples:
    """How tests draw the inputs of an op.

    `low` to `high` is the range of its tensors, `other` that of the second one where it differs,
    `scalar` what stands for an operand that is a number, `special` whether infinities, NaN and
    zeros of both signs are drawn too.
    """

    low: float = -4.0
    high: float = 4.0
    other: tuple[float, float] | None = None
    scalar: float = 2.0
    special: bool = True


def computed_as(dtype: DataType, number: int | float) -> DataType:
    """FP32 beside FP16 and BF16, in which the op computes; else the tensor's type."""
    return DataType.DT_FP32 if dtype in (DataType.DT_FP16, DataType.DT_BF16) else dtype


def stored_as(dtype: DataType, number: int | float) -> DataType:
    """The tensor's own type."""
    return dtype


@dataclass(frozen=True, eq=False)
class Op:
    """One op.  Fields without a default are mandatory.

    `reference`: NumPy meaning.  MAP: (*operands in compute type, **attrs).  REDUCE, SCAN:
    (array, axis, **attrs).  Others: (*operands, out=Out, **attrs).  Operands are the valid boxes.
    Records with `writes` change the array of that argument and return None.
    """

    name: str
    family: Family
    sentence: str
    args: tuple[Arg, ...]
    accept: frozenset[DataType]
    shape: ShapeRule
    valid: ValidRule
    reference: Callable[..., Any] | None
    formula: str = ""
    result: DtypeRule | None = None  # default: the element type of the first tensor
    ranks: tuple[int, int] = (1, 4)
    method: str | None = None  # name of the tensor method, "" for none, None for the op's name
    operator: tuple[str, ...] = ()  # special methods of Tensor, reflected ones included
    aliases: tuple[str, ...] = ()  # further public names
    commutative: bool = False
    writes: str | None = None  # the argument that is changed in place
    returns_self: bool = False  # with `writes`: the call returns that argument, not None
    identity: Callable[[Sequence[TensorType], Attrs], bool] | None = None  # returns its argument
    dynamic: frozenset[str] = frozenset()  # arguments that may have DYNAMIC extents
    number: NumberRule = computed_as  # the element type of a number beside a tensor
    results: int = 1
    hidden: bool = False  # no public function: the front end emits it
    engine: str = "vec"  # which tile setting it needs: vec, cube or none
    same_dtype: bool = True  # its tensor operands share one element type
    widen: bool = True  # FP16 and BF16 reach the reference of a MAP, REDUCE or SCAN as FP32
    integer_scalars_only: bool = False
    index_args: frozenset[str] = frozenset()  # tensors with types of their own: places, masks
    index_accept: frozenset[DataType] = frozenset()
    check: Callable[[Sequence[TensorType], Attrs], None] | None = None
    warns: Callable[[Sequence[TensorType], Attrs], str | None] | None = None
    misuse: str = ""  # the way out when its arguments do not bind
    # MAP: what it does to one element, (lanes, *operands in compute type, **attrs).  REDUCE and
    # SCAN: how two elements become one.  `lanes` is the builder that the back end hands in.
    lane: Callable[..., Any] | None = None
    torch: str = ""  # the same in torch, as an expression over the argument names, for tests
    tolerance: float = 0.0  # allowed ulps against torch
    samples: Samples = field(default_factory=Samples)
    example: str = ""


REGISTRY: dict[str, Op] = {}
# Public functions by name, special methods and tensor methods; filled as records are declared.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
OPERATORS: dict[str, Callable[..., Any]] = {}
METHODS: dict[str, Callable[..., Any]] = {}


# What the language has and this package does not have yet; `docs/status.md` lists it.
NOT_YET = frozenset(
    """argsort sort32 mrgsort one_hot pad interleave deinterleave pack unpack gathermask
    index_select index_add index_add_ index_add_ub index_add__ub quantize dequantize
    quant_mx uniform normal scaled_mm conv function distributed verify
    set_verify_golden_data PassConfigs get_pass_configs get_pass_config set_pass_config
    get_global_config set_global_config get_options_tree get_current_scope get_last_function
    get_current_function log_debug log_info log_warn log_error log_fatal log_event
    set_log_level get_log_level""".split()
)


def register(op: Op) -> Op:
    """Enter a record.  A name is declared once."""
    if op.name in REGISTRY:
        raise ValueError(f"op {op.name} is declared twice")
    REGISTRY[op.name] = op
    return op


# --- named shape rules ---------------------------------------------------------------------------


def same_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The shape of the first tensor."""
    return types[0].shape


def broadcast(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """Right-aligned; on each axis the extents are equal or 1."""
    rank = max(t.rank for t in types)
    shape: list[SymInt] = [1] * rank
    for t in types:
        for axis, size in enumerate(t.shape, rank - t.rank):
            if size == 1 or shape[axis] == size:
                continue
            if shape[axis] != 1:
                shapes = " and ".join(str(list(t.shape)) for t in types)
                raise error(
                    ValueError,
                    f"Tensor shape must be consistent or broadcast compatible: {shapes} differ on "
                    f"axis {axis} ({shape[axis]} and {size})",
                    code="FC0000",
                    fix="make the extents equal, or one of them 1 (`keepdim=True`, view, reshape)",
                )
            shape[axis] = size
    return tuple(shape)


def broadcast_equal_rank(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """As `broadcast`, but ranks must be equal already."""
    ranks = {t.rank for t in types}
    if len(ranks) > 1:
        raise error(
            ValueError,
            f"all tensors must have the same rank, got ranks {[t.rank for t in types]}",
            code="FC0002",
            fix="insert axes of extent 1 with `pypto.reshape` or `pypto.unsqueeze`",
        )
    return broadcast(types, attrs)


def reduce_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The axis `dim` becomes 1 and, without `keepdim`, goes away; never down to rank 0."""
    return _reduced(types[0].shape, attrs)


def _reduced(extents: Shape, attrs: Attrs) -> Shape:
    dim = attrs["dim"]
    kept = (*extents[:dim], 1, *extents[dim + 1 :])
    if attrs.get("keepdim", False) or len(extents) == 1:
        return kept
    return (*extents[:dim], *extents[dim + 1 :])


# --- named valid rules ---------------------------------------------------------------------------


def same_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """The valid extents of the first tensor."""
    return types[0].valid


def all_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """Everything is valid."""
    return shape


def least_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """On each axis the least valid extent of the tensors that have the full extent there."""
    valid: list[SymInt] = []
    for axis, size in enumerate(shape):
        extent: SymInt | None = None
        for t in types:
            own = axis - (len(shape) - t.rank)
            if own < 0 or t.shape[own] != size:
                continue
            other = t.valid[own]
            extent = other if extent is None else sym.simple(sym.minimum(extent, other))
        # An axis of extent 1 that is broadcast: valid only where its one element is.
        for t in types:
            own = axis - (len(shape) - t.rank)
            if own >= 0 and t.shape[own] == 1 and size != 1 and t.valid[own] != 1:
                extent = sym.simple(sym.mul(expr_of(extent, size), sym.minimum(t.valid[own], 1)))
        valid.append(expr_of(extent, size))
    return tuple(valid)


def expr_of(extent: SymInt | None, size: SymInt) -> SymInt:
    return size if extent is None else extent


def reduce_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """As `reduce_shape`; the reduced axis is valid where anything was reduced."""
    return _reduced(types[0].valid, attrs)


# --- element types -------------------------------------------------------------------------------


def always(dtype: DataType) -> DtypeRule:
    """The result has this element type."""
    return lambda types, attrs: dtype


def from_attr(name: str) -> DtypeRule:
    """The result has the element type that an argument names."""
    return lambda types, attrs: attrs[name]
