"""Every op of the registry against torch: types, shapes, valid extents, numbers, refusals.

The tests are derived from the records, so an op that is declared is tested, and one with a hole in
its record is on a list. Worked examples with numbers of their own live in `test_ops_by_number`.
"""

import numpy as np
import op_matrix as matrix
import pytest
from op_matrix import OUTSIDE, ask, blank, cut, kernel_of, partial, public, ulps

import pypto
from pypto.ir.dtype import SUPPORTED, DataType
from pypto.ir.op import FUNCTIONS, METHODS, OPERATORS, REGISTRY, REQUIRED, Family, Slot
from pypto.ir.types import full

MAPS = [op for op in matrix.records(Family.MAP) if op.torch]
ALONG = [op for op in matrix.records(Family.REDUCE, Family.SCAN) if op.torch]
# Ops whose second operand follows the first in shape as well.
FOLLOWING = {"clip"}


def by_name(op):
    return op.name


def result_type(op, arrays, numbers):
    """The element type of a call with some tensors and some numbers."""
    types, attrs = [], {a.name: a.default for a in op.args}
    for name, array in arrays.items():
        attrs[name] = Slot(len(types))
        types.append(full(pypto.ir.dtype.FROM_NUMPY[array.dtype], array.shape))
    attrs.update(numbers)
    return (op.result(types, attrs) if op.result else types[0].dtype).numpy


def options_of(op):
    """The defaults of the arguments that are no operands."""
    return {a.name: a.default for a in op.args if a.kind not in matrix.ELEMENTS}


def check(op, out, valid, want):
    """The valid box is torch's within the tolerance, all else is as it was."""
    got = cut(out, valid)
    assert got.shape == want.shape
    distance = ulps(got, want)
    assert distance <= op.tolerance, f"{distance} ulps: {got.tolist()} instead of {want.tolist()}"
    rest = out.copy()
    rest[tuple(slice(n) for n in valid)] = OUTSIDE
    assert (rest == np.full_like(out, OUTSIDE)).all()


@pytest.mark.parametrize("op", MAPS, ids=by_name)
def test_map_equals_torch_on_the_elements_that_all_operands_have(op):
    function, names = public(op.name), matrix.operands_of(op)
    kernel = kernel_of(len(names), function)
    for dtype in matrix.types_of(op):
        for seed, shapes in enumerate(matrix.SHAPES):
            if op.name in FOLLOWING:
                shapes = (np.broadcast_shapes(*shapes), *shapes[1:])
            shapes = shapes[: len(names)]
            arrays = [matrix.draw(op, i, dtype, s, seed) for i, s in enumerate(shapes)]
            given = dict(zip(names, arrays, strict=True))
            out_type = result_type(op, given, {})
            for which in range(4):
                # Operands are valid to extents of their own.
                picks = [which, which and 3 - which, which][: len(names)]
                if which == 3:
                    picks = [3, 1, 0][: len(names)]
                valids = [partial(s, p) for s, p in zip(shapes, picks, strict=True)]
                extents = np.array([n for v in valids for n in v], np.int32)
                out = blank(np.broadcast_shapes(*shapes), out_type)
                kernel(*arrays, extents, out)
                valid = matrix.common(shapes, valids)
                boxes = {
                    name: cut(array, [n if s != 1 else min(n, 1) for n, s in zip(valid, shape)])
                    for name, array, shape in zip(names, arrays, shapes, strict=True)
                }
                want = matrix.expected(op, {**boxes, **options_of(op)}, out_type)
                check(op, out, valid, want)


def number_places(op):
    """Which operands of an op can be numbers."""
    return [a.name for a in op.args if a.kind in ("operand", "element")]


