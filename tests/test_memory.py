"""Argument buffers: what is shared, what is refused, what is told apart."""

import ml_dtypes
import numpy as np
import pytest
import torch

from pypto import memory
from pypto.errors import FeError

TORCH = {
    torch.float16: "DT_FP16",
    torch.bfloat16: "DT_BF16",
    torch.float32: "DT_FP32",
    torch.float64: "DT_DOUBLE",
    torch.int8: "DT_INT8",
    torch.int16: "DT_INT16",
    torch.int32: "DT_INT32",
    torch.int64: "DT_INT64",
    torch.uint8: "DT_UINT8",
    torch.uint16: "DT_UINT16",
    torch.uint32: "DT_UINT32",
    torch.uint64: "DT_UINT64",
    torch.bool: "DT_BOOL",
}


@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_torch_memory_is_shared(dtype):
    t = torch.zeros(3, 4, dtype=dtype)
    argument = memory.as_argument(t)
    assert (argument.kind, argument.dtype_name) == ("torch", TORCH[dtype])
    assert argument.shape == (3, 4)
    assert argument.strides == (4, 1)
    assert argument.contiguous and argument.writable and not argument.obstacle
    argument.array[1, 2] = 1
    assert t[1, 2].item() == 1
    assert t.to(torch.float64).sum().item() == 1


def test_bfloat16_is_the_type_of_ml_dtypes():
    t = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    array = memory.as_argument(t).array
    assert array.dtype == ml_dtypes.bfloat16
    assert array.astype(np.float32).tolist() == [1.5, -2.0]


def test_numpy_memory_is_shared():
    for dtype, name in (("float32", "DT_FP32"), ("int64", "DT_INT64"), ("bool", "DT_BOOL")):
        x = np.zeros((2, 2), dtype)
        argument = memory.as_argument(x)
        assert (argument.kind, argument.dtype_name, argument.device) == ("numpy", name, "cpu")
        argument.array[0, 1] = 1
        assert x[0, 1] == 1
    x = np.zeros(2, ml_dtypes.bfloat16)
    assert memory.as_argument(x).dtype_name == "DT_BF16"


def test_a_zero_dim_tensor_has_one_axis():
    t, x = torch.tensor(2.0), np.array(3, np.int32)
    for obj in (t, x):
        argument = memory.as_argument(obj)
        assert argument.shape == argument.array.shape == (1,)
        argument.array[0] = 7
    assert t.item() == 7
    assert x == 7


def test_subclasses_and_parameters_are_tensors():
    p = torch.nn.Parameter(torch.ones(2))
    argument = memory.as_argument(p)
    assert argument.requires_grad
    argument.array[0] = 5
    assert p[0].item() == 5
    assert not memory.as_argument(torch.ones(2)).requires_grad


def test_other_objects_are_no_arguments():
    for obj in (3, 2.5, None, [1, 2], "x", np.float32(3), torch.float32):
        assert memory.as_argument(obj) is None


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_unsupported_torch_dtype(dtype):
    with pytest.raises(ValueError, match="Input torch.dtype is not supported. Got") as caught:
        memory.as_argument(torch.zeros(2, dtype=dtype))
    assert isinstance(caught.value, FeError)
    assert caught.value.code == "F00002"
    assert caught.value.text == f"Input torch.dtype is not supported. Got {dtype}"


def test_unsupported_numpy_dtypes():
    for dtype in ("complex64", "U3", "O", "datetime64[s]"):
        with pytest.raises(ValueError, match="Input numpy dtype is not supported. Got "):
            memory.as_argument(np.zeros(2, dtype))
    with pytest.raises(ValueError, match="Got float32 of foreign byte order"):
        memory.as_argument(np.zeros(2, ">f4"))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_has_no_memory_here_says_why():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(2, 3)
    cases = {
        ("lives on device meta", 'torch.empty_like({x}, device="cpu")'): torch.empty(
            2, 3, device="meta"
        ),
        ("has the layout torch.sparse_coo", "{x}.to_dense()"): torch.zeros(2, 3).to_sparse(),
        ("is a FakeTensor", "torch.zeros({x}.shape), which has memory"): fake,
        ("is a view with the sign changed", "{x}.resolve_neg()"): (
            torch.ones(2, 3, dtype=torch.complex64).conj().imag
        ),
    }
    for obstacle, obj in cases.items():
        argument = memory.as_argument(obj)
        assert argument.obstacle == obstacle
        assert argument.array is None
        assert argument.shape == (2, 3)
        assert not argument.contiguous and not argument.writable
        assert shareable(obstacle, obj)

    class DTensor(torch.Tensor):
        def to_local(self):
            return self.as_subclass(torch.Tensor)

    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for obj, why in (
        (torch.ones(2).as_subclass(DTensor), "is a DTensor"),
        (np.ma.array([1.0, 2.0]), "is a masked array"),
        (nested, "is a nested tensor"),
    ):
        obstacle = memory.as_argument(obj).obstacle
        assert obstacle.text == why
        assert shareable(obstacle, obj)


