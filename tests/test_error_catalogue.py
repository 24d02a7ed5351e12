"""The catalogue of misuses of the language: each with its exact error.

In: one kernel per misuse, under its number.  Out: class, code, sentence, line, column, way out.
Misuses that the language has since made legal are tested where they are used.  It has more than
600 lines because each misuse needs a kernel of its own.
"""

import numpy as np
import pytest
import torch
from exact_errors import blank, cases, ints, ramp

import pypto

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)
F16 = P([], pypto.DT_FP16)
I32 = P([], pypto.DT_INT32)
I64 = P([], pypto.DT_INT64)
ROWS = P([pypto.DYNAMIC, 32], DT)

case, CASES = cases()


def numbers(*shape):
    return lambda: (torch.arange(int(np.prod(shape)), dtype=torch.int32).reshape(shape), blank())


@case(
    "E17 none",
    text="loop() takes 1 to 3 positional arguments but 0 were given",
    under="pypto.loop()",
    code="F00001",
    builtin=TypeError,
    fix="pypto.loop(stop), pypto.loop(start, stop) or pypto.loop(start, stop, step)",
)
def loop_without_bounds(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop():  # <- E17 none
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E17 four",
    text="loop() takes 1 to 3 positional arguments but 4 were given",
    under="pypto.loop(0, 4, 1, 2)",
    code="F00001",
    builtin=TypeError,
    fix="pypto.loop(stop), pypto.loop(start, stop) or pypto.loop(start, stop, step)",
)
def loop_with_four_bounds(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, 4, 1, 2):  # <- E17 four
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E18 float",
    text="Invalid value type: a loop bound must be int or symbolic scalar, got float (2.5)",
    under="pypto.loop(2.5)",
    code="F21004",
    builtin=ValueError,
    fix="divide with `//` or pypto.ceildiv(n, tile)",
)
def loop_over_a_float(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2.5):  # <- E18 float
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E18 none",
    text="Invalid value type: a loop bound must be int or symbolic scalar, got NoneType (None)",
    under="pypto.loop(None)",
    code="F21004",
    builtin=ValueError,
    fix="pass the bound as an int argument of the kernel",
)
def loop_over_nothing(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(None):  # <- E18 none
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E18 step",
    text="Invalid value type: the step of loop() is 0",
    under="pypto.loop(0, 4, 0)",
    code="F21004",
    builtin=ValueError,
    fix="a step is positive or negative",
)
def loop_with_step_zero(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, 4, 0):  # <- E18 step
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E19",
    text="unroll factor 0 must be a positive integer",
    under="pypto.loop(4, unroll_list=[2, 0])",
    code="F00002",
    builtin=ValueError,
    fix="unroll_list=[4, 2, 1]",
)
def unroll_factor_zero(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(4, unroll_list=[2, 0]):  # <- E19
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E20 range",
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
    for i in range(a.shape[0]):  # <- E20 range
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E20 list",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="[1.0, 2.0][i]",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def list_by_a_symbol(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2):
        out[i : i + 1, :] = a[i : i + 1, :] * [1.0, 2.0][i]  # <- E20 list


@case(
    "E20 int",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="int(a.shape[0])",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def int_of_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = int(a.shape[0])  # <- E20 int
    out[0:n, :] = a[0:n, :]


@case(
    "E20 bool",
    text=(
        "Cannot convert symbols to int (Not concrete value: 'SymbolicScalar' object cannot be "
        "interpreted as an integer)"
    ),
    under="bool(a.shape[0] > 4)",
    code="F21004",
    builtin=ValueError,
    fix=(
        "keep it symbolic: loop with pypto.loop, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def bool_of_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    flag = bool(a.shape[0] > 4)  # <- E20 bool
    out[0:16, :] = a[0:16, :] * flag


@case(
    "E21 float",
    text="Invalid type. A symbolic integer goes with ints and symbolic integers, got float",
    under="a.shape[0] + 1.5",
    code="F00001",
    builtin=TypeError,
    fix="use an int; pypto.ceildiv(n, tile) counts the tiles, the last one included",
)
def symbol_plus_a_float(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = a.shape[0] + 1.5  # <- E21 float
    out[n : n + 16, :] = a[0:16, :]


@case(
    "E21 none",
    text="Invalid type. A symbolic integer goes with ints and symbolic integers, got NoneType",
    under="a.shape[0] == None",
    code="F00001",
    builtin=TypeError,
    fix="compare with None by `is`",
)
def symbol_beside_none(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    if a.shape[0] == None:  # <- E21 none
        out[0:16, :] = a[0:16, :]


@case(
    "E22 division",
    text="Division or Mod by zero.",
    under="a.shape[0] // 0",
    code="F00002",
    builtin=ValueError,
    fix="divide by a number other than 0",
)
def symbol_divided_by_zero(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = a.shape[0] // 0  # <- E22 division
    out[n : n + 16, :] = a[0:16, :]


@case(
    "E22 remainder",
    text="Division or Mod by zero.",
    under="a.shape[0] % 0",
    code="F00002",
    builtin=ValueError,
    fix="divide by a number other than 0",
)
def symbol_modulo_zero(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = a.shape[0] % 0  # <- E22 remainder
    out[n : n + 16, :] = a[0:16, :]


@case(
    "E23",
    text=(
        "Not concrete value: the extent of slice 0 is `a_dim0`; it must be known when the kernel "
        "is traced"
    ),
    under="a[0:n, :]",
    code="F21004",
    builtin=ValueError,
    fix=(
        "slice a constant extent, t[o:o + 64]; limit the tail with pypto.view(t, [64, …], [o, "
        "…]), which cuts itself, or valid_shape"
    ),
)
def symbolic_extent_of_a_slice(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = a.shape[0]
    out[0:16, :] = a[0:n, :] + 1.0  # <- E23


@case(
    "E24 read",
    text="step must be 1 or None, got 2",
    under="a[0:16:2, :]",
    code="F00002",
    builtin=ValueError,
    fix="take a view and pick elements with pypto.gather",
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
    fix="assemble the rows one by one in a loop",
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
    fix="pypto.full([16, 32], 3.0, pypto.DT_FP32)",
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
    fix="loop over an axis: for i in pypto.loop(t.shape[0]): row = t[i:i + 1, :]",
)
def iterated_tensor(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for row in a:  # <- E29
        out[0:1, :] = row


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
    fix="compute on pypto.view(t, [64, 32], [i * 64, 0]) inside a pypto.loop over i",
)
def dynamic_operand(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:16, :] = a * 2.0  # <- E30


@case(
    "E31",
    text=(
        "reshape() requires integer shape when using non-inplace reshape, but got "
        "[SymbolicScalar]. Use 'inplace=True' for dynamic shapes."
    ),
    under="pypto.reshape(a[0:16, :], [a.shape[0] * 32])",
    code="F00001",
    builtin=TypeError,
    fix="pypto.reshape(t, shape, inplace=True), or give int extents",
)
def reshape_to_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    flat = pypto.reshape(a[0:16, :], [a.shape[0] * 32])  # <- E31
    out[0:1, :] = flat[0:32].reshape([1, 32])


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
    fix="pypto.reshape(t, [512]), or other extents whose product is 512",
)
def reshape_to_another_count(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.reshape([16, 31])  # <- E33


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
    fix="pypto.cast(t, pypto.DT_FP32)",
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


@case(
    "E37 parameter",
    text="Not Int type, got: DT_FP32; only elements of integer tensors can steer a kernel",
    under="a[0, 0]",
    code="F21003",
    builtin=TypeError,
    fix="pass the number as an int argument, or keep it in a tensor: t[0:1, 0:1]",
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
    fix="cast first: pypto.cast(t, pypto.DT_INT32)",
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
    fix="write a tile instead: t[0:1, 0:1] = v",
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
    fix="write 1, or cast the tensor: pypto.cast(t, pypto.DT_FP32)",
)
def float_beside_an_integer_tensor(n: I32, out: I32):
    pypto.set_vec_tile_shapes(16)
    out[:] = n + 1.5  # <- E39


@case(
    "E40 rank",
    lambda: (ramp(), ramp().reshape(2, 8, 32), blank()),
    text="Tensor dimension mismatch: matmul() got an input of rank 2 and a mat2 of rank 3",
    under="pypto.matmul(a, b, DT)",
    code="F00003",
    builtin=RuntimeError,
    fix="bring both to one rank with pypto.reshape",
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
    fix="b_trans=True",
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
    numbers(16, 16),
    text="matmul(): unsupported dtype DT_INT32 for the operator @",
    under="n @ n",
    code="F00003",
    builtin=RuntimeError,
    fix="cast to DT_FP16, DT_BF16 or DT_FP32 first",
)
def matmul_operator_on_integers(n: I32, out: F32):
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
    out[:] = n @ n  # <- E41


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
    "E45 unknown",
    text=(
        "key: pass.pg_lower_bond does not exist (unexpected keyword argument 'pg_lower_bond'); "
        "did you mean 'pg_lower_bound'?"
    ),
    under="pypto.set_pass_options(pg_lower_bond=1)",
    code="F00001",
    builtin=TypeError,
    fix=(
        "use one of vec_nbuffer_setting, cube_l1_reuse_setting, cube_nbuffer_setting, "
        "sg_set_scope, sg_set_ooo_scope, ooo_sched_mode, auto_mix_partition, sg_set_tunevf_mode, "
        "enable_slice, pg_lower_bound, pg_parallel_lower_bound, mg_copyin_upper_bound, "
        "mg_vec_parallel_lb, copyout_resolve_coalescing, pg_partition_algorithm"
    ),
)
def unknown_option(a: F32, out: F32):
    pypto.set_pass_options(pg_lower_bond=1)  # <- E45 unknown
    out[:] = a


@case(
    "E45 range",
    text=(
        "CHECK FAILED. Option: pass.mg_vec_parallel_lb, its value doesn't within the value "
        "range: 100 is not 1..48"
    ),
    under="pypto.set_pass_options(mg_vec_parallel_lb=100)",
    code="F00002",
    builtin=ValueError,
    fix="give a value of 1..48",
)
def option_out_of_range(a: F32, out: F32):
    pypto.set_pass_options(mg_vec_parallel_lb=100)  # <- E45 range
    out[:] = a


@case(
    "E48",
    text="Tensor object has no attribute expp; did you mean `exp`?",
    under="a.expp",
    code="F0FFFF",
    builtin=AttributeError,
    fix="t.exp(…)",
)
def unknown_attribute(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.expp()  # <- E48


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_misuse(one):
    one.check()
