"""Ordinary Python inside a kernel stays ordinary Python.

In go kernels full of statements, expressions and helpers; out must come the numbers that the text
gives when it is read from top to bottom, with a portability note where another front end would
refuse the form. Forms that cannot mean anything in a kernel are in `test_errors_by_case.py`.
It has more than 600 lines because each form of the language needs a kernel of its own.
"""

import collections
import contextlib
import dataclasses
import functools
import itertools
import operator

import numpy as np
import plain
import pytest
import torch
from kernel_factory import F32, blank, ramp, refused

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
            out[i : i + 1, :] = a[i : i + 1, :] * 1.0

    want = blank(16, 32)
    want[0:3] = ramp()[0:3]
    assert torch.equal(result(k), want)


def test_break_and_continue_of_a_static_loop_in_a_dynamic_one_case34():
    @pypto.jit
    def k(a: F32, out: F32):
        pypto.set_vec_tile_shapes(1, 32)
        for i in pypto.loop(16):
            t = a[i : i + 1, :] * 0.0
            for j in range(10):
                if j == 1:
                    continue
                if j == 4:
                    break
                t = t + a[i : i + 1, :] * float(j)
            out[i : i + 1, :] = t

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
    [
        (loop_with_else, "else"),
        (left_loop_with_else, "else"),
        (while_with_else, "else"),
        (with_statement, "with"),
        (try_except, "try"),
        (try_finally, "try"),
        (starred_target, "starred"),
        (walrus, ":="),
    ],
    ids=[
        "for else",
        "for else left by break",
        "while else",
        "with",
        "try except",
        "try finally",
        "starred",
        "walrus",
    ],
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
            kw["dst"][i : i + 1, :] = kw["src"][i : i + 1, :] * 2.0
        else:
            kw["dst"][i : i + 1, :] = kw["src"][i : i + 1, :] * 3.0


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
            put(dst, a[i : i + 1, :] * 2.0)
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
            t[:] = a[j : j + 1, :] * 2.0
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
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

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
                dst[i : i + 1, :] = src[i : i + 1, :] * self.scale
            else:
                dst[i : i + 1, :] = self.shifted(src[i : i + 1, :])


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
            acc = acc + t[i : i + 1, :]
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
            out[i : i + 1, :] = a[i : i + 1, :] * 2.0

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


def elements(kernel, *values):
    """Runs `kernel(n, out)` on int32 vectors and gives the four elements of `out`."""
    out = np.full(4, -1, np.int32)
    pypto.jit(kernel)(np.array(values, np.int32), out)
    return out.tolist()


def conditions_in_comprehensions(n: I32, out: I32):
    out[0] = sum(1 if n[k] > 1 else 0 for k in range(4))
    out[1] = sum([1 if n[k] > 1 and n[k] < 4 else 0 for k in range(4)])
    out[2] = max([k for k in range(4) if k != 3])


def functions_that_read_names_bound_later(n: I32, out: I32):
    def first():
        return second() + 1

    def second():
        return c

    c = n[0]
    for _ in pypto.loop(3):
        c = c + 1
    out[0] = first()
    f = lambda: c
    if n[0] > 0:
        c = 20
    else:
        c = 30
    out[1] = f()


def classes_in_a_kernel(n: I32, out: I32):
    class Base:
        v = 3
        w = v + 1

        def __init__(self):
            self.__hidden = 5

        def pick(self, k):
            if k > 1:
                picked = self.v + self.__hidden
            else:
                picked = self.w
            return picked

    class Derived(Base):
        def pick(self, k):
            picked = super().pick(k)
            if k > 2:
                picked = picked * 10
            return picked

    derived = Derived()
    for i in pypto.loop(4):
        out[i] = derived.pick(i)


def every_kind_of_parameter(n: I32, out: I32):
    def f(a, b, /, *c, d=1, **e):
        s = a + b + sum(c) + d + sum(e.values())
        if s > 7:
            s = 7
        return s

    for i in pypto.loop(4):
        out[i] = f(*[i, i], *(1,), **{"d": 2, "z": i})


