"""Ordinary Python inside a kernel stays ordinary Python.

In go kernels full of statements, expressions and helpers; out must come the numbers that the text
gives when it is read from top to bottom, with a portability note where another front end would
refuse the form. Forms that cannot mean anything in a kernel are in `test_errors_by_case.py`.
It has more than 600 lines because each form of the language needs a kernel of its own.
"""

import contextlib
import dataclasses
import functools
import operator

import pytest
import torch
from kernel_factory import F32, blank, ramp

import pypto

P = pypto.Tensor
DT = pypto.DT_FP32
I32 = P([], pypto.DT_INT32)


def result(kernel, *more, out=None):
    """Runs `kernel(a, out, *more)` on the ramp and gives `out` back."""
    out = blank(16, 32) if out is None else out
    assert kernel(ramp(), out, *more) is None
    return out


@pypto.jit
def added_up(a: F32, out: F32, n):
    pypto.set_vec_tile_shapes(16, 32)
    acc = a
    for _ in range(n):
        acc = acc + a
    out[:] = acc


@pytest.mark.parametrize("n", [3, 1, 0])
def test_static_for_accumulates_case31(n):
    assert torch.equal(result(added_up, n), ramp() * (n + 1))


def test_for_over_any_python_iterable_case32():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b, c = a * 2.0, a * 4.0
        s = a * 0.0
        for t in [a, b, c]:
            s = s + t
        for i, t in enumerate([a, b]):
            s = s + t * float(i)
        for name, t in {"x": a, "yy": b}.items():
            s = s + t * float(len(name))
        for t, f in zip((a, b), (8.0, 16.0), strict=True):
            s = s + t * f
        for f in iter([32.0]):
            s = s + a * f
        for f in (g * 2.0 for g in (1.0, 2.0)):
            s = s + a * f
        for _ in []:
            s = s * 0.0
        out[:] = s

    assert torch.equal(result(k), ramp() * (7 + 2 + 5 + 40 + 32 + 6))


def test_static_while_break_and_continue_case33():
    @pypto.jit
    def k(a: F32, out: F32, n):
        pypto.set_vec_tile_shapes(16, 32)
        s = a * 0.0
        while n > 0:
            s = s + a
            n -= 1
        while True:
            n += 1
            if n == 2:
                continue
            if n > 4:
                break
            s = s + a * 10.0
        for i in range(100):
            if i == 1:
                continue
            if i == 4:
                break
            s = s + a * 100.0
        out[:] = s

    assert torch.equal(result(k, 3), ramp() * (3 + 30 + 300))


def test_static_break_copies_the_first_rows_case33():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in range(8):
            if i == 3:
                break
            out[i:i + 1, :] = a[i:i + 1, :] * 1.0

    want = blank(16, 32)
    want[0:3] = ramp()[0:3]
    assert torch.equal(result(k), want)


def test_break_and_continue_of_a_static_loop_in_a_dynamic_one_case34():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(16):
            t = a[i:i + 1, :] * 0.0
            for j in range(10):
                if j == 1:
                    continue
                if j == 4:
                    break
                t = t + a[i:i + 1, :] * float(j)
            out[i:i + 1, :] = t

    assert torch.equal(result(k), ramp() * 5)


