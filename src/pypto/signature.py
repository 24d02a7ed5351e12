"""What a kernel declares: which of its parameters are tensors, and of what kind.

In: a Python function.  Out: its `Signature`, tensors first and then compile-time values, or an
error at the parameter that is declared wrongly.  Where a parameter stands is looked up only for an
error.
"""

from __future__ import annotations

import inspect
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto.errors import Loc, PyptoError, error, together
from pypto.ir.handle import Tensor
from pypto.trace import source

_NOT_PLAIN = {
    inspect.CO_COROUTINE: "write `def`, without `async`",
    inspect.CO_ASYNC_GENERATOR: "write `def`, without `async` and `yield`",
    inspect.CO_GENERATOR: "leave `yield` out; results are written into a parameter: out[:] = t",
}


@dataclass(frozen=True, eq=False)
class Signature:
    """The parameters of a kernel: tensors first, then compile-time values."""

    kernel: str
    tensors: tuple[tuple[str, Tensor], ...]
    values: tuple[str, ...]
    defaults: dict[str, Any]

    def call(self, *values: str, method: str = "") -> str:
        """A call as one writes it, with the tensors and what stands for some of the values."""
        called = f"{self.kernel}.{method}" if method else self.kernel
        return f"{called}({', '.join([*(name for name, _ in self.tensors), *values])})"


def check_function(function: Any) -> None:
    """Whether a kernel can be made of an object at all."""
    if not isinstance(function, FunctionType):
        raise error(
            TypeError,
            f"jit decorator can only be used on functions, got {type(function).__name__}",
            fix="decorate a plain function: `@pypto.frontend.jit` above `def kernel(x, out):`",
        )
    for flag, fix in _NOT_PLAIN.items():
        if function.__code__.co_flags & flag:
            raise error(
                TypeError,
                f"kernel `{function.__name__}` must be a plain function, without async or yield",
                fix=fix,
            )


def read_signature(function: FunctionType, around: Mapping[str, Any]) -> Signature:
    """The signature of a kernel; `around` holds the names round its definition."""
    annotations = _annotations(function, around)
    tensors: list[tuple[str, Tensor]] = []
    values: list[str] = []
    defaults: dict[str, Any] = {}
    wrong: list[PyptoError] = []
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        annotation = annotations.get(name)
        if annotation is Tensor:
            annotation = Tensor()
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            wrong.append(_starred(function, name))
        elif not isinstance(annotation, Tensor):
            values.append(name)
            if parameter.default is not parameter.empty:
                defaults[name] = parameter.default
        elif values:
            wrong.append(_out_of_order(function, name, values[0]))
        else:
            tensors.append((name, annotation))
    if wrong:
        raise together(wrong)
    return Signature(function.__name__, tuple(tensors), tuple(values), defaults)


def _starred(function: FunctionType, name: str) -> PyptoError:
    return error(
        SyntaxError,
        f"vararg and kwarg not supported: `{name}` of kernel `{function.__name__}`",
        fix="name each parameter; helpers may take *args and **kwargs",
        loc=_parameter_loc(function, name),
    )


def _out_of_order(function: FunctionType, name: str, value: str) -> PyptoError:
    return error(
        ValueError,
        "Non-tensor parameters must come after all tensor parameters. Found tensor parameter "
        f"'{name}' after non-tensor parameter(s).",
        fix=f"move `{name}` before `{value}`",
        loc=_parameter_loc(function, name),
    )


def _annotations(function: FunctionType, around: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations as objects; strings are evaluated where the function was written, with the names
    around it at that moment.
    """
    cells: dict[str, Any] = dict(around)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    names = ChainMap(cells, function.__globals__)
    found = {}
    wrong: list[PyptoError] = []
    for name, annotation in function.__annotations__.items():
        if name == "return":
            # A kernel returns nothing, whatever it says.
            continue
        # Quoted under `from __future__ import annotations`, one is a string in a string.
        while isinstance(annotation, str):
            try:
                annotation = eval(annotation, dict(names))
            except PyptoError as problem:
                problem.loc = _parameter_loc(function, name, annotation=True)
                wrong.append(problem)
                annotation = None
            except (NameError, AttributeError, SyntaxError, TypeError):
                # A name that only a type checker sees, say.
                annotation = None
        found[name] = annotation
    if wrong:
        raise together(wrong)
    return found


def _parameter_loc(function: FunctionType, name: str, annotation: bool = False) -> Loc:
    """Where a parameter, or only its annotation, stands in the text of a function."""
    code = function.__code__
    try:
        node = source.find(code)
    except PyptoError:
        return Loc(code.co_filename, code.co_firstlineno, function=code.co_name)
    a = node.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    found = next((p for p in named if p.arg == name), None)
    place = found.annotation if annotation and found is not None else found
    return source.loc_of(place or node, code.co_filename, code.co_name)
