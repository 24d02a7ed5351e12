"""Arguments that a public function does not have.

In: a function and what it was called with.  Out: the error that names the nearest keyword it has,
and the call as one writes it.  Ops and the functions beside them are answered alike.
"""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pypto.errors import PyptoError, PyptoWarning, error, warn
from pypto.ir import place, written
from pypto.ir.dtype import DataType
from pypto.ir.elsewhere import nearest
from pypto.ir.findings import keep

F = TypeVar("F", bound=Callable[..., Any])


def known_keywords(function: F, open_ended: bool = False, **hints: str) -> F:
    """For public functions that are no ops: a keyword that they do not have is an error with the
    nearest one that they have; where errors are collected, the call goes on without it.  `hints`
    are the ways out for keywords that are no misspelling.  Functions of the language that are
    `open_ended` take any other keyword, which has no effect and is warned of.
    """
    name = function.__name__
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    known = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = list(kwargs)
        for keyword in [k for k in given if k not in known]:
            if open_ended and keyword not in hints and _meant(keyword, known) is None:
                text = f"{name}() has no keyword `{keyword}`: it has no effect"
                fix = f"leave it out: there are {', '.join(known)}"
                warn(PyptoWarning, text, place.here(), fix)
                del kwargs[keyword]
                continue
            problem = unexpected(name, keyword, known, hints.get(keyword, ""))
            problem.loc = place.argument(place.here(), keyword, len(args), given)
            keep(problem)
            del kwargs[keyword]
        try:
            signature.bind(*args, **kwargs)
        except TypeError as cause:
            raise error(TypeError, f"{name}() {cause}", fix=written_call(name, signature)) from None
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


# Keywords of other array libraries.
_KEYWORDS = {"axis": "dim", "axes": "dim", "keepdims": "keepdim", "x": "input", "a": "input"}


def _meant(keyword: str, known: Sequence[str]) -> str | None:
    """The keyword that a misspelt one, or one of another library, stands for."""
    close = _KEYWORDS.get(keyword)
    return close if close in known else nearest(keyword, known)


def unexpected(
    name: str, keyword: str, known: Sequence[str], fix: str = "", call: str = ""
) -> PyptoError:
    """The error of a keyword that the function `name` does not have among the `known` ones.

    `fix` is the way out if it is known; `call` is what a right call looks like.
    """
    close = _meant(keyword, known)
    if close:
        instead = f"{close}={written.keyword_value(keyword)}"
    else:
        instead = f"leave `{keyword}=` out: " + (
            f"the call is `{call}`" if call else f"there are {', '.join(known)}"
        )
    return error(
        TypeError,
        f"{name}() got an unexpected keyword argument '{keyword}'"
        + (f"; did you mean `{close}`?" if close else f": there is no `{keyword}`"),
        fix=fix or instead,
        value=keyword,
        limit=list(known),
    )


def written_call(name: str, signature: inspect.Signature) -> str:
    """A call with all arguments, as one writes it."""
    parts = []
    for p in signature.parameters.values():
        default = "…" if p.default is p.empty else _literal(p.default)
        is_bare = p.default is p.empty and p.kind is not p.KEYWORD_ONLY
        parts.append(p.name if is_bare else f"{p.name}={default}")
    return f"pypto.{name}({', '.join(parts)})"


def _literal(item: Any) -> str:
    """A default as one writes it."""
    if isinstance(item, enum.Enum):
        return f"pypto.{item.name if isinstance(item, DataType) else item}"
    return repr(item)
