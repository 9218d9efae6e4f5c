"""`walflow wal import`."""

import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from walflow.admin.text import printable
from walflow.cli.wal.terminal import AsJson, end, progress, told
from walflow.errors import WalflowError
from walflow.exit_codes import EX_CANTCREAT, EX_DATAERR, EX_NOINPUT, EX_USAGE

if TYPE_CHECKING:
    from walflow.cli.wal.lines import ExportLine, LogLine, MarkLine
    from walflow.wal.cursor import Acked
    from walflow.wal.tools.build import Builder

Target = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="The directory of the new log. It must be missing or empty.", readable=False),
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="FILE", help="The output of export. Default: stdin, also written as -.", show_default=False
    ),
]
ChunkSize = Annotated[
    int,
    typer.Option(help="Size in bytes after which a new file begins, as in the flow file.", min=1024, metavar="BYTES"),
]


class BadLine(WalflowError):
    """`file:line: reason`."""


def import_(path: Target, file: Source = "-", chunk_size: ChunkSize = 64 << 20, as_json: AsJson = False) -> None:
    """Make a log from the lines that `walflow wal export` printed: with the same positions, terms, acks, metadata and
    records. A sink gets what it had not acked; a table knows again what it has.

    The log is built in PATH.importing and renamed to PATH when all of it is on disk. So PATH is a complete log or
    does not exist.

    Exit codes: 0 done, 65 a line is wrong, 66 FILE cannot be read, 73 PATH exists already, 74 the disk fails, 75
    another process imports to PATH.
    """
    from walflow.wal.tools.build import Taken

    with told():
        try:
            with _opened(file) as (name, lines, size), progress("importing") as begin:
                known = _import(os.path.normpath(path), name, lines, begin(size), chunk_size)
        except BadLine as error:
            raise end(str(error), EX_DATAERR) from None
        except Taken as error:
            raise end(str(error), EX_CANTCREAT) from None
        typer.echo(json.dumps(known, indent=2) if as_json else printable(_told(known)))


@contextmanager
def _opened(file: str) -> Generator[tuple[str, BinaryIO, int]]:
    """Its name, the file, and its size in bytes or 0."""
    if file == "-":
        if sys.stdin is None or sys.stdin.isatty():
            raise end("name a FILE, or send lines to stdin", EX_USAGE)
        yield "stdin", typer.get_binary_stream("stdin"), 0
        return
    try:
        lines = open(file, "rb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise end(f"{file}: {error.strerror}", EX_NOINPUT) from None
    with lines:
        yield file, lines, os.fstat(lines.fileno()).st_size


def _import(path: str, name: str, lines: BinaryIO, read: Callable[[int], None], chunk_size: int) -> dict[str, object]:
    from walflow.wal.tools.build import Builder

    story = ImportReport(name, lines, read)
    builder = Builder(path, bytes.fromhex(story.head.uuid), story.acked, chunk_size)
    try:
        story.tell(builder)
        again = builder.finish(story.head.durable, story.marks)
    except BaseException:
        builder.discard()
        raise
    low, durable = story.acked.low, story.head.durable
    left = durable - low - story.acked.above
    counts = {"records": builder.records, "low": low, "durable": durable, "backlog_events": left}
    return {"path": path, "uuid": story.head.uuid, **counts, "ranges_left_out": again}


def _told(known: dict[str, object]) -> str:
    line = (
        "imported: {path} with {records} records, acked to {low}, durable to {durable}, "
        "{backlog_events} events to deliver"
    )
    more = "; {ranges_left_out} ranges of acked positions do not fit the cursor and are delivered again"
    return (line + (more if known["ranges_left_out"] else "")).format(**known)


class ImportReport:
    """Reads the lines and checks them: every position up to `durable` must be acked, in a record,
    or reported as lost."""

    def __init__(self, name: str, lines: BinaryIO, read: Callable[[int], None]) -> None:
        self._name = name
        self._lines = lines
        self._read = read
        self._number = 0
        self._last = 0  # position
        self.marks: dict[str, Acked] = {}
        self.head, self.acked = self._begin()

    def tell(self, builder: "Builder") -> None:
        """Raises BadLine."""
        from walflow.cli.wal.lines import ExportLine, Gone, MarkLine, read_line, record_of

        while (data := self._next()) is not None:
            with self._bad():
                line = read_line(data)
                if isinstance(line, ExportLine):
                    record = record_of(line)
                    self._expect(line.position, line.position + line.count - 1)
                    self._expect_acked(line)
                    builder.add(record, line.term if isinstance(line.term, int) else None)
                    continue
                if isinstance(line, MarkLine):
                    self._mark(line)
                    continue
                self._expect(line.first, line.last)
                if isinstance(line, Gone):
                    self.acked.add(line.first, line.last)
        self._number += 1
        with self._bad():
            self._expect_all(self.head.durable)

    def _begin(self) -> "tuple[LogLine, Acked]":
        from walflow.cli.wal.lines import read_head
        from walflow.wal.cursor import Acked

        data = self._next()
        with self._bad():
            if data is None:
                raise ValueError("there is no line")
            head = read_head(data)
        return head, Acked(head.low, head.ranges)

    def _mark(self, line: "MarkLine") -> None:
        from walflow.cli.wal.lines import tidy

        if self._last:
            raise ValueError("marks come before all records")
        if line.name in self.marks:
            raise ValueError(f"there is a mark of {line.name!r} already")
        self.marks[line.name] = tidy(line.low, line.ranges, self.head.durable)

    def _next(self) -> bytes | None:
        data = self._lines.readline()
        self._read(len(data))
        if data:
            self._number += 1
        return data or None

    @contextmanager
    def _bad(self) -> Generator[None]:
        import msgspec

        try:
            yield
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadLine(f"{self._name}:{max(self._number, 1)}: {error}") from None

    def _expect(self, first: int, last: int) -> None:
        """That the line is in its place, and no position before it is missing."""
        if last < first:
            raise ValueError(f"positions {first} to {last} are none")
        if first <= self._last:
            raise ValueError(f"position {first} comes after {self._last}: positions must increase")
        if last > self.head.durable:
            raise ValueError(f"position {last} is above {self.head.durable}, which the first line says is the last")
        self._expect_all(first - 1)
        self._last = last

    def _expect_all(self, last: int) -> None:
        missing = self.acked.missing(self._last + 1, last)
        if missing:
            first, end = missing[0]
            raise ValueError(f"positions {first} to {end} are missing: they are not acked, and no line has them")

    def _expect_acked(self, line: "ExportLine") -> None:
        parts = self.acked.missing(line.position, line.position + line.count - 1)
        acked = line.count - sum(last - first + 1 for first, last in parts)
        if isinstance(line.acked, int) and line.acked != acked:
            raise ValueError(f"acked is {line.acked}, and the first line says {acked} of these positions are")
