"""The decorator and the call path.

In: a Python function whose annotations say which parameters are tensors.  Out: an object that, when
it is called, checks its arguments, finds or compiles the specialisation that they need, and runs it
on the caller's memory.  It returns None: results are what the kernel writes into its parameters.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto import knobs, memory
from pypto.compile import (
    Compiled,
    Request,
    TensorSpec,
    World,
    compile_kernel,
    freeze,
)
from pypto.errors import FeError, InternalError, PyptoError, PyptoNote, error, warn
from pypto.ir import build, options
from pypto.ir.dtype import DataType
from pypto.ir.graph import Graph
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar
from pypto.ir.types import StatusType, TileOpFormat

# After this many specialisations of one kernel, a note says what keeps changing.
MANY = 8
_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
COMPILED_SECONDS = [0.0]
EXECUTED = [0]


def _ordinal(n: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10 if n % 100 not in (11, 12, 13) else 0, "th")
    return f"{n}{suffix}"


@dataclass(frozen=True, eq=False)
class Signature:
    """The parameters of a kernel: tensors first, then compile-time values."""

    tensors: tuple[tuple[str, Tensor], ...]
    values: tuple[str, ...]
    defaults: dict[str, Any]


def _annotations(function: FunctionType, around: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations as objects; strings are evaluated where the function was written, with the names
    around it at that moment.
    """
    cells: dict[str, Any] = dict(around)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    names = ChainMap(cells, function.__globals__)
    found = {}
    for name, annotation in function.__annotations__.items():
        # Quoted under `from __future__ import annotations`, one is a string in a string.
        while isinstance(annotation, str):
            try:
                annotation = eval(annotation, dict(names))
            except (NameError, AttributeError, SyntaxError, TypeError):
                annotation = None
        found[name] = annotation
    return found


def _signature(function: FunctionType, around: Mapping[str, Any]) -> Signature:
    annotations = _annotations(function, around)
    tensors: list[tuple[str, Tensor]] = []
    values: list[str] = []
    defaults: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise error(
                SyntaxError,
                f"vararg and kwarg not supported: `{name}` of kernel `{function.__name__}`",
                fix="name each parameter; helpers may take *args and **kwargs",
            )
        annotation = annotations.get(name)
        if annotation is Tensor:
            annotation = Tensor()
        if isinstance(annotation, Tensor):
            if values:
                raise error(
                    ValueError,
                    "Non-tensor parameters must come after all tensor parameters. Found tensor "
                    f"parameter '{name}' after non-tensor parameter(s).",
                    fix=f"move `{name}` before `{values[0]}`",
                )
            tensors.append((name, annotation))
            continue
        values.append(name)
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
    return Signature(tuple(tensors), tuple(values), defaults)


