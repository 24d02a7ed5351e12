"""What a trace has read of the world outside of the kernel.

Globals, closure cells and attributes that the kernel's functions read are part of what the graph
means, so they are compared on each call.  `freeze` gives an object a form that can be compared and
hashed: plain values by value, containers and plain objects by their parts, everything else by
identity.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from pypto.ir.dtype import DataType, Element
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar
from pypto.trace import source
from pypto.trace.convert import RUNTIME
from pypto.trace.objects import ARRAY_BYTES, class_parts, parts_of

MAX_DEPTH = 8
_MISSING = object()


class Identity:
    """Equal to itself alone; keeps the object alive so that its identity stays its own."""

    __slots__ = ("item",)

    def __init__(self, item: Any) -> None:
        self.item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.item is other.item

    def __hash__(self) -> int:
        return id(self.item)


def freeze(item: Any, depth: int = 0) -> Any:
    """A form of an object that compares and hashes as the kernel would see it."""
    if item is None or isinstance(item, (bool, int, str, bytes, DataType, enum.Enum)):
        return (type(item), item)
    if isinstance(item, float):
        # By bits: nan is itself, and 0.0 is not -0.0.
        return (float, item.hex())
    if depth > MAX_DEPTH:
        return Identity(item)
    if isinstance(item, (list, tuple)):
        return (type(item), tuple(freeze(x, depth + 1) for x in item))
    if isinstance(item, dict):
        pairs = tuple((freeze(k, depth + 1), freeze(v, depth + 1)) for k, v in item.items())
        return (dict, pairs)
    if isinstance(item, (set, frozenset)):
        return (type(item), frozenset(freeze(x, depth + 1) for x in item))
    if isinstance(item, (np.generic, range, complex)):
        return (type(item), repr(item))
    if isinstance(item, SymbolicScalar):
        return (SymbolicScalar, item._expr, item._name)
    if isinstance(item, Element):
        return (Element, item.dtype, float(item.value).hex())
    if isinstance(item, MethodType):
        return (MethodType, Identity(item.__func__), freeze(item.__self__, depth + 1))
    if isinstance(item, functools.partial):
        parts = (item.func, item.args, item.keywords)
        return (functools.partial, tuple(freeze(p, depth + 1) for p in parts))
    if isinstance(item, np.ndarray) and item.nbytes <= ARRAY_BYTES:
        return (np.ndarray, str(item.dtype), item.shape, item.tobytes())
    if isinstance(item, (FunctionType, ModuleType, Tensor, np.ndarray)):
        return Identity(item)
    if isinstance(item, type):
        return (Identity(item), _named(class_parts(item) or {}, depth))
    if hasattr(item, "data_ptr"):
        return (Identity(item), getattr(item, "_version", 0))
    found = parts_of(item)
    classes = [freeze(k, depth + 1) for k in type(item).__mro__ if class_parts(k)]
    if not found and not classes:
        return Identity(item)
    return (type(item), _named(found, depth), tuple(classes))


def _named(parts: Mapping[str, Any], depth: int) -> tuple[Any, ...]:
    return tuple((k, freeze(v, depth + 1)) for k, v in parts.items())


Read = tuple[str, Callable[[], Any], Any]


class World:
    """The reads of some functions, as they were."""

    def __init__(self, functions: list[FunctionType]) -> None:
        self.reads: list[Read] = []
        for function in functions:
            for name, get in _reads(function):
                self.reads.append((name, get, freeze(get())))

    def changed(self) -> str | None:
        """The first name that reads differently now."""
        for name, get, frozen in self.reads:
            if freeze(get()) != frozen:
                return name
        return None


def _reads(function: FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells.pop(RUNTIME, None)
    seen: set[str] = set()
    name = function.__name__
    yield f"the defaults of {name}", functools.partial(_defaults, function)
    for name, path in _chains(source.find(code)):
        dotted = ".".join((name, *path))
        if dotted in seen:
            continue
        seen.add(dotted)
        if name in cells:
            yield dotted, functools.partial(_cell, cells[name], path)
        elif name in function.__globals__ and name not in code.co_varnames:
            yield dotted, functools.partial(_global, function.__globals__, name, path)
        elif name not in code.co_varnames and not hasattr(builtins, name):
            # A name that is missing now may appear later.
            yield dotted, functools.partial(_global, function.__globals__, name, path)


def _defaults(function: FunctionType) -> Any:
    return function.__defaults__, function.__kwdefaults__


def _chains(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every name that is read, with the attributes read from it."""
    for node in ast.walk(tree):
        path: list[str] = []
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id, tuple(path)


def _cell(cell: Any, path: tuple[str, ...]) -> Any:
    try:
        return _follow(cell.cell_contents, path)
    except ValueError:
        return _MISSING


def _global(names: Mapping[str, Any], name: str, path: tuple[str, ...]) -> Any:
    return _follow(names.get(name, _MISSING), path)


def _follow(item: Any, path: tuple[str, ...]) -> Any:
    for attribute in path:
        if isinstance(item, (Tensor, SymbolicScalar)) or item is _MISSING:
            return None
        if isinstance(getattr(type(item), attribute, None), property):
            # A property may compute anything; what it reads belongs to its object.
            return item
        item = getattr(item, attribute, _MISSING)
    return item
