"""Kernels whose annotations are strings because of `from __future__ import annotations`.

In goes what `pypto.jit` sees in such a module: text instead of annotation objects, `-> None`, the
bare class, a symbol of this module; out come kernels that must behave as if nothing were special.
"""

from __future__ import annotations

import pypto

ROWS = pypto.SymbolicScalar("rows")


@pypto.frontend.jit
def plus_one(a: pypto.Tensor([], pypto.DT_FP32), out: pypto.Tensor([], pypto.DT_FP32)) -> None:
    pypto.set_vec_tile_shapes(16, 32)
    t: pypto.Tensor = a + 1.0
    out[:] = t


@pypto.frontend.jit
def scaled(a: pypto.Tensor, out: pypto.Tensor(dtype=pypto.DT_FP32), s: float = 2.0) -> None:
    pypto.set_vec_tile_shapes(16, 32)
    out[:] = a * s


@pypto.frontend.jit
def doubled_rows(
    a: pypto.Tensor([ROWS, 32], pypto.DT_FP32),
    out: pypto.Tensor([pypto.DYNAMIC, pypto.STATIC], pypto.DT_FP32),
) -> None:
    pypto.set_vec_tile_shapes(1, 32)
    for i in pypto.loop(a.shape[0]):
        out[i : i + 1, :] = a[i : i + 1, :] * 2.0


def make_shifted(offset: float):
    """A factory in such a module: its annotations name the factory's own local."""
    spec = pypto.Tensor([], pypto.DT_FP32)

    @pypto.frontend.jit
    def shifted(a: spec, out: spec) -> None:
        pypto.set_vec_tile_shapes(16, 32)
        out[:] = a + offset

    return shifted
