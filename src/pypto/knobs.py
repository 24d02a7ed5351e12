"""Every `PYPTO_*` switch: its name, type, default, one sentence, and whether it changes what a
compiled kernel is.  Nothing else in the package reads the environment; a switch is read each time
it is asked for, so a test or a user may change it between two calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Knob(Generic[T]):
    """One switch: `get` reads it from the environment."""

    name: str
    parse: Callable[[str], T]
    default: T
    sentence: str
    in_key: bool = False

    def get(self) -> T:
        """The value now in force; ValueError for one that the switch cannot have."""
        raw = os.environ.get(self.name, "")
        return self.parse(raw) if raw else self.default


KNOBS: dict[str, Knob] = {}


def _declare(
    name: str, parse: Callable[[str], T], default: T, sentence: str, in_key: bool = False
) -> Knob[T]:
    knob = Knob(name, parse, default, sentence, in_key)
    KNOBS[name] = knob
    return knob


def _flag(raw: str) -> bool:
    return raw not in ("0", "false", "off", "no")


SANITIZERS = ("uninit", "poison", "race", "guard", "nan")


def _sanitizers(raw: str) -> frozenset[str]:
    """`all` is every one; `1` is all but the search for the birth of a NaN; `0` is none."""
    names = {name.strip() for name in raw.split(",")} - {""}
    if len(names) == 1 and not _flag(next(iter(names))):
        return frozenset()
    every = frozenset(SANITIZERS)
    groups = {"all": every, "1": every - {"nan"}, **{name: {name} for name in SANITIZERS}}
    unknown = sorted(names - groups.keys())
    if unknown:
        raise ValueError(
            f"PYPTO_SANITIZE: no sanitizer is called {unknown[0]!r}; there are "
            f"{', '.join(SANITIZERS)}, and `all`"
        )
    return frozenset(one for name in names for one in groups[name])


def _level(name: str, most: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        if not raw.isdecimal() or int(raw) > most:
            raise ValueError(f"{name}: a level is 0 to {most}, got {raw!r}")
        return int(raw)

    return parse


DEBUG = _declare(
    "PYPTO_DEBUG",
    _level("PYPTO_DEBUG", 6),
    0,
    "1 shows stage times, 3 the graph, 4 LLVM IR; our own stack frames",
)
INTERPRET = _declare(
    "PYPTO_INTERPRET",
    _flag,
    False,
    "run the NumPy meaning of kernels, sanitized, not machine code",
    True,
)
NUM_THREADS = _declare(
    "PYPTO_NUM_THREADS",
    _level("PYPTO_NUM_THREADS", 1024),
    0,
    "threads that run a kernel; 0: all cores",
)
CACHE_DIR = _declare(
    "PYPTO_CACHE_DIR", str, "", "folder that keeps machine code between runs; 0: none is kept"
)
CACHE_MB = _declare(
    "PYPTO_CACHE_MB", _level("PYPTO_CACHE_MB", 1 << 20), 512, "megabytes that this folder may hold"
)
DUMP = _declare("PYPTO_DUMP", str, "", "folder that gets one text file per stage of each compile")
ERRORS = _declare("PYPTO_ERRORS", str, "text", "what an error prints: `text`, or `json` for tools")
PORTABLE = _declare(
    "PYPTO_PORTABLE", _flag, False, "forms that other front ends refuse are errors, not notes", True
)
CHECK = _declare(
    "PYPTO_CHECK",
    _level("PYPTO_CHECK", 2),
    2,
    "rules of the chip: 0 off, 1 broken rules warn, 2 they are errors",
    True,
)
SANITIZE = _declare(
    "PYPTO_SANITIZE",
    _sanitizers,
    frozenset[str](),
    "checks while a kernel runs: uninit, poison, race, guard, nan, or all",
    True,
)


def sanitizers() -> frozenset[str]:
    """The checks of a run: those that are named, or all but `nan` where kernels are interpreted."""
    named = bool(os.environ.get(SANITIZE.name))
    return SANITIZE.get() if named or not INTERPRET.get() else _sanitizers("1")


def cache_folder() -> str | None:
    """Where machine code is kept between runs, as an absolute path; None: nowhere."""
    given = CACHE_DIR.get()
    if given:
        return os.path.abspath(os.path.expanduser(given)) if _flag(given) else None
    # The rule of desktops: what is no absolute path does not count.
    home = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        home = os.path.expanduser("~/.cache")
    return os.path.join(home, "pypto-anywhere") if os.path.isabs(home) else None
