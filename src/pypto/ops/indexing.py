"""`t[...]` and `t[...] = v`.

In: a Python key.  Out: a scalar read, a view, the tensor itself, or the write that the key means.
Negative Python ints count from the end once; nothing is clipped, so a slice past the end overhangs
its source and its excess is invalid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.declare import composite
from pypto.ir.handle import Tensor
from pypto.ir.op import FUNCTIONS, METHODS
from pypto.ir.scalar import SymbolicScalar, as_sym_int, failed_integer, is_sym_int
from pypto.ir.sym import SymInt
from pypto.ops import advice, control
from pypto.ops.arguments import size_list
from pypto.ops.element import read_item, require_index, write_item
from pypto.ops.window import window_of
from pypto.ops.write import write_window


class Axis(NamedTuple):
    """What a key says about one axis: an index, or a start and an extent (None: not known)."""

    start: SymInt
    extent: SymInt
    is_index: bool


def _is_full(key: Any) -> bool:
    return isinstance(key, slice) and key.start is None and key.stop is None and key.step is None


def _is_whole(key: Any) -> bool:
    parts = key if isinstance(key, (tuple, list)) else (key,)
    return len(parts) > 0 and all(_is_full(k) for k in parts)


def _normalise(t: Tensor, key: Any) -> list[Any]:
    """One int, symbolic scalar or slice per axis."""
    if isinstance(key, list):
        raise error(
            RuntimeError,
            "Invalid key type list; a tensor takes ints, symbolic scalars, slices and `...`",
            fix="`t[0:2]` for neighbouring rows, `pypto.gather` for others",
        )
    parts = list(key) if isinstance(key, tuple) else [key]
    for part in parts:
        if isinstance(part, Tensor):
            raise error(
                TypeError,
                "Tensor is not iterable. A tensor cannot index a tensor",
                fix="`pypto.gather(t, dim, index)`, or read an element of an integer tensor: "
                "`i = idx[0]`",
            )
        if part is None or isinstance(part, (float, np.ndarray, str)):
            raise error(
                TypeError,
                f"'{type(part).__name__}' object is not iterable: tuple key must be int, "
                "SymbolicScalar or slice",
                fix="`pypto.unsqueeze(t, dim)` inserts an axis" if part is None else None,
            )
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(dots) > 1:
        raise error(
            ValueError,
            "Only one ... is supported",
            fix="leave one `...`; it stands for all axes that the others do not name",
        )
    rank = t.dim
    if dots:
        missing = rank - (len(parts) - 1)
        if missing < 0:
            raise error(
                IndexError,
                f"Too many indices for tensor with dimension {rank}",
                fix=f"give at most {rank} indices",
            )
        at = dots[0]
        parts[at : at + 1] = [slice(None)] * missing
    parts += [slice(None)] * (rank - len(parts))
    if len(parts) != rank:
        raise error(
            IndexError,
            f"rank not match, expect {rank}, but got {len(parts)}",
            fix=f"give at most {rank} indices",
        )
    for part in parts:
        if not isinstance(part, slice) and not is_sym_int(part):
            raise error(
                TypeError,
                f"tuple key must be int, SymbolicScalar or slice, got {type(part).__name__}",
                fix="`t[0:16, i]`, with ints, integers of the kernel and slices",
            )
    return parts


def _position(item: Any, size: Any) -> SymInt:
    """A Python int counts from the end where it is negative; symbols stay as they are."""
    if isinstance(item, (int, np.integer)) and item < 0:
        return as_sym_int(size + int(item))
    return as_sym_int(item)


def _axis(part: Any, size: Any) -> Axis:
    if not isinstance(part, slice):
        return Axis(_position(part, size), 1, True)
    start = 0 if part.start is None else _position(part.start, size)
    stop = as_sym_int(size) if part.stop is None else _position(part.stop, size)
    return Axis(start, sym.simple(sym.sub(stop, start)), False)


def _refuse_step(t: Tensor, parts: list[Any], way: Callable[[Tensor, list[Any], int], str]) -> None:
    for axis, part in enumerate(parts):
        step = part.step if isinstance(part, slice) else None
        if step is not None and not (isinstance(step, int) and step == 1):
            raise error(ValueError, f"step must be 1 or None, got {step}", fix=way(t, parts, axis))


def _element(t: Any, key: Any, valid_shape: Any = None) -> SymbolicScalar | None:
    """What stands for a read that failed, if it was one of an element."""
    parts = key if isinstance(key, tuple) else (key,)
    is_element = len(parts) == t.dim and all(is_sym_int(part) for part in parts)
    return failed_integer() if is_element else None


@composite(method="", operator=("__getitem__",), guess=_element)
def _getitem(self: Tensor, key: Any, *, valid_shape: Any = None) -> Any:
    """What `t[key]` means: an element (all axes indexed), the tensor itself (all full slices), a
    view (slices), or a view without the indexed axes (mixed).  ``t[d:index]`` with an integer
    tensor is `gather`.  Source: the indexing rules of the language.
    """
    if _is_whole(key):
        return self
    if isinstance(key, slice) and isinstance(key.stop, Tensor):
        if isinstance(key.start, bool) or not isinstance(key.start, int):
            raise error(
                TypeError,
                f"gather key.start must be int, got {type(key.start).__name__}",
                fix="pypto.gather(t, dim, index)",
            )
        return FUNCTIONS["gather"](self, key.start, key.stop)
    if isinstance(key, tuple) and not key:
        return self
    sizes = self.shape
    parts = _normalise(self, key)
    _refuse_step(self, parts, advice.step_read)
    axes = [_axis(p, s) for p, s in zip(parts, sizes, strict=True)]
    if all(a.is_index for a in axes):
        return read_item(self, tuple(a.start for a in axes))
    extents: list[int] = []
    for number, axis in enumerate(axes):
        if not isinstance(axis.extent, int):
            raise error(
                ValueError,
                f"Not concrete value: the extent of slice {number} is `{axis.extent}`; it must be "
                "known when the kernel is traced",
                code="F21004",
                fix=advice.fixed_slice(self.value().tensor, parts, number, axis.start),
            )
        if axis.extent <= 0:
            raise error(
                ValueError,
                f"Invalid shape {axis.extent}: slice {number} is empty",
                fix="slice at least one element",
            )
        extents.append(axis.extent)
    for axis, size in zip(axes, sizes, strict=True):
        if axis.is_index:
            require_index(axis.start, as_sym_int(size))
    starts = tuple(a.start for a in axes)
    given = None if valid_shape is None else size_list("getitem", "valid_shape", valid_shape)
    view = window_of(self.value(), tuple(extents), starts, given)
    if not any(a.is_index for a in axes):
        return view
    kept = [e for e, a in zip(extents, axes, strict=True) if not a.is_index]
    valid = [v for v, a in zip(view.valid_shape, axes, strict=True) if not a.is_index]
    return FUNCTIONS["reshape"](view, kept, valid_shape=valid)


@composite(method="", operator=("__setitem__",))
def _setitem(self: Tensor, key: Any, value: Any) -> None:
    """What `t[key] = value` means: `move` (all full slices), one element (all axes indexed), or
    `assemble` at the starts of the slices; extents come from the value.  ``t[d:index] = v`` with
    an integer tensor is `scatter_`.  Source: the indexing rules of the language.
    """
    if _is_whole(key):
        METHODS["move"](self, value)
        return
    if isinstance(key, slice) and isinstance(key.stop, Tensor):
        FUNCTIONS["scatter_"](self, key.start, key.stop, value)
        return
    parts = _normalise(self, key)
    _refuse_step(self, parts, advice.step_write)
    axes = [_axis_of_write(p, s) for p, s in zip(parts, self.shape, strict=True)]
    starts = [a.start for a in axes]
    if all(a.is_index for a in axes):
        write_item(self, tuple(starts), value)
        return
    if not isinstance(value, Tensor):
        raise error(
            TypeError,
            f"a slice takes a tensor, got {type(value).__name__}: '{type(value).__name__}' type "
            "cannot be moved to Tensor",
            fix=_constant(self, key, value),
        )
    slices = sum(not a.is_index for a in axes)
    if slices != len(axes):
        if slices != value.dim:
            raise error(
                ValueError,
                f"The number of slice in key ({slices}) must match the length of input Tensor "
                f"({value.dim}).",
                fix="reshape the value to one axis per slice",
            )
        extents = iter(zip(value.shape, value.valid_shape, strict=True))
        pairs = [(1, 1) if a.is_index else next(extents) for a in axes]
        value = FUNCTIONS["reshape"](
            value, [s for s, _ in pairs], valid_shape=[v for _, v in pairs]
        )
    write_window("Assemble", control.ASSEMBLE, value, [_user(s) for s in starts], self)


def _constant(target: Tensor, key: Any, value: Any) -> str:
    """How to write one number into a window."""
    parts = _normalise(target, key)
    axes = [_axis(part, size) for part, size in zip(parts, target.shape, strict=True)]
    return advice.constant(target, parts, [None if a.is_index else a.extent for a in axes], value)


def _axis_of_write(part: Any, size: Any) -> Axis:
    """As for reading, but only the start counts; a slice may be open at its end."""
    if not isinstance(part, slice):
        return Axis(_position(part, size), 1, True)
    return Axis(0 if part.start is None else _position(part.start, size), 0, False)


def _user(x: SymInt) -> Any:
    return x if isinstance(x, int) else SymbolicScalar(x)
