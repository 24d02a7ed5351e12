"""Where the first NaN or infinity comes from.

In: the nodes of a graph.  Out: an error at the first op that makes a NaN or an infinity out of
finite elements, with the elements that it made it of.  What comes in with the arguments or as a
number in the text (a mask of -inf) is meant, and so is what follows from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pypto.errors import PyptoError, error
from pypto.interp.accesses import StandIn, computes, met
from pypto.interp.integers import Frame
from pypto.interp.plan import Plan, Step
from pypto.ir.faults import Names
from pypto.ir.graph import Node, Value
from pypto.ir.op import Family, Slot
from pypto.ir.operands import slots

_WATCHED = frozenset({Family.MAP, Family.REDUCE, Family.SCAN, Family.CONTRACT})
# How many elements of a row are shown.
_SHOWN = 4


def finite(array: Any) -> Any:
    """Where elements are numbers; integers and truth values always are."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return np.ones(array.shape, bool)
    return np.isfinite(array if array.dtype.kind == "f" else array.astype(np.float32))


class Births:
    """The checks of the nodes of one graph."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self._plan = plan
        self._names = names

    def watched(self, node: Node, step: Step) -> Step:
        """The step of a node, checked for what it makes."""
        if node.op.name == "atomic_add" or (node.op.writes is not None and computes(node)):
            return self._added(node, step)
        if node.op.family not in _WATCHED or node.op.writes is not None or _says_infinity(node):
            return step
        results = [v for v in node.results if v.tensor.dtype.is_float]
        checks = [self._made(node, result) for result in results]
        if not checks:
            return step

        def run(f: Frame) -> None:
            step(f)
            for check in checks:
                check(f)

        return run

    def _made(self, node: Node, result: Value) -> Step:
        get = self._plan.valid_array(result)
        rule: Callable[[Node], Callable[[Frame, np.ndarray], Any]]
        rule = {Family.MAP: self._by_element, Family.CONTRACT: self._by_product}.get(
            node.op.family, self._by_row
        )
        told = rule(node)

        def check(f: Frame) -> None:
            made = get(f)
            odd = ~finite(made)
            if odd.any():
                found = told(f, odd)
                if found is not None:
                    at, inputs = found
                    raise self._finding(node, result, at, made[at], inputs)

        return check

    def _finding(
        self, node: Node, value: Value, at: tuple[int, ...], made: Any, inputs: str
    ) -> PyptoError:
        what = "NaN" if np.isnan(np.float64(made)) else "an infinity"
        label = self._names.of(value)
        place = f"element {list(at)}" + (f" of {label}" if label.startswith("`") else "")
        return error(
            FloatingPointError,
            f"{node.op.name} makes {what} at {place} out of {inputs}",
            code="FB200F",
            fix="keep the operands where the result is a number: clip, a larger epsilon, a wider "
            "type",
        )

    # -- one op ---------------------------------------------------------------------------------

    def _by_element(self, node: Node) -> Callable[[Frame, np.ndarray], Any]:
        """Element by element: those that meet in the element of the result."""
        parts: list[Callable[[Frame], Any]] = []
        for arg in node.op.args:
            item = node.attrs[arg.name]
            if isinstance(item, Slot):
                parts.append(self._cut(node.operands[item.index], node.result))
            elif arg.kind in ("operand", "element") and isinstance(item, (int, float, np.generic)):
                parts.append(_always(item))

        def told(f: Frame, odd: np.ndarray) -> Any:
            arrays = [np.broadcast_to(part(f), odd.shape) for part in parts]
            for array in arrays:
                odd = odd & finite(array)
            if not odd.any():
                return None
            at = _first(odd)
            return at, " and ".join(_number(array[at]) for array in arrays) or "nothing"

        return told

    def _cut(self, value: Value, result: Value) -> Callable[[Frame], Any]:
        slot, where = self._plan.slot(value), met(self._plan, value, result)
        return lambda f: f[slot][where(f)]

    def _by_row(self, node: Node) -> Callable[[Frame, np.ndarray], Any]:
        """Along an axis: the row of elements that the result is made of."""
        source = node.operands[0]
        get, dim = self._plan.valid_array(source), node.attrs["dim"]
        drop = node.result.tensor.rank < source.tensor.rank
        scan = node.op.family is Family.SCAN

        def told(f: Frame, odd: np.ndarray) -> Any:
            array = get(f)
            good = finite(array)
            rows = np.logical_and.accumulate(good, dim) if scan else good.all(dim, keepdims=True)
            odd = odd & (rows.squeeze(dim) if drop else rows)
            if not odd.any():
                return None
            at = _first(odd)
            place: list[Any] = list(at)
            if drop:
                place.insert(dim, slice(None))
            else:
                place[dim] = slice(at[dim] + 1) if scan else slice(None)
            return at, _row(array[tuple(place)])

        return told

    def _by_product(self, node: Node) -> Callable[[Frame, np.ndarray], Any]:
        """Products: what remains without the elements that were no numbers before."""
        stand = StandIn(self._plan, node)
        gets = {i: self._plan.valid_array(node.operands[i]) for i in stand.operands}
        places = [i for name in node.op.index_args for i in slots(node.attrs[name])]
        others = [self._plan.valid_array(node.operands[i]) for i in places]
        dtype = node.result.tensor.dtype.numpy

        def told(f: Frame, odd: np.ndarray) -> Any:
            arrays = {i: get(f) for i, get in gets.items()}
            if not all(finite(get(f)).all() for get in others):
                return None
            good = {i: np.where(finite(a), a, a.dtype.type(0)) for i, a in arrays.items()}
            if not all(finite(a).all() for a in arrays.values()):
                odd = odd & ~finite(stand.run(f, good, dtype))
            if not odd.any():
                return None
            sizes = [_number(np.abs(a.astype(np.float64)).max()) for a in good.values() if a.size]
            return _first(odd), f"finite elements, in size at most {' and '.join(sizes)}"

        return told

    # -- sums in place ----------------------------------------------------------------------------

    def _added(self, node: Node, step: Step) -> Step:
        """Additions to memory: what was there and what was added."""
        assert node.op.writes is not None
        target = node.operands[node.attrs[node.op.writes].index]
        if not target.tensor.dtype.is_float:
            return step
        get = self._plan.valid_array(target)
        named = [i for i in range(len(node.operands)) if node.operands[i] is not target]
        sources = [self._plan.valid_array(node.operands[i]) for i in named]

        def run(f: Frame) -> None:
            before = get(f).copy()
            given = [source(f).copy() for source in sources]
            step(f)
            after = get(f)
            odd = finite(before) & ~finite(after)
            if odd.any() and all(finite(array).all() for array in given):
                at = _first(odd)
                inputs = f"{_number(before[at])} and what is added to it"
                raise self._finding(node, target, at, after[at], inputs)

        return run


def _always(item: Any) -> Callable[[Frame], Any]:
    return lambda f: item


def _says_infinity(node: Node) -> bool:
    """Whether the text itself names a number that is not finite."""
    items = [node.attrs[arg.name] for arg in node.op.args]
    return any(isinstance(x, (float, np.floating)) and not np.isfinite(x) for x in items)


def _first(found: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(found)[0])


def _number(x: Any) -> str:
    x = np.asarray(x)
    if x.dtype.kind in "iub":
        return str(x.item())
    text = f"{float(x):.7g}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _row(row: np.ndarray) -> str:
    shown = ", ".join(_number(x) for x in row[:_SHOWN])
    return f"[{shown}{f', … {len(row)} elements' if len(row) > _SHOWN else ''}]"
