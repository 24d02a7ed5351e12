"""Errors for tools: one JSON document with stable keys.

In: errors of kernels, of calls and of runs.  Out: what `PYPTO_ERRORS=json` prints and what
`to_json` gives, key by key.
"""

import json

import numpy as np
import pytest
from exact_errors import blank, ints, line_of, ramp

import pypto
from pypto import errors
from pypto.errors import Loc, error

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)
I32 = P([], pypto.DT_INT32)
KEYS = [
    "code",
    "error",
    "rule",
    "text",
    "file",
    "line",
    "column",
    "end_column",
    "value",
    "limit",
    "fix",
    "frames",
]


def error_of(kernel, *args):
    with pytest.raises(pypto.error.PyptoError) as caught:
        kernel(*args)
    return caught.value


def summed(t, dim):
    return t.sum(dim)  # <- summed


@pypto.jit
def one(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    名, out[:] = 1, summed(a, 4)  # <- call


@pypto.jit
def two(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.view(a, [16], [0, 0])  # <- view
    pypto.assemble(a, [4, 0], out)  # <- assemble


def test_one_finding_key_by_key():
    found = error_of(one, ramp(), blank()).to_json()
    findings = found.pop("findings")
    assert list(found) == KEYS
    assert findings == [found]
    inner, outer = line_of(__file__, "summed"), line_of(__file__, "call")
    assert found == {
        "code": "F00008",
        "error": "IndexError",
        "rule": None,
        "text": "sum(): dim=4 is no axis of a tensor of rank 2; allowed -2..1",
        "file": __file__,
        "line": inner,
        "column": 12,
        "end_column": 22,
        "value": 4,
        "limit": [-2, 1],
        "fix": "`dim=1` is the last axis; -1 names it too",
        "frames": [
            {"file": __file__, "line": inner, "column": 12, "function": "summed"},
            {"file": __file__, "line": outer, "column": 20, "function": "one"},
        ],
    }


def test_several_findings_are_listed_and_the_first_one_leads():
    found = error_of(two, ramp(), blank()).to_json()
    findings = found.pop("findings")
    assert found == findings[0]
    assert [list(f) for f in findings] == [KEYS, KEYS]
    assert [(f["line"], f["code"], f["value"], f["limit"]) for f in findings] == [
        (line_of(__file__, "view"), "F21004", [1, 2], 2),
        (line_of(__file__, "assemble"), "F00008", 19, 15),
    ]


def test_the_switch_makes_the_text_a_document(monkeypatch):
    problem = error_of(two, ramp(), blank())
    as_text = str(problem)
    assert as_text.startswith("ErrCode: F21004, ValueError: view: ")
    monkeypatch.setenv("PYPTO_ERRORS", "json")
    assert json.loads(str(problem)) == problem.to_json()
    assert json.loads(str(problem.findings[1])) == problem.findings[1].to_json()
    assert "\n" not in str(problem)
    monkeypatch.setenv("PYPTO_ERRORS", "text")
    assert str(problem) == as_text


def test_the_document_is_what_python_prints(monkeypatch):
    monkeypatch.setenv("PYPTO_ERRORS", "json")
    with pytest.raises(pypto.error.PyptoError) as caught:
        one(ramp(), blank())
    last = caught.exconly().partition(": ")[2]
    assert json.loads(last)["line"] == line_of(__file__, "summed")


def test_an_error_of_the_call():
    with pytest.raises(pypto.error.PyptoError) as caught:
        one(ramp(), blank().numpy().T)  # <- host
    found = caught.value.to_json()
    assert (found["code"], found["error"], found["file"]) == ("F00003", "RuntimeError", __file__)
    assert (found["line"], found["column"]) == (line_of(__file__, "host"), 21)


def test_an_error_of_the_run():
    @pypto.jit
    def kernel(n: I32, a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[n[0] : n[0] + 16, :] = a * 2.0  # <- run

    found = error_of(kernel, ints(8), ramp(), blank()).to_json()
    assert (found["code"], found["error"], found["line"]) == (
        "F00008",
        "IndexError",
        line_of(__file__, "run"),
    )
    assert len(found["findings"]) == 1


def test_an_error_without_a_place():
    found = error(ValueError, "wrong").to_json()
    assert [found[key] for key in ("file", "line", "column", "end_column")] == [None] * 4
    assert found["frames"] == []


def test_values_that_json_does_not_have_are_texts():
    problem = error(
        ValueError,
        "wrong",
        rule="tail",
        value=np.float32(0.5),
        limit=[1, (2, pypto.DT_FP32), None],
        loc=Loc("nowhere.py", 7, 3, 7, 9),
    )
    document = json.loads(json.dumps(problem.to_json()))
    assert (document["rule"], document["value"]) == ("tail", "0.5")
    assert document["limit"] == [1, [2, str(pypto.DT_FP32)], None]
    assert (document["line"], document["column"], document["end_column"]) == (7, 4, 10)


def test_names_of_the_errors():
    assert errors.InternalError("x").to_json()["error"] == "InternalError"
    assert error(NameError, "x").to_json()["error"] == "NameError"
