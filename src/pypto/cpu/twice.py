"""Reductions that look at their elements twice: variances, and places of extremes.

In: a node of the family REDUCE.  Out: two folds, the second of which knows what the first one
found.  Variances are computed in FP64.  Of equal extremes the first one counts, and of all elements
the first NaN.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import Emission
from pypto.cpu.folds import Fold, Rows, Total, each, fold_rows, rows_of
from pypto.cpu.lanes import FP32, FP64, INT32, INT64, MEMORY, Lane, Lanes
from pypto.cpu.nest import Cursor, walk
from pypto.ir.graph import Node

# --- variance ------------------------------------------------------------------------------------


def _variance(e: Emission, node: Node) -> None:
    rows, correction = rows_of(e, node), node.attrs["correction"]
    target = rows.tensors[1].mem.dtype

    def add(lanes: Lanes, a: Lane, b: Lane) -> Lane:
        return lanes.add(a, b)

    def wide(lanes: Lanes, x: Lane) -> Lane:
        return lanes.convert(x, FP64)

    def body(at: Cursor) -> None:
        lanes, code, count = at.lanes, at.lanes.code, at.numbers[0]
        total = fold_rows(e, at, Fold(FP64, 0.0, wide, add), rows.along)
        mean = lanes.div(total, _number(e, lanes, count))

        def squared(lanes: Lanes, x: Lane) -> Lane:
            # Along a row all lanes have one mean, beside it each has its own.
            spread = lanes.sub(wide(lanes, x), lanes.spread(mean) if rows.along else mean)
            return lanes.mul(spread, spread)

        squares = fold_rows(e, at, Fold(FP64, 0.0, squared, add), rows.along)
        divisor = _number(e, lanes, code.most(i64(0), code.sub(count, i64(correction))))
        # FP16 and BF16 are rounded from FP32, as the interpreter does.
        at.store(1, lanes.convert(lanes.convert(lanes.div(squares, divisor), FP32), target))

    _walk(e, ("var", correction), rows, body)


def _number(e: Emission, lanes: Lanes, n: Reg) -> Lane:
    """An integer as FP64 in every lane."""
    return lanes.spread(e.builder(lanes.code, 1).convert(Lane(n, INT64), FP64))


def _walk(e: Emission, key: object, rows: Rows, body: Callable[[Cursor], None]) -> None:
    walk(
        e, (key, rows.along), rows.extents, rows.tensors, body,
        written=[1], numbers=rows.numbers, single=rows.along, weight=4,
    )  # fmt: skip


# --- places of extremes --------------------------------------------------------------------------


def _place(e: Emission, node: Node) -> None:
    rows, largest = rows_of(e, node), node.op.name == "argmax"
    body = _place_along if rows.along else _place_beside
    _walk(e, node.op.name, rows, lambda at: body(e, at, largest))


def _place_along(e: Emission, at: Cursor, largest: bool) -> None:
    """The extreme of a row first, then the first place where it stands."""
    code, count = at.lanes.code, at.numbers[0]

    def two(lanes: Lanes, a: Lane, b: Lane) -> Lane:
        return lanes.maximum(a, b) if largest else lanes.minimum(a, b)

    fold = Fold(FP32, _worst(largest), lambda lanes, x: lanes.widen(x), two)
    extreme = fold_rows(e, at, fold, True)

    def found(lanes: Lanes, index: Reg) -> Reg:
        place = code.at(MEMORY[at.dtypes[0]], at.places[0], index)
        x, wanted = lanes.widen(lanes.load(place, at.dtypes[0])), lanes.spread(extreme)
        both = lanes.bit_and(lanes.is_nan(x), lanes.is_nan(wanted))
        return lanes.any(lanes.bit_or(lanes.compare("eq", x, wanted), both))

    wide = e.builder(code, e.target.lanes)
    whole = code.let("i64", f"and i64 {count}, {-wide.width}")
    near = code.scan(i64(0), whole, wide.width, lambda index: found(wide, index))
    # Where there is no element, this is 0.
    first = code.scan(near, count, 1, lambda index: found(at.lanes, index))
    at.store(1, at.lanes.convert(Lane(first, INT64), INT32))


def _place_beside(e: Emission, at: Cursor, largest: bool) -> None:
    """Each lane keeps the best element of its row so far, and where that stood."""
    lanes, single = at.lanes, e.builder(at.lanes.code, 1)
    best = Total(lanes, lanes.const(FP32, _worst(largest)))
    place = Total(lanes, lanes.const(INT32, 0))
    with each(at) as (index, element):
        x, old = lanes.widen(element), best.get()
        first_nan = lanes.bit_and(lanes.is_nan(x), lanes.flip(lanes.is_nan(old)))
        better = lanes.bit_or(lanes.compare("gt" if largest else "lt", x, old), first_nan)
        here = lanes.spread(single.convert(Lane(index, INT64), INT32))
        best.set(lanes.select(better, x, old))
        place.set(lanes.select(better, here, place.get()))
    at.store(1, place.get())


def _worst(largest: bool) -> float:
    """What any element is at least as good as."""
    return float("-inf") if largest else float("inf")


TWICE: dict[str, Callable[[Emission, Node], None]] = {
    "var": _variance,
    "argmax": _place,
    "argmin": _place,
}
