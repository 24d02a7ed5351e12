"""From a record to what users call.

`declare` enters a record and derives its public function: a real signature, bound and checked
arguments, one node in the current trace, a handle on its result.  `composite` does the same for
functions that are written over other ops.  Everything an op can be given wrongly is found here,
before a node exists; the error goes to the findings of the trace and a failed value to the user.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from pypto.errors import PyptoError, PyptoWarning, error
from pypto.ir import build, sym
from pypto.ir.dtype import DataType, Element, scalar
from pypto.ir.findings import Failed, attempt, is_failed
from pypto.ir.graph import Value
from pypto.ir.handle import Tensor, handle
from pypto.ir.op import (
    FUNCTIONS,
    METHODS,
    OPERATORS,
    REQUIRED,
    Arg,
    Op,
    Slot,
    least_valid,
    nearest,
    register,
)
from pypto.ir.scalar import SymbolicScalar, as_sym_int, is_sym_int
from pypto.ir.sym import SymInt
from pypto.ir.types import TensorType, full

F = TypeVar("F", bound=Callable[..., Any])


def declare(op: Op) -> Callable[..., Any]:
    """Register a record; its public function is the result."""
    register(op)
    signature = _signature(op)

    def function(*args: Any, **kwargs: Any) -> Any:
        return attempt(
            lambda: apply(op, bind(op.name, signature, args, kwargs, op.misuse)),
            (args, kwargs),
            lambda: _instead(op, signature, args, kwargs),
        )

    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = op.name.rpartition(".")[2]
    function.__module__ = "pypto"
    function.__doc__ = _manual(op)
    if not op.hidden:
        _publish(function, op.name, op.aliases, op.method, op.operator)
    return function


def composite(
    name: str = "",
    *,
    method: str | None = None,
    operator: tuple[str, ...] = (),
    guess: Callable[..., TensorType | None] | None = None,
) -> Callable[[F], F]:
    """Publish a function over ops under its own name, as a tensor method and as operators.

    `guess`, given the arguments of a call that failed, is the type that its result was meant to
    have.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        public = name or function.__name__
        positional = _positional(signature)
        returns = str(signature.return_annotation)

        def run(*args: Any, **kwargs: Any) -> Any:
            if not positional:
                return function(**bind(public, signature, args, kwargs))
            for item in (*args, *kwargs.values()):
                build.settle(item)
            return function(*args, **kwargs)

        def instead(*args: Any, **kwargs: Any) -> Failed | None:
            return None if returns == "None" else Failed(_guessed(guess, *args, **kwargs))

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            return attempt(
                lambda: run(*args, **kwargs), (args, kwargs), lambda: instead(*args, **kwargs)
            )

        checked.__module__ = "pypto"
        _publish(checked, public, (), method, operator)
        return checked  # type: ignore[return-value]

    return decorate


def _guessed(
    guess: Callable[..., TensorType | None] | None, *args: Any, **kwargs: Any
) -> TensorType | None:
    """A guess from arguments that are wrong somehow, which the guess itself may stumble over."""
    try:
        return None if guess is None else guess(*args, **kwargs)
    except Exception:
        return None


def _instead(
    op: Op, signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """What a call that failed gives: as many values as it should have, of the type that the record
    gives for what is right about the arguments.
    """
    if op.writes is not None:
        return Failed() if op.returns_self else None
    if op.results > 1:
        return [Failed() for _ in range(op.results)]

    def guess() -> TensorType:
        given = signature.bind_partial(*args, **kwargs).arguments
        operands = [p for a in op.args for p in _parts(given.get(a.name)) if _is_operand(op, a)]
        types = [_type_of(part) for part in operands if hasattr(part, "__pypto_tensor__")]
        attrs: dict[str, Any] = {}
        for arg in op.args:
            item = given.get(arg.name, arg.default)
            convert = None if hasattr(item, "__pypto_tensor__") else _KINDS.get(arg.kind)
            attrs[arg.name] = convert(op, arg, item, operands[0]) if convert else item
        shape = op.shape(types, attrs)
        return full(op.result(types, attrs) if op.result else types[0].dtype, shape)

    return Failed(_guessed(guess))


def _parts(item: Any) -> list[Any]:
    return list(item) if isinstance(item, (list, tuple)) else [item]


def _is_operand(op: Op, arg: Arg) -> bool:
    return arg.kind in ("tensor", "tensors", "operand", "element") and arg.name not in op.index_args


def _type_of(t: Any) -> TensorType:
    type: TensorType = t.guess if is_failed(t) else t.value().tensor
    return type


def _positional(signature: inspect.Signature) -> bool:
    return any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())


