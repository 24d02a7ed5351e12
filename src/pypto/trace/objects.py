"""Python objects are compile-time things.

A region that changes one (a list, a dict, an object's attribute) would be read differently by a
later trip, the other arm or the code after it, though the body is traced only once.  A snapshot
of everything reachable at the start tells at the end whether that happened.
"""

from __future__ import annotations

import collections
import collections.abc
import enum
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from pypto.ir.build import Conflict
from pypto.ir.dtype import DataType, Element
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar

LIMIT = 4000
# Arrays larger than this are not compared; kernels keep small tables, not data, in Python.
ARRAY_BYTES = 1 << 20
_OPAQUE = (
    Conflict,
    Tensor,
    SymbolicScalar,
    Element,
    DataType,
    enum.Enum,
    np.generic,
    np.dtype,
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
_LIBRARIES = frozenset({"numpy", "torch", "jax", "ml_dtypes", "pypto", "pytest", "_pytest"})


def _content(item: Any) -> Any:
    """What a reader of an object sees of it, or None for what cannot change."""
    if isinstance(item, _OPAQUE):
        return None
    if isinstance(item, (list, tuple, collections.deque)):
        return list(item)
    if isinstance(item, dict):
        return dict(item)
    if isinstance(item, (set, frozenset)):
        return set(item)
    if isinstance(item, np.ndarray):
        return [item.tobytes()] if item.nbytes <= ARRAY_BYTES else None
    if hasattr(item, "data_ptr"):
        return [getattr(item, "_version", 0)]
    if isinstance(item, FunctionType):
        return {**vars(item), "defaults": item.__defaults__, "keywords": item.__kwdefaults__}
    if isinstance(item, MethodType):
        return {"self": item.__self__}
    if isinstance(item, type):
        return class_parts(item)
    if isinstance(item, GeneratorType):
        return [item.gi_frame.f_lasti if item.gi_frame is not None else -1]
    if isinstance(item, collections.abc.Iterator):
        return [_progress(item)]
    return parts_of(item)


def class_parts(item: type) -> dict[str, Any] | None:
    """The attributes of a user's class; None for the classes of Python and of libraries."""
    root = (item.__module__ or "").split(".")[0]
    if root in sys.stdlib_module_names or root in _LIBRARIES:
        return None
    return {k: v for k, v in vars(item).items() if not k.startswith("__")}


def parts_of(item: Any) -> dict[str, Any]:
    """The attributes of an object, in its dict and its slots."""
    parts = dict(getattr(item, "__dict__", {}))
    for kind in type(item).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                parts[name] = getattr(item, name)
    return parts


def _progress(item: Any) -> str:
    """How far an iterator has come."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(item.__reduce__())
    except (TypeError, AttributeError):
        return ""


def _reached(item: Any, content: Any) -> list[Any]:
    """Objects that can be reached from an object."""
    found = list(content.values()) if isinstance(content, dict) else list(content)
    if isinstance(item, FunctionType):
        found += [c.cell_contents for _, c in cells_of(item)]
    elif not isinstance(item, type) and not isinstance(content, list):
        found.append(type(item))
    return found


def cells_of(function: FunctionType) -> list[tuple[str, Any]]:
    """The closure of a function by name, cells that hold nothing left out."""
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
            queue.extend((name, part) for part in _reached(item, content))

    def holds(self, item: Any) -> bool:
        """Whether a container or an object holds something."""
        return any(
            part is item
            for owner, content in self.contents.values()
            for part in _reached(owner, content)
        )

    def changed(self, told: dict[int, Any]) -> Iterator[tuple[str, Any, list[Any]]]:
        """What has changed since: a name that leads to the object, the object, and what is new in
        it.  `told` holds the contents of objects that an earlier search has found changed.
        """
        for key, (item, before) in self.contents.items():
            now = _content(item)
            if _same(before, now) or (key in told and _same(told[key], now)):
                continue
            told[key] = now
            old = {id(part) for part in _reached(item, before)}
            yield self.roots[key], item, [p for p in _reached(item, now) if id(p) not in old]


def _same(before: Any, after: Any) -> bool:
    if after is None or type(before) is not type(after) or len(before) != len(after):
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
    # The user's own `__eq__` may raise anything; what cannot be compared counts as changed.
    except Exception:
        return False
