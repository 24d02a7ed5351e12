"""`pypto cache`: what is kept of compiled kernels between runs, and how to be rid of it.

In: the switches of the environment.  Out: where the folder is and how full, in words or as JSON
with stable keys; or the folder without its entries.  Exit status 1 if the folder is not used since
other users may write it.
"""

import json

import typer
from rich.console import Console
from rich.markup import escape

from pypto.cpu import cache
from pypto.tools.gym import AsJson

app = typer.Typer(
    help="Machine code that is kept between runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command("info")
def show(as_json: AsJson = False) -> None:
    """Show where machine code is kept, and how much there is."""
    found = cache.info()
    if as_json:
        typer.echo(json.dumps(found._asdict(), indent=2))
    else:
        rows = {
            "folder": escape(found.folder or "none"),
            "entries": str(found.entries),
            "size": f"{megabytes(found.bytes)} of {megabytes(found.limit)}",
        }
        if found.problem:
            rows["not used"] = f"[yellow]{escape(found.problem)}[/]"
        for name, value in rows.items():
            Console(highlight=False).print(f"[dim]{name:8}[/]  {value}", soft_wrap=True)
    raise typer.Exit(1 if found.folder and found.problem else 0)


@app.command("clear")
def clear() -> None:
    """Remove all of it; kernels are compiled again when they are next used."""
    before = cache.clear()
    if before.folder and before.problem:
        words = Console(stderr=True, highlight=False)
        words.print(f"[bold red]error:[/] {escape(before.folder)} {escape(before.problem)}")
        raise typer.Exit(1)
    typer.echo(f"removed {before.entries} entries, {megabytes(before.bytes)}")


def megabytes(size: int) -> str:
    """A number of bytes as it is read: 1.5 MB."""
    return f"{size / (1 << 20):.1f} MB"
