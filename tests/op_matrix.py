"""What the op tests share: inputs drawn from a record, and the answer of torch.

In: a record of the registry, an element type, shapes.  Out: NumPy arrays that its `samples` allow,
and the result that its `torch` expression gives, rounded as the language rounds: integers wrap,
floats are computed in FP64, rounded to FP32, then to the result's type.
"""

import functools

import ml_dtypes
import numpy as np
import torch

import pypto
from pypto.ir.dtype import DataType
from pypto.ir.op import REGISTRY, Family, Op

BF16 = np.dtype(ml_dtypes.bfloat16)
TESTED = (Family.MAP, Family.REDUCE, Family.SCAN)
ELEMENTS = ("tensor", "operand", "element")

# What floats are made of, besides numbers from the range of an op.
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 2.5, -2.5, 1e-5]

# Shapes of the operands of one call, of each rank.  On every axis of some rank one of them
# broadcasts, from either side; 7 and 33 are no multiple of anything.
SHAPES = [
    ((33,), (33,), (33,)),
    ((7, 33), (1, 33), (7, 1)),
    ((3, 1, 5), (1, 7, 5), (3, 7, 1)),
    ((2, 3, 1, 7), (2, 1, 4, 7), (1, 1, 1, 1)),
    ((1, 1), (1, 1), (1, 1)),
]


def records(*families: Family) -> list[Op]:
    """The records of some families, in the order of their names."""
    return [REGISTRY[n] for n in sorted(REGISTRY) if REGISTRY[n].family in families]


def operands_of(op: Op) -> list[str]:
    """The names of the arguments that can be tensors."""
    return [a.name for a in op.args if a.kind in ELEMENTS]


def types_of(op: Op) -> list[DataType]:
    return sorted(op.accept, key=lambda d: d.name)


