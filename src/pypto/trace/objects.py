"""Python objects are compile-time things.

A region that changes one (a list, a dict, an object's attribute) would be read differently by a
later trip, the other arm or the code after it, though the body is traced only once.  A snapshot
of everything reachable at the start tells at the end whether that happened.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pypto.ir.build import Conflict
from pypto.ir.dtype import DataType, Element
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar

LIMIT = 4000
_OPAQUE = (
    Conflict,
    Tensor,
    SymbolicScalar,
    Element,
    DataType,
    enum.Enum,
    np.ndarray,
    np.generic,
    np.dtype,
    type,
    ModuleType,
    BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
    complex,
    range,
    type(None),
)


def _content(item: Any) -> Any:
    """The parts of an object, or None for what cannot change."""
    if isinstance(item, (list, tuple)):
        return list(item)
    if isinstance(item, dict):
        return dict(item)
    if isinstance(item, (set, frozenset)):
        return set(item)
    if isinstance(item, _OPAQUE) or hasattr(item, "data_ptr"):
        return None
    if isinstance(item, FunctionType):
        return {n: c.cell_contents for n, c in _cells(item)}
    if isinstance(item, MethodType):
        return {"self": item.__self__}
    slots = getattr(type(item), "__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    parts = {n: getattr(item, n) for n in names if isinstance(n, str) and hasattr(item, n)}
    parts.update(getattr(item, "__dict__", {}))
    return parts


def _cells(function: FunctionType) -> list[tuple[str, Any]]:
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name.startswith("__pypto"):
            continue
        try:
            cell.cell_contents  # noqa: B018 - empty cells raise
        except ValueError:
            continue
        found.append((name, cell))
    return found


def _parts(content: Any) -> list[Any]:
    return list(content.values()) if isinstance(content, dict) else list(content)


class Snapshot:
    """Everything reachable from some names, as it is now."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.roots: dict[int, str] = {}
        self.contents: dict[int, tuple[Any, Any]] = {}
        queue = [(name, item) for name, item in names.items() if not name.startswith("_pypto")]
        while queue and len(self.contents) < LIMIT:
            name, item = queue.pop()
            if id(item) in self.contents:
                continue
            content = _content(item)
            if content is None:
                continue
            self.contents[id(item)] = (item, content)
            self.roots[id(item)] = name
            queue.extend((name, part) for part in _parts(content))

    def changed(self) -> tuple[str, Any] | None:
        """The name and the object of the first change since, if any."""
        for key, (item, content) in self.contents.items():
            if isinstance(item, (FunctionType, tuple)):
                # A closure sees a rebound name; regions look after names themselves.
                continue
            if not _same(content, _content(item)):
                return self.roots[key], item
        return None


def _same(before: Any, after: Any) -> bool:
    if type(before) is not type(after) or len(before) != len(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(equal(before[k], after[k]) for k in before)
    if isinstance(before, set):
        return before == after
    return all(equal(a, b) for a, b in zip(before, after, strict=True))


def equal(a: Any, b: Any) -> bool:
    """Whether two objects are the same to a reader: identical, or equal plain values."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, (Conflict, Tensor, np.ndarray)):
        return False
    if hasattr(a, "data_ptr"):
        return False
    if isinstance(a, SymbolicScalar):
        return a._expr == b._expr and a._guard is b._guard
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, FunctionType):
        return False
    try:
        return bool(a == b)
    except Exception:
        return False
