"""`walflow wal stats`."""

import json
import os
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, At, told

if TYPE_CHECKING:
    from walflow.wal.tools.inspect import View
    from walflow.wal.trail import ToldRanges

FLOWS: Final = 3
GONE_LINES: Final = 10  # that are shown to a person


class _Chunk(NamedTuple):
    file: str
    first: int
    last: int
    bytes: int


class _Sink(NamedTuple):
    """What one sink had acked when that was last written. `since`: the first position that is for it, None if that is
    not known; `or_earlier`: it was linked before the log kept that."""

    name: str
    low: int
    backlog_events: int
    since: int | None
    or_earlier: bool


class _Flow(NamedTuple):
    """The flow that was running when these positions were logged. `last`: None while it runs, or is the last one."""

    hash: str
    walflow: str
    first: int
    last: int | None
    first_ran: str


class _Gone(NamedTuple):
    """Positions that ended at a sink or a pipeline (None: in the log itself), and are no letters."""

    first: int
    last: int
    at: str | None
    reason: str


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
    flows: list[dict[str, object]]
    gone: list[dict[str, object]]
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
        [_sink(view, name)._asdict() for name in sorted(view.marks.keys() | _linked(view).keys())],
        [one._asdict() for one in _flows(view)],
        [one._asdict() for one in _gone(view)],
        [_Chunk(chunk.name, chunk.first, chunk.last, _size_of(path, chunk.name))._asdict() for chunk in view.chunks],
        sum(_size_of(path, name) for name in names if name.endswith(".wal")),
        sum(_size_of(path, name) for name in names if name.startswith("spare.")),
        quarantined(path),
    )


def _sink(view: "View", name: str) -> _Sink:
    """It has acked what all have, too: the cursor is written after the marks."""
    from walflow.wal.cursor import Acked

    found, mark, linked = view.found, view.marks.get(name, Acked()), _linked(view).get(name)
    own = Acked(found.acked.low, found.acked.ranges)
    for one in ((1, mark.low), *mark.ranges):
        own.add(one[0], min(one[1], found.durable))
    lacks = sum(last - first + 1 for first, last in own.missing(1, found.durable))
    since = linked.ranges[-1][0] if linked is not None else None
    return _Sink(name, own.low, lacks, since, linked is not None and bool(linked.statement.more))


def _linked(view: "View") -> "dict[str, ToldRanges]":
    """The sinks of the last run, by name."""
    from walflow.wal.trail import SINK

    return {one.statement.who: one for one in view.trail if one.statement.what == SINK and one.holds}


def _flows(view: "View") -> list[_Flow]:
    from walflow.cli.wal.events import time_of
    from walflow.wal.trail import FLOW, OPEN

    found = [
        _Flow(one.statement.who, one.statement.more, first, None if last == OPEN else last, time_of(one.since_ns))
        for one in view.trail
        if one.statement.what == FLOW
        for first, last in one.ranges
    ]
    return sorted(found, key=lambda one: one.first)


def _gone(view: "View") -> list[_Gone]:
    from walflow.wal.trail import GONE

    found = [
        _Gone(first, last, one.statement.who or None, one.statement.more)
        for one in view.trail
        if one.statement.what == GONE
        for first, last in one.ranges
    ]
    return sorted(found, key=lambda one: (one.first, one.last, one.at or ""))


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
        *(f"  {_sink_line(one)}" for one in known.sinks),
        *(f"  {_flow_line(one)}" for one in known.flows[-FLOWS:]),
        *_gone_lines(known.gone),
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


def _sink_line(one: dict[str, object]) -> str:
    words = f"{one['name']}: acked to {one['low']}, lacks {_events(one)}"
    earlier = " or an earlier one" if one["or_earlier"] else ""
    return printable(words if one["since"] is None else f"{words}, linked since position {one['since']}{earlier}")


def _flow_line(one: dict[str, object]) -> str:
    last = one["last"]
    of = f"from position {one['first']} on" if last is None else f"positions {one['first']} to {last}"
    return f"flow {one['hash']} of walflow {one['walflow']}: {of}"


def _gone_lines(gone: list[dict[str, object]]) -> list[str]:
    if not gone:
        return []
    more = f"; these are the last {GONE_LINES} of {len(gone):,}" if len(gone) > GONE_LINES else ""
    return [f"not delivered{more}:", *(f"  {_gone_line(one)}" for one in gone[-GONE_LINES:])]


def _gone_line(one: dict[str, object]) -> str:
    of = f"position {one['first']}" if one["first"] == one["last"] else f"positions {one['first']} to {one['last']}"
    by = f" at {one['at']}" if one["at"] is not None else ""
    return printable(f"{of}{by}: {one['reason']}")


def _events(sink: dict[str, object]) -> str:
    return "1 event" if sink["backlog_events"] == 1 else f"{sink['backlog_events']} events"


def _kept_line(one: dict[str, object]) -> str:
    words = one.get("error") or _reason(one.get("report")) or f"{one['bytes']} bytes"
    return printable(f"{one['name']}: {words}")


def _reason(report: object) -> str:
    return str(cast("dict[str, object]", report).get("reason", "")) if isinstance(report, dict) else ""
