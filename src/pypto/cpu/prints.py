"""Prints of a run: machine code calls back into Python with what to show.

In: a print node.  Out: code that fills a block with integers, and where tensors lie, and hands it
to the printer of the run; and, on the other side of that call, the texts of the block's items.  The
texts are those of the interpreter.  A printer that fails ends the run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pypto.cpu.code import Reg, i64
from pypto.cpu.emission import PRINTER, Emission
from pypto.ir.dtype import DataType
from pypto.ir.graph import Node
from pypto.ir.op import Slot
from pypto.ir.show import show

# i32 printer(i64 print, ptr words)
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))


class Shown(NamedTuple):
    """A tensor in the block: its address, then its strides, its extents and the valid ones."""

    dtype: DataType
    rank: int


# What a print shows, in order: text that is known, a tensor, an integer (None).
Items = tuple[str | Shown | None, ...]


def emit_print(e: Emission, node: Node) -> None:
    """Call the printer where the condition holds."""
    code = e.code
    items: list[str | Shown | None] = []
    words: list[Reg] = []
    for item in node.attrs["items"]:
        if isinstance(item, str):
            items.append(item)
        elif isinstance(item, Slot):
            value = node.operands[item.index]
            mem, type = e.mem(value), value.tensor
            items.append(Shown(mem.dtype, type.rank))
            words += [mem.pointer, *mem.strides, *e.ints.all(type.shape), *e.valid(value)]
        else:
            items.append(None)
            words.append(e.ints.of(item))
    place = len(e.prints)
    e.prints.append(tuple(items))
    block = code.local(f"[{max(1, len(words))} x i64]", align=8)
    status = code.local("i32")
    code.store(Reg("0", "i32"), status)
    with code.when(e.ints.truth(node.attrs["cond"])):
        for k, word in enumerate(words):
            code.store(word, code.at("i64", block, str(k)))
        printer = code.load("ptr", code.at("i64", "%context", str(PRINTER)))
        code.store(code.call("i32", printer, i64(place), block), status)
    bad, good = code.module.label(), code.module.label()
    code.branch(code.compare("ne", code.load("i32", status), Reg("0", "i32")), bad, good)
    code.start(bad)
    e.stop()
    code.start(good)


def texts(items: Items, words: Sequence[int]) -> Iterator[str]:
    """The items of a print, from the block of a call."""
    at = 0
    for item in items:
        if isinstance(item, str):
            yield item
        elif item is None:
            yield str(words[at])
            at += 1
        else:
            pointer, rank = words[at], item.rank
            strides, shape, valid = (
                tuple(words[at + 1 + k * rank : at + 1 + (k + 1) * rank]) for k in range(3)
            )
            at += 1 + 3 * rank
            yield show(_array(pointer, item.dtype, strides, valid), item.dtype, shape)


def _array(
    pointer: int, dtype: DataType, strides: Sequence[int], extents: Sequence[int]
) -> np.ndarray:
    """Memory of the run as an array, which lives as long as the call."""
    size = dtype.numpy.itemsize
    if 0 in extents:
        return np.empty(extents, dtype.numpy)
    reach = 1 + sum((n - 1) * stride for n, stride in zip(extents, strides, strict=True))
    memory = memoryview((ctypes.c_char * (reach * size)).from_address(pointer))
    return np.ndarray(extents, dtype.numpy, memory, 0, tuple(size * s for s in strides))