@pytest.mark.parametrize("op", [o for o in MAPS if number_places(o)], ids=by_name)
def test_map_takes_a_number_for_an_operand(op):
    function, names = public(op.name), matrix.operands_of(op)
    for dtype in matrix.types_of(op):
        number = op.samples.scalar if dtype.is_float else int(op.samples.scalar)
        if op.name == "where":
            number = pypto.Element(dtype, number)
        # All numbers at once, and each by itself where a tensor may follow it.
        groups = [names[1:]] if op.name in FOLLOWING else [[n] for n in number_places(op)]
        for group in groups:
            tensors = [n for n in names if n not in group]
            arrays = {n: matrix.draw(op, names.index(n), dtype, (7, 33), 5) for n in tensors}

            def apply(*operands, tensors=tensors, group=group, number=number):
                return function(
                    **dict(zip(tensors, operands, strict=True)), **dict.fromkeys(group, number)
                )

            value = getattr(number, "value", number)
            # An element brings its own type.
            kind = dtype if op.name == "where" else op.number(dtype, value)
            typed = dict.fromkeys(group, np.array(value, kind.numpy)[()])
            out_type = result_type(op, arrays, typed)
            valids = [partial((7, 33), 1)] * len(tensors)
            out = blank((7, 33), out_type)
            extents = np.array([n for v in valids for n in v], np.int32)
            kernel_of(len(tensors), apply)(*arrays.values(), extents, out)
            boxes = {n: cut(a, valids[0]) for n, a in arrays.items()}
            numbers = dict.fromkeys(group, value)
            want = matrix.expected(op, {**boxes, **numbers, **options_of(op)}, out_type)
            check(op, out, valids[0], want)


@pytest.mark.parametrize("op", ALONG, ids=by_name)
def test_reductions_and_scans_see_valid_elements_only(op):
    source = matrix.operands_of(op)[0]
    reduces = op.family is Family.REDUCE
    function = pypto.var if op.name == "var" else public(op.name)
    for dtype in matrix.types_of(op):
        for seed, shape in enumerate([(33,), (7, 33), (3, 7, 5), (2, 3, 4, 7), (2, 1)]):
            array = matrix.draw(op, 0, dtype, shape, seed)
            out_type = result_type(op, {source: array}, {"dim": 0})
            for dim in range(-1, len(shape)):
                for keepdim in (True, False) if reduces else (None,):
                    more = {} if keepdim is None else {"keepdim": keepdim}
                    kernel = kernel_of(1, lambda t: function(t, dim, **more))
                    for which in range(3):
                        check_along(op, kernel, array, dim, keepdim, which, out_type)


def check_along(op, kernel, array, dim, keepdim, which, out_type):
    shape, axis = array.shape, dim % array.ndim
    valid = partial(shape, which)

    def after(extents):
        if keepdim is None:
            return tuple(extents)
        kept = (*extents[:axis], 1, *extents[axis + 1 :])
        if keepdim or len(shape) == 1:
            return kept
        return (*extents[:axis], *extents[axis + 1 :])

    out = blank(after(shape), out_type)
    kernel(array, np.array(valid, np.int32), out)
    options = {k: v for k, v in options_of(op).items() if k not in ("dim", "keepdim")}
    given = {matrix.operands_of(op)[0]: cut(array, valid), "dim": axis, **options}
    if op.name == "var" and valid[axis] == 1:
        want = np.full(after(valid), np.nan, out_type)
    else:
        want = matrix.expected(op, given, out_type).reshape(after(valid))
    check(op, out, after(valid), want)


@pytest.mark.parametrize(
    ("name", "dtype", "want"),
    [
        ("sum", np.float32, 0.0),
        ("sum", np.int32, 0),
        ("prod", np.float32, 1.0),
        ("amax", np.float32, -np.inf),
        ("amin", np.float32, np.inf),
        ("amax", np.int16, -(2**15)),
        ("amin", np.int16, 2**15 - 1),
        ("argmax", np.int32, 0),
    ],
)
def test_reduction_of_no_element_is_the_neutral_one(name, dtype, want):
    source = np.float32 if name == "argmax" else dtype
    array, out = np.ones((2, 5), source), blank((2, 1), dtype)
    kernel_of(1, lambda t: public(name)(t, 1, True))(array, np.array([2, 0], np.int32), out)
    assert out.tolist() == [[want], [want]]


