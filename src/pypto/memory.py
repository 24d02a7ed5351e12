"""Argument buffers: the caller's tensors as NumPy arrays over the same memory.

In: whatever a kernel was called with.  Out: an `Argument` for torch tensors and NumPy arrays, with
what the call boundary must know before it lets a kernel write there; None for everything else.
Also here: poison for memory that holds no value, guard zones, autograd version counters.  Torch is
never imported: its tensors exist only where the caller has imported it.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

import ml_dtypes
import numpy as np

from pypto.errors import error

# Element types by the last part of their torch or NumPy name.
_NAMES = {
    "float16": "DT_FP16",
    "bfloat16": "DT_BF16",
    "float32": "DT_FP32",
    "float64": "DT_DOUBLE",
    "int8": "DT_INT8",
    "int16": "DT_INT16",
    "int32": "DT_INT32",
    "int64": "DT_INT64",
    "uint8": "DT_UINT8",
    "uint16": "DT_UINT16",
    "uint32": "DT_UINT32",
    "uint64": "DT_UINT64",
    "bool": "DT_BOOL",
    "float8_e4m3fn": "DT_FP8E4M3",
    "float8_e5m2": "DT_FP8E5M2",
    "float8_e8m0fnu": "DT_FP8E8M0",
    "float4_e2m1fn_x2": "DT_FP4_E2M1X2",
}
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Torch has no NumPy form of these: they pass as integers of the same size.
_AS_BYTES = frozenset(n for n in _NAMES if n.startswith(("float8", "float4")))
# Classes whose objects stand for memory that is not here.
_STAND_INS = frozenset({"DTensor", "FakeTensor", "FunctionalTensor"})


class Obstacle(NamedTuple):
    """Why the memory of a tensor cannot be shared ("lives on device meta", "is a DTensor", …), and
    what to pass in its place, with `{x}` for its name.
    """

    text: str
    remedy: str


class Argument:
    """One tensor that a kernel was called with.

    `array` shares the caller's memory; it is None where there is none to share, and `obstacle` then
    says why.  `shape` and `strides` count elements; a 0-d tensor has the shape (1,).  `expanded`:
    several indices name one element.
    """

    __slots__ = (
        "array",
        "device",
        "dtype_name",
        "kind",
        "obstacle",
        "owner",
        "requires_grad",
        "shape",
        "strides",
        "writable",
    )

    def __init__(
        self,
        owner: Any,
        kind: str,
        dtype_name: str,
        array: np.ndarray | None,
        shape: tuple[int, ...],
        obstacle: Obstacle | None = None,
        requires_grad: bool = False,
        device: str = "cpu",
    ) -> None:
        self.owner = owner
        self.kind = kind
        self.dtype_name = dtype_name
        self.array = array
        self.obstacle = obstacle
        self.requires_grad = requires_grad
        self.device = device
        self.shape = shape
        self.strides: tuple[int, ...] = ()
        self.writable = False
        if array is not None:
            self.strides = tuple(s // array.itemsize for s in array.strides)
            self.writable = bool(array.flags.writeable)

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie one after the other in row-major order."""
        return self.array is not None and bool(self.array.flags.c_contiguous)

    @property
    def expanded(self) -> bool:
        """Whether an axis repeats one element."""
        return any(s == 0 and n > 1 for s, n in zip(self.strides, self.shape, strict=False))

    @property
    def pointer_range(self) -> tuple[int, int]:
        """The addresses of its first byte and after its last byte."""
        if self.array is None or self.array.size == 0:
            return (0, 0)
        low = high = self.array.__array_interface__["data"][0]
        for extent, stride in zip(self.array.shape, self.array.strides, strict=True):
            reach = (extent - 1) * stride
            low, high = low + min(reach, 0), high + max(reach, 0)
        return (low, high + self.array.itemsize)

    def __repr__(self) -> str:
        return f"<{self.kind} argument {list(self.shape)} {self.dtype_name}>"


def as_argument(obj: Any) -> Argument | None:
    """A torch tensor or NumPy array as an argument, None for other objects.

    Errors: ValueError F00002 for element types that the language does not have.
    """
    if isinstance(obj, np.ndarray):
        return _from_numpy(obj)
    torch = sys.modules.get("torch")
    tensor_class = getattr(torch, "Tensor", None)
    if tensor_class is not None and isinstance(obj, tensor_class):
        return _from_torch(obj)
    return None


def _from_numpy(obj: np.ndarray) -> Argument:
    name = obj.dtype.name
    if name not in _NAMES or not obj.dtype.isnative:
        found = name if obj.dtype.isnative else f"{name} of foreign byte order"
        raise error(
            ValueError,
            f"Input numpy dtype is not supported. Got {found}",
            fix="convert it: `x.astype(numpy.float32)`",
        )
    if isinstance(obj, np.ma.MaskedArray):
        obstacle = Obstacle("is a masked array", "{x}.filled(0)")
        return Argument(obj, "numpy", _NAMES[name], None, obj.shape, obstacle)
    array = np.asarray(obj)
    if array.ndim == 0:
        array = array.reshape(1)
    return Argument(obj, "numpy", _NAMES[name], array, array.shape)