@pypto.jit
def bare_return(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * 2.0
    return


@pypto.jit
def return_of_a_value(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * 2.0
    return out


@pypto.jit
def early_return(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * 2.0
    if a.shape[0] == 16:
        return
    out[:] = a * 3.0


@pypto.jit
def return_in_a_static_loop(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for factor in range(10):
        out[:] = a * float(factor)
        if factor == 2:
            return


@pypto.jit
def loop_with_else(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    for _ in range(3):
        pass
    else:
        out[:] = a * 2.0


@pypto.jit
def left_loop_with_else(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * 2.0
    for i in range(3):
        if i == 1:
            break
    else:
        out[:] = a * 3.0


@pypto.jit
def while_with_else(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    n = 2
    while n > 0:
        n -= 1
    else:
        out[:] = a * 2.0


@pypto.jit
def with_statement(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    with contextlib.nullcontext(2.0) as factor:
        out[:] = a * factor


@pypto.jit
def try_except(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    try:
        factor = {}["nothing"]
    except KeyError:
        factor = 2.0
    out[:] = a * factor


@pypto.jit
def try_finally(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    factor = 1.0
    try:
        factor = factor + 0.5
    finally:
        factor = factor + 0.5
    out[:] = a * factor


@pypto.jit
def starred_target(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    first, *others = [a, a * 3.0, a * 4.0]
    out[:] = others[1] + others[0] - first * 5.0


@pypto.jit
def walrus(a: F32, out: F32):
    pypto.set_vec_tile_shapes(16, 32)
    if (n := len(a.shape)) == 2:
        out[:] = a * float(n)


@pytest.mark.parametrize(
    "kernel",
    [bare_return, return_of_a_value, early_return, return_in_a_static_loop],
    ids=["bare", "with a value", "early", "in a static loop"],
)
def test_return_in_a_kernel_is_python_with_a_note_case35(kernel):
    with pytest.warns(pypto.error.PortabilityNote, match="return"):
        out = result(kernel)
    assert torch.equal(out, ramp() * 2)


@pytest.mark.parametrize(
    ("kernel", "word"),
    [(loop_with_else, "else"), (left_loop_with_else, "else"), (while_with_else, "else"),
     (with_statement, "with"), (try_except, "try"), (try_finally, "try"),
     (starred_target, "starred"), (walrus, ":=")],
    ids=["for else", "for else left by break", "while else", "with", "try except", "try finally",
         "starred", "walrus"],
)
def test_statements_that_other_front_ends_refuse_run_as_python_with_a_note_case41(kernel, word):
    with pytest.warns(pypto.error.PortabilityNote, match=word):
        out = result(kernel)
    assert torch.equal(out, ramp() * 2)


def scaled(x, y=2.0):
    return x * y


def two_sums(x):
    return x + 1.0, x + 2.0


def test_helper_with_default_keyword_and_tuple_result_case36():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        one, two = two_sums(a)
        out[:] = scaled(a) + scaled(a, y=3.0) + scaled(y=4.0, x=a) + scaled(one, 16.0) - two

    a = ramp()
    assert torch.equal(result(k), a * 9 + (a + 1) * 16 - (a + 2))


def early(x, flag):
    if flag:
        return x
    return x + 1.0


def test_helper_with_an_early_return_case37():
    @pypto.jit
    def k(a: F32, out: F32, flag):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = early(a, flag) * 2.0

    assert torch.equal(result(k, True), ramp() * 2)
    assert torch.equal(result(k, False), (ramp() + 1) * 2)


def by_keyword(**kw):
    return kw["t"] + kw.get("c", 1.0)


def test_helper_with_kwargs_case38():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = by_keyword(t=a) * 1000.0 + by_keyword(**{"t": a, "c": 2.0})

    a = ramp()
    assert torch.equal(result(k), (a + 1) * 1000 + (a + 2))


def rows_by_keyword(**kw):
    for i in pypto.loop(kw["rows"]):
        if i < 2:
            kw["dst"][i:i + 1, :] = kw["src"][i:i + 1, :] * 2.0
        else:
            kw["dst"][i:i + 1, :] = kw["src"][i:i + 1, :] * 3.0


def test_helper_with_kwargs_and_dynamic_control_flow_case38():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        rows_by_keyword(rows=5, src=a, dst=out)

    want = blank(16, 32)
    want[0:2], want[2:5] = ramp()[0:2] * 2, ramp()[2:5] * 3
    assert torch.equal(result(k), want)


def product_of(*factors):
    return functools.reduce(operator.mul, factors)


def test_helper_with_star_args_runs_as_python_case41():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = product_of(a, 2.0, *[3.0, 4.0])

    assert torch.equal(result(k), ramp() * 24)


def doubled(t, depth):
    return t if depth == 0 else doubled(t * 2.0, depth - 1)


def test_nested_def_lambda_and_recursion_case39():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)

        def plus(t, c=1.0, /, *, more=0.0):
            return t + a * c + more

        out[:] = plus(a) + plus(a, 2.0, more=5.0) + (lambda t: t * 8.0)(a) + doubled(a, 3)

    assert torch.equal(result(k), ramp() * (2 + 3 + 8 + 8) + 5)


def test_lambda_sees_the_last_value_of_a_name_case39():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        factor = 2.0
        late = lambda t: t * factor  # noqa: E731
        factor = 3.0
        fs = [lambda t, j=j: t * float(j) for j in range(3)]
        out[:] = late(a) + fs[1](a) + fs[2](a)

    assert torch.equal(result(k), ramp() * 6)


def test_comprehensions_case40():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        parts = [a * float(i) for i in range(3)]
        table = {i: i * i for i in range(4) if i != 2}
        odd = {i % 2 for i in range(9)}
        grid = [(i, j) for i in range(2) for j in range(3) if i < j]
        s = parts[0]
        for part in parts[1:]:
            s = s + part
        total = sum(table.values()) + sum(odd) + len(grid)
        out[:] = s + float(total)

    assert torch.equal(result(k), ramp() * 3 + (10 + 1 + 3))


def put(dst, v):
    dst[:] = v


def test_helper_that_writes_its_argument_in_a_loop_case42():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        dst = pypto.tensor([1, 32], DT)
        for i in pypto.loop(5):
            put(dst, a[i:i + 1, :] * 2.0)
        out[0:1, :] = dst

    want = blank(16, 32)
    want[0:1] = ramp()[4:5] * 2
    assert torch.equal(result(k), want)


def rebinds(t):
    t = t * 100.0
    return t


def test_helper_that_rebinds_its_parameter_leaves_the_caller_alone():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        t = a * 2.0
        rebinds(t)
        out[:] = t

    assert torch.equal(result(k), ramp() * 2)


@dataclasses.dataclass
class Cfg:
    n: int = 1
    scale: float = 2.0

    def scaled(self, t):
        return t * self.scale


def test_unpacking_chains_and_augmented_targets_case43():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        pair = [a, a * 2.0]
        a_, b_ = pair
        (c_, (d_, e_)), f_ = ((a, (a_, b_)), 5.0)
        x = y = a + 1.0
        lst = [a, 7.0]
        lst[0] += 1.0
        lst[1] *= 2.0
        cfg = Cfg()
        cfg.n += 1
        typed: float = 0.5
        empty: float  # noqa: F842
        out[:] = (a_ + b_) + (c_ + d_ + e_) * f_ + (x + y) + lst[0] + lst[1] + cfg.n + typed

    a = ramp()
    assert torch.equal(result(k), a * 3 + a * 20 + (a + 1) * 2 + (a + 1) + 14 + 2 + 0.5)


def fail():
    raise RuntimeError("this must not be evaluated")


def test_python_logic_short_circuits_case44():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        assert (0 and fail()) == 0
        assert (3 or fail()) == 3
        assert not (5 < 4 < fail())
        f = 1.0 if a.shape[0] == 16 else fail()
        f = f + (10.0 if 1 < 2 < 3 else 0.0) + (0.0 or 100.0) + ([] and 7.0 or 1000.0)
        out[:] = a * f

    assert torch.equal(result(k), ramp() * 1111)


def test_assert_passes_case46():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        assert a.shape[1] == 32, "bad"
        out[:] = a * 2.0

    assert torch.equal(result(k), ramp() * 2)


def test_f_string_makes_a_name_case47():
    @pypto.jit
    def k(a: F32, out: F32, n):
        pypto.set_vec_tile_shapes(1, 32)
        i = 2
        t = pypto.tensor([1, 32], DT, name=f"{i}-{n:03d}{'s'!r}")
        assert t.name == "2-007's'"
        for j in pypto.loop(3, name=f"rows_{n}", idx_name=f"{n=}"):
            t[:] = a[j:j + 1, :] * 2.0
        out[0:1, :] = t

    want = blank(16, 32)
    want[0:1] = ramp()[2:3] * 2
    assert torch.equal(result(k, 7), want)


def test_f_string_shows_a_symbol():
    @pypto.jit
    def k(a: P([pypto.DYNAMIC, 32], DT), out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(a.shape[0]):
            assert f"{i}" == str(i) and f"{i + 1!r}" == repr(i + 1)
            out[i:i + 1, :] = a[i:i + 1, :] * 2.0

    assert torch.equal(result(k), ramp() * 2)


def test_deleted_name_may_be_bound_again_case48():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        tmp = a * 100.0
        del tmp
        tmp = a * 2.0
        d = {"x": 1.0, "y": 2.0}
        del d["x"]
        out[:] = tmp + float(len(d))

    assert torch.equal(result(k), ramp() * 2 + 1)


class Layer:
    """A user's class: methods, a class method, a property, `__call__`."""

    bias = 3.0

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, t):
        return self.shifted(t * self.scale)

    def shifted(self, t):
        return t + self.bias

    @classmethod
    def biased(cls, t):
        return t + cls.bias

    @staticmethod
    def negated(t):
        return -t

    @property
    def twice(self):
        return self.scale * 2.0

    def rows(self, src, dst):
        for i in pypto.loop(4):
            if i == 2:
                dst[i:i + 1, :] = src[i:i + 1, :] * self.scale
            else:
                dst[i:i + 1, :] = self.shifted(src[i:i + 1, :])


def test_methods_of_a_users_class():
    @pypto.jit
    def k(a: F32, out: F32, layer):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = layer(a) + Layer.biased(a) * layer.twice + Layer.negated(a)

    a = ramp()
    assert torch.equal(result(k, Layer(2.0)), (a * 2 + 3) + (a + 3) * 4 - a)


def test_method_with_dynamic_control_flow():
    @pypto.jit
    def k(a: F32, out: F32, layer):
        pypto.set_vec_tile_shapes(1, 32)
        layer.rows(a, out)

    a, want = ramp(), blank(16, 32)
    want[0:4] = a[0:4] + 3
    want[2] = a[2] * 2
    assert torch.equal(result(k, Layer(2.0)), want)


def with_factor(factor):
    def decorate(f):
        @functools.wraps(f)
        def wrapped(*args, **kwargs):
            return f(*args, **kwargs) * factor

        return wrapped

    return decorate


@with_factor(10.0)
def summed_rows(t, rows):
    """Sum of the first rows, with a loop and a branch in it."""
    acc = pypto.full([1, 32], 0.0, DT)
    for i in pypto.loop(rows):
        if i > 0:
            acc = acc + t[i:i + 1, :]
    return acc


def test_decorated_helper_with_dynamic_control_flow():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        out[0:1, :] = summed_rows(a, rows=4)

    want = blank(16, 32)
    want[0] = ramp()[1:4].sum(0) * 10
    assert torch.equal(result(k), want)


def test_partial_and_other_callables():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        by_three = functools.partial(scaled, y=3.0)
        out[:] = functools.reduce(operator.add, map(by_three, [a, a * 2.0]))

    assert torch.equal(result(k), ramp() * 9)


def test_helper_marked_as_a_frontend_function():
    @pypto.frontend.function
    def marked(t, c=1.0):
        return t + c

    @pypto.frontend.function()
    def also_marked(t):
        return t * 2.0

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = marked(a) + also_marked(marked(a, c=5.0))

    assert torch.equal(result(k), (ramp() + 1) + (ramp() + 5) * 2)


def test_lists_and_dicts_of_tensors():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        stack = []
        for f in (1.0, 2.0, 3.0):
            stack.append(a * f)
        table = {"sum": stack[0] + stack[1], ("last", 1): stack[-1]}
        table.update(product=table["sum"] * 2.0)
        (first, second), third = stack[:2], stack.pop()
        merged = [*stack, third]
        out[:] = table["product"] + table["last", 1] + first + second + merged[2]

    assert torch.equal(result(k), ramp() * (6 + 3 + 1 + 2 + 3))


def add_into(tensors):
    tensors["o"][:] = tensors["q"] + tensors["k"]


def test_helper_writes_through_a_dict_of_tensors_case125():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        b = a * 2.0
        add_into({"q": a, "k": b, "o": out})

    assert torch.equal(result(k), ramp() * 3)


def test_closure_over_a_tensor_and_a_setting():
    factor = 4.0

    def shifted(t):
        return t + factor

    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        base = a * factor

        def with_base(t):
            return shifted(t) + base

        out[:] = with_base(a)

    assert torch.equal(result(k), ramp() * 5 + 4)


def test_nonlocal_counter_in_a_nested_def():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(16, 32)
        calls = 0

        def scaled_again(t):
            nonlocal calls
            calls += 1
            return t * 2.0

        t = scaled_again(scaled_again(a))
        out[:] = t + float(calls)

    assert torch.equal(result(k), ramp() * 4 + 2)


def test_match_statement_and_import_in_a_kernel():
    @pypto.jit
    def k(a: F32, out: F32, mode):
        import math

        pypto.set_vec_tile_shapes(16, 32)
        match mode:
            case ("scale", factor):
                out[:] = a * factor
            case _:
                out[:] = a * float(math.floor(3.7))

    assert torch.equal(result(k, ("scale", 2.0)), ramp() * 2)
    assert torch.equal(result(k, "other"), ramp() * 3)


def test_set_vec_tile_shapes_in_a_helper_stays_in_force():
    def tiles():
        pypto.set_vec_tile_shapes(8, 16)

    @pypto.jit
    def k(a: F32, out: F32):
        tiles()
        if a.shape[0] == 16:
            pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        assert list(pypto.get_vec_tile_shapes()) == [8, 16]
        out[:] = a * 2.0 + pypto.matmul(a, a, DT, b_trans=True)[0, 0:1].reshape([1, 1]) * 0.0

    assert torch.equal(result(k), ramp() * 2)


def test_print_runs_once_per_trace(capsys):
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        print("kernel")
        for i in pypto.loop(4, unroll_list=[2, 1]):
            print("body")
            if i == 1:
                print("then")
            else:
                print("otherwise")
            out[i:i + 1, :] = a[i:i + 1, :] * 2.0

    for _ in range(3):
        assert torch.equal(result(k)[0:4], ramp()[0:4] * 2)
    assert capsys.readouterr().out.split() == ["kernel", "body", "then", "otherwise"]


def test_chain_of_methods_and_both_columns_of_the_guide():
    @pypto.jit
    def k(a: F32, out: F32, wide):
        pypto.set_vec_tile_shapes(16, 32)
        x = a * 0.01 + 0.5
        if wide:
            y = pypto.mul(pypto.mul(x, x), pypto.add(x, 1.0))
            s = pypto.rsqrt(pypto.add(pypto.sum(y, dim=-1, keepdim=True), 1e-6))
            t = pypto.exp(pypto.neg(pypto.abs(pypto.sub(y, 2.0))))
            u = pypto.transpose(pypto.cast(pypto.sqrt(y), DT), 0, 1)
            v = pypto.reshape(u, [16, 32])
        else:
            y = x * x * (x + 1.0)
            s = (y.sum(-1, keepdim=True) + 1e-6).rsqrt()
            t = (y - 2.0).abs().neg().exp()
            v = y.sqrt().float().transpose(0, 1).reshape([16, 32])
        out[:] = t * s + v

    x = ramp() * 0.01 + 0.5
    y = x * x * (x + 1)
    want = torch.exp(-(y - 2).abs()) * (y.sum(-1, keepdim=True) + 1e-6).rsqrt()
    want = want + y.sqrt().t().reshape(16, 32)
    for wide in (True, False):
        torch.testing.assert_close(result(k, wide), want, rtol=1e-5, atol=1e-6)
    assert torch.equal(result(k, True), result(k, False))
