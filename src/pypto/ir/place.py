"""Where the user's code stands while a kernel is traced.

In: Python's frames.  Out: the place that a message or a node points at, with its exact columns and
the calls that led there, and what the user's statement is doing there.  Our own frames and those
of the standard library are left out; the walk ends where the kernel was entered.  `boundary` gives
that place to the errors that leave the package.
"""

from __future__ import annotations

import ast
import dis
import functools
import itertools
import linecache
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from types import CodeType, FrameType, TracebackType
from typing import Any, TypeVar

import numpy as np

from pypto import knobs
from pypto.errors import Loc, PyptoError

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# The kernel library is written as a user would write it, so its frames are users' frames.
_LIBRARY = os.path.join(_PACKAGE, "gym") + os.sep
_STDLIB = os.path.dirname(os.__file__) + os.sep
_NUMPY = os.path.dirname(os.path.abspath(np.__file__)) + os.sep
_TORCH = f"-packages{os.sep}torch{os.sep}"
_internal: dict[str, bool] = {}
_positions: dict[CodeType, list[tuple[int | None, ...]]] = {}


class Current(threading.local):
    """What this thread is tracing."""

    trace: Any = None
    # The frames of the user end where this code begins.
    floor: CodeType | None = None


current = Current()


def is_internal(file: str) -> bool:
    """Whether a source file is ours."""
    if file not in _internal:
        path = os.path.abspath(file)
        _internal[file] = path.startswith(_PACKAGE) and not path.startswith(_LIBRARY)
    return _internal[file]


def is_library(file: str) -> bool:
    """Whether a source file is of Python's own library, of NumPy, which ours is built on, or of
    torch, which passes on what it was given.
    """
    if "-packages" in file:
        return file.startswith(_NUMPY) or _TORCH in file
    return file.startswith((_NUMPY, _STDLIB))


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code."""
    file = frame.f_code.co_filename
    return not is_internal(file) and not is_library(file)


def frame_loc(frame: FrameType, instruction: int, outer: Loc | None) -> Loc:
    """The place that a frame stands at, with exact columns."""
    code = frame.f_code
    if code not in _positions:
        _positions[code] = list(code.co_positions())
    line, end_line, col, end_col = _positions[code][instruction // 2]
    return Loc(
        code.co_filename,
        line or frame.f_lineno or code.co_firstlineno,
        col or 0,
        end_line or line or 0,
        end_col or 0,
        code.co_name,
        outer,
    )


def _users_frames() -> list[FrameType]:
    """The frames of the user from here up to the kernel, innermost first."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not current.floor:
        if is_users(frame):
            frames.append(frame)
        frame = frame.f_back
    # Outside of a kernel only the caller itself is told.
    return frames[:1] if frame is None else frames


def here() -> Loc | None:
    """The user's place now: the innermost frame that is not ours, and its callers up to the
    kernel.
    """
    loc: Loc | None = None
    for frame in reversed(_users_frames()):
        loc = frame_loc(frame, frame.f_lasti, loc)
    return loc


# --- where errors leave the package --------------------------------------------------------------


