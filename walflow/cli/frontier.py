"""`walflow frontier`: what the directory of a log keeps of the tables that it is delivered into."""

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from walflow.admin.text import printable
from walflow.cli.commands import Commands, flowing
from walflow.cli.wal.terminal import AsJson, At, end, told
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from walflow.frontier import Accepts, KeptFrontiers, WriterKeys

HELP = "What the directory of a log keeps of the tables that its events go into, and what an operator says of them."

Sink = Annotated[str, typer.Argument(metavar="SINK", help="As `walflow frontier show` names it: FLOW::CONNECTOR.")]


def frontier_app() -> typer.Typer:
    program = typer.Typer(cls=Commands, help=HELP, no_args_is_help=True)
    commands: tuple[Callable[..., None], ...] = (show, accept, take, move)
    for command in commands:
        program.command(help=flowing(command.__doc__ or ""))(command)
    return program


def show(path: At, as_json: AsJson = False) -> None:
    """Show, for each sink, the highest position that it has confirmed, why it was refused, and what was said since.

    Exit codes: 0; 74 a file is damaged, or cannot be read.
    """
    from walflow.disk import RealDisk
    from walflow.errors import Unusable
    from walflow.frontier import KeptFrontiers
    from walflow.wal.tools.inspect.view import NOT_THERE

    with told():
        if not os.path.isdir(path):
            raise Unusable(f"{path}: {NOT_THERE}")
        kept = KeptFrontiers(RealDisk(), os.path.normpath(path))
        found = {name: kept.read(name) for name in kept.names()}
        if as_json:
            typer.echo(json.dumps({name: _known(keys) for name, keys in found.items()}, indent=2))
            return
        if not found:
            typer.echo("no sink of this log has a frontier")
        for name, keys in found.items():
            said = [text for text, done in (("accept", keys.accepts), ("take", keys.takes)) if done]
            then = f"; said for the next start: {', '.join(said)}" if said else ""
            why = f"; refused: {keys.refusal.why}" if keys.refusal is not None else ""
            typer.echo(
                printable(f"{name}: confirmed up to position {keys.confirmed.position}, run {keys.epoch}{why}{then}")
            )


def _known(keys: "WriterKeys") -> dict[str, object]:
    return {
        "confirmed": keys.confirmed.position,
        "run": keys.epoch,
        "refused": keys.refusal.why if keys.refusal is not None else None,
        "accepts": keys.accepts or None,
        "takes": keys.takes,
    }