@pytest.mark.parametrize("dims", [[0, 2], [-1, -2], None, [1, 0], (2,)], ids=str)
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("valid", [(3, 4, 5), (2, 3, 4)], ids=["full", "part"])
def test_variance_over_several_axes(dims, keepdim, valid):
    x = np.random.default_rng(4).normal(size=(3, 4, 5)).astype(np.float32)
    axes = tuple(dims) if dims is not None else None
    want = cut(x, valid).astype(np.float64).var(axis=axes, ddof=1, keepdims=keepdim)
    want = np.atleast_1d(want).astype(np.float32)
    out = blank(np.atleast_1d(x.var(axis=axes, keepdims=keepdim)).shape, np.float32)
    kernel_of(1, lambda t: pypto.var(t, dims, keepdim=keepdim))(x, np.array(valid, np.int32), out)
    # Several axes are added up in FP32, one after the other.
    assert ulps(cut(out, want.shape), want) <= 4
    assert (out == OUTSIDE).sum() == out.size - want.size


# --- numbers beside tensors ----------------------------------------------------------------------


def test_number_beside_bf16_is_fp32_and_an_element_is_rounded_first():
    x = np.array([0.5625], matrix.BF16)
    assert ask(lambda t: t * 0.1, x)[0] == 0.05615234375
    assert ask(lambda t: t * 0.7, x)[0] == 0.39453125
    assert ask(lambda t: t * pypto.Element(pypto.DT_BF16, 0.1), x)[0] == 0.056396484375


def test_comparison_takes_the_number_as_the_tensor_stores_it():
    x = np.array([0.1, 0.2], np.float16)
    assert ask(lambda t: t == 0.1, x, dtype=np.bool_).tolist() == [True, False]


def test_symbolic_integer_beside_fp16_is_fp32():
    out = np.zeros(1, np.float16)
    with pytest.warns(pypto.error.PortabilityNote):
        symbolic_factor()(np.array([0.75], np.float16), np.array([2049], np.int32), out)
    # 2049 is no FP16 number: rounded first it would be 2048, and the product 1536.
    assert out[0] == 1537


def symbolic_factor():
    @pypto.frontend.jit
    def kernel(x: pypto.Tensor(), n: pypto.Tensor([], pypto.DT_INT32), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8)
        out[:] = x * n[0]

    return kernel


def test_pow_promotes_a_tensor_exponent():
    pairs = [
        (np.float16, np.float32, np.float32),
        (np.float16, matrix.BF16, np.float32),
        (matrix.BF16, np.int32, matrix.BF16),
        (np.int32, np.float16, np.float16),
        (np.int32, np.int32, np.int32),
    ]
    for base, other, result in pairs:
        x, y = np.array([2, 3], base), np.array([3, 2], other)
        assert ask(pypto.pow, x, y, dtype=result).tolist() == [8, 9]
    roots = ask(lambda t: pypto.pow(t, 0.5), np.array([4, 9], np.int32), dtype=np.float32)
    assert roots.tolist() == [2, 3]


def test_logical_and_takes_two_types():
    x, y = np.array([1.0, 0.0, np.nan], np.float16), np.array([3, 1, -1], np.int32)
    assert ask(pypto.logical_and, x, y, dtype=np.bool_).tolist() == [True, False, True]


def test_where_of_two_numbers_has_the_shape_of_the_condition():
    mask = np.array([[True, False]])
    out = ask(lambda c: pypto.where(c, 1.0, 0.0), mask, dtype=np.float32)
    assert out.tolist() == [[1.0, 0.0]]


