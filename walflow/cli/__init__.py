"""The command line. Every command is a function in a module of its own; here they become one program.

A module is imported when its command is called: all of them take a third of a second.
"""

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer

from walflow import __version__
from walflow.cli.commands import Commands, flowing
from walflow.exit_codes import EX_IOERR, EX_SOFTWARE

_COMMANDS: Final = (
    "run:run",
    "check:check",
    "fmt:fmt",
    "graph:graph",
    "lsp:lsp",
    "new:new",
    "test:run_cases",
    "repl:repl",
    "doc:doc",
    "doctor:doctor",
    "schema:schema",
    "status:status",
    "reload:reload",
    "replay:replay",
    "top:top",
    "tap:tap",
)
_GROUPS: Final = ("connectors:connectors_app", "wal:wal_app", "letters:letters_app", "frontier:frontier_app")
COMMANDS: Final = {place.partition(":")[0]: place for place in _COMMANDS}
"""Module and function of each, in the order of the help. Its name is the module's."""
GROUPS: Final = {place.partition(":")[0]: place for place in _GROUPS}
"""Commands with commands of their own."""

_UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # what a redirected stdout may meet


def main() -> None:
    _hold_standard_descriptors()
    _print_anything()
    try:
        app(_called(sys.argv[1:]))(prog_name="walflow")
    except Exception as error:  # noqa: BLE001  # a bug of ours: one line, and a code of its own
        if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITTEN:
            _end_unwritten(error)
        _tell_internal_error(error)
        sys.exit(EX_SOFTWARE)


def _hold_standard_descriptors() -> None:
    """One that was closed would go to the next file that is opened, and what is printed or logged into that file."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


def _print_anything() -> None:
    """A name with bytes that are no text, or a character that an old locale lacks, costs itself and not the line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where it was closed from the start
            stream.reconfigure(errors="backslashreplace")


def _end_unwritten(error: OSError) -> NoReturn:
    with contextlib.suppress(OSError):  # the same disk
        typer.echo(f"walflow: cannot write the output: {error.strerror}", err=True)
    sys.stdout = sys.stderr = None  # with what is left in it, which would fail again
    sys.exit(EX_IOERR)


def _tell_internal_error(error: Exception) -> None:
    at = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    line = f"walflow: internal error: {type(error).__name__}: {text} (in {at.name}, {os.path.basename(at.filename)}:"
    try:
        if os.environ.get("WALFLOW_TRACEBACK"):
            traceback.print_exception(error)
        typer.echo(f"{line}{at.lineno}; WALFLOW_TRACEBACK=1 prints the traceback)", err=True)
    except OSError:
        return  # stderr is not read


def app(only: str = "") -> typer.Typer:
    """`only`: the command that is called, and what it needs; "": all of them."""
    program = typer.Typer(
        name="walflow",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # it prints local variables: payloads and secrets among them
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback()(_program)
    for name in (only,) if only else (*COMMANDS, *GROUPS):
        if name in GROUPS:
            program.add_typer(_loaded(GROUPS[name])(), name=name)
        else:
            command = _loaded(COMMANDS[name])
            program.command(name, help=flowing(command.__doc__ or ""))(command)
    return program


def _loaded(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"walflow.cli.{module}"), name)
    return found


def _called(words: Sequence[str]) -> str:
    """The command that a command line begins with. What it is not, is for all of them to say."""
    return words[0] if words and (words[0] in COMMANDS or words[0] in GROUPS) else ""


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"walflow {__version__}")
        raise typer.Exit


def _program(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Wires connectors and pipelines along declared links, with a write-ahead log between them."""