def targets_of_all_kinds(n: I32, out: I32):
    out[0] = out[1] = k = n[3]
    out[0] += 5
    out[0], out[1] = out[1], out[0]
    for i in pypto.loop(2):
        a, (b, c) = i, (i + 1, i * 2)
        [d, e] = [a, b]
        out[i] *= 3
        out[i + 2] = a + b * 10 + c * 100 + d * 1000 + e * 10000 + k


def recursion_with_branches(n: I32, out: I32):
    def total(k):
        if k == 0:
            return 0
        if n[k] > 2:
            r = n[k]
        else:
            r = 1
        return r + total(k - 1)

    out[0] = total(3)


def nested_conditions(n: I32, out: I32):
    for i in pypto.loop(4):
        if i == 3:
            v = 3
        elif n[i] == 2:
            v = 9 if i > 5 else 20
        elif not i:
            v = 30
        else:
            v = 40
        out[i if i < 3 else 3] = v if 0 <= i < n[1] == 2 else v + 1


def loops_over_loops(n: I32, out: I32):
    c = 0
    for i in pypto.loop(n[1]):
        for j in pypto.loop(i, n[3], 2):
            for k in pypto.loop(j - i):
                c += 1
                if k == 1:
                    out[i] = c
    out[3] = c


def static_while_round_symbolic_branches(n: I32, out: I32):
    k, s = 3, 0
    while k and s is not None:
        if n[k] > 2:
            s += n[k]
        k -= 1
    out[0] = s


def names_of_builtins(n: I32, out: I32):
    def max(a, b):
        return a + b

    out[0] = max(n[0], n[1])
    pair = (n[0], 3)
    out[1] = min(*pair)
    least = min
    out[2] = functools.reduce(lambda a, b: least(a, b), [n[0], n[1], n[2]])


def conditions_kept_in_names(n: I32, out: I32):
    for i in pypto.loop(4):
        a = i > 0
        b = not (i > 2)
        if a and b:
            out[i] = 1
        elif a or b:
            out[i] = 2
        else:
            out[i] = 3


def defaults_by_or(n: I32, out: I32):
    def f(k=None):
        k = k or 5
        return k

    out[0] = f()
    out[1] = f(n[0])


def helper_that_carries(n: I32, out: I32):
    def total(k, s):
        for j in pypto.loop(k):
            s += j
        return s

    s = 0
    for i in pypto.loop(4):
        s = total(i, s)
    out[0] = s


def flag_of_the_first_trip(n: I32, out: I32):
    first = True
    for i in pypto.loop(4):
        out[i] = 1 if first else 0
        first = False


def index_that_the_body_changes(n: I32, out: I32):
    for i in pypto.loop(4):
        j = i
        i = i + 10
        out[j] = i
    out[0] = i


def name_deleted_on_every_trip(n: I32, out: I32):
    for i in pypto.loop(3):
        t = i + 1
        out[i] = t
        del t


def list_that_lives_for_one_trip(n: I32, out: I32):
    for i in pypto.loop(3):
        parts = []
        parts.append(i)
        parts.append(n[i])
        out[i] = sum(parts)


def product_of_elements(n: I32, out: I32):
    s = 1
    for v in [n[0], n[1], n[2], n[3]]:
        s = s * v
    out[0] = s


def helper_that_is_a_generator(n: I32, out: I32):
    def halves(k):
        for j in range(k):
            yield n[j] // 2

    s = 0
    for v in halves(4):
        s += v
    for _ in pypto.loop(2):
        for v in halves(2):
            s += v
    out[0] = s


def error_of_an_op_that_is_caught(n: I32, out: I32):
    pypto.set_vec_tile_shapes(8)
    try:
        out[0:4] = n + n[0:3]
    except ValueError:
        out[0] = 7


