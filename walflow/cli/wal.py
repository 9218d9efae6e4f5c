"""`walflow wal`: looks into the directory of a log, and makes it open again."""

import base64
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from walflow.admin.text import printable
from walflow.errors import DirectoryLocked, WalflowError

if TYPE_CHECKING:
    from walflow.relay.tag import Tag, Tags
    from walflow.wal import Gap, Record
    from walflow.wal.inspect import Finding, Read, View
    from walflow.wal.repair import Hold, Step

EX_FINDINGS = 1
EX_IOERR = 74
EX_TEMPFAIL = 75
ROUNDS = 8  # what is put out of the way may have hidden something else
EVERYTHING = 1 << 64

At = Annotated[
    Path,
    # readable: `repair` says what to do where it is not
    typer.Argument(metavar="PATH", help="The log's directory, as the flow file names it.", readable=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for scripts.")]


def wal_app() -> typer.Typer:
    program = typer.Typer(help="Look into a log's directory, or make it open again.", no_args_is_help=True)
    program.command()(stats)
    program.command()(check)
    program.command()(dump)
    program.command()(repair)
    return program


@contextmanager
def _told() -> Generator[None]:
    """Every trouble is one line, and a closed stdout is none."""
    try:
        yield
        print(end="", flush=True)  # a stdout that was closed from the start is None, which only print knows
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere
        raise typer.Exit(0) from None
    except DirectoryLocked as error:
        raise _end(str(error), EX_TEMPFAIL) from None
    except WalflowError as error:
        raise _end(str(error), EX_IOERR) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise _end(f"{where}{error.strerror or error}", EX_IOERR) from None


def _end(line: str, code: int) -> typer.Exit:
    typer.echo(f"walflow: {printable(line)}", err=True)
    return typer.Exit(code)


class _Chunk(NamedTuple):
    file: str
    first: int
    last: int
    bytes: int


class _Stats(NamedTuple):
    """As --json prints it."""

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
    chunks: list[dict[str, object]]
    bytes: int
    spare_bytes: int
    quarantine: list[dict[str, object]]


def stats(path: At, as_json: AsJson = False) -> None:
    """What a log holds. Changes nothing, and takes no lock: a running daemon may have it."""
    from walflow.wal.inspect import look

    with _told():
        known = _stats(look(str(path)))
        if as_json:
            typer.echo(json.dumps(known._asdict(), indent=2))
        else:
            typer.echo("\n".join(_stats_lines(known)))


def _stats(view: "View") -> _Stats:
    from walflow.wal.inspect import backlog_bytes, quarantined

    found, path = view.found, view.directory.path
    names = os.listdir(path)
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
        [_Chunk(chunk.name, chunk.first, chunk.last, _size_of(path, chunk.name))._asdict() for chunk in view.chunks],
        sum(_size_of(path, name) for name in names if name.endswith(".wal")),
        sum(_size_of(path, name) for name in names if name.startswith("spare.")),
        quarantined(path),
    )


def _size_of(path: str, name: str) -> int:
    try:
        return os.lstat(os.path.join(path, name)).st_size
    except FileNotFoundError:
        return 0


def _stats_lines(known: _Stats) -> list[str]:
    kept = known.quarantine
    return [
        f"{printable(known.path)}: log {known.uuid}",
        f"in use by {known.held_by}; it goes on while this is read" if known.held_by else "in use by nobody",
        f"positions: acked to {known.low}, durable to {known.durable}, next {known.next}",
        f"backlog: {known.backlog_events} events, {known.backlog_bytes} bytes",
        f"cursor: generation {known.cursor_generation}, says durable to {known.cursor_durable}",
        f"on disk: {known.bytes} bytes in chunks, {known.spare_bytes} in spares",
        *(
            f"  {one['file']}: positions {one['first']} to {one['last']}, {one['bytes']} bytes"
            for one in known.chunks
        ),
        f"quarantine: {len(kept)} {'entry' if len(kept) == 1 else 'entries'}" if kept else "quarantine: empty",
        *(f"  {_kept_line(one)}" for one in kept),
    ]


def _kept_line(one: dict[str, object]) -> str:
    words = one["error"] if "error" in one else f"{one['bytes']} bytes"
    return printable(f"{one['name']}: {words}")


def check(path: At, as_json: AsJson = False) -> None:
    """Verify every header and record, and name each that is not sound. Changes nothing and takes no lock.

    Exit codes: 0 sound, 1 something is damaged, 74 not a log or not readable. What a crash left half written is
    told, but is no damage: nobody was promised it.
    """
    from walflow.wal.inspect import check as verify

    with _told():
        with _progress() as begin:
            view, findings = verify(str(path), begin)
        if as_json:
            typer.echo(json.dumps(_check_document(view, findings), indent=2))
        else:
            typer.echo("\n".join(_check_lines(view, findings)))
    if _damages(findings):
        raise typer.Exit(EX_FINDINGS)


@contextmanager
def _progress() -> "Generator[Callable[[int], Read]]":
    console = Console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:

        def begin(size: int) -> "Read":
            task = bar.add_task("", total=size)
            return lambda count: bar.advance(task, count)

        yield begin


def _damages(findings: "list[Finding]") -> "list[Finding]":
    return [finding for finding in findings if finding.kind != "torn"]


def _check_document(view: "View", findings: "list[Finding]") -> dict[str, object]:
    return {
        "path": view.directory.path,
        "uuid": view.found.uuid.hex(),
        "held_by": view.holder or None,
        "sound": not _damages(findings),
        "findings": [finding._asdict() for finding in findings],
    }


def _check_lines(view: "View", findings: "list[Finding]") -> list[str]:
    lines = [printable(str(finding)) for finding in findings]
    if view.holder:
        lines.append(f"in use by {view.holder}: what it was writing just now was left out")
    count = len(_damages(findings))
    size = sum(chunk.synced for chunk in view.chunks)
    what = f"{count} damaged" if count else "sound"
    lines.append(f"{what}: {len(view.chunks)} chunks, {size} bytes read")
    if count:
        lines.append(
            "the log opens all the same: it keeps a copy in quarantine/ of what was lost and goes on behind it"
        )
    return lines


def dump(
    path: At,
    first: Annotated[int, typer.Option("--from", help="The first position.", min=1)] = 1,
    last: Annotated[
        int, typer.Option("--to", help="The last position, included.", min=1, show_default=False)
    ] = EVERYTHING,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes of the payloads and nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, for scripts.")] = False,
) -> None:
    """Print the events that a log still holds, acked ones too. Changes nothing, and takes no lock.

    A line: position, time of arrival, source#stream, metadata, event. What cannot be read is told on stderr, and the
    exit code is 1 then.
    """
    if raw and as_json:
        raise _end("--raw and --json exclude each other", 2)
    with _told():
        gaps = _dump(str(path), first, last, _raw if raw else _json_lines if as_json else _text_lines)
    if gaps:
        raise typer.Exit(EX_FINDINGS)


def _dump(path: str, first: int, last: int, form: "Callable[[View, list[_Event]], bytes]") -> int:
    from walflow.relay.tag import Tags
    from walflow.wal import Gap
    from walflow.wal.inspect import look, records

    out, tags, gaps = _stdout(), Tags(), 0
    view = look(path)
    for one in records(view, first, last):
        if isinstance(one, Gap):
            gaps += 1
            out.flush()
            typer.echo(_gap_line(one), err=True)
        else:
            out.write(form(view, _events(tags, one, first, last)))
    out.flush()
    return gaps


def _stdout() -> BinaryIO:
    try:
        return typer.get_binary_stream("stdout")
    except RuntimeError:  # it was closed from the start
        raise BrokenPipeError from None


def _gap_line(gap: "Gap") -> str:
    where = f" in {gap.file} at {gap.offset}, {gap.size} bytes" if gap.file else ""
    return f"walflow: positions {gap.first} to {gap.last}: {gap.reason}{where}"


class _Event(NamedTuple):
    """One event, or a whole record (`count` positions) that cannot be taken apart: then `error` says why."""

    position: int
    count: int  # type: ignore[assignment]  # nobody misses tuple.count
    ingest_ns: int
    tag: "Tag | None"
    number: int  # in its record
    payload: bytes  # as it is in the log, with its framing
    value: object
    error: str


def _events(tags: "Tags", record: "Record", first: int, last: int) -> list[_Event]:
    import msgspec

    from walflow.event import Frames

    try:
        tag = tags.decode(record.tag)
        parts = Frames(record.payload, record.count, tag.framing).parts([1] * record.count)
        if len(parts) != record.count:
            raise WalflowError(f"{len(parts)} events where {record.count} were counted")
    except (msgspec.MsgspecError, WalflowError, ValueError, IndexError) as error:
        why = f"not to be decoded: {error}"
        return [_Event(record.position, record.count, record.ingest_ns, None, 0, record.payload, None, why)]
    return [
        _event(record, tag, number, parts[number].data, parts[number].payloads())
        for number in range(max(first - record.position, 0), min(last + 1 - record.position, record.count))
    ]


def _event(record: "Record", tag: "Tag", number: int, data: bytes, payloads: list[bytes]) -> _Event:
    value, why = None, ""
    try:
        (payload,) = payloads
        value = tag.codec.decode(payload)
    except (WalflowError, ValueError) as error:
        why = f"not {tag.codec.name}: {error}"
    return _Event(record.position + number, 1, record.ingest_ns, tag, number, data, value, why)


def _raw(view: "View", events: list[_Event]) -> bytes:
    return b"".join([event.payload for event in events])


def _text_lines(view: "View", events: list[_Event]) -> bytes:
    return "".join([_text_line(event) + "\n" for event in events]).encode(errors="backslashreplace")


def _text_line(event: _Event) -> str:
    position = str(event.position) if event.count == 1 else f"{event.position}-{event.position + event.count - 1}"
    source = f"{event.tag.stream.connector}#{event.tag.stream.number}" if event.tag else "?"
    words = f"({event.error}) {event.payload!r}" if event.error else _compact(event.value)
    return printable(f"{position} {_time(event.ingest_ns)} {source} {_compact(_meta(event))} {words}")


def _meta(event: _Event) -> dict[str, object]:
    if event.tag is None:
        return {}
    metas = event.tag.event_metas
    return {**event.tag.meta, **(metas[event.number] if metas is not None else {})}


def _json_lines(view: "View", events: list[_Event]) -> bytes:
    return "".join([_compact(_document(view, event)) + "\n" for event in events]).encode(errors="backslashreplace")


def _document(view: "View", event: _Event) -> dict[str, object]:
    known: dict[str, object] = {"position": event.position, "ingest_ns": event.ingest_ns}
    known["acked"] = view.found.acked.covers(event.position, event.position + event.count - 1)
    if event.tag is not None:
        stream = event.tag.stream
        known |= {"source": stream.connector, "run": stream.run, "stream": stream.number}
        known |= {"codec": event.tag.codec.name, "meta": _meta(event)}
    if event.error:
        payload = base64.b64encode(event.payload).decode()
        return {**known, "count": event.count, "error": event.error, "payload_base64": payload}
    return {**known, "event": event.value}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_foreign)


