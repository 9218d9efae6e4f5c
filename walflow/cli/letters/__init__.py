"""`walflow letters`: events that a sink of a log has rejected, and that the log keeps for it."""

from collections.abc import Callable

import typer

from walflow.cli.commands import Commands, flowing

HELP = "Events that a sink has rejected, and that the log before it keeps: see them, mend them, send them again."


def letters_app() -> typer.Typer:
    from walflow.cli.letters.change import drop, retry
    from walflow.cli.letters.see import export, list_, show

    program = typer.Typer(cls=Commands, help=HELP, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (list_, show, export, retry, drop)
    for command in commands:
        program.command(command.__name__.strip("_"), help=flowing(command.__doc__ or ""))(command)
    return program
