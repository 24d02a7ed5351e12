"""How a kernel is declared, called, specialised and cached.

In go torch tensors, NumPy arrays and Python values; what must come out are right numbers in the
caller's own memory, `None`, or an error that names the argument. Traces are counted by a `print`
in the kernel, which runs once per trace. It has more than 600 lines because one call path is
tested from declaration to cache, with a small kernel for each way of declaring one.
"""

import dataclasses
import enum
import os
import re
import signal
import threading
import warnings

import kernel_factory
import kernels_future_annotations
import numpy as np
import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
D = pypto.DYNAMIC
S = pypto.STATIC
N = pypto.SymbolicScalar("n")
I32 = P([], pypto.DT_INT32)


@pypto.jit
def bare(a: F32, out: F32):
    """Adds one."""
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + 1.0


@pypto.jit()
def called(a: F32, out: F32):
    """Adds one."""
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + 1.0


@pypto.frontend.jit(runtime_options={"run_mode": pypto.RunMode.NPU})
def with_options(a: F32, out: F32):
    """Adds one."""
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a + 1.0


@pypto.jit
def scaled(a: F32, out: F32, s=2.0):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * s


@pypto.jit
def scaled_by(a: F32, out: F32, s):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * s


def traces(capsys):
    return capsys.readouterr().out.count("traced")


@pytest.mark.parametrize(
    ("kernel", "name"),
    [(bare, "bare"), (called, "called"), (with_options, "with_options")],
    ids=["bare", "called", "with_options"],
)
def test_every_form_of_the_decorator_gives_the_same_kernel_case1(kernel, name):
    a, out = ramp(), blank(16, 32)
    assert kernel(a, out) is None
    assert torch.equal(out, a + 1)
    assert (kernel.__name__, kernel.__doc__) == (name, "Adds one.")


def test_the_two_spellings_of_jit_are_one_case1():
    assert pypto.jit is pypto.frontend.jit


def test_jit_on_a_class_is_refused_case2():
    with refused(TypeError, "jit decorator can only be used on functions", code="F00001"):

        @pypto.jit
        class Kernel:
            pass


def test_tensor_after_non_tensor_is_refused_at_decoration_case3():
    with refused(
        ValueError,
        "Non-tensor parameters must come after all tensor parameters",
        "tensor parameter 'a'",
        code="F00002",
    ):

        @pypto.jit
        def k(n: int, a: P()):
            a[:] = a * n


def test_default_positional_and_keyword_value_case4():
    a = ramp()
    for want, args, kwargs in ((2, (), {}), (3, (3.0,), {}), (4, (), {"s": 4.0})):
        out = blank(16, 32)
        scaled(a, out, *args, **kwargs)
        assert torch.equal(out, a * want)


def test_kwarg_wins_over_positional_case5():
    a, out = ramp(), blank(16, 32)
    scaled(a, out, 5.0, s=3.0)
    assert torch.equal(out, a * 3)


def test_too_few_tensors_case6():
    with refused(RuntimeError, "Expected at least 2 tensor argument(s), got 1", code="F00003"):
        scaled(ramp())


def test_too_many_positionals_case7():
    with refused(
        RuntimeError, "Too many positional arguments", "2 tensor(s)", "got 4", code="F00003"
    ):
        scaled(ramp(), blank(16, 32), 1.0, 2.0)


def test_unknown_keyword_names_the_valid_ones_case8():
    with refused(RuntimeError, "Unknown keyword argument(s): ['zz']", "['s']", code="F00003"):
        scaled(ramp(), blank(16, 32), zz=1)


def test_missing_non_tensor_case9():
    with refused(RuntimeError, "Missing required non-tensor argument 's'", code="F00003"):
        scaled_by(ramp(), blank(16, 32))


def test_tensor_in_a_non_tensor_slot_case10():
    with refused(RuntimeError, "'s' must not be a torch.Tensor", code="F00003"):
        scaled(ramp(), blank(16, 32), s=torch.ones(1))


def test_tensor_by_keyword_case11():
    with refused(RuntimeError, "Expected at least 2 tensor argument(s), got 1", code="F00003"):
        scaled(ramp(), out=blank(16, 32))


def test_numpy_arrays_stand_beside_torch_tensors_case12():
    a, out = ramp(), blank(16, 32)
    scaled(a.numpy(), out)
    assert torch.equal(out, a * 2)
    array = np.full((16, 32), -1, np.float32)
    scaled(a, array)
    assert np.array_equal(array, a.numpy() * 2)


