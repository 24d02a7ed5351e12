"""Ways out of wrong keys, views and constants, in the user's own words.

In: what a window or an element was asked for, and what the user wrote there.  Out: code that means
the same and is legal, or advice in words where one line of code cannot say it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any

from pypto.ir import sym, written
from pypto.ir.dtype import DataType
from pypto.ir.handle import HOST_FIX, Tensor, is_of_host
from pypto.ir.sym import Expr, SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops.cast import route

_SIGNS = {ast.Gt: ">", ast.GtE: ">=", ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!="}
# An extent for tiles where the user's text names none.
_TILE = 64
# pypto.concat takes no more.
_MOST_PIECES = 128


def _subscript() -> ast.Subscript | None:
    node = written.expression()
    return node if isinstance(node, ast.Subscript) else None


def _tensor() -> str:
    """The text of the tensor in front of the brackets."""
    node = _subscript()
    return "t" if node is None else written.part(node.value)


def _key_nodes(rank: int) -> list[ast.expr | None]:
    """What the user wrote in the brackets, by axis."""
    node = _subscript()
    if node is None:
        return [None] * rank
    found = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    is_dots = any(isinstance(n, ast.Constant) and n.value is ... for n in found)
    return [None] * rank if is_dots else [*found, *[None] * (rank - len(found))]


def _bound(node: ast.expr | None, which: str, value: Any) -> str:
    """One end of a slice: a number, or what the user wrote."""
    end = getattr(node, which) if isinstance(node, ast.Slice) else None
    if isinstance(value, int) or end is None:
        return str(value)
    is_sum = isinstance(end, ast.BinOp) and isinstance(end.op, _ARITHMETIC)
    return written.text(end) if is_sum else written.part(end)


# What may stand before a `+` without brackets.
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod)


def _slice(start: str, extent: int) -> str:
    if start.isdecimal():
        return f"{start}:{int(start) + extent}"
    return f"{start}:{start} + {extent}"


def _key(parts: Sequence[Any], nodes: Sequence[ast.expr | None], changed: dict[int, str]) -> str:
    """A key with some axes written anew."""
    out = []
    for axis, (part, node) in enumerate(zip(parts, nodes, strict=True)):
        if axis in changed:
            out.append(changed[axis])
        elif node is not None:
            out.append(written.text(node))
        else:
            out.append(":" if isinstance(part, slice) else str(part))
    while len(out) > 1 and out[-1] == ":" and nodes[len(out) - 1] is None:
        out.pop()
    return ", ".join(out)


# --- elements ------------------------------------------------------------------------------------


def instead_of_element(source: Tensor, index: Shape) -> str:
    """What to write for an element that no integer can hold: a comparison gives an integer, and in
    arithmetic a tile of one element does; a cast to integers would drop the fraction.
    """
    node, tensor = _subscript(), _tensor()
    if source.dtype.is_int:
        key = "0, 0" if node is None else written.text(node.slice)
        for target in (route(source.dtype, DataType.DT_INT32) or [])[1:]:
            tensor = f"pypto.cast({tensor}, pypto.{target.name})"
        return f"{tensor}[{key}]"
    nodes = _key_nodes(len(index))
    tile = f"{tensor}[{', '.join(_one(i, n) for i, n in zip(index, nodes, strict=True))}]"
    outer: Any = None if node is None else written.around(node)
    if isinstance(outer, ast.BinOp):
        return tile
    is_one = isinstance(outer, ast.Compare) and len(outer.ops) == 1
    sign = _SIGNS.get(type(outer.ops[0])) if is_one else None
    if sign is None:
        return (
            "pass the number as an int argument or in an integer tensor; in arithmetic with "
            f"tensors write `{tile}`"
        )
    sides = [tile if s is node else written.part(s) for s in (outer.left, outer.comparators[0])]
    chosen = f"pypto.where({sides[0]} {sign} {sides[1]}, 1.0, 0.0)"
    zeros = ", ".join("0" for _ in index)
    number = f"pypto.cast({chosen}, pypto.DT_INT32)[{zeros}] == 1"
    return f"in place of the whole comparison: `{number}`"


def _one(index: SymInt, node: ast.expr | None) -> str:
    """The slice of one element."""
    if isinstance(index, int):
        return f"{index}:{index + 1}"
    start = str(index) if node is None else written.text(node)
    if start.startswith("-") and start[1:].isdecimal():
        return f"{start}:{int(start) + 1 or ''}"
    return _slice(start if node is None else written.part(node), 1)


# --- numbers into windows ------------------------------------------------------------------------


def constant(target: Tensor, parts: Sequence[Any], extents: Sequence[Any], value: Any) -> str:
    """The statement that writes one number into a window; `extents` are None for indexed axes."""
    if is_of_host(value):
        return HOST_FIX
    if not isinstance(value, (int, float)):
        return "write a tensor of the kernel, such as `pypto.full([16, 16], 0.0, pypto.DT_FP32)`"
    number = repr(value)
    node, name = _subscript(), _tensor()
    nodes = _key_nodes(len(parts))
    key = ":" if node is None else written.text(node.slice)
    open_axes = [a for a, e in enumerate(extents) if e is not None and not isinstance(e, int)]
    if not open_axes:
        return f"{name}[{key}] = {_full(extents, number, target)}"
    axis = open_axes[0]
    if len(open_axes) > 1 or node is None:
        return "fill it tile by tile: `pypto.full` takes int extents"
    part = parts[axis]
    stop = f"{name}.shape[{axis}]"
    if isinstance(part, slice) and part.stop is not None:
        stop = _bound(nodes[axis], "upper", part.stop)
    start = _bound(nodes[axis], "lower", 0 if part.start is None else part.start)
    bounds = stop if start == "0" else f"{start}, {stop}"
    row = _key(parts, nodes, {axis: "row:row + 1"})
    sizes = [1 if a == axis else e for a, e in enumerate(extents)]
    return f"for row in pypto.loop({bounds}): {name}[{row}] = {_full(sizes, number, target)}"


def _full(extents: Sequence[Any], number: str, target: Tensor) -> str:
    sizes = ", ".join(str(e) for e in extents if e is not None)
    return f"pypto.full([{sizes}], {number}, pypto.{target.dtype.name})"


def cast_source(source: DataType, target: DataType) -> str:
    """The user's write with a value of the destination's type."""
    template = f"pypto.cast({{}}, pypto.{target.name})"
    if source is DataType.DT_BOOL:
        template = "pypto.where({}, 1.0, 0.0)"
    node = written.expression()
    outer = None if node is None else written.around(node)
    if isinstance(node, ast.Subscript) and isinstance(outer, ast.Assign):
        return f"{written.text(node)} = {template.format(written.text(outer.value))}"
    mended = None
    if isinstance(node, ast.Call) and not any(isinstance(a, ast.List) for a in node.args[:1]):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        place = (1, "input") if written.is_method(node) and name != "move" else (0, "src")
        mended = written.with_argument(name, *place, template)
    return mended or f"cast it first: `{template.format('t')}`"


# --- slices with a step --------------------------------------------------------------------------


def step_read(t: Tensor, parts: Sequence[Any], axis: int) -> str:
    """A read of every so many elements: rows of a reshape, else pieces put together."""
    name, nodes = _tensor(), _key_nodes(len(parts))
    loop = "copy what is wanted in a `pypto.loop`, one slice of extent 1 a trip"
    part, size = parts[axis], t.shape[axis]
    if any(isinstance(p, slice) and p.step is not None for p in parts[axis + 1 :]):
        return loop
    start = 0 if part.start is None else part.start
    stop = size if part.stop is None else part.stop
    plain = not any(isinstance(x, int) and x < 0 for x in (start, stop, part.step))
    if plain and isinstance(part.step, int):
        extent = stop - start
        extent = extent if isinstance(extent, int) else extent.expr
        if isinstance(extent, Expr) and extent.is_const:
            extent = extent.const
        others = _extents(t, parts)
        if isinstance(extent, int) and extent > 0 and None not in others:
            count = -(-extent // part.step)
            whole = count * part.step
            # Where the last group would hang over, it starts earlier.
            back = 0
            if isinstance(start, int) and isinstance(size, int) and start + whole > size:
                back = start + whole - size
                start -= back
            if back < part.step and (whole == extent or isinstance(size, int) and _natural(start)):
                first = _bound(nodes[axis], "lower", start)
                row = _key(parts, nodes, {axis: _slice(first, whole)})
                shape = [e for a, e in enumerate(others) if a != axis and e != 0]
                at = sum(e != 0 for e in others[:axis])
                split = [*shape[:at], count, part.step, *shape[at:]]
                picked = ", ".join([*":" * at, ":", str(back), *":" * (len(shape) - at)])
                return f"{name}[{row}].reshape({split})[{picked}]"
    numbers = all(x is None or isinstance(x, int) for x in (part.start, part.stop, part.step, size))
    if numbers:
        steps = range(*part.indices(size))
        if 0 < len(steps) <= _MOST_PIECES:
            row = _key(parts, nodes, {axis: "k:k + 1"})
            before = sum(isinstance(p, slice) for p in parts[:axis])
            return f"pypto.concat([{name}[{row}] for k in {steps}], {before})"
    return loop


def _natural(start: Any) -> bool:
    return isinstance(start, int) and start >= 0


def _extents(t: Tensor, parts: Sequence[Any]) -> list[int | None]:
    """The extents that slices take, 0 for an index, None for what is known only at run time."""
    out: list[int | None] = []
    for part, size in zip(parts, t.shape, strict=True):
        if not isinstance(part, slice):
            out.append(0)
            continue
        ends = [0 if part.start is None else part.start, size if part.stop is None else part.stop]
        if isinstance(size, int):
            ends = [e + size if isinstance(e, int) and e < 0 else e for e in ends]
        extent = sym.simple(sym.sub(*[e if isinstance(e, int) else e.expr for e in ends][::-1]))
        out.append(extent if isinstance(extent, int) else None)
    return out


def step_write(t: Tensor, parts: Sequence[Any], axis: int) -> str:
    """A write to every so many elements, as a loop."""
    node, name, nodes = _subscript(), _tensor(), _key_nodes(len(parts))
    part, size = parts[axis], t.shape[axis]
    outer = None if node is None else written.around(node)
    numbers = all(x is None or isinstance(x, int) for x in (part.start, part.stop, part.step, size))
    slices = all(isinstance(p, slice) for p in parts)
    if not (numbers and slices and isinstance(outer, ast.Assign)):
        return "write the rows one by one in a `pypto.loop`"
    steps = range(*part.indices(size))
    place = f"{steps.step} * k" if steps.start == 0 else f"{steps.start} + {steps.step} * k"
    row = _key(parts, nodes, {axis: f"{place}:{place} + 1"})
    piece = ", ".join([*":" * axis, "k:k + 1"])
    value = f"{written.part(outer.value)}[{piece}]"
    return f"for k in pypto.loop({len(steps)}): {name}[{row}] = {value}"


# --- extents that are not known ------------------------------------------------------------------

_OVERHANG = "what hangs over the end of its source is cut by itself"


def fixed_slice(type: TensorType, parts: Sequence[Any], axis: int, start: SymInt) -> str:
    """A slice whose extent is known only at run time, with a fixed one."""
    nodes, tile = _key_nodes(len(parts)), _tile_of(start)
    first = _bound(nodes[axis], "lower", start)
    key = _key(parts, nodes, {axis: _slice(first, tile)})
    if parts[axis].stop is None or as_int(parts[axis].stop) == type.shape[axis]:
        return f"{_tensor()}[{key}]"
    return (
        f"slice a fixed extent, `{_tensor()}[{key}]`: {_OVERHANG}; if less is wanted, "
        "give `pypto.view` a `valid_shape` that is at most the fixed extent"
    )


def as_int(x: Any) -> SymInt:
    return x if isinstance(x, int) else sym.simple(x.expr)


def fixed_view(type: TensorType, shape: Shape, starts: Shape) -> str:
    """A view whose shape holds integers known only at run time, with a fixed shape."""
    node = written.call()
    given = None if node is None else written.given(node, 1, "shape")
    entries = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [None] * len(shape)
    extents, valid, cuts = [], [], False
    for axis, size in enumerate(shape):
        entry = entries[axis]
        asked = str(size) if entry is None else written.text(entry)
        if isinstance(size, int):
            extents.append(size)
            valid.append(asked)
            continue
        rest = sym.sub(type.valid[axis], starts[axis])
        most = size.bounds()[1]
        if sym.sub(size, rest) == sym.const(0):
            extents.append(_tile_of(starts[axis]))
            valid.append(str(extents[-1]))
        elif most >= sym.INF:
            return f"give a fixed shape, in a `pypto.loop` over tiles of it: {_OVERHANG}"
        else:
            extents.append(most)
            cuts = cuts or sym.sub(size, sym.minimum(rest, most)) != sym.const(0)
            valid.append(asked)
    offsets = written.argument(2, "offsets", "[…]")
    cut = f", valid_shape=[{', '.join(valid)}]" if cuts else ""
    return f"pypto.view({written.argument(0, 'input')}, {extents}, {offsets}{cut})"


def _tile_of(start: SymInt) -> int:
    """The extent of tiles that start at such places: 16 for `i * 16`."""
    if isinstance(start, int):
        return _TILE
    step = math.gcd(*start.terms.values(), start.const)
    return step if step > 1 else _TILE
