"""Runs the lane function of an op over arrays, as vectors and, for the rest, one by one.

In: a record, arrays or numbers as its operands, attributes.  Out: the array that native code makes
of them.  One function is compiled for each op, element types, numbers and attributes.
"""

import ctypes
import functools
import itertools

import numpy as np

from pypto.cpu import load
from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.functions import Elementary
from pypto.cpu.lanes import MEMORY
from pypto.cpu.target import host
from pypto.ir.dtype import FROM_NUMPY, DataType

WIDTH = 32
_names = itertools.count()


def run(op, dtype, *operands, width=WIDTH, **attrs):
    """The lanes of `op` over flat arrays of one length; the result has the element type `dtype`.

    The last elements, at least one, go one by one.
    """
    arrays = [a for a in operands if isinstance(a, np.ndarray)]
    size = len(arrays[0])
    assert all(a.shape == (size,) and a.flags.c_contiguous for a in arrays)
    kinds = tuple(FROM_NUMPY[a.dtype] if isinstance(a, np.ndarray) else a for a in operands)
    # A number is told from its neighbour of another type, and 0.0 from -0.0.
    key = tuple(k if isinstance(k, DataType) else _Number(k) for k in kinds)
    call, _ = compiled(op, dtype, key, tuple(sorted(attrs.items())), width)
    out = np.empty(size, dtype.numpy)
    call(out.ctypes.data, size, *(a.ctypes.data for a in arrays))
    return out


class _Number:
    def __init__(self, number):
        self.number = number
        self.key = None if number is None else (number.dtype.str, number.tobytes())

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return isinstance(other, _Number) and self.key == other.key


@functools.cache
def compiled(op, dtype, kinds, attrs, width):
    """The function, as (out, size, *arrays), and the object code that it lives in."""
    module, name = Module(), f"lane{next(_names)}"
    tensors = [k for k in kinds if isinstance(k, DataType)]
    params = [Reg(f"%p{i}", "ptr") for i in range(len(tensors))]
    out, size = Reg("%out", "ptr"), Reg("%n", "i64")
    head = [out, size, *params]
    function = Function(module, name, head, attributes="external nounwind")
    most = function.sub(size, i64(1))
    vectors = function.let("i64", f"sdiv i64 {most}, {width}")
    middle = function.mul(vectors, i64(width))
    for begin, end, step in ((i64(0), middle, width), (middle, size, 1)):
        with function.loop(begin, end, step) as index:
            lanes = Elementary(function, step)
            _element(op, dtype, kinds, dict(attrs), lanes, index, params, out)
    function.ret()
    module.add(function)
    emitted = load.to_object(module.text(), host())
    code = load.Code(emitted, [name])
    types = [ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * len(params)]
    return ctypes.CFUNCTYPE(None, *types)(code.address(name)), code


def _element(op, dtype, kinds, attrs, lanes, index, params, out):
    where = iter(params)
    operands = []
    for kind in kinds:
        if isinstance(kind, DataType):
            lane = lanes.load(lanes.code.at(MEMORY[kind], next(where), index), kind)
        elif kind.number is None:
            operands.append(None)
            continue
        else:
            lane = lanes.const(FROM_NUMPY[kind.number.dtype], kind.number)
        operands.append(lanes.widen(lane) if op.widen else lane)
    made = lanes.convert(op.lane(lanes, *operands, **attrs), dtype)
    lanes.store(made, lanes.code.at(MEMORY[dtype], out, index))
