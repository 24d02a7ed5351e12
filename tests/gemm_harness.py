"""Compiles matrix products into functions that Python can call on arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.gemm import Product, product, scratch_bytes
from pypto.cpu.load import Code, to_object
from pypto.cpu.target import Target, host
from pypto.ir.dtype import DataType

TYPES = {
    DataType.DT_FP32: np.dtype(np.float32),
    DataType.DT_FP16: np.dtype(np.float16),
    DataType.DT_BF16: np.dtype(ml_dtypes.bfloat16),
    DataType.DT_INT8: np.dtype(np.int8),
}
PARAMS = "ptr i64 i64 ptr i64 i64 ptr i64 i64 i64 i64 ptr".split()
_C = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64}


def module_text(specs: list[Product], target: Target) -> str:
    """A module with a function `product0`, `product1`, … for each product; their last argument
    says how often it is computed.
    """
    module = Module()
    for index, spec in enumerate(specs):
        params = [Reg(f"%p{i}", kind) for i, kind in enumerate(PARAMS)]
        times = Reg("%times", "i64")
        code = Function(module, f"product{index}", [*params, times], attributes="external nounwind")
        name = product(module, target, spec)
        with code.loop(i64(0), times):
            code.call("void", name, *params)
        code.ret()
        module.add(code)
    return module.text()


def compiled_for(specs: list[Product], target: Target) -> bytes:
    """The object file for any target, verified."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = module_text(specs, target)
    llvm.parse_assembly(text).verify()
    return to_object(text, target)


@functools.cache
def native(spec: Product, target: Target | None = None) -> Callable[..., Any]:
    """`f(a, b, c, times=1)`: the product of arrays of any strides into an array of rows."""
    target = target or host()
    code = Code(to_object(module_text([spec], target), target), ["product0"])
    kinds = [*(_C[kind] for kind in PARAMS), ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *kinds)(code.address("product0"))
    size = scratch_bytes(target, spec)
    memory = np.full(size + 128, 0xA5, np.uint8)
    scratch = -(-memory.ctypes.data // 64) * 64

    def call(a: Any, b: Any, c: Any, times: int = 1) -> None:
        given: list[int] = []
        for array in (a, b):
            steps = (step // array.itemsize for step in array.strides)
            given += [array.ctypes.data, *steps]
        given += [c.ctypes.data, c.strides[0] // c.itemsize]
        function(*given, a.shape[0], b.shape[1], a.shape[1], scratch, times)
        after = memory[scratch - memory.ctypes.data + size :]
        assert (after == 0xA5).all(), "scratch was overrun"

    call.code = code  # type: ignore[attr-defined]  # the machine code lives as long as its caller
    return call
