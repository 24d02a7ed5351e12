"""Misspelt names: what was most likely meant, in the sentence and as the way out.

In: ops, methods, attributes, keywords and options that do not exist.  Out: the name that does, and
a kernel that is traced on as if it had been written.
"""

import pytest
from exact_errors import blank, cases, line_of, ramp

import pypto

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)
ROWS = P([pypto.DYNAMIC, 32], DT)

case, CASES = cases()


@case(
    "op",
    text="module 'pypto' has no attribute 'sofmax'; did you mean `softmax`?",
    under="pypto.sofmax",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.softmax",
)
def misspelt_op(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.sofmax(a, -1)  # <- op


@case(
    "op by another name",
    text="module 'pypto' has no attribute 'transposed'; did you mean `transpose`?",
    under="pypto.transposed",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.transpose",
)
def op_of_another_library(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.transposed(a, 0, 1)  # <- op by another name


@case(
    "constant",
    text="module 'pypto' has no attribute 'DT_PF32'; did you mean `DT_FP32`?",
    under="pypto.DT_PF32",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.DT_FP32",
)
def misspelt_dtype(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.cast(a, pypto.DT_PF32)  # <- constant


@case(
    "loop",
    text="module 'pypto' has no attribute 'lop'; did you mean `loop`?",
    under="pypto.lop",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.loop",
)
def misspelt_loop(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.lop(4):  # <- loop
        out[i : i + 1, :] = a[i : i + 1, :]


@case(
    "setter",
    text=(
        "module 'pypto' has no attribute 'set_vec_tile_shape'; did you mean `set_vec_tile_shapes`?"
    ),
    under="pypto.set_vec_tile_shape",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.set_vec_tile_shapes",
)
def misspelt_setter(a: F32, out: F32):
    pypto.set_vec_tile_shape(16, 32)  # <- setter
    out[:] = a + 1.0


@case(
    "number",
    text="module 'pypto' has no attribute 'celdiv'; did you mean `ceildiv`?",
    under="pypto.celdiv",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.ceildiv",
)
def misspelt_function_of_numbers(a: ROWS, out: ROWS):
    pypto.set_vec_tile_shapes(16, 32)
    for i in pypto.loop(pypto.celdiv(a.shape[0], 16)):  # <- number
        pypto.assemble(pypto.view(a, [16, 32], [i * 16, 0]), [i * 16, 0], out)


@case(
    "nothing near",
    text="module 'pypto' has no attribute 'qqqqqqqq'",
    under="pypto.qqqqqqqq",
    code="F0FFFF",
    builtin=AttributeError,
    fix="`dir(pypto)` lists what there is",
)
def unknown_op(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.qqqqqqqq(a)  # <- nothing near


@case(
    "method",
    text="Tensor object has no attribute reshap; did you mean `reshape`?",
    under="a.reshap",
    code="F0FFFF",
    builtin=AttributeError,
    fix="a.reshape",
)
def misspelt_method(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.reshap([512]).rehsape([16, 32])  # <- method


@case(
    "property",
    text="Tensor object has no attribute shpae; did you mean `shape`?",
    under="a.shpae",
    code="F0FFFF",
    builtin=AttributeError,
    fix="a.shape",
)
def misspelt_property(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    rows, cols = a.shpae  # <- property
    out[:] = a.reshape([rows, cols])


@case(
    "function",
    text="Tensor object has no attribute rms_norm",
    under="a.rms_norm",
    code="F0FFFF",
    builtin=AttributeError,
    fix="pypto.rms_norm(a)",
)
def function_as_a_method(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a.rms_norm()  # <- function


@case(
    "mean",
    text="Tensor object has no attribute mean",
    under="a.mean",
    code="F0FFFF",
    builtin=AttributeError,
    fix="a.sum(-1) * (1.0 / a.shape[-1])",
)
def method_of_torch(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a - a.mean(-1)  # <- mean


@case(
    "keyword",
    text="sum() got an unexpected keyword argument 'keepdims'; did you mean `keepdim`?",
    under="keepdims=True",
    code="F00001",
    builtin=TypeError,
    fix="keepdim=True",
)
def misspelt_keyword(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a - a.sum(-1, keepdims=True)  # <- keyword


@case(
    "axis",
    text="amax() got an unexpected keyword argument 'axis'; did you mean `dim`?",
    under="axis=1",
    code="F00001",
    builtin=TypeError,
    fix="dim=1",
)
def keyword_of_numpy(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a - pypto.amax(a, axis=1)  # <- axis


@case(
    "keyword of a function",
    text="view() got an unexpected keyword argument 'validshape'; did you mean `valid_shape`?",
    under="validshape=[16, 32]",
    code="F00001",
    builtin=TypeError,
    fix="valid_shape=[16, 32]",
)
def misspelt_keyword_of_a_function_over_ops(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.view(a, [16, 32], [0, 0], validshape=[16, 32])  # <- keyword of a function


@case(
    "no such keyword",
    text="exp() got an unexpected keyword argument 'qq': there is no `qq`",
    under="qq=1",
    code="F00001",
    builtin=TypeError,
    fix=(
        "leave `qq=` out: the call is `pypto.exp(input, "
        "precision_type=pypto.PrecisionType.INTRINSIC)`"
    ),
)
def keyword_that_no_argument_has(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.exp(a, qq=1)  # <- no such keyword


@case(
    "missing argument",
    text="maximum() missing a required argument: 'other'",
    under="pypto.maximum(a)",
    code="F00001",
    builtin=TypeError,
    fix="pypto.maximum(input, other)",
)
def missing_argument(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = pypto.maximum(a)  # <- missing argument


@case(
    "option of a pass",
    text=(
        "key: pass.pg_lower_bund does not exist (unexpected keyword argument 'pg_lower_bund'); "
        "did you mean 'pg_lower_bound'?"
    ),
    under="pypto.set_pass_options(pg_lower_bund=1)",
    code="F00001",
    builtin=TypeError,
    fix=(
        "use one of vec_nbuffer_setting, cube_l1_reuse_setting, cube_nbuffer_setting, "
        "sg_set_scope, sg_set_ooo_scope, ooo_sched_mode, auto_mix_partition, sg_set_tunevf_mode, "
        "enable_slice, pg_lower_bound, pg_parallel_lower_bound, mg_copyin_upper_bound, "
        "mg_vec_parallel_lb, copyout_resolve_coalescing, pg_partition_algorithm"
    ),
)
def misspelt_option(a: F32, out: F32):
    pypto.set_pass_options(pg_lower_bund=1)  # <- option of a pass
    out[:] = a


@case(
    "group of options",
    text="unexpected keyword argument 'vec_tile_shape'; did you mean 'vec_tile_shapes'?",
    under="with pypto.options(vec_tile_shape=[16, 32]):",
    code="F00001",
    builtin=TypeError,
    fix=(
        "use one of runtime_options, host_options, codegen_options, pass_options, "
        "verify_options, debug_options, operation_options, vec_tile_shapes, cube_tile_shapes"
    ),
)
def misspelt_group(a: F32, out: F32):
    with pypto.options(vec_tile_shape=[16, 32]):  # <- group of options
        out[:] = a + 1.0


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.name)
def test_suggestion(one):
    one.check()


def test_what_was_meant_is_traced_on():
    @pypto.jit
    def kernel(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shape(16, 32)  # <- a
        pypto.full([16, 32], 0.0, pypto.DT_PF32).assemble(a, [0, 0, 0])  # <- e
        for i in pypto.lop(pypto.celdiv(a.shape[0], 16)):  # <- b
            tile = pypto.view(a, [16, 32], [i * 16, 0])
            soft = pypto.sofmax(tile, -1)  # <- c
            rows, cols = soft.shape
            pypto.assemble(soft.reshape([rows * 2, cols]), [0, 0, 0], out)
            pypto.assemble(tile, [0, 0, 0], out)  # <- d

    with pytest.raises(pypto.error.PyptoError) as caught:
        kernel(ramp(), blank())
    lines = [line_of(__file__, mark) for mark in "aeebbcd"]
    assert [f.loc.line for f in caught.value.findings] == lines
    assert [
        f.text.rpartition("; ")[2] for f in caught.value.findings if f.builtin == "AttributeError"
    ] == [
        "did you mean `set_vec_tile_shapes`?",
        "did you mean `DT_FP32`?",
        "did you mean `loop`?",
        "did you mean `ceildiv`?",
        "did you mean `softmax`?",
    ]


def test_outside_of_a_kernel_a_misspelt_name_is_an_attribute_error():
    with pytest.raises(AttributeError) as caught:
        pypto.sofmax  # noqa: B018
    assert caught.value.text == "module 'pypto' has no attribute 'sofmax'; did you mean `softmax`?"
    assert not hasattr(pypto, "sofmax")
    with pytest.raises(ImportError):
        exec("from pypto import sofmax")


def test_options_of_the_decorator():
    @pypto.jit(runtime_options={"run_mod": 0})
    def kernel(a: F32, out: F32):
        out[:] = a

    with pytest.raises(pypto.error.FeError) as caught:
        kernel(ramp(), blank())
    assert caught.value.text == (
        "key: runtime.run_mod does not exist (unexpected keyword argument 'run_mod'); did you "
        "mean 'run_mode'?"
    )
