"""`walflow frontier`: what the directory of a log keeps of the tables that it is delivered into."""

import json
import os
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from walflow.admin.text import printable
from walflow.cli.commands import Commands
from walflow.cli.wal import flowing
from walflow.cli.wal.terminal import AsJson, At, end, told
from walflow.exit_codes import EX_FINDINGS

HELP = "What the directory of a log keeps of the tables that its events go into, and what an operator says of them."

Sink = Annotated[str, typer.Argument(metavar="SINK", help="As `walflow frontier show` names it: FLOW::CONNECTOR.")]


def frontier_app() -> typer.Typer:
    program = typer.Typer(cls=Commands, help=HELP, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (show, accept, take)
    for command in commands:
        program.command(help=flowing(command.__doc__ or ""))(command)
    return program


def show(path: At, as_json: AsJson = False) -> None:
    """Show, for each sink, the highest position that it has confirmed, and what was said by `accept` or `take`.

    Exit codes: 0; 74 a file is damaged, or cannot be read.
    """
    from walflow.disk import RealDisk
    from walflow.errors import Unusable
    from walflow.frontier import KeptFrontiers

    with told():
        if not os.path.isdir(path):
            raise Unusable(f"{path}: is not there")
        kept = KeptFrontiers(RealDisk(), os.path.normpath(path))
        found = {name: kept.read(name) for name in kept.names()}
        if as_json:
            typer.echo(
                json.dumps(
                    {
                        name: {
                            "confirmed": keys.confirmed.position,
                            "run": keys.epoch,
                            "accepts": keys.accepts,
                            "takes": keys.takes,
                        }
                        for name, keys in found.items()
                    },
                    indent=2,
                )
            )
            return
        if not found:
            typer.echo("no sink of this log has a frontier")
        for name, keys in found.items():
            said = [text for text, done in (("accept", keys.accepts), ("take", keys.takes)) if done]
            then = f"; said for the next start: {', '.join(said)}" if said else ""
            typer.echo(
                printable(f"{name}: confirmed up to position {keys.confirmed.position}, run {keys.epoch}{then}")
            )


def accept(path: At, sink: Sink) -> None:
    """Let a sink go on that was refused because the log or the table went back, at the next start of walflow.

    Stop the daemon first. If the log went back (it was restored from a copy), what the table has of events that the
    log still has stays known, and all others are new. If the table went back (it was restored, or emptied), walflow
    goes on where the log is: what the table has lost is not sent again.

    Exit codes: 0; 1 the log keeps nothing of this sink; 74 its file is damaged, or cannot be written; 75 another
    process uses the log.
    """
    _say(path, sink, accepts=True)
    typer.echo(
        printable(f"{sink} goes on although the log or the table went back, once walflow starts again"), nl=True
    )


def take(path: At, sink: Sink) -> None:
    """Let a sink take a table from another writer without waiting, at the next start of walflow.

    Stop the daemon first, and the other writer. Without this, the sink takes it once the other has shown no sign of
    life for 60 seconds.

    Exit codes: 0; 1 the log keeps nothing of this sink; 74 its file is damaged, or cannot be written; 75 another
    process uses the log.
    """
    _say(path, sink, takes=True)
    typer.echo(printable(f"{sink} takes the table without waiting, once walflow starts again"))


def _say(path: "os.PathLike[str]", sink: str, *, accepts: bool = False, takes: bool = False) -> None:
    from walflow.disk import RealDisk
    from walflow.frontier import KeptFrontiers
    from walflow.wal.tools.repair import Hold

    directory = os.path.normpath(path)
    with told(), Hold(directory):
        kept = KeptFrontiers(RealDisk(), directory)
        if sink not in kept.names():
            raise end(
                f"{directory} keeps nothing of {sink}; `walflow frontier show` names what it keeps", EX_FINDINGS
            )
        keys = kept.read(sink)
        kept.write(sink, msgspec.structs.replace(keys, accepts=keys.accepts or accepts, takes=keys.takes or takes))
