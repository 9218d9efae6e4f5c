"""What Spark calls: the driver plans ranges of positions, the workers fetch them.

An offset is {"log": uuid, "position": next, "consumer": name, "scan": name}, with a "time" where nothing came
(pyspark_walflow.quiet), and a range half-open. The same range
gives the same rows until it is committed. The scan names the checkpoint: it is drawn where a checkpoint
begins, and every start from that checkpoint finds it again in its offsets.
"""

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pyspark_walflow.columns import Columns
from pyspark_walflow.errors import WalflowError
from pyspark_walflow.fetch import Range, fetch, tell
from pyspark_walflow.older_spark import (
    PUSHES,
    Filter,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark_walflow.options import FROM_COMMITTED, Options
from pyspark_walflow.planner import ANEW, Away, KnownHead, Planned, Planner, Unreachable
from pyspark_walflow.pushdown import Bounds, Narrowed, Pushdown, narrowed
from pyspark_walflow.quiet import Quiet, now_ns
from pyspark_walflow.wire import Right, WireKey

PARTITION_BYTES: Final = 16 << 20
ALL: Final = (1 << 63) - 1

ASKS_AGAIN: Final = 1.0  # seconds, at a daemon that is away
TIME: Final = "time"  # in an offset
AWAY: Final = "away"  # in the offset of a progress

Offset = dict[str, object]


class OffsetPlace(NamedTuple):
    """What an offset says. `scan` is empty in offsets that are older than scans are."""

    log: str
    position: int
    consumer: str
    scan: str


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in the planner's process, one for each query; workers get a copy for `read` alone."""

    def __init__(self, options: Options, quiet: Quiet | None = None) -> None:
        self._options = options
        self._quiet = quiet
        self._came = 0  # when an event came last, by this machine's clock
        self._planner: Planner | None = None
        self._target: int | None = None
        self._committed = 0
        self._away = ""  # why
        self._asks_again = float("-inf")
        self._known: Offset | None = None  # the end of the log, when it was asked for last
        self._planned: tuple[int, Planned] | None = None
        self._scan: str | None = None  # not known before the first offset
        self._initial: Offset | None = None
        self._began = float("-inf")  # the last batch; so the first one of a start does not wait for minRowsPerBatch

    def __getstate__(self) -> dict[str, object]:
        return {"_options": self._options, "_quiet": self._quiet}

    def initialOffset(self) -> Offset:
        """The same one each time: Spark asks when it plans the first batch, and again when it runs it."""
        if self._initial is None:
            self._initial = self._find_initial()
        return self._initial

    def hurrying(self) -> AbstractContextManager[None]:
        """Within it a daemon that is away is not waited for: that raises Unreachable."""
        return self._planning(None).hurrying()

    def _find_initial(self) -> Offset:
        planner = self._planning(None)
        if self._scan is None:
            self._begin(planner, secrets.token_hex(8))
        head, starting = planner.head(), self._options.starting
        if self._options.starting_ns is not None:
            return self._offset(planner.position_at(self._options.starting_ns, head))
        if starting is None:
            return self._offset(self._newest())
        if starting == FROM_COMMITTED:
            return self._offset(planner.committed())
        if starting > head.next:
            raise WalflowError(f"option startingPosition is {starting}: the log ends before {head.next}")
        if 0 < starting < head.floor:
            self._below_floor(starting)
            tell(
                f"positions {starting} to {head.floor - 1} are gone; failOnDataLoss is false, "
                "so it begins behind them"
            )
        return self._offset(max(starting, head.floor))

    def _newest(self) -> int:
        return self._planning(None).head().next

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._planning(None).head().next

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """A daemon that is away has nothing new: the query may read others too."""
        planner, position = self._at(start)
        if self._target is not None:
            if start != self._initial:
                self._commit(planner, position)
            return self._latest(planner, start, limit)
        if time.monotonic() < self._asks_again:
            return start
        try:
            with planner.hurrying():
                latest = self._latest(planner, start, limit)
        except Away as error:
            self._is_away(start, error)
            return start
        self._away = ""
        return latest

    def _is_away(self, start: Offset, error: Away) -> None:
        if not self._away:
            tell(f"nothing new of consumer {self._options.consumer!r}, its daemon is away: {error}")
        self._away = str(error)
        self._known = self._known or start
        self._asks_again = time.monotonic() + ASKS_AGAIN

    def _latest(self, planner: Planner, start: Offset, limit: ReadLimit) -> Offset:
        position = self._place(start).position
        needed, ms = self._needed(limit)
        # not as long as it may take: a batch may be large enough by its bytes
        head = planner.head() if self._target is not None else planner.wait(position + needed - 1, ms)
        until = head.next if self._target is None else min(self._target, head.next)
        if position < head.floor:
            self._below_floor(position)
        begin = max(position, head.floor)
        if until <= begin:
            return self._later(start) if until <= position else self._offset(until)
        self._came = now_ns()
        if isinstance(limit, ReadAllAvailable):
            return self._offset(until)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else ALL
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.max_bytes
        planned = planner.plan(begin, min(rows, until - begin), size)
        end = min(planned.end, until)
        if end == until and until - begin < needed and self._needed(limit)[0] > 1:
            return start
        self._planned = begin, Planned(end, planned.size)
        self._began = time.monotonic()
        return self._offset(end)

    def _later(self, start: Offset) -> Offset:
        """The same position; where windows may be open, and some time has passed, with what time it is."""
        if self._quiet is None or self._target is not None:
            return start
        now, told = now_ns(), time_of(start)
        self._came = self._came or now
        tick = self._quiet.next(told or self._came, self._came, now)
        return start if tick is None or tick <= told else start | {TIME: tick}

    def _needed(self, limit: ReadLimit) -> tuple[int, int]:
        """How many rows are worth a batch now, and how many milliseconds the daemon may wait for them."""
        options = self._options
        left = self._began + options.max_delay - time.monotonic()
        if self._target is not None or isinstance(limit, ReadAllAvailable) or left <= 0:
            return 1, options.poll_ms
        return options.min_rows, min(options.poll_ms, int(left * 1000) + 1)

    def reportLatestOffset(self) -> Offset:
        """For the query's progress. `away`: why the daemon does not answer; the position is an old one then."""
        planner = self._planning(None)
        if not self._away:
            try:
                with planner.hurrying():
                    self._known = self._offset(planner.head().next)
            except Away as error:
                if self._known is None:
                    raise
                return self._known | {AWAY: str(error)}
        assert self._known is not None
        return self._known | {AWAY: self._away} if self._away else self._known

    def partitions(self, start: Offset, end: Offset) -> list[Range]:
        # of a first batch that is done again `start` is a new initial offset; which checkpoint it is says `end`
        planner, last = self._at(end)
        first = self._place(start).position
        if first >= last:
            tick = time_of(end)
            return [TickRange(tick, planner.log, self._options.key())] if tick > time_of(start) else []
        head = planner.head()
        if first < head.floor:
            self._below_floor(first)
        begin = min(max(first, head.floor), last - 1)
        if self._planned is not None and self._planned[0] == begin and self._planned[1].end == last:
            size = self._planned[1].size
        else:
            size = 0 if begin < head.floor else planner.plan(begin, last - begin, ALL, last).size
        return _split(first, last, _tasks(self._options, size), planner.log, self._options.key())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        if isinstance(partition, TickRange):
            return iter([tick_row(self._options, partition.time)])
        return fetch(self._options, partition, self._options.consumer)

    def commit(self, end: Offset) -> None:
        planner, position = self._at(end)
        self._commit(planner, position)

    def _commit(self, planner: Planner, position: int) -> None:
        """An error would end the query, and a lost ack is only a late one: the next covers it.

        Spark says `commit` of a batch when the next one begins, so a run of `availableNow` would never commit its
        last. But it asks for the offset behind a batch once the batch is in its commit log. With asynchronous
        progress tracking it asks before that; Spark refuses that with `availableNow`."""
        if position == self._committed:
            return
        try:
            with planner.hurrying():
                planner.commit(position)
            self._committed = position
        except Unreachable as error:
            tell(f"position {position} is not committed now, the next commit will cover it: {error}")

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _planning(self, log: str | None) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._options, log)
        return self._planner

    def _begin(self, planner: Planner, scan: str) -> None:
        self._scan = scan
        planner.begin(scan)

    def _place(self, offset: Offset) -> OffsetPlace:
        place = place_of(offset)
        if place.consumer != self._options.consumer:
            raise WalflowError(
                f"the checkpoint is of consumer {place.consumer!r}, and option consumer is "
                f"{self._options.consumer!r}: go on as the first, or {ANEW}"
            )
        return place

    def _at(self, offset: Offset) -> tuple[Planner, int]:
        place = self._place(offset)
        planner = self._planning(place.log)
        self._begin(planner, place.scan)
        if planner.log != place.log:
            raise WalflowError(
                f"the checkpoint is of log {place.log}, and at {self._options.endpoint} is log {planner.log}: "
                f"go to the daemon that has the first, or {ANEW}"
            )
        return planner, place.position

    def _offset(self, position: int) -> Offset:
        offset: Offset = {"log": self._planning(None).log, "position": position, "consumer": self._options.consumer}
        return offset | {"scan": self._scan} if self._scan else offset

    def _below_floor(self, position: int) -> None:
        """Has the daemon say who committed it, unless that does not matter."""
        if self._options.fail_on_data_loss:
            self._planning(None).plan(position, 1, 1)
            raise WalflowError(f"position {position} is gone")


