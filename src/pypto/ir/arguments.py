"""What a call of an op was given, made into what its node holds.

In: the arguments as the user wrote them.  Out: by name, bound and of the right kinds; or the error
that names the op, the argument, what was found and what is allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pypto.errors import PyptoError, error
from pypto.ir import build, sym, written
from pypto.ir.dtype import DataType, Element, scalar
from pypto.ir.graph import Value
from pypto.ir.handle import HOST_FIX, Tensor, is_of_host
from pypto.ir.keywords import unexpected, written_call
from pypto.ir.op import Arg, Op, Slot
from pypto.ir.scalar import SymbolicScalar, as_sym_int, is_sym_int
from pypto.ir.sym import SymInt
from pypto.ir.types import TensorType


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
            problem = unexpected(
                name, keyword, list(signature.parameters), call=written_call(name, signature)
            )
            problem.loc = written.keyword_place(keyword)
            raise problem
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as cause:
        raise error(
            TypeError, f"{name}() {cause}", fix=misuse or written_call(name, signature)
        ) from None
    bound.apply_defaults()
    return dict(bound.arguments)


def governing_tensor(op: Op, given: dict[str, Any]) -> Tensor | None:
    """The tensor whose rank and element type the other arguments follow."""
    for arg in op.args:
        item = given[arg.name]
        if arg.kind == "tensors" and isinstance(item, (list, tuple)) and item:
            item = item[0]
        if isinstance(item, Tensor) and arg.name not in op.index_args:
            return item
    return None


def argument(
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
    convert = KINDS.get(arg.kind)
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
    kind = type(item).__name__
    if is_of_host(item):
        kind, fix = f"{type(item).__module__.partition('.')[0]}.{kind}", HOST_FIX
    return error(
        TypeError,
        f"{op.name}(): {arg.name} must be {wanted}, got {kind}"
        + (f" ({item!r})" if isinstance(item, (int, float, str, DataType)) else ""),
        fix=fix,
    )


def _operand(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
    if governing is None:
        raise error(
            TypeError,
            f"{op.name}(): at least one operand must be a tensor",
            fix="make a tensor of a number, `pypto.full([16], 1.0, pypto.DT_FP32)`",
        )
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
            fix=f"write {int(item)}, or cast the tensor: `pypto.cast(t, pypto.DT_FP32)`",
        )
    return scalar(item, taken)


def _element(op: Op, arg: Arg, item: Any, governing: Tensor | None) -> Any:
    if isinstance(item, Element):
        if item.dtype.kind == "u" and item.value < 0:
            raise error(
                ValueError,
                f"{op.name}(): negative scalar for unsigned {item.dtype.name}: {item.value}",
                fix="use a signed type, or the number that the bits stand for",
            )
        return scalar(item.value, item.dtype)
    if isinstance(item, bool) or not isinstance(item, (int, float, np.generic)):
        raise _kind_error(op, arg, item, "a tensor, an Element or a number")
    number = item.item() if isinstance(item, np.generic) else item
    if isinstance(number, int) and governing is not None:
        dtype = governing.dtype
        if number < 0 and dtype.kind == "u":
            raise error(
                ValueError,
                f"{op.name}(): negative scalar for unsigned {dtype.name}: {number}",
                fix="use a signed type, or the number that the bits stand for",
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
            fix=f"`{arg.name}={rank - 1}` is the last axis; -1 names it too",
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


KINDS: dict[str, Callable[..., Any]] = {
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


def check_operands(op: Op, elements: list[tuple[str, TensorType]]) -> None:
    for name, type in elements:
        if name not in op.dynamic:
            check_static(op.name, type, [t for _, t in elements])
        if type.dtype not in op.accept:
            raise error(
                TypeError,
                f"{op.name}(): {type.dtype.name} is not supported for {name}; it takes "
                f"{', '.join(sorted(d.name for d in op.accept))}",
                code="FC0001",
                fix=_cast_fix(op, name, type.dtype),
                value=type.dtype.name,
                limit=sorted(d.name for d in op.accept),
            )
        low, high = op.ranks
        if not low <= type.rank <= high:
            raise error(
                ValueError,
                f"{op.name}(): {name} has rank {type.rank}; allowed {low}..{high}",
                code="FC0002",
                fix="merge or split axes with `pypto.reshape`",
                value=type.rank,
                limit=op.ranks,
            )
    if op.same_dtype and len({t.dtype for _, t in elements}) > 1:
        found = " and ".join(f"{n} {t.dtype.name}" for n, t in elements)
        raise error(
            TypeError,
            f"{op.name}(): dtypes differ: {found}; nothing is promoted",
            code="FC0001",
            fix=_one_type(op, elements),
        )


def _cast_fix(op: Op, name: str, dtype: DataType) -> str:
    """The user's call with one operand made into a type that the op takes."""
    if dtype is DataType.DT_BOOL and DataType.DT_FP32 in op.accept:
        return _made_into(op, name, "pypto.where({}, 1.0, 0.0)")
    takes_floats = DataType.DT_FP32 in op.accept and dtype is not DataType.DT_FP32
    target = "DT_FP32" if takes_floats else min(d.name for d in op.accept)
    return _made_into(op, name, f"pypto.cast({{}}, pypto.{target})")