JUDGED = [
    conditions_in_comprehensions,
    functions_that_read_names_bound_later,
    classes_in_a_kernel,
    every_kind_of_parameter,
    targets_of_all_kinds,
    recursion_with_branches,
    nested_conditions,
    loops_over_loops,
    static_while_round_symbolic_branches,
    names_of_builtins,
    conditions_kept_in_names,
    defaults_by_or,
    helper_that_carries,
    flag_of_the_first_trip,
    index_that_the_body_changes,
    name_deleted_on_every_trip,
    list_that_lives_for_one_trip,
    product_of_elements,
    helper_that_is_a_generator,
]


@pytest.mark.parametrize("kernel", JUDGED, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("values", [(1, 2, 3, 4), (0, 2, 5, 1), (-3, 0, 2, 7)], ids=str)
def test_form_means_what_plain_python_means(kernel, values):
    want = np.full(4, -1, np.int32)
    plain.run(kernel, np.array(values, np.int32), want)
    assert elements(kernel, *values) == want.tolist()


def test_error_of_an_op_may_be_caught_in_the_kernel():
    assert elements(error_of_an_op_that_is_caught, 1, 2, 3, 4) == [7, -1, -1, -1]


def test_lambdas_that_share_a_line():
    @pypto.jit
    def k(a: F32, out: F32, steps):
        pypto.set_vec_tile_shapes(1, 32)
        for i, step in enumerate(steps):
            out[i : i + 1, :] = step(a[0:1, :])

    t, out = ramp()[0], blank(16, 32)
    k(ramp(), out, (lambda t: t + 1.0, lambda t: t * 10.0, lambda t: t - 5.0))
    assert torch.equal(out[0:3], torch.stack([t + 1, t * 10, t - 5]))
    plus = lambda c: lambda t: t + c
    k(ramp(), out, (plus(1.0), plus(2.0)))
    assert torch.equal(out[0:2], torch.stack([t + 1, t + 2]))
    k(ramp(), out, [*[lambda t, c=c: t * c for c in (2.0, 3.0)], lambda t: t * 7.0])
    assert torch.equal(out[0:3], torch.stack([t * 2, t * 3, t * 7]))


def nonlocal_in_a_loop(n: I32, out: I32):
    c = 0

    def count():
        nonlocal c
        c += 1

    for _ in pypto.loop(3):
        count()
    out[0] = c


def nonlocal_in_a_branch(n: I32, out: I32):
    c = 1

    def mark():
        nonlocal c
        c = 3

    if n[0] > 0:
        mark()
    out[0] = c


def nonlocal_round_a_loop(n: I32, out: I32):
    c = 0

    def count():
        nonlocal c
        for i in pypto.loop(4):
            if i != 1:
                c += i

    count()
    out[0] = c


@pytest.mark.parametrize(
    ("kernel", "values", "want"),
    [
        (nonlocal_in_a_loop, (0,), 3),
        (nonlocal_in_a_branch, (1,), 3),
        (nonlocal_in_a_branch, (0,), 1),
        (nonlocal_round_a_loop, (0,), 5),
    ],
    ids=["loop", "branch taken", "branch not taken", "round a loop"],
)
def test_name_of_an_outer_function_that_a_helper_rebinds(kernel, values, want):
    assert elements(kernel, *values) == [want, -1, -1, -1]


def loop_in_a_generator(n: I32, out: I32):
    def rows():
        for i in pypto.loop(3):
            yield i + 0

    s = 0
    for _ in rows():
        s += 1
    out[0] = s


def test_dynamic_loop_in_a_generator_is_right_or_refused():
    try:
        got = elements(loop_in_a_generator, 0)
    except pypto.error.PyptoError as error:
        assert error.loc is not None and "pypto.loop" in str(error)
    else:
        assert got == [3, -1, -1, -1]


def list_grown(n: I32, out: I32):
    state = []
    for i in pypto.loop(3):
        state.append(i)  # here
    out[0] = len(state)


def list_grown_in_place(n: I32, out: I32):
    state = []
    other = state
    for _ in pypto.loop(3):
        state += [1]  # here
    out[0] = len(other)


def dict_changed_in_a_branch(n: I32, out: I32):
    state = {"v": 1}
    if n[0] > 0:
        state["v"] = 2  # here
    out[0] = state["v"]


def list_sorted_in_a_branch(n: I32, out: I32):
    state = [6, 5]
    if n[0] > 0:
        state.sort()  # here
    out[0] = state[0]


def set_grown(n: I32, out: I32):
    state = set()
    for _ in pypto.loop(3):
        state.add(len(state))  # here
    out[0] = len(state)


def attribute_counted(n: I32, out: I32):
    state = Cfg()
    for _ in pypto.loop(3):
        state.n += 1  # here
    out[0] = state.n


def attribute_set_in_a_helper(n: I32, out: I32):
    state = Cfg()

    def mark():
        state.n = 5

    if n[0] > 0:
        mark()  # here
    out[0] = state.n


def class_attribute_counted(n: I32, out: I32):
    class State:
        n = 0

    for _ in pypto.loop(3):
        State.n += 1  # here
    out[0] = State.n


def function_attribute_counted(n: I32, out: I32):
    def state():
        return state.n

    state.n = 0
    for _ in pypto.loop(3):
        state.n += 1  # here
    out[0] = state()


def default_argument_grown(n: I32, out: I32):
    def state(seen=[]):
        seen.append(1)
        return len(seen)

    for _ in pypto.loop(3):
        last = state()  # here
    out[0] = last


def deque_grown(n: I32, out: I32):
    state = collections.deque()
    for _ in pypto.loop(3):
        state.append(1)  # here
    out[0] = len(state)


def iterator_advanced(n: I32, out: I32):
    state = iter([5, 6, 7])
    for _ in pypto.loop(3):
        last = next(state)  # here
    out[0] = last


def counter_advanced(n: I32, out: I32):
    state = itertools.count()
    for _ in pypto.loop(3):
        last = next(state)  # here
    out[0] = last


def array_changed_in_a_branch(n: I32, out: I32):
    state = np.array([6, 5])
    if n[0] > 0:
        state[0] = 3  # here
    out[0] = int(state[0])


def array_counted(n: I32, out: I32):
    state = np.zeros(1, int)
    for _ in pypto.loop(3):
        state += 1  # here
    out[0] = int(state[0])


@pytest.mark.parametrize(
    "kernel",
    [
        list_grown,
        list_grown_in_place,
        dict_changed_in_a_branch,
        list_sorted_in_a_branch,
        set_grown,
        attribute_counted,
        attribute_set_in_a_helper,
        class_attribute_counted,
        function_attribute_counted,
        default_argument_grown,
        deque_grown,
        iterator_advanced,
        counter_advanced,
        array_changed_in_a_branch,
        array_counted,
    ],
    ids=lambda kernel: kernel.__name__,
)
def test_object_that_changes_under_dynamic_control_flow_is_refused(kernel):
    with refused(TypeError, "compile-time object", code="F00001"):
        elements(kernel, 0)


def lambda_made_before_the_loop(n: I32, out: I32):
    c = 0
    late = lambda k: k + c
    for i in pypto.loop(4):
        out[i] = late(10)
        c = n[0] + i


def helper_called_through_a_list(n: I32, out: I32):
    c = 1

    def late(k):
        return k * c

    steps = [late]
    for i in pypto.loop(4):
        out[i] = steps[0](3)
        c = c + 1


@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        (lambda_made_before_the_loop, [10, 15, 16, 17]),
        (helper_called_through_a_list, [3, 6, 9, 12]),
    ],
    ids=["lambda", "through a list"],
)
def test_closure_reads_what_the_last_trip_left(kernel, want):
    assert elements(kernel, 5) == want
