"""The tensor handle that users hold.

Outside of a kernel a `Tensor` describes one: the annotation of a parameter, or data of the host.
Inside, it names a storage of the current trace; its value is whatever version of that storage the
program has reached.  Methods and operators are those of the op records; nothing is listed twice.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from pypto.errors import PyptoError, error
from pypto.ir import build, place, written
from pypto.ir.dtype import DataType
from pypto.ir.elsewhere import nearest, way
from pypto.ir.findings import Failed, any_failed, keep, quietly, reads_attribute
from pypto.ir.graph import Storage, Value
from pypto.ir.keywords import unexpected
from pypto.ir.op import FUNCTIONS, METHODS, OPERATORS, REGISTRY, Slot
from pypto.ir.scalar import SymbolicScalar, as_sym_int
from pypto.ir.sym import SymInt
from pypto.ir.types import Shape, StatusType, TensorType, TileOpFormat, full


class Tensor:
    """A tensor of a kernel, or the description of one.

    As an annotation: ``Tensor([], dt)`` any shape; ``Tensor([4, 8], dt)`` exactly that;
    ``Tensor([DYNAMIC, STATIC], dt)`` run-time and compile-time dims; a trailing ``...`` leaves the
    rest open; dtype may be left out.  Inside a kernel ``Tensor([16, 16], dt)`` (or
    ``pypto.tensor``) is memory of the kernel's own that nothing has written yet.  Errors:
    ValueError F00002 for entries that are no dims.  Source: the tensor class of the language.
    """

    __pypto_tensor__ = True
    __slots__ = (
        "_name",
        "_shape",
        "_storage",
        "_trace",
        "data",
        "data_ptr",
        "device",
        "explicit_dtype",
        "explicit_format",
        "guard",
        "ori_shape",
        "spec",
        "spec_dtype",
        "spec_format",
    )

    @place.boundary
    def __new__(cls, shape: Any = None, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if any_failed(shape):
            return Failed()
        try:
            for keyword in kwargs:
                if keyword not in _KEYWORDS:
                    raise unexpected("Tensor", keyword, _KEYWORDS)
            _check_spec(shape)
            _check_dtype(dtype)
        except PyptoError as problem:
            if isinstance(shape, DataType) and isinstance(dtype, (list, tuple)):
                problem.fix = written.rearranged([1, 0]) or problem.fix
            keep(problem)
            return Failed()
        return super().__new__(cls)

    def __init__(
        self,
        shape: Any = None,
        dtype: DataType | None = None,
        name: str = "",
        format: TileOpFormat | None = None,
        data_ptr: int | None = None,
        device: Any = None,
        ori_shape: Any = None,
    ) -> None:
        self._name = name
        self.explicit_dtype = dtype is not None
        self.explicit_format = format is not None
        self.data = None
        self.data_ptr = data_ptr
        self.device = device
        self.ori_shape = ori_shape
        self.guard: Callable[[], None] | None = None
        self.spec = _check_spec(shape)
        self.spec_dtype = dtype
        self.spec_format = format or TileOpFormat.TILEOP_ND
        self._trace: build.Trace | None = None
        self._storage: Storage | None = None
        self._shape: Shape | None = None
        trace = build.active()
        if trace is not None and self.spec and not _has_marker(self.spec):
            dims = tuple(as_sym_int(d) for d in self.spec)
            type = full(dtype or DataType.DT_FP32, dims, self.spec_format)
            node = trace.emit(REGISTRY["empty"], (), {"name": name}, (type,))
            assert node.result.storage is not None
            node.result.storage.name = name or place.assigned_name()
            self._trace, self._storage = trace, node.result.storage

    @place.boundary
    def __class_getitem__(cls, items: Any) -> Tensor:
        """``Tensor[[4, 8], dtype, format, "name", {...}]`` in any order; dtype defaults to FP32."""
        given: dict[str, Any] = {"dtype": DataType.DT_FP32}
        for item in items if isinstance(items, tuple) else (items,):
            if isinstance(item, (list, tuple)):
                given["shape"] = item
            elif isinstance(item, DataType):
                given["dtype"] = item
            elif isinstance(item, TileOpFormat):
                given["format"] = item
            elif isinstance(item, str):
                given["name"] = item
            elif isinstance(item, dict):
                given.update(item)
            else:
                raise error(
                    TypeError,
                    f"Tensor[...] takes shape, dtype, format, name, got {item!r}",
                    fix="pypto.Tensor[[16, 16], pypto.DT_FP32]",
                )
        made: Tensor = cls(**given)
        return made

    @classmethod
    def of(cls, trace: build.Trace, storage: Storage, shape: Shape | None = None) -> Tensor:
        """The handle of a storage of a trace; with `shape`, an in-place reshape of it."""
        tensor: Tensor = cls.__new__(cls)
        tensor._name = ""
        tensor.explicit_dtype = tensor.explicit_format = True
        tensor.data = tensor.data_ptr = tensor.device = tensor.ori_shape = None
        tensor.guard = None
        tensor.spec = tensor.spec_dtype = None
        tensor.spec_format = storage.type.format
        tensor._trace, tensor._storage, tensor._shape = trace, storage, shape
        return tensor

    # -- inside a trace -------------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """The memory that this handle names in the current trace."""
        if self._storage is None:
            raise error(
                TypeError,
                "this Tensor is an annotation, not a tensor of a kernel",
                fix="`t = pypto.tensor([16, 16], pypto.DT_FP32)` with int extents, inside the "
                "kernel",
            )
        if self._trace is not build.active():
            raise error(
                RuntimeError,
                "a tensor of a kernel is used outside of it: it is not inside a "
                "@pypto.frontend.jit kernel any more",
                fix="write results into a parameter: `out[:] = t`",
            )
        return self._storage

    def value(self) -> Value:
        """Its version at this point of the program."""
        storage = self.storage
        trace = build.current()
        if self.guard is not None:
            self.guard()
        if storage in trace.moved:
            trace.moved.discard(storage)
            build.note(
                "a tensor is used after `[:] =` gave its value to another; older front ends leave "
                "it empty",
                "write `t.clone()` there",
            )
        value = trace.read(storage)
        if self._shape is None or value.tensor.shape == self._shape:
            return value
        return self._as_alias(trace, value, self._shape)

    def _as_alias(self, trace: build.Trace, value: Value, shape: Shape) -> Value:
        type = full(value.tensor.dtype, shape, value.tensor.format)
        node = trace.emit(
            REGISTRY["alias"],
            (value,),
            {"input": Slot(0), "shape": shape},
            (type,),
            (value.storage,),
        )
        return node.result

    def redirect(self, storage: Storage) -> None:
        """Name another storage from now on."""
        self._storage = storage

    def destination(self) -> Value:
        """Its version as the destination of a write in place."""
        trace = build.current()
        storage = trace.settle_write(self.storage)
        self._storage = storage
        return self.value()

    def replace(self, value: Value) -> None:
        """Make a value, which lives in this handle's storage, its version."""
        trace = build.current()
        storage = self.storage
        if self._shape is not None and self._shape != storage.type.shape:
            value = self._as_alias(trace, value, storage.type.shape)
        trace.write(storage, value)

    # -- attributes -----------------------------------------------------------------------------

    @property
    def shape(self) -> list[Any]:
        """Extents: ints, and symbolic scalars where they are known at run time.  A fresh list."""
        if self._storage is None:
            return list(self.spec) if self.spec is not None else []
        return [_user_int(d) for d in self._extents()]

    def _extents(self) -> Shape:
        return self._shape if self._shape is not None else self.storage.type.shape

    @property
    def valid_shape(self) -> list[Any]:
        """How many leading elements of each axis are valid: ints and symbolic scalars."""
        if self._storage is None:
            return self.shape
        return [_user_int(d) for d in self.value().tensor.valid]

    @property
    def dtype(self) -> DataType:
        """The element type."""
        if self._storage is None:
            return self.spec_dtype or DataType.DT_FP32
        return self._storage.type.dtype

    @property
    def dim(self) -> int:
        """The rank.  A property: ``t.dim``, not ``t.dim()``."""
        return len(self.shape)

    @property
    def format(self) -> TileOpFormat:
        """The memory layout."""
        return self.spec_format if self._storage is None else self._storage.type.format

    @property
    def id(self) -> int:
        """A number that tells this handle from others."""
        return id(self)

    @property
    def name(self) -> str:
        """A name for messages and dumps; may be set."""
        return self._name or (self._storage.name if self._storage is not None else "")

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property
    def status_shape(self) -> list[Any]:
        """The dims as the annotation gave them."""
        return list(self.spec) if self.spec is not None else self.shape

    def is_empty(self) -> bool:
        """Whether its value was moved away; that never happens here."""
        return False

    def set_cache_policy(self, policy: Any, value: bool) -> None:
        """Says how global memory is cached; no value changes."""

    def get_cache_policy(self, policy: Any) -> bool:
        """Whether a cache policy is on; none is here."""
        return False

    def base(self) -> Tensor:
        """The tensor itself; the language has a native twin here."""
        return self

    logical_tensor = base

    def to_tensor(self, name: str = "") -> Tensor:
        """The tensor itself, as the language converts annotations."""
        return self

    # -- what Python does with objects ----------------------------------------------------------

    def __getattr__(self, attribute: str) -> Any:
        method = METHODS.get(attribute)
        if method is not None:
            return functools.partial(method, self)
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        problem = error(
            AttributeError,
            f"Tensor object has no attribute {attribute}" + _meant(attribute),
            fix=_attribute_fix(attribute),
        )
        if self._storage is None or not reads_attribute():
            with place.boundary:
                raise problem
        keep(problem)
        # It may have been meant to write.
        build.current().doubt([self])
        return self._instead(attribute)

    def _instead(self, attribute: str) -> Failed:
        """What the user most likely meant by an attribute that does not exist."""
        if attribute == "T" and self.dim == 2:
            type = self.value().tensor
            return Failed(full(type.dtype, type.shape[::-1]))
        known = FUNCTIONS.get(attribute)
        close = _nearest_attribute(attribute)
        if known is None and close is not None:
            known = METHODS.get(close)
        return Failed(stands_for=None if known is None else functools.partial(known, self))

    @place.boundary
    def __bool__(self) -> bool:
        raise error(
            TypeError,
            "a Tensor cannot be a condition: it has no truth value, its elements are known only "
            "when the kernel runs",
            fix="read one integer element, `if t[0] > 0:`, or choose per element with "
            "`pypto.where`",
        )

    @place.boundary
    def __iter__(self) -> Iterator[Any]:
        problem = error(
            TypeError,
            "Tensor is not iterable.",
            loc=place.iterated(),
            fix="loop over an axis: `for i in pypto.loop(t.shape[0]): row = t[i:i + 1, :]`",
        )
        count = self._asked_for()
        if self._storage is None or count == 0:
            raise problem
        keep(problem)
        return iter([Failed() for _ in range(count)])

    def _asked_for(self) -> int:
        """How many parts the user's statement goes on with: those that it unpacks, one to loop."""
        frame = place.caller()
        step, count = ("", 0) if frame is None else place.instruction(frame)
        return count if step == "UNPACK_SEQUENCE" else int(step in ("GET_ITER", "FOR_ITER"))

    @place.boundary
    def __contains__(self, item: object) -> NoReturn:
        raise error(
            TypeError,
            "Tensor is not iterable.",
            fix="compare per element: `pypto.eq(t, value)`",
        )

    @place.boundary
    def __getitem__(self, key: Any) -> Any:
        return OPERATORS["__getitem__"](self, key)

    @place.boundary
    def __setitem__(self, key: Any, value: Any) -> None:
        OPERATORS["__setitem__"](self, key, value)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Torch asks here what a function of its own means for tensors of a kernel."""
        return _foreign("torch", function.__name__, args, kwargs or {})

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """NumPy asks here: its scalars are operands, its functions have names here."""
        symbol = _NUMPY_OPERATORS.get(ufunc.__name__)
        numbers = [isinstance(x, np.generic | np.ndarray) and x.ndim == 0 for x in inputs]
        if symbol is not None and any(numbers) and method == "__call__" and not kwargs:
            return symbol(*(x.item() if n else x for x, n in zip(inputs, numbers, strict=True)))
        return _foreign("numpy", ufunc.__name__, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The same for the functions of NumPy that no scalar has a part in."""
        return _foreign("numpy", function.__name__, args, kwargs)

    __hash__ = None  # type: ignore[assignment]

    def __pos__(self) -> Tensor:
        return self

    def __repr__(self) -> str:
        dims = ", ".join(str(d) for d in self.shape)
        label = f", name={self.name!r}" if self.name else ""
        return f"Tensor([{dims}], {self.dtype.name}{label})"


