"""The table of errors that people search for: what the mistake is answered with.

In: one kernel per row.  Out: its error, with class, code, sentence, line, column and way out.  The
rows about alignment and capacity need a model of the chip and are tested with it.
"""

import pytest
from exact_errors import blank, cases, ints, ramp

import pypto

F32 = pypto.Tensor([], pypto.DT_FP32)
I32 = pypto.Tensor([], pypto.DT_INT32)
ROWS = pypto.Tensor([pypto.DYNAMIC, 32], pypto.DT_FP32)

case, CASES = cases()


@case(
    "symbolic tile",
    text="Not concrete value: tile shape must be int; `a_dim0` is symbolic",
    under="pypto.set_vec_tile_shapes(a.shape[0], 32)",
    code="F21004",
    builtin=ValueError,
    fix="use a module-level constant or an int argument of the kernel",
)
def symbolic_tile(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(a.shape[0], 32)  # <- symbolic tile
    out[0:16, :] = a[0:16, :] + 1.0


@case(
    "symbolic tile of the cube",
    text="Not concrete value: tile shape must be int; `a_dim0` is symbolic",
    under="pypto.set_cube_tile_shapes([m, m], [32, 32], [32, 32])",
    code="F21004",
    builtin=ValueError,
    fix="use a module-level constant or an int argument of the kernel",
)
def symbolic_cube_tile(a: ROWS, out: ROWS):
    m = a.shape[0]
    pypto.set_cube_tile_shapes([m, m], [32, 32], [32, 32])  # <- symbolic tile of the cube
    out[0:16, :] = a[0:16, :]


@case(
    "symbolic view shape",
    text=(
        "Not concrete value: view shape must be int; `i` is symbolic: put it in offsets or "
        "valid_shape"
    ),
    under="pypto.view(a, [i, 32], [0, 0])",
    code="F21004",
    builtin=ValueError,
    fix="put it in offsets or valid_shape; extents are module constants or int arguments",
)
def symbolic_view_shape(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(1, 4):
        tile = pypto.view(a, [i, 32], [0, 0])  # <- symbolic view shape
        pypto.assemble(tile + 1.0, [0, 0], out)


@case(
    "loop over a float",
    text="Invalid value type: a loop bound must be int or symbolic scalar, got float (4.0)",
    under="pypto.loop(a.shape[0] / 4)",
    code="F21004",
    builtin=ValueError,
    fix="divide with `//` or pypto.ceildiv(n, tile)",
)
def loop_over_a_float(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(a.shape[0] / 4):  # <- loop over a float
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "loop over a tensor",
    lambda: (ints(3), ramp(), blank()),
    text=(
        "Invalid value type: a loop bound must be int or symbolic scalar, got a Tensor; read an "
        "element: `t[0]`"
    ),
    under="pypto.loop(0, n, 1)",
    code="F21004",
    builtin=ValueError,
    fix="n = t[0] with an integer tensor, then pypto.loop(n)",
)
def loop_over_a_tensor(n: I32, a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, n, 1):  # <- loop over a tensor
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "list by a symbol",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="scales[i]",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def list_by_a_symbol(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    scales = [1.0, 2.0]
    for i in pypto.loop(2):
        out[i : i + 1, :] = a[i : i + 1, :] * scales[i]  # <- list by a symbol


@case(
    "int of a symbol",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="int(i)",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def int_of_a_symbol(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2):
        row = int(i)  # <- int of a symbol
        out[row : row + 1, :] = a[row : row + 1, :]


@case(
    "range of a symbol",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="range(a.shape[0])",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def range_of_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in range(a.shape[0]):  # <- range of a symbol
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "ranks of a view",
    lambda: (ramp().reshape(2, 2, 4, 32), blank(4, 32)),
    text="view: shape has 2 dims, offsets 4, input 4. Their size actually are 4 and 2",
    under="pypto.view(a, [4, 32], [b, 0, 0, 0])",
    code="F21004",
    builtin=ValueError,
    fix=(
        "take a view of rank 4, pypto.view(t, [1, 1, 4, 32], [...]), and reshape it to [4, 32]; "
        "or reshape the input first"
    ),
)
def ranks_of_a_view(a: F32, out: F32):
    pypto.set_vec_tile_shapes(4, 32)
    for b in pypto.loop(2):
        state = pypto.view(a, [4, 32], [b, 0, 0, 0])  # <- ranks of a view
        out[:] = state + 1.0


@case(
    "T",
    text="Tensor object has no attribute T",
    under="a.T",
    code="F0FFFF",
    builtin=AttributeError,
    fix="give a_trans=True or b_trans=True to pypto.matmul, or use pypto.transpose(t, 0, 1)",
)
def transposed_by_attribute(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + a.T  # <- T


@case(
    "tile not set",
    text="tile shape not set for add; call set_vec_tile_shapes()",
    under="a + 1.0",
    code="F21004",
    builtin=ValueError,
    fix="pypto.set_vec_tile_shapes(32, 64) at the start of the kernel",
)
def tile_not_set(a: F32, out: F32):
    out[:] = a + 1.0  # <- tile not set


@case(
    "cube tile not set",
    text="tile shape not set for matmul; call set_cube_tile_shapes()",
    under="pypto.matmul(a, a, pypto.DT_FP32, b_trans=True)",
    code="F21004",
    builtin=ValueError,
    fix="pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64]) at the start of the kernel",
)
def cube_tile_not_set(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:16, 0:16] = pypto.matmul(a, a, pypto.DT_FP32, b_trans=True)  # <- cube tile not set


@case(
    "ranks of an assemble",
    lambda: (ramp(), blank().reshape(1, 16, 32)),
    text="Assemble: src and dest requires same shape size: rank 2 vs 3",
    under="pypto.assemble(a + 1.0, [0, 0, 0], out)",
    code="F00002",
    builtin=ValueError,
    fix="reshape to [1,16,32]: t.reshape([1,16,32])",
)
def ranks_of_an_assemble(a: F32, out: F32):
    pypto.set_vec_tile_shapes(1, 16, 32)
    pypto.assemble(a + 1.0, [0, 0, 0], out)  # <- ranks of an assemble


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_row(one):
    one.check()


def test_a_tensor_has_no_attribute_T():
    found = []

    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        found.append(hasattr(a, "T"))
        found.append(getattr(a, "T", "absent"))
        out[:] = a + 1.0

    kernel(ramp(), blank())
    assert found == [False, "absent"]
