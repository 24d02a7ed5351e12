"""The typed face of the package: `src/pypto/__init__.pyi`, written from the records.

`python -m tests.stubs` writes it; a test holds the file that is checked in against `generate()`.
Editors complete from it and mypy checks kernels with it, though most names are made from records
when the package is imported.
"""

import enum
import inspect
import re
import types
from pathlib import Path
from typing import Any

import pypto
from pypto.ir.op import METHODS, OPERATORS, REGISTRY, Op

PATH = Path(pypto.__file__).with_suffix(".pyi")

HEAD = '''"""The typed face of the package; written by `python -m tests.stubs`."""

import builtins
from typing import Any

from pypto import error as error
from pypto import experimental as experimental
from pypto import frontend as frontend
from pypto import operation as operation
from pypto import platform as platform
from pypto import pypto_impl as pypto_impl
from pypto import runtime as runtime
'''

KINDS = {
    "tensor": "Tensor",
    "operand": "Tensor | Element | SymbolicScalar | float",
    "element": "Tensor | Element | float",
    "tensors": "list[Tensor] | tuple[Tensor, ...]",
    "dim": "int",
    "dims": "list[int] | tuple[int, ...]",
    "sizes": "list[Any] | tuple[Any, ...] | None",
    "symint": "int | SymbolicScalar",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "DataType",
}

ATTRIBUTES = {
    "shape": "list[Any]",
    "valid_shape": "list[Any]",
    "dtype": "DataType",
    "dim": "int",
    "format": "TileOpFormat",
    "id": "int",
    "name": "str",
    "status_shape": "list[Any]",
}


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else " = ..."


def _types_of(op: Op) -> dict[str, str]:
    found = {}
    for arg in op.args:
        kind = KINDS.get(arg.kind, arg.type.__name__ if arg.type else "Any")
        found[arg.name] = f"{kind} | None" if arg.default is None and "None" not in kind else kind
    return found


def _annotation(parameter: inspect.Parameter) -> str:
    text = parameter.annotation
    if text is parameter.empty:
        return "Any"
    text = text if isinstance(text, str) else getattr(text, "__name__", "Any")
    plain = ("int", "float", "bool", "str", "Any", "Tensor", "DataType", "SymbolicScalar", "None")
    return text if all(p.strip() in plain for p in text.split("|")) else "Any"


def _signature(function: Any, op: Op | None, skip_first: bool = False) -> str:
    kinds = _types_of(op) if op else {}
    parts: list[str] = []
    starred = False
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters[1:] if skip_first else parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred |= mark == "*"
        kind = kinds.get(parameter.name, _annotation(parameter))
        parts.append(f"{mark}{parameter.name}: {kind}{_default(parameter)}")
    return ", ".join(parts)


def _returns(function: Any, op: Op | None) -> str:
    if op is None:
        text = inspect.signature(function).return_annotation
        return text if text in ("Tensor", "None", "int", "SymbolicScalar") else "Any"
    if op.writes is not None:
        return "Tensor" if op.returns_self else "None"
    return "list[Tensor]" if op.results > 1 else "Tensor"


def _function(name: str, function: Any) -> str:
    op = REGISTRY.get(name)
    op = None if op is not None and op.hidden else op
    return f"def {name}({_signature(function, op)}) -> {_returns(function, op)}: ..."


def _tensor() -> list[str]:
    lines = ["class Tensor:"]
    lines += [f"    {name}: {kind}" for name, kind in ATTRIBUTES.items()]
    made = _signature(pypto.Tensor.__init__, None, skip_first=True)
    lines.append(f"    def __init__(self, {made}) -> None: ...")
    lines.append("    def __class_getitem__(cls, items: Any) -> Tensor: ...")
    lines.append("    def __getitem__(self, key: Any) -> Any: ...")
    lines.append("    def __setitem__(self, key: Any, value: Any) -> None: ...")
    lines.append("    def __pos__(self) -> Tensor: ...")
    for name in sorted(OPERATORS):
        if name in ("__getitem__", "__setitem__"):
            continue
        other = "" if name == "__neg__" else ", other: Any"
        if name in ("__eq__", "__ne__"):
            other = ", other: object"
        ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        lines.append(f"    def {name}(self{other}) -> Tensor: ...{ignore}")
    for name, function in sorted(METHODS.items()):
        op = REGISTRY.get(name)
        op = None if op is not None and op.hidden else op
        arguments = _signature(function, op, skip_first=True)
        joined = f"self, {arguments}" if arguments else "self"
        # Inside the class `float` is the method of that name.
        joined = re.sub(r"\bfloat\b", "builtins.float", joined)
        lines.append(f"    def {name}({joined}) -> {_returns(function, op)}: ...")
    return lines


def generate() -> str:
    """The text of the stub."""
    imports: list[str] = []
    values: list[str] = []
    functions: list[str] = []
    for name in sorted(pypto.__all__):
        item = getattr(pypto, name)
        if isinstance(item, types.ModuleType) or name in ("Tensor", "tensor"):
            continue
        if isinstance(item, enum.Enum):
            values.append(f"{name}: {type(item).__name__}")
        elif isinstance(item, type) and item.__name__ == name:
            imports.append(f"from {item.__module__} import {name} as {name}")
        elif isinstance(item, type):
            values.append(f"{name} = {item.__name__}")
        elif isinstance(item, types.FunctionType):
            functions.append(_function(name, item))
        else:
            values.append(f"{name}: Any")
    parts = [HEAD, *sorted(imports), "", *_tensor(), "", "tensor = Tensor", *values, "", *functions]
    text = "\n".join(parts) + "\n"
    return text


if __name__ == "__main__":
    PATH.write_text(generate())
