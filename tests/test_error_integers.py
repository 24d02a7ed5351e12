"""Mistakes with loops, symbolic integers and settings, each with its exact error.

In: one kernel per mistake; a number such as E17 is its place in the catalogue of misuses of the
language, a name that of a row of the table of errors that people search for.  Out: class, code,
sentence, line, column, way out.  Misuses that the language has since made legal are tested where
they are used.
"""

import pytest
from exact_errors import blank, cases, ints, ramp

import pypto

DT = pypto.DT_FP32
F32 = pypto.Tensor([], DT)
I32 = pypto.Tensor([], pypto.DT_INT32)
ROWS = pypto.Tensor([pypto.DYNAMIC, 32], DT)

case, CASES = cases()


# --- loops ----------------------------------------------------------------------------------------


@case(
    "E17 none",
    text="loop() takes 1 to 3 positional arguments but 0 were given",
    under="pypto.loop()",
    code="F00001",
    builtin=TypeError,
    fix="`pypto.loop(stop)`, `pypto.loop(start, stop)` or `pypto.loop(start, stop, step)`",
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
    fix="`pypto.loop(stop)`, `pypto.loop(start, stop)` or `pypto.loop(start, stop, step)`",
)
def loop_with_four_bounds(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, 4, 1, 2):  # <- E17 four
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "E18 float",
    text="Invalid value type: a loop bound must be int or symbolic scalar, got float (4.0)",
    under="pypto.loop(a.shape[0] / 4)",
    code="F21004",
    builtin=ValueError,
    fix="divide with `//` or `pypto.ceildiv(n, tile)`",
)
def loop_over_a_float(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(a.shape[0] / 4):  # <- E18 float
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
    "loop over a tensor",
    lambda: (ints(3), ramp(), blank()),
    text=(
        "Invalid value type: a loop bound must be int or symbolic scalar, got a Tensor; read an "
        "element: `t[0]`"
    ),
    under="pypto.loop(0, n, 1)",
    code="F21004",
    builtin=ValueError,
    fix="`n = t[0]` with an integer tensor, then `pypto.loop(n)`",
)
def loop_over_a_tensor(n: I32, a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, n, 1):  # <- loop over a tensor
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
    "factors",
    text="unroll_list takes a list of ints, got int",
    under="pypto.loop_unroll(16, unroll_list=4)",
    code="F00001",
    builtin=TypeError,
    fix="unroll_list=[4, 2, 1]",
)
def unroll_list_that_is_none(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i, k in pypto.loop_unroll(16, unroll_list=4):  # <- factors
        out[i : i + k, :] = a[i : i + k, :]


@case(
    "keyword",
    text="loop() got an unexpected keyword argument 'paralel'; did you mean `parallel`?",
    under="paralel=True",
    code="F00001",
    builtin=TypeError,
    fix="parallel=True",
)
def misspelt_keyword_of_a_loop(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(16, paralel=True):  # <- keyword
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "keyword of groups",
    text="loop_unroll() got an unexpected keyword argument 'unrol_list'; did you mean "
    "`unroll_list`?",
    under="unrol_list=[4]",
    code="F00001",
    builtin=TypeError,
    fix="unroll_list=[4]",
)
def misspelt_keyword_of_an_unrolled_loop(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i, k in pypto.loop_unroll(16, unrol_list=[4]):  # <- keyword of groups
        out[i : i + k, :] = a[i : i + k, :]


@case(
    "bound by name",
    text="loop() got an unexpected keyword argument 'step': there is no `step`",
    under="step=2",
    code="F00001",
    builtin=TypeError,
    fix="by position: pypto.loop(start, stop, step)",
)
def bound_of_a_loop_by_name(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(0, 16, step=2):  # <- bound by name
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "cond float",
    text="Invalid value type: cond() takes an int or a symbolic scalar, got float",
    under="pypto.cond(1.5)",
    code="F00002",
    builtin=ValueError,
    fix="compare integers: `pypto.cond(i == 0)`",
)
def condition_on_a_float(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    if pypto.cond(1.5):  # <- cond float
        out[:] = a


@case(
    "cond tensor",
    text="Invalid value type: cond() takes an int or a symbolic scalar, got Tensor",
    under="pypto.cond(a > 0.0)",
    code="F00002",
    builtin=ValueError,
    fix="read one integer element: `pypto.cond(t[0] > 0)`",
)
def condition_on_a_tensor(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    if pypto.cond(a > 0.0):  # <- cond tensor
        out[:] = a


@case(
    "cond file",
    text="file and lineno must be provided together or omitted",
    under="pypto.cond(1, file=__file__)",
    code="F00002",
    builtin=ValueError,
    fix="pypto.cond(i == 0)",
)
def condition_with_a_file_and_no_line(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    if pypto.cond(1, file=__file__):  # <- cond file
        out[:] = a


# --- symbols where Python needs a number ----------------------------------------------------------


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
        "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
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
        "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
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
        "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def int_of_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = int(a.shape[0])  # <- E20 int
    out[0:n, :] = a[0:n, :]


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
        "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def int_of_an_index(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(2):
        row = int(i)  # <- int of a symbol
        out[row : row + 1, :] = a[row : row + 1, :]


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
        "keep it symbolic: loop with `pypto.loop`, index tensors (not lists) with it, or pass the "
        "number to the kernel as an int argument"
    ),
)
def bool_of_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    flag = bool(a.shape[0] > 4)  # <- E20 bool
    out[0:16, :] = a[0:16, :] * flag


# --- operators of symbols -------------------------------------------------------------------------


@case(
    "E21 float",
    text="Invalid type. A symbolic integer goes with ints and symbolic integers, got float",
    under="a.shape[0] + 1.5",
    code="F00001",
    builtin=TypeError,
    fix="use an int; `pypto.ceildiv(n, tile)` counts the tiles, the last one included",
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


# --- symbols where a size must be known -----------------------------------------------------------


@case(
    "E23",
    text=(
        "Not concrete value: the extent of slice 0 is `a_dim0`; it must be known when the kernel "
        "is traced"
    ),
    under="a[0:n, :]",
    code="F21004",
    builtin=ValueError,
    fix="a[0:64, :]",
)
def symbolic_extent_of_a_slice(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    n = a.shape[0]
    out[0:16, :] = a[0:n, :] + 1.0  # <- E23


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
    fix="pypto.view(a, [3, 32], [0, 0], valid_shape=[i, 32])",
)
def symbolic_view_shape(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(1, 4):
        tile = pypto.view(a, [i, 32], [0, 0])  # <- symbolic view shape
        pypto.assemble(tile + 1.0, [0, 0], out)


@case(
    "E31",
    text=(
        "reshape() requires integer shape when using non-inplace reshape, but got "
        "[SymbolicScalar]. Use 'inplace=True' for dynamic shapes."
    ),
    under="pypto.reshape(a[0:16, :], [a.shape[0] * 32])",
    code="F00001",
    builtin=TypeError,
    fix="`pypto.reshape(t, shape, inplace=True)`, or give int extents",
)
def reshape_to_a_symbol(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    flat = pypto.reshape(a[0:16, :], [a.shape[0] * 32])  # <- E31
    out[0:1, :] = flat[0:32].reshape([1, 32])


# --- tiles and options ----------------------------------------------------------------------------


@case(
    "tile not set",
    text="tile shape not set for add; call set_vec_tile_shapes() at the start of the kernel",
    under="a + 1.0",
    code="F21004",
    builtin=ValueError,
    fix="pypto.set_vec_tile_shapes(32, 64)",
)
def tile_not_set(a: F32, out: F32):
    out[:] = a + 1.0  # <- tile not set


@case(
    "cube tile not set",
    text="tile shape not set for matmul; call set_cube_tile_shapes() at the start of the kernel",
    under="pypto.matmul(a, a, pypto.DT_FP32, b_trans=True)",
    code="F21004",
    builtin=ValueError,
    fix="pypto.set_cube_tile_shapes([64, 64], [64, 64], [64, 64])",
)
def cube_tile_not_set(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[0:16, 0:16] = pypto.matmul(a, a, pypto.DT_FP32, b_trans=True)  # <- cube tile not set


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


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_mistake(one):
    one.check()


def test_kernel_is_traced_on_behind_an_unknown_keyword():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        for i in pypto.loop(16, paralel=True, unrol_list=[2]):
            out[i : i + 1, :] = a[i : i + 1, :].sum(5)

    with pytest.raises(pypto.error.PyptoError) as caught:
        kernel(ramp(), blank())
    assert [f.text for f in caught.value.findings] == [
        "loop() got an unexpected keyword argument 'paralel'; did you mean `parallel`?",
        "loop() got an unexpected keyword argument 'unrol_list'; did you mean `unroll_list`?",
        "sum(): dim=5 is no axis of a tensor of rank 2; allowed -2..1",
    ]


def test_keywords_that_a_loop_has():
    @pypto.jit
    def kernel(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        names = {"name": "rows", "idx_name": "row", "submit_before_loop": True}
        for i, k in pypto.loop_unroll(0, 8, 1, **names, unroll_list=(4, 2), parallel=True):
            out[i : i + k, :] = a[i : i + k, :]
        for i in pypto.loop(8, 16, **names, unroll_list=None, parallel=False):
            if pypto.cond(i > 3, __file__, 1):
                out[i : i + 1, :] = a[i : i + 1, :]

    out = blank()
    kernel(ramp(), out)
    assert (out == ramp()).all()
