"""The command line. Every command is a function in a module of its own; here they become one program."""

import contextlib
import errno
import io
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from walflow import __version__
from walflow.exit_codes import EX_IOERR, EX_SOFTWARE

_UNWRITTEN = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}  # what a redirected stdout may meet


def main() -> None:
    _hold_standard_descriptors()
    _print_anything()
    try:
        app()(prog_name="walflow")
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


def app() -> typer.Typer:
    # what a command needs is imported by the command: `walflow --help` loads no event loop
    from walflow.cli.check import check
    from walflow.cli.commands import Commands
    from walflow.cli.connectors import connectors_app
    from walflow.cli.doc import doc
    from walflow.cli.doctor import doctor
    from walflow.cli.fmt import fmt
    from walflow.cli.frontier import frontier_app
    from walflow.cli.graph import graph
    from walflow.cli.letters import letters_app
    from walflow.cli.lsp import lsp
    from walflow.cli.new import new
    from walflow.cli.reload import reload
    from walflow.cli.repl import repl
    from walflow.cli.replay import replay
    from walflow.cli.run import run
    from walflow.cli.schema import schema
    from walflow.cli.status import status
    from walflow.cli.tap import tap
    from walflow.cli.test import run_cases
    from walflow.cli.top import top
    from walflow.cli.wal import flowing, wal_app

    program = typer.Typer(
        name="walflow",
        cls=Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # it prints local variables: payloads and secrets among them
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback()(_program)
    program.command(help=flowing(run.__doc__ or ""))(run)
    program.command()(check)
    program.command()(fmt)
    program.command()(graph)
    program.command()(lsp)
    program.command()(new)
    program.command("test", help=flowing(run_cases.__doc__ or ""))(run_cases)
    program.command(help=flowing(repl.__doc__ or ""))(repl)
    program.command(help=flowing(doc.__doc__ or ""))(doc)
    program.command()(doctor)
    program.command()(schema)
    program.command()(status)
    program.command(help=flowing(reload.__doc__ or ""))(reload)
    program.command(help=flowing(replay.__doc__ or ""))(replay)
    program.command(help=flowing(top.__doc__ or ""))(top)
    program.command(help=flowing(tap.__doc__ or ""))(tap)
    program.add_typer(connectors_app(), name="connectors")
    program.add_typer(wal_app(), name="wal")
    program.add_typer(letters_app(), name="letters")
    program.add_typer(frontier_app(), name="frontier")
    return program


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
