"""Ordinary functions over other ops: norms, operators without an op of their own, methods in place.

In: tensors.  Out: what the ops that they are written with give.  Nothing here reaches a graph
under its own name, and the frames of this file are hidden from the user's locations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir.declare import composite
from pypto.ir.dtype import DataType
from pypto.ir.elsewhere import nearest
from pypto.ir.handle import Tensor
from pypto.ops.accepts import BF16, FLOATS, FP16, FP32, INT8, INT32
from pypto.ops.cast import cast
from pypto.ops.contract import MATMUL
from pypto.ops.create import full
from pypto.ops.elementwise import add, div, maximum, mul, sub
from pypto.ops.movement import permute, tril, triu
from pypto.ops.reduce import VAR, amax, sum
from pypto.ops.reshape import reshape
from pypto.ops.unary import PRELU, exp, floor, neg, number_of, reciprocal, sqrt


def _tensor(op: str, name: str, item: Any) -> Tensor:
    if isinstance(item, Tensor):
        return item
    raise error(
        TypeError,
        f"{op}(): {name} must be a tensor, got {type(item).__name__} ({item!r})",
        fix="give a tensor; `pypto.full([16, 16], 1.0, pypto.DT_FP32)` makes one of one value",
    )


def _floats(op: str, name: str, item: Any) -> Tensor:
    """A tensor that FP32 holds exactly."""
    t = _tensor(op, name, item)
    if t.dtype not in FLOATS:
        raise error(
            TypeError,
            f"{op}(): {t.dtype.name} is not supported for {name}; it takes "
            f"{', '.join(sorted(d.name for d in FLOATS))}",
            code="FC0001",
            fix="cast first: `pypto.cast(t, pypto.DT_FP32)`",
        )
    return t


def _axis(op: str, t: Tensor, dim: Any) -> int:
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)):
        raise error(
            TypeError,
            f"{op}(): dim must be an int (an axis), got {type(dim).__name__} ({dim!r})",
            fix="give one axis, such as -1",
        )
    if not -t.dim <= dim < t.dim:
        raise error(
            IndexError,
            f"{op}(): dim={dim} is no axis of a tensor of rank {t.dim}; allowed "
            f"{-t.dim}..{t.dim - 1}",
            fix=f"`dim={t.dim - 1}` is the last axis; -1 names it too",
        )
    return int(dim) % t.dim


# --- operators and methods -----------------------------------------------------------------------


@composite(method="", operator=("__rsub__",))
def _reflected_sub(self: Tensor, other: Any) -> Tensor:
    return neg(sub(self, other))


@composite(method="", operator=("__rtruediv__",))
def _reflected_div(self: Tensor, other: Any) -> Tensor:
    return mul(reciprocal(self), other)


@composite(method="", operator=("__floordiv__",))
def _floor_of_quotient(self: Tensor, other: Any) -> Tensor:
    return floor(div(self, other))


@composite(method="", operator=("__matmul__",))
def _matmul_operator(self: Tensor, other: Any) -> Tensor:
    second = _tensor("matmul", "mat2", other)
    if second.dtype not in (FP16, BF16, FP32, INT8):
        raise error(
            RuntimeError,
            f"matmul(): unsupported dtype {second.dtype.name} for the operator @",
            fix="cast to DT_FP16, DT_BF16 or DT_FP32 first",
        )
    return MATMUL(self, second, INT32 if second.dtype is INT8 else second.dtype)


@composite(method="float")
def _float(self: Tensor) -> Tensor:
    """The same elements as DT_FP32."""
    return cast(self, FP32)


@composite(method="permute")
def _permute(self: Tensor, perm: Sequence[int]) -> Tensor:
    """Puts the axes into another order; see `pypto.permute`."""
    return permute(self, perm)


@composite(method="fill_")
def _fill_(self: Tensor, other: Any) -> Tensor:
    """Gives every element a number, in place; returns the tensor."""
    self.move(full(self.shape, other, self.dtype))
    return self


@composite(method="triu_")
def _triu_(self: Tensor, diagonal: Any = 0) -> Tensor:
    """Zero below a diagonal of the last two axes, in place; returns the tensor."""
    self.move(triu(self, diagonal))
    return self


@composite(method="tril_")
def _tril_(self: Tensor, diagonal: Any = 0) -> Tensor:
    """Zero above a diagonal of the last two axes, in place; returns the tensor."""
    self.move(tril(self, diagonal))
    return self


@composite(method="axpy_")
def axpy_(y: Tensor, x: Tensor, alpha: float = 1.0) -> Tensor:
    """``y = alpha * x + y`` in place; returns `y`.

    Both of DT_FP32 or DT_FP16, or an `x` of DT_FP16 with a `y` of DT_FP32; computed in FP32 and
    rounded once.  `x` broadcasts to `y`.  Errors: TypeError FC0001 for other types, ValueError
    FC0000 for shapes.  Source: the axpy_ function of the language.
    """
    target, source = _floats("axpy_", "y", y), _floats("axpy_", "x", x)
    if (target.dtype, source.dtype) not in ((FP32, FP32), (FP16, FP16), (FP32, FP16)):
        raise error(
            TypeError,
            f"axpy_(): y {target.dtype.name} with x {source.dtype.name}; it takes FP32 with FP32 "
            "or FP16, and FP16 with FP16",
            code="FC0001",
            fix="cast one of them: `pypto.cast(x, pypto.DT_FP32)`",
        )
    factor = number_of(alpha)
    if factor is None:
        raise error(
            TypeError,
            f"axpy_(): alpha must be a number, got {type(alpha).__name__}",
            fix="alpha=1.0",
        )
    total = cast(add(mul(cast(source, FP32), factor), cast(target, FP32)), target.dtype)
    if total.shape != target.shape:
        raise error(
            ValueError,
            f"axpy_(): x {source.shape} broadcasts to y, not the other way; y is {target.shape}",
            code="FC0000",
            fix="swap them, or reshape x so that its extents are those of y or 1",
        )
    target.move(total)
    return target


@composite(method="prelu")
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """An element, or its channel's `weight` times it where it is not above 0.

    `weight` has rank 1 and one element per extent of axis 1 (one for tensors of rank 1).  Errors:
    TypeError FC0001 for types, ValueError FC0000 for shapes.  Source: the prelu function of the
    language.
    """
    t, slopes = _floats("prelu", "self", self), _floats("prelu", "weight", weight)
    channels = t.shape[1] if t.dim > 1 else 1
    if slopes.shape != [channels]:
        raise error(
            ValueError,
            f"prelu(): weight {slopes.shape} must have the shape [{channels}], one element per "
            "channel (axis 1)",
            code="FC0000",
            fix=f"`weight.reshape([{channels}])`, or a weight of {channels} elements",
        )
    if t.dim == 1:
        return PRELU(t, slopes)
    return PRELU(t, reshape(slopes, [1, channels] + [1] * (t.dim - 2)))


# --- reductions ----------------------------------------------------------------------------------


@composite(method="var")
def var(input: Tensor, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Tensor:
    """Variance along `dim`: an axis, a list of axes, or None for all.

    Squared distances to the mean divided by ``max(0, n - correction)``, over valid elements, in
    FP32.  Errors: TypeError FC0001 for types and axes, ValueError F00002 for an axis named twice.
    Source: the var function of the language.
    """
    t = _floats("var", "input", input)
    listed = dim if isinstance(dim, (list, tuple)) else () if dim is None else (dim,)
    axes = [_axis("var", t, d) for d in listed] or list(range(t.dim))
    if len(set(axes)) < len(axes):
        raise error(
            ValueError,
            f"var(): an axis is named twice in {list(listed)}",
            fix="name each axis once",
        )
    if len(axes) == 1:
        return VAR(t, axes[0], keepdim, correction)
    wide = cast(t, FP32)
    # Ones that are valid where the tensor is: their sum counts what takes part.
    count = _over(axes, full(t.shape, 1.0, FP32, valid_shape=t.valid_shape))
    spread = sub(wide, div(_over(axes, wide), count))
    divisor = maximum(sub(count, float(correction)), 0.0)
    spread = cast(div(_over(axes, mul(spread, spread)), divisor), t.dtype)
    if keepdim:
        return spread
    return reshape(spread, [n for a, n in enumerate(t.shape) if a not in axes] or [1])


def _over(axes: Sequence[int], t: Tensor) -> Tensor:
    """The sum over several axes, which become 1."""
    for axis in axes:
        t = sum(t, axis, True)
    return t


@composite(method="softmax")
def softmax(input: Tensor, dim: int) -> Tensor:
    """Exponentials along an axis, divided by their sum; computed in FP32 over valid elements.

    Errors: TypeError FC0001 for types, IndexError F00008 for an axis that is none.  Source: the
    softmax function of the language.
    """
    t = _floats("softmax", "input", input)
    axis = _axis("softmax", t, dim)
    wide = cast(t, FP32)
    powers = exp(sub(wide, amax(wide, axis, True)))
    return cast(div(powers, sum(powers, axis, True)), t.dtype)


@composite(method="")
def rms_norm(input: Tensor, gamma: Tensor | None = None, epsilon: float = 1e-6) -> Tensor:
    """Rows of the last axis divided by the root of their mean square, times `gamma` if given.

    The mean divides by the extent of the last axis, also where only a part of it is valid.
    Computed in FP32.  Errors: TypeError FC0001 for types, ValueError FC0000 for a gamma that does
    not fit.  Source: the rms_norm function of the language.
    """
    t = _floats("rms_norm", "input", input)
    size = t.shape[-1]
    wide = cast(t, FP32)
    mean = sum(mul(mul(wide, wide), 1.0 / size), -1, True)
    rows = div(wide, sqrt(add(mean, epsilon)))
    if gamma is not None:
        scale = cast(_floats("rms_norm", "gamma", gamma), FP32)
        if math.prod(scale.shape) != size:
            raise error(
                ValueError,
                f"rms_norm(): gamma {scale.shape} must have one element per element of the last "
                f"axis, {size}",
                code="FC0000",
                fix=f"a gamma of shape [{size}]",
            )
        rows = mul(rows, reshape(scale, [1] * (t.dim - 1) + [size]))
    return cast(rows, t.dtype)


# --- attention -----------------------------------------------------------------------------------


@composite("experimental.online_softmax", method="")
def online_softmax(scores: Tensor, scale: float) -> list[Tensor]:
    """One block of a softmax over axis 0: ``[exp(s - max) as DT_BF16, max, sum]``, s scaled.

    `scores` is DT_FP32 of rank 2; max and sum have the shape [1, columns].  Errors: TypeError
    F00001 for types, ValueError FC0000 for ranks.  Source: the experimental functions of the
    language.
    """
    t = _rows("online_softmax", "scores", scores)
    scaled = mul(t, scale)
    top = amax(scaled, 0, True)
    powers = exp(sub(scaled, top))
    return [cast(powers, BF16), top, sum(powers, 0, True)]


@composite("experimental.online_softmax_update", method="")
def online_softmax_update(
    previous_max: Tensor,
    previous_sum: Tensor,
    previous_output: Tensor,
    current_max: Tensor,
    current_sum: Tensor,
    current_output: Tensor,
) -> list[Tensor]:
    """Two blocks of a softmax as one: ``[max, sum, output]``, rescaled to the larger maximum.

    Maxima and sums are [1, q], outputs [d, q], all DT_FP32.  Errors: as `online_softmax`.
    Source: the experimental functions of the language.
    """
    name = "online_softmax_update"
    before = [_rows(name, "previous_*", t) for t in (previous_max, previous_sum, previous_output)]
    now = [_rows(name, "current_*", t) for t in (current_max, current_sum, current_output)]
    top = maximum(before[0], now[0])
    old, new = exp(sub(before[0], top)), exp(sub(now[0], top))
    return [
        top,
        add(mul(before[1], old), mul(now[1], new)),
        add(mul(before[2], old), mul(now[2], new)),
    ]


def _rows(op: str, name: str, item: Any) -> Tensor:
    t = _tensor(op, name, item)
    if t.dtype is not FP32 or t.dim != 2:
        raise error(
            TypeError if t.dtype is not FP32 else ValueError,
            f"{op}(): {name} must be DT_FP32 of rank 2, got {t.dtype.name} of rank {t.dim}",
            code="FC0001" if t.dtype is not FP32 else "FC0002",
            fix="cast and reshape first: `pypto.cast(t, pypto.DT_FP32).reshape([16, 64])`",
        )
    return t


# --- matrix products -----------------------------------------------------------------------------

_EXTENSIONS = ("bias_tensor", "relu_type", "scale", "scale_tensor")


@composite(method="matmul")
def matmul(
    input: Tensor,
    mat2: Tensor,
    out_dtype: DataType,
    *,
    a_trans: bool = False,
    b_trans: bool = False,
    c_matrix_nz: bool = False,
    extend_params: dict[str, Any] | None = None,
) -> Tensor:
    """Matrix product of two tensors of rank 2, 3 or 4; leading axes are batches and broadcast.

    `a_trans` and `b_trans` transpose the last two axes of an operand.  Floats accumulate in FP32,
    DT_INT8 in DT_INT32; the contraction runs over the valid part of K.  `extend_params` may hold
    ``bias_tensor`` ([1, N], added first), ``relu_type``, ``scale`` (a float) or ``scale_tensor``
    ([1, N] of DT_INT64 words whose low half is an FP32); the result is then rounded once.
    Errors: TypeError F00001 for types, ValueError F0000B for shapes, RuntimeError F00003 for ranks
    and for valid K that differ, ValueError F21004 without a cube tile.  Source: the matmul
    function of the language.
    """
    if c_matrix_nz:
        raise error(ValueError, "matmul(): c_matrix_nz=True is not supported", fix="leave it out")
    if extend_params is not None and not isinstance(extend_params, dict):
        raise error(
            TypeError,
            f"matmul(): extend_params must be a dict, got {type(extend_params).__name__}",
            fix='extend_params={"bias_tensor": bias}',
        )
    given = dict(extend_params or {})
    for key in given:
        if key not in _EXTENSIONS:
            close = nearest(str(key), _EXTENSIONS)
            raise error(
                ValueError,
                f"matmul(): extend_params has no key {key!r}; it takes {', '.join(_EXTENSIONS)}",
                fix=f"did you mean {close!r}?" if close else None,
            )
    return MATMUL(input, mat2, out_dtype, a_trans, b_trans, **given)