@pytest.mark.parametrize("value", [[[1.0]], 1.0, None], ids=["list", "float", "None"])
def test_other_objects_in_a_tensor_slot_case12(value):
    kind = str(type(value))
    with refused(
        RuntimeError, "Input 1 (index 0)", "`a`", "must be a torch.Tensor", kind, code="F00003"
    ):
        scaled(value, blank(16, 32))


def test_non_contiguous_tensor_names_the_argument_case13():
    with refused(RuntimeError, "not all tensors are contiguous", code="F00003") as caught:
        scaled(ramp(32, 16).t(), blank(16, 32))
    assert re.search(r"[`'\"]a[`'\"]", str(caught.value))


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((16, 31), torch.float32, "The shape of 1st input tensor"),
        ((16, 32, 1), torch.float32, "The number of dimensions of 1st input tensor"),
        ((16, 32), torch.float16, "The dtype of 1st input tensor"),
    ],
)
def test_argument_that_does_not_fit_its_annotation_case14(shape, dtype, words):
    @pypto.jit
    def k(a: P([16, 32], DT), out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    with refused(ValueError, words, "does not match", code="F00002"):
        k(torch.ones(shape, dtype=dtype), blank(16, 32))


def test_mismatch_of_the_second_argument_is_counted_case14():
    @pypto.jit
    def k(a: F32, out: P([16, 32], DT)):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    with refused(ValueError, "The shape of 2nd input tensor", "out", code="F00002"):
        k(ramp(), blank(15, 32))


def test_annotation_without_dtype_takes_any_case15():
    @pypto.jit
    def k(a: P([S, S]), out: P([S, S])):
        pypto.set_vec_tile_shapes(16, 32)
        assert a.dtype == pypto.DT_FP16
        out[:] = a + 1.0

    a, out = ramp().half(), blank(16, 32, dtype=torch.float16)
    k(a, out)
    assert torch.equal(out, a + 1)


def test_subscript_annotation_means_fp32_case16():
    @pypto.jit
    def k(a: P[[S, S]], out: P[[S, S]]):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    with refused(ValueError, "The dtype of 1st input tensor", code="F00002"):
        k(ramp().half(), blank(16, 32))
    a, out = ramp(), blank(16, 32)
    k(a, out)
    assert torch.equal(out, a + 1)


def test_subscript_annotation_takes_its_parts_in_any_order_case16():
    @pypto.jit
    def k(a: P[pypto.DT_FP16, [S, 32]], out: P[[16, 32], pypto.DT_FP16, "result"]):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    a, out = ramp().half(), blank(16, 32, dtype=torch.float16)
    k(a, out)
    assert torch.equal(out, a + 1)
    with refused(ValueError, "The dtype of 1st input tensor", code="F00002"):
        k(ramp(), out)


@pypto.jit
def rank_of(a: P([D, ...], DT), out: F32):
    pypto.set_vec_tile_shapes(8)
    out[:] = pypto.full([8], float(a.dim), DT)


@pypto.jit
def rank_of_at_least_two(a: P([S, S], DT), out: F32):
    pypto.set_vec_tile_shapes(8)
    out[:] = pypto.full([8], float(len(a.shape)), DT)


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        (rank_of, (4,)),
        (rank_of, (4, 5)),
        (rank_of, (4, 5, 6)),
        (rank_of_at_least_two, (4, 5)),
        (rank_of_at_least_two, (4, 5, 6)),
    ],
)
def test_extra_trailing_dims_are_accepted_case17(kernel, shape):
    out = blank(8)
    kernel(torch.ones(shape), out)
    assert torch.equal(out, torch.full((8,), float(len(shape))))


def test_too_few_dims_are_refused_case17():
    with refused(ValueError, "The number of dimensions of 1st input tensor", code="F00002"):
        rank_of_at_least_two(torch.ones(4), blank(8))


@pytest.mark.parametrize(
    "shape",
    [(S, S), (D, 32), ["n", 4], [..., 4], [None, 4], [2.5, 4]],
    ids=["tuple of STATIC", "tuple of DYNAMIC", "string", "leading ellipsis", "None", "float"],
)
def test_meaningless_shape_is_refused_when_the_annotation_is_evaluated_case18(shape):
    with refused(ValueError, "Invalid value type", code="F00002"):
        P(shape, DT)


