"""`pypto gym`: list the kernels of the library, run them, compare them with their goldens.

In: the name of a kernel and perhaps of a case.  Out: a table of errors a case, or the same as JSON
with stable keys, and exit status 1 if any output is off by more than its tolerance.
"""

import json
import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

import pypto.error
from pypto.gym import kernels
from pypto.gym.record import Case, Kernel, Verdict, check

app = typer.Typer(
    help="The library of kernels, each with its golden.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys instead.")]


@app.command("list")
def list_kernels(as_json: AsJson = False) -> None:
    """List the kernels of the gym and their cases."""
    library = load().values()
    if as_json:
        typer.echo(json.dumps([kernel_as_json(kernel) for kernel in library], indent=2))
        return
    console = Console(highlight=False)
    for kernel in library:
        console.print(f"[bold cyan]{kernel.name}[/]  [dim]{kernel.family}[/]")
        console.print(f"{kernel.sentence}.", soft_wrap=True)
        table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
        for heading in ("case", "size", "what it shows"):
            table.add_column(heading)
        for case in kernel.cases:
            shows = f"{case.sentence}\n[dim]{extents(case.sizes)}[/]"
            table.add_row(case.name, case.size, shows)
        console.print(table)
        console.print(f"[dim]run it:[/] pypto gym run {kernel.name}\n")


