"""Runs the lane function of an op over arrays, as vectors or one element at a time.

In: a record, the element type of the result, arrays and numbers as its operands, attributes.  Out:
the array that native code makes of them.  One function is compiled for each op, element types,
numbers and attributes.
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


def run(op, result, operands, attrs, alone=False):
    """The lanes of `op` over flat arrays of one length, with elements of the type `result`.

    Whole vectors go first and the rest one by one; `alone`, all do.
    """
    arrays = [a for a in operands if isinstance(a, np.ndarray)]
    size = len(arrays[0])
    assert all(a.shape == (size,) and a.flags.c_contiguous for a in arrays)
    kinds = tuple(FROM_NUMPY[a.dtype] if isinstance(a, np.ndarray) else Number(a) for a in operands)
    call = compiled(op, result, kinds, tuple(sorted(attrs.items())))
    out = np.empty(size, result.numpy)
    vectors = 0 if alone else size // WIDTH * WIDTH
    call(out.ctypes.data, vectors, size, *(a.ctypes.data for a in arrays))
    return out


class Number:
    """A NumPy scalar, or None; 0.0 is not -0.0 and 1 is not 1.0."""

    def __init__(self, value):
        self.value = value
        self._key = None if value is None else (value.dtype.str, value.tobytes())

    def __hash__(self):
        return hash(self._key)

    def __eq__(self, other):
        return isinstance(other, Number) and self._key == other._key


@functools.cache
def compiled(op, dtype, kinds, attrs, width=WIDTH):
    """The function: (out, elements in whole vectors, elements, *arrays)."""
    module, name = Module(), f"lane{next(_names)}"
    arrays = [k for k in kinds if isinstance(k, DataType)]
    out, middle, size = Reg("%out", "ptr"), Reg("%m", "i64"), Reg("%n", "i64")
    params = [Reg(f"%p{i}", "ptr") for i in range(len(arrays))]
    head = [out, middle, size, *params]
    function = Function(module, name, head, attributes="external nounwind")
    for begin, end, step in ((i64(0), middle, width), (middle, size, 1)):
        with function.loop(begin, end, step) as index:
            lanes = Elementary(function, step)
            operands = list(_operands(op, kinds, lanes, index, params))
            made = lanes.convert(op.lane(lanes, *operands, **dict(attrs)), dtype)
            lanes.store(made, function.at(MEMORY[dtype], out, index))
    function.ret()
    module.add(function)
    code = load.Code(load.to_object(module.text(), host()), [name])
    types = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * len(params)]
    call = ctypes.CFUNCTYPE(None, *types)(code.address(name))
    call.code = code  # lives as long as the function
    return call


def _operands(op, kinds, lanes, index, params):
    """What a record is handed: FP16 and BF16 as FP32 if it asks for that."""
    where = iter(params)
    for kind in kinds:
        if isinstance(kind, DataType):
            lane = lanes.load(lanes.code.at(MEMORY[kind], next(where), index), kind)
        elif kind.value is None:
            yield None
            continue
        else:
            lane = lanes.const(FROM_NUMPY[kind.value.dtype], kind.value)
        yield lanes.widen(lane) if op.widen else lane
