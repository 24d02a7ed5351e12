"""The `pypto` command: its subcommands, its version, and where its words go.

In: the arguments of a shell.  Out: an exit status of 0 when all went well, 1 when a kernel
disagreed or failed, 2 when the command itself was wrong.  Each subcommand has a file of its own.
"""

from importlib import metadata
from typing import Annotated

import typer

from pypto.tools import cache, gym

app = typer.Typer(
    name="pypto",
    help="The PyPTO kernel language on any machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(gym.app, name="gym")
app.add_typer(cache.app, name="cache")


def show_version(wanted: bool) -> None:
    """Print the version of the distribution and stop."""
    if not wanted:
        return
    try:
        typer.echo(f"pypto-anywhere {metadata.version('pypto-anywhere')}")
    except metadata.PackageNotFoundError:
        typer.echo("pypto-anywhere, run from its source without being installed")
    raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """The PyPTO kernel language on any machine."""


def main() -> None:
    """The entry point of the `pypto` command and of `python -m pypto`."""
    app(prog_name="pypto")
