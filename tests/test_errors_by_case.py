"""What a kernel may not do, each misuse with its classes, code, words and line.

In go kernels with one fault, on a line whose comment names it; out must come an error of the
package that is also the Python error it names, never a number. Errors of the call are in
`test_calling.py`, errors of symbols in `test_symbolic.py`, errors of options in `test_options.py`.
It has more than 600 lines because each misuse needs a kernel of its own.
"""

import math
import os

import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
H = pypto.DT_FP16
D = pypto.DYNAMIC
I32 = P([], pypto.DT_INT32)
ROWS = P([D, 32], DT)
GENERAL = pypto.error.PyptoGeneralError
ANY = pypto.error.PyptoError


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def on_ramp(act, *, tiles=(16, 32), spec=F32):
    """A kernel that does `act(a, out)`; the fault is located in `act`."""

    @pypto.jit
    def k(a: spec, out: F32):
        pypto.set_vec_tile_shapes(*tiles)
        act(a, out)
        out[:] = out

    return lambda: k(ramp(), blank(16, 32))


@pytest.mark.parametrize("bounds", [(4,), (pypto.SymbolicScalar(4),)], ids=["int", "symbol"])
def test_break_in_a_dynamic_loop_case34(bounds):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(*bounds):
            out[i : i + 1, :] = a[i : i + 1, :]
            if a.shape[0] == 16:
                break  # here

    out = blank(16, 32)
    with refused(
        SyntaxError, "break is not supported in pypto.loop", code="F0FFFF", cls=GENERAL, at="here"
    ):
        k(ramp(), out)
    assert torch.equal(out, blank(16, 32))


def test_continue_in_a_dynamic_loop_case34():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i, count in pypto.loop_unroll(4):
            if i == count:
                continue  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(
        SyntaxError,
        "continue is not supported in pypto.loop",
        code="F0FFFF",
        cls=GENERAL,
        at="here",
    ):
        k(ramp(), blank(16, 32))


def test_break_in_a_dynamic_loop_under_another_name_case34():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        loop = pypto.loop
        for i in loop(4):
            out[i : i + 1, :] = a[i : i + 1, :]
            break  # here

    with refused(
        SyntaxError, "break is not supported in pypto.loop", code="F0FFFF", cls=GENERAL, at="here"
    ):
        k(ramp(), blank(16, 32))


def test_return_in_a_dynamic_loop_case35():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(4):
            out[i : i + 1, :] = a[i : i + 1, :]
            return  # here

    with refused(
        SyntaxError, "return is not supported in pypto.loop", code="F0FFFF", cls=GENERAL, at="here"
    ):
        k(ramp(), blank(16, 32))


def test_return_of_a_helper_in_a_dynamic_loop_case35():
    def first_rows(a, out):
        for i in pypto.loop(4):
            out[i : i + 1, :] = a[i : i + 1, :]
            return a  # here

    with refused(
        SyntaxError, "return is not supported in pypto.loop", code="F0FFFF", cls=GENERAL, at="here"
    ):
        on_ramp(first_rows)()


def test_else_on_a_dynamic_loop_case41():
    def act(a, out):
        for i in pypto.loop(4):  # loop
            out[i : i + 1, :] = a[i : i + 1, :]
        else:  # noqa: PLW0120
            out[:] = a

    with refused(SyntaxError, "else", "pypto.loop", code="F0FFFF", cls=GENERAL):
        on_ramp(act)()


def break_under_a_symbol(n, out):
    for j in range(4):
        if n[0] == j:
            break  # here
        out[j] = 1


def continue_under_a_symbol(n, out):
    for j in range(4):
        if n[0] == j:
            continue  # here
        out[j] = 1


def return_under_a_symbol(n, out):
    if n[0] > 0:
        return  # here
    out[0] = 1


def while_of_a_symbol(n, out):
    while n[0] > 0:  # here
        out[0] = 1