class JitKernel:
    """A kernel.  Calling it runs it and returns None; `graph` shows what it was traced to.

    Attributes: ``__name__``, ``__doc__``; ``function`` (the last graph, None before a call).
    """

    def __init__(
        self,
        function: FunctionType,
        groups: Mapping[str, Mapping[str, Any] | None],
        around: Mapping[str, Any],
    ) -> None:
        self._original_func = function
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self._groups = {k: dict(v) for k, v in groups.items() if v is not None}
        if "run_mode" in self._groups.get("runtime", {}):
            options.check_run_mode(self._groups["runtime"]["run_mode"])
        self._signature = _signature(function, around)
        self._cache: dict[Any, list[tuple[World, Compiled]]] = {}
        self._lock = threading.RLock()
        self._noted = False

    @property
    def __pypto_kernel__(self) -> FunctionType:
        return self._original_func

    @property
    def function(self) -> Graph | None:
        """The graph of the latest specialisation, None before the first call."""
        entries = [compiled for found in self._cache.values() for _, compiled in found]
        return entries[-1].graph if entries else None

    handler = function

    @property
    def compile_count(self) -> int:
        """How many specialisations were compiled."""
        return sum(len(found) for found in self._cache.values())

    def __repr__(self) -> str:
        return f"<kernel {self.__name__}>"

    # -- calling ----------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on the memory of its tensor arguments."""
        try:
            self._run(args, kwargs)
        except PyptoError as problem:
            if problem.loc is None:
                problem.loc = build.here()
            if knobs.DEBUG.get():
                raise
            raise problem.with_traceback(None) from None

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if build.active() is not None:
            raise error(
                RuntimeError,
                f"kernel `{self.__name__}` is called while another kernel is traced, in code that "
                "the front end does not see",
                fix="call it from the kernel's own text, or call the plain function",
            )
        tensors, values = self._bind(args, kwargs)
        arguments = [self._argument(i, item) for i, item in enumerate(tensors)]
        specs = self._specs([(a.dtype_name, a.shape) for a in arguments])
        for position, argument in enumerate(arguments):
            self._check_memory(position, argument)
        compiled = self._compiled(specs, values)
        self._check_written(arguments, compiled.written)
        assert compiled.program is not None
        arrays = [a.array for a in arguments if a.array is not None]
        try:
            compiled.program.run(arrays)
        finally:
            for index in compiled.written:
                memory.bump_version(arguments[index].owner)
        EXECUTED[0] += 1

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for example arguments: tensors, or ``pypto.Tensor(shape, dtype)`` for them.

        Nothing runs and no memory of the arguments is read.  ``str(graph)`` is its text form.
        """
        tensors, values = self._bind(args, kwargs)
        kinds = [self._kind(i, item) for i, item in enumerate(tensors)]
        request = Request(self._original_func, self._specs(kinds), values)
        try:
            with options.scope():
                options.use(self._kernel_settings())
                return compile_kernel(request, until="check").text
        except PyptoError as problem:
            if problem.loc is None:
                problem.loc = build.here()
            raise

    def _kind(self, position: int, item: Any) -> tuple[str, tuple[int, ...]]:
        if isinstance(item, Tensor) and item.data is None:
            dims = item.spec or ()
            if not all(isinstance(d, int) for d in dims):
                raise error(ValueError, f"graph() takes concrete shapes, got {list(dims)}")
            return item.dtype.name, tuple(dims)
        argument = self._argument(position, item)
        return argument.dtype_name, argument.shape

    def _bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        names = self._signature.values
        count = len(self._signature.tensors)
        if len(args) < count:
            named = [n for n, _ in self._signature.tensors if n in kwargs]
            raise error(
                RuntimeError,
                f"Expected at least {count} tensor argument(s), got {len(args)}."
                + (f" Tensors are passed by position; {named} came by name." if named else ""),
                fix=f"{self.__name__}({', '.join(n for n, _ in self._signature.tensors)}, …)",
            )
        given = args[count:]
        values: dict[str, Any] = {}
        for position, name in enumerate(names):
            if name in kwargs:
                values[name] = kwargs[name]
            elif position < len(given):
                values[name] = given[position]
            elif name in self._signature.defaults:
                values[name] = self._signature.defaults[name]
            else:
                raise error(RuntimeError, f"Missing required non-tensor argument '{name}'.")
            if hasattr(values[name], "data_ptr"):
                raise error(
                    RuntimeError,
                    f"Non-tensor parameter '{name}' must not be a torch.Tensor. Use positional "
                    "arguments for tensors.",
                    fix=f"annotate it: {name}: pypto.Tensor([], pypto.DT_FP32)",
                )
        if len(given) > len(names):
            raise error(
                RuntimeError,
                f"Too many positional arguments: expected {count} tensor(s) and up to {len(names)} "
                f"non-tensor(s), got {len(args)} total.",
            )
        unknown = sorted(set(kwargs) - set(names))
        if unknown:
            raise error(
                RuntimeError,
                f"Unknown keyword argument(s): {unknown}. Valid non-tensor parameters: "
                f"{list(names)}.",
            )
        if not count:
            raise error(
                RuntimeError,
                f"Empty tensor list: kernel `{self.__name__}` has no tensor parameter",
                fix="annotate tensors: x: pypto.Tensor([], pypto.DT_FP32)",
            )
        return list(args[:count]), values

    def _label(self, position: int) -> str:
        return f"Input {position + 1} (index {position}) `{self._signature.tensors[position][0]}`"

    def _argument(self, position: int, item: Any) -> memory.Argument:
        if isinstance(item, Tensor) and item.data is not None:
            item = item.data
        argument = memory.as_argument(item)
        if argument is None:
            raise error(
                RuntimeError,
                f"Input {position + 1} (index {position}) must be a torch.Tensor or a NumPy array, "
                f"got {type(item)} for `{self._signature.tensors[position][0]}`",
            )
        return argument

    def _check_memory(self, position: int, argument: memory.Argument) -> None:
        if argument.obstacle:
            raise error(
                RuntimeError,
                f"{self._label(position)} {argument.obstacle}; a kernel runs on CPU memory",
                fix="pass x.cpu(), or the local part of a distributed tensor",
            )
        if not argument.contiguous:
            name = self._signature.tensors[position][0]
            raise error(
                RuntimeError,
                f"not all tensors are contiguous: input {position} `{name}` is not contiguous "
                f"(strides {argument.strides}); call .contiguous()",
                fix=f"{name}.contiguous()",
            )

    def _specs(self, kinds: list[tuple[str, tuple[int, ...]]]) -> list[TensorSpec]:
        """Check shapes and element types against the annotations; the kinds to specialise for."""
        specs = []
        symbols: dict[str, tuple[int, str]] = {}
        for position, (dtype_name, shape) in enumerate(kinds):
            name, annotation = self._signature.tensors[position]
            dtype = self._dtype(position, annotation, DataType[dtype_name])
            if annotation.spec_format is not TileOpFormat.TILEOP_ND:
                raise error(
                    ValueError,
                    f"The format of {_ordinal(position + 1)} input tensor ND does not match the "
                    f"input tensor definition: format NZ declared, ND tensor given (`{name}`)",
                    fix="declare the parameter without format",
                )
            dims = self._dims(position, annotation.spec, shape)
            for axis, dim in enumerate(dims):
                if not isinstance(dim, str):
                    continue
                known = symbols.setdefault(dim, (shape[axis], name))
                if known[0] != shape[axis]:
                    raise error(
                        ValueError,
                        f"Symbolic scalar {dim} has multiple concrete values: {known[0]} in "
                        f"`{known[1]}` and {shape[axis]} in `{name}` (axis {axis})",
                    )
            specs.append(TensorSpec(name, dtype, dims))
        return specs

    def _dtype(self, position: int, annotation: Tensor, found: DataType) -> DataType:
        wanted = annotation.spec_dtype
        if not annotation.explicit_dtype or wanted is None or wanted is found:
            return found
        name = self._signature.tensors[position][0]
        raise error(
            ValueError,
            f"The dtype of {_ordinal(position + 1)} input tensor {found.name} does not match the "
            f"dtype of input tensor definition {wanted.name} (`{name}`).",
            fix=f"convert the argument, or declare {name}: pypto.Tensor([], pypto.{found.name})",
        )

    def _dims(
        self, position: int, spec: tuple[Any, ...] | None, shape: tuple[int, ...]
    ) -> tuple[int | str | None, ...]:
        if not spec or (len(spec) == 1 and spec[0] is Ellipsis):
            return shape
        open_ended = any(isinstance(d, StatusType) or d is Ellipsis for d in spec)
        entries = [d for d in spec if d is not Ellipsis]
        name = self._signature.tensors[position][0]
        nth = _ordinal(position + 1)
        shown = "[" + ", ".join(_spec_text(d) for d in spec) + "]"
        if len(shape) < len(entries) or (len(shape) > len(entries) and not open_ended):
            raise error(
                ValueError,
                f"The number of dimensions of {nth} input tensor {list(shape)} does not match the "
                f"number of dimensions of input tensor definition {shown} (`{name}`).",
            )
        dims: list[int | str | None] = list(shape)
        for axis, wanted in enumerate(entries):
            if isinstance(wanted, SymbolicScalar) and not wanted.is_concrete():
                dims[axis] = str(wanted)
            elif wanted is StatusType.DYNAMIC or wanted is StatusType.DYN:
                dims[axis] = None
            elif wanted is not StatusType.STATIC and int(wanted) not in (shape[axis], -1):
                raise error(
                    ValueError,
                    f"The shape of {nth} input tensor {list(shape)} does not match the shape of "
                    f"input tensor definition {shown}: axis {axis} of `{name}` is {shape[axis]}, "
                    f"declared {int(wanted)}.",
                )
            elif not isinstance(wanted, StatusType) and int(wanted) == -1:
                dims[axis] = None
        return tuple(dims)

    def _check_written(self, arguments: list[memory.Argument], written: frozenset[int]) -> None:
        for index in sorted(written):
            argument = arguments[index]
            label = self._label(index)
            if not argument.writable:
                raise error(
                    ValueError,
                    f"{label} is written by the kernel, but its memory is read-only",
                    fix="pass a copy",
                )
            if argument.requires_grad:
                raise error(
                    RuntimeError,
                    f"{label} is written by the kernel, but requires grad: autograd would not see "
                    "the write",
                    fix="pass x.detach(), or wrap the kernel in a torch.autograd.Function",
                )
            for other, second in enumerate(arguments):
                if other != index and memory.overlap(argument, second):
                    raise error(
                        ValueError,
                        f"{label} is written by the kernel and shares memory with "
                        f"{self._label(other)}",
                        fix="pass separate tensors",
                    )

    # -- specialisations --------------------------------------------------------------------------

    def _compiled(self, specs: list[TensorSpec], values: dict[str, Any]) -> Compiled:
        settings = self._kernel_settings()
        key = (
            tuple(specs),
            tuple((name, freeze(item)) for name, item in values.items()),
            (settings.vec, settings.cube, settings.matrix_size, freeze(settings.options)),
            tuple(knob.get() for knob in knobs.KNOBS.values() if knob.in_key),
        )
        with self._lock:
            entries = self._cache.setdefault(key, [])
            for world, compiled in entries:
                if world.changed() is None:
                    return compiled
            request = Request(self._original_func, specs, values)
            with options.scope():
                options.use(settings)
                compiled = self._guarded(request)
            COMPILED_SECONDS[0] += sum(compiled.seconds.values())
            assert compiled.traced is not None
            entries.append((World(compiled.traced.functions), compiled))
            self._note_many(values)
            return compiled

    def _guarded(self, request: Request) -> Compiled:
        try:
            return compile_kernel(request)
        except (PyptoError, KeyboardInterrupt):
            raise
        except Exception as cause:
            if knobs.DEBUG.get():
                raise
            raise InternalError(
                f"internal error while compiling `{self.__name__}`: {type(cause).__name__}: "
                f"{cause}; this is a defect of pypto-anywhere, not of the kernel",
                fix="set PYPTO_DEBUG=1 for the full traceback, PYPTO_DUMP=dir for the graph",
            ) from cause

    def _kernel_settings(self) -> options.Settings:
        """The settings that the kernel starts from: the host's, with its own options on top."""
        if not self._groups:
            return options.settings()
        with options.scope():
            for group, given in self._groups.items():
                options.set_group(group, given)
            return options.settings()

    def _note_many(self, values: dict[str, Any]) -> None:
        keys = [key for key in self._cache if self._cache[key]]
        if self._noted or self.compile_count < MANY or not values:
            return
        latest = dict(keys[-1][1])
        changing = [n for n in values if len({dict(k[1])[n] for k in keys}) >= MANY]
        if changing and latest:
            self._noted = True
            warn(
                PyptoNote,
                f"kernel `{self.__name__}` was compiled {self.compile_count} times because "
                f"`{changing[0]}` changes; each value is a kernel of its own",
                build.here(),
                "declare a DYNAMIC dim and take the number from a shape or an integer tensor",
            )