@pytest.mark.parametrize(
    "spec",
    [P([]), P(), P([...]), P(()), P(dtype=DT), P],
    ids=["[]", "()", "[...]", "empty tuple", "dtype only", "bare class"],
)
def test_open_annotations_take_any_rank_and_give_static_dims_case19(spec):
    @pypto.jit
    def k(a: spec, out: spec):
        pypto.set_vec_tile_shapes(*([8] * a.dim))
        for extent in a.shape:
            assert type(extent) is int
        out[:] = a + 1.0

    for shape in ((8,), (3, 8), (2, 3, 8), (2, 2, 3, 8)):
        a, out = torch.rand(shape), blank(*shape)
        k(a, out)
        assert torch.equal(out, a + 1)


def test_symbol_in_an_annotation_is_a_dynamic_dim_case20():
    @pypto.jit
    def k(a: P([N, 32], DT), out: P([pypto.frontend.dynamic("m"), 32], DT)):
        pypto.set_vec_tile_shapes(1, 32)
        assert isinstance(a.shape[0], pypto.SymbolicScalar)
        assert a.shape[1] == 32 and type(a.shape[1]) is int
        for i in pypto.loop(a.shape[0]):
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

    for rows in (1, 5):
        a, out = ramp(rows), blank(rows, 32)
        k(a, out)
        assert torch.equal(out, a * 2)


def test_one_symbol_bound_to_two_sizes_is_refused():
    @pypto.jit
    def k(a: P([N, 32], DT), b: P([N, 32], DT), out: P([N, 32], DT)):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(a.shape[0]):
            out[i : i + 1, :] = a[i : i + 1, :] + b[i : i + 1, :]

    a, out = ramp(5), blank(5, 32)
    k(a, a, out)
    assert torch.equal(out, a * 2)
    with refused(ValueError, "n", "5", "4", code="F00002") as caught:
        k(ramp(5), ramp(4), blank(5, 32))
    assert re.search(r"[`'\"]b[`'\"]", str(caught.value))


def test_dynamic_extent_is_no_reason_to_trace_again_case21(capsys):
    @pypto.jit
    def k(a: P([D, S], DT), out: P([D, S], DT)):
        print("traced")
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(a.shape[0]):
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

    for rows in (4, 7, 1, 4):
        a, out = ramp(rows), blank(rows, 32)
        k(a, out)
        assert torch.equal(out, a * 2)
    assert traces(capsys) == 1


def test_static_extent_or_dtype_is_a_reason_to_trace_again_case21(capsys):
    @pypto.jit
    def k(a: P([S, S]), out: P([S, S])):
        print("traced")
        pypto.set_vec_tile_shapes(8, 32)
        out[:] = a * 2.0

    for rows in (4, 7, 4, 7):
        a, out = ramp(rows), blank(rows, 32)
        k(a, out)
        assert torch.equal(out, a * 2)
    assert traces(capsys) == 2
    a, out = ramp(4).half(), blank(4, 32, dtype=torch.float16)
    k(a, out)
    assert torch.equal(out, a * 2)
    assert traces(capsys) == 1


def test_new_values_in_the_same_shapes_are_no_reason_to_trace_again(capsys):
    @pypto.jit
    def k(a: F32, out: F32):
        print("traced")
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * a

    for shift in range(3):
        a, out = ramp() + shift, blank(16, 32)
        k(a, out)
        assert torch.equal(out, a * a)
    assert traces(capsys) == 1


def test_non_tensor_value_specialises_case22(capsys):
    @pypto.jit
    def k(a: F32, out: F32, n):
        print("traced")
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * float(n)

    for n in (2, 3, 2, 3):
        a, out = ramp(), blank(16, 32)
        k(a, out, n)
        assert torch.equal(out, a * n)
    assert traces(capsys) == 2


def test_int_float_and_bool_of_one_value_are_three_specialisations_case22():
    @pypto.jit
    def k(a: F32, out: F32, n):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * {"int": 2.0, "float": 3.0, "bool": 4.0}[type(n).__name__]

    for n, want in ((1, 2), (1.0, 3), (True, 4), (1, 2)):
        a, out = ramp(), blank(16, 32)
        k(a, out, n)
        assert torch.equal(out, a * want)


@dataclasses.dataclass
class Cfg:
    scale: int = 2
    flag: bool = True