class Boundary:
    """Round what the user's code calls, as a `with` or as a decorator: an error that leaves it
    outside of a trace stands at the user's line and shows no frame of ours.

    Inside of a trace errors go on to the trace, which knows more of their place.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if current.trace is not None:
            return
        if isinstance(problem, PyptoError):
            if problem.loc is None:
                problem.loc = here()
            if not _shows_frames():
                # Behind this block Python raises it again without a note of the frame it leaves.
                problem.__traceback__ = None
                problem.__cause__ = None
        elif isinstance(problem, TypeError) and traceback is not None and not traceback.tb_next:
            # Python's own, of a call with too many arguments or too few.
            problem.__traceback__ = None

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]


def _shows_frames() -> bool:
    try:
        return knobs.DEBUG.get() > 0
    except ValueError:
        # It is set to what it cannot be; the kernel says so when it is compiled.
        return False


boundary = Boundary()


def argument(loc: Loc | None, which: int | str, count: int, names: Collection[str]) -> Loc | None:
    """The place of one argument, by position or by name, of the user's call at `loc`.

    The call passes `count` arguments by position and `names` by keyword; where its text shows
    anything else, as behind a `*` or a wrapper, the place is the call itself.
    """
    tree = None if loc is None else source_tree(loc.file)
    if loc is None or tree is None:
        return loc
    end = (loc.end_line, loc.end_col)
    calls = (n for n in ast.walk(tree) if isinstance(n, ast.Call))
    # A call over several lines may begin later for Python; no two calls end together.
    call = next((n for n in calls if (n.end_lineno, n.end_col_offset) == end), None)
    if call is None or len(call.args) != count or {k.arg for k in call.keywords} != set(names):
        return loc
    if any(isinstance(a, ast.Starred) for a in call.args):
        return loc
    if isinstance(which, int):
        return _at(loc, call.args[which]) if which < count else loc
    return next((_at(loc, k) for k in call.keywords if k.arg == which), loc)


def _at(loc: Loc, node: ast.expr | ast.keyword) -> Loc:
    """The place of a piece of syntax in the same frame."""
    return replace(
        loc,
        line=node.lineno,
        col=node.col_offset,
        end_line=node.end_lineno or node.lineno,
        end_col=node.end_col_offset or 0,
    )


# --- what the user's statement does --------------------------------------------------------------


def caller() -> FrameType | None:
    """The user's frame that has called into the package, if it has done so directly."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None or is_library(frame.f_code.co_filename) else frame


def instruction(frame: FrameType) -> tuple[str, int]:
    """The name and the argument of the instruction that a frame is at."""
    code = frame.f_code.co_code
    return dis.opname[code[frame.f_lasti]], code[frame.f_lasti + 1]


def assigned_name() -> str:
    """The name that the user's statement gives to the result of the call that it is at, or ""."""
    frame = caller()
    if frame is None:
        return ""
    return _stores(frame.f_code).get(frame.f_lasti, "")


@functools.lru_cache(maxsize=256)
def _stores(code: CodeType) -> dict[int, str]:
    """For each call whose result goes straight into a name: the name, by the place of the call."""
    found = {}
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "RESUME")]
    for step, following in itertools.pairwise(steps):
        is_name = following.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL")
        if step.opname.startswith("CALL") and is_name:
            found[step.offset] = following.argval
    return found


def iterated() -> Loc | None:
    """The place of what the user's `for` statement is asking for its parts.

    The compiler gives the asking the place of the whole statement.
    """
    loc = here()
    tree = None if loc is None else source_tree(loc.file)
    if loc is None or tree is None:
        return loc
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and (node.lineno, node.col_offset) == (loc.line, loc.col):
            return _at(loc, node.iter)
    return loc


def is_caught() -> bool:
    """Whether the user's code round this place may catch an exception."""
    return any(_catches(frame) for frame in _users_frames())


def _catches(frame: FrameType) -> bool:
    tree = source_tree(frame.f_code.co_filename)
    if tree is None:
        return True
    loc = frame_loc(frame, frame.f_lasti, None)
    place = (loc.line, loc.col)
    node: ast.AST = tree
    found = False
    while True:
        inner = next((c for c in _children(node) if _holds(c, place)), None)
        if inner is None:
            return found
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            # What stands round a definition is left when the function runs.
            found = False
        elif isinstance(node, (ast.Try, ast.TryStar)):
            found = found or (bool(node.handlers) and inner in node.body)
        elif isinstance(node, ast.With):
            found = found or (inner in node.body and not _is_setting(node))
        node = inner


def _is_setting(node: ast.With) -> bool:
    """Whether a `with` only sets options: that swallows no exception."""
    calls = [item.context_expr for item in node.items]
    return all(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "options"
        for call in calls
    )


def source_tree(file: str) -> ast.Module | None:
    """The syntax of a source file, or nothing if it cannot be read."""
    return _parsed("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=32)
def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text) if text else None
    except (SyntaxError, ValueError):
        return None


def _children(node: ast.AST) -> Iterator[Any]:
    """The parts of a node that have a position; parts without one are looked through."""
    for child in ast.iter_child_nodes(node):
        if hasattr(child, "lineno"):
            yield child
        else:
            yield from _children(child)


def _holds(node: Any, place: tuple[int, int]) -> bool:
    start = (node.lineno, node.col_offset)
    return start <= place < (node.end_lineno, node.end_col_offset)
