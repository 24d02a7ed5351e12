"""Mistakes of declaration, and of public functions outside of a kernel, each with its exact error.

In: one wrong annotation, signature, decorator or call on the host.  Out: class, code, sentence, way
out, the line, and what is underlined there; and that no frame of the package shows.
"""

import traceback

import pytest
import torch
from exact_errors import blank, ramp, refused

import pypto
from pypto import errors
from pypto.ir import options

P, DT = pypto.Tensor, pypto.DT_FP32
F32 = P([], DT)


@pypto.jit
def kernel(a: F32, out: F32, scale: float = 1.0):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * scale


def findings(call):
    """All that a call is answered with."""
    with pytest.raises(pypto.error.PyptoError) as caught:
        call()
    return caught.value.findings


def test_jit_on_a_class_E1():
    class Thing:
        pass

    refused(
        lambda: pypto.jit(Thing),  # <- E1
        "E1",
        "jit decorator can only be used on functions, got type",
        under="pypto.jit(Thing)",
        code="F00001",
        builtin=TypeError,
        fix="decorate a plain function: `@pypto.frontend.jit` above `def kernel(x, out):`",
    )


def test_decorator_above_a_class_E1():
    def declare():
        @pypto.jit  # <- E1 above
        class Thing:
            pass

    refused(
        declare,
        "E1 above",
        "jit decorator can only be used on functions, got type",
        under="pypto.jit",
        code="F00001",
        builtin=TypeError,
        fix="decorate a plain function: `@pypto.frontend.jit` above `def kernel(x, out):`",
    )


async def asynchronous(a: F32):
    pass


def yielding(a: F32):
    yield a


async def asynchronous_and_yielding(a: F32):
    yield a