@pypto.jit
def configured(a: F32, out: F32, cfg):
    pypto.set_vec_tile_shapes(16, 32)
    if cfg.flag:
        out[:] = a * cfg.scale
    else:
        out[:] = a + 100.0


def test_dataclass_argument_case23():
    a = ramp()
    for cfg, want in ((Cfg(), a * 2), (Cfg(3), a * 3), (Cfg(3, False), a + 100), (Cfg(), a * 2)):
        out = blank(16, 32)
        configured(a, out, cfg)
        assert torch.equal(out, want)


def test_changed_dataclass_argument_is_seen_case23():
    a, out, cfg = ramp(), blank(16, 32), Cfg()
    configured(a, out, cfg)
    assert torch.equal(out, a * 2)
    cfg.scale = 5
    configured(a, out, cfg)
    assert torch.equal(out, a * 5)


def test_zero_dim_tensor_has_shape_one_case24():
    @pypto.jit
    def k(a: P(), out: P()):
        pypto.set_vec_tile_shapes(8)
        assert a.shape == [1]
        out[:] = a + 1.0

    out = torch.tensor(-1.0)
    k(torch.tensor(41.0), out)
    assert out.item() == 42.0


def test_both_run_modes_run_case25():
    for mode in (0, 1, pypto.RunMode.NPU, pypto.RunMode.SIM):

        @pypto.jit(runtime_options={"run_mode": mode})
        def k(a: F32, out: F32):
            pypto.set_vec_tile_shapes(16, 32)
            out[:] = a + 1.0

        a, out = ramp(), blank(16, 32)
        k(a, out)
        assert torch.equal(out, a + 1)


def test_unknown_run_mode_is_refused_at_decoration_case25():
    with refused(RuntimeError, "Invalid run mode", "RunMode.NPU or RunMode.SIM", code="F00003"):

        @pypto.jit(runtime_options={"run_mode": 5})
        def k(a: F32, out: F32):
            out[:] = a


def test_complex_tensor_is_refused_case26():
    with refused(ValueError, "Input torch.dtype is not supported", "complex64", code="F00002"):
        scaled(torch.ones(16, 32, dtype=torch.complex64), blank(16, 32))


def test_what_is_not_written_keeps_its_contents_case27():
    @pypto.jit
    def k(a: F32, part: F32, untouched: F32):
        pypto.set_vec_tile_shapes(16, 32)
        part[4:8, 8:16] = a[0:4, 0:8] + 0.5

    a, part, untouched = ramp(), blank(16, 32), ramp() * 7
    k(a, part, untouched)
    want = blank(16, 32)
    want[4:8, 8:16] = a[0:4, 0:8] + 0.5
    assert torch.equal(part, want)
    assert torch.equal(untouched, ramp() * 7)


def test_output_is_read_before_it_is_written_case28():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = out + a

    a, out = ramp(), torch.full((16, 32), 100.0)
    k(a, out)
    assert torch.equal(out, a + 100)


def test_output_takes_the_values_of_a_parameter_case29():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a

    a, out = ramp(), blank(16, 32)
    k(a, out)
    assert torch.equal(out, ramp()) and torch.equal(a, ramp())
    out += 1
    assert torch.equal(a, ramp())


class Mode(enum.Enum):
    DOUBLE = 1
    TRIPLE = 2


@pypto.jit
def chosen(a: F32, out: F32, mode):
    pypto.set_vec_tile_shapes(16, 32)
    if mode == "double" or mode is None or mode == [2] or mode == (2,) or mode == Mode.DOUBLE:
        out[:] = a * 2.0
    else:
        out[:] = a + pypto.full([3, 5], 1.0, DT)


@pytest.mark.parametrize("mode", ["double", None, [2], (2,), Mode.DOUBLE], ids=repr)
def test_only_the_chosen_branch_is_traced_case30(mode):
    a, out = ramp(), blank(16, 32)
    chosen(a, out, mode)
    assert torch.equal(out, a * 2)


def test_the_other_branch_of_case30_fails_when_it_is_chosen():
    with pytest.raises(pypto.error.PyptoError, match="broadcast"):
        chosen(ramp(), blank(16, 32), Mode.TRIPLE)


def test_kernel_takes_no_star_parameters():
    with refused(SyntaxError, "vararg and kwarg not supported", "`more`", code="F0FFFF"):

        @pypto.jit
        def k(a: F32, *more):
            a[:] = a * 2.0

    with refused(SyntaxError, "vararg and kwarg not supported", "`more`", code="F0FFFF"):

        @pypto.jit
        def named(a: F32, **more):
            a[:] = a * 2.0


