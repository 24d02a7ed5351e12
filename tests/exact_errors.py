"""One error, to the letter: `refused` for a call, `Case` for a kernel with one mistake; `told` for
what a kernel with several is told.

In: what must fail and every part of what it must say.  Out: nothing, or a failing test.  The line
is the one of the caller's file that ends with the marker comment `# <- name`; the column and the
end are those of the expression that the message underlines.
"""

import linecache
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import pypto


def line_of(file, mark):
    """The number of the line of a file that ends with the marker comment."""
    lines = Path(file).read_text().splitlines()
    return 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# <- {mark}"))


def refused(call, mark, text, *, under, code, builtin, fix, kind=pypto.error.FeError, file=None):
    """The one error that `call` must end with, at the marked line, `under` underlined.

    A way out of `...` is not judged.
    """
    with pytest.raises(pypto.error.PyptoError) as caught:
        call()
    error = caught.value
    assert error.findings == (error,), str(error)
    assert isinstance(error, kind), type(error).__mro__
    assert isinstance(error, builtin), type(error).__mro__
    assert error.text == text
    assert fix is ... or error.fix == fix
    assert error.code == code
    assert str(error).startswith(f"ErrCode: {code}, {builtin.__name__}: {text}\n")
    file = file or call.__code__.co_filename
    loc = error.loc
    assert (loc.file, loc.line) == (file, line_of(file, mark))
    line = Path(file).read_text().splitlines()[loc.line - 1]
    assert line[loc.column - 1 : loc.end_column - 1] == under
    return error


def told(kernel, *args):
    """The marks of the lines that the error of a call tells."""
    return [mark for mark, _ in told_in_full(kernel, *args)]


def told_in_full(kernel, *args):
    """The findings of the error of a call, in order, each with the mark of its line."""
    with pytest.raises(pypto.error.PyptoError) as caught:
        kernel(*(args or (ramp(), blank())))
    places = [(f.loc.file, f.loc.line, f.loc.col) for f in caught.value.findings]
    assert places == sorted(places)
    marks = []
    for finding in caught.value.findings:
        line = linecache.getline(finding.loc.file, finding.loc.line).rstrip("\n")
        marks.append((line.rpartition("# <- ")[2], finding))
    return marks


def under(finding):
    """What the message underlines."""
    line = linecache.getline(finding.loc.file, finding.loc.line)
    return line[finding.loc.column - 1 : finding.loc.end_column - 1]


@dataclass(frozen=True)
class Case:
    """A kernel with one mistake, and the error that it must end with."""

    name: str
    function: object
    args: object
    error: dict

    def check(self):
        file = self.function.__code__.co_filename
        kernel = pypto.jit(self.function)
        refused(lambda: kernel(*self.args()), self.name, file=file, **self.error)


def ramp(rows=16, cols=32):
    """[rows, cols] fp32 that counts up from 0 in row order."""
    return torch.arange(rows * cols, dtype=torch.float32).reshape(rows, cols)


def blank(rows=16, cols=32):
    """An output full of -1, so that an element that nobody wrote is seen."""
    return torch.full((rows, cols), -1.0)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def cases():
    """A decorator that collects kernels with one mistake, and the list of what it has collected."""
    found = []

    def case(name, args=lambda: (ramp(), blank()), **error):
        def add(function):
            found.append(Case(name, function, args, error))
            return function

        return add

    return case, found
