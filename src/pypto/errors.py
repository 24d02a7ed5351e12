"""Errors that point at the user's line.

In: what went wrong (a builtin exception class, a sentence, a fix) and where (`Loc`).  Out: an
exception that is an instance of its Pypto class and of that builtin, whose text shows the code,
the source line with a caret, every inlined helper frame and one `try:` line.  Every room raises
through `error`; the kernel's call boundary fills in the place when the raiser did not know it.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
    def column(self) -> int:
        """The column as an editor counts it: characters from 1."""
        text = linecache.getline(self.file, self.line).encode()
        return len(text[: self.col].decode(errors="replace")) + 1

    def excerpt(self) -> str:
        """The source line with carets under the expression, or nothing if it cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text.strip():
            return ""
        raw = text.encode()
        end = self.end_col if self.end_line == self.line else len(raw)
        start = self.column - 1
        width = max(1, len(raw[self.col : end].decode(errors="replace")))
        gutter = " " * len(str(self.line))
        return f"  {self.line} | {text}\n  {gutter} | {' ' * start}{'^' * width}"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place} in {self.function}" if self.function else place


class PyptoError(Exception):
    """Base of every error that Pypto raises.

    Attributes: `code` (such as ``"F21004"``), `text` (one sentence), `loc` (where, or None),
    `fix` (a legal way out, or None).  Source: the front-end error classes of the language.
    """

    def __init__(
        self,
        text: object = "",
        *,
        code: str | None = None,
        loc: Loc | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(text)
        self.text = str(text)
        self.code = code or next((CODES[c] for c in type(self).__mro__ if c in CODES), UNKNOWN_CODE)
        self.loc = loc
        self.fix = fix

    @property
    def builtin(self) -> str:
        """The name of the Python exception that this error also is."""
        for base in type(self).__mro__:
            if not issubclass(base, PyptoError) and base is not Exception:
                return base.__name__ if base is not BaseException else type(self).__name__
        return type(self).__name__

    def __str__(self) -> str:
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
        """The same finding for tools, with stable keys."""
        loc = self.loc
        return {
            "code": self.code,
            "error": self.builtin,
            "text": self.text,
            "file": loc.file if loc else None,
            "line": loc.line if loc else None,
            "column": loc.column if loc else None,
            "frames": [str(f) for f in loc.frames] if loc else [],
            "fix": self.fix,
        }


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
    """A defect of this package, not of the user's kernel."""


class PyptoWarning(UserWarning):
    """Base of the warnings about kernels."""


class PyptoNote(PyptoWarning):
    """Something worth knowing that changes no value."""


class PortabilityNote(PyptoNote):
    """A form that other front ends refuse or read differently."""


_classes: dict[tuple[type, type], type[PyptoError]] = {}


def error_class(kind: type[PyptoError], builtin: type[BaseException]) -> type[PyptoError]:
    """The class that is both `kind` and `builtin`; one class per pair, named after the kind."""
    key = (kind, builtin)
    if key not in _classes:
        _classes[key] = type(kind.__name__, (kind, builtin), {"__module__": kind.__module__})
    return _classes[key]


def error(
    builtin: type[BaseException],
    text: str,
    *,
    code: str | None = None,
    fix: str | None = None,
    loc: Loc | None = None,
    kind: type[PyptoError] = FeError,
) -> PyptoError:
    """An error to raise.  The code follows from the builtin class unless it is given."""
    return error_class(kind, builtin)(text, code=code, loc=loc, fix=fix)


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


def collected(findings: list[PyptoError]) -> PyptoError:
    """One error for everything that a stage found, by line."""
    return sorted(findings, key=_position)[0]


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
