"""How a kernel of the gym is declared, and how it is judged.

In: one `Kernel` record a kernel, with its cases (inputs from a seed, how to run, the golden, a
tolerance for each output).  Out of it: the listing, `pypto gym run` and the tests.  `check` runs
one case and compares each output with the golden; nothing else decides what agrees.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

# The tensors of others are measured by their methods, so that the records can be spoken of, and
# the lack of torch reported, where torch is not installed.
if TYPE_CHECKING:
    from torch import Tensor

Arguments: TypeAlias = Mapping[str, Any]
Outputs: TypeAlias = "Mapping[str, Tensor]"


@dataclass(frozen=True)
class Case:
    """One set of inputs; `run` and `golden` get the same arguments by name and name their outputs.

    `quick` cases belong to every test run; `real` ones have the sizes of a model.  `peer` is the
    same algorithm in torch, to measure the speed against.
    """

    name: str
    sentence: str
    sizes: Mapping[str, int]
    inputs: Callable[[int], Arguments]
    run: Callable[..., Outputs]
    golden: Callable[..., Outputs]
    tolerances: Mapping[str, float]
    size: Literal["quick", "real"] = "quick"
    peer: Callable[..., Outputs] | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel of the gym with the cases that it is judged by."""

    name: str
    sentence: str
    family: str
    cases: tuple[Case, ...]


_ROUNDS = 5
_LEAST = 2.0**-126  # the least normal number of FP32


@dataclass(frozen=True)
class Comparison:
    """One output beside its golden.

    `max_abs` is max |output - golden|; `max_rel` divides it by max |golden|, or by 1 where the
    golden is zero to FP32, everywhere less than its least normal number.  A NaN in either makes
    both NaN, and NaN never passes.
    """

    output: str
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    max_rel: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the relative error is within the tolerance."""
        return self.max_rel <= self.tolerance


@dataclass(frozen=True)
class Verdict:
    """What one case gave: its comparisons, and seconds for the first call and for the golden.

    The first call traces and compiles; `again` is the time of a later one, if it was asked for, and
    `peer` that of the same algorithm in torch, if the case has it.
    """

    kernel: str
    case: str
    seed: int
    comparisons: tuple[Comparison, ...]
    first: float
    again: float | None
    golden: float
    peer: float | None = None

    @property
    def passed(self) -> bool:
        """Whether every output agrees with its golden."""
        return all(one.passed for one in self.comparisons)


def compare(output: str, found: "Tensor", golden: "Tensor", tolerance: float) -> Comparison:
    """Measure one output against its golden, in float64."""
    if found.shape != golden.shape:
        raise ValueError(
            f"output {output} has shape {list(found.shape)}, its golden {list(golden.shape)}"
        )
    off, size = (found.double() - golden.double()).abs(), golden.double().abs()
    max_abs, largest = (float(one.max()) if one.numel() else 0.0 for one in (off, size))
    return Comparison(
        output=output,
        shape=tuple(found.shape),
        dtype=str(found.dtype).removeprefix("torch."),
        max_abs=max_abs,
        max_rel=max_abs / (largest if largest >= _LEAST else 1.0),
        tolerance=tolerance,
    )


def check(kernel: Kernel, case: Case, seed: int = 0, twice: bool = False) -> Verdict:
    """Run one case on the inputs of `seed` and compare it with its golden.

    With `twice` the kernel is called once more, for the time of a call that only runs; the outputs
    judged are then those of the last call.  Where there is a peer, both are called several times
    in turn, so that drift of the machine meets both, and the times are medians.
    """
    arguments = case.inputs(seed)
    start = perf_counter()
    found = case.run(**arguments)
    first, again, peer = perf_counter() - start, None, None
    if twice:
        if case.peer is not None:
            case.peer(**arguments)
        own, others = [], []
        for _ in range(_ROUNDS if case.peer is not None else 1):
            start = perf_counter()
            found = case.run(**arguments)
            own.append(perf_counter() - start)
            if case.peer is not None:
                start = perf_counter()
                case.peer(**arguments)
                others.append(perf_counter() - start)
        again, peer = median(own), median(others) if others else None
    start = perf_counter()
    golden = case.golden(**arguments)
    golden_seconds = perf_counter() - start
    if not set(found) == set(golden) == set(case.tolerances):
        raise ValueError(
            f"{kernel.name} {case.name}: the kernel gives {sorted(found)}, the golden "
            f"{sorted(golden)}, tolerances are stated for {sorted(case.tolerances)}"
        )
    comparisons = tuple(
        compare(output, found[output], golden[output], tolerance)
        for output, tolerance in case.tolerances.items()
    )
    return Verdict(kernel.name, case.name, seed, comparisons, first, again, golden_seconds, peer)
