"""Mistakes with tensors and names, each with its exact error.

In: one kernel per mistake; a number such as E24 is its place in the catalogue of misuses of the
language, a name that of a row of the table of errors that people search for.  Out: class, code,
sentence, line, column, way out.  The rows of the table about alignment and capacity need a model of
the chip and are tested with it.
"""

import pytest
import torch
from exact_errors import blank, cases, ints, ramp

import pypto

DT = pypto.DT_FP32
F32 = pypto.Tensor([], DT)
I32 = pypto.Tensor([], pypto.DT_INT32)
I64 = pypto.Tensor([], pypto.DT_INT64)
ROWS = pypto.Tensor([pypto.DYNAMIC, 32], DT)

case, CASES = cases()


# --- slices and indices ---------------------------------------------------------------------------


@case(
    "E24 read",
    text="step must be 1 or None, got 2",
    under="a[0:16:2, :]",
    code="F00002",
    builtin=ValueError,
    fix="a[0:16, :].reshape([8, 2, 32])[:, 0, :]",
)
def slice_with_a_step(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = a[0:16:2, :]  # <- E24 read


@case(
    "E24 write",
    text="step must be 1 or None, got 2",
    under="out[0:16:2, :]",
    code="F00002",
    builtin=ValueError,
    fix="for k in pypto.loop(8): out[2 * k:2 * k + 1, :] = a[0:8, :][k:k + 1]",
)
def write_with_a_step(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:16:2, :] = a[0:8, :]  # <- E24 write


@case(
    "E25 ellipses",
    text="Only one ... is supported",
    under="a[..., ...]",
    code="F00002",
    builtin=ValueError,
    fix="leave one `...`; it stands for all axes that the others do not name",
)
def two_ellipses(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a[..., ...]  # <- E25 ellipses


@case(
    "E25 with ellipsis",
    text="Too many indices for tensor with dimension 2",
    under="a[..., 0, 0, 0:1]",
    code="F00008",
    builtin=IndexError,
    fix="give at most 2 indices",
)
def too_many_indices_with_an_ellipsis(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a[..., 0, 0, 0:1]  # <- E25 with ellipsis


@case(
    "E25 too many",
    text="rank not match, expect 2, but got 3",
    under="a[0, 0, 0:1]",
    code="F00008",
    builtin=IndexError,
    fix="give at most 2 indices",
)
def too_many_indices(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a[0, 0, 0:1]  # <- E25 too many


@case(
    "E26",
    text="'float' type cannot be moved to Tensor",
    under="out[:]",
    code="F00001",
    builtin=TypeError,
    fix="out[:] = pypto.full([16, 32], 3.0, pypto.DT_FP32)",
)
def number_into_a_whole_tensor(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = 3.0  # <- E26


@case(
    "E27",
    text="The number of slice in key (1) must match the length of input Tensor (2).",
    under="out[3, :]",
    code="F00002",
    builtin=ValueError,
    fix="reshape the value to one axis per slice",
)
def rank_of_a_value(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[3, :] = a[0:1, :]  # <- E27


@case(
    "E29",
    text="Tensor is not iterable.",
    under="a",
    code="F00001",
    builtin=TypeError,
    fix="loop over an axis: `for i in pypto.loop(t.shape[0]): row = t[i:i + 1, :]`",
)
def iterated_tensor(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for row in a:  # <- E29
        out[0:1, :] = row


# --- views and reshapes ---------------------------------------------------------------------------


@case(
    "E34",
    text="view: shape has 2 dims, offsets 1, input 2. Their size actually are 1 and 2",
    under="pypto.view(a, [16, 32], [0])",
    code="F21004",
    builtin=ValueError,
    fix="give shape and offsets one entry per axis of the input",
)
def ranks_of_a_view(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.view(a, [16, 32], [0])  # <- E34


@case(
    "ranks of a view",
    lambda: (ramp().reshape(2, 2, 4, 32), blank(4, 32)),
    text="view: shape has 2 dims, offsets 4, input 4. Their size actually are 4 and 2",
    under="pypto.view(a, [4, 32], [b, 0, 0, 0])",
    code="F21004",
    builtin=ValueError,
    fix=(
        "take a view of rank 4, `pypto.view(t, [1, 1, 4, 32], […])`, and reshape it to [4, 32]; "
        "or reshape the input first"
    ),
)
def offsets_of_the_input_and_not_of_the_view(a: F32, out: F32):
    pypto.set_vec_tile_shapes(4, 32)
    for b in pypto.loop(2):
        state = pypto.view(a, [4, 32], [b, 0, 0, 0])  # <- ranks of a view
        out[:] = state + 1.0


@case(
    "E35 value",
    text=(
        "View operation failed: newValidShapes cannot exceed original tensor's shape at "
        "dimension 0: valid_shape 9 reaches past the view's 8"
    ),
    under="pypto.view(a, [8, 32], [0, 0], valid_shape=[9, 32])",
    code="F00008",
    builtin=IndexError,
    fix="give at most 8, or leave valid_shape out: a view that overhangs is cut by itself",
)
def valid_shape_past_the_view(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = pypto.view(a, [8, 32], [0, 0], valid_shape=[9, 32])  # <- E35 value


@case(
    "E35 data",
    text=(
        "View operation failed: newValidShapes cannot exceed original tensor's shape at "
        "dimension 0: valid_shape 8 reaches past the 4 left of the data"
    ),
    under="pypto.view(a, [8, 32], [12, 0], valid_shape=[8, 32])",
    code="F00008",
    builtin=IndexError,
    fix="give at most 4, or leave valid_shape out: a view that overhangs is cut by itself",
)
def valid_shape_past_the_data(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = pypto.view(a, [8, 32], [12, 0], valid_shape=[8, 32])  # <- E35 data


@case(
    "E35 rank",
    text=(
        "View operation failed: newValidShapes dimension count must match the input: got 1 for "
        "rank 2"
    ),
    under="pypto.view(a, [8, 32], [0, 0], valid_shape=[8])",
    code="F00002",
    builtin=ValueError,
    fix="give valid_shape one entry per axis",
)
def valid_shape_of_another_rank(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:8, :] = pypto.view(a, [8, 32], [0, 0], valid_shape=[8])  # <- E35 rank


@case(
    "E32",
    text=(
        "Reshape(Inplace=true) is not supported for tensors derived from dynamic view. Please "
        "set inplace=false or do not pass valid_shape."
    ),
    under="pypto.reshape(a, [512], valid_shape=[32], inplace=True)",
    code="F00002",
    builtin=ValueError,
    fix="leave valid_shape out",
)
def reshape_in_place_with_valid_shape(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    flat = pypto.reshape(a, [512], valid_shape=[32], inplace=True)  # <- E32
    out[0:1, :] = flat[0:32].reshape([1, 32])


@case(
    "E33",
    text=(
        "Invalid dstshape [16, 31]: Shape size not match: [16, 32] has 512 elements, the new "
        "shape 496"
    ),
    under="a.reshape([16, 31])",
    code="F00002",
    builtin=ValueError,
    fix="`pypto.reshape(t, [512])`, or other extents whose product is 512",
)
def reshape_to_another_count(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.reshape([16, 31])  # <- E33


# --- assemble -------------------------------------------------------------------------------------


@case(
    "E36 rank",
    text="Assemble: src and dest requires same shape size: rank 1 vs 2",
    under="pypto.assemble(a.reshape([512]), [0, 0], out)",
    code="F00002",
    builtin=ValueError,
    fix="reshape to [1,512]: t.reshape([1,512])",
)
def assemble_of_another_rank(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.assemble(a.reshape([512]), [0, 0], out)  # <- E36 rank


@case(
    "E36 offsets",
    text=(
        "Assemble: dynOffset and dest requires same shape size: 1 offsets for a destination of "
        "rank 2"
    ),
    under="pypto.assemble(a, [0], out)",
    code="F00002",
    builtin=ValueError,
    fix="give 2 offsets",
)
def assemble_with_too_few_offsets(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.assemble(a, [0], out)  # <- E36 offsets


@case(
    "E36 dtype",
    text="Assemble: src and dest requires same dtype: dtype mismatch DT_FP16 → DT_FP32; cast first",
    under="out.assemble(half, [0, 0])",
    code="F00002",
    builtin=ValueError,
    fix="out.assemble(pypto.cast(half, pypto.DT_FP32), [0, 0])",
)
def assemble_of_another_dtype(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    half = pypto.cast(a, pypto.DT_FP16)
    out.assemble(half, [0, 0])  # <- E36 dtype


@case(
    "E36 format",
    text="Assemble: src and dest requires same format",
    under="pypto.assemble(a, [0, 0], t)",
    code="F00002",
    builtin=ValueError,
    fix="make both tensors with the same format",
)
def assemble_of_another_format(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    t = pypto.tensor([16, 32], DT, "t", pypto.TileOpFormat.TILEOP_NZ)
    pypto.assemble(a, [0, 0], t)  # <- E36 format
    out[:] = a


@case(
    "E36 dynamic",
    text="Assemble: shape of src tensor requires integer extents, got Tensor[a_dim0, 32] DT_FP32",
    under="pypto.assemble(a, [0, 0], out)",
    code="F00002",
    builtin=ValueError,
    fix="take a view with int extents of the source first",
)
def assemble_of_a_dynamic_tensor(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.assemble(a, [0, 0], out)  # <- E36 dynamic


# --- elements -------------------------------------------------------------------------------------


@case(
    "E37 parameter",
    text="Not Int type, got: DT_FP32; only elements of integer tensors can steer a kernel",
    under="a[0, 0]",
    code="F21003",
    builtin=TypeError,
    fix=(
        "pass the number as an int argument or in an integer tensor; in arithmetic with "
        "tensors write `a[0:1, 0:1]`"
    ),
)
def element_of_a_float_parameter(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    n = a[0, 0]  # <- E37 parameter
    out[n : n + 1, :] = a[0:1, :]


@case(
    "E37 local",
    lambda: (torch.arange(4), blank()),
    text="Tensor dtype must be DT_INT32. Got DT_INT64",
    under="t[0]",
    code="F00001",
    builtin=TypeError,
    fix="pypto.cast(t, pypto.DT_INT32)[0]",
)
def element_of_a_local(n: I64, out: F32):
    pypto.set_vec_tile_shapes(16)
    t = pypto.tensor([4], pypto.DT_INT64)
    t[:] = n
    for i in pypto.loop(t[0]):  # <- E37 local
        out[i : i + 1, :] = out[i : i + 1, :] + 1.0


@case(
    "E38",
    text="Tensor dtype must be DT_INT32. Got DT_FP32",
    under="out[0, 0]",
    code="F00001",
    builtin=TypeError,
    fix="write a tile instead: `t[0:1, 0:1] = v`",
)
def element_into_a_float_tensor(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0, 0] = 3  # <- E38


@case(
    "E39",
    lambda: (ints(1, 2), ints(0, 0)),
    text="add(): float scalar incompatible with integer tensor dtype DT_INT32",
    under="n + 1.5",
    code="F00001",
    builtin=TypeError,
    fix="write 1, or cast the tensor: `pypto.cast(t, pypto.DT_FP32)`",
)
def float_beside_an_integer_tensor(n: I32, out: I32):
    pypto.set_vec_tile_shapes(16)
    out[:] = n + 1.5  # <- E39


# --- operands -------------------------------------------------------------------------------------


@case(
    "E30",
    text=(
        "mul(): Dynamic shape tensors are not allowed as operation operands. Use view in "
        "pypto.loop to get static shape tensors before computation. Got Tensor[a_dim0, 32] "
        "DT_FP32"
    ),
    under="a * 2.0",
    code="F0000A",
    builtin=ValueError,
    fix="compute on `pypto.view(t, [64, 32], [i * 64, 0])` inside a `pypto.loop` over i",
)
def dynamic_operand(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:16, :] = a * 2.0  # <- E30


@case(
    "E40 rank",
    lambda: (ramp(), ramp().reshape(2, 8, 32), blank()),
    text="Tensor dimension mismatch: matmul() got an input of rank 2 and a mat2 of rank 3",
    under="pypto.matmul(a, b, DT)",
    code="F00003",
    builtin=RuntimeError,
    fix="bring both to one rank with `pypto.reshape`",
)
def matmul_of_another_rank(a: F32, b: F32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:] = pypto.matmul(a, b, DT)  # <- E40 rank


@case(
    "E40 K",
    text=(
        "Matrix K dimension mismatch: 32 in input [16, 32] and 16 in mat2 [16, 32] "
        "(a_trans=False, b_trans=False)"
    ),
    under="pypto.matmul(a, a, DT)",
    code="F0000B",
    builtin=ValueError,
    fix="pypto.matmul(a, a, DT, b_trans=True)",
)
def matmul_of_another_k(a: F32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:] = pypto.matmul(a, a, DT)  # <- E40 K


@case(
    "E40 valid K",
    text="K-dimension valid shape mismatch. input is valid to 20 and mat2 to 24 of 32",
    under="pypto.matmul(left, right, DT, b_trans=True)",
    code="F00003",
    builtin=RuntimeError,
    fix="give both views the same valid_shape on the K axis",
)
def matmul_of_another_valid_k(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    left = pypto.view(a, [16, 32], [0, 0], valid_shape=[16, 20])
    right = pypto.view(a, [16, 32], [0, 0], valid_shape=[16, 24])
    out[:, 0:16] = pypto.matmul(left, right, DT, b_trans=True)  # <- E40 valid K


@case(
    "E41",
    lambda: (torch.arange(256, dtype=torch.int32).reshape(16, 16), blank()),
    text="matmul(): unsupported dtype DT_INT32 for the operator @",
    under="n @ n",
    code="F00003",
    builtin=RuntimeError,
    fix="cast to DT_FP16, DT_BF16 or DT_FP32 first",
)
def matmul_operator_on_integers(n: I32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:] = n @ n  # <- E41


# --- names and attributes -------------------------------------------------------------------------


@case(
    "E42 types",
    text="Conflicted var t: `t` has different types in the two branches (Tensor[16,32] / int)",
    under="t * 2.0",
    code="F00001",
    builtin=TypeError,
    fix="bind `t` to the same kind of value on every path, or use two names",
)
def name_of_two_types(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    if a.shape[0] > 4:
        t = a[0:16, :] + 1.0
    else:
        t = 3
    out[0:16, :] = t * 2.0  # <- E42 types


@case(
    "E42 shapes",
    text=(
        "Conflicted var t: `t` has different types in the two branches (Tensor[16,32] / "
        "Tensor[8,32])"
    ),
    under="pypto.exp(t)",
    code="F00001",
    builtin=TypeError,
    fix="bind `t` to the same kind of value on every path, or use two names",
)
def name_of_two_shapes(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    if a.shape[0] > 4:
        t = a[0:16, :] + 1.0
    else:
        t = a[0:8, :] + 1.0
    out[0:16, :] = pypto.exp(t)  # <- E42 shapes


@case(
    "E48",
    text="Tensor object has no attribute expp; did you mean `exp`?",
    under="a.expp",
    code="F0FFFF",
    builtin=AttributeError,
    fix="a.exp",
)
def unknown_attribute(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.expp()  # <- E48


@case(
    "T",
    text="Tensor object has no attribute T",
    under="a.T",
    code="F0FFFF",
    builtin=AttributeError,
    fix="`pypto.transpose(a, 0, 1)`, or in `pypto.matmul` `a_trans=True`, `b_trans=True`",
)
def transposed_by_attribute(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + a.T  # <- T


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_mistake(one):
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