def _publish(
    function: Callable[..., Any],
    name: str,
    aliases: Sequence[str],
    method: str | None,
    operator: Sequence[str],
) -> None:
    # A leading underscore marks what is a method or an operator only.
    for public in (name, *aliases):
        if not public.startswith("_"):
            FUNCTIONS[public] = function
    if method != "":
        METHODS[method or name] = function
    for special in operator:
        OPERATORS[special] = function


def _signature(op: Op) -> inspect.Signature:
    parameters = []
    for arg in op.args:
        positional, named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        kind = named if arg.keyword_only else positional
        default = inspect.Parameter.empty if arg.default is REQUIRED else arg.default
        parameters.append(inspect.Parameter(arg.name, kind, default=default))
    return inspect.Signature(parameters)


def _manual(op: Op) -> str:
    lines = [op.sentence, ""]
    if op.formula:
        lines += [f"    {op.formula}", ""]
    names = sorted(d.name for d in op.accept)
    lines.append(f"Element types: {', '.join(names)}.  Ranks {op.ranks[0]} to {op.ranks[1]}.")
    if op.index_args:
        places = ", ".join(sorted(d.name for d in op.index_accept))
        lines.append(f"Places ({', '.join(sorted(op.index_args))}): {places}.")
    lines.append(f"Shape: {_rule(op.shape)}  Valid extents: {_rule(op.valid)}")
    lines.append("Errors: TypeError F00001 for element types and arguments, ValueError F0000B for")
    lines.append("shapes, ValueError F0000A for tensors with a DYNAMIC dim.")
    lines.append("Source: the op catalogue of the language.")
    if op.example:
        lines += ["", op.example]
    return "\n".join(lines)


def _rule(rule: Callable[..., Any]) -> str:
    text = inspect.getdoc(rule) or ""
    return text.split("\n")[0]


def bind(
    name: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    misuse: str = "",
) -> dict[str, Any]:
    """Arguments by name with defaults filled in; misspelt keywords get the nearest known one."""
    for item in (*args, *kwargs.values()):
        build.settle(item)
    for keyword in kwargs:
        if keyword not in signature.parameters:
            close = _ELSEWHERE.get(keyword)
            if close not in signature.parameters:
                close = nearest(keyword, list(signature.parameters))
            raise error(
                TypeError,
                f"{name}() got an unexpected keyword argument '{keyword}'"
                + (f"; did you mean `{close}`?" if close else f": there is no `{keyword}`"),
                fix=_call(name, signature),
                value=keyword,
                limit=list(signature.parameters),
            )
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as cause:
        raise error(TypeError, f"{name}() {cause}", fix=misuse or _call(name, signature)) from None
    bound.apply_defaults()
    return dict(bound.arguments)


# Keywords of other array libraries.
_ELSEWHERE = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "x": "input", "a": "input"}


def _call(name: str, signature: inspect.Signature) -> str:
    """A call with all arguments, as one writes it."""
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return f"pypto.{name}{inspect.Signature(bare)}"


# --- one call ------------------------------------------------------------------------------------


