"""Errors that do not end a trace.

In: the error of one call in a kernel.  Out: a failed value, which the kernel's Python goes on with,
and the error among the findings of the trace.  Whatever is done with a failed value gives another
one and no further message, so that one mistake is one message and ten are ten.  Where Python needs
a number or a truth of a failed value, tracing stops without a word of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from pypto.errors import InternalError, PyptoError, Stopped, error
from pypto.ir import place
from pypto.ir.collect import keep as keep
from pypto.ir.elsewhere import nearest, way
from pypto.ir.op import NOT_YET
from pypto.ir.scalar import SymbolicScalar, failed_integer
from pypto.ir.types import TensorType


def attempt(run: Callable[[], Any], given: Any, instead: Callable[[], Any]) -> Any:
    """Run one call of the user's; where it fails, its error is kept and `instead` stands for it.

    Calls inside of that call raise to it: only what the user wrote is told.
    """
    trace = place.current.trace
    if trace is None or trace.busy:
        return run()
    if trace.findings and any_failed(given):
        trace.doubt(given)
        return instead()
    trace.busy = True
    try:
        return run()
    except PyptoError as problem:
        keep(problem)
        trace.doubt(given)
        return instead()
    except _DEFECTS as cause:
        if _is_users(cause):
            raise
        raise InternalError(
            f"internal error in an op: {type(cause).__name__}: {cause}; this is a defect of "
            "pypto-anywhere, not of the kernel",
            loc=place.here(),
            fix="set `PYPTO_DEBUG=1` for the full traceback",
        ) from cause
    finally:
        trace.busy = False


_DEFECTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)


def _is_users(cause: BaseException) -> bool:
    """Whether an exception comes from an object of the user's that an op was given."""
    step = cause.__traceback__
    while step is not None:
        if place.is_users(step.tb_frame):
            return True
        step = step.tb_next
    return False


def quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call would have given, had it been written rightly; its errors are not told."""
    trace = place.current.trace
    if any_failed((args, kwargs)):
        return Failed()
    busy, trace.busy = trace.busy, True
    try:
        return as_failed(function(*args, **kwargs))
    except PyptoError:
        return Failed()
    finally:
        trace.busy = busy


def as_failed(result: Any) -> Any:
    """The same with a failed value for each tensor in it."""
    if isinstance(result, (list, tuple)):
        return [as_failed(item) for item in result]
    return Failed(result.value().tensor) if hasattr(result, "__pypto_tensor__") else result


def absent(module: str, name: str, public: Mapping[str, Any]) -> Any:
    """What stands for a public name that a module does not have: that of the nearest one."""
    close = nearest(name, [n for n in public if not n.startswith("_")])
    text = f"module '{module}' has no attribute '{name}'"
    if name in NOT_YET:
        problem = error(
            AttributeError,
            f"{module}.{name}: not supported yet",
            code="F00005",
            fix=f"write it with what `dir({module})` lists",
        )
        close = None
    elif close is not None:
        problem = error(AttributeError, f"{text}; did you mean `{close}`?", fix=f"{module}.{close}")
    else:
        fix = way(name) or f"`dir({module})` lists what there is"
        problem = error(AttributeError, text, fix=fix)
    if not reads_attribute():
        raise problem
    keep(problem)
    meant = None if close is None else public[close]
    return Failed(stands_for=meant) if meant is None or callable(meant) else meant


def reads_attribute() -> bool:
    """Whether the user's statement asks for an attribute, and not for whether there is one."""
    frame = place.caller()
    if frame is None or place.current.trace is None:
        return False
    return place.instruction(frame)[0] in ("LOAD_ATTR", "LOAD_METHOD")


def _doubt(given: Any) -> None:
    """A function that does not exist was meant to do something with these, perhaps to write."""
    if place.current.trace is not None:
        place.current.trace.doubt(given)


NO_FURTHER = "nothing behind an error can be traced"


