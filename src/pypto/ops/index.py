"""Ops whose places are read from integer tensors.

In: tensors, and tensors of places.  Out: the elements that stand there, or a tensor written there.
A place outside of the valid elements is an IndexError before anything is written: no op reads or
writes past the end, and none clips.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import error
from pypto.ir import sym
from pypto.ir.declare import composite, declare
from pypto.ir.faults import out_of_places, past_input
from pypto.ir.handle import Tensor
from pypto.ir.op import Arg, Attrs, Family, Op, Out, Slot, same_shape, same_valid, stored_as
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape, TensorType
from pypto.ops.accepts import (
    ARITHMETIC,
    BF16,
    BYTES,
    FLOATS,
    FP16,
    FP32,
    INT8,
    INT16,
    INT32,
    LONGS,
    PLACES,
    UINT16,
    UINT32,
    WORDS,
    types,
)

Array = Any  # a NumPy array


def _within(op: str, name: str, places: Array, size: int, used: Array | bool = True) -> None:
    """Refuse places that are not 0..size-1, where they are used."""
    wrong = np.argwhere(used & ((places < 0) | (places >= size)))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise out_of_places(op, name, at, int(places[at]), size)


def _fits(op: str, name: str, extents: Sequence[int], input: Sequence[int], first: int) -> None:
    """Refuse valid extents beyond those of the tensor that is written, from axis `first` on."""
    for axis, (n, size) in enumerate(zip(extents, input, strict=True), first):
        if n > size:
            raise past_input(op, name, n, axis, size)


def _wide(x: Array) -> Array:
    """A copy to accumulate in: FP32 for the narrow floats, whose sum is rounded once."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.copy()


# --- gather --------------------------------------------------------------------------------------


def gather_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """The shape of `index`, which fits into that of the input on every axis but `dim`."""
    t, index = types
    fits = t.rank == index.rank and all(
        n <= size  # type: ignore[operator]
        for axis, (n, size) in enumerate(zip(index.shape, t.shape, strict=True))
        if axis != attrs["dim"]
    )
    if not fits:
        raise error(
            ValueError,
            f"gather(): index {list(index.shape)} does not fit input {list(t.shape)}; ranks are "
            f"equal and no axis but {attrs['dim']} is longer",
            code="FC0000",
            fix="reshape index to the rank of the input",
        )
    return index.shape


def gather_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """The valid extents of `index`, within those of the input on every axis but `dim`."""
    t, index = types
    return tuple(
        n if axis == attrs["dim"] else sym.simple(sym.minimum(n, size))
        for axis, (n, size) in enumerate(zip(index.valid, t.valid, strict=True))
    )


def _gather(x: Array, dim: int, index: Array, out: Out) -> Array:
    index = index[tuple(slice(n) for n in out.valid)]
    _within("gather", "index", index, x.shape[dim])
    box = [slice(n) for n in index.shape]
    box[dim] = slice(None)
    return np.take_along_axis(x[tuple(box)], index.astype(np.int64), dim)


gather = declare(
    Op(
        "gather",
        Family.INDEX,
        "Picks one element per place of `index`, along an axis.",
        (Arg("input"), Arg("dim", "dim"), Arg("index")),
        types(FLOATS, INT16, INT32, UINT16, UINT32),
        shape=gather_shape,
        valid=gather_valid,
        reference=_gather,
        formula="out[i, j] = input[i, index[i, j]] for dim 1",
        ranks=(1, 5),
        index_args=frozenset({"index"}),
        index_accept=PLACES,
        torch="torch.gather(input, dim, index.to(torch.int64))",
    )
)

# --- scatter -------------------------------------------------------------------------------------

_REDUCTIONS: dict[str, np.ufunc] = {"add": np.add, "multiply": np.multiply}


def _check_scatter(name: str) -> Callable[[Sequence[TensorType], Attrs], None]:
    def check(types: Sequence[TensorType], attrs: Attrs) -> None:
        if attrs["reduce"] not in (None, *_REDUCTIONS):
            raise error(
                ValueError,
                f"{name}(): reduce must be None, 'add' or 'multiply', got {attrs['reduce']!r}",
                fix='reduce="add"',
            )
        t, index, src = types[0], types[attrs["index"].index], attrs["src"]
        limits = [t.shape] if not isinstance(src, Slot) else [t.shape, types[src.index].shape]
        for which, limit in enumerate(limits):
            fits = len(limit) == index.rank and all(
                not isinstance(size, int) or n <= size
                for axis, (n, size) in enumerate(zip(index.shape, limit, strict=True))
                if which or axis != attrs["dim"]
            )
            if not fits:
                raise error(
                    ValueError,
                    f"{name}(): index {list(index.shape)} does not fit "
                    f"{'src' if which else 'input'} {[str(n) for n in limit]}",
                    code="FC0000",
                    fix="ranks are equal; index is no longer than src, nor than input outside of "
                    "dim",
                )
        if not isinstance(src, Slot) and isinstance(src, np.generic) and not np.isfinite(src):
            raise error(
                ValueError, f"{name}(): src must be finite, got {src}", fix="give a finite number"
            )

    return check