def _operator(name: str) -> Callable[..., Any]:
    @place.boundary
    def method(self: Tensor, *others: Any) -> Any:
        function = OPERATORS.get(name)
        if function is None:
            return NotImplemented
        return function(self, *others)

    method.__name__ = name
    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv mod pow matmul neg lt le gt ge eq ne"
).split():
    setattr(Tensor, f"__{_name}__", _operator(f"__{_name}__"))


# What a tensor can be made with.
_KEYWORDS = ("shape", "dtype", "name", "format", "data_ptr", "device", "ori_shape")

# How NumPy calls the operators, where one of its scalars stands in front.
_NUMPY_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "power": operator.pow,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


# What to do with tensors and arrays of the host.
HOST_FIX = "pass it to the kernel as a parameter; a single number is written as an int or a float"


def is_of_host(item: Any) -> bool:
    """Whether an object is a tensor or an array of another library."""
    return hasattr(item, "__array__") and not isinstance(item, np.generic)


def _foreign(library: str, name: str, args: Any, kwargs: Any) -> Any:
    """A function of another library was given a tensor of a kernel: told as the one of this."""
    known = name if name in FUNCTIONS else nearest(name, list(FUNCTIONS))
    fix = way(name)
    if fix is None and known is not None:
        fix = f"pypto.{known}({written.arguments_text()})"
    if written.call() is None:
        # It is an operator, and what stands beside the tensor is of the other library.
        fix = HOST_FIX
    problem = error(
        TypeError,
        f"{library}.{name}() takes no tensor of a kernel",
        fix=fix or "compute it with the ops of pypto, or before the kernel and pass it in",
    )
    keep(problem)
    return Failed() if known is None else quietly(FUNCTIONS[known], *args, **kwargs)