def _made_into(op: Op, name: str, template: str) -> str:
    position = next(i for i, arg in enumerate(op.args) if arg.name == name)
    one = op.args[position].kind != "tensors"
    mended = written.with_argument(op.name, position, name, template) if one else None
    return mended or f"convert it first: `{template.format('t')}`"


def _one_type(op: Op, elements: list[tuple[str, TensorType]]) -> str:
    """The same for operands of several types: the widest of them, floats before integers."""
    wanted = max((t.dtype for _, t in elements), key=lambda d: (d.is_float, d.numpy.itemsize))
    others = [name for name, t in elements if t.dtype is not wanted]
    if len(others) == 1:
        return _made_into(op, others[0], f"pypto.cast({{}}, pypto.{wanted.name})")
    return f"cast them to one type: `pypto.cast(t, pypto.{wanted.name})`"


def check_static(name: str, type: TensorType, beside: Sequence[TensorType] = ()) -> None:
    """Refuse operands with a DYNAMIC dim or an empty axis; `beside` are all of the op's tensors."""
    if not type.is_static:
        fixed = _declared_unlike(type, beside)
        unlike = f"; the same axis declared DYNAMIC and {fixed}; declare alike" if fixed else ""
        alike = f"declare the axis {fixed} in both, or " if fixed else ""
        raise error(
            ValueError,
            f"{name}(): Dynamic shape tensors are not allowed as operation operands. Use view in "
            f"pypto.loop to get static shape tensors before computation. Got {type.brief()}"
            + unlike,
            code="F0000A",
            fix=f"{alike}compute on `{_tile_of(type)}` inside a `pypto.loop` over i",
        )
    for axis, size in enumerate(type.shape):
        if size == 0:
            raise error(
                ValueError,
                f"Empty tensor is not supported for op {name}, dimension[{axis}] has shape value 0",
                code="FC0000",
                fix="loop over the axis with `pypto.loop`: an empty axis makes zero trips",
            )


def _tile_of(type: TensorType) -> str:
    """A view with int extents of a tensor that has DYNAMIC ones."""
    sizes = [d if isinstance(d, int) else 64 for d in type.shape]
    starts = ["0" if isinstance(d, int) else "i * 64" for d in type.shape]
    return f"pypto.view(t, {sizes}, [{', '.join(starts)}])"


def _declared_unlike(type: TensorType, beside: Sequence[TensorType]) -> int | None:
    """The extent that another tensor gives to an axis that this one declares DYNAMIC."""
    for other in beside:
        for own, size in zip(reversed(type.shape), reversed(other.shape), strict=False):
            if not isinstance(own, int) and isinstance(size, int) and size != 1:
                return size
    return None


def _check_places(op: Op, name: str, type: TensorType) -> None:
    if name not in op.dynamic:
        check_static(op.name, type)
    if type.dtype not in op.index_accept:
        allowed = " or ".join(sorted(d.name for d in op.index_accept))
        raise error(
            TypeError,
            f"{op.name}(): {name} must be {allowed}, got {type.dtype.name}",
            fix=_made_into(
                op, name, f"pypto.cast({{}}, pypto.{min(d.name for d in op.index_accept)})"
            ),
        )