def test_where_refuses_a_negative_element_of_an_unsigned_type_and_a_mask_of_numbers():
    x, mask = np.zeros((1, 2), np.uint8), np.zeros((1, 2), np.bool_)
    negative = pypto.Element(pypto.DT_UINT8, -1)
    with pytest.raises(ValueError, match="negative scalar for unsigned DT_UINT8: -1"):
        ask(lambda t, c: pypto.where(c, t, negative), x, mask)
    with pytest.raises(TypeError, match="condition must be DT_BOOL, got DT_UINT8"):
        ask(lambda t: pypto.where(t, t, 0), x)


@pytest.mark.parametrize(
    "unchanged",
    [
        lambda t: pypto.clip(t),
        lambda t: pypto.cast(t, pypto.DT_FP32),
        lambda t: pypto.cast(t, pypto.DT_FP32, pypto.CastMode.CAST_RINT),
        lambda t: t.float(),
    ],
    ids=["clip", "cast", "rint", "float"],
)
def test_op_that_changes_nothing_returns_its_tensor(unchanged):
    seen = []

    def apply(t):
        seen.append(unchanged(t) is t)
        return t + 0.0

    ask(apply, np.ones(3, np.float32))
    assert seen == [True]


# --- refusals ------------------------------------------------------------------------------------


def filler(op, arg, tensors):
    """Something legal for one argument of a call whose element types are to be refused."""
    if arg.kind in ("tensor", "operand", "element"):
        return tensors["places" if arg.name in op.index_args else "elements"]
    if arg.kind == "tensors":
        return [tensors["places" if arg.name in op.index_args else "elements"]]
    if arg.default is not REQUIRED:
        return arg.default
    return {"dim": 0, "dims": [0], "int": 1, "sizes": [8], "bool": False}.get(
        arg.kind, pypto.DT_FP32
    )


REFUSING = [
    op
    for op in REGISTRY.values()
    if op.name in FUNCTIONS and not op.hidden and op.accept < SUPPORTED
]


@pytest.mark.parametrize("op", sorted(REFUSING, key=by_name), ids=by_name)
def test_element_type_that_an_op_does_not_take_is_refused_by_name(op):
    index = next(iter(op.index_accept), DataType.DT_INT32)
    for dtype in sorted(SUPPORTED - op.accept, key=lambda d: d.name):
        kernel = refused_call(op)
        places = np.zeros([8] * op.ranks[0], index.numpy)
        with pytest.raises(TypeError) as caught:
            kernel(np.zeros([8] * op.ranks[0], dtype.numpy), places, np.zeros(8, np.float32))
        error = caught.value
        assert isinstance(error, pypto.error.FeError)
        assert error.code == "FC0001"
        assert f"{op.name}(): {dtype.name} is not supported" in error.text
        assert error.fix


def refused_call(op):
    @pypto.frontend.jit
    def kernel(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(*[8] * op.ranks[0])
        pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])
        tensors = {"elements": a, "places": b}
        public(op.name)(**{arg.name: filler(op, arg, tensors) for arg in op.args})
        out[:] = out + 1.0

    return kernel


def element_operands(op):
    """The operands that share the element type of an op."""
    return [n for n in matrix.operands_of(op) if n not in op.index_args]


MIXING = [o for o in MAPS if o.same_dtype and len(element_operands(o)) > 1 and len(o.accept) > 1]


@pytest.mark.parametrize("op", MIXING, ids=by_name)
def test_operands_of_two_types_are_refused_by_name(op):
    names = element_operands(op)
    first, second = matrix.types_of(op)[:2]
    shape = (4,)
    arrays = [np.zeros(shape, np.bool_) for n in op.index_args]
    arrays += [np.zeros(shape, first.numpy), np.zeros(shape, second.numpy)]
    arrays += [np.zeros(shape, first.numpy)] * (len(names) - 2)
    kernel = kernel_of(len(arrays), public(op.name))
    with pytest.raises(TypeError) as caught:
        kernel(*arrays, np.array([4] * len(arrays), np.int32), np.zeros(shape, first.numpy))
    assert caught.value.code == "FC0001"
    assert f"{op.name}(): dtypes differ" in caught.value.text
    assert first.name in caught.value.text and second.name in caught.value.text