def apply(op: Op, given: dict[str, Any]) -> Any:
    """Check the arguments of one call, append its node, and hand out its result."""
    build.current(f"pypto.{op.name}")
    governing = _governing(op, given)
    operands: list[Value] = []
    attrs: dict[str, Any] = {}
    elements: list[tuple[str, TensorType]] = []
    for arg in op.args:
        attrs[arg.name] = _argument(op, arg, given[arg.name], governing, operands, elements)
    _check_operands(op, elements)
    types = [v.tensor for v in operands]
    if op.check is not None:
        op.check(types, attrs)
    if op.warns is not None and (text := op.warns(types, attrs)) is not None:
        build.warning(PyptoWarning, text)
    if op.identity is not None and op.identity(types, attrs):
        return governing
    try:
        shape = op.shape(types, attrs)
    except PyptoError as problem:
        if not problem.text.startswith(op.name):
            problem.text = f"{op.name}(): {problem.text}"
        raise
    valid = op.valid(types, attrs, shape)
    dtype: Any = op.result(types, attrs) if op.result else types[0].dtype
    trace = build.current()
    if op.writes is not None:
        target: Tensor = given[op.writes]
        value = target.destination()
        operands[attrs[op.writes].index] = value
        node = trace.emit(op, tuple(operands), attrs, (value.tensor,), (value.storage,))
        target.replace(node.result)
        return target if op.returns_self else None
    if op.results > 1:
        many = tuple(map(TensorType, dtype, shape, valid))
        return [handle(r) for r in trace.emit(op, tuple(operands), attrs, many).results]
    _note_left_valid(op, types, shape, valid)
    node = trace.emit(op, tuple(operands), attrs, (TensorType(dtype, shape, valid),))
    return handle(node.result)


def _note_left_valid(op: Op, types: list[TensorType], shape: Any, valid: Any) -> None:
    """Other front ends let the left operand decide what is valid."""
    if op.valid is not least_valid or len(types) < 2 or types[0].shape != shape:
        return
    for axis, (own, common) in enumerate(zip(types[0].valid, valid, strict=True)):
        if sym.sub(own, common).bounds()[0] > 0:
            build.note(
                f"{op.name}(): axis {axis} has {common} valid elements, the least of its operands; "
                f"other front ends keep the {own} of the left one"
            )


def _governing(op: Op, given: dict[str, Any]) -> Tensor | None:
    """The tensor whose rank and element type the other arguments follow."""
    for arg in op.args:
        item = given[arg.name]
        if arg.kind == "tensors" and isinstance(item, (list, tuple)) and item:
            item = item[0]
        if isinstance(item, Tensor) and arg.name not in op.index_args:
            return item
    return None


def _argument(
    op: Op,
    arg: Arg,
    item: Any,
    governing: Tensor | None,
    operands: list[Value],
    elements: list[tuple[str, TensorType]],
) -> Any:
    if isinstance(item, Tensor) and arg.kind in ("tensor", "operand", "element", "any"):
        value = item.value()
        operands.append(value)
        if arg.name not in op.index_args:
            elements.append((arg.name, value.tensor))
        else:
            _check_places(op, arg.name, value.tensor)
        return Slot(len(operands) - 1)
    if item is None and arg.default is None:
        return None
    convert = _KINDS.get(arg.kind)
    if convert is not None:
        return convert(op, arg, item, governing)
    if arg.kind == "tensors":
        if not isinstance(item, (list, tuple)) or not item:
            raise _kind_error(op, arg, item, "a list of tensors")
        slots = []
        for part in item:
            if not isinstance(part, Tensor):
                raise _kind_error(op, arg, part, "a list of tensors")
            value = part.value()
            operands.append(value)
            if arg.name not in op.index_args:
                elements.append((arg.name, value.tensor))
            else:
                _check_places(op, arg.name, value.tensor)
            slots.append(Slot(len(operands) - 1))
        return tuple(slots)
    raise _kind_error(op, arg, item, "a tensor")


def _kind_error(op: Op, arg: Arg, item: Any, wanted: str, fix: str | None = None) -> PyptoError:
    return error(
        TypeError,
        f"{op.name}(): {arg.name} must be {wanted}, got {type(item).__name__}"
        + (f" ({item!r})" if isinstance(item, (int, float, str, DataType)) else ""),
        fix=fix,
    )


