"""How a finding is shown: code, sentence, source line with carets, frames, one way out.

In: kernels in files of their own, with wide characters, tabs, long lines, lines that span others,
or no source at all.  Out: the whole text, to the letter.
"""

import ast
import linecache
import pickle
import textwrap
from pathlib import Path

import pytest
import torch

import pypto
from pypto import errors
from pypto.errors import Loc, error

SRC = Path(pypto.__file__).parent


def shown(tmp_path, body, *, before=""):
    """The text of the error of a kernel with this body, the path of its file left out."""
    path = tmp_path / "kernels.py"
    path.write_text(
        "import pypto\nF32 = pypto.Tensor([], pypto.DT_FP32)\n"
        + before
        + "@pypto.jit\ndef kernel(x: F32, out: F32):\n"
        + body
    )
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with (
        pypto.options(vec_tile_shapes=[4, 8]),
        pytest.raises(pypto.error.PyptoError) as caught,
    ):
        names["kernel"](torch.ones(4, 8), torch.ones(4, 8))
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_one_finding_in_full(tmp_path):
    assert shown(tmp_path, "    out[:] = x.T\n") == textwrap.dedent(
        """\
        ErrCode: F0FFFF, AttributeError: Tensor object has no attribute T
          --> kernels.py:5:14 in kernel
          5 |     out[:] = x.T
            |              ^^^
          try: `pypto.transpose(x, 0, 1)`, or in `pypto.matmul` `a_trans=True`, `b_trans=True`"""
    )


def test_the_functions_that_led_there(tmp_path):
    before = textwrap.dedent(
        """\
        def inner(t, dim):
            return t.sum(dim)
        def outer(t):
            return inner(t * 2.0, 3)
        """
    )
    assert shown(tmp_path, "    out[:] = outer(x)\n", before=before) == textwrap.dedent(
        """\
        ErrCode: F00008, IndexError: sum(): dim=3 is no axis of a tensor of rank 2; allowed -2..1
          --> kernels.py:4:12 in inner
          4 |     return t.sum(dim)
            |            ^^^^^^^^^^
          called from kernels.py:6:12 in outer
          6 |     return inner(t * 2.0, 3)
            |            ^^^^^^^^^^^^^^^^^
          called from kernels.py:9:14 in kernel
          9 |     out[:] = outer(x)
            |              ^^^^^^^^
          try: `dim=1` is the last axis; -1 names it too"""
    )


def test_wide_characters_before_and_in_the_expression(tmp_path):
    body = '    名字 = "é"; out[:] = x.sum(dim=len("四个字字"))\n'
    assert shown(tmp_path, body).splitlines()[1:4] == [
        "  --> kernels.py:5:24 in kernel",
        '  5 |     名字 = "é"; out[:] = x.sum(dim=len("四个字字"))',
        "    | " + " " * 25 + "^" * len('x.sum(dim=len("........"))'),
    ]


def test_combining_characters_take_no_room(tmp_path):
    body = '    s = "e\u0301e\u0301"; out[:] = x.T\n'
    assert shown(tmp_path, body).splitlines()[1:4] == [
        "  --> kernels.py:5:26 in kernel",
        '  5 |     s = "e\u0301e\u0301"; out[:] = x.T',
        "    | " + " " * 23 + "^^^",
    ]


def test_tabs_stay_tabs(tmp_path):
    body = "\tif True:\n\t\tout[:] =\tx.T\n"
    assert shown(tmp_path, body).splitlines()[1:4] == [
        "  --> kernels.py:6:12 in kernel",
        "  6 | \t\tout[:] =\tx.T",
        "    | \t\t        \t^^^",
    ]


def test_expression_over_several_lines(tmp_path):
    body = "    out[:] = pypto.view(  # a tile\n        x,\n        [8],\n        [0, 0],\n    )\n"
    assert shown(tmp_path, body).splitlines()[1:4] == [
        "  --> kernels.py:5:14 in kernel",
        "  5 |     out[:] = pypto.view(  # a tile",
        "    |              ^^^^^^^^^^^",
    ]


def test_long_line_is_cut_around_the_expression(tmp_path):
    body = f"    out[:] = {' + '.join(['x'] * 60)} + x.T + {' + '.join(['x'] * 60)}\n"
    lines = shown(tmp_path, body).splitlines()
    assert lines[1] == "  --> kernels.py:5:254 in kernel"
    source, carets = lines[2], lines[3]
    assert source.startswith("  5 | … ")
    assert source.endswith(" …")
    assert len(source) <= 110
    start = carets.index("^")
    assert source[start : start + carets.count("^")] == "x.T"
    assert "x + x" in source[start + 3 :]


