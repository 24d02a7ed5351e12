"""Ten mistakes in one kernel, of the kind that one makes after a first reading, told in one run.

In: the kernel below.  Out: one error that shows all ten, by line, each with its class, code, words
and place; and for each mistake alone exactly one message.
"""

import inspect

import pytest
import torch
from exact_errors import line_of
from exact_errors import under as underlined

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)
F16 = pypto.Tensor([], pypto.DT_FP16)
I32 = pypto.Tensor([], pypto.DT_INT32)


@pypto.jit
def ten(x: F32, h: F16, n: I32, out: F32):
    pypto.set_vec_tile_shapes(16, 64)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    turned = x.T  # <- attribute
    soft = pypto.sofmax(x, -1)  # <- op
    total = pypto.full([16, 64], 0.0, pypto.DT_FP32)
    for i in pypto.loop(4):
        tile = pypto.view(x, [64], [i * 16, 0])  # <- ranks
        total = total + tile * 2.0
        part = x[i * 16 : i * 16 + 16, :] + h[0:16, :]  # <- dtypes
        pypto.assemble(h[0:16, :], [i * 16, 0], out)  # <- assemble
    norm = pypto.rms_norm(x, eps=1e-6)  # <- keyword
    if n[0] > 3:
        last = turned + soft
    else:
        last = norm
    row = x.sum(2)  # <- axis
    out[0:16, :] = 1.0  # <- number
    a, b = pypto.topk(x, 64, sorted=False)  # <- option
    for k in pypto.loop(x[0, 0]):  # <- element
        out[k : k + 1, :] = row
    out[0:16, :] = last[0:16, :] + total + a[0:16, :]


MISTAKES = [
    ("attribute", AttributeError, "F0FFFF", "x.T", "Tensor object has no attribute T"),
    (
        "op",
        AttributeError,
        "F0FFFF",
        "pypto.sofmax",
        "module 'pypto' has no attribute 'sofmax'; did you mean `softmax`?",
    ),
    (
        "ranks",
        ValueError,
        "F21004",
        "pypto.view(x, [64], [i * 16, 0])",
        "view: shape has 1 dims, offsets 2, input 2. Their size actually are 2 and 1",
    ),
    (
        "dtypes",
        TypeError,
        "FC0001",
        "x[i * 16 : i * 16 + 16, :] + h[0:16, :]",
        "add(): dtypes differ: input_tensor DT_FP32 and other DT_FP16; nothing is promoted",
    ),
    (
        "assemble",
        ValueError,
        "F00002",
        "pypto.assemble(h[0:16, :], [i * 16, 0], out)",
        "Assemble: src and dest requires same dtype: dtype mismatch DT_FP16 → DT_FP32; cast first",
    ),
    (
        "keyword",
        TypeError,
        "F00001",
        "eps=1e-6",
        "rms_norm() got an unexpected keyword argument 'eps'; did you mean `epsilon`?",
    ),
    (
        "axis",
        IndexError,
        "F00008",
        "x.sum(2)",
        "sum(): dim=2 is no axis of a tensor of rank 2; allowed -2..1",
    ),
    (
        "number",
        TypeError,
        "F00001",
        "out[0:16, :]",
        "a slice takes a tensor, got float: 'float' type cannot be moved to Tensor",
    ),
    (
        "option",
        TypeError,
        "F00001",
        "sorted=False",
        "topk() got an unexpected keyword argument 'sorted': there is no `sorted`",
    ),
    (
        "element",
        TypeError,
        "F21003",
        "x[0, 0]",
        "Not Int type, got: DT_FP32; only elements of integer tensors can steer a kernel",
    ),
]


# The same lines as the messages ask for them.
MENDED = {
    "attribute": "turned = pypto.transpose(x, 0, 1)",
    "op": "soft = pypto.softmax(x, -1)",
    "ranks": "tile = pypto.view(x, [16, 64], [i * 16, 0])",
    "dtypes": "part = x[i * 16 : i * 16 + 16, :] + pypto.cast(h[0:16, :], pypto.DT_FP32)",
    "assemble": "pypto.assemble(pypto.cast(h[0:16, :], pypto.DT_FP32), [i * 16, 0], out)",
    "keyword": "norm = pypto.rms_norm(x, epsilon=1e-6)",
    "axis": "row = x.sum(1).reshape([1, 64])",
    "number": "out[0:16, :] = pypto.full([16, 64], 1.0, pypto.DT_FP32)",
    "option": "a, b = pypto.topk(x, 64)",
    "element": "for k in pypto.loop(n[0]):",
}


def run(kernel, out=None):
    kernel(
        torch.ones(64, 64),
        torch.ones(64, 64).half(),
        torch.tensor([1, 2, 3, 4], dtype=torch.int32),
        torch.zeros(64, 64) if out is None else out,
    )


def test_ten_mistakes_are_told_in_one_run():
    with pytest.raises(pypto.error.FeError) as caught:
        run(ten)
    error = caught.value
    found = [(f.loc.line, f.builtin, f.code, underlined(f), f.text) for f in error.findings]
    assert found == [
        (line_of(__file__, mark), builtin.__name__, code, under, text)
        for mark, builtin, code, under, text in MISTAKES
    ]
    assert all(isinstance(f, m[1]) for f, m in zip(error.findings, MISTAKES, strict=True))
    assert all(f.fix for f in error.findings)
    assert (error.text, error.code, error.loc) == (
        error.findings[0].text,
        error.findings[0].code,
        error.findings[0].loc,
    )
    assert str(error) == "\n\n".join(str(f) for f in error.findings)


def kernel_with(marks, folder):
    """The kernel in a file of its own with only these mistakes left."""
    lines = inspect.getsource(ten._original_func).splitlines()
    for number, line in enumerate(lines):
        mark = line.partition("# <- ")[2]
        if mark and mark not in marks:
            indent = line[: len(line) - len(line.lstrip())]
            lines[number] = indent + MENDED[mark]
    path = folder / "mended.py"
    head = "import pypto\n" + "".join(
        f"{name} = pypto.Tensor([], pypto.DT_{dtype})\n"
        for name, dtype in (("F32", "FP32"), ("F16", "FP16"), ("I32", "INT32"))
    )
    path.write_text(head + "\n".join(lines) + "\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["ten"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m[0])
def test_one_mistake_is_one_message(mistake, tmp_path):
    mark, builtin, code, under, text = mistake
    with pytest.raises(builtin) as caught:
        run(kernel_with([mark], tmp_path))
    (finding,) = caught.value.findings
    assert (finding.code, underlined(finding), finding.text) == (code, under, text)


def test_the_mended_kernel_runs(tmp_path):
    out = torch.zeros(64, 64)
    run(kernel_with([], tmp_path), out)
    # n[0] is 1: the norm of ones, four tiles of 2, the largest of ones.  Below: the halves.
    assert torch.allclose(out[:16], torch.full((16, 64), 10.0))
    assert torch.equal(out[16:], torch.ones(48, 64))
