"""`walflow wal export`."""

from typing import TYPE_CHECKING, Annotated

import typer

from walflow.cli.wal.places import EVERYTHING, From, To, positions
from walflow.cli.wal.terminal import At, end, gap_line, progress, stdout, tell, told
from walflow.exit_codes import EX_FINDINGS, EX_UNAVAILABLE
from walflow.extras import lacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from walflow.cli.wal.lines import ExportLine, Gone, LineWriter, LogLine, LostLine
    from walflow.wal import Gap, Record
    from walflow.wal.cursor import Acked
    from walflow.wal.tools.inspect import View


def export(
    path: At,
    first: From = 1,
    last: To = EVERYTHING,
    arrow: Annotated[
        bool,
        typer.Option(
            "--arrow",
            help="Print an Arrow stream instead, for DuckDB, Polars or pandas: position, time, source, value (JSON).",
        ),
    ] = False,
) -> None:
    """Print a whole log as lines of JSON, for `walflow wal import`. Changes nothing and takes no lock.

    The first line describes the log. If it has several lanes, the next lines say what each sink has acked. Then each
    record is one line: its positions, how many of them are acked, time of arrival, source, codec, framing, metadata
    and payload. With --from or --to, all other positions count as acked.
    Records that cannot be read are reported on stderr. If they were not acked, they are also a line, so that the
    imported log reports them as lost.

    Exit codes: 0 everything was read, 1 something could not be read or decoded, 69 `--arrow` without pyarrow, 74 not
    a log or not readable.
    """
    with told():
        failed = _arrow(str(path), first, last) if arrow else _export(str(path), first, last)
    if failed:
        raise typer.Exit(EX_FINDINGS)


def _arrow(path: str, first: int, last: int) -> int:
    """How much could not be read, or decoded."""
    from walflow.wal import Gap
    from walflow.wal.tools.inspect import GONE, look, records

    try:
        from walflow.cli.wal.arrow import write_arrow
    except ImportError:
        raise end(lacks("`--arrow`", "arrow"), EX_UNAVAILABLE) from None
    gaps: list[Gap] = []

    def sound(found: "Iterable[Record | Gap]") -> "Iterator[Record]":
        for one in found:
            if not isinstance(one, Gap):
                yield one
            elif one.reason != GONE:
                gaps.append(one)

    out, view = stdout(), look(path)
    first, last = positions(view, first, last)
    with progress("exporting", beside=True) as begin:
        found = records(view, first, last, begin(view.bytes_from(first, last)))
        lacking = write_arrow(sound(found), first, last, out)
    out.flush()
    for gap in gaps:
        tell(gap_line(gap))
    if lacking:
        tell(f"{lacking:,} events could not be decoded: their value is null")
    return len(gaps) + lacking


def _export(path: str, first: int, last: int) -> int:
    from walflow.cli.wal.lines import LineWriter, MarkLine, encode
    from walflow.wal.tools.inspect import acked_by_cursor, look, records

    out = stdout()
    gaps: list[Gap] = []
    view = look(path)
    first, last = positions(view, first, last)
    durable = _end(view, last)
    acked = _part(acked_by_cursor(view), first, last, durable)
    marks = {name: _part(mark, first, last, durable) for name, mark in view.marks.items()}
    out.write(encode(_head(view, acked, durable)) + b"\n")
    for name, mark in marks.items():
        out.write(encode(MarkLine(name, mark.low, list(mark.ranges))) + b"\n")
    with progress("exporting", beside=True) as begin:
        found = records(view, first, durable, begin(view.bytes_from(first, durable)))
        terms = [(chunk.first, chunk.salt) for chunk in view.chunks]
        for line in _merged(_lines(found, LineWriter(acked, terms), acked, gaps)):
            out.write(encode(line) + b"\n")
    out.flush()
    for gap in gaps:
        tell(gap_line(gap))
    return len(gaps)


def _head(view: "View", acked: "Acked", durable: int) -> "LogLine":
    from walflow.cli.wal.lines import VERSION, LogLine

    return LogLine(VERSION, view.found.uuid.hex(), acked.low, durable, list(acked.ranges))


def _end(view: "View", last: int) -> int:
    """The last position of a log that has only those up to `last`. Records stay whole."""
    from walflow.wal.tools.inspect.walk import walk

    if last >= view.found.durable:
        return view.found.durable
    return max([place.last for place in walk(view.directory, view.chunks, last, last)], default=last)


def _part(acked: "Acked", first: int, last: int, durable: int) -> "Acked":
    """What is acked in a log that ends at `durable` and has events at `first` to `last` only."""
    from walflow.wal.tools.inspect.view import up_to

    part = up_to(acked, durable)
    part.add(last + 1, durable)
    part.add(1, min(first - 1, durable))
    return part


def _lines(
    found: "Iterable[Record | Gap]", writer: "LineWriter", acked: "Acked", gaps: "list[Gap]"
) -> "Iterator[ExportLine | LostLine | Gone]":
    from walflow.cli.wal.lines import Gone, LostLine
    from walflow.wal import Gap
    from walflow.wal.tools.inspect import GONE

    for one in found:
        if not isinstance(one, Gap):
            yield writer.line(one)
            continue
        kind = Gone if one.reason == GONE else LostLine
        if kind is LostLine:
            gaps.append(one)
        for first, last in acked.missing(one.first, one.last):
            yield kind(first, last)


def _merged(lines: "Iterable[ExportLine | LostLine | Gone]") -> "Iterator[ExportLine | LostLine | Gone]":
    """Joins lines of neighbouring lost positions: it is not kept in how many records they were."""
    from walflow.cli.wal.lines import LostLine

    waiting: LostLine | None = None
    for line in lines:
        if isinstance(line, LostLine) and waiting is not None and line.first == waiting.last + 1:
            waiting.last = line.last
            continue
        if waiting is not None:
            yield waiting
        waiting = line if isinstance(line, LostLine) else None
        if waiting is None:
            yield line
    if waiting is not None:
        yield waiting
