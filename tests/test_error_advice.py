"""How ways out are written: as code, or as words that quote code in backticks.

In: the package's own text.  Out: each `fix=` that could be taken for code and is none.
"""

import ast
import re
from pathlib import Path

import pypto

SRC = Path(pypto.__file__).parent
CODE = re.compile(r"pypto\.[a-z]\w*|\w+\([^)]*\)\.|\w+\[.*\] =|\b\w+=\w|^\w+\(")


def templates(node):
    """What an expression of strings may give, `hole` where something is filled in."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = (v.value if isinstance(v, ast.Constant) else "hole" for v in node.values)
        return ["".join(map(str, parts))]
    if isinstance(node, ast.IfExp):
        return [*templates(node.body), *templates(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in templates(value)]
    return []


def advice():
    """Every way out that stands in the package's text, with its place."""
    for file in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            is_fix = isinstance(node, ast.keyword) and node.arg in ("fix", "misuse")
            is_kept = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith("FIX")
            if is_fix or is_kept:
                for text in templates(node.value):
                    yield f"{file.relative_to(SRC)}:{node.value.lineno}", text


def is_code(text):
    """Whether a text can be typed, once `…` is filled in."""
    try:
        ast.parse(text.replace("…", "..."))
    except SyntaxError:
        return bool(re.fullmatch(r"for .* in .*:", text))
    return True


def test_advice_in_words_quotes_its_code():
    found = list(advice())
    assert len(found) > 150
    words = [(place, text) for place, text in found if not is_code(text)]
    bare = {place: text for place, text in words if CODE.search(re.sub("`[^`]*`", "", text))}
    assert bare == {}


def test_what_is_quoted_can_be_typed():
    quoted = [
        (place, code)
        for place, text in advice()
        if not is_code(text)
        for code in re.findall("`([^`]*)`", text)
    ]
    # Heads of statements, decorators and single operators are no whole pieces of code.
    parts = ("for ", "if", "is", "@", "//", "...", "def ", ".")
    broken = [
        (place, code) for place, code in quoted if not is_code(code) and not code.startswith(parts)
    ]
    assert broken == []