def shareable(obstacle, x):
    """Whether what an obstacle says to pass in place of `x` has memory to share."""
    remedy = obstacle[1].partition(", which")[0].format(x="x")
    return memory.as_argument(eval(remedy, {"torch": torch, "x": x})).obstacle is None


def test_a_tensor_inside_a_transformation_has_no_memory():
    seen = []

    def look(x):
        seen.append(memory.as_argument(x))
        return x

    torch.func.vmap(look)(torch.ones(2, 3))
    assert seen[0].array is None
    assert seen[0].obstacle.text.startswith("has no memory to share")


def test_strides_tell_layouts_apart():
    t = torch.zeros(4, 6)
    assert not memory.as_argument(t.t()).contiguous
    assert memory.as_argument(t.t()).strides == (1, 6)
    assert not memory.as_argument(t[:, ::2]).contiguous
    expanded = memory.as_argument(torch.zeros(1, 3).expand(4, 3))
    assert expanded.expanded and not expanded.contiguous
    assert not memory.as_argument(t).expanded
    assert not memory.as_argument(torch.zeros(1, 3).expand(1, 3)).expanded
    x = np.zeros(3)
    x.flags.writeable = False
    assert not memory.as_argument(x).writable
    assert memory.as_argument(torch.zeros(0, 3)).shape == (0, 3)


def test_overlap():
    base = np.zeros((4, 8), np.float32)
    a = memory.as_argument
    assert memory.overlap(a(base), a(base))
    assert memory.overlap(a(base), a(base[1:2]))
    assert not memory.overlap(a(base[:2]), a(base[2:]))
    assert not memory.overlap(a(base), a(base.copy()))
    # Columns side by side: their address ranges cross, their elements do not.
    assert not memory.overlap(a(base[:, :4]), a(base[:, 4:]))
    assert memory.overlap(a(base[:, :5]), a(base[:, 4:]))
    assert not memory.overlap(a(base[:0]), a(base))
    t = torch.zeros(8)
    assert memory.overlap(a(t), a(t.numpy()))


def test_pointer_range():
    x = np.zeros((4, 4), np.float32)
    low, high = memory.as_argument(x).pointer_range
    assert (low, high) == (x.ctypes.data, x.ctypes.data + 64)
    assert memory.as_argument(x[1:3]).pointer_range == (low + 16, low + 48)
    assert memory.as_argument(x[:0]).pointer_range == (0, 0)
    assert memory.as_argument(x[::-1]).pointer_range == (low, high)
    assert memory.as_argument(x[:, 1:2]).pointer_range == (low + 4, low + 56)


def test_version_counter():
    t = torch.zeros(3)
    before = t._version
    memory.bump_version(t)
    assert t._version == before + 1
    memory.bump_version(np.zeros(3))
    # A stale saved tensor is found by autograd, as after any other in-place write.
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    y = (w * x).sum()
    memory.bump_version(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_poison():
    import pypto.ir.dtype as dtype

    for d in dtype.SUPPORTED:
        value = memory.poison_value(d.numpy)
        assert value.dtype == d.numpy
        array = memory.poisoned((2, 3), d.numpy)
        if d.is_float:
            assert np.isnan(array.astype(np.float64)).all()
        elif d.kind == "b":
            assert array.all()
        else:
            assert (array.view(np.uint8) == 0x55).all()


def test_guarded_copy_comes_back():
    x = np.arange(12, dtype=np.int16).reshape(3, 4)
    strided = x[:, ::2]
    inner, check = memory.guarded_copy(strided)
    assert inner.tolist() == [[0, 2], [4, 6], [8, 10]]
    inner += 100
    assert x[0, 0] == 0
    assert check() == ""
    assert x.tolist() == [[100, 1, 102, 3], [104, 5, 106, 7], [108, 9, 110, 11]]


@pytest.mark.parametrize(
    ("offset", "said"), [(-1, "bytes 1..1 before the start"), (12, "bytes 0..0 after the end")]
)
def test_guard_zones_see_stray_writes(offset, said):
    x = np.zeros(12, np.uint8)
    inner, check = memory.guarded_copy(x)
    raw = inner
    while isinstance(raw.base, np.ndarray):
        raw = raw.base
    raw[memory.GUARD_BYTES + offset] = 1
    assert check() == said
