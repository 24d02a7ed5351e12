"""Matrix products of the size of tiles: the emitter's functions against NumPy, one thread.

The limit is what independent fused multiply-adds reach on this core. Rounds take the functions in
turn, times are CPU time of the thread, and the best round counts; every result is checked against
FP64 first. Set OPENBLAS_NUM_THREADS=1 and unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE.
"""

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from pypto.cpu.code import Function, Module, Reg, i64
from pypto.cpu.gemm import Product
from pypto.cpu.lanes import FP32, Lane, Lanes
from pypto.cpu.load import Code, to_object
from pypto.cpu.target import host
from pypto.ir.dtype import DataType

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from gemm_harness import TYPES, native

SECONDS = 2.5  # a row
FLOP = 1e8  # at least, a sample
# M, N, K and which operands lie transposed. The first ones are those of the gated delta rule.
SHAPES = [
    (64, 64, 64, ""),
    (64, 128, 128, ""),
    (64, 64, 128, ""),
    (64, 64, 128, "B"),
    (128, 64, 64, ""),
    (128, 128, 64, "A"),
    (64, 1, 64, ""),
    (64, 1, 64, "A"),
    (1, 64, 64, ""),
    (16, 16, 16, ""),
    (32, 32, 32, ""),
    (100, 100, 100, ""),
    (128, 128, 128, ""),
    (128, 128, 128, "A"),
    (128, 128, 128, "B"),
    (256, 256, 256, ""),
    (1024, 1024, 1024, ""),
]


def fma_limit() -> float:
    """GFLOP/s of multiply-adds that wait for nothing."""
    target, module = host(), Module()
    at, count = Reg("%at", "ptr"), Reg("%count", "i64")
    code = Function(module, "limit", [at, count], attributes="external nounwind")
    lanes = Lanes(code, target.lanes)
    kind = lanes.type(FP32)
    sums = [code.local(kind) for _ in range(12)]
    x = Lane(code.load(kind, at, 4), FP32)
    # Sums that began alike would be found to be one sum.
    for index, one in enumerate(sums):
        code.store(code.load(kind, code.at("float", at, str(index)), 4), one)
    with code.loop(i64(0), count):
        for one in sums:
            code.store(Reg(lanes.fma(x, x, Lane(code.load(kind, one), FP32)).reg, kind), one)
    for index, one in enumerate(sums):
        code.store(code.load(kind, one), code.at("float", at, str(index * target.lanes)), 4)
    code.ret()
    module.add(code)
    loaded = Code(to_object(module.text(), target), ["limit"])
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(loaded.address("limit"))
    memory, turns = np.full(12 * target.lanes, 0.5, np.float32), 100_000
    best = best_of({"limit": lambda: run(memory.ctypes.data, turns)}, 1.0)["limit"]
    return turns * len(sums) * target.lanes * 2 / best / 1e9


def best_of(functions: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The least CPU time of each, taken in turn for some seconds."""
    best = dict.fromkeys(functions, float("inf"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, function in functions.items():
            begin = time.thread_time()
            function()
            best[name] = min(best[name], time.thread_time() - begin)
    return best


def measure(m: int, n: int, k: int, turned: str) -> dict[str, float]:
    """Operations a nanosecond of each element type, and of NumPy in FP32."""
    rng = np.random.default_rng(0)
    times = max(1, int(FLOP / (2 * m * n * k)))
    plain: dict[DataType, tuple[np.ndarray, ...]] = {}
    functions: dict[str, Callable[[], object]] = {}
    for dtype, kind in TYPES.items():
        a = rng.integers(-4, 5, (k, m) if "A" in turned else (m, k)).astype(kind)
        b = rng.integers(-4, 5, (n, k) if "B" in turned else (k, n)).astype(kind)
        a, b = a.T if "A" in turned else a, b.T if "B" in turned else b
        c = np.empty((m, n), np.int32 if dtype is DataType.DT_INT8 else np.float32)
        product = native(Product(dtype, m, n, k))
        product(a, b, c)
        assert (c == a.astype(float) @ b.astype(float)).all()
        plain[dtype] = a, b, c
        functions[dtype.name] = lambda product=product, given=(a, b, c): product(*given, times)
    a, b, c = plain[FP32]

    def numpy() -> None:
        for _ in range(times):
            np.matmul(a, b, out=c)

    best = best_of({**functions, "NumPy": numpy}, SECONDS * (4 if m > 512 else 1))
    return {name: 2 * m * n * k * times / spent / 1e9 for name, spent in best.items()}


def main() -> None:
    limit = fma_limit()
    table = Table(title=f"GFLOP/s, one thread of {host().cpu}; FMA limit {limit:.0f}")
    columns = ["FP32", "of limit", "NumPy FP32", "FP16", "BF16", "INT8"]
    table.add_column("M × N × K")
    for column in columns:
        table.add_column(column, justify="right")
    for m, n, k, turned in SHAPES:
        rate = measure(m, n, k, turned)
        fp32 = rate["DT_FP32"]
        row = [f"{rate[name]:.0f}" for name in ("NumPy", "DT_FP16", "DT_BF16", "DT_INT8")]
        label = f"{m} × {n} × {k}" + (f", {turned} transposed" if turned else "")
        table.add_row(label, f"{fp32:.0f}", f"{fp32 / limit:.2f}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
