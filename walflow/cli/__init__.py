"""The command line. Every command is a function in a module of its own; here they become one program."""

from typing import Annotated

import typer

from walflow import __version__


def main() -> None:
    app()(prog_name="walflow")


def app() -> typer.Typer:
    # what a command needs is imported by the command: `walflow --help` loads no event loop
    from walflow.cli.check import check
    from walflow.cli.run import run

    program = typer.Typer(
        name="walflow",
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # it prints local variables: payloads and secrets among them
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    program.callback()(_program)
    program.command()(run)
    program.command()(check)
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