def _scatter_(x: Array, dim: int, index: Array, src: Any, reduce: str | None) -> None:
    if np.ndim(src):
        box = tuple(slice(min(a, b)) for a, b in zip(index.shape, src.shape, strict=True))
        index, src = index[box], src[box]
    _within("scatter_", "index", index, x.shape[dim])
    # Along `dim` the places decide.
    _fits("scatter_", "index", index.shape[:dim], x.shape[:dim], 0)
    _fits("scatter_", "index", index.shape[dim + 1 :], x.shape[dim + 1 :], dim + 1)
    places = list(np.indices(index.shape, sparse=True))
    # In row-major order, in which the last of equal places wins.
    places[dim] = index.astype(np.int64, order="C")
    if reduce is None:
        x[tuple(places)] = src
        return
    total = _wide(x)
    _REDUCTIONS[reduce].at(total, tuple(places), np.asarray(src).astype(total.dtype))
    x[...] = total.astype(x.dtype)


def _scatter(x: Array, dim: int, index: Array, src: Any, reduce: str | None, out: Out) -> Array:
    result = x.copy()
    _scatter_(result, dim, index, src, reduce)
    return result


def _scatter_record(name: str, sentence: str, **fields: Any) -> Callable[..., Any]:
    return declare(
        Op(
            name,
            Family.INDEX,
            sentence,
            (
                Arg("input"),
                Arg("dim", "dim"),
                Arg("index"),
                Arg("src", "operand"),
                Arg("reduce", "str", None, keyword_only=True),
            ),
            types(FLOATS, BYTES, INT16, INT32),
            shape=same_shape,
            valid=same_valid,
            formula="input[i, index[i, j]] = src[i, j] for dim 1; += or *= with reduce",
            index_args=frozenset({"index"}),
            index_accept=PLACES,
            number=stored_as,
            check=_check_scatter(name),
            **fields,
        )
    )


scatter = _scatter_record(
    "scatter",
    "A copy of the input with elements replaced, added to or multiplied at places.",
    reference=_scatter,
)
_scatter_record(
    "scatter_",
    "Replaces, adds to or multiplies elements at places, in place; returns the input.",
    reference=_scatter_,
    writes="input",
    returns_self=True,
    dynamic=frozenset({"input"}),
)

# --- rows of caches ------------------------------------------------------------------------------


def _check_update(types: Sequence[TensorType], attrs: Attrs) -> None:
    t, index, src = types
    if attrs["dim"] != -2:
        raise error(
            ValueError, f"scatter_update(): dim must be -2, got {attrs['dim']}", fix="dim=-2"
        )
    if t.rank not in (2, 4) or src.rank != t.rank or index.rank != 2:
        raise error(
            ValueError,
            "scatter_update(): input and src are [rows, d] or [blocks, size, 1, d] and index is "
            f"[b, s]; got ranks {t.rank}, {src.rank} and {index.rank}",
            code="FC0000",
            fix="reshape to one of the two forms",
        )
    b, s = index.shape
    wanted = [b * s, t.shape[1]] if t.rank == 2 else [b, s, 1, t.shape[3]]  # type: ignore[operator]
    wrong = any(isinstance(n, int) and n != m for n, m in zip(wanted, src.shape, strict=True))
    if wrong or (t.rank == 4 and t.shape[2] != 1):
        raise error(
            ValueError,
            f"scatter_update(): index {list(index.shape)} and input "
            f"[{', '.join(map(str, t.shape))}] take a src {[str(n) for n in wanted]}, got "
            f"{list(src.shape)}",
            code="FC0000",
            fix=f"reshape src to [{', '.join(str(n) for n in wanted)}]",
        )


