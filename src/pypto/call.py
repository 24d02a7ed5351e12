"""One call of a kernel, held against what the kernel declares.

In: a signature and the arguments of a call.  Out: the tensors as memory, the kinds to specialise
for, the values of the other parameters.  Everything that is wrong with a call is told together,
each fault at the argument that it is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pypto import memory
from pypto.errors import PyptoError, error, together
from pypto.ir import place
from pypto.ir.dtype import DataType
from pypto.ir.elsewhere import nearest
from pypto.ir.handle import Tensor
from pypto.ir.scalar import SymbolicScalar
from pypto.ir.types import StatusType, TileOpFormat
from pypto.loading import Later
from pypto.signature import Signature

if TYPE_CHECKING:
    from pypto.compile import TensorSpec

road = Later("pypto.compile")


class Kind(NamedTuple):
    """What a specialisation depends on of one tensor."""

    dtype: DataType
    shape: tuple[int, ...]


class Call:
    """One call, and what is wrong with it."""

    def __init__(
        self, signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], method: str = ""
    ) -> None:
        self.signature = signature
        self.args = args
        self.kwargs = kwargs
        self.method = method
        self.count = len(signature.tensors)
        self.faults: list[PyptoError] = []

    # -- faults -----------------------------------------------------------------------------------

    def refuse(
        self,
        builtin: type[BaseException],
        text: str,
        fix: str,
        at: int | str | None = None,
        value: object = None,
        limit: object = None,
    ) -> None:
        """Note a fault of the argument `at`, or of the call as a whole."""
        problem = error(builtin, text, fix=fix, value=value, limit=limit)
        self._note(problem, at)

    def _note(self, problem: PyptoError, at: int | str | None) -> None:
        problem.loc = place.here()
        if at is not None:
            problem.loc = place.argument(problem.loc, at, len(self.args), self.kwargs)
        self.faults.append(problem)

    def tell(self) -> None:
        """Raise what was noted, if anything was."""
        if self.faults:
            raise together(self.faults)

    def _name(self, position: int) -> str:
        return self.signature.tensors[position][0]

    def _label(self, position: int) -> str:
        return f"Input {position + 1} (index {position}) `{self._name(position)}`"

    def _written(self, *values: str) -> str:
        """This call as it should be written."""
        return self.signature.call(*values, method=self.method)

    # -- which argument is which ------------------------------------------------------------------

    def values(self) -> dict[str, Any]:
        """The compile-time values by name; positions, names and counts are checked."""
        names = self.signature.values
        if not self.count:
            self.refuse(
                RuntimeError,
                f"Empty tensor list: kernel `{self.signature.kernel}` has no tensor parameter",
                "annotate tensors: x: pypto.Tensor([], pypto.DT_FP32)",
            )
            self.tell()
        if len(self.args) < self.count:
            self._too_few()
            # What stands where is anybody's guess.
            self.tell()
        given = self.args[self.count :]
        values: dict[str, Any] = {}
        for position, name in enumerate(names):
            at: int | str = name
            if name in self.kwargs:
                values[name] = self.kwargs[name]
            elif position < len(given):
                values[name] = given[position]
                at = self.count + position
            elif name in self.signature.defaults:
                values[name] = self.signature.defaults[name]
            else:
                self.refuse(
                    RuntimeError,
                    f"Missing required non-tensor argument '{name}'.",
                    self._written(f"{name}=…"),
                )
                continue
            if hasattr(values[name], "data_ptr"):
                self.refuse(
                    RuntimeError,
                    f"Non-tensor parameter '{name}' must not be a torch.Tensor. Use positional "
                    "arguments for tensors.",
                    f"annotate it: {name}: pypto.Tensor([], pypto.DT_FP32)",
                    at,
                )
        if len(given) > len(names):
            self.refuse(
                RuntimeError,
                f"Too many positional arguments: expected {self.count} tensor(s) and up to "
                f"{len(names)} non-tensor(s), got {len(self.args)} total.",
                self._written(*names),
                self.count + len(names),
            )
        self._check_keywords(set(self.kwargs).difference(names))
        return values

    def _too_few(self) -> None:
        tensors = [name for name, _ in self.signature.tensors]
        named = [name for name in tensors if name in self.kwargs]
        required = [n for n in self.signature.values if n not in self.signature.defaults]
        self.refuse(
            RuntimeError,
            f"Expected at least {self.count} tensor argument(s), got {len(self.args)}."
            + (f" Tensors are passed by position; {named} came by name." if named else ""),
            self._written(*(f"{name}=…" for name in required)),
        )
        self._check_keywords(set(self.kwargs).difference(self.signature.values, tensors))

    def _check_keywords(self, unknown: set[str]) -> None:
        if not unknown:
            return
        names = self.signature.values
        meant = [close for name in sorted(unknown) if (close := nearest(name, names))]
        shown = [f"'{name}'" for name in meant]
        self.refuse(
            RuntimeError,
            f"Unknown keyword argument(s): {sorted(unknown)}. Valid non-tensor parameters: "
            f"{list(names)}" + (f"; did you mean {', '.join(shown)}?" if meant else "."),
            self._written(*(f"{name}=…" for name in meant or names)),
            min(unknown),
            sorted(unknown),
            list(names),
        )

    # -- tensors as memory ------------------------------------------------------------------------

    def arguments(self) -> list[memory.Argument | None]:
        """The tensors as memory of the caller's, None where an argument has a fault."""
        return [self._argument(i, self.args[i]) for i in range(self.count)]

    def _argument(self, position: int, item: Any) -> memory.Argument | None:
        if isinstance(item, Tensor) and item.data is not None:
            item = item.data
        name = self._name(position)
        try:
            argument = memory.as_argument(item)
        except PyptoError as problem:
            self._note(problem, position)
            return None
        if argument is None:
            self.refuse(
                RuntimeError,
                f"Input {position + 1} (index {position}) must be a torch.Tensor or a NumPy array, "
                f"got {type(item)} for `{name}`",
                _as_tensor(name, item),
                position,
            )
        return argument

    def check_memory(self, arguments: Sequence[memory.Argument | None]) -> None:
        """Whether a kernel can work on the memory of each tensor."""
        for position, argument in enumerate(arguments):
            name = self._name(position)
            if argument is None:
                continue
            if argument.obstacle is not None:
                self.refuse(
                    RuntimeError,
                    f"{self._label(position)} {argument.obstacle.text}; a kernel runs on CPU "
                    "memory",
                    "pass " + argument.obstacle.remedy.format(x=name),
                    position,
                )
            elif not argument.contiguous:
                make = f"{name}.contiguous()"
                if argument.kind == "numpy":
                    make = f"numpy.ascontiguousarray({name})"
                self.refuse(
                    RuntimeError,
                    f"not all tensors are contiguous: input {position} `{name}` is not contiguous "
                    f"(strides {argument.strides})",
                    f"{name} = {make} before the call; what the kernel writes is in that tensor",
                    position,
                )

    def check_written(self, arguments: Sequence[memory.Argument], written: frozenset[int]) -> None:
        """Whether the tensors that a kernel writes may be written."""
        for index in sorted(written):
            argument = arguments[index]
            label, name = self._label(index), self._name(index)
            if not argument.writable:
                self.refuse(
                    ValueError,
                    f"{label} is written by the kernel, but its memory is read-only",
                    f"pass a copy: {name}.copy()",
                    index,
                )
            if argument.requires_grad:
                self.refuse(
                    RuntimeError,
                    f"{label} is written by the kernel, but requires grad: autograd would not see "
                    "the write",
                    f"pass {name}.detach(), or wrap the kernel in a torch.autograd.Function",
                    index,
                )
            for other, second in enumerate(arguments):
                told = other < index and other in written
                if other != index and not told and memory.overlap(argument, second):
                    self.refuse(
                        ValueError,
                        f"{label} is written by the kernel and shares memory with "
                        f"{self._label(other)}",
                        "pass separate tensors",
                        index,
                    )
        self.tell()

    # -- tensors as the kernel declares them ------------------------------------------------------

    def kinds(self) -> list[Kind | None]:
        """The kinds of example arguments: tensors, or descriptions of them without memory."""
        return [self._kind(i, self.args[i]) for i in range(self.count)]

    def _kind(self, position: int, item: Any) -> Kind | None:
        if isinstance(item, Tensor) and item.data is None:
            dims = item.spec or ()
            if all(isinstance(d, int) for d in dims):
                return Kind(item.dtype, tuple(dims))
            shown = ", ".join(str(d) if isinstance(d, int) else "16" for d in dims)
            self.refuse(
                ValueError,
                f"graph() takes concrete shapes, got {_spec_text(dims)}",
                f"pypto.Tensor([{shown}], pypto.{item.dtype.name})",
                position,
            )
            return None
        argument = self._argument(position, item)
        return None if argument is None else kind_of(argument)

    def specs(self, kinds: Sequence[Kind | None]) -> list[TensorSpec]:
        """The kinds to specialise for: shapes and element types held against the annotations."""
        specs = []
        symbols: dict[str, tuple[int, str]] = {}
        for position, kind in enumerate(kinds):
            if kind is None:
                continue
            name, annotation = self.signature.tensors[position]
            self._check_kind(position, annotation, kind)
            dims = self._dims(position, annotation, kind)
            for axis, dim in enumerate(dims):
                if not isinstance(dim, str):
                    continue
                size, first = symbols.setdefault(dim, (kind.shape[axis], name))
                if size != kind.shape[axis]:
                    self.refuse(
                        ValueError,
                        f"Symbolic scalar {dim} has multiple concrete values: {size} in `{first}` "
                        f"and {kind.shape[axis]} in `{name}` (axis {axis})",
                        "pass tensors of one size there, or declare the two dims with two symbols",
                        position,
                        kind.shape[axis],
                        size,
                    )
            specs.append(road.TensorSpec(name, kind.dtype, dims))
        return specs

    def _check_kind(self, position: int, annotation: Tensor, kind: Kind) -> None:
        name = self._name(position)
        wanted = annotation.spec_dtype
        if annotation.explicit_dtype and wanted is not None and wanted is not kind.dtype:
            self.refuse(
                ValueError,
                f"The dtype of {_ordinal(position + 1)} input tensor {kind.dtype.name} does not "
                f"match the dtype of input tensor definition {wanted.name} (`{name}`).",
                "convert the argument, or declare "
                + _declared(name, annotation.spec or (), kind.dtype),
                position,
                kind.dtype.name,
                wanted.name,
            )
        if annotation.spec_format is not TileOpFormat.TILEOP_ND:
            self.refuse(
                ValueError,
                f"The format of {_ordinal(position + 1)} input tensor ND does not match the "
                f"input tensor definition: format NZ declared, ND tensor given (`{name}`)",
                "declare the parameter without format",
                position,
            )

    def _dims(self, position: int, annotation: Tensor, kind: Kind) -> tuple[int | str | None, ...]:
        spec, shape, dtype = annotation.spec, kind.shape, annotation.spec_dtype
        if not spec or (len(spec) == 1 and spec[0] is Ellipsis):
            return shape
        open_ended = any(isinstance(d, StatusType) or d is Ellipsis for d in spec)
        entries = [d for d in spec if d is not Ellipsis]
        name = self._name(position)
        nth = _ordinal(position + 1)
        if len(shape) < len(entries) or (len(shape) > len(entries) and not open_ended):
            least = "at least " if open_ended else ""
            self.refuse(
                ValueError,
                f"The number of dimensions of {nth} input tensor {list(shape)} does not match the "
                f"number of dimensions of input tensor definition {_spec_text(spec)} (`{name}`).",
                f"reshape the argument to {least}{len(entries)} dim(s), or declare "
                f"{_declared(name, (), dtype)}",
                position,
                list(shape),
                _spec_text(spec),
            )
            return shape
        dims: list[int | str | None] = list(shape)
        wrong = []
        for axis, wanted in enumerate(entries):
            if isinstance(wanted, SymbolicScalar) and not wanted.is_concrete():
                dims[axis] = str(wanted)
            elif wanted is StatusType.STATIC:
                continue
            elif isinstance(wanted, StatusType) or int(wanted) == -1:
                dims[axis] = None
            elif int(wanted) != shape[axis]:
                wrong.append(axis)
        if wrong:
            found = "; ".join(
                f"axis {axis} of `{name}` is {shape[axis]}, declared {int(entries[axis])}"
                for axis in wrong
            )
            loose = tuple(StatusType.STATIC if i in wrong else d for i, d in enumerate(spec))
            self.refuse(
                ValueError,
                f"The shape of {nth} input tensor {list(shape)} does not match the shape of input "
                f"tensor definition {_spec_text(spec)}: {found}.",
                f"pass a tensor of that shape, or declare {_declared(name, loose, dtype)}",
                position,
                list(shape),
                _spec_text(spec),
            )
        return tuple(dims)


