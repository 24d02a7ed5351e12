"""Native code of single ops against the references of their records.

In: every map op with every element type that it takes, as vectors and one by one.  Out: the bits of
the reference where an op is exact, and at most 4 units of the last place of FP32 elsewhere.  Ops of
one FP16 or BF16 operand see all 65536 values.  LANE_POINTS says how many values of FP32 the others
see, spread over all its bit patterns.
"""

import itertools
import os

import lane_runs
import numpy as np
import pytest
from op_matrix import BF16, ELEMENTS, operands_of, records, types_of

from pypto.ir.dtype import FROM_NUMPY, DataType, scalar
from pypto.ir.op import REGISTRY, Family, Slot
from pypto.ir.types import CastMode, SaturationMode, full
from pypto.ops.cast import PAIRS

POINTS = int(os.environ.get("LANE_POINTS", 1 << 20))

# Functions without an exact value, and how far they may be off in FP32.  Those that compute in FP32
# are allowed what a run over all numbers of the ranges that matter has found.
ELEMENTARY = {
    **dict.fromkeys("exp exp2 expand_exp_dif log erf".split(), 1),
    **dict.fromkeys("expm1 log2 log1p sigmoid tanh".split(), 2),
    "log10": 3,
    **dict.fromkeys("sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh".split(), 1),
    **dict.fromkeys("erfc cbrt pow hypot".split(), 1),
}

# Where floats change their ways: by kind, by size, by parity, at the ends of functions.
SPECIAL = [
    *(0, 1, 2, 3, 0.5, 1.5, 2.5, 7, 0.1, 1e-3, 1e-5, 1e-30, 1e-38, 1e-45, 2.0**-126, 2.0**-149),
    *(88.5, 88.73, 89, 103.9, 104.1, 127.5, 128, 149.5, 150.5, 1e5, 8388609.0, 16777216.0, 2.0**31),
    *(
        2.0**49,
        2.0**63,
        1e30,
        3.4e38,
        65504,
        0.99999994,
        1.0000001,
        np.pi / 2,
        np.pi,
        np.inf,
        np.nan,
    ),
]


