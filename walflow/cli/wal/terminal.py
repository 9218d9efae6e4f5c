"""Shared by the `wal` commands: arguments, error lines, progress bars."""

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from walflow.admin.text import printable
from walflow.errors import DirectoryLocked, WalflowError
from walflow.exit_codes import EX_IOERR, EX_TEMPFAIL
from walflow.log_place import HIGHEST, position_of

if TYPE_CHECKING:
    from walflow.wal import Gap
    from walflow.wal.tools.inspect import Read

EVERYTHING = HIGHEST

At = Annotated[
    Path,
    # readable: `repair` says what to do where it is not
    typer.Argument(metavar="PATH", help="The log's directory, as the flow file names it.", readable=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def a_position(given: str | int) -> int:
    try:
        return position_of(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@contextmanager
def told() -> Generator[None]:
    """Turns every error into one line and an exit code. A closed stdout is no error."""
    try:
        yield
        print(end="", flush=True)  # a stdout that was closed from the start is None, which only print knows
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        raise typer.Exit(0) from None
    except DirectoryLocked as error:
        raise end(str(error), EX_TEMPFAIL) from None
    except WalflowError as error:
        raise end(str(error), EX_IOERR) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise end(f"{where}{error.strerror or error}", EX_IOERR) from None


def end(line: str, code: int) -> typer.Exit:
    tell(line)
    return typer.Exit(code)


def gap_line(gap: "Gap") -> str:
    where = f" in {gap.file} at {gap.offset}, {gap.size} bytes" if gap.file else ""
    return f"positions {gap.first} to {gap.last}: {gap.reason}{where}"


def tell(line: str) -> None:
    typer.echo(f"walflow: {printable(line)}", err=True)


def agreed(say: Callable[[str], None], *, dry_run: bool, yes: bool) -> bool:
    if dry_run:
        say("nothing was changed: this was a dry run")
        return False
    if yes:
        return True
    try:
        done = typer.confirm("Do it?")
    except typer.Abort:
        done = False
    if not done:
        say("nothing was changed; --yes does it without asking")
    return done


def stdout() -> BinaryIO:
    try:
        return typer.get_binary_stream("stdout")
    except RuntimeError:  # it was closed from the start
        raise BrokenPipeError from None


@contextmanager
def progress(what: str, *, beside: bool = False) -> "Generator[Callable[[int], Read]]":
    """A progress bar on stderr, if stderr is a terminal. `beside`: only if stdout, which gets many lines meanwhile,
    is no terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    shown = console.is_terminal and not (beside and sys.stdout is not None and sys.stdout.isatty())
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:

        def begin(size: int) -> "Read":
            task = bar.add_task("", total=size)
            return lambda count: bar.advance(task, count)

        yield begin