def _spec_text(d: Any) -> str:
    if isinstance(d, StatusType):
        return d.name
    return "..." if d is Ellipsis else str(d)


def jit(
    func: Callable[..., Any] | None = None,
    *,
    host_options: Mapping[str, Any] | None = None,
    codegen_options: Mapping[str, Any] | None = None,
    pass_options: Mapping[str, Any] | None = None,
    runtime_options: Mapping[str, Any] | None = None,
    verify_options: Mapping[str, Any] | None = None,
    debug_options: Mapping[str, Any] | None = None,
    new_ir: bool = True,
    create_new_logical_tensor: bool = False,
) -> Any:
    """Make a kernel of a function: ``@jit``, ``@jit()`` or ``@jit(runtime_options={...})``.

    Tensor parameters come first and are annotated ``pypto.Tensor(...)``; the others are
    compile-time values.  Options change no value; unknown keys are refused, those of older toolkits
    noted.  Errors: TypeError F00001 on what is no function, ValueError F00002 for the order of
    parameters, RuntimeError F00003 for the run mode.  Source: the jit decorator of the language.
    """
    groups = {
        "host": host_options,
        "codegen": codegen_options,
        "pass": pass_options,
        "runtime": runtime_options,
        "verify": verify_options,
        "debug": debug_options,
    }
    for name, given in groups.items():
        if given is not None and not isinstance(given, Mapping):
            raise error(TypeError, f"{name}_options takes a dict, got {type(given).__name__}")

    def decorate(function: Any) -> JitKernel:
        if not isinstance(function, FunctionType):
            raise error(
                TypeError,
                f"jit decorator can only be used on functions, got {type(function).__name__}",
                kind=FeError,
            )
        if function.__code__.co_flags & _NOT_PLAIN:
            raise error(
                TypeError,
                f"kernel `{function.__name__}` must be a plain function, without async or yield",
            )
        return JitKernel(function, groups, around)

    around = sys._getframe(1).f_locals
    return decorate if func is None else decorate(func)