def specials(dtype):
    """The values of a type that are most likely to go wrong."""
    if dtype is DataType.DT_BOOL:
        return np.array([False, True])
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.array([*SPECIAL, *(-x for x in SPECIAL)]).astype(dtype.numpy)
    ends = np.iinfo(dtype.numpy)
    near = [*range(-9, 10), 24, 25, 31, 63, 127, 150, 1 << 24, (1 << 24) + 1, (1 << 53) + 1]
    edges = [ends.min, ends.min + 1, ends.min + 2, ends.max, ends.max - 1, ends.max // 2 + 1]
    return np.array([n for n in [*near, *edges] if ends.min <= n <= ends.max], dtype.numpy)


def spread(dtype, count, seed):
    """Values with bit patterns from all over a type, in disorder."""
    rng = np.random.default_rng(seed)
    if dtype is DataType.DT_BOOL:
        return rng.random(count) < 0.5
    word = np.dtype(f"u{dtype.bytes}")
    step = 2 ** (8 * dtype.bytes) // count
    words = np.arange(count, dtype=np.uint64) * np.uint64(step)
    words += rng.integers(0, step, count, dtype=np.uint64)
    return rng.permutation(words.astype(word).view(dtype.numpy))


def usual(op, position, dtype, count):
    """Values from the range in which an op is used."""
    rng = np.random.default_rng(position)
    low, high = op.samples.low, op.samples.high
    if position and op.samples.other is not None:
        low, high = op.samples.other
    if dtype is DataType.DT_BOOL:
        return rng.random(count) < 0.5
    if dtype.is_float:
        return rng.uniform(low, high, count).astype(dtype.numpy)
    low = max(low, 0) if dtype.kind == "u" else low
    return rng.integers(int(low), int(high), count, endpoint=True).astype(dtype.numpy)


def values(op, dtype):
    """What an op of one operand sees."""
    count = min(POINTS, 1 << (8 * dtype.bytes)) if dtype.bytes > 1 else 256
    return np.concatenate([specials(dtype), spread(dtype, count, 1), usual(op, 0, dtype, 1 << 12)])


def tuples(op, dtypes):
    """What an op of several operands sees: each special value with each other, and the rest."""
    grid = np.meshgrid(*(specials(d) for d in dtypes), indexing="ij")
    columns = []
    for position, (dtype, column) in enumerate(zip(dtypes, grid, strict=True)):
        few = min(1 << 14, 1 << (8 * dtype.bytes)) if dtype is not DataType.DT_BOOL else 2
        parts = [column.reshape(-1)]
        parts += [np.resize(spread(dtype, few, 7 + position), 1 << 14)]
        parts += [usual(op, position, dtype, 1 << 14)]
        columns.append(np.ascontiguousarray(np.concatenate(parts)))
    if "shift" in op.name:
        columns[1] = (columns[1] % (8 * dtypes[0].bytes)).astype(columns[1].dtype)
    return columns


def check(op, *operands, **attrs):
    """Compare lanes with the reference, as vectors and one by one."""
    defaults = {a.name: a.default for a in op.args if a.kind not in ELEMENTS}
    attrs = {**defaults, **attrs}
    dtype = result_type(op, operands, attrs)
    want = reference(op, operands, attrs, dtype)
    compare(op, lane_runs.run(op, dtype, operands, attrs), want, operands)
    arrays = [a[:512] if isinstance(a, np.ndarray) else a for a in operands]
    one_by_one = lane_runs.run(op, dtype, arrays, attrs, alone=True)
    compare(op, one_by_one, want[:512], arrays)


def result_type(op, operands, attrs):
    given, arrays = dict(attrs), []
    for name, operand in zip(operands_of(op), operands, strict=True):
        if isinstance(operand, np.ndarray):
            arrays.append(operand)
            operand = Slot(len(arrays) - 1)
        given[name] = operand
    kinds = [full(FROM_NUMPY[a.dtype], a.shape) for a in arrays]
    return op.result(kinds, given) if op.result else kinds[0].dtype


def widened(item):
    half = getattr(item, "dtype", None) in (np.dtype(np.float16), BF16)
    return item.astype(np.float32) if half else item


def reference(op, operands, attrs, dtype):
    """As the interpreter asks for it."""
    with np.errstate(all="ignore"):
        given = [widened(o) if op.widen else o for o in operands]
        return op.reference(*given, **attrs).astype(dtype.numpy)


def compare(op, got, want, operands):
    assert got.dtype == want.dtype
    limit = ELEMENTARY.get(op.name, 0)
    if got.dtype.itemsize == 2:
        limit = min(limit, 1)
    with np.errstate(invalid="ignore"):  # NaN of every kind
        far = distance(got, want)
    worst = int(np.argmax(far))
    if far[worst] > limit:
        at = [o[worst] if isinstance(o, np.ndarray) else o for o in operands]
        raise AssertionError(
            f"{op.name}{at}: {got[worst]!r}, the reference says {want[worst]!r}: off by "
            f"{far[worst]} ({np.count_nonzero(far > limit)} of {len(far)} are)"
        )


def distance(got, want):
    """Units of the last place; zeros of two signs are far apart, and NaN is far from numbers."""
    if got.dtype.kind in "iub":
        return (got != want).astype(np.int64)
    word = {2: np.int16, 4: np.int32}[got.dtype.itemsize]

    def ordered(x):
        bits = x.view(word).astype(np.int64)
        return np.where(bits < 0, -(bits & np.iinfo(word).max), bits)

    far = np.abs(ordered(got) - ordered(want))
    both, either = np.isnan(got) & np.isnan(want), np.isnan(got) | np.isnan(want)
    far = np.where(both, 0, np.where(either, 1 << 40, far))
    zeros = (got == 0) & (want == 0) & (np.signbit(got) != np.signbit(want))
    return np.where(zeros, 1 << 40, far)


MAPS = records(Family.MAP)
SINGLE = [op for op in MAPS if len(operands_of(op)) == 1 and op.name != "cast"]
DOUBLE = [op for op in MAPS if len(operands_of(op)) == 2]


def pairs_of(ops):
    return [pytest.param(op, d, id=f"{op.name}-{d.short}") for op in ops for d in types_of(op)]


def test_every_map_and_every_running_total_has_a_lane():
    without = {op.name for op in records(Family.MAP, Family.REDUCE, Family.SCAN) if not op.lane}
    # These are no chain of one element and another.
    assert without == {"argmax", "argmin", "var"}


@pytest.mark.parametrize(("op", "dtype"), pairs_of(SINGLE))
def test_lane_of_one_operand_agrees(op, dtype):
    check(op, values(op, dtype))


@pytest.mark.parametrize(("op", "dtype"), pairs_of(DOUBLE))
def test_lane_of_two_operands_agrees(op, dtype):
    check(op, *tuples(op, [dtype, dtype]))


@pytest.mark.parametrize(("op", "dtype"), pairs_of(op for op in DOUBLE if not op.index_args))
def test_lane_beside_a_number_agrees(op, dtype):
    first, second = (next(a for a in op.args if a.name == n) for n in operands_of(op))
    array = tuples(op, [dtype, dtype])[0]
    for value in (op.samples.scalar, 0, -1.5 if dtype.is_float else 1):
        if second.kind == "operand" and not (op.check and value == 0 and not dtype.is_float):
            check(op, array, scalar(value, op.number(dtype, value)))
        if first.kind == "operand" and "shift" not in op.name:
            check(op, scalar(value, op.number(dtype, value)), array)


@pytest.mark.parametrize("decimals", [-400, -39, -5, -1, 2, 7, 38, 50])
@pytest.mark.parametrize("dtype", types_of(REGISTRY["round"]), ids=lambda d: d.short)
def test_round_takes_decimals(dtype, decimals):
    if decimals < -300 and dtype.is_float:
        return  # the unit has no place in FP64
    check(REGISTRY["round"], values(REGISTRY["round"], dtype)[: 1 << 17], decimals=decimals)


@pytest.mark.parametrize("slope", [0, 0.5, 3])
def test_lrelu_takes_a_slope(slope):
    op = REGISTRY["lrelu"]
    check(op, values(op, DataType.DT_FP32), negative_slope=slope)


# --- powers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, -0.0, 0.5, -0.5, 2.0, 3.0, -1.0, -2.0])
@pytest.mark.parametrize("dtype", ["DT_FP32", "DT_BF16", "DT_FP16", "DT_INT32"])
def test_some_powers_are_no_powers_and_exact(dtype, exponent):
    op = REGISTRY["pow"]
    x, number = values(op, DataType[dtype])[: 1 << 16], np.float32(exponent)
    out = result_type(op, (x, number), {})
    got = lane_runs.run(op, out, (x, number), {})
    assert distance(got, reference(op, (x, number), {}, out)).max() == 0


@pytest.mark.parametrize("exponent", [1.0, 2.5, -3.0, 0.3333, 17.0, np.inf, -np.inf, np.nan])
def test_powers_of_other_numbers(exponent):
    for dtype in (DataType.DT_FP32, DataType.DT_INT32):
        check(REGISTRY["pow"], values(REGISTRY["pow"], dtype)[: 1 << 18], np.float32(exponent))


@pytest.mark.parametrize(
    ("base", "other"), [*itertools.permutations("DT_FP32 DT_FP16 DT_BF16 DT_INT32".split(), 2)]
)
def test_powers_of_two_types(base, other):
    check(REGISTRY["pow"], *tuples(REGISTRY["pow"], [DataType[base], DataType[other]]))


# --- choices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", types_of(REGISTRY["where"]), ids=lambda d: d.short)
def test_where_moves_bits(dtype):
    op = REGISTRY["where"]
    condition, a, b = tuples(op, [DataType.DT_BOOL, dtype, dtype])
    check(op, condition, a, b)
    check(op, condition, scalar(3, dtype), b)
    check(op, condition, a, scalar(-0.0 if dtype.is_float else 5, dtype))


@pytest.mark.parametrize("dtype", types_of(REGISTRY["clip"]), ids=lambda d: d.short)
def test_clip_takes_each_bound(dtype):
    op = REGISTRY["clip"]
    x, low, high = (c[:: 1 if dtype.is_int else 8] for c in tuples(op, [dtype] * 3))
    x, low, high = (np.ascontiguousarray(c) for c in (x, low, high))
    one, two = (scalar(n, op.number(dtype, n)) for n in (-1, 2))
    for bounds in ((low, high), (None, high), (low, None), (one, two), (None, one), (two, one)):
        check(op, x, *bounds)


@pytest.mark.parametrize(
    ("a", "b"), [*itertools.combinations([d.name for d in types_of(REGISTRY["logical_and"])], 2)]
)
def test_logical_and_of_two_types(a, b):
    check(REGISTRY["logical_and"], *tuples(REGISTRY["logical_and"], [DataType[a], DataType[b]]))


# --- casts ---------------------------------------------------------------------------------------

SAME = [(d, d) for d in types_of(REGISTRY["cast"])]
CASTS = [*((s, t) for s, targets in PAIRS.items() for t in targets if s is not t), *SAME]


@pytest.mark.parametrize(("source", "target"), CASTS, ids=lambda d: d.short)
def test_cast_rounds_and_saturates(source, target):
    op = REGISTRY["cast"]
    x = values(op, source)
    if source is DataType.DT_INT64:
        x = x[: 1 << 13]  # the reference counts in Python's numbers
    for mode in (CastMode.CAST_NONE, *PAIRS.get(source, {}).get(target, ())):
        for satmode in SaturationMode if target.is_int else (SaturationMode.OFF,):
            check(op, x, dtype=target, mode=mode, satmode=satmode)


@pytest.mark.parametrize("target", ["DT_FP16", "DT_BF16", "DT_INT32", "DT_INT16"])
@pytest.mark.parametrize("mode", CastMode, ids=lambda m: m.name)
def test_cast_rounds_halves_and_their_neighbours(target, mode):
    # Between two numbers of the narrow type: a quarter, a half, and a step off each.
    target = DataType[target]
    narrow = values(REGISTRY["cast"], target)[:60000].astype(np.float32)
    narrow = narrow[np.isfinite(narrow)]
    with np.errstate(over="ignore"):
        unit = np.abs(np.spacing(narrow.astype(target.numpy) if target.is_float else np.ones(1)))
        halves = narrow + unit.astype(np.float32) * np.float32(0.5)
        near = [np.nextafter(halves, np.float32(0)), halves * np.float32(1.25)]
        x = np.concatenate([halves, *near])
    check(REGISTRY["cast"], x, dtype=target, mode=mode)


# --- reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "dtype"), pairs_of(op for op in records(Family.REDUCE, Family.SCAN) if op.lane)
)
def test_two_elements_become_one(op, dtype):
    """What the reference makes of two rows, in the type in which totals are kept."""
    pair = [widened(c) for c in tuples(op, [dtype, dtype])]
    with np.errstate(all="ignore"):
        want = op.reference(np.stack(pair), 0)[-1]
    kept = [c.astype(want.dtype) for c in pair]
    got = lane_runs.run(op, FROM_NUMPY[want.dtype], kept, {})
    same = (got == want) | ((got != got) & (want != want))
    assert same.all(), [c[~same][0] for c in pair]
