"""`walflow wal stats`."""

import json
import os
from typing import TYPE_CHECKING, NamedTuple, cast

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, told

if TYPE_CHECKING:
    from walflow.wal.tools.inspect import View


class _Chunk(NamedTuple):
    file: str
    first: int
    last: int
    bytes: int


class _Sink(NamedTuple):
    """Of a log with several lanes: what one sink had acked when that was last written."""

    name: str
    low: int
    backlog_events: int


class _Stats(NamedTuple):
    """What `wal stats --json` prints."""

    path: str
    uuid: str
    held_by: str | None
    low: int
    durable: int
    next: int
    cursor_generation: int
    cursor_durable: int
    backlog_events: int
    backlog_bytes: int
    history_bytes: int
    history_since: str | None
    sinks: list[dict[str, object]]
    chunks: list[dict[str, object]]
    bytes: int
    spare_bytes: int
    quarantine: list[dict[str, object]]


def stats(path: At, as_json: AsJson = False) -> None:
    """Show what a log contains. Changes nothing and takes no lock, so a daemon may use the log meanwhile.

    Exit codes: 0 shown, 74 not a log or not readable.
    """
    from walflow.wal.tools.inspect import look

    with told():
        known = _stats(look(str(path)))
        if as_json:
            typer.echo(json.dumps(known._asdict(), indent=2))
        else:
            typer.echo("\n".join(_stats_lines(known)))


def _stats(view: "View") -> _Stats:
    from walflow.cli.wal.events import time_of
    from walflow.wal.format import NO_STAMP
    from walflow.wal.tools.inspect import backlog_bytes, quarantined

    found, path = view.found, view.directory.path
    names = os.listdir(path)
    kept = [chunk for chunk in view.chunks if found.history and chunk.last <= found.acked.low]
    return _Stats(
        path,
        found.uuid.hex(),
        view.holder or None,
        found.acked.low,
        found.durable,
        found.durable + 1,
        max((slot.generation for slot in view.slots if slot is not None), default=0),
        view.hint,
        found.recovery.backlog,
        backlog_bytes(view),
        sum(_size_of(path, chunk.name) for chunk in kept),
        time_of(kept[0].since_ns) if kept and kept[0].since_ns != NO_STAMP else None,
        [_sink(view, name)._asdict() for name in sorted(view.marks)],
        [_Chunk(chunk.name, chunk.first, chunk.last, _size_of(path, chunk.name))._asdict() for chunk in view.chunks],
        sum(_size_of(path, name) for name in names if name.endswith(".wal")),
        sum(_size_of(path, name) for name in names if name.startswith("spare.")),
        quarantined(path),
    )


def _sink(view: "View", name: str) -> _Sink:
    """It has acked what all have, too: the cursor is written after the marks."""
    from walflow.wal.cursor import Acked

    found, mark = view.found, view.marks[name]
    own = Acked(found.acked.low, found.acked.ranges)
    for one in ((1, mark.low), *mark.ranges):
        own.add(one[0], min(one[1], found.durable))
    return _Sink(name, own.low, sum(last - first + 1 for first, last in own.missing(1, found.durable)))


def _size_of(path: str, name: str) -> int:
    try:
        return os.lstat(os.path.join(path, name)).st_size
    except FileNotFoundError:
        return 0


def _stats_lines(known: _Stats) -> list[str]:
    kept = known.quarantine
    return [
        f"{printable(known.path)}: log {known.uuid}",
        f"in use by {known.held_by}; it goes on while this is read" if known.held_by else "not in use",
        f"positions: acked to {known.low}, durable to {known.durable}, next {known.next}",
        f"backlog: {known.backlog_events} events, {known.backlog_bytes} bytes",
        *([f"acked and kept: {known.history_bytes} bytes{_since(known)}"] if known.history_bytes else []),
        *(f"  {printable(str(one['name']))}: acked to {one['low']}, lacks {_events(one)}" for one in known.sinks),
        f"cursor: generation {known.cursor_generation}, says durable to {known.cursor_durable}",
        f"on disk: {known.bytes} bytes in chunks, {known.spare_bytes} in spares",
        *(
            f"  {one['file']}: positions {one['first']} to {one['last']}, {one['bytes']} bytes"
            for one in known.chunks
        ),
        f"quarantine: {len(kept)} {'entry' if len(kept) == 1 else 'entries'}" if kept else "quarantine: empty",
        *(f"  {_kept_line(one)}" for one in kept),
    ]


def _since(known: _Stats) -> str:
    return f", since {known.history_since}" if known.history_since is not None else ""


def _events(sink: dict[str, object]) -> str:
    return "1 event" if sink["backlog_events"] == 1 else f"{sink['backlog_events']} events"


def _kept_line(one: dict[str, object]) -> str:
    words = one.get("error") or _reason(one.get("report")) or f"{one['bytes']} bytes"
    return printable(f"{one['name']}: {words}")


def _reason(report: object) -> str:
    return str(cast("dict[str, object]", report).get("reason", "")) if isinstance(report, dict) else ""