def kind_of(argument: memory.Argument) -> Kind:
    """The kind of a tensor of the caller's."""
    return Kind(DataType[argument.dtype_name], argument.shape)


def _as_tensor(name: str, item: Any) -> str:
    """How an object that is no tensor becomes one."""
    if item is None:
        return f"make the tensor first: {name} = torch.empty(shape)"
    if isinstance(item, (bool, int, float, list, tuple)):
        return f"{name} = torch.tensor({name})"
    return f"pass a torch.Tensor or a NumPy array, such as numpy.asarray({name})"


def _declared(name: str, dims: tuple[Any, ...], dtype: DataType | None) -> str:
    """The declaration of a parameter, as one writes it."""
    written = ", ".join(
        f"pypto.{d.name}" if isinstance(d, StatusType) else "..." if d is Ellipsis else str(d)
        for d in dims
    )
    end = "" if dtype is None else f", pypto.{dtype.name}"
    return f"{name}: pypto.Tensor([{written}]{end})"


def _spec_text(spec: Sequence[Any]) -> str:
    shown = (
        d.name if isinstance(d, StatusType) else "..." if d is Ellipsis else str(d) for d in spec
    )
    return f"[{', '.join(shown)}]"


def _ordinal(n: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10 if n % 100 not in (11, 12, 13) else 0, "th")
    return f"{n}{suffix}"