def accept(
    path: At,
    sink: Sink,
    resend: Annotated[bool, typer.Option("--resend", help="Send again what the table lost and the log has.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Send nothing again that was acked.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be sent, and what is lost.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a sink go on that was refused because the log or the table went back, at the next start of walflow.

    Stop the daemon first. If the log went back (it was restored from a copy), what the table has of events that the
    log still has stays known, and all others are new. If the table went back (it was restored, or emptied), say
    --resend or --keep. With --resend the log sends all events again that it still has; those that the table has are
    not stored again. Other sinks get nothing again, unless they share a lane with this one.

    Exit codes: 0; 1 the sink was not refused, or --resend or --keep is missing or has no meaning; 74 a file
    is damaged, or cannot be written; 75 another process uses the log.
    """
    from walflow.disk import RealDisk
    from walflow.frontier import KeptFrontiers
    from walflow.frontier.acceptance import accepted
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.repair import Hold
    from walflow.wal.tools.rewind import planned, rewind, to_send

    directory = os.path.normpath(path)
    if resend and keep:
        raise end("--resend and --keep: one of them", EX_USAGE)
    with told(), Hold(directory):
        kept = KeptFrontiers(RealDisk(), directory)
        keys = _keys(kept, directory, sink)
        how: Accepts = "resend" if resend else "keep" if keep else "log"
        _expect_meaning(keys, sink, how)
        view = look(directory)
        assert keys.refusal is not None
        seen = keys.refusal.seen
        mark = _mark(sink)
        again: Sequence[tuple[int, int]] = (
            planned(view, mark, seen.forgotten if seen is not None else 0) if resend else []
        )
        sent = accepted(seen, to_send(view, mark, again), keys.confirmed.position)
        if not dry_run:
            if resend:
                rewind(view, mark, again)
            kept.write(sink, msgspec.structs.replace(keys, accepts=how))
        if as_json:
            typer.echo(json.dumps({"sink": sink, "done": not dry_run, **sent._asdict()}, indent=2))
            return
        sum_of = f"{sent.known:,} are in the table already, {sent.new:,} are new"
        typer.echo(printable(f"{sink}: the log sends {sent.known + sent.new:,} events: {sum_of}"))
        if sent.lost:
            typer.echo(f"lost: {sent.lost:,} positions that the table had confirmed, and that the log does not send")
        if not dry_run:
            typer.echo("it goes on once walflow starts again")


def take(path: At, sink: Sink) -> None:
    """Let a sink take a table from another writer without waiting, at the next start of walflow.

    Stop the daemon first, and the other writer. Without this, the sink takes it once the other has shown no sign of
    life for 60 seconds.

    Exit codes: 0; 1 the log keeps nothing of this sink; 74 its file is damaged, or cannot be written; 75 another
    process uses the log.
    """
    from walflow.disk import RealDisk
    from walflow.frontier import KeptFrontiers
    from walflow.wal.tools.repair import Hold

    directory = os.path.normpath(path)
    with told(), Hold(directory):
        kept = KeptFrontiers(RealDisk(), directory)
        kept.write(sink, msgspec.structs.replace(_keys(kept, directory, sink), takes=True))
    typer.echo(printable(f"{sink} takes the table without waiting, once walflow starts again"))


def move(
    path: At, sink: Sink, new: Annotated[str, typer.Argument(metavar="NEW", help="Its name in the new flow file.")]
) -> None:
    """Give what the log and the table know of a sink to its new name, at the next start of walflow.

    Stop the daemon first. Without this, a sink with a new name is a new one: it stores again what the log still has.
    A daemon that still uses the old name is then another writer.

    Exit codes: 0; 1 the log keeps nothing of this sink, or something of the new name already; 74 a file is damaged,
    or cannot be written; 75 another process uses the log.
    """
    from walflow.disk import RealDisk
    from walflow.frontier import KeptFrontiers
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.rename import rename
    from walflow.wal.tools.repair import Hold

    directory = os.path.normpath(path)
    with told(), Hold(directory):
        kept = KeptFrontiers(RealDisk(), directory)
        keys = _keys(kept, directory, sink)
        if new in kept.names() and kept.read(new).moved_from != sink:  # else a crash ended the command
            raise end(f"{directory} keeps something of {new} already", EX_FINDINGS)
        view = look(directory)
        if _mark(sink) in view.marks and _mark(new) not in view.marks:
            rename(directory, view.found.uuid, _mark(sink), _mark(new))
        kept.write(new, msgspec.structs.replace(keys, moved_from=keys.moved_from or sink))
        kept.remove(sink)
    typer.echo(printable(f"{new} goes on where {sink} was, once walflow starts again"))


def _mark(sink: str) -> str:
    """The log's name of it: without the flow's."""
    return sink.partition("::")[2] or sink


def _keys(kept: "KeptFrontiers", directory: str, sink: str) -> "WriterKeys":
    if sink not in kept.names():
        raise end(f"{directory} keeps nothing of {sink}; `walflow frontier show` names what it keeps", EX_FINDINGS)
    return kept.read(sink)


def _expect_meaning(keys: "WriterKeys", sink: str, how: "Accepts") -> None:
    refusal = keys.refusal
    if refusal is None:
        raise end(f"{sink} was not refused: start walflow once, so that it reads what the table has", EX_FINDINGS)
    if refusal.went_back == "neither":
        raise end(f"{sink}: {refusal.why}; stop it, then `walflow frontier take`", EX_FINDINGS)
    if refusal.went_back == "receiver" and how == "log":
        raise end(f"{sink}: {refusal.why}; say --resend or --keep", EX_FINDINGS)
    if refusal.went_back == "log" and how != "log":
        raise end(f"{sink}: {refusal.why}; --resend and --keep are for a table that went back", EX_FINDINGS)