@app.command("run")
def run_kernels(
    name: Annotated[
        str | None, typer.Argument(help="The kernel, as `pypto gym list` names it.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Run this case only.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Run every kernel of the gym.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the real-sized cases.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of the random inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run the cases of a kernel and compare every output with its golden."""
    chosen = choose(load(), name, case, every, quick)
    console, words = Console(highlight=False), Console(stderr=True, highlight=False)
    results: list[dict[str, Any]] = []
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=words if as_json else console,
        transient=True,
        disable=not (words if as_json else console).is_terminal,
    ) as progress:
        task = progress.add_task("", total=len(chosen))
        heading = None
        for kernel, one in chosen:
            progress.update(task, description=f"{kernel.name} {one.name}")
            if not as_json and heading != kernel.name:
                heading = kernel.name
                console.print(f"[bold cyan]{kernel.name}[/]  {kernel.sentence}.", soft_wrap=True)
                console.print(f"[dim]inputs from seed {seed}[/]\n")
            results.append(run_case(kernel, one, seed, None if as_json else console))
            progress.advance(task)
    passed = sum(result["passed"] for result in results)
    if as_json:
        report = {"passed": passed == len(results), "seed": seed, "runs": results}
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        conclude(console, passed, len(results))
    raise typer.Exit(0 if passed == len(results) else 1)


def load() -> dict[str, Kernel]:
    """The kernels of the gym, or a word on what is missing."""
    try:
        return kernels()
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        refuse("The gym compares with goldens in torch: pip install 'pypto-anywhere[torch]'.")


def refuse(sentence: str) -> NoReturn:
    """Say what is wrong with the command, and stop."""
    words = Console(stderr=True, highlight=False)
    words.print(f"[bold red]error:[/] {escape(sentence)}", soft_wrap=True)
    raise typer.Exit(2)


def named(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """The entry of that name; for an unknown one the nearest is suggested."""
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}."
    return refuse(f"No {what} is named '{name}'; {hint} (pypto gym list shows all.)")


def choose(
    library: Mapping[str, Kernel], name: str | None, case: str | None, every: bool, quick: bool
) -> list[tuple[Kernel, Case]]:
    """The cases that the arguments ask for, in the order of their records."""
    if (name is None) != every:
        refuse("Name one kernel (pypto gym list shows them), or say --all.")
    if name is None:
        if case is not None:
            refuse("--case needs the name of its kernel.")
        picked = list(library.values())
    else:
        picked = [named("kernel", name, library)]
    if case is not None:
        cases = {one.name: one for one in picked[0].cases}
        return [(picked[0], named(f"case of {picked[0].name}", case, cases))]
    return [
        (kernel, one)
        for kernel in picked
        for one in kernel.cases
        if not quick or one.size == "quick"
    ]


def run_case(kernel: Kernel, case: Case, seed: int, console: Console | None) -> dict[str, Any]:
    """Run one case, show it on the console if there is one, and give it as JSON."""
    if console:
        console.print(f"[bold]{case.name}[/]  {case.sentence}")
        console.print(f"  [dim]{extents(case.sizes)}[/]")
    try:
        verdict = check(kernel, case, seed, twice=True)
    except pypto.error.PyptoError as error:
        if console:
            console.print(f"  [bold red]failed[/]\n{escape(str(error))}\n", soft_wrap=True)
        return verdict_as_json(kernel, case, seed, error=error.to_json())
    if console:
        console.print(table_of(verdict))
        times = f"first call {duration(verdict.first)}, later {duration(verdict.again)}"
        console.print(f"  [dim]{times}, golden {duration(verdict.golden)}[/]")
        if verdict.peer is not None and verdict.again:
            ratio = verdict.peer / verdict.again
            console.print(
                f"  the same in torch (eager) takes {duration(verdict.peer)}: the kernel is "
                f"[bold]{ratio:.1f}×[/] as fast"
            )
        console.print()
    return verdict_as_json(kernel, case, seed, verdict)


def table_of(verdict: Verdict) -> Table:
    """The errors of one case, a row an output."""
    table = Table(box=None, header_style="dim", padding=(0, 0, 0, 2))
    for heading in ("output", "shape", "dtype"):
        table.add_column(heading)
    for heading in ("max abs", "max rel", "tolerance"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for one in verdict.comparisons:
        table.add_row(
            one.output,
            "×".join(map(str, one.shape)),
            one.dtype,
            f"{one.max_abs:.1e}",
            f"{one.max_rel:.1e}",
            f"{one.tolerance:.0e}",
            "[green]agrees[/]" if one.passed else "[bold red]differs[/]",
        )
    return table


def conclude(console: Console, passed: int, total: int) -> None:
    """The last lines: how many cases agreed, and what the errors mean."""
    mark = "[bold green]✓[/]" if passed == total else "[bold red]✗[/]"
    console.print(f"{mark} {passed} of {total} cases agree with their golden")
    console.print(
        "[dim]max abs = max |output - golden|; max rel = max abs / max |golden|\n"
        "the first call with new shapes also traces and compiles the kernel[/]"
    )


def extents(sizes: Mapping[str, int]) -> str:
    """The sizes of a case as they are read: B=1 H=2 T=128."""
    return " ".join(f"{axis}={extent}" for axis, extent in sizes.items())


def duration(seconds: float | None) -> str:
    """Seconds as they are read: 1.24 s, 35 ms."""
    if seconds is None:
        return "not run"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def kernel_as_json(kernel: Kernel) -> dict[str, Any]:
    """A kernel and its cases under stable keys."""
    cases = [
        {"name": one.name, "sentence": one.sentence, "size": one.size, "sizes": dict(one.sizes)}
        for one in kernel.cases
    ]
    return {
        "name": kernel.name, "sentence": kernel.sentence, "family": kernel.family, "cases": cases,
    }  # fmt: skip


def verdict_as_json(
    kernel: Kernel,
    case: Case,
    seed: int,
    verdict: Verdict | None = None,
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What one run gave, under stable keys; seconds, and null for a number that is not finite."""
    outputs = [
        {
            "name": one.output, "shape": list(one.shape), "dtype": one.dtype,
            "max_abs": finite(one.max_abs), "max_rel": finite(one.max_rel),
            "tolerance": one.tolerance, "passed": one.passed,
        }
        for one in (verdict.comparisons if verdict else ())
    ]  # fmt: skip
    return {
        "kernel": kernel.name,
        "case": case.name,
        "size": case.size,
        "sizes": dict(case.sizes),
        "seed": seed,
        "passed": verdict is not None and verdict.passed,
        "error": error,
        "outputs": outputs,
        "seconds_first": verdict and verdict.first,
        "seconds_again": verdict and verdict.again,
        "seconds_golden": verdict and verdict.golden,
        "seconds_peer": verdict and verdict.peer,
    }


def finite(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return number if math.isfinite(number) else None
