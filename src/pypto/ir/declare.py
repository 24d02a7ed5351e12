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

from pypto.errors import PyptoError, PyptoWarning
from pypto.ir import build, misplaced, place, sym, written
from pypto.ir.arguments import KINDS, argument, bind, check_operands, governing_tensor
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
    least_valid,
    register,
)
from pypto.ir.types import TensorType, full

F = TypeVar("F", bound=Callable[..., Any])


def declare(op: Op) -> Callable[..., Any]:
    """Register a record; its public function is the result."""
    register(op)
    signature = _signature(op)

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return apply(op, bind(op.name, signature, args, kwargs, op.misuse))
        except PyptoError as problem:
            _tell_order(problem, misplaced.of_record(op), args, is_method=False)
            raise

    def function(*args: Any, **kwargs: Any) -> Any:
        with place.boundary:
            return attempt(
                lambda: run(*args, **kwargs),
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
    guess: Callable[..., Any] | None = None,
    kinds: str = "",
) -> Callable[[F], F]:
    """Publish a function over ops under its own name, as a tensor method and as operators.

    `guess`, given the arguments of a call that failed, is the type that its result was meant to
    have, or what stands for a result that is no tensor.  `kinds` are those of its arguments where
    the signature does not tell them.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        public = name or function.__name__
        called = method or public
        positional = _positional(signature)
        returns = str(signature.return_annotation)

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                if not positional:
                    return function(**bind(called, signature, args, kwargs))
                for item in (*args, *kwargs.values()):
                    build.settle(item)
                return function(*args, **kwargs)
            except PyptoError as problem:
                parameters = misplaced.of_signature(signature, kinds)
                _tell_order(problem, parameters, args, is_method=public.startswith("_"))
                raise

        def instead(*args: Any, **kwargs: Any) -> Any:
            if returns == "None":
                return None
            found = _guessed(guess, *args, **kwargs)
            return Failed(found) if found is None or isinstance(found, TensorType) else found

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with place.boundary:
                return attempt(
                    lambda: run(*args, **kwargs), (args, kwargs), lambda: instead(*args, **kwargs)
                )

        checked.__module__ = "pypto"
        _publish(checked, public, (), method, operator)
        return checked  # type: ignore[return-value]

    return decorate


def _tell_order(
    problem: PyptoError,
    parameters: Sequence[misplaced.Fits],
    args: Sequence[Any],
    *,
    is_method: bool,
) -> None:
    """Arguments in the wrong order, or a list without its brackets, are told as they should be."""
    fix = None
    if (order := misplaced.order(parameters, args, is_method)) is not None:
        fix = written.rearranged(order)
    elif (first := misplaced.spread(parameters, args)) is not None:
        fix = written.gathered(first)
    problem.fix = fix or problem.fix


def _guessed(guess: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> Any:
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
            convert = None if hasattr(item, "__pypto_tensor__") else KINDS.get(arg.kind)
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


# --- one call ------------------------------------------------------------------------------------


def apply(op: Op, given: dict[str, Any]) -> Any:
    """Check the arguments of one call, append its node, and hand out its result."""
    build.current(f"pypto.{op.name}")
    governing = governing_tensor(op, given)
    operands: list[Value] = []
    attrs: dict[str, Any] = {}
    elements: list[tuple[str, TensorType]] = []
    for arg in op.args:
        attrs[arg.name] = argument(op, arg, given[arg.name], governing, operands, elements)
    check_operands(op, elements)
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