def _from_torch(obj: Any) -> Argument:
    stand_in = next((c.__name__ for c in type(obj).__mro__ if c.__name__ in _STAND_INS), "")
    name = str(obj.dtype).rpartition(".")[2]
    if name not in _NAMES:
        raise error(
            ValueError,
            f"Input torch.dtype is not supported. Got {obj.dtype}",
            fix="convert it: `x.to(torch.float32)`",
        )
    device = str(obj.device)
    obstacle = _stands_in(stand_in) if stand_in else _torch_obstacle(obj, device)
    array = None
    if obstacle is None:
        try:
            array = _torch_memory(obj.detach(), name)
        except (RuntimeError, TypeError, NotImplementedError) as cause:
            # Wrapped tensors of transformations (vmap, functionalization) have no memory.
            reason = str(cause).splitlines()[0]
            obstacle = Obstacle(
                f"has no memory to share ({reason})",
                "call the kernel outside of the transformation that wraps {x}",
            )
    if array is None:
        shape = () if getattr(obj, "is_nested", False) else tuple(int(d) for d in obj.shape)
        return Argument(
            obj, "torch", _NAMES[name], None, shape, obstacle, bool(obj.requires_grad), device
        )
    if array.ndim == 0:
        array = array.reshape(1)
    return Argument(
        obj, "torch", _NAMES[name], array, array.shape, None, bool(obj.requires_grad), device
    )


def _stands_in(kind: str) -> Obstacle:
    if kind == "DTensor":
        return Obstacle("is a DTensor", "{x}.to_local()")
    return Obstacle(f"is a {kind}", "torch.zeros({x}.shape), which has memory")


def _torch_obstacle(obj: Any, device: str) -> Obstacle | None:
    if obj.is_nested:
        return Obstacle("is a nested tensor", "torch.nested.to_padded_tensor({x}, 0.0)")
    if device.startswith("meta"):
        return Obstacle(f"lives on device {device}", 'torch.empty_like({x}, device="cpu")')
    if not device.startswith("cpu"):
        return Obstacle(f"lives on device {device}", "{x}.cpu()")
    if str(obj.layout) != "torch.strided":
        return Obstacle(f"has the layout {obj.layout}", "{x}.to_dense()")
    if obj.is_neg():
        return Obstacle("is a view with the sign changed", "{x}.resolve_neg()")
    return None


def _torch_memory(plain: Any, name: str) -> np.ndarray:
    torch = sys.modules["torch"]
    if name == "bfloat16":
        array: np.ndarray = plain.view(torch.int16).numpy().view(BFLOAT16)
    elif name in _AS_BYTES:
        array = plain.view(torch.uint8).numpy()
    else:
        array = plain.numpy()
    return array


def overlap(a: Argument, b: Argument) -> bool:
    """Whether two arguments share an element."""
    if a.array is None or b.array is None or a.array.size == 0 or b.array.size == 0:
        return False
    if not np.may_share_memory(a.array, b.array):
        return False
    if a.contiguous and b.contiguous:
        return True
    try:
        return bool(np.shares_memory(a.array, b.array, 100_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def bump_version(obj: Any) -> None:
    """Tell autograd that the memory of a torch tensor was written; nothing for NumPy arrays."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        torch.autograd.graph.increment_version(obj)


# --- memory that holds no value ------------------------------------------------------------------


def poison_value(dtype: np.dtype) -> Any:
    """What fresh memory and lanes outside the valid extents hold: NaN, 0x55… for integers, True."""
    if dtype.kind == "b":
        return np.True_
    if dtype.kind in "iu":
        return dtype.type(int.from_bytes(b"\x55" * dtype.itemsize, "little"))
    return dtype.type(float("nan"))


def poisoned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Fresh memory full of poison."""
    array = np.empty(shape, dtype)
    array.fill(poison_value(dtype))
    return array


GUARD_BYTES = 256
_GUARD = 0xA5


class GuardCheck(Protocol):
    """What `guarded_copy` hands out beside the copy."""

    def __call__(self, give_back: bool = True) -> str: ...


def guarded_copy(array: np.ndarray) -> tuple[np.ndarray, GuardCheck]:
    """A copy between two guard zones, and what to call after the run.

    That call copies the elements back into `array`, unless it is told not to, and answers "" or,
    where a guard zone was written, which bytes relative to the copy ("bytes 0..3 after the end").
    """
    size = array.nbytes
    raw = np.full(size + 2 * GUARD_BYTES, _GUARD, np.uint8)
    inner = raw[GUARD_BYTES : GUARD_BYTES + size].view(array.dtype).reshape(array.shape)
    inner[...] = array
    before, after = raw[:GUARD_BYTES], raw[GUARD_BYTES + size :]
    intact = before.tobytes()

    def check(give_back: bool = True) -> str:
        if give_back:
            array[...] = inner
        if before.tobytes() == intact == after.tobytes():
            return ""
        broken = np.flatnonzero(before != _GUARD)
        if broken.size:
            return f"bytes {GUARD_BYTES - broken[-1]}..{GUARD_BYTES - broken[0]} before the start"
        broken = np.flatnonzero(after != _GUARD)
        return f"bytes {broken[0]}..{broken[-1]} after the end"

    return inner, check