class BatchReader(DataSourceReader):
    """What the log holds now. It leases nothing and commits nothing, so what it reads may be deleted under it; then
    it fails, with the name of who committed it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._narrowed = Narrowed()

    if PUSHES:

        @property
        def pushFilters(self) -> Pushdown:  # pyright: ignore[reportIncompatibleMethodOverride]
            return Pushdown(self._narrow)

    def _narrow(self, filters: Sequence[Filter]) -> None:
        self._narrowed = narrowed(filters)

    def partitions(self) -> list[Range]:
        planner = Planner(self._options, None)
        try:
            return self._plan(planner, planner.head())
        finally:
            planner.close()

    def _plan(self, planner: Planner, head: KnownHead) -> list[Range]:
        options, (positions, ingest_ns) = self._options, self._narrowed
        first, end = self._said_bounds(planner, head)
        first = min(max(first, positions.low), end)
        end = max(min(end, positions.end), first)
        begin = max(first, head.floor)
        if first < end and begin > first and options.fail_on_data_loss:
            planner.plan(first, 1, 1)
        if begin < end and ingest_ns != Bounds():
            first, end = planner.locate(begin, end, ingest_ns.low, ingest_ns.end)
            begin = first
        size = planner.plan(begin, end - begin, ALL, end).size if begin < end else 0
        return _split(first, end, _tasks(options, size), planner.log, options.key())

    def _said_bounds(self, planner: Planner, head: KnownHead) -> tuple[int, int]:
        """The first position and the end, as the options say."""
        options = self._options
        if options.starting_ns is not None:
            first = planner.position_at(options.starting_ns, head)
        elif options.starting is None:
            first = head.next
        elif options.starting == FROM_COMMITTED:
            first = planner.committed()
        else:
            first = options.starting or head.floor
        if options.ending_ns is not None:
            end = max(first, planner.position_at(options.ending_ns, head))
        else:
            end = head.next if options.ending is None else options.ending
        for name, position in (("starting", first), ("ending", end)):
            if position > head.next:
                raise WalflowError(f"option {name}Position is {position}: the log ends before {head.next}")
        if end < first:
            raise WalflowError(f"option endingPosition is {end}, and it begins at {first}")
        return first, end

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        return fetch(self._options, partition, "")


def time_of(offset: Offset) -> int:
    """The time that an offset tells, 0 where it tells none."""
    told = offset.get(TIME)
    return told if isinstance(told, int) else 0


class TickRange(Range):
    """No position: only what time it is, in nanoseconds."""

    def __init__(self, time: int, log: str, key: WireKey) -> None:
        super().__init__(0, 0, log, key.ticket(Right.READ, log))
        self.time = time


def tick_row(options: Options, time: int) -> pa.RecordBatch:
    schema = Columns(binary=options.binary, crc=None, metadata=options.metadata, needed=options.columns).schema
    row = {"ingest_ns": time} if "ingest_ns" in options.columns else {}
    made: pa.RecordBatch = pa.RecordBatch.from_pylist([row], schema=schema)  # pyright: ignore[reportUnknownMemberType]
    return made


def place_of(offset: Mapping[str, object]) -> OffsetPlace:
    """Raises WalflowError."""
    log, position, consumer = offset.get("log"), offset.get("position"), offset.get("consumer")
    scan = offset.get("scan", "")
    if isinstance(log, str) and isinstance(position, int) and isinstance(consumer, str) and isinstance(scan, str):
        return OffsetPlace(log, position, consumer, scan)
    raise WalflowError(f"the checkpoint holds {offset!r}, which is no position of walflow")


def _tasks(options: Options, size: int) -> int:
    """The number of tasks that read `size` bytes."""
    if options.partitions is not None:
        return options.partitions
    most = options.max_partitions or os.cpu_count() or 1
    return max(options.min_partitions, min(-(-size // PARTITION_BYTES), most))


def _split(first: int, end: int, count: int, log: str, key: WireKey) -> list[Range]:
    count = max(1, min(count, end - first))
    edges = [first + (end - first) * at // count for at in range(count + 1)]
    ticket = key.ticket(Right.READ, log)
    return [Range(low, high, log, ticket) for low, high in pairwise(edges)]