@pytest.mark.parametrize(
    ("act", "word"),
    [
        (break_under_a_symbol, "break"),
        (continue_under_a_symbol, "continue"),
        (return_under_a_symbol, "return"),
        (while_of_a_symbol, "while"),
    ],
    ids=["break", "continue", "return", "while"],
)
def test_control_flow_that_a_symbol_would_steer(act, word):
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        act(n, out)

    with refused(SyntaxError, word, "symbolic", code="F0FFFF", cls=GENERAL, at="here"):
        k(ints(1), ints(0, 0, 0, 0))


def test_return_of_the_kernel_under_a_symbol():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        if n[0] > 0:
            return  # here
        out[0] = 1

    with refused(SyntaxError, "return", "symbolic", code="F0FFFF", cls=GENERAL, at="here"):
        k(ints(1), ints(0, 0, 0, 0))


def test_with_cond_is_refused():
    def act(a, out):
        with pypto.cond(a[0, 0:1].shape[0] == 1):  # here
            out[:] = a

    with pytest.raises(ANY, match="if"):
        on_ramp(act)()


def test_failed_assert_case46():
    def act(a, out):
        assert 1 == 2, "bad"  # here

    with refused(AssertionError, "bad", code="F0FFFF", at="here"):
        on_ramp(act)()


def test_assert_of_a_symbol_case46():
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(1, 32)
        assert a.shape[0] == 16, "bad"  # here
        out[0:1, :] = a[0:1, :]

    with refused(ValueError, "Not concrete value", code="F21004", at="here"):
        k(ramp(), blank(16, 32))