def _foreign(value: object) -> str:
    """Bytes, which metadata may hold, and whatever else has no JSON."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _time(ingest_ns: int) -> str:
    seconds, rest = divmod(ingest_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"
    except (ValueError, OverflowError, OSError):
        return f"{ingest_ns}ns"


def repair(
    path: At,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep: Annotated[
        str, typer.Option(metavar="UUID", help="Of several logs in one directory, the one that stays.")
    ] = "",
) -> None:
    """Make a log open again. Says first what it would do; what is in the way goes to quarantine/, nothing is deleted.

    Stop the daemon before. Exit codes: 0 it opens (with --dry-run: nothing to do), 1 there is something to do that was
    not done, 74 it needs a person, and the lines say what for, 75 a process holds the log.
    """
    with _told():
        done = _repair(os.path.normpath(path), dry_run=dry_run, yes=yes, keep=keep)
    if not done:
        raise typer.Exit(EX_FINDINGS)


def _repair(path: str, *, dry_run: bool, yes: bool, keep: str) -> bool:
    from walflow.wal.repair import Hold, obstacles

    for _ in range(ROUNDS):
        with Hold(path) as hold:
            steps = obstacles(path, keep)
            if not steps:
                break
            _say(steps)
            if not _agreed(dry_run=dry_run, yes=yes):
                return False
            _do(steps, hold)
    else:
        raise WalflowError(f"{path}: what was put out of the way comes back: something else works on this directory")
    return _start(path, dry_run=dry_run, yes=yes)


def _say(steps: "list[Step]") -> None:
    for step in steps:
        typer.echo(printable(f"to do: {step.what}" if step.do else f"for you to do: {step.what}"))
    if any(step.do is None for step in steps):
        raise WalflowError("nothing was changed: do what is said above, then run this again")


def _agreed(*, dry_run: bool, yes: bool) -> bool:
    if dry_run:
        typer.echo("nothing was changed: this was a dry run")
        return False
    if yes:
        return True
    try:
        agreed = typer.confirm("Do it?")
    except typer.Abort:
        agreed = False
    if not agreed:
        typer.echo("nothing was changed; --yes does it without asking")
    return agreed


def _do(steps: "list[Step]", hold: "Hold") -> None:
    for step in steps:
        hold.take(create=True)  # the first step may have been what makes that possible
        if step.do is not None:
            step.do()
            typer.echo(printable(f"done: {step.what}"))


def _start(path: str, *, dry_run: bool, yes: bool) -> bool:
    """What a daemon does when it starts: the rest of the repair, and the proof of it."""
    from walflow.wal import Log, Options
    from walflow.wal.inspect import look
    from walflow.wal.repair import Hold

    with Hold(path):
        lines = look(path).to_do
    if lines:
        typer.echo("\n".join(printable(f"a start does the rest: {line}") for line in lines))
        if not _agreed(dry_run=dry_run, yes=yes):
            return False
    if dry_run:
        typer.echo("nothing to do: it opens")
        return True
    log = Log(Options(path))
    try:
        left = log.durable - log.low - log.acked.above
        typer.echo(
            printable(f"it opens: {path} acked to {log.low}, durable to {log.durable}, {left} events to deliver")
        )
    finally:
        log.close()
    return True
