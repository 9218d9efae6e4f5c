"""`walflow wal skip`."""

import json
import os
import pwd
from typing import TYPE_CHECKING, Annotated

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, a_position, end, gap_line, progress, told
from walflow.exit_codes import EX_FINDINGS, EX_USAGE

if TYPE_CHECKING:
    from walflow.cli.wal.events import Event
    from walflow.delivery.tag import Tags
    from walflow.wal.cursor import Acked
    from walflow.wal.tools.skip import Skipped


def skip(
    path: At,
    position: Annotated[
        int,
        typer.Argument(
            metavar="POSITION", help="The event's position, as `walflow wal dump` shows it.", parser=a_position
        ),
    ],
    last: Annotated[
        int | None,
        typer.Option(
            "--to",
            help="The last position to skip, included. Default: POSITION.",
            parser=a_position,
            metavar="POSITION",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which events would be skipped.")] = False,
    as_json: AsJson = False,
) -> None:
    """Skip an event that no sink accepts: it counts as acked and is not sent again.

    Stop the daemon first, and try with --dry-run. The event's record is copied to quarantine/, with a report that
    says who skipped which positions, and when. Other events of that record are still delivered.

    Exit codes: 0 skipped, or shown with --dry-run; 1 nothing to skip (the position is not in the log, or is acked);
    74 not a log, or its disk fails (then run it again: the cursor may have been written or not); 75 another process
    uses the log.
    """
    from walflow.wal.tools.skip import NothingToSkip

    to = position if last is None else last
    if to < position:
        raise end(f"--to {to} comes before {position}", EX_USAGE)
    with told():
        try:
            _skip(os.path.normpath(path), position, to, dry_run=dry_run, as_json=as_json)
        except NothingToSkip as error:
            raise end(str(error), EX_FINDINGS) from None


def _skip(path: str, first: int, last: int, *, dry_run: bool, as_json: bool) -> None:
    from walflow.wal import Log, LogOptions
    from walflow.wal.tools.inspect import look
    from walflow.wal.tools.inspect.walk import walk
    from walflow.wal.tools.repair import Hold
    from walflow.wal.tools.skip import skip as go_past, skippable, within

    with Hold(path):
        view = look(path)  # so that no directory is made where there is no log
        parts = skippable(view.found.acked, view.found.durable, first, last)
        if dry_run:
            places = list(walk(view.directory, view.chunks, first, last))
            _tell(path, within(places, parts), view.found.acked, view.found.durable, as_json=as_json)
            return
    log = Log(LogOptions(path))
    try:
        with progress("copying") as begin:
            skipped = go_past(log, first, last, _who(), begin(view.bytes_from(first, last)))
        _tell(path, skipped, log.acked, log.durable, as_json=as_json)
    finally:
        log.abandon()  # the cursor is written; after a failure it must not be


def _who() -> str:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"user {os.getuid()}"
    sudo = os.environ.get("SUDO_USER")
    return f"{name}, sudo by {sudo}" if sudo else name


def _tell(path: str, skipped: "list[Skipped]", acked: "Acked", durable: int, *, as_json: bool) -> None:
    """Prints what was skipped or, without a report, what would be."""
    from walflow.delivery.tag import Tags

    tags, done = Tags(), any(one.report for one in skipped)
    left = durable - acked.low - acked.above
    if as_json:
        entries = [_entry(tags, one, acked) for one in skipped]
        known = {"path": path, "skipped": done, "low": acked.low, "backlog_events": left, "positions": entries}
        typer.echo(json.dumps(known, indent=2))
        return
    for one in skipped:
        for line in _event_lines(tags, one):
            typer.echo(f"{'skipped' if done else 'to skip'}: {line}")
        if one.report:
            typer.echo(printable(f"kept: {os.path.join(path, one.report)}"))
    after = f"acked to {acked.low}, {left} events to deliver"
    typer.echo(after if done else "nothing was changed: this was a dry run")


def _entry(tags: "Tags", one: "Skipped", acked: "Acked") -> dict[str, object]:
    from walflow.cli.wal.events import printed

    events = [printed(acked, event) for event in _events(tags, one)]
    return {"first": one.first, "last": one.last, "report": one.report or None, "events": events}


def _event_lines(tags: "Tags", one: "Skipped") -> list[str]:
    from walflow.cli.wal.events import text_line
    from walflow.wal import Gap

    if isinstance(one.place.found, Gap):
        return [gap_line(one.place.found)]
    return [text_line(event) for event in _events(tags, one)]


def _events(tags: "Tags", one: "Skipped") -> "list[Event]":
    from walflow.cli.wal.events import events_of
    from walflow.wal import Gap

    found = one.place.found
    return [] if isinstance(found, Gap) else events_of(tags, found, one.first, one.last)
