"""What can go wrong in a run, and how it is told: which tensor, which element, which trip.

In: the numbers of a fault, found by the interpreter or by machine code.  Out: the error.  Both find
the same faults and tell them in the same words.  A tensor is called what the user calls it: by its
own name, or by the name that the statement that made it bound.
"""

from __future__ import annotations

import ast
import linecache
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pypto.errors import Loc, PyptoError, error
from pypto.ir.dtype import DataType
from pypto.ir.graph import Graph, Node, Storage, Value, walk

# What numbers an array: slices, or one array of places per axis.
Index = tuple[Any, ...]


class Names:
    """What the tensors of a graph are called."""

    def __init__(self, graph: Graph) -> None:
        self._makers: dict[Storage, Value] = {}
        for node in walk(graph.body):
            for value in node.results:
                if value.storage is not None:
                    self._makers.setdefault(value.storage, value)

    def of(self, value: Value) -> str:
        """The name of a tensor as messages write it, or what made it."""
        storage = value.storage
        if storage is not None and storage.name:
            return f"`{storage.name}`"
        maker = self._makers.get(storage, value) if storage is not None else value
        node = maker.node
        if node is None:
            return "a tensor"
        name = bound_name(node.loc)
        if name:
            return f"`{name}`"
        if node.op.name == "empty":
            return "a tensor of the kernel's own"
        source = self._source(maker)
        if node.op.name in _WINDOWS and source is not None:
            return f"{_WINDOWS[node.op.name]} of {self.of(source)}"
        return f"the result of {node.op.name}"

    def _source(self, value: Value) -> Value | None:
        return value.node.operands[0] if value.node is not None and value.node.operands else None


_WINDOWS = {"view": "a view", "reshape": "a reshape", "reinterpret": "a view", "clone": "a clone"}


def bound_name(loc: Loc | None) -> str:
    """The name that the statement at a place binds to what it computes there, or nothing.

    What a helper returns is named by its caller.
    """
    while loc is not None:
        found = next((targets for targets, x in _results(loc.file) if _stands_at(x, loc)), None)
        if found is None:
            return ""
        if found:
            return next((t.id for t in found if isinstance(t, ast.Name)), "")
        loc = loc.outer
    return ""


def _stands_at(node: ast.expr, loc: Loc) -> bool:
    found = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return found == (loc.line, loc.col, loc.end_line, loc.end_col)