def _attribute_fix(attribute: str) -> str:
    """How to write what the user most likely meant by an attribute that does not exist."""
    if (foreign := way(attribute)) is not None:
        return foreign
    if (close := _nearest_attribute(attribute)) is not None:
        return f"{written.owner()}.{close}"
    in_place = attribute.endswith("_") and attribute[:-1] in FUNCTIONS
    name = attribute[:-1] if in_place else attribute
    if name not in FUNCTIONS:
        return "`dir(pypto)` lists the ops, which take tensors: `pypto.exp(t)`"
    call = f"pypto.{name}({written.call_as_function()})"
    return f"{written.owner()}[:] = {call}" if in_place else call


def _meant(attribute: str) -> str:
    close = _nearest_attribute(attribute)
    return f"; did you mean `{close}`?" if close else ""


def _nearest_attribute(attribute: str) -> str | None:
    if attribute in FUNCTIONS or attribute.removesuffix("_") in FUNCTIONS:
        return None
    return nearest(attribute, [*METHODS, "shape", "dtype", "valid_shape", "dim", "format", "name"])


def _user_int(d: SymInt) -> Any:
    return d if isinstance(d, int) else SymbolicScalar(d)


def _has_marker(spec: tuple[Any, ...]) -> bool:
    return any(isinstance(d, StatusType) or d is Ellipsis for d in spec)