def test_kernel_without_a_tensor_is_refused():
    @pypto.jit
    def k(n):
        pass

    with refused(RuntimeError, "Empty tensor list", code="F00003"):
        k(3)


def test_keyword_only_parameter_is_a_non_tensor_parameter():
    @pypto.jit
    def k(a: F32, out: F32, *, s=2.0):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * s

    a, out = ramp(), blank(16, 32)
    k(a, out)
    assert torch.equal(out, a * 2)
    k(a, out, s=3.0)
    assert torch.equal(out, a * 3)


@pytest.mark.parametrize(
    "thing", [Exception, len, 3, "kernel"], ids=["class", "builtin", "int", "str"]
)
def test_jit_takes_functions_only_case2(thing):
    with refused(TypeError, "jit decorator can only be used on functions", code="F00001"):
        pypto.jit(thing)


def test_attributes_of_a_kernel():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + 1.0

    assert k.function is None
    assert k._original_func.__name__ == "k" and k._original_func is not k
    a, out = torch.nn.Parameter(ramp()), blank(16, 32)
    k(a, out)
    assert torch.equal(out, ramp() + 1)
    assert k.function.count() >= 1


def test_recursion_without_end_is_an_error_and_the_next_kernel_is_right():
    def endless(t):
        return endless(t)

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = endless(a)

    with refused(RecursionError, "recurs", code="F00003"):
        k(ramp(), blank(16, 32))
    a, out = ramp(), blank(16, 32)
    bare(a, out)
    assert torch.equal(out, a + 1)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.float16, "DT_FP16"),
        (torch.bfloat16, "DT_BF16"),
        (torch.float32, "DT_FP32"),
        (torch.float64, "DT_DOUBLE"),
        (torch.int8, "DT_INT8"),
        (torch.int16, "DT_INT16"),
        (torch.int32, "DT_INT32"),
        (torch.int64, "DT_INT64"),
        (torch.uint8, "DT_UINT8"),
        (torch.bool, "DT_BOOL"),
    ],
)
def test_torch_dtypes_arrive_as_kernel_dtypes(dtype, name):
    @pypto.jit
    def k(a: P(), out: P()):
        pypto.set_vec_tile_shapes(8, 32)
        assert a.dtype == getattr(pypto, name) and out.dtype == a.dtype
        out[:] = a

    a = (torch.arange(8 * 32).reshape(8, 32) % 2).to(dtype)
    out = torch.zeros_like(a)
    k(a, out)
    assert torch.equal(out, a)


def test_bare_parameter_class_is_an_instance_of_no_restrictions():
    a, out = ramp(), blank(16, 32)
    kernels_future_annotations.scaled(a, out)
    assert torch.equal(out, a * 2)
    kernels_future_annotations.scaled(a, out, s=0.5)
    assert torch.equal(out, a * 0.5)


def test_string_annotations_and_arrow_none():
    a, out = ramp(), blank(16, 32)
    assert kernels_future_annotations.plus_one(a, out) is None
    assert torch.equal(out, a + 1)
    with refused(ValueError, "The dtype of 1st input tensor", code="F00002"):
        kernels_future_annotations.plus_one(a.half(), out)


def test_string_annotations_with_a_module_symbol():
    for rows in (2, 9):
        a, out = ramp(rows), blank(rows, 32)
        kernels_future_annotations.doubled_rows(a, out)
        assert torch.equal(out, a * 2)


def test_string_annotations_that_name_a_local_of_the_factory():
    a, out = ramp(), blank(16, 32)
    kernels_future_annotations.make_shifted(3.0)(a, out)
    assert torch.equal(out, a + 3)


def test_quoted_annotation():
    @pypto.jit
    def k(a: "P([], DT)", out: "pypto.Tensor([], pypto.DT_FP32)") -> None:
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * 3.0

    a, out = ramp(), blank(16, 32)
    k(a, out)
    assert torch.equal(out, a * 3)


def test_numpy_integers_are_sizes():
    @pypto.jit
    def k(a: F32, out: F32, rows):
        pypto.set_vec_tile_shapes(np.int64(16), 32)
        t = pypto.view(a, [np.int32(rows), 32], [np.int64(2), 0])
        for i in pypto.loop(np.int64(2)):
            out[i * rows : i * rows + rows, :] = t * 2.0

    a, out = ramp(), blank(16, 32)
    k(a, out, np.int64(4))
    want = blank(16, 32)
    want[0:4] = want[4:8] = a[2:6] * 2
    assert torch.equal(out, want)