def _results(file: str) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """Expressions and what they are bound to; nothing for those that a function returns."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield node.targets, node.value
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    for name, value in zip(target.elts, node.value.elts, strict=False):
                        yield [name], value
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield [node.target], node.value
        elif isinstance(node, ast.Return) and node.value is not None:
            yield [], node.value
        elif isinstance(node, ast.Lambda):
            yield [], node.body


def first(found: np.ndarray, index: Index) -> tuple[int, ...]:
    """The place in the whole array of the first true element of what `index` took from it."""
    at = tuple(int(i) for i in np.argwhere(found)[0])
    if all(isinstance(part, slice) for part in index):
        return tuple(i + (part.start or 0) for i, part in zip(at, index, strict=True))
    return tuple(int(part[at]) for part in index)


def told(graph: Graph, text: str, trips: Sequence[str], culprit: Node | None) -> str:
    """A message with the tensor, if it has no word of it, and the trip of every open loop."""
    parts = []
    if culprit is not None and culprit.operands:
        written = culprit.op.writes
        index = culprit.attrs[written].index if written is not None else 0
        name = Names(graph).of(culprit.operands[index])
        parts += [name] if name not in text else []
    if trips:
        parts.append(f"in iteration {', '.join(trips)}")
    return f"{text} ({', '.join(parts)})" if parts else text


# --- the faults ----------------------------------------------------------------------------------


def division_by_zero() -> PyptoError:
    return error(ValueError, "Division or Mod by zero.", fix="divide by a number other than 0")


def zero_step() -> PyptoError:
    return error(
        ValueError,
        "the step of pypto.loop must not be 0",
        code="F21004",
        fix="count with a step such as 1 or -1",
    )


def negative_offset(name: str, starts: Sequence[int]) -> PyptoError:
    axis = next(a for a, start in enumerate(starts) if start < 0)
    return error(
        IndexError,
        f"{name}: offset {starts[axis]} on axis {axis} is negative",
        fix="offsets count from the start of the axis, from 0",
    )


def check_given(
    starts: Sequence[int], asked: Sequence[int], shape: Sequence[int], data: Sequence[int]
) -> None:
    """Refuse the valid_shape of a view that is larger than the view or than what is left there."""
    for axis, (o, n, extent, valid) in enumerate(zip(starts, asked, shape, data, strict=True)):
        room = max(valid - o, 0)
        if 0 <= n <= extent and n <= room:
            continue
        past = f"the view's {extent}" if n > extent else f"the {room} left of the data"
        found = f"reaches past {past}" if n > 0 else "is negative"
        raise error(
            IndexError,
            "View operation failed: newValidShapes cannot exceed original tensor's shape at "
            f"dimension {axis}: valid_shape {n} {found}",
            fix=f"give at most {min(extent, room)}, or leave valid_shape out: a view that "
            "overhangs is cut by itself",
        )


def outside(
    name: str,
    starts: Sequence[int],
    counts: Sequence[int],
    sizes: Sequence[int],
    shape: Sequence[int],
) -> PyptoError:
    """The error of a write that would leave its destination, with the numbers of the first axis."""
    if any(start < 0 for start in starts):
        return negative_offset(name, starts)
    axis = next(a for a, (o, n) in enumerate(zip(starts, counts, strict=True)) if o + n > sizes[a])
    first, last, size = starts[axis], starts[axis] + counts[axis] - 1, sizes[axis]
    unit = "rows" if axis == 0 else f"positions of axis {axis}"
    whole = f"{size}-row" if axis == 0 else f"{size}-long"
    fitting = [max(min(n, s - o), 0) for o, n, s in zip(starts, counts, sizes, strict=True)]
    return error(
        IndexError,
        f"{name} writes {unit} {first}..{last} of a {whole} tensor; give valid_shape={fitting}",
        fix=f"limit the source: `pypto.view(t, {list(shape)}, …, valid_shape={fitting})`",
    )


def check_index(index: Sequence[int], extents: Sequence[int]) -> None:
    """Refuse the place of an element that is not there."""
    for axis, (i, n) in enumerate(zip(index, extents, strict=True)):
        if not 0 <= i < n:
            raise error(
                IndexError,
                f"index {i} is out of range for axis {axis} with extent {n}",
                fix=f"an index is at least 0 and at most {n - 1}" if n else "the axis is empty",
            )


def check_valid(name: str, asked: Sequence[int], limits: Sequence[int]) -> None:
    """Refuse given valid extents beyond their limits."""
    for axis, (n, limit) in enumerate(zip(asked, limits, strict=True)):
        if not 0 <= n <= limit:
            raise error(
                IndexError,
                f"{name}: valid_shape {n} on axis {axis} is not within 0..{limit}",
                fix=f"limit it: `pypto.min(n, {limit})`",
                value=n,
                limit=[0, limit],
            )


def no_memory(dtype: DataType, shape: Sequence[int]) -> PyptoError:
    """The error of memory that a run cannot have: a negative extent, or too much of it."""
    for axis, n in enumerate(shape):
        if n < 0:
            return error(
                ValueError,
                f"a tensor cannot have {n} elements on axis {axis}",
                fix="an extent is at least 0",
                value=n,
            )
    count = math.prod(shape)
    return error(
        MemoryError,
        f"there is no memory for a tensor of {dtype.name} {list(shape)}: {count * dtype.bytes} "
        "bytes",
        fix="make a tensor for the part that is worked on",
    )


def hole_in_concat(dim: int, filled: int, size: int) -> PyptoError:
    """The error of pieces that do not fill the axis along which they are put together."""
    return error(
        ValueError,
        f"concat(): {filled} of {size} elements are valid on axis {dim}; pieces must be fully "
        "valid along it",
        fix="`pypto.fillpad` the pieces first",
    )


def past_input(op: str, name: str, n: int, axis: int, size: int) -> PyptoError:
    """The error of valid extents beyond those of the tensor that is written."""
    return error(
        IndexError,
        f"{op}(): {name} is valid to {n} on axis {axis}, input to {size}",
        fix=f"limit {name} with valid_shape",
    )


def out_of_places(op: str, name: str, at: Sequence[int], place: int, size: int) -> PyptoError:
    """The error of a place, read from an integer tensor, that is not 0..size-1."""
    return error(
        IndexError,
        f"{op}(): {name}{list(at)} is {place}, outside of 0..{size - 1}",
        fix="places count from 0 and stay within the valid elements; drop the others with "
        "valid_shape",
    )
