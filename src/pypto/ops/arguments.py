"""Arguments of ops that are written out by hand: tensors, and lists of sizes and offsets.

In: what the user gave.  Out: a handle, or a shape of ints and expressions; or the error that names
the op and the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pypto.errors import error
from pypto.ir.handle import Tensor
from pypto.ir.scalar import as_sym_int, is_sym_int
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import Shape, TensorType, full


def tensor_argument(name: str, argument: str, item: Any) -> Tensor:
    if not isinstance(item, Tensor):
        raise error(
            TypeError,
            f"{name}(): {argument} must be a tensor, got {type(item).__name__} ({item!r})",
            fix=f"`pypto.full([16, 16], {item!r}, pypto.DT_FP32)` makes a tensor of one value"
            if isinstance(item, (int, float))
            else None,
        )
    return item


def size_list(name: str, argument: str, items: Any) -> Shape:
    if not isinstance(items, (list, tuple)):
        raise error(
            TypeError,
            f"{name}(): {argument} must be a list of ints, got {type(items).__name__}",
            fix=f"{argument}=[16, 16], one entry per axis",
        )
    out: list[SymInt] = []
    for item in items:
        if not is_sym_int(item) or isinstance(item, bool):
            raise error(
                TypeError,
                f"Invalid type. {name}(): {argument} takes ints and symbolic scalars, got "
                f"{type(item).__name__} ({item!r})",
                fix="give ints, or integers of the kernel: loop indices, dims, elements of integer "
                "tensors",
            )
        out.append(as_sym_int(item))
    return tuple(out)


def static_sizes(name: str, argument: str, sizes: Shape, fix: Callable[[], str]) -> Shape:
    """Extents that are ints; `fix` tells the way out of those that are not."""
    for size in sizes:
        if isinstance(size, Expr):
            raise error(
                ValueError,
                f"Not concrete value: {name} {argument} must be int; `{size}` is symbolic: put it "
                "in offsets or valid_shape",
                code="F21004",
                fix=fix(),
            )
        if size <= 0:
            raise error(
                ValueError,
                f"Invalid shape {size}: {name} {argument} {list(sizes)} needs extents of at least "
                "1",
                code="F0000B",
                value=size,
                limit=1,
                fix="give extents of at least 1; an empty axis is looped over no time",
            )
    return sizes


def sized(like: Any, sizes: Any) -> TensorType:
    """The type of a tensor of the same kind with these extents, which must be ints."""
    extents = static_sizes("", "", size_list("", "", sizes), str)
    return full(like.dtype, extents)


def shown(extents: Shape) -> str:
    return f"[{', '.join(str(e) for e in extents)}]"