def test_factories_of_one_source_share_no_binary_case130():
    doubled, tripled = kernel_factory.make_scaled(2.0), kernel_factory.make_scaled(3.0)
    a, out = ramp(), blank(16, 32)
    for kernel, want in ((doubled, 2), (tripled, 3), (doubled, 2)):
        kernel(a, out)
        assert torch.equal(out, a * want)


def test_factories_with_captured_functions_share_no_binary_case130():
    square = kernel_factory.make_applied(lambda t: t * t, name="square")
    negate = kernel_factory.make_applied(lambda t: -t, name="negate")
    a, out = ramp(), blank(16, 32)
    for kernel, want in ((square, a * a), (negate, -a), (square, a * a)):
        kernel(a, out)
        assert torch.equal(out, want)


def test_closure_cell_changed_between_calls():
    s = 2.0

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * s

    a, out = ramp(), blank(16, 32)
    for value in (2.0, 3.0, 2.0):
        s = value
        k(a, out)
        assert torch.equal(out, a * value)


@pytest.mark.parametrize(
    ("kernel", "power"),
    [(kernel_factory.gained, 1), (kernel_factory.gained_twice, 2)],
    ids=["in the kernel", "in a helper"],
)
def test_module_global_changed_between_calls(monkeypatch, kernel, power):
    a, out = ramp(), blank(16, 32)
    kernel(a, out)
    assert torch.equal(out, a * 2**power)
    monkeypatch.setattr(kernel_factory, "GAIN", 3.0)
    kernel(a, out)
    assert torch.equal(out, a * 3**power)
    monkeypatch.undo()
    kernel(a, out)
    assert torch.equal(out, a * 2**power)


def test_unchanged_global_is_no_reason_to_trace_again(monkeypatch, capsys):
    monkeypatch.setattr(kernel_factory, "GAIN", 17.0)
    a, out = ramp(), blank(16, 32)
    for _ in range(3):
        kernel_factory.gained(a, out)
    assert torch.equal(out, a * 17)
    assert traces(capsys) == 1


def test_attribute_changed_between_calls(monkeypatch):
    a, out = ramp(), blank(16, 32)
    kernel_factory.gained_by_attribute(a, out)
    assert torch.equal(out, a * 2)
    monkeypatch.setattr(kernel_factory.KNOBS, "gain", 3.0)
    kernel_factory.gained_by_attribute(a, out)
    assert torch.equal(out, a * 3)


def test_attribute_of_a_class_changed_between_calls(monkeypatch):
    class Settings:
        gain = 2.0

        def applied(self, t):
            return t * self.gain

    settings = Settings()

    @pypto.jit
    def k(a: F32, out: F32, settings):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = settings.applied(a)

    a, out = ramp(), blank(16, 32)
    k(a, out, settings)
    assert torch.equal(out, a * 2)
    Settings.gain = 3.0
    k(a, out, settings)
    assert torch.equal(out, a * 3)
    Settings.applied = lambda self, t: t + self.gain
    k(a, out, settings)
    assert torch.equal(out, a + 3)


def test_default_of_a_helper_changed_between_calls():
    def shifted(t, c=1.0):
        return t + c

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = shifted(a)

    a, out = ramp(), blank(16, 32)
    k(a, out)
    assert torch.equal(out, a + 1)
    shifted.__defaults__ = (5.0,)
    k(a, out)
    assert torch.equal(out, a + 5)


@pytest.mark.parametrize(
    "box",
    [[2.0], {0: 2.0}, np.array([2.0]), torch.tensor([2.0])],
    ids=["list", "dict", "array", "torch tensor"],
)
def test_closed_over_container_changed_between_calls(box):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * float(box[0])

    a, out = ramp(), blank(16, 32)
    for value in (2.0, 3.0, 2.0):
        box[0] = value
        k(a, out)
        assert torch.equal(out, a * value)


def test_replaced_helper_is_seen(monkeypatch):
    a, out = ramp(), blank(16, 32)
    kernel_factory.gained_twice(a, out)
    assert torch.equal(out, a * 4)
    monkeypatch.setattr(kernel_factory, "gained_by_helper", lambda t: t + 1.0)
    kernel_factory.gained_twice(a, out)
    assert torch.equal(out, a + 2)