@pytest.mark.parametrize(
    ("function", "fix"),
    [
        (asynchronous, "write `def`, without `async`"),
        (yielding, "leave `yield` out; results are written into a parameter: out[:] = t"),
        (asynchronous_and_yielding, "write `def`, without `async` and `yield`"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_function_that_is_not_plain(function, fix):
    refused(
        lambda: pypto.jit(function),  # <- not plain
        "not plain",
        f"kernel `{function.__name__}` must be a plain function, without async or yield",
        under="pypto.jit(function)",
        code="F00001",
        builtin=TypeError,
        fix=fix,
    )


def test_tensor_behind_a_number_E2():
    def declare():
        @pypto.jit
        def function(
            n: int,
            a: F32,  # <- E2
        ):
            pass

    refused(
        declare,
        "E2",
        "Non-tensor parameters must come after all tensor parameters. Found tensor parameter 'a' "
        "after non-tensor parameter(s).",
        under="a: F32",
        code="F00002",
        builtin=ValueError,
        fix="move `a` before `n`",
    )


def test_starred_parameter():
    refused(
        lambda: pypto.jit(lambda a, *more: None),  # <- starred
        "starred",
        "vararg and kwarg not supported: `more` of kernel `<lambda>`",
        under="more",
        code="F0FFFF",
        builtin=SyntaxError,
        fix="name each parameter; helpers may take *args and **kwargs",
    )


def test_all_that_is_wrong_with_a_signature_is_told():
    def function(n: int, a: F32, *args, b: F32, **kwargs):
        pass

    told = findings(lambda: pypto.jit(function))
    assert [(f.builtin, f.text.partition("parameter '")[2][:1]) for f in told] == [
        ("ValueError", "a"),
        ("SyntaxError", ""),
        ("ValueError", "b"),
        ("SyntaxError", ""),
    ]


def test_quoted_annotation_is_read_where_it_stands():
    def declare():
        @pypto.jit
        def function(a: "pypto.Tensor((pypto.STATIC, 4))", n: "no.such.name" = 1):  # <- quoted
            pass

    refused(
        declare,
        "quoted",
        "Invalid value type: <StatusType.STATIC: 'static'> is no dim of a shape",
        under='"pypto.Tensor((pypto.STATIC, 4))"',
        code="F00002",
        builtin=ValueError,
        fix="dims are ints, `pypto.DYNAMIC`, `pypto.STATIC`, a `pypto.SymbolicScalar` or, last, "
        "`...`, in a list",
    )


def test_quoted_annotation_that_is_misspelt():
    def declare():
        @pypto.jit
        def function(a: "pypto.Tensro([], DT)"):  # <- misspelt
            pass

    refused(
        declare,
        "misspelt",
        "module 'pypto' has no attribute 'Tensro'; did you mean `Tensor`?",
        under='"pypto.Tensro([], DT)"',
        code="F0FFFF",
        builtin=AttributeError,
        fix="pypto.Tensor",
    )


def test_what_a_kernel_says_to_return_is_not_read():
    @pypto.jit
    def function(a: F32, out: F32) -> "pypto.Tensro":
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    out = blank()
    function(ramp(), out)
    assert torch.equal(out, ramp() + 1)


def test_run_mode_E3():
    refused(
        lambda: pypto.jit(runtime_options={"run_mode": 7})(lambda a: None),  # <- E3
        "E3",
        "Invalid run mode, run mode must be RunMode.NPU or RunMode.SIM, got 7.",
        under='pypto.jit(runtime_options={"run_mode": 7})',
        code="F00003",
        builtin=RuntimeError,
        fix='runtime_options={"run_mode": pypto.RunMode.NPU}',
    )


def test_options_that_are_no_dict():
    refused(
        lambda: pypto.jit(pass_options=["enable_slice"]),  # <- no dict
        "no dict",
        "pass_options takes a dict, got list",
        under='pypto.jit(pass_options=["enable_slice"])',
        code="F00001",
        builtin=TypeError,
        fix='pass_options={"vec_nbuffer_setting": …}',
    )


def test_misspelt_keyword_of_the_decorator():
    def declare():
        @pypto.frontend.jit(runtime_option={"run_mode": 0})  # <- runtime_option
        def function(a: F32):
            pass

    refused(
        declare,
        "runtime_option",
        "jit() got an unexpected keyword argument 'runtime_option'; did you mean "
        "`runtime_options`?",
        under='runtime_option={"run_mode": 0}',
        code="F00001",
        builtin=TypeError,
        fix='runtime_options={"run_mode": 0}',
    )


def test_keyword_of_the_decorator_that_resembles_none():
    refused(
        lambda: pypto.jit(grid=4),  # <- grid
        "grid",
        "jit() got an unexpected keyword argument 'grid': there is no `grid`",
        under="grid=4",
        code="F00001",
        builtin=TypeError,
        fix="leave `grid=` out: there are func, host_options, codegen_options, pass_options, "
        "runtime_options, verify_options, debug_options, new_ir, create_new_logical_tensor",
    )


def test_options_by_position():
    refused(
        lambda: pypto.jit(lambda a: None, {"run_mode": 0}),  # <- by position
        "by position",
        "jit() too many positional arguments",
        under='pypto.jit(lambda a: None, {"run_mode": 0})',
        code="F00001",
        builtin=TypeError,
        fix="pypto.jit(func=None, host_options=None, codegen_options=None, pass_options=None, "
        "runtime_options=None, verify_options=None, debug_options=None, new_ir=True, "
        "create_new_logical_tensor=False)",
    )


def test_key_of_an_option_stands_at_the_decorator():
    @pypto.jit(pass_options={"pg_lower_bond": 1})  # <- key
    def function(a: F32, out: F32):
        out[:] = a

    refused(
        lambda: function(ramp(), blank()),
        "key",
        "key: pass.pg_lower_bond does not exist (unexpected keyword argument 'pg_lower_bond'); "
        "did you mean 'pg_lower_bound'?",
        under='pypto.jit(pass_options={"pg_lower_bond": 1})',
        code="F00001",
        builtin=TypeError,
        fix=f"use one of {', '.join(options.OPTIONS['pass'])}",
    )


@pytest.mark.parametrize("shape", [(pypto.STATIC, 4), ["4", 4]], ids=["tuple", "string"])
def test_dims_of_an_annotation_E13(shape):
    refused(
        lambda: P(shape, DT),  # <- E13
        "E13",
        f"Invalid value type: {shape[0]!r} is no dim of a shape",
        under="P(shape, DT)",
        code="F00002",
        builtin=ValueError,
        fix="dims are ints, `pypto.DYNAMIC`, `pypto.STATIC`, a `pypto.SymbolicScalar` or, last, "
        "`...`, in a list",
    )


@pytest.mark.parametrize(
    "declare",
    [
        lambda: pypto.jit(kernel),
        lambda: pypto.jit(grid=4),
        lambda: pypto.jit(lambda n, *a: None),
        lambda: P(4, DT),
        lambda: P[4.5],
        lambda: P([16, 32], dtyp=DT),
        lambda: pypto.frontend.dynamic(4),
        lambda: pypto.symbolic_scalar(4.5),
        lambda: pypto.symbolic_scalar("n") + 1.5,
        lambda: pypto.symbolic_scalar("n") // 0,
        lambda: pypto.min(1.5, 2),
        lambda: pypto.ceildiv(4, 0),
        lambda: int(pypto.symbolic_scalar("n")),
        lambda: pypto.element(1.0, DT),
        lambda: pypto.bytes_of("fp32"),
        lambda: pypto.set_vec_tile_shapes(0),
        lambda: pypto.set_cube_tile_shapes([16], [16, 16], [16, 16]),
        lambda: pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16], enable_splitk=True),
        lambda: pypto.set_cube_tile_shapes([16, 16]),
        lambda: pypto.set_conv_tile_shapes(),
        lambda: pypto.set_matrix_size([1.5]),
        lambda: pypto.set_semantic_label(4),
        lambda: pypto.set_pass_options(nope=1),
        lambda: pypto.set_options(vec_tile_shape=[16]),
        lambda: pypto.options(nope=1).__enter__(),
        lambda: pypto.experimental.set_operation_options(nope=1),
        lambda: pypto.set_print_options(precision="4"),
        lambda: pypto.from_torch([1.0]),
        lambda: pypto.from_torch(ramp(), dynamic_axis=[2]),
        lambda: pypto.from_torch(ramp(), dynamic_axs=[0]),
        lambda: pypto.sofmax,
        lambda: pypto.exp(1.0),
        lambda: pypto.zeros([16, 16], DT),
        lambda: F32 + 1.0,
        lambda: F32[0:4],
        lambda: F32.__setitem__(0, 1.0),
        lambda: F32.exp(),
        lambda: F32.expp,
        lambda: F32.qqqq,
        lambda: bool(F32),
        lambda: list(F32),
        lambda: 1.0 in F32,
        lambda: pypto.loop(1.5),
        lambda: pypto.loop(4, paralel=True),
        lambda: pypto.loop(4, unroll_list=2),
        lambda: list(pypto.loop(4)),
        lambda: pypto.is_loop_begin(0),
        lambda: pypto.cond(1.5),
        lambda: pypto.cond(True, file="a.py"),
        lambda: kernel(),
        lambda: kernel(ramp(), blank(), scala=1.0),
        lambda: kernel.graph(F32),
        lambda: kernel.graph(P([pypto.DYNAMIC, 32]), P([16, 32])),
    ],
    ids=lambda call: f"line {call.__code__.co_firstlineno}",
)
def test_error_on_the_host_stands_at_the_users_line(declare):
    with pytest.raises(pypto.error.PyptoError) as caught:
        declare()
    error = caught.value
    assert (error.loc.file, error.loc.line) == (__file__, declare.__code__.co_firstlineno)
    assert error.fix
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert set(files) == {__file__}


def test_frames_of_the_package_show_on_demand(monkeypatch):
    monkeypatch.setenv("PYPTO_DEBUG", "1")
    with pytest.raises(pypto.error.PyptoError) as caught:
        pypto.jit(grid=4)
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(file.endswith("keywords.py") for file in files)


@pytest.mark.parametrize(
    "call",
    [
        lambda: pypto.bytes_of(),
        lambda: pypto.min(1),
        lambda: pypto.element(DT),
        lambda: pypto.symbolic_scalar("n").max(),
    ],
)
def test_too_few_arguments_are_told_as_python_tells_them(call):
    with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
        call()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert set(files) == {__file__}


@pytest.mark.parametrize(
    ("switch", "value", "text"),
    [
        ("PYPTO_DEBUG", "yes", "PYPTO_DEBUG: a level is 0 to 6, got 'yes'"),
        ("PYPTO_CHECK", "3", "PYPTO_CHECK: a level is 0 to 2, got '3'"),
        (
            "PYPTO_SANITIZE",
            "races",
            "PYPTO_SANITIZE: no sanitizer is called 'races'; there are uninit, poison, race, "
            "guard, nan, and `all`",
        ),
    ],
)
def test_switch_that_is_set_to_what_it_cannot_be(switch, value, text, monkeypatch):
    @pypto.jit
    def function(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    monkeypatch.setenv(switch, value)
    refused(
        lambda: function(ramp(), blank()),  # <- switch
        "switch",
        text,
        under="function(ramp(), blank())",
        code="F00002",
        builtin=ValueError,
        fix=f"unset {switch}",
    )
    monkeypatch.delenv(switch)
    out = blank()
    function(ramp(), out)
    assert torch.equal(out, ramp() + 1)


def test_legacy_option_is_noted_where_it_is_set():
    with pytest.warns(pypto.error.PyptoNote, match="pg_upper_bound belongs to an older") as told:
        pypto.set_pass_options(pg_upper_bound=4)
    assert [w.filename for w in told] == [__file__]
    assert pypto.get_pass_options() == {}


def test_defect_says_where_to_look():
    problem = errors.InternalError("the graph is broken")
    fix = "set `PYPTO_DEBUG=1` for the full traceback, `PYPTO_DUMP=dir` for the graph"
    assert problem.fix == fix