class Conflict:
    """A name that stands for different kinds of things; an error at its first use."""

    __slots__ = ("fix", "text", "told")

    def __init__(self, text: str, fix: str) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "fix", fix)
        object.__setattr__(self, "told", False)

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        if self.told:
            raise Stopped(NO_FURTHER)
        # Where the user's own code catches it, it is none of the findings.
        object.__setattr__(self, "told", not place.is_caught())
        raise error(TypeError, self.text, fix=self.fix)

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self._fail()
        except Stopped:
            return Failed()
        except PyptoError as problem:
            keep(problem)
        return Failed()

    def __getattr__(self, name: str) -> Any:
        # The package asks every object for its marks; only the user's question is a use.
        if name.startswith("__"):
            raise AttributeError(name)
        if place.is_internal(sys._getframe(1).f_code.co_filename):
            self._fail()
        return self._use()

    def __repr__(self) -> str:
        return "<conflict>"


def _dispatch(special: str, method: str) -> Callable[..., Any]:
    def called(self: Conflict, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, method)(*args, **kwargs)

    called.__name__ = special
    return called


# What an expression does with a value gives another one; a decision needs to know the value.
_EXPRESSIONS = (
    "call getitem setitem setattr add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv "
    "mod rmod pow rpow matmul rmatmul and rand or ror neg pos invert lt le gt ge eq ne"
)
_DECISIONS = (
    "iter len contains bool int float index hash enter str format instancecheck subclasscheck"
)
for _names, _method in ((_EXPRESSIONS, "_use"), (_DECISIONS, "_fail")):
    for _name in _names.split():
        setattr(Conflict, f"__{_name}__", _dispatch(f"__{_name}__", _method))


class Failed(Conflict):
    """What an op gives that has failed: it goes wherever a tensor goes, and says nothing.

    `guess` is the type that the result was most likely meant to have; `stands_for` is what the user
    most likely meant by a name that does not exist.
    """

    __pypto_tensor__ = True
    __slots__ = ("guess", "stands_for")
    told = True
    # Handles have storages and guards; this one has none.
    _storage = None
    guard = None
    # The class of tensors, so that the user's own `isinstance` finds one.
    poses_as: type = object

    def __init__(self, guess: TensorType | None = None, stands_for: Any = None) -> None:
        object.__setattr__(self, "guess", guess)
        object.__setattr__(self, "stands_for", stands_for)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return Failed.poses_as

    def _fail(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise Stopped(NO_FURTHER)

    def _use(self, *args: Any, **kwargs: Any) -> Any:
        _doubt((args, kwargs))
        return Failed()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if place.is_internal(sys._getframe(1).f_code.co_filename):
            # The package asks for a kind only to complain of it.
            self._fail()
        guess = self.guess
        if guess is not None:
            if name in ("shape", "valid_shape"):
                sizes = guess.shape if name == "shape" else guess.valid
                return [d if isinstance(d, int) else SymbolicScalar(d) for d in sizes]
            if name in ("dtype", "format"):
                return getattr(guess, name)
            if name == "dim":
                return guess.rank
        return Failed()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not callable(self.stands_for):
            return self._use(*args, **kwargs)
        return quietly(self.stands_for, *args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = place.caller()
        step, count = ("", 0) if frame is None else place.instruction(frame)
        if step != "UNPACK_SEQUENCE":
            self._fail()
        return iter([Failed() for _ in range(count)])

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        is_element = all(isinstance(part, (int, SymbolicScalar)) for part in parts)
        if is_element and self.guess is not None and len(parts) == self.guess.rank:
            return failed_integer()
        return Failed()

    def __setattr__(self, name: str, value: Any) -> None:
        pass

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<failed>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)


def is_failed(item: Any) -> bool:
    """Whether a value comes of an op that has failed."""
    return type(item) is Failed


def any_failed(item: Any) -> bool:
    """Whether a failed value is among some arguments, be it inside of lists and keys."""
    kind = type(item)
    if kind is Failed or kind is Conflict:
        return bool(item.told)
    if kind is Failed.poses_as:
        return place.current.trace is not None and bool(
            place.current.trace.is_gone(storage_of(item))
        )
    if kind is list or kind is tuple:
        return any(any_failed(part) for part in item)
    if kind is dict:
        return any(any_failed(part) for part in item.values())
    if kind is SymbolicScalar:
        return bool(item.is_unknown())
    return kind is slice and any_failed((item.start, item.stop, item.step))


def storage_of(item: Any) -> Any:
    """The memory of a tensor of a kernel, None for anything else."""
    kind = type(item)
    return item._storage if kind is Failed.poses_as else None


def settle(item: Any) -> None:
    """Raise the error of a name that stands for different kinds of things; stop at a failed one."""
    if isinstance(item, Conflict):
        item._fail()
