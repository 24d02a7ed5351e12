"""Symbolic integers: dims of the call, loop indices and elements read from integer tensors.

In go expressions over them; out must come the integers of ordinary Python, wherever the language
takes an integer, and the one error text of the language wherever it needs a concrete one.
"""

import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
D = pypto.DYNAMIC
I32 = P([], pypto.DT_INT32)
ROWS = P([D, 32], DT)
GENERAL = pypto.error.PyptoGeneralError
Sym = pypto.SymbolicScalar


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def trail(length=16):
    return torch.full((length,), -1, dtype=torch.int32)


@pypto.jit
def evaluated(a: ROWS, out: I32, functions):
    pypto.set_vec_tile_shapes(8)
    n = a.shape[0]
    for place, function in enumerate(functions):
        out[place] = function(n)


def values(*functions, rows=16):
    """What the functions give for a dim of `rows`, computed in a kernel."""
    out = trail(len(functions))
    evaluated(ramp(rows), out, functions)
    return out.tolist()


def arithmetic(n):
    return (n * 2, n + 1, 2 * n, n // 4, n / 4, n % 5, -n, +n, n - 20, 3 - n, 100 // n, 100 % n)


def floors(n):
    return ((-n) // 5, (-n) % 5, n // -5, n % -5, (-n) / 5, -33 // n, -33 % n, (n - n) // 7)


@pytest.mark.parametrize("rows", [16, 3, 1])
def test_arithmetic_case76(rows):
    @pypto.jit
    def k(a: ROWS, out: I32):
        pypto.set_vec_tile_shapes(8)
        for place, value in enumerate(arithmetic(a.shape[0])):
            out[place] = value

    out = trail(12)
    k(ramp(rows), out)
    want = [rows // 4 if place == 4 else value for place, value in enumerate(arithmetic(rows))]
    assert out.tolist() == want


def test_sixteen_rows_give_the_numbers_of_case76():
    assert values(
        lambda n: n * 2,
        lambda n: n + 1,
        lambda n: 2 * n,
        lambda n: n // 4,
        lambda n: n / 4,
        lambda n: n % 5,
        lambda n: -n,
    ) == [32, 17, 32, 4, 4, 1, -16]


@pytest.mark.parametrize("rows", [16, 15, 3])
def test_division_and_remainder_are_pythons_floor_case76(rows):
    @pypto.jit
    def k(a: ROWS, out: I32):
        pypto.set_vec_tile_shapes(8)
        for place, value in enumerate(floors(a.shape[0])):
            out[place] = value

    out = trail(8)
    k(ramp(rows), out)
    want = list(floors(rows))
    want[4] = -rows // 5
    assert out.tolist() == want


def test_constants_divide_as_the_run_does_case76():
    seven = Sym(-7)
    assert [int(seven // 2), int(seven % 2), int(7 // Sym(-2)), int(Sym(7) / 2)] == [-4, 1, -4, 3]


def test_expressions_are_offsets_and_bounds_case76():
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(1, 32)
        n = a.shape[0]
        for i in pypto.loop(n // 4, n * 2 - n, 1):
            t = pypto.view(a, [1, 32], [n - 1 - i, 0])
            pypto.assemble(t * 2.0, [i - n // 4, 0], out)

    a, out = ramp(16), blank(16, 32)
    k(a, out)
    want = blank(16, 32)
    want[0:12] = a[0:12].flip(0) * 2
    assert torch.equal(out, want)


def test_concrete_symbols_on_the_host_case77():
    seven = Sym(3) + 4
    assert seven.is_concrete() and seven.concrete() == 7 and int(seven) == 7
    assert seven.is_immediate() and not seven.is_symbol() and bool(seven)
    assert not bool(Sym(3) - 3)
    n = Sym("n")
    assert n.is_symbol() and not n.is_concrete() and not n.is_immediate()
    assert (n + 1).is_expression() and not n.is_expression()
    assert Sym("m", 5).is_concrete() and Sym("m", 5).concrete() == 5
    assert str(Sym(n)) == str(n) and (n - n).is_concrete()
    assert n.as_variable() is None
    assert (n * 0 + 3).simplify().concrete() == 3
    assert isinstance(pypto.symbolic_scalar("n"), Sym)


@pytest.mark.parametrize(
    "convert",
    [int, bool, lambda s: s.concrete(), lambda s: [1, 2][s], lambda s: range(s)],
    ids=["int", "bool", "concrete", "list", "range"],
)
def test_an_unknown_symbol_on_the_host_is_no_int_case77(convert):
    with refused(ValueError, "Not concrete value", code="F21004"):
        convert(Sym("n"))


@pytest.mark.parametrize("value", [2.5, None, [1]], ids=str)
def test_a_symbol_is_made_of_an_int_or_a_name_case77(value):
    with pytest.raises(TypeError):
        Sym(value)


def test_text_of_an_expression_case78():
    n = Sym("n")
    assert "n" in str(n * 2) and "*" in str(n * 2) and "2" in str(n * 2)
    assert repr(n * 2) == str(n * 2) and str(Sym(7)) == "7"


def test_any_attribute_may_be_set_on_a_symbol():
    n = Sym("n")
    n.axis = "rows"
    assert n.axis == "rows"


@pytest.mark.parametrize(
    ("fault", "builtin", "words", "code"),
    [
        (lambda n: n + 1.5, TypeError, "Invalid type.", "F00001"),
        (lambda n: 1.5 * n, TypeError, "Invalid type.", "F00001"),
        (lambda n: n == None, TypeError, "Invalid type.", "F00001"),  # noqa: E711
        (lambda n: n + "a", TypeError, "Invalid type.", "F00001"),
        (lambda n: n < [1], TypeError, "Invalid type.", "F00001"),
        (lambda n: n // 0, ValueError, "Division or Mod by zero.", "F00002"),
        (lambda n: n % 0, ValueError, "Division or Mod by zero.", "F00002"),
        (lambda n: n / 0, ValueError, "Division or Mod by zero.", "F00002"),
        (lambda n: n**2, TypeError, "**", "F00001"),
        (lambda n: n << 1, TypeError, "<<", "F00001"),
    ],
    ids=["float", "float on the left", "None", "str", "list", "// 0", "% 0", "/ 0", "**", "<<"],
)
def test_operands_that_a_symbol_does_not_take_case79(fault, builtin, words, code):
    with refused(builtin, words, code=code):
        values(fault)


def test_none_is_asked_by_identity_case79():
    assert values(lambda n: 3 if n is None else 4) == [4]


def test_logic_on_symbols_case80():
    assert values(
        lambda n: (n > 3) & (n < 20),
        lambda n: (n > 3) & (n < 10),
        lambda n: ~(n > 3),
        lambda n: (n > 3) | 0,
        lambda n: 0 | (n > 300),
        lambda n: n == 16,
        lambda n: n != 16,
        lambda n: n >= 16,
        lambda n: 16 < n,
        lambda n: 8 & n,
    ) == [1, 0, 0, 1, 0, 1, 0, 1, 0, 1]


def test_min_and_max_case81():
    assert values(
        lambda n: n.min(4),
        lambda n: n.max(100),
        lambda n: pypto.min(4, n),
        lambda n: min(n, 4),
        lambda n: max(n, 0),
        lambda n: n.max(0).min(7),
        lambda n: pypto.max(n, n * 2),
        lambda n: max(3, n - 100),
    ) == [4, 100, 4, 4, 16, 7, 32, 3]


def test_min_of_python_numbers_stays_pythons_case81():
    assert values(
        lambda n: min(3, 2),
        lambda n: max([4, 9, 2]),
        lambda n: min((5, 6), key=lambda v: -v),
        lambda n: max((), default=8),
    ) == [2, 9, 6, 8]


@pytest.mark.parametrize(
    "fault",
    [lambda n: range(n), lambda n: [1, 2, 3][n], lambda n: int(n), lambda n: list(range(n, 20))],
    ids=["range", "list index", "int", "range from"],
)
def test_a_symbol_becomes_no_int_case82(fault):
    with refused(
        ValueError,
        "Cannot convert symbols to int",
        "Not concrete value",
        "'SymbolicScalar' object cannot be interpreted as an integer",
        "try:",
        code="F21004",
    ):
        values(fault)


def test_a_loop_index_becomes_no_int_case82():
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(3):
            out[i] = [1, 2, 3][i]  # list

    with refused(ValueError, "Cannot convert symbols to int", code="F21004", at="list"):
        k(trail())


def test_an_element_becomes_no_int_case82():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in range(n[0]):  # range
            out[i] = 1

    with refused(ValueError, "Cannot convert symbols to int", code="F21004", at="range"):
        k(ints(3), trail())


def test_builtin_min_of_three_symbols_case82():
    with refused(ValueError, "Not concrete value", code="F21004"):
        values(lambda n: min(n, 3, 4))


def test_ceildiv_case83():
    assert values(lambda n: pypto.ceildiv(n, 5), lambda n: pypto.ceildiv(n, 4)) == [4, 4]
    assert pypto.ceildiv(7, 2) == 4 and type(pypto.ceildiv(7, 2)) is int


def test_slices_whose_extent_cancels_case84():
    @pypto.jit
    def k(a: P([D, 512], DT), out: P([8, 512], DT)):
        pypto.set_vec_tile_shapes(2, 64)
        n, h = a.shape[0], 4
        for i in pypto.loop(4):
            assert a[i * 4 : i * 4 + 4, :].shape == [4, 512]
            assert a[i * 4 : (i + 1) * 4, :].shape == [4, 512]
            assert a[(i + i) * 2 : i * 4 + 3, :].shape == [3, 512]
            assert a[i : i + 1].shape == [1, 512]
            assert a[n - 2 : n, :].shape == [2, 512]
            assert a[(i * 2 + 1) * h : (i * 2 + 1) * h + h, :].shape == [4, 512]
            assert a[i // 2 * 2 : 2 + i // 2 * 2, :].shape == [2, 512]
            assert a[i // 4 : (i + 16) // 4, :].shape == [4, 512]
            low = pypto.min(i * 5, n)
            assert a[low + 1 : low + 4, :].shape == [3, 512]
            out[i * 2 : (i + 1) * 2, :] = a[i * 4 + n - 16 : n + 4 * i - 14, :] * 2.0

    a, out = ramp(16, 512), blank(8, 512)
    k(a, out)
    assert torch.equal(out, a.reshape(4, 4, 512)[:, 0:2].reshape(8, 512) * 2)


@pytest.mark.parametrize(
    "cut",
    [
        lambda a, i, n: a[i * 4 : pypto.min(i * 4 + 4, n), :],
        lambda a, i, n: a[0:n],
        lambda a, i, n: a[i:n, :],
        lambda a, i, n: a[:, 0:32],
        lambda a, i, n: a[i // 4 : (i + 3) // 4, :],
        lambda a, i, n: a[i : i * 2, :],
    ],
    ids=["min", "dim", "unrelated", "whole dynamic dim", "floor", "scaled"],
)
def test_slices_whose_extent_stays_symbolic_case84(cut):
    @pypto.jit
    def k(a: ROWS, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(4):
            out[0:4, :] = cut(a, i, a.shape[0]) * 2.0

    with refused(ValueError, "Not concrete value", code="F21004"):
        k(ramp(), blank(16, 32))


def test_view_shape_names_the_symbol():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(4, 32)
        for i in pypto.loop(4):
            out[:] = pypto.view(a, [i, 32], [0, 0])  # view

    with refused(
        ValueError,
        "Not concrete value: view shape must be int; `i` is symbolic: put it in offsets or "
        "valid_shape",
        code="F21004",
        at="view",
    ):
        k(ramp(), blank(16, 32))


def test_tile_shapes_take_concrete_symbols_only_case85():
    @pypto.jit
    def concrete(a: F32, out: F32):
        pypto.set_vec_tile_shapes(Sym(16), 32)
        assert list(pypto.get_vec_tile_shapes()) == [16, 32]
        out[:] = a * 2.0

    @pypto.jit
    def symbolic(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(a.shape[0], 32)  # tile
        out[0:1, :] = a[0:1, :] * 2.0

    out = blank(16, 32)
    concrete(ramp(), out)
    assert torch.equal(out, ramp() * 2)
    with refused(ValueError, "Not concrete value", code="F21004", at="tile"):
        symbolic(ramp(), blank(16, 32))


def test_a_symbol_is_unhashable_case86():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Sym("n"))
    with refused(TypeError, "unhashable", code="F00001"):
        values(lambda n: {n: 1}[n])


def test_conditional_expression_selects_a_value_case45():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(4):
            c = 1 if i == 0 else 2
            out[i : i + 1, :] = pypto.view(a, [1, 32], [c * 4, 0]) * 1.0

    out, want = blank(16, 32), blank(16, 32)
    k(ramp(), out)
    want[0], want[1:4] = ramp()[4], ramp()[8]
    assert torch.equal(out, want)


def test_conditional_expression_selects_a_tensor_case45():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a * 2.0 if n[0] > 0 else a + 5.0

    for n, want in ((1, ramp() * 2), (0, ramp() + 5)):
        out = blank(16, 32)
        k(ramp(), ints(n), out)
        assert torch.equal(out, want)


@pytest.mark.parametrize(
    "function",
    [
        lambda i: 1 if 2 <= i < 5 else 0,
        lambda i: 1 if not i == 3 else 0,
        lambda i: i and 7,
        lambda i: i or 9,
        lambda i: 5 if i > 1 and i < 4 or i == 0 else 6,
        lambda i: (1 if i < 1 else 2) if i < 3 else (3 if i < 5 else 4),
        lambda i: 1 if not (i and i - 3) else 0,
        lambda i: 0 < i < 4 < 5,
        lambda i: not i,
    ],
    ids=["chain", "not", "and", "or", "and or", "nested", "not and", "bare chain", "bare not"],
)
def test_python_logic_on_symbols(function):
    @pypto.jit
    def k(out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(6):
            out[i] = function(i)

    out = trail(6)
    k(out)
    assert out.tolist() == [int(function(i)) for i in range(6)]


def fails():
    raise RuntimeError("this must not be evaluated")


def test_concrete_operands_still_short_circuit():
    assert values(
        lambda n: 3 if n.is_concrete() and fails() else 4,
        lambda n: 3 if not n.is_concrete() or fails() else 4,
    ) == [4, 3]


@pypto.jit
def taken_by_value(a: ROWS, n: I32, out: F32):
    pypto.set_vec_tile_shapes(1, 32)
    row = n[1]
    if n[0] == row and a.shape[0] > 2:
        row = row + 1
    if not row:
        out[0:1, :] = a[0:1, :] * 3.0
    else:
        out[0:1, :] = a[row : row + 1, :] * 2.0


@pytest.mark.parametrize(
    ("n", "rows", "want"), [((2, 2), 5, 3), ((2, 2), 2, None), ((1, 0), 3, 0), ((4, 1), 3, 1)]
)
def test_branches_on_mixed_conditions(n, rows, want):
    a, out = ramp(rows), blank(1, 32)
    taken_by_value(a, ints(*n), out)
    # A view past the end of its source has no valid rows, so nothing is written.
    nothing = want is None
    assert torch.equal(out, blank(1, 32) if nothing else a[want : want + 1] * (2 if want else 3))


def test_elements_drive_views_branches_and_loops_case92():
    @pypto.jit
    def k(a: F32, table: I32, out: F32):
        pypto.set_vec_tile_shapes(2, 32)
        for b in pypto.loop(table.shape[0]):
            for j in pypto.loop(table[b, 0]):
                block = table[b, j + 1]
                if block % 2 == 0:
                    out[(b * 3 + j) * 2 : (b * 3 + j) * 2 + 2, :] = (
                        pypto.view(a, [2, 32], [block * 2, 0]) * 1.0
                    )

    a, out, want = ramp(), blank(12, 32), blank(12, 32)
    table = torch.tensor([[3, 6, 1, 0], [1, 4, 7, 7]], dtype=torch.int32)
    k(a, table, out)
    want[0:2], want[4:6], want[6:8] = a[12:14], a[0:2], a[8:10]
    assert torch.equal(out, want)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8], ids=str
)
def test_element_of_a_parameter_of_any_integer_type_case92(dtype):
    @pypto.jit
    def k(n: P(), out: I32):
        pypto.set_vec_tile_shapes(8)
        out[0] = n[0, 1] + 1
        out[1] = n[-1, -2]

    out = trail(2)
    k(torch.tensor([[5, 100], [7, 9]], dtype=dtype), out)
    assert out.tolist() == [101, 7]


def test_element_of_a_local_is_its_value_at_that_point():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        t = n + 1
        before = t[2]
        t[2] = before * 10
        out[0] = before
        out[1] = t[2]
        out[2] = out[1] + out[0]

    out = trail(4)
    k(ints(5, 6, 7, 8, 9, 10, 11, 12), out)
    assert out.tolist() == [8, 80, 88, -1]


def test_element_outside_its_tensor_is_refused_before_it_is_read():
    @pypto.jit
    def static(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        out[0] = n[4]  # static

    @pypto.jit
    def dynamic(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        out[0] = n[n[0]]  # dynamic

    with refused(IndexError, "4", code="F00008", at="static"):
        static(ints(0, 0, 0, 0), trail())
    with refused(IndexError, "9", code="F00008", cls=GENERAL, at="dynamic"):
        dynamic(ints(9, 0, 0, 0), trail())
    with refused(IndexError, "-1", code="F00008", cls=GENERAL, at="dynamic"):
        dynamic(ints(-1, 0, 0, 0), trail())
    out = trail()
    dynamic(ints(2, 0, 42, 0), out)
    assert out[0].item() == 42


def test_symbol_is_a_scalar_operand_with_a_note_case116():
    @pypto.jit
    def k(a: F32, n: I32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        acc = a * 0.0
        cnt = 0
        for i in pypto.loop(n[0]):
            acc = acc + a
            cnt += i
        t = acc * cnt
        t = t + n[1]
        t = n[1] - t
        out[:] = t

    out = blank(16, 32)
    with pytest.warns(pypto.error.PortabilityNote, match="symbolic"):
        k(ramp(), ints(4, 5), out)
    assert torch.equal(out, 5 - (ramp() * 4 * 6 + 5))


def test_fill_value_and_store_take_symbols():
    @pypto.jit
    def k(n: I32, out: I32):
        pypto.set_vec_tile_shapes(8)
        for i in pypto.loop(2):
            t = pypto.full([8], n[i] * 2, pypto.DT_INT32)
            out[i * 8 : i * 8 + 8] = t
        out[n[2]] = n[0] - 100

    out = trail(16)
    k(ints(5, 6, 3), out)
    assert out.tolist() == [10, 10, 10, -95] + [10] * 4 + [12] * 8


def test_dynamic_local_is_a_target_and_a_source_of_views():
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(1, 32)
        n = a.shape[0]
        buf = pypto.tensor([n * 2, 32], DT)
        assert isinstance(buf.shape[0], Sym)
        for i in pypto.loop(n):
            buf[i * 2 : i * 2 + 1, :] = a[i : i + 1, :] * 2.0
            pypto.assemble(a[i : i + 1, :] * 3.0, [i * 2 + 1, 0], buf)
        for i in pypto.loop(n):
            out[i : i + 1, :] = buf[i * 2 : i * 2 + 1, :] + buf[i * 2 + 1 : i * 2 + 2, :]

    for rows in (1, 6, 0):
        out = blank(rows, 32)
        k(ramp(rows), out)
        assert torch.equal(out, ramp(rows) * 5)


def test_ternary_static_and_as_variable():
    assert values(
        lambda n: Sym.tenary(n > 3, n, 5),
        lambda n: Sym.tenary(n > 30, n, 5),
        lambda n: n if n.as_variable() is None else 0,
    ) == [16, 5, 16]


@pytest.mark.parametrize("rows", [15, 16, 17])
def test_tail_with_a_symbolic_valid_shape(rows):
    @pypto.jit
    def k(a: ROWS, out: ROWS):
        pypto.set_vec_tile_shapes(8, 32)
        n = a.shape[0]
        for i in pypto.loop(pypto.ceildiv(n, 8)):
            t = pypto.view(a, [8, 32], [i * 8, 0], valid_shape=[(n - i * 8).min(8), 32])
            pypto.assemble(t * 2.0, [i * 8, 0], out)

    out = blank(rows, 32)
    k(ramp(rows), out)
    assert torch.equal(out, ramp(rows) * 2)