def test_long_expression_is_cut_at_its_end(tmp_path):
    body = f"    out[:] = pypto.exp(x, {', '.join(['x'] * 60)})\n"
    lines = shown(tmp_path, body).splitlines()
    assert lines[1] == "  --> kernels.py:5:14 in kernel"
    source, carets = lines[2], lines[3]
    assert source.startswith("  5 |     out[:] = pypto.exp(x, x")
    assert source.endswith(" …")
    # The part of the expression that is shown, without the mark that something is left out.
    assert carets == "    |              " + "^" * (len(source) - len("    |              ") - 2)


def test_source_that_cannot_be_read(tmp_path):
    before = "def helper(t):\n    return t.sum(3)\n"
    path = tmp_path / "helpers_of_elsewhere.py"
    path.write_text(before)
    names = {}
    exec(compile(before, str(tmp_path / "gone.py"), "exec"), names)
    made = Loc(str(tmp_path / "gone.py"), 2, 11, 2, 19, "helper")
    assert (made.column, made.end_column, made.excerpt()) == (12, 20, "")
    with pytest.raises(pypto.error.PyptoError) as caught:
        import_kernel(tmp_path)(torch.ones(4, 8), torch.ones(4, 8), names["helper"])
    lines = str(caught.value).replace(f"{tmp_path}/", "").splitlines()
    assert lines == [
        "ErrCode: F00008, IndexError: sum(): dim=3 is no axis of a tensor of rank 2; allowed -2..1",
        "  --> gone.py:2:12 in helper",
        "  called from kernels.py:5:14 in kernel",
        "  5 |     out[:] = f(x)",
        "    |              ^^^^",
        "  try: `dim=1` is the last axis; -1 names it too",
    ]


def import_kernel(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(
        "import pypto\nF32 = pypto.Tensor([], pypto.DT_FP32)\n"
        "@pypto.jit\ndef kernel(x: F32, out: F32, f):\n    out[:] = f(x)\n"
    )
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["kernel"]


def test_place_without_columns_is_the_statement():
    number = next(
        n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "SRC = " in line
    )
    loc = Loc(__file__, number)
    assert (loc.column, loc.end_column) == (1, 1 + len(linecache.getline(__file__, number).strip()))


def test_several_findings_are_one_text(tmp_path):
    text = shown(tmp_path, "    a = x.sum(3)\n    out[:] = x.amax(4)\n")
    first, second = text.split("\n\n")
    assert first.splitlines()[1] == "  --> kernels.py:5:9 in kernel"
    assert second.splitlines()[1] == "  --> kernels.py:6:14 in kernel"
    assert [part.splitlines()[0].partition(", ")[0] for part in (first, second)] == [
        "ErrCode: F00008"
    ] * 2


def test_library_frames_of_python_are_left_out(tmp_path):
    body = (
        "    import contextlib\n"
        "    with contextlib.ExitStack() as stack:\n"
        "        stack.callback(lambda: x.sum(3))\n"
        "    out[:] = x\n"
    )
    lines = shown(tmp_path, body).splitlines()
    assert lines[1] == "  --> kernels.py:7:32 in <lambda>"
    assert not any("contextlib.py" in line for line in lines)


def test_error_survives_another_process():
    problem = error(IndexError, "a", code="F00008", fix="b", loc=Loc("f.py", 3), value=3, limit=2)
    again = pickle.loads(pickle.dumps(problem))
    assert type(again) is type(problem)
    assert str(again) == str(problem)
    assert (again.value, again.limit, again.code) == (3, 2, "F00008")
    plain = pickle.loads(pickle.dumps(errors.InternalError("a", fix="b")))
    assert type(plain) is errors.InternalError
    assert (plain.text, plain.fix) == ("a", "b")


@pytest.mark.parametrize("room", [".", "ir", "ops", "trace", "check", "interp"])
def test_every_error_has_a_way_out(room):
    bare = []
    for path in sorted((SRC / room).glob("*.py")):
        if path.name == "parse.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_error = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "error"
            given = {k.arg: ast.unparse(k.value) for k in node.keywords} if is_error else {}
            # Errors of ours have one of their own.
            if is_error and "fix" not in given and given.get("kind") != "InternalError":
                bare.append(f"{path.name}:{node.lineno}")
    assert bare == []
