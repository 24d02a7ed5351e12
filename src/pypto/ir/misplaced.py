"""Arguments in the wrong order.

In: the kinds of a function's parameters, and what a call gave by position.  Out: the order in which
all of it fits, if the given one does not fit and another does.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.ir.dtype import DataType, Element
from pypto.ir.handle import Tensor
from pypto.ir.op import Op
from pypto.ir.scalar import SymbolicScalar

Fits = Callable[[Any], bool]

# Calls have few arguments; the orders of more are not worth the search.
_MOST = 5


def order(parameters: Sequence[Fits], given: Sequence[Any], is_method: bool) -> list[int] | None:
    """Which argument belongs where; None if the order is right or no other is.

    The tensor that a method belongs to stays where it is.
    """
    count = len(given)
    if not 2 <= count <= min(_MOST, len(parameters)) or _all_fit(parameters, given):
        return None
    for places in itertools.permutations(range(count)):
        if is_method and places[0] != 0:
            break
        if _all_fit(parameters, [given[place] for place in places]):
            return list(places)
    return None


def spread(parameters: Sequence[Fits], given: Sequence[Any]) -> int | None:
    """From which argument on they belong into one list; None where that is not so."""
    pairs = zip(parameters, given, strict=False)
    first = next((i for i, (fits, item) in enumerate(pairs) if not fits(item)), None)
    if first is None:
        return None
    # Several numbers where each could be an argument of its own are something else.
    is_one = len(given) - first == 1 or len(given) > len(parameters)
    if not is_one and not all(map(_is_tensor, given[first:])):
        return None
    return first if _all_fit(parameters, [*given[:first], list(given[first:])]) else None


def _all_fit(parameters: Sequence[Fits], given: Sequence[Any]) -> bool:
    return all(fits(item) for fits, item in zip(parameters, given, strict=False))


def of_record(op: Op) -> list[Fits]:
    """What fits the arguments of a record that may be given by position."""
    return [_of_argument(op, arg.name, arg.kind) for arg in op.args if not arg.keyword_only]


def _of_argument(op: Op, name: str, kind: str) -> Fits:
    accept = op.index_accept if name in op.index_args else op.accept
    fits = _KINDS.get(kind, _anything)

    def check(item: Any) -> bool:
        # Masks and places are told from elements by their types.
        return fits(item) and not (isinstance(item, Tensor) and item.dtype not in accept)

    return check


def of_signature(signature: inspect.Signature, kinds: str = "") -> list[Fits]:
    """The same for a function over ops, from its annotations or from the names of the kinds."""
    if kinds:
        return [_KINDS[kind] for kind in kinds.split()]
    return [
        _ANNOTATIONS.get(str(p.annotation).removesuffix(" | None"), _anything)
        for p in signature.parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


def _anything(item: Any) -> bool:
    return True


def _is_tensor(item: Any) -> bool:
    return isinstance(item, Tensor)


def _is_list(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and not any(map(_is_tensor, item))


def _is_list_of_tensors(item: Any) -> bool:
    return isinstance(item, (list, tuple)) and all(map(_is_tensor, item))


def _is_int(item: Any) -> bool:
    return isinstance(item, (int, np.integer, SymbolicScalar)) and not isinstance(item, bool)


def _is_number(item: Any) -> bool:
    return _is_int(item) or isinstance(item, (float, np.floating, Element))


def _is_operand(item: Any) -> bool:
    return item is None or _is_tensor(item) or _is_number(item)


def _is_dtype(item: Any) -> bool:
    return isinstance(item, DataType)


_KINDS: dict[str, Fits] = {
    "tensor": _is_tensor,
    "tensors": _is_list_of_tensors,
    "operand": _is_operand,
    "element": _is_operand,
    "dim": _is_int,
    "int": _is_int,
    "symint": _is_int,
    "float": _is_number,
    "bool": lambda item: isinstance(item, (bool, int)),
    "dims": _is_list,
    "sizes": _is_list,
    "dtype": _is_dtype,
}
_ANNOTATIONS: dict[str, Fits] = {
    "Tensor": _is_tensor,
    "Sequence[Tensor]": _is_list_of_tensors,
    "Sequence[int]": _is_list,
    "Sequence[Any]": _is_list,
    "DataType": _is_dtype,
    "int": _is_int,
    "float": _is_number,
    "bool": _KINDS["bool"],
}