def test_python_argument_that_forces_many_traces_is_named():
    @pypto.jit
    def k(a: F32, out: F32, nt):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * float(nt)

    a, out = ramp(), blank(16, 32)
    with pytest.warns(pypto.error.PyptoNote, match="nt"):
        for nt in range(20):
            k(a, out, nt)
            assert torch.equal(out, a * nt)


def test_output_that_is_also_an_input_is_refused():
    a = ramp()
    with refused(ValueError, "a", "out", "memory", code="F00002"):
        bare(a, a)
    assert torch.equal(a, ramp())


def test_output_that_overlaps_an_input_is_refused():
    memory = ramp(24)
    with refused(ValueError, "a", "out", "memory", code="F00002"):
        bare(memory[0:16], memory[8:24])
    assert torch.equal(memory, ramp(24))


def test_neighbours_in_one_allocation_are_accepted():
    memory = ramp(32)
    bare(memory[0:16], memory[16:32])
    assert torch.equal(memory, torch.cat([ramp(), ramp() + 1]))


def test_two_inputs_may_share_memory():
    @pypto.jit
    def k(a: F32, b: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + b

    a, out = ramp(), blank(16, 32)
    k(a, a, out)
    assert torch.equal(out, a * 2)


def test_written_tensor_that_requires_grad_is_refused():
    out = blank(16, 32).requires_grad_()
    with refused(RuntimeError, "out", "grad", code="F00003"):
        bare(ramp(), out)
    assert torch.equal(out.detach(), blank(16, 32))


def test_read_tensor_may_require_grad():
    a, out = ramp().requires_grad_(), blank(16, 32)
    bare(a, out)
    assert torch.equal(out, ramp() + 1)


def test_written_tensor_gets_a_new_version_and_a_read_one_does_not():
    a, out = ramp(), blank(16, 32)
    before = a._version, out._version
    bare(a, out)
    assert a._version == before[0]
    assert out._version > before[1]


def test_read_only_array_may_be_read_and_not_written():
    a, out = ramp().numpy(), np.full((16, 32), -1, np.float32)
    a.setflags(write=False)
    bare(a, out)
    assert np.array_equal(out, a + 1)
    out.setflags(write=False)
    with refused(ValueError, "out", "read-only", code="F00002"):
        bare(a, out)


def test_empty_tensor_makes_no_trips_and_all_other_writes():
    @pypto.jit
    def k(a: P([D, S], DT), out: P([D, S], DT), flag: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(a.shape[0]):
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0
        flag[:] = pypto.full([1, 32], 5.0, DT)

    for rows in (0, 3, 0):
        a, out, flag = ramp(rows), blank(rows, 32), blank(1, 32)
        k(a, out, flag)
        assert torch.equal(out, a * 2) and torch.equal(flag, torch.full((1, 32), 5.0))


def test_op_on_a_static_extent_of_zero_is_refused():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        out[:] = a + 1.0  # empty

    with refused(ValueError, "Empty tensor is not supported", code="FC0000", at="empty"):
        k(ramp(0), blank(0, 32))


def test_extent_that_does_not_fit_names_its_axis():
    @pypto.jit
    def k(a: P([4, 8], DT), out: P([4, 8], DT)):
        pypto.set_vec_tile_shapes(4, 8)
        out[:] = a + 1.0

    with refused(ValueError, "The shape of 1st input tensor", "axis 1", "9", "8", code="F00002"):
        k(torch.ones(4, 9), torch.ones(4, 8))


def test_rebound_output_that_is_never_written_is_refused():
    @pypto.jit
    def k(a: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 32)
        y = a + 1.0  # rebound  # noqa: F841

    with refused(
        ValueError, "output parameter `y` is never written", "y[:] =", code="F00002", at="rebound"
    ):
        k(ramp(), blank(16, 32))


def test_output_rebound_by_an_augmented_assignment_is_refused():
    @pypto.jit
    def k(a: F32, other: F32, y: F32):
        pypto.set_vec_tile_shapes(16, 32)
        other[:] = a * 2.0
        y += a  # rebound

    with refused(ValueError, "`y` is never written", code="F00002", at="rebound"):
        k(ramp(), blank(16, 32), blank(16, 32))


def test_kernel_that_writes_nothing_is_refused():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a + out  # noqa: F841

    with refused(ValueError, "writ", "k", code="F00002"):
        k(ramp(), blank(16, 32))


def test_input_may_be_rebound_for_reading():
    @pypto.jit
    def k(x: F32, out: F32):
        pypto.set_vec_tile_shapes(32, 16)
        x = pypto.reshape(x, [32, 16], inplace=True)
        x = x * 2.0
        x += 1.0
        out[:] = x

    a, out = ramp(), blank(32, 16)
    k(a, out)
    assert torch.equal(out, a.reshape(32, 16) * 2 + 1) and torch.equal(a, ramp())


def test_after_a_failing_kernel_the_next_one_is_right():
    @pypto.jit
    def failing(a: F32, out: F32, index: I32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + pypto.full([3, 5], 1.0, DT)

    @pypto.jit
    def failing_in_a_loop(a: F32, out: F32, index: I32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(4):
            if i == index[0]:
                raise ValueError("boom")
            out[i : i + 1, :] = a[i : i + 1, :]

    @pypto.jit
    def failing_while_it_runs(a: F32, out: F32, index: I32):
        pypto.set_vec_tile_shapes(1, 32)
        out[0:1, :] = a[0:1, :] * 2.0
        for i in pypto.loop(index[index[0]]):
            out[i : i + 1, :] = a[i : i + 1, :]

    for kernel in (failing, failing_in_a_loop, failing_while_it_runs):
        with pytest.raises(pypto.error.PyptoError):
            kernel(ramp(), blank(16, 32), torch.tensor([100, 1], dtype=torch.int32))
        a, out = ramp(), blank(16, 32)
        bare(a, out)
        assert torch.equal(out, a + 1)


def test_a_kernel_is_right_after_its_own_failure():
    @pypto.jit
    def k(a: F32, out: F32, ok: bool):
        pypto.set_vec_tile_shapes(16, 32)
        assert ok, "not now"
        out[:] = a * 2.0

    for _ in range(2):
        with refused(AssertionError, "not now", code="F0FFFF"):
            k(ramp(), blank(16, 32), False)
        a, out = ramp(), blank(16, 32)
        k(a, out, True)
        assert torch.equal(out, a * 2)


@pypto.jit
def running_sum(a: P([D, 32], DT), out: P([1, 32], DT)):
    pypto.set_vec_tile_shapes(1, 32)
    acc = pypto.full([1, 32], 0.0, DT)
    for i in pypto.loop(a.shape[0]):
        acc = acc + a[i : i + 1, :]
    out[:] = acc


def test_four_threads_that_call_one_kernel_are_right():
    start, wrong = threading.Barrier(4), []

    def work(seed):
        start.wait()
        for turn in range(10):
            a = np.full((seed + turn + 1, 32), seed, np.float32)
            out = np.full((1, 32), -1, np.float32)
            try:
                running_sum(a, out)
            except Exception as error:
                wrong.append((seed, turn, repr(error)))
                continue
            if not np.array_equal(out, a.sum(0, keepdims=True)):
                wrong.append((seed, turn, out[0, 0]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_that_compile_one_kernel_for_the_first_time_are_right():
    @pypto.jit
    def k(a: F32, out: F32, factor):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 0.0
        for i in pypto.loop(4):
            if i == 2:
                t = t + a * factor
        out[:] = t

    start, wrong = threading.Barrier(4), []

    def work(seed):
        a, out = ramp().numpy() + seed, np.zeros((16, 32), np.float32)
        start.wait()
        for factor in (1.0, 2.0, float(seed)):
            try:
                k(a, out, factor)
            except Exception as error:
                wrong.append((seed, factor, repr(error)))
                continue
            if not np.array_equal(out, a * np.float32(factor)):
                wrong.append((seed, factor, out[0, 0]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_after_use_is_right():
    a = np.full((3, 32), 2, np.float32)
    out = np.full((1, 32), -1, np.float32)
    running_sum(a, out)
    assert np.array_equal(out, np.full((1, 32), 6, np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(60)
        right = False
        try:
            running_sum(np.full((5, 32), 2, np.float32), out)
            fresh = kernel_factory.make_scaled(4.0)
            b, doubled = np.full((16, 32), 3, np.float32), np.zeros((16, 32), np.float32)
            fresh(b, doubled)
            right = bool((out == 10).all() and (doubled == 12).all())
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    running_sum(a, out)
    assert np.array_equal(out, np.full((1, 32), 6, np.float32))