def draw(op: Op, position: int, dtype: DataType, shape, seed: int) -> np.ndarray:
    """An operand of an op: random elements of its range, special ones among them."""
    rng = np.random.default_rng(1000 * seed + position)
    name = operands_of(op)[position]
    if name in op.index_args and DataType.DT_BOOL in op.index_accept:
        return rng.random(shape) < 0.5
    if dtype is DataType.DT_BOOL:
        return rng.random(shape) < 0.5
    low, high = op.samples.low, op.samples.high
    if position and op.samples.other is not None:
        low, high = op.samples.other
    if not dtype.is_float:
        low = max(low, 0) if dtype.kind == "u" else low
        return rng.integers(int(low), int(high), shape, endpoint=True).astype(dtype.numpy)
    array = rng.uniform(low, high, shape)
    if op.samples.special and op.family is Family.MAP:
        flat = array.reshape(-1)
        places = rng.permutation(flat.size)[: max(1, flat.size // 2)]
        flat[places] = rng.choice(SPECIAL, places.size)
    return array.astype(dtype.numpy)


def to_torch(array, as_float: bool):
    """An array or number in the type that torch computes in: FP64 or INT64."""
    if isinstance(array, np.ndarray) and array.dtype == np.bool_:
        return torch.from_numpy(array.copy())
    array = np.asarray(array)
    wide = np.float64 if as_float or array.dtype.kind not in "iu" else np.int64
    return torch.from_numpy(array.astype(wide))


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A result in FP64 or INT64 as one of `dtype`: by way of FP32, in which the ops compute."""
    if dtype.kind in "iub":
        return array.astype(dtype)
    with np.errstate(over="ignore"):
        return array.astype(np.float32).astype(dtype)


def expected(op: Op, arguments: dict, result: np.dtype) -> np.ndarray:
    """The result of the torch expression of a record."""
    names = operands_of(op)
    as_float = result.kind not in "iub"
    env = {"torch": torch, **arguments}
    for name in names:
        if arguments.get(name) is not None:
            env[name] = to_torch(arguments[name], as_float)
    # The names of arguments hide builtins and torch's own on purpose.
    out = eval(op.torch, env)
    return rounded(out.numpy(), result)


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    """The largest distance in units of the last place.

    Zeros of both signs are one number, and so are all NaN; a NaN is far from all others.
    """
    if a.dtype.kind in "iub":
        return int(np.max(np.abs(a.astype(object) - b.astype(object)), initial=0))
    word = {2: np.int16, 4: np.int32}[a.dtype.itemsize]
    nan = np.isnan(a) | np.isnan(b)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return 1 << 30

    def ordered(x):
        bits = np.ascontiguousarray(x).view(word).astype(np.int64)
        return np.where(bits < 0, -(bits & np.iinfo(word).max), bits)

    return int(np.max(np.where(nan, 0, np.abs(ordered(a) - ordered(b))), initial=0))


# --- kernels -------------------------------------------------------------------------------------

ANY = pypto.Tensor()
EXTENTS = pypto.Tensor([], pypto.DT_INT32)
F32 = np.float32
OUTSIDE = 77  # what an output holds where the kernel writes nothing


def set_tiles():
    pypto.set_vec_tile_shapes(8, 8, 8, 8)
    pypto.set_cube_tile_shapes([16, 16], [16, 16], [16, 16])


def window(t, extents, start):
    """All of a tensor, valid to the extents that stand from `start` on."""
    valid = [extents[start + axis] for axis in range(t.dim)]
    return pypto.view(t, t.shape, [0] * t.dim, valid_shape=valid)


def kernel_of(operands: int, apply):
    """A kernel that applies a function to one, two or three tensors, each valid in part."""
    if operands == 1:

        @pypto.frontend.jit
        def kernel(a: ANY, extents: EXTENTS, out: ANY):
            set_tiles()
            out[:] = apply(window(a, extents, 0))

    elif operands == 2:

        @pypto.frontend.jit
        def kernel(a: ANY, b: ANY, extents: EXTENTS, out: ANY):
            set_tiles()
            out[:] = apply(window(a, extents, 0), window(b, extents, a.dim))

    else:

        @pypto.frontend.jit
        def kernel(a: ANY, b: ANY, c: ANY, extents: EXTENTS, out: ANY):
            set_tiles()
            out[:] = apply(
                window(a, extents, 0),
                window(b, extents, a.dim),
                window(c, extents, a.dim + b.dim),
            )

    return kernel


def public(name: str):
    """The function of an op: `pypto.exp`, `pypto.experimental.gather_in_ub`."""
    return functools.reduce(getattr, name.split("."), pypto)


def partial(shape, which: int) -> tuple[int, ...]:
    """Valid extents: everything, a part (another one for each operand), nothing on one axis."""
    if which == 0:
        return tuple(shape)
    if which == 3:
        return (0, *shape[1:]) if len(shape) < 3 else (*shape[:-1], 0)
    return tuple(max(1, n - which * (1 + axis)) for axis, n in enumerate(shape))


def cut(array: np.ndarray, extents) -> np.ndarray:
    return array[tuple(slice(n) for n in extents)]


def common(shapes, valids) -> tuple[int, ...]:
    """Where all operands are valid; one that broadcasts is, if it is valid at all."""
    extents = []
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        whole = max(sizes)
        own = [v[axis] for s, v in zip(shapes, valids, strict=True) if s[axis] == whole]
        repeated = [v[axis] for s, v in zip(shapes, valids, strict=True) if s[axis] != whole]
        extents.append(0 if 0 in repeated else min(own))
    return tuple(extents)


def blank(shape, dtype) -> np.ndarray:
    """An output in which nothing is written yet."""
    return np.full(shape, OUTSIDE).astype(dtype)


def name_of(dtype):
    return np.dtype(dtype).name


def ramp(*shape, dtype=F32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def noise(*shape, dtype=F32, seed=3):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def run(apply, operands, shape, dtype=F32):
    """What a function writes into a blank output; an operand is (array, valid) or an array."""
    pairs = [o if isinstance(o, tuple) else (o, o.shape) for o in operands]
    out = blank(shape, dtype)
    extents = np.array([n for _, valid in pairs for n in valid], np.int32)
    kernel_of(len(pairs), apply)(*[array for array, _ in pairs], extents, out)
    return out


def check_box(out, want, within=0):
    """`want` stands in the leading box, everything else is as it was."""
    assert ulps(cut(out, want.shape), want.astype(out.dtype)) <= within
    rest = out.copy()
    rest[tuple(slice(n) for n in want.shape)] = OUTSIDE
    assert (rest == OUTSIDE).all()


def ask(apply, *arrays, shape=None, dtype=None):
    """What a function gives for fully valid arrays."""
    out = blank(shape or arrays[0].shape, dtype or arrays[0].dtype)
    extents = np.array([n for a in arrays for n in a.shape], np.int32)
    kernel_of(len(arrays), apply)(*arrays, extents, out)
    return out