def _operand(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
    if governing is None:
        raise error(TypeError, f"{op.name}(): at least one operand must be a tensor")
    dtype = governing.dtype
    if isinstance(item, Element):
        if item.dtype is not dtype:
            raise error(
                TypeError,
                f"{op.name}(): Element of {item.dtype.name} with a tensor of {dtype.name}",
                fix=f"pypto.Element(pypto.{dtype.name}, {item.value})",
            )
        # It was rounded to its own type first.
        return scalar(scalar(item.value, dtype).item(), op.number(dtype, item.value))
    if isinstance(item, SymbolicScalar):
        if item.is_concrete():
            return scalar(item.concrete(), op.number(dtype, item.concrete()))
        build.note(
            f"{op.name}(): a symbolic integer is an operand of a tensor op; other front ends "
            "refuse that"
        )
        return sym.simple(item.expr)
    if isinstance(item, np.generic):
        item = item.item()
    if not isinstance(item, (int, float)):
        raise _kind_error(op, arg, item, "a tensor or a number")
    integer_only = op.integer_scalars_only and not isinstance(item, int)
    taken = op.number(dtype, item)
    if isinstance(item, float) and taken.is_int or integer_only:
        raise error(
            TypeError,
            f"{op.name}(): float scalar incompatible with integer tensor dtype {dtype.name}",
            fix=f"write {int(item)}, or cast the tensor: pypto.cast(t, pypto.DT_FP32)",
        )
    return scalar(item, taken)


def _element(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
    if isinstance(item, Element):
        if item.dtype.kind == "u" and item.value < 0:
            raise error(
                ValueError,
                f"{op.name}(): negative scalar for unsigned {item.dtype.name}: {item.value}",
            )
        return scalar(item.value, item.dtype)
    if isinstance(item, bool) or not isinstance(item, (int, float, np.generic)):
        raise _kind_error(op, arg, item, "a tensor, an Element or a number")
    number = item.item() if isinstance(item, np.generic) else item
    if isinstance(number, int) and governing is not None:
        dtype = governing.dtype
        if number < 0 and dtype.kind == "u":
            raise error(
                ValueError, f"{op.name}(): negative scalar for unsigned {dtype.name}: {number}"
            )
        return scalar(number, dtype)
    return scalar(number, DataType.DT_FP32)


def _dim(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> int:
    if isinstance(item, bool) or not isinstance(item, (int, np.integer)):
        fix = None
        if isinstance(item, (list, tuple)) and op.misuse:
            fix = op.misuse
        elif isinstance(item, (list, tuple)):
            fix = "give one axis; reduce twice for two axes"
        raise _kind_error(op, arg, item, "an int (an axis)", fix)
    rank = governing.dim if governing is not None else 0
    if not -rank <= item < rank:
        raise error(
            IndexError,
            f"{op.name}(): {arg.name}={item} is no axis of a tensor of rank {rank}; allowed "
            f"{-rank}..{rank - 1}",
            value=item,
            limit=[-rank, rank - 1],
        )
    return int(item) % rank


def _sizes(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> tuple[SymInt, ...]:
    if not isinstance(item, (list, tuple)):
        raise _kind_error(op, arg, item, "a list of ints")
    return tuple(as_sym_int(x) for x in item)


def _symint(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> SymInt:
    if not is_sym_int(item):
        raise _kind_error(op, arg, item, "an int or a symbolic scalar")
    return as_sym_int(item)


def _plain(wanted: str, *types: type) -> Callable[..., Any]:
    def convert(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
        if isinstance(item, np.generic):
            item = item.item()
        if isinstance(item, SymbolicScalar) and int in types:
            return item.concrete()
        if not isinstance(item, types) or (isinstance(item, bool) and bool not in types):
            raise _kind_error(op, arg, item, wanted)
        return item

    return convert


def _dims(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> tuple[int, ...]:
    if not isinstance(item, (list, tuple)):
        raise _kind_error(op, arg, item, "a list of ints")
    return tuple(_dim(op, arg, x, governing) for x in item)


def _enum(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
    assert arg.type is not None
    if not isinstance(item, arg.type):
        raise _kind_error(op, arg, item, f"a pypto.{arg.type.__name__}")
    return item


def _dtype(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> DataType:
    if not isinstance(item, DataType):
        raise _kind_error(op, arg, item, "a DataType such as pypto.DT_FP32")
    item.numpy  # noqa: B018 - types that are declared but not run yet raise here
    return item


_KINDS: dict[str, Callable[..., Any]] = {
    "operand": _operand,
    "element": _element,
    "dim": _dim,
    "dims": _dims,
    "sizes": _sizes,
    "symint": _symint,
    "int": _plain("an int", int),
    "float": _plain("a number", float, int),
    "bool": _plain("a bool", bool, int),
    "str": _plain("a string", str),
    "dtype": _dtype,
    "enum": _enum,
    "any": lambda op, arg, item, governing: item,
}


# --- operands ------------------------------------------------------------------------------------


def _check_operands(op: Op, elements: list[tuple[str, TensorType]]) -> None:
    for name, type in elements:
        if name not in op.dynamic:
            check_static(op.name, type, [t for _, t in elements])
        if type.dtype not in op.accept:
            raise error(
                TypeError,
                f"{op.name}(): {type.dtype.name} is not supported for {name}; it takes "
                f"{', '.join(sorted(d.name for d in op.accept))}",
                code="FC0001",
                fix=_cast_fix(op, type.dtype),
                value=type.dtype.name,
                limit=sorted(d.name for d in op.accept),
            )
        low, high = op.ranks
        if not low <= type.rank <= high:
            raise error(
                ValueError,
                f"{op.name}(): {name} has rank {type.rank}; allowed {low}..{high}",
                code="FC0002",
                fix="merge or split axes with pypto.reshape",
                value=type.rank,
                limit=op.ranks,
            )
    if op.same_dtype and len({t.dtype for _, t in elements}) > 1:
        found = " and ".join(f"{n} {t.dtype.name}" for n, t in elements)
        wanted = elements[0][1].dtype.name
        raise error(
            TypeError,
            f"{op.name}(): dtypes differ: {found}; nothing is promoted",
            code="FC0001",
            fix=f"cast one of them: pypto.cast({elements[-1][0]}, pypto.{wanted})",
        )


def _cast_fix(op: Op, dtype: DataType) -> str:
    if DataType.DT_FP32 in op.accept and dtype is not DataType.DT_FP32:
        if dtype is DataType.DT_BOOL:
            return "turn it into numbers first: pypto.where(mask, 1.0, 0.0)"
        return "cast first: pypto.cast(t, pypto.DT_FP32)"
    target = sorted(d.name for d in op.accept)[0]
    return f"cast first: pypto.cast(t, pypto.{target})"


def check_static(name: str, type: TensorType, beside: Sequence[TensorType] = ()) -> None:
    """Refuse operands with a DYNAMIC dim or an empty axis; `beside` are all of the op's tensors."""
    if not type.is_static:
        raise error(
            ValueError,
            f"{name}(): Dynamic shape tensors are not allowed as operation operands. Use view in "
            f"pypto.loop to get static shape tensors before computation. Got {type.brief()}"
            + _declared_unlike(type, beside),
            code="F0000A",
            fix="tile = pypto.view(t, [64, 128], [i * 64, 0]) inside a pypto.loop, then compute",
        )
    for axis, size in enumerate(type.shape):
        if size == 0:
            raise error(
                ValueError,
                f"Empty tensor is not supported for op {name}, dimension[{axis}] has shape value 0",
                code="FC0000",
                fix="loop over the axis with pypto.loop: an empty axis makes zero trips",
            )


def _declared_unlike(type: TensorType, beside: Sequence[TensorType]) -> str:
    """The axis that one tensor declares DYNAMIC and another one fixed."""
    for other in beside:
        for own, size in zip(reversed(type.shape), reversed(other.shape), strict=False):
            if not isinstance(own, int) and isinstance(size, int) and size != 1:
                return f"; the same axis declared DYNAMIC and {size}; declare alike"
    return ""


def _check_places(op: Op, name: str, type: TensorType) -> None:
    if name not in op.dynamic:
        check_static(op.name, type)
    if type.dtype not in op.index_accept:
        allowed = " or ".join(sorted(d.name for d in op.index_accept))
        raise error(TypeError, f"{op.name}(): {name} must be {allowed}, got {type.dtype.name}")