def from_torch(
    tensor: Any,
    name: str = "",
    *,
    dynamic_axis: list[int] | None = None,
    tensor_format: TileOpFormat | None = None,
    dtype: DataType | None = None,
) -> Tensor:
    """A host tensor as a `pypto.Tensor` over the same memory; kernels take it as an argument.

    Errors: TypeError F00001 for other objects, RuntimeError F00003 if it is not contiguous,
    ValueError F00002 for element types that the language does not have.
    Source: the torch conversion of the language.
    """
    argument = memory.as_argument(tensor)
    if argument is None:
        raise error(TypeError, f"input type is not currently supported. Got {type(tensor)}")
    if argument.obstacle:
        raise error(RuntimeError, f"the tensor {argument.obstacle}; a kernel runs on CPU memory")
    if not argument.contiguous:
        raise error(RuntimeError, "not all tensors are contiguous", fix="call .contiguous()")
    shape: list[Any] = [int(d) for d in argument.shape]
    for axis in dynamic_axis or ():
        shape[axis] = StatusType.DYNAMIC
    described = Tensor(shape, dtype or DataType[argument.dtype_name], name, tensor_format)
    described.data = tensor
    described.data_ptr = argument.pointer_range[0]
    return described


def device_synchronize() -> None:
    """Wait for the device.  A kernel has finished when its call returns: nothing is left to do."""


def executed() -> int:
    """How many kernels have run in this process."""
    return EXECUTED[0]


def compiler_seconds() -> float:
    """Seconds that compiling kernels has taken in this process."""
    return COMPILED_SECONDS[0]
