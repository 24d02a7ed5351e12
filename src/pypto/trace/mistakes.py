"""Exceptions of the kernel's own Python, as errors at the user's line.

In: what escaped from a kernel, or a name that has no value.  Out: the same as an error with a place
and, where there is one, a way out.
"""

from __future__ import annotations

import builtins
import os
from types import CodeType

from pypto.errors import Loc, PyptoError, adopt, error
from pypto.ir import build, place
from pypto.ir.elsewhere import nearest

_STDLIB = os.path.dirname(os.__file__) + os.sep


def located(cause: Exception, floor: CodeType) -> PyptoError:
    """An exception from a kernel's Python, which begins below the frame of `floor`."""
    if isinstance(cause, PyptoError) and cause.loc is not None:
        return cause
    loc: Loc | None = None
    step = cause.__traceback__
    inside = False
    while step is not None:
        code = step.tb_frame.f_code
        if code is floor:
            inside = True
        elif inside and not build.is_internal(code.co_filename) and _in_text(code):
            loc = build.frame_loc(step.tb_frame, step.tb_lasti, loc)
        step = step.tb_next
    if isinstance(cause, PyptoError):
        cause.loc = loc
        return cause
    if isinstance(cause, RecursionError):
        cause = RecursionError("the kernel's Python recurses without end")
    problem = adopt(cause, loc)
    if isinstance(cause, NameError) and _is_local(cause):
        problem.fix = _BIND
    return problem


_BIND = "bind the name before it is read; before a `pypto.loop` if a later trip reads it"


def own_words(name: str, cause: NameError) -> NameError:
    """What Python says of a name where it stands, from what it said of it in an inner function."""
    if not _is_local(cause):
        return cause.with_traceback(None)
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    return UnboundLocalError(text)


def without_value(name: str, cause: NameError) -> PyptoError:
    """The error for a name that the user's statement reads and nothing has bound."""
    if _is_local(cause):
        return error(NameError, str(cause), fix=_BIND)
    frame = place.caller()
    known = [] if frame is None else [*frame.f_locals, *frame.f_globals, *dir(builtins)]
    close = nearest(name, [k for k in known if not k.startswith("_")])
    text = f"name '{name}' is not defined" + (f"; did you mean `{close}`?" if close else "")
    return error(NameError, text, fix=close or f"bind `{name}` before this line, or import it")


def fixed_extents(attribute: str, written: str) -> PyptoError:
    """The error for an entry of a tensor's extents that the user's statement sets."""
    tensor = written.removesuffix(f".{attribute}")
    rest = f"; to compute another shape, bind it first: shape = {written}"
    if attribute == "shape":
        fix = f"pypto.reshape({tensor}, […]), or a part of it, pypto.view({tensor}, […], […])"
    else:
        fix = f"pypto.view({tensor}, {tensor}.shape, […], valid_shape=[…])"
    return error(
        TypeError,
        f"the extents of a tensor are fixed: `{written}` gives a fresh list, and setting an entry "
        f"of it changes no tensor{rest if attribute == 'shape' else ''}",
        fix=fix,
    )


def _is_local(cause: NameError) -> bool:
    """Whether a local name was read before it was bound."""
    return isinstance(cause, UnboundLocalError) or "free variable" in str(cause)


def _in_text(code: CodeType) -> bool:
    file = code.co_filename
    return not file.startswith(_STDLIB) or "site-packages" in file
