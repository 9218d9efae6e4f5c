"""What a worker does: it fetches the rows of a range, over a connection that it keeps for the next one,
or out of the log's files."""

import os
import sys
from collections.abc import Generator, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_walflow.client import Client, LostPositions, integer
from pyspark_walflow.columns import Columns, find_crc, first_of
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.local_files import FilePart, UnreadableFile
from pyspark_walflow.options import Options
from pyspark_walflow.planner import Patience, line_of
from pyspark_walflow.reuse import settle
from pyspark_walflow.wire import Code, Damaged, FrameKind, RequestRefused, WireKey


class Range(InputPartition):
    """Positions `first` to `end`, the latter excluded, and the ticket that opens them."""

    def __init__(self, first: int, end: int, log: str, ticket: WireKey) -> None:
        self.first = first
        self.end = end
        self.log = log
        self.ticket = ticket

    def __repr__(self) -> str:
        return f"Range({self.first}, {self.end})"


def fetch(options: Options, wanted: Range, consumer: str) -> Iterator[pa.RecordBatch]:
    """All rows of the range, in order. What does not come is said, never left out. Raises WalflowError."""
    yield from _Fetch(options, wanted, consumer).rows()
    settle()


class _Fetch:
    def __init__(self, options: Options, wanted: Range, consumer: str) -> None:
        crc = find_crc()
        self._options = options
        self._wanted = wanted
        self._consumer = consumer
        self._position = wanted.first
        self._columns = Columns(binary=options.binary, crc=crc, metadata=options.metadata, needed=options.columns)
        self._summed = crc is None
        self._files = crc is not None and options.local_files and wanted.log not in unreadable
        self._patience = Patience(options.endpoint)

    def rows(self) -> Iterator[pa.RecordBatch]:
        while self._position < self._wanted.end:
            parts = yield from self._ask()
            if parts:
                yield from self._from_files(parts)

    def _ask(self) -> Generator[pa.RecordBatch, None, list[FilePart]]:
        """The rows that the daemon sends, once, and in which files those are that it does not send."""
        options, end = self._options, self._wanted.end
        client: Client | None = None
        try:
            client = _take(options, self._wanted)
            parts = yield from self._received(client)
            if self._position < end and not parts:
                raise WalflowError(
                    f"positions {self._position} to {end - 1} did not come, and the daemon did not say why"
                )
            _give_back(options, self._wanted, client)
            client = None
            return parts
        except (OSError, Damaged) as error:
            self._patience.wait(error, options.retry_seconds)
        except RequestRefused as error:
            if error.code == Code.BELOW_FLOOR and not options.fail_on_data_loss and client is not None:
                self._position = _skip(options, client, self._position, end)
            else:
                self._patience.wait(error, options.retry_seconds)
        finally:
            if client is not None:
                client.close()
        return []

    def _received(self, client: Client) -> Generator[pa.RecordBatch, None, list[FilePart]]:
        parts: list[FilePart] = []
        files = self._files and client.near
        asked = self._position, self._wanted.end, self._consumer
        for found in client.read(*asked, summed=self._summed, files=files):
            if isinstance(found, FilePart):
                parts.append(found)
            elif isinstance(found, LostPositions):
                self._position = _lost(self._options, found, self._position)
            else:
                yield from self._rows_of(*found)
                self._patience.renew()
        return parts

    def _from_files(self, parts: list[FilePart]) -> Iterator[pa.RecordBatch]:
        """What is wrong with them is the daemon's to judge: it is asked to send what did not come."""
        try:
            for part in parts:
                for records in part.records(self._wanted.end):
                    yield from self._rows_of(part.seed, records)
        except UnreadableFile:
            unreadable.add(self._wanted.log)
        except (OSError, Damaged) as error:
            tell(f"{error}; the daemon is asked for the events from position {self._position} on")
        self._files = False  # no matter after the last row

    def _rows_of(self, seed: int, records: memoryview) -> Iterator[pa.RecordBatch]:
        for batch in self._columns.batches(seed, records, self._position, self._wanted.end):
            _expect(self._position, batch)
            yield self._columns.shown(batch)
            self._position += batch.num_rows


def _expect(position: int, batch: pa.RecordBatch) -> None:
    came = first_of(batch)
    if came != position:
        raise WalflowError(f"position {position} was to come, {came} came")


def _lost(options: Options, lost: LostPositions, position: int) -> int:
    line = f"positions {lost.first} to {lost.last} are lost: {lost.reason}"
    if lost.empty and lost.first <= position:
        return max(position, lost.last + 1)
    if options.fail_on_data_loss:
        raise WalflowError(f'{line}; option("failOnDataLoss", "false") goes on behind them')
    if lost.first > position:
        raise WalflowError(f"positions {position} to {lost.first - 1} did not come, and the daemon did not say why")
    tell(f"{line}; failOnDataLoss is false, so it goes on behind them")
    return max(position, lost.last + 1)


def _skip(options: Options, client: Client, position: int, end: int) -> int:
    try:
        floor = min(integer(client.call(FrameKind.HEAD, {}), "floor"), end)
    except (OSError, RequestRefused, Damaged) as error:
        raise WalflowError(line_of(error, options.endpoint)) from None
    if floor > position:
        tell(f"positions {position} to {floor - 1} are gone; failOnDataLoss is false, so it goes on behind them")
    return floor


unreadable: Final[set[str]] = set()  # logs whose files this process could not open

# One connection, of the last task of this process: the next one is likely of the same query. Spark gives a process
# one task at a time.
_kept: dict[tuple[object, ...], Client] = {}


def _take(options: Options, wanted: Range) -> Client:
    client = _kept.pop(_name(options, wanted), None)
    forget()
    return client or Client(options.endpoint, wanted.ticket, wanted.log)


def _give_back(options: Options, wanted: Range, client: Client) -> None:
    _kept[_name(options, wanted)] = client


def forget() -> None:
    """Closes what is kept."""
    while _kept:
        _kept.popitem()[1].close()


def _name(options: Options, wanted: Range) -> tuple[object, ...]:
    return os.getpid(), options.endpoint, wanted.log, wanted.ticket.secret


def tell(line: str) -> None:
    sys.stderr.write(f"walflow: {line}\n")
    sys.stderr.flush()
