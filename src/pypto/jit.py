"""The decorator and the call path.

In: a Python function whose annotations say which parameters are tensors.  Out: an object that, when
it is called, has its arguments checked, finds or compiles the specialisation that they need, and
runs it on the caller's memory.  It returns None: results are what the kernel writes into its
parameters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pypto import knobs, memory
from pypto.call import Call, kind_of
from pypto.errors import InternalError, Loc, PyptoError, PyptoNote, error, warn
from pypto.ir import build, options, place
from pypto.ir.dtype import DataType
from pypto.ir.graph import Graph
from pypto.ir.handle import Tensor
from pypto.ir.keywords import known_keywords
from pypto.ir.types import StatusType, TileOpFormat
from pypto.loading import Later
from pypto.signature import check_function, read_signature

if TYPE_CHECKING:
    from pypto.compile import Compiled, Request, TensorSpec, World

# The road loads when the first kernel is called.
road = Later("pypto.compile")

# After this many specialisations of one kernel, a note says what keeps changing.
MANY = 8
COMPILED_SECONDS = [0.0]
EXECUTED = [0]


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
        # The options are read at the first call; what is wrong with them is wrong here.
        self._decorated = place.here() if self._groups else None
        self._signature = read_signature(function, around)
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

    @place.boundary
    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the kernel on the memory of its tensor arguments."""
        if build.active() is not None:
            raise error(
                RuntimeError,
                f"kernel `{self.__name__}` is called while another kernel is traced, in code that "
                "the front end does not see",
                fix="call it from the kernel's own text, or call the plain function",
                loc=build.here(),
            )
        call = Call(self._signature, args, kwargs)
        values = call.values()
        found = call.arguments()
        specs = call.specs([None if a is None else kind_of(a) for a in found])
        call.check_memory(found)
        call.tell()
        arguments = [a for a in found if a is not None]
        compiled = self._compiled(specs, values)
        call.check_written(arguments, compiled.written)
        assert compiled.program is not None
        arrays = [a.array for a in arguments if a.array is not None]
        try:
            compiled.program.run(arrays)
        finally:
            for index in compiled.written:
                memory.bump_version(arguments[index].owner)
        EXECUTED[0] += 1

    @place.boundary
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph for example arguments: tensors, or ``pypto.Tensor(shape, dtype)`` for them.

        Nothing runs and no memory of the arguments is read.  ``str(graph)`` is its text form.
        """
        call = Call(self._signature, args, kwargs, method="graph")
        values = call.values()
        specs = call.specs(call.kinds())
        call.tell()
        request = road.Request(self._original_func, specs, values)
        with options.scope():
            options.use(self._kernel_settings())
            return road.compile_kernel(request, until="check").text

    # -- specialisations --------------------------------------------------------------------------

    def _compiled(self, specs: list[TensorSpec], values: dict[str, Any]) -> Compiled:
        settings = self._kernel_settings()
        key = (
            tuple(specs),
            tuple((name, road.freeze(item)) for name, item in values.items()),
            (settings.vec, settings.cube, settings.matrix_size, road.freeze(settings.options)),
            tuple(_switch(knob) for knob in knobs.KNOBS.values() if knob.in_key),
            knobs.sanitizers(),
        )
        with self._lock:
            entries = self._cache.setdefault(key, [])
            for world, compiled in entries:
                if world.changed() is None:
                    return compiled
            for knob in knobs.KNOBS.values():
                _switch(knob)
            request = road.Request(self._original_func, specs, values)
            with options.scope():
                options.use(settings)
                compiled = self._guarded(request)
            COMPILED_SECONDS[0] += sum(compiled.seconds.values())
            assert compiled.traced is not None
            entries.append((road.World(compiled.traced.functions), compiled))
            self._note_many(values)
            return compiled

    def _guarded(self, request: Request) -> Compiled:
        try:
            return road.compile_kernel(request)
        except (PyptoError, KeyboardInterrupt):
            raise
        except Exception as cause:
            if knobs.DEBUG.get():
                raise
            raise InternalError(
                f"internal error while compiling `{self.__name__}`: {type(cause).__name__}: "
                f"{cause}; this is a defect of pypto-anywhere, not of the kernel",
            ) from cause

    def _kernel_settings(self) -> options.Settings:
        """The settings that the kernel starts from: the host's, with its own options on top."""
        if not self._groups:
            return options.settings()
        with options.scope(), _placed(self._decorated):
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


def _switch(knob: knobs.Knob[Any]) -> Any:
    try:
        return knob.get()
    except ValueError as cause:
        raise error(ValueError, str(cause), fix=f"unset {knob.name}") from None


@contextmanager
def _placed(loc: Loc | None) -> Iterator[None]:
    """Errors inside stand at `loc`."""
    try:
        yield
    except PyptoError as problem:
        problem.loc = loc
        raise


@place.boundary
@known_keywords
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
    noted.  Errors: TypeError F00001 on what is no function and for unknown keywords, ValueError
    F00002 for the order of parameters, RuntimeError F00003 for the run mode.  Source: the jit
    decorator of the language.
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
            raise error(
                TypeError,
                f"{name}_options takes a dict, got {type(given).__name__}",
                fix=f'{name}_options={{"{next(iter(options.OPTIONS[name]))}": …}}',
            )
    if runtime_options and "run_mode" in runtime_options:
        options.check_run_mode(runtime_options["run_mode"])

    @place.boundary
    def decorate(function: Any) -> JitKernel:
        check_function(function)
        return JitKernel(function, groups, around)

    definer = place.caller()
    around = {} if definer is None else definer.f_locals
    return decorate if func is None else decorate(func)


@place.boundary
@known_keywords
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
    ValueError F00002 for element types that the language does not have, IndexError F00008 for an
    axis that it does not have.  Source: the torch conversion of the language.
    """
    argument = memory.as_argument(tensor)
    if argument is None:
        raise error(
            TypeError,
            f"input type is not currently supported. Got {type(tensor)}",
            fix="pypto.from_torch(torch.tensor(x))",
        )
    if argument.obstacle is not None:
        raise error(
            RuntimeError,
            f"the tensor {argument.obstacle.text}; a kernel runs on CPU memory",
            fix="pass " + argument.obstacle.remedy.format(x="x"),
        )
    if not argument.contiguous:
        raise error(
            RuntimeError,
            f"not all tensors are contiguous: the strides are {argument.strides}",
            fix="pypto.from_torch(x.contiguous())",
        )
    shape: list[Any] = [int(d) for d in argument.shape]
    for axis in dynamic_axis or ():
        if not -len(shape) <= axis < len(shape):
            raise error(
                IndexError,
                f"dynamic_axis {axis} is no axis of a tensor of rank {len(shape)}",
                fix=f"axes count from 0 to {len(shape) - 1}",
            )
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