def _check_dtype(dtype: Any) -> None:
    if dtype is not None and not isinstance(dtype, DataType):
        raise error(
            TypeError,
            f"Tensor(shape, dtype): dtype must be a DataType, got {dtype!r}",
            fix="pypto.Tensor([16, 16], pypto.DT_FP32)",
        )


def _check_spec(shape: Any) -> tuple[Any, ...] | None:
    """The dims of an annotation or of a new tensor, each one legal."""
    if shape is None:
        return None
    if isinstance(shape, DataType):
        raise error(
            TypeError,
            f"Tensor(shape, dtype): shape is a list, got {shape.name}",
            fix=f"pypto.Tensor([], pypto.{shape.name})",
        )
    if not isinstance(shape, (list, tuple)):
        raise error(
            TypeError,
            f"Tensor(shape, dtype): shape must be a list of dims, got {type(shape).__name__}",
            fix="`pypto.Tensor([16, 16], pypto.DT_FP32)`; a tuple of one dim is (16,)",
        )
    dims: list[Any] = []
    for index, d in enumerate(shape):
        if isinstance(d, np.integer):
            d = int(d)
        marker = isinstance(d, StatusType) and isinstance(shape, list)
        rest = d is Ellipsis and index == len(shape) - 1 and isinstance(shape, list)
        number = isinstance(d, (int, SymbolicScalar)) and not isinstance(d, bool)
        if not (marker or rest or number):
            raise error(
                ValueError,
                f"Invalid value type: {d!r} is no dim of a shape",
                fix="dims are ints, `pypto.DYNAMIC`, `pypto.STATIC`, a `pypto.SymbolicScalar` or, "
                "last, `...`, in a list",
            )
        if isinstance(d, int) and d < -1:
            raise error(
                ValueError,
                f"Invalid shape {d}: a dim is at least 0",
                code="F0000B",
                fix="`pypto.DYNAMIC` stands for a dim that calls choose",
            )
        dims.append(d)
    return tuple(dims)


Failed.poses_as = Tensor


def handle(value: Value) -> Tensor:
    """A new handle for a value that lives in a storage of its own."""
    assert value.storage is not None
    return Tensor.of(build.current(), value.storage)


def tensor_type(t: Tensor) -> TensorType:
    """The type of a tensor at this point of the program."""
    return t.value().tensor