@pytest.mark.parametrize(
    ("error", "builtin", "code"),
    [
        (ValueError("boom"), ValueError, "F00002"),
        (TypeError("boom"), TypeError, "F00001"),
        (RuntimeError("boom"), RuntimeError, "F00003"),
        (KeyError("boom"), KeyError, "F00006"),
        (NotImplementedError("boom"), NotImplementedError, "F00005"),
        (IndexError("boom"), IndexError, "F00008"),
        (NameError("boom"), NameError, "F00004"),
        (ZeroDivisionError("boom"), ZeroDivisionError, "F0FFFF"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_error_that_the_user_raises_case46(error, builtin, code):
    def act(a, out):
        raise error  # here

    with refused(builtin, "boom", code=code, at="here"):
        on_ramp(act)()


def test_error_of_a_users_own_class_keeps_its_class_case46():
    class Refusal(Exception):
        pass

    def act(a, out):
        raise Refusal("no such mode") from ValueError("boom")

    with refused(Refusal, "no such mode", code="F0FFFF"):
        on_ramp(act)()


def test_python_error_in_a_kernel_is_located_case46():
    def act(a, out):
        out[:] = a * {"x": 1.0}["y"]  # here

    with refused(KeyError, "y", code="F00006", at="here"):
        on_ramp(act)()


def test_undefined_name_case49():
    def act(a, out):
        out[:] = a * no_such_name  # here  # noqa: F821

    with refused(NameError, "no_such_name", code="F00004", at="here"):
        on_ramp(act)()


def test_deleted_name_case49():
    def act(a, out):
        t = a * 2.0
        del t
        out[:] = t  # here  # noqa: F821

    with refused(NameError, "t", code="F00004", at="here"):
        on_ramp(act)()


@pytest.mark.parametrize(
    "act",
    [
        lambda a, out: out.move(a * 2.0 if a else a),
        lambda a, out: out.move(a and a),
        lambda a, out: out.move(a * (2.0 if not a > 1.0 else 3.0)),
        lambda a, out: out.move(a * float(bool(a))),
    ],
    ids=["if", "and", "not", "bool"],
)
def test_tensor_as_a_condition_case50(act):
    with refused(TypeError, "condition", code="F00001"):
        on_ramp(act)()


def test_tensor_as_an_if_condition_is_located_case50():
    def act(a, out):
        if a > 1.0:  # here
            out[:] = a

    with refused(TypeError, "condition", code="F00001", at="here"):
        on_ramp(act)()


@pytest.mark.parametrize("bounds", [(), (1, 2, 3, 4)], ids=["none", "four"])
def test_number_of_bounds_case56(bounds):
    def act(a, out):
        for i in pypto.loop(*bounds):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(
        TypeError,
        f"loop() takes 1 to 3 positional arguments but {len(bounds)} were given",
        code="F00001",
        at="here",
    ):
        on_ramp(act)()


@pytest.mark.parametrize(
    "bounds", [(2.5,), (0, 4.0), (None,), ("4",), (0, 4, 1.0), ([4],)], ids=str
)
def test_type_of_a_bound_case57(bounds):
    def act(a, out):
        for i in pypto.loop(*bounds):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(ValueError, "Invalid value type", code="F21004", at="here"):
        on_ramp(act)()


def test_tensor_as_a_bound_case57():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(n):  # here
            out[i] = 1

    with refused(ValueError, "Invalid value type", "t[0]", code="F21004", at="here"):
        k(ints(3), ints(0, 0))


def test_step_of_zero_case54():
    def act(a, out):
        for i in pypto.loop(0, 4, 0):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(ValueError, "step", code="F21004", at="here"):
        on_ramp(act)()


def test_step_of_zero_that_is_read_case54():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(0, 4, n[0]):  # here
            out[i] = 1

    out = ints(0, 0, 0, 0)
    k(ints(2), out)
    assert out.tolist() == [1, 0, 1, 0]
    with refused(ValueError, "step", code="F21004", cls=GENERAL, at="here"):
        k(ints(0), out)


@pytest.mark.parametrize("factors", [[0], [-2], [2, 1.5]], ids=str)
def test_unroll_factor_case58(factors):
    def act(a, out):
        for i in pypto.loop(3, unroll_list=factors):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(
        ValueError, "unroll factor", "must be a positive integer", code="F00002", at="here"
    ):
        on_ramp(act)()


def test_single_target_of_loop_unroll_case61():
    def act(a, out):
        for i in pypto.loop_unroll(4, unroll_list=[2]):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(
        SyntaxError,
        "pypto.loop_unroll must unpack exactly two targets",
        code="F0FFFF",
        cls=GENERAL,
        at="here",
    ):
        on_ramp(act)()


@pytest.mark.parametrize(
    ("read", "builtin", "words", "code"),
    [
        (lambda a: a[..., ..., 0], ValueError, "Only one ... is supported", "F00002"),
        (lambda a: a[0, 0, 0], IndexError, "rank not match, expect 2, but got 3", "F00008"),
        (
            lambda a: a[..., 0, 0, 0],
            IndexError,
            "Too many indices for tensor with dimension 2",
            "F00008",
        ),
        (lambda a: a[::2], ValueError, "step must be 1 or None", "F00002"),
        (lambda a: a[0:4, 8:0:-1], ValueError, "step must be 1 or None", "F00002"),
        (lambda a: a[0:0], ValueError, "Invalid shape", "F00002"),
        (lambda a: a[5:3], ValueError, "Invalid shape", "F00002"),
        (lambda a: a[[0, 1]], RuntimeError, "Invalid key type", "F00003"),
        (lambda a: a[None], TypeError, "NoneType", "F00001"),
        (lambda a: a[1.5], TypeError, "float", "F00001"),
        (lambda a: a[a > 0.0], TypeError, "Tensor", "F00001"),
        (lambda a: a[16], IndexError, "16", "F00008"),
        (lambda a: a[-17, 0:4], IndexError, "-17", "F00008"),
    ],
    ids=[
        "two ellipses",
        "too many",
        "too many with ellipsis",
        "step",
        "negative step",
        "empty",
        "negative extent",
        "list",
        "None",
        "float",
        "mask",
        "row outside",
        "row before",
    ],
)
def test_keys_that_read_nothing_case88_case89_case91(read, builtin, words, code):
    def act(a, out):
        out[0:1, :] = read(a)

    with refused(builtin, words, code=code):
        on_ramp(act)()


def test_element_of_a_float_parameter_case92():
    def act(a, out):
        for i in pypto.loop(a[0, 1]):  # here
            out[i : i + 1, :] = a[i : i + 1, :]

    with refused(TypeError, "Not Int type", code="F21003", at="here"):
        on_ramp(act)()


def test_element_of_a_local_that_is_not_int32_case92():
    @pypto.jit
    def k(n: P([], pypto.DT_INT64), out: I32):
        pypto.set_vec_tile_shapes(8)
        t = pypto.tensor([4], pypto.DT_INT64)
        t[:] = n
        out[0] = t[1]  # here

    with refused(TypeError, "Tensor dtype must be DT_INT32.", code="F00001", at="here"):
        k(torch.arange(4), ints(0))


def test_element_store_into_a_float_tensor_case93():
    def act(a, out):
        out[1, 2] = 7  # here

    with refused(TypeError, "Tensor dtype must be DT_INT32.", code="F00001", at="here"):
        on_ramp(act)()


@pytest.mark.parametrize("value", [1.5, None, "7"], ids=str)
def test_element_store_of_something_else_case93(value):
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        out[0] = value  # here

    with refused(ValueError, "Invalid value type", code="F00002", at="here"):
        k(ints(1), ints(0))


def test_number_moved_into_a_tensor_case97():
    def act(a, out):
        out[:] = 3  # here

    with refused(TypeError, "'int' type cannot be moved to Tensor", code="F00001", at="here"):
        on_ramp(act)()


def test_number_written_to_a_slice_case97():
    def act(a, out):
        out[0:2, 0:2] = 3  # here

    with refused(TypeError, "int", code="F00001", at="here"):
        on_ramp(act)()


def test_move_of_another_shape_or_dtype():
    def shape(a, out):
        out[:] = a[0:8, :]  # here

    def dtype(a, out):
        out.move(pypto.cast(a, H))  # here

    def local(a, out):
        t = pypto.tensor([8, 32], DT)
        t[:] = a  # here

    with refused(ValueError, "16", "8", code="F00002", at="here"):
        on_ramp(shape)()
    with refused(TypeError, "DT_FP16", "DT_FP32", code="F00001", at="here"):
        on_ramp(dtype)()
    with refused(ValueError, "16", "8", code="F00002", at="here"):
        on_ramp(local)()


def test_rank_of_a_value_written_to_a_key_with_an_int_case99():
    def act(a, out):
        out[2, 4:8] = a[0:1, 0:4]  # here

    with refused(
        ValueError,
        "The number of slice in key (1) must match the length of input Tensor (2)",
        code="F00002",
        at="here",
    ):
        on_ramp(act)()


def test_write_outside_its_destination():
    def rows(a, out):
        out[12:20, :] = a[0:8, :]  # here

    def columns(a, out):
        pypto.assemble(a[:, 0:8], [0, 28], out)  # here

    def before(a, out):
        pypto.assemble(a[0:4, 0:8], [-2, 0], out)  # here

    for act in (rows, columns, before):
        with refused(IndexError, code="F00008", at="here"):
            on_ramp(act)()


def test_write_outside_its_destination_at_run_time_touches_nothing():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        pypto.assemble(a[0:4, :] * 2.0, [n[0], 0], out)  # here

    out = blank(16, 32)
    for offset in (13, -1, 1000):
        with refused(IndexError, str(offset), code="F00008", cls=GENERAL, at="here"):
            k(ramp(), ints(offset), out)
        assert torch.equal(out, blank(16, 32))
    k(ramp(), ints(12), out)
    assert torch.equal(out[12:16], ramp()[0:4] * 2)


def test_valid_k_that_differs_case105():
    def act(a, out):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        left = pypto.view(a, [16, 16], [0, 0], valid_shape=[16, 5])
        right = pypto.view(a, [16, 16], [0, 0], valid_shape=[6, 16])
        out[0:16, 0:16] = pypto.matmul(left, right, DT)  # here

    with refused(
        RuntimeError,
        "K-dimension valid shape mismatch",
        "5",
        "6",
        code="F00003",
        cls=ANY,
        at="here",
    ):
        on_ramp(act)()


@pytest.mark.parametrize(
    ("shape", "offsets"), [([4, 32], [0]), ([32], [0, 0]), ([1, 4, 32], [0, 0, 0])], ids=str
)
def test_ranks_of_a_view_case106(shape, offsets):
    def act(a, out):
        pypto.assemble(pypto.view(a, shape, offsets), [0, 0], out)  # here

    with refused(ValueError, "Their size actually are", code="F21004", at="here"):
        on_ramp(act)()


def test_view_of_four_axes_by_two_counts_both_case106():
    def act(a, out):
        pypto.view(a.reshape([2, 2, 4, 32]), [4, 32], [0, 0, 0, 0])  # here

    with refused(ValueError, "Their size actually are 4 and 2", code="F21004", at="here"):
        on_ramp(act)()


@pytest.mark.parametrize(
    ("offsets", "valid_shape"),
    [([0, 0], [17, 4]), ([0, 0], [5, 4]), ([14, 0], [4, 4]), ([0, 0], [-1, 4])],
    ids=["past the source", "past the view", "past the data", "negative"],
)
def test_valid_shape_of_a_view_case106(offsets, valid_shape):
    def act(a, out):
        v = pypto.view(a, [4, 4], offsets, valid_shape=valid_shape)  # here
        pypto.assemble(v, [0, 0], out)

    with refused(IndexError, "valid_shape", str(valid_shape[0]), code="F00008", at="here"):
        on_ramp(act)()


def test_valid_shape_of_a_view_at_run_time_case106():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        v = pypto.view(a, [4, 32], [n[0], 0], valid_shape=[n[1], 32])  # here
        pypto.assemble(v, [0, 0], out)

    out, want = blank(16, 32), blank(16, 32)
    k(ramp(), ints(13, 3), out)
    want[0:3] = ramp()[13:16]
    assert torch.equal(out, want)
    for n in ((13, 4), (0, 5), (0, -1)):
        with refused(IndexError, "valid_shape", code="F00008", cls=GENERAL, at="here"):
            k(ramp(), ints(*n), out)


def test_negative_offset_of_a_view():
    def act(a, out):
        pypto.assemble(pypto.view(a, [4, 32], [-1, 0]), [0, 0], out)  # here

    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        pypto.assemble(pypto.view(a, [4, 32], [n[0], 0]), [0, 0], out)  # there

    with refused(IndexError, "-1", code="F00008", at="here"):
        on_ramp(act)()
    with refused(IndexError, "-3", code="F00008", cls=GENERAL, at="there"):
        k(ramp(), ints(-3), blank(16, 32))


def test_view_as_a_dtype_that_does_not_divide_case107():
    @pypto.jit
    def k(a: P([], pypto.DT_INT8), out: P([], DT)):
        pypto.set_vec_tile_shapes(8, 32)
        out[:] = pypto.view(a, dtype=DT)  # here

    with refused(ValueError, "3", code="F00002", at="here"):
        k(torch.zeros(2, 3, dtype=torch.int8), torch.zeros(2, 1))


@pytest.mark.parametrize("shape", [[5, 100], [-1, 5]], ids=str)
def test_reshape_to_another_count_case108(shape):
    def act(a, out):
        out[:] = a.reshape(shape).reshape([16, 32])  # here

    with refused(ValueError, "Shape size not match", "512", code="F00002", at="here"):
        on_ramp(act)()


def test_reshape_with_two_unknowns_case108():
    def act(a, out):
        out[:] = a.reshape([-1, -1])  # here

    with refused(ValueError, "Only one dim can be inferred", code="F00002", at="here"):
        on_ramp(act)()


def test_reshape_of_dynamic_dims_needs_inplace_case108():
    def act(a, out):
        pypto.reshape(a, [a.shape[0] * 2, 16])  # here

    with refused(
        TypeError, "reshape() requires integer shape", "inplace=True", code="F00001", at="here"
    ):
        on_ramp(act, spec=ROWS)()


def test_in_place_reshape_to_another_count_case108():
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(1, 16)
        v = pypto.reshape(out, [a.shape[0] * 2, 16], inplace=True)  # here
        v[0:1, :] = a[0:1, 0:16]

    out = blank(4, 32)
    k(ramp(4), out)
    assert torch.equal(out[0, 0:16], ramp()[0, 0:16])
    with refused(ValueError, "Shape size not match", code="F00002", cls=GENERAL, at="here"):
        k(ramp(4), blank(5, 32))


def test_in_place_reshape_with_a_valid_shape_case110():
    def act(a, out):
        v = pypto.reshape(a, [32, 16], valid_shape=[32, 16], inplace=True)  # here
        out[0:1, 0:16] = v[0:1, :]

    with refused(ValueError, "Reshape(Inplace=true) is not supported", code="F00002", at="here"):
        on_ramp(act)()


def wrong_offsets(a, out):
    pypto.assemble(a, [0], out)  # here


def wrong_rank(a, out):
    pypto.assemble(a.reshape([1, 16, 32]), [0, 0], out)  # here


def wrong_dtype(a, out):
    pypto.assemble(pypto.cast(a, H), [0, 0], out)  # here


def wrong_dtype_of_a_slice(a, out):
    out[0:16, 0:32] = pypto.cast(a, H)  # here


def wrong_offsets_in_a_list(a, out):
    pypto.assemble([(a, [0])], out)  # here


def wrong_rank_of_an_add(a, out):
    pypto.atomic_add(a.reshape([1, 16, 32]), [0, 0], out)  # here


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (wrong_offsets, ("Assemble: dynOffset and dest requires same shape",)),
        (wrong_rank, ("Assemble: src and dest requires same shape", "3", "2")),
        (wrong_dtype, ("Assemble: src and dest requires same dtype", "DT_FP16", "DT_FP32")),
        (wrong_dtype_of_a_slice, ("same dtype", "DT_FP16", "DT_FP32", "cast")),
        (wrong_offsets_in_a_list, ("dynOffset and dest requires same shape",)),
        (wrong_rank_of_an_add, ("AtomicRMW: src and dest requires same shape",)),
    ],
    ids=["offsets", "rank", "dtype", "dtype of a slice", "list", "atomic_add"],
)
def test_misfits_of_assemble_case112(act, words):
    with refused(ValueError, *words, code="F00002", at="here"):
        on_ramp(act)()


def test_assemble_of_a_dynamic_tensor_case112():
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(1, 32)
        pypto.assemble(a, [0, 0], out)  # here

    with refused(
        ValueError, "Assemble: shape of src tensor requires integer", code="F00002", at="here"
    ):
        k(ramp(), blank(16, 32))


@pytest.mark.parametrize(
    "compute",
    [
        lambda a: pypto.exp(a),
        lambda a: a + 1.0,
        lambda a: 1.0 - a,
        lambda a: a + a,
        lambda a: a.sum(-1, keepdim=True),
        lambda a: pypto.matmul(a, a, DT, b_trans=True),
        lambda a: a > 1.0,
        lambda a: a.transpose(0, 1),
    ],
    ids=["unary", "scalar", "reflected", "binary", "sum", "matmul", "compare", "transpose"],
)
def test_op_on_a_dynamic_tensor_case114(compute):
    def act(a, out):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        compute(a)

    with refused(
        ValueError,
        "Dynamic shape tensors are not allowed as operation operands",
        "pypto.loop",
        code="F0000A",
    ):
        on_ramp(act, spec=ROWS)()


@pytest.mark.parametrize(
    "compute",
    [
        lambda a: 2**a,
        lambda a: a & a,
        lambda a: a | a,
        lambda a: ~a,
        lambda a: a << 1,
        lambda a: abs(a),
        lambda a: round(a),
        lambda a: len(a),
        lambda a: a + "1",
        lambda a: a * None,
        lambda a: 5 // a,
        lambda a: 5 % a,
        lambda a: a.dim(),
    ],
    ids=[
        "reflected **",
        "&",
        "|",
        "~",
        "<<",
        "abs",
        "round",
        "len",
        "str",
        "None",
        "reflected //",
        "reflected %",
        "dim()",
    ],
)
def test_operators_that_a_tensor_does_not_have_case115(compute):
    with refused(TypeError, code="F00001"):
        on_ramp(lambda a, out: out.move(compute(a)))()


def test_float_scalar_on_an_integer_tensor_case116():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        out[:] = n + 1.5  # here

    with refused(
        TypeError,
        "add(): float scalar incompatible with integer tensor dtype DT_INT32",
        code="F00001",
        cls=ANY,
        at="here",
    ):
        k(ints(*range(8)), ints(*range(8)))


def test_matmul_operator_on_int32_case117():
    @pypto.jit
    def k(a: I32, out: I32):
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        out[:] = a @ a  # here

    square = torch.ones(16, 16, dtype=torch.int32)
    with refused(RuntimeError, "unsupported dtype", "DT_INT32", code="F00003", at="here"):
        k(square, square.clone())


def test_transposed_attribute_names_the_ways_out_case118():
    def act(a, out):
        out[:] = a.T  # here

    with refused(
        AttributeError,
        "Tensor object has no attribute T",
        "a_trans",
        "b_trans",
        "pypto.transpose(a, 0, 1)",
        code="F0FFFF",
        at="here",
    ):
        on_ramp(act)()


@pytest.mark.parametrize("name", ["mean", "half", "numel", "item", "no_such_thing"])
def test_attribute_that_a_tensor_does_not_have_case118(name):
    def act(a, out):
        getattr(a, name)

    with refused(AttributeError, "has no attribute", name, code="F0FFFF"):
        on_ramp(act)()


def iterates(a, out):
    for row in a:  # here
        out[0:1, :] = row


def unpacks(a, out):
    first, second = a[0:2, :]  # here
    out[0, :] = first + second


def stars(a, out):
    list(a)  # here


@pytest.mark.parametrize("act", [iterates, unpacks, stars], ids=["for", "unpacking", "list"])
def test_iteration_over_a_tensor_case119(act):
    with refused(TypeError, "Tensor is not iterable.", code="F00001", at="here"):
        on_ramp(act)()


def test_shapes_that_do_not_broadcast():
    def act(a, out):
        out[:] = a + a[0:4, :]  # here

    with refused(
        ValueError,
        "Tensor shape must be consistent or broadcast compatible",
        "16",
        "4",
        code="FC0000",
        cls=ANY,
        at="here",
    ):
        on_ramp(act)()


def test_tile_that_is_not_set_names_its_setter():
    @pypto.jit
    def vector(a: F32, out: F32):
        out[:] = a.exp()  # here

    @pypto.jit
    def cube(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[0:16, 0:16] = pypto.matmul(a, a, DT, b_trans=True)  # here

    @pypto.jit
    def after_a_loop(a: F32, out: F32):
        for i in pypto.loop(2):
            pypto.set_vec_tile_shapes(1, 32)
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0
        out[:] = a * 2.0  # here

    for kernel, op, setter in (
        (vector, "exp", "set_vec_tile_shapes"),
        (cube, "matmul", "set_cube_tile_shapes"),
        (after_a_loop, "mul", "set_vec_tile_shapes"),
    ):
        with refused(ValueError, f"tile shape not set for {op}", setter, code="F21004", at="here"):
            kernel(ramp(), blank(16, 32))


def test_two_types_in_the_arms_of_a_branch_are_refused_at_the_use():
    @pypto.jit
    def k(n: I32, a: F32, out: F32, use):
        pypto.set_vec_tile_shapes(16, 32)
        if n[0] > 0:
            t = a * 2.0
        else:
            t = 5
        if use:
            out[:] = t + a  # here
        else:
            out[:] = a

    with refused(
        TypeError, "`t` has different types in the two branches", code="F00001", at="here"
    ):
        k(ints(1), ramp(), blank(16, 32), True)
    out = blank(16, 32)
    k(ints(1), ramp(), out, False)
    assert torch.equal(out, ramp())


def test_two_shapes_in_the_arms_of_a_branch_are_refused_at_the_use():
    @pypto.jit
    def k(n: I32, a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        if n[0] > 0:
            t = a[0:4, :] * 2.0
        else:
            t = a[0:8, :] * 2.0
        out[0:4, :] = t  # here

    with refused(
        TypeError, "`t` has different types in the two branches", code="F00001", at="here"
    ):
        k(ints(1), ramp(), blank(16, 32))


def test_shape_that_changes_from_trip_to_trip():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a[0:1, :] * 1.0
        for _ in pypto.loop(2):
            t = pypto.concat([t, t], 0)
        out[0:4, :] = t

    with refused(TypeError, "`t`", code="F00001"):
        k(ramp(), blank(16, 32))


def test_local_that_is_read_and_never_written():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        t = pypto.tensor([1], pypto.DT_INT32, "counts")
        for i in pypto.loop(n[0]):
            out[i] = t[0]  # here

    with refused(ValueError, "`counts`", "never written", code="F40000", at="here"):
        k(ints(1), ints(0))


def outer_helper(a, out):
    return inner_helper(a) * 2.0  # outer


def inner_helper(a):
    return a + a[0:3, :]  # inner


def numbered(mark):
    """The number of the line of this file that ends with the comment `# mark`."""
    with open(__file__, encoding="utf-8") as source:
        return [n for n, line in enumerate(source, 1) if line.rstrip().endswith(f"# {mark}")][0]


def test_error_in_a_helper_shows_every_frame_case128():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = outer_helper(a, out)  # entry

    with refused(ValueError, "broadcast", code="FC0000", cls=ANY, at="inner") as caught:
        k(ramp(), blank(16, 32))
    error, shown = caught.value, str(caught.value)
    assert error.loc.line == numbered("inner")
    assert os.path.samefile(error.loc.file, __file__)
    for mark in ("inner", "outer", "entry"):
        assert f"{os.path.basename(__file__)}:{numbered(mark)}" in shown
    assert "return a + a[0:3, :]" in shown


def test_every_error_is_of_the_package_and_of_python_case129():
    def act(a, out):
        out[:] = a + a[0:3, :]

    with pytest.raises(ValueError, match="ErrCode: FC0000") as caught:
        on_ramp(act)()
    assert isinstance(caught.value, pypto.error.PyptoError)
    assert issubclass(pypto.error.FeError, GENERAL) and issubclass(GENERAL, ANY)
    for name in ("PyptoRtError", "PassError", "VerifyError"):
        assert issubclass(getattr(pypto.error, name), GENERAL)
    assert issubclass(pypto.error.RenderedParserError, pypto.error.ParserError)
    assert issubclass(pypto.error.ParserError, ANY) and issubclass(ANY, Exception)


def test_op_outside_any_kernel_is_refused():
    with refused(RuntimeError, "not inside a", "jit", code="F21003"):
        pypto.full([4, 4], 1.0, DT)


def test_math_on_a_tensor_is_refused():
    def act(a, out):
        out[:] = a * math.sqrt(a)  # here

    with refused(TypeError, code="F00001", at="here"):
        on_ramp(act)()
