"""Errors that point at the user's line.

In: what went wrong (a builtin exception class, a sentence, a fix) and where (`Loc`).  Out: an
exception that is an instance of its Pypto class and of that builtin, whose text shows the code,
the source line with a caret, every inlined helper frame and one `try:` line.  Every room raises
through `error`; `collected` makes one exception of all that a stage found.  The kernel's call
boundary fills in the place when the raiser did not know it.
"""

from __future__ import annotations

import io
import linecache
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pypto import knobs

CODES: dict[type[BaseException], str] = {
    TypeError: "F00001",
    ValueError: "F00002",
    RuntimeError: "F00003",
    NameError: "F00004",
    NotImplementedError: "F00005",
    KeyError: "F00006",
    IndexError: "F00008",
}
UNKNOWN_CODE = "F0FFFF"


@dataclass(frozen=True, slots=True)
class Loc:
    """A place in the user's source; `outer` is the call that led here from another function.

    Lines count from 1.  Columns are UTF-8 byte offsets counted from 0, as the compiler keeps them.
    """

    file: str
    line: int
    col: int = 0
    end_line: int = 0
    end_col: int = 0
    function: str = ""
    outer: Loc | None = None

    @property
    def frames(self) -> Iterator[Loc]:
        """This place and the calls around it, innermost first."""
        loc: Loc | None = self
        while loc is not None:
            yield loc
            loc = loc.outer

    @property
    def text(self) -> str:
        """The source line, or nothing if it cannot be read."""
        return linecache.getline(self.file, self.line).rstrip("\r\n")

    @property
    def column(self) -> int:
        """The column as an editor counts it: characters from 1."""
        text = self.text
        blank = len(text) - len(text.lstrip())
        # A place without columns is that of the whole statement.
        return max(_characters(text, self.col), blank) + 1

    @property
    def end_column(self) -> int:
        """The column behind the expression, or behind its part on this line: characters from 1."""
        text = self.text
        if self.end_line != self.line:
            return max(_end_of_code(text), self.column) + 1
        return max(_characters(text, self.end_col), self.column) + 1

    def excerpt(self) -> str:
        """The source line with carets under the expression, or nothing if it cannot be read."""
        text = self.text
        if not text.strip():
            return ""
        text, first, last = _cut(text, self.column - 1, self.end_column - 1)
        before = "".join("\t" if c == "\t" else " " * _cells(c) for c in text[:first])
        under = "".join("\t" if c == "\t" else "^" * _cells(c) for c in text[first:last])
        gutter = " " * len(str(self.line))
        return f"  {self.line} | {text}\n  {gutter} | {before}{under or '^'}"

    def to_json(self) -> dict[str, Any]:
        """The place for tools."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "function": self.function,
        }

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place} in {self.function}" if self.function else place


# How much of a source line is shown.
_SHOWN = 96


def _characters(text: str, offset: int) -> int:
    """How many characters of a line lie before a byte offset; bytes where there is no line."""
    if not text:
        return offset
    return len(text.encode()[:offset].decode(errors="replace"))


def _cells(character: str) -> int:
    """How wide a terminal shows a character."""
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _end_of_code(text: str) -> int:
    """Where the code of a line ends, before a comment and the space in front of it."""
    indent = len(text) - len(text.lstrip())
    try:
        for token in tokenize.generate_tokens(io.StringIO(text.lstrip()).readline):
            if token.type == tokenize.COMMENT:
                text = text[: indent + token.start[1]]
    except (tokenize.TokenError, SyntaxError):
        # The line is a part of a statement, so it may end anywhere.
        pass
    return len(text.rstrip())


def _cut(text: str, first: int, last: int) -> tuple[str, int, int]:
    """The part of a long line around an expression, and where the expression is in it."""
    if len(text) <= _SHOWN:
        return text, first, last
    # Its end is shown with a little behind it, but its start with a little before it first of all.
    start = max(0, min(first - 16, last + 8 - _SHOWN))
    end = min(len(text), start + _SHOWN)
    left, right = "… " if start else "", " …" if end < len(text) else ""
    shift = len(left) - start
    return left + text[start:end] + right, first + shift, min(last, end) + shift


class PyptoError(Exception):
    """Base of every error that Pypto raises.

    Attributes: `code` (such as ``"F21004"``), `text` (one sentence), `loc` (where, or None),
    `fix` (a legal way out, or None), `rule` (the rule of the chip that is broken, or None),
    `value` and `limit` (what was found and what is allowed, or None), `findings` (every error that
    was found with this one, itself included, by line).  Source: the front-end error classes of the
    language.
    """

    def __init__(
        self,
        text: object = "",
        *,
        code: str | None = None,
        loc: Loc | None = None,
        fix: str | None = None,
        rule: str | None = None,
        value: object = None,
        limit: object = None,
    ) -> None:
        super().__init__(text)
        self.text = str(text)
        self.code = code or next((CODES[c] for c in type(self).__mro__ if c in CODES), UNKNOWN_CODE)
        self.loc = loc
        self.fix = fix
        self.rule = rule
        self.value = value
        self.limit = limit
        self._all: tuple[PyptoError, ...] = ()

    @property
    def findings(self) -> tuple[PyptoError, ...]:
        """All that was found together, by line; for a single error the error itself."""
        return self._all or (self,)

    @property
    def builtin(self) -> str:
        """The name of the Python exception that this error also is."""
        for base in type(self).__mro__:
            if not issubclass(base, PyptoError) and base is not Exception:
                return base.__name__ if base is not BaseException else type(self).__name__
        return type(self).__name__

    def __str__(self) -> str:
        if knobs.ERRORS.get() == "json":
            import json  # only this form needs it

            return json.dumps(self.to_json(), ensure_ascii=False)
        return "\n\n".join(finding.message() for finding in self.findings)

    def message(self) -> str:
        """This one finding as text: code, sentence, source line, frames and way out."""
        parts = [f"ErrCode: {self.code}, {self.builtin}: {self.text}"]
        if self.loc is not None:
            for depth, frame in enumerate(self.loc.frames):
                parts.append(f"{'  --> ' if depth == 0 else '  called from '}{frame}")
                if excerpt := frame.excerpt():
                    parts.append(excerpt)
        if self.fix:
            parts.append(f"  try: {self.fix}")
        return "\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The same for tools: the keys of the first finding, and all of them under `findings`.

        A finding has the keys code, error, rule, text, file, line, column, end_column, value,
        limit, fix, frames.  Lines and columns count from 1, columns in characters; `end_column` is
        the one behind the expression.  What is not known is null.
        """
        findings = [finding._as_json() for finding in self.findings]
        return {**findings[0], "findings": findings}

    def _as_json(self) -> dict[str, Any]:
        loc = self.loc
        return {
            "code": self.code,
            "error": self.builtin,
            "rule": self.rule,
            "text": self.text,
            "file": loc.file if loc else None,
            "line": loc.line if loc else None,
            "column": loc.column if loc else None,
            "end_column": loc.end_column if loc else None,
            "value": _plain(self.value),
            "limit": _plain(self.limit),
            "fix": self.fix,
            "frames": [frame.to_json() for frame in loc.frames] if loc else [],
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # The class may be one that `error_class` made, which has no name to be found by.
        kind = next(c for c in type(self).__mro__ if c in _KINDS)
        builtin = next((c for c in type(self).__mro__ if not issubclass(c, PyptoError)), Exception)
        return _rebuilt, (kind, None if builtin is Exception else builtin, self.__dict__)


def _plain(x: object) -> Any:
    """A number, a list of numbers or a text; anything else by its text."""
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    return [_plain(item) for item in x] if isinstance(x, (list, tuple)) else str(x)


class PyptoGeneralError(PyptoError):
    """An error of the toolkit as a whole."""


class FeError(PyptoGeneralError):
    """An error in the kernel's text, its arguments or its options."""


class PyptoRtError(PyptoGeneralError):
    """An error while a compiled kernel runs."""


class PassError(PyptoGeneralError):
    """A rule of the chip is broken."""


class VerifyError(PyptoGeneralError):
    """A comparison with golden data failed."""


class ParserError(PyptoError):
    """The source of a kernel cannot be used."""


class RenderedParserError(ParserError):
    """A parser error with its source excerpt; kept for code that catches it by this name."""


class InternalError(PyptoGeneralError):
    """A defect of this package, not of the user's kernel; its way out leads to what shows it."""

    def __init__(self, text: object = "", *, fix: str | None = None, **known: Any) -> None:
        super().__init__(text, fix=fix or DEFECT_FIX, **known)


class Stopped(PyptoGeneralError):
    """Tracing cannot go on after what was found already; it says nothing of its own."""


class PyptoWarning(UserWarning):
    """Base of the warnings about kernels."""


class PyptoNote(PyptoWarning):
    """Something worth knowing that changes no value."""


class PortabilityNote(PyptoNote):
    """A form that other front ends refuse or read differently."""


# Every error of ours says where to look further.
DEFECT_FIX = "set `PYPTO_DEBUG=1` for the full traceback, `PYPTO_DUMP=dir` for the graph"

# The classes with a name of their own; the others join one of them to a builtin.
_KINDS = frozenset(
    {
        PyptoError,
        PyptoGeneralError,
        FeError,
        PyptoRtError,
        PassError,
        VerifyError,
        ParserError,
        RenderedParserError,
        InternalError,
        Stopped,
    }
)
_classes: dict[tuple[type, type], type[PyptoError]] = {}


def error_class(kind: type[PyptoError], builtin: type[BaseException]) -> type[PyptoError]:
    """The class that is both `kind` and `builtin`; one class per pair, named after the kind."""
    key = (kind, builtin)
    if key not in _classes:
        _classes[key] = type(kind.__name__, (kind, builtin), {"__module__": kind.__module__})
    return _classes[key]


def _rebuilt(
    kind: type[PyptoError], builtin: type[BaseException] | None, state: dict[str, Any]
) -> PyptoError:
    """An error that comes from another process."""
    made = (kind if builtin is None else error_class(kind, builtin))(state["text"])
    made.__dict__.update(state)
    return made


def error(
    builtin: type[BaseException],
    text: str,
    *,
    code: str | None = None,
    fix: str | None = None,
    loc: Loc | None = None,
    kind: type[PyptoError] = FeError,
    rule: str | None = None,
    value: object = None,
    limit: object = None,
) -> PyptoError:
    """An error to raise.  The code follows from the builtin class unless it is given."""
    made = error_class(kind, builtin)
    return made(text, code=code, loc=loc, fix=fix, rule=rule, value=value, limit=limit)


def not_supported(what: str, fix: str | None = None, loc: Loc | None = None) -> PyptoError:
    """The error for what the language has and this package does not have yet."""
    text = f"{what}: not supported yet"
    return error(NotImplementedError, text, fix=fix, loc=loc)


def adopt(cause: BaseException, loc: Loc | None) -> PyptoError:
    """A Python exception that a kernel let escape, as an error of the same builtin class."""
    # A local that is not bound is a name that is not bound.
    builtin = NameError if isinstance(cause, UnboundLocalError) else type(cause)
    text = str(cause.args[0]) if isinstance(cause, KeyError) and cause.args else str(cause)
    if isinstance(cause, AssertionError):
        text = f"assertion failed: {text}" if text else "assertion failed"
    try:
        made = error_class(FeError, builtin)
    except TypeError:
        # A class of the user's whose layout does not combine: the builtin behind it does.
        made = error_class(FeError, next(c for c in builtin.__mro__ if c.__module__ == "builtins"))
    return made(text or builtin.__name__, loc=loc)


def collected(findings: Sequence[PyptoError]) -> PyptoError:
    """One error for everything that a stage found, by line.

    One finding is that error itself.  Several are one error of the first one's classes, which
    shows them all; what a loop or several calls of one function ran into again is told once.
    """
    told: list[PyptoError] = []
    seen: set[Any] = set()
    for finding in sorted(findings, key=_position):
        keys = _identities(finding)
        if isinstance(finding, Stopped) or not seen.isdisjoint(keys):
            continue
        seen.update(keys)
        told.append(finding)
    return together(told or findings[:1])


def together(findings: Sequence[PyptoError]) -> PyptoError:
    """One error that shows several, by line; the first one gives it its classes."""
    told = sorted(findings, key=_position)
    if len(told) == 1:
        return told[0]
    first = told[0]
    whole = type(first)(first.text)
    whole.__dict__.update(first.__dict__)
    whole._all = tuple(told)
    return whole


def _identities(finding: PyptoError) -> list[Any]:
    """What makes two findings one: the same calls to the same place, or the same words there."""
    loc = finding.loc
    if loc is None:
        return [finding.text]
    places = tuple((f.file, f.line, f.col, f.end_line, f.end_col) for f in loc.frames)
    return [(places, finding.code, finding.rule), (places[0], finding.text)]


def _position(finding: PyptoError) -> tuple[str, int, int]:
    loc = finding.loc
    return (loc.file, loc.line, loc.col) if loc is not None else ("", 0, 0)


_noted: set[tuple[type, str, int, str]] = set()


def warn(category: type[PyptoWarning], text: str, loc: Loc | None, fix: str | None = None) -> None:
    """Warn once per source line and text, at the user's line."""
    message = f"{text}; {fix}" if fix else text
    file, line = (loc.file, loc.line) if loc else ("<pypto>", 1)
    key = (category, file, line, message)
    if key in _noted:
        return
    _noted.add(key)
    warnings.warn_explicit(category(message), category, file, line)


def forget_warnings() -> None:
    """Let every warning show once more."""
    _noted.clear()