def _scatter_update(x: Array, dim: int, index: Array, src: Array, width: int) -> None:
    if x.ndim == 2:
        # Row i * width + j of src belongs to index[i][j]; only where both are valid.
        source = np.add.outer(width * np.arange(index.shape[0]), np.arange(index.shape[1]))
        used = source < src.shape[0]
        _within("scatter_update", "index", index, x.shape[0], used)
        _fits("scatter_update", "src", src.shape[1:], x.shape[1:], 1)
        x[index[used].astype(np.int64), : src.shape[1]] = src[source[used]]
        return
    b, s = (min(m, n) for m, n in zip(index.shape, src.shape[:2], strict=True))
    rows = index[:b, :s].astype(np.int64, order="C")
    size = x.shape[1]
    _within("scatter_update", "index", rows, x.shape[0] * size)
    _fits("scatter_update", "src", src.shape[2:], x.shape[2:], 2)
    x[rows // size, rows % size, : src.shape[2], : src.shape[3]] = src[:b, :s]


# `width` is the extent of the last axis of index, of which a part may be valid.
UPDATE: Callable[..., Tensor] = declare(
    Op(
        "scatter_update",
        Family.INDEX,
        "Replaces rows of a cache, in place; returns the cache.",
        (Arg("input"), Arg("dim", "int"), Arg("index"), Arg("src"), Arg("width", "int")),
        ARITHMETIC,
        shape=same_shape,
        valid=same_valid,
        reference=_scatter_update,
        formula="input[r] = src[i * width + j], or input[r // size][r % size] = src[i][j], where "
        "r = index[i][j]",
        hidden=True,
        writes="input",
        returns_self=True,
        dynamic=frozenset({"input"}),
        index_args=frozenset({"index"}),
        index_accept=types(PLACES, INT16),
        check=_check_update,
    )
)


@composite("scatter_update", method="scatter_update")
def scatter_update(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Replace rows of a cache, in place, and return it.

    Two forms, with an `index` [b, s] of rows: a cache [rows, d] and `src` [b * s, d], or a paged
    cache [blocks, size, 1, d] and `src` [b, s, 1, d], where row r stands in block ``r // size``.
    `dim` is -2.  The cache may have a DYNAMIC dim.  Errors: TypeError FC0001 for element types,
    ValueError FC0000 for shapes, F00002 for another `dim`, IndexError F00008 for rows outside of
    the cache, before anything is written.  Source: the scatter_update function of the language.
    """
    width = index.shape[-1] if isinstance(index, Tensor) else 0
    return UPDATE(input, dim, index, src, width)


def _check_put(types: Sequence[TensorType], attrs: Attrs) -> None:
    t, values = types[0], types[attrs["values"].index]
    places = [types[slot.index] for slot in attrs["indices"]]
    k = len(places)
    if k > t.rank or any(p.rank != 1 for p in places) or t.rank + 1 != k + values.rank:
        raise error(
            ValueError,
            f"index_put_(): rank of input ({t.rank}) + 1 must be the number of index vectors ({k}) "
            f"+ the rank of values ({values.rank}); index vectors have rank 1",
            code="FC0000",
            fix="give values one axis per axis of input behind the indexed ones, and one in front",
        )
    wanted = [places[0].shape[0], *t.shape[k:]]
    lengths = {p.shape[0] for p in places}
    wrong = any(isinstance(n, int) and n != m for n, m in zip(wanted, values.shape, strict=True))
    if len(lengths) > 1 or wrong:
        raise error(
            ValueError,
            f"index_put_(): {k} index vectors of lengths {[p.shape[0] for p in places]} take "
            f"values {[str(n) for n in wanted]}, got {list(values.shape)}; nothing is broadcast",
            code="FC0000",
            fix=f"reshape values to [{', '.join(str(n) for n in wanted)}]",
        )
    if attrs["accumulate"] and t.dtype not in _ACCUMULATED:
        raise error(
            TypeError,
            f"index_put_(): {t.dtype.name} cannot be accumulated; "
            f"{', '.join(sorted(d.name for d in _ACCUMULATED))} can",
            fix="`accumulate=False`, or cast to DT_FP32 first",
        )


_ACCUMULATED = types(FLOATS, INT8, INT16, INT32)


def _index_put(x: Array, indices: list[Array], values: Array, accumulate: bool) -> None:
    count = min(len(values), *(len(i) for i in indices))
    places = []
    for axis, index in enumerate(indices):
        _within("index_put_", f"indices[{axis}]", index[:count], x.shape[axis])
        places.append(index[:count].astype(np.int64))
    k = len(places)
    _fits("index_put_", "values", values.shape[1:], x.shape[k:], 1)
    box = tuple(slice(n) for n in values.shape[1:])
    if not accumulate:
        x[(*places, *box)] = values[:count]
        return
    total = _wide(x)
    np.add.at(total, (*places, *box), values[:count].astype(total.dtype))
    x[...] = total.astype(x.dtype)


declare(
    Op(
        "index_put_",
        Family.INDEX,
        "Replaces, or adds to, elements at places of the leading axes, in place.",
        (
            Arg("input"),
            Arg("indices", "tensors"),
            Arg("values"),
            Arg("accumulate", "bool", False),
        ),
        types(FLOATS, WORDS, LONGS),
        shape=same_shape,
        valid=same_valid,
        reference=_index_put,
        formula="input[indices[0][j], indices[1][j], ..] = values[j]",
        method="",
        writes="input",
        dynamic=frozenset({"input"}),
        index_args=frozenset({"indices"}),
        index_accept=types(WORDS, LONGS),
        check=_check_put,
    )
)

# --- rows of paged tables ------------------------------------------------------------------------


def _physical(op: str, places: Array, table: Array, block: int, size: int) -> Array:
    """Rows of a paged tensor: logical row t is row t % block of the block that the table names."""
    logical, blocks = places.reshape(-1).astype(np.int64), table.reshape(-1).astype(np.int64)
    _within(op, "indices", logical, blocks.size * block)
    rows = blocks[logical // block] * block + logical % block
    _within(op, "block_table row", rows, size)
    return rows


def _check_paged(name: str) -> Callable[[Sequence[TensorType], Attrs], None]:
    def check(types: Sequence[TensorType], attrs: Attrs) -> None:
        source, places, table = types
        if places.shape[0] != 1 or table.shape[0] != 1 or attrs["block_size"] < 1:
            raise error(
                ValueError,
                f"{name}(): indices [1, k], block_table [1, blocks] and a block_size of at least "
                f"1; got {list(places.shape)}, {list(map(str, table.shape))} and "
                f"{attrs['block_size']}",
                code="FC0000",
                fix="reshape indices and block_table to [1, n]",
            )
        if not isinstance(source.shape[1], int):
            raise error(
                ValueError,
                f"{name}(): the columns must be known: {source.brief()}",
                fix="take a view with int extents first",
            )
        if attrs.get("axis", -2) != -2:
            raise error(
                ValueError, f"{name}(): axis must be -2, got {attrs['axis']}", fix="axis=-2"
            )
        size = attrs.get("size", 1)
        if not 1 <= size <= source.shape[1]:
            raise error(
                ValueError,
                f"{name}(): size {size} is not within 1..{source.shape[1]} columns",
                fix=f"`size={source.shape[1]}` takes all columns",
            )

    return check


def rows_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """[places, columns]."""
    return (types[1].shape[1], types[0].shape[1])


def rows_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """[valid places, valid columns]."""
    return (_count(types[1]), types[0].valid[1])


def _count(places: TensorType) -> SymInt:
    """How many places of [1, k] are valid."""
    return sym.simple(sym.mul(*places.valid))


declare(
    Op(
        "experimental.gather_in_ub",
        Family.INDEX,
        "Picks rows of a paged tensor.",
        (
            Arg("param"),
            Arg("indices"),
            Arg("block_table"),
            Arg("block_size", "int"),
            Arg("axis", "int"),
        ),
        types(FP16, FP32),
        shape=rows_shape,
        valid=rows_valid,
        reference=lambda x, places, table, block, axis, out: x[
            _physical("gather_in_ub", places, table, block, x.shape[0])
        ],
        formula="out[k] = param[block_table[t // block_size] * block_size + t % block_size], "
        "t = indices[k]",
        ranks=(2, 2),
        method="",
        dynamic=frozenset({"param", "block_table"}),
        index_args=frozenset({"indices", "block_table"}),
        index_accept=types(INT32),
        check=_check_paged("gather_in_ub"),
    )
)


def tile_shape(types: Sequence[TensorType], attrs: Attrs) -> Shape:
    """[places, size], or [size, places] with `is_trans`."""
    return _turned((types[1].shape[1], attrs["size"]), attrs)


def tile_valid(types: Sequence[TensorType], attrs: Attrs, shape: Shape) -> Shape:
    """The valid places, and the valid ones of the first `size` columns."""
    columns = sym.simple(sym.minimum(types[0].valid[1], attrs["size"]))
    return _turned((_count(types[1]), columns), attrs)


def _turned(extents: Shape, attrs: Attrs) -> Shape:
    return extents[::-1] if attrs["is_trans"] else extents


def _gather_tile(
    x: Array,
    places: Array,
    table: Array,
    block: int,
    size: int,
    is_b_matrix: bool,
    is_trans: bool,
    out: Out,
) -> Array:
    rows = x[_physical("gather_in_l1", places, table, block, x.shape[0]), :size]
    return rows.T if is_trans else rows


declare(
    Op(
        "experimental.gather_in_l1",
        Family.INDEX,
        "Picks the first columns of rows of a paged tensor, as an operand of a matmul.",
        (
            Arg("src"),
            Arg("indices"),
            Arg("block_table"),
            Arg("block_size", "int"),
            Arg("size", "int"),
            Arg("is_b_matrix", "bool"),
            Arg("is_trans", "bool"),
        ),
        types(FP16, BF16, FP32, INT8),
        shape=tile_shape,
        valid=tile_valid,
        reference=_gather_tile,
        formula="out[k] = src[block_table[t // block_size] * block_size + t % block_size][:size], "
        "t = indices[k]",
        ranks=(2, 2),
        method="",
        engine="cube",
        dynamic=frozenset({"src", "block_table"}),
        index_args=frozenset({"indices", "block_table"}),
        index_accept=PLACES,
        check=_check_paged("gather_in_l1"),
    )
)