# --- the records themselves ----------------------------------------------------------------------

# What a family asks of its records; MOVE, INDEX, CONTRACT and SORT have tests with numbers.
BY_TORCH = (Family.MAP, Family.REDUCE, Family.SCAN)
WITHOUT_TORCH = {
    "cast": "modes and saturation are not torch's",
    "prelu": "its weight is reshaped by the public function",
}


def holes(op):
    """What a record lacks, in words."""
    found = []
    if not op.sentence.rstrip().endswith("."):
        found.append("its sentence has no end")
    if not op.accept:
        found.append("it accepts no element type")
    if not 1 <= op.ranks[0] <= op.ranks[1] <= 5:
        found.append(f"its ranks are {op.ranks}")
    for rule in (op.shape, op.valid, op.result, op.number):
        if rule is not None and rule.__name__ != "<lambda>" and not (rule.__doc__ or "").strip():
            found.append(f"{rule.__name__} says nothing about itself")
    names = [a.name for a in op.args]
    for name in (op.writes, *op.dynamic, *op.index_args):
        if name is not None and name not in names:
            found.append(f"{name} is none of its arguments")
    if op.index_args and not op.index_accept:
        found.append("no types for its places")
    if op.returns_self and op.writes is None:
        found.append("returns_self without writes")
    if op.family in (Family.CONTROL, Family.WRITE) or op.reference is None:
        return found
    if not op.formula:
        found.append("no formula")
    if op.family in BY_TORCH and not op.torch and op.name not in WITHOUT_TORCH:
        found.append("no twin in torch")
    if op.engine not in ("vec", "cube", "none"):
        found.append(f"its engine is {op.engine!r}")
    for arg in op.args:
        if arg.kind == "enum" and arg.type is None:
            found.append(f"{arg.name} names no enum")
    return found


def test_no_record_has_a_hole():
    found = {op.name: holes(op) for op in REGISTRY.values()}
    assert {name: lacks for name, lacks in found.items() if lacks} == {}


def test_every_record_with_a_meaning_is_public_or_used_by_a_public_one():
    for op in REGISTRY.values():
        if op.reference is not None:
            assert op.name in FUNCTIONS, op.name


# The methods and operators of the language; a method that is not here must not exist.
LANGUAGE_METHODS = set(
    "add sub mul div fmod remainder hypot prelu greater maximum gcd axpy_ fill_ matmul assemble "
    "reshape unsqueeze view clone sin cos sinh cosh asinh acosh tanh sigmoid exp exp2 expm1 erfc "
    "log log1p log2 log10 logical_not sign signbit sqrt rsqrt reciprocal ceil floor trunc round "
    "relu lrelu softmax amax amin sum argmax argmin var cumsum cumprod topk permute transpose "
    "gather scatter scatter_ scatter_update expand_clone fillpad triu tril triu_ tril_ move copy "
    "abs neg float".split()
)
LANGUAGE_OPERATORS = set(
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__ "
    "__mod__ __pow__ __matmul__ __neg__ __lt__ __le__ __gt__ __ge__ __eq__ __ne__".split()
)


def test_methods_and_operators_are_those_of_the_language():
    assert set(METHODS) == LANGUAGE_METHODS
    assert set(OPERATORS) - {"__getitem__", "__setitem__"} == LANGUAGE_OPERATORS
    for absent in ("T", "mean", "to", "cast", "minimum", "clamp", "half"):
        assert not hasattr(pypto.Tensor([2], pypto.DT_FP32), absent)


def test_every_function_has_a_manual_page():
    for name, function in FUNCTIONS.items():
        assert (function.__doc__ or "").strip(), name
