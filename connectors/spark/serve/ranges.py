"""Sends ranges of positions as frames. Threads read, verify and checksum them, one slice ahead of the peer."""

import asyncio
import os
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeVar

from connectors.spark.durable_end import DurableEnd
from connectors.spark.serve.arrivals import LATEST, Arrivals, Arrived, arrived, position_since
from connectors.spark.serve.reads import Reads
from pyspark_walflow.wire import HEADER, SEED, Code, FrameKind, RequestRefused
from walflow import DiskFull, FailStop, Half, ReadFailed
from walflow.wal import Commit, Log, Loss, RangeReader, RangeScan, RecordPlace, RecordSlice, Trimmed, record_size

Found = TypeVar("Found")

SAID_EVERY: Final = 60.0  # seconds


class Data(NamedTuple):
    """A DATA frame in two pieces, and the number of requested positions in it."""

    head: bytes
    records: bytes
    rows: int


class LostRange(NamedTuple):
    """Positions `first` to `last`, both included. `empty`: no event was ever acked there."""

    first: int
    last: int
    reason: str
    empty: bool


class RecordsPlace(NamedTuple):
    """Whole records: bytes `offset` up to, but not including, `limit` of the file `path`.
    `seed`: of their checksums."""

    path: str
    seed: int
    offset: int
    limit: int


class RangePlan(NamedTuple):
    end: int
    size: int


class LogRanges:
    """`acked` is called when the log has lost events: it counts them as acked."""

    def __init__(self, log: Log, durable_end: DurableEnd, half: Half, acked: Callable[[], None]) -> None:
        self._log = log
        self._durable_end = durable_end
        self._half = half
        self._acked = acked
        self._extract = RangeReader(log)
        self._arrivals = Arrivals(log.budget)
        self._locating = asyncio.Lock()  # two at a time would read the same
        self._reads = Reads(half.name, half.scheduler)
        self._quarantined = half.counter("quarantined_events_total")
        self._read_failures = half.counter("wal_read_failures_total")
        self._fails = False  # the last read
        self._quiet_until = 0.0
        half.gauge("wal_cannot_read", lambda: int(self._fails))
        self._told = 0
        self.tell_gaps()

    async def close(self) -> None:
        """Until no thread reads. All reads were cancelled before."""
        await self._reads.end()

    def committed(self, commit: Commit) -> None:
        """Remembers the place of a record, and when its events arrived."""
        self._arrivals.forget(self._log.low + 1)
        times = [record.ingest_ns for record, _, _ in commit.entries]
        last = commit.entries[-1][0]
        self._arrivals.note(
            Arrived(
                commit.entries[0][0].position,
                last.position + last.count - 1,
                min(times),
                max(times),
                commit.size,
            )
        )
        record, chunk, end = commit.entries[0]
        self._extract.note(
            chunk, RecordPlace(record.position, end - record_size(len(record.tag) + len(record.payload)))
        )

    async def read(self, first: int, end: int, *, summed: bool = True) -> AsyncGenerator[Data | LostRange]:
        """Reads the whole range in order. Close it. `summed` False: the frames have no checksum, only their records
        have. Raises RequestRefused."""
        for low, high, skipped in self._parts(first, end):
            async with aclosing(self._read(low, high, summed=summed)) as found:
                async for one in found:
                    if skipped and isinstance(one, Data):
                        yield LostRange(low, low + one.rows - 1, "an operator skipped them", empty=True)
                    else:
                        yield one
                    low = low + one.rows if isinstance(one, Data) else one.last + 1

    def places(self, first: int, end: int) -> list[RecordsPlace]:
        """Where the records of the range lie, in order, for a peer that reads the files itself. Empty if a part of
        the range has no event to send: then `read` says what there is instead."""
        if any(skipped for _, _, skipped in self._parts(first, end)):
            return []
        return [
            RecordsPlace(
                os.path.abspath(self._log.directory.file(span.chunk.name)),
                span.chunk.seed,
                span.place.offset,
                span.limit,
            )
            for span in self._extract.spans(first, end)
        ]

    def _parts(self, first: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """The parts of the range. The last element says whether a part has no event to send: it is damaged, or an
        operator skipped it. Above every consumer's position that is what is acked. Below, where all is acked and may
        be kept, it is what was reported."""
        middle = min(max(first, self._log.low + 1), end)
        yield from _divided(first, middle, self._extract.reported(first, middle - 1), inside=True)
        yield from _divided(middle, end, self._log.unacked(middle, end - 1), inside=False)

    async def _read(self, first: int, end: int, *, summed: bool) -> AsyncGenerator[Data | LostRange]:
        walk = self._extract.begin(first, end)
        with self._reads.of(walk) as thread:
            read = partial(_next, walk, first, end, summed)
            coming = thread.run(read)
            while (found := await self._result(coming)) is not None:
                if isinstance(found, Loss):
                    lost = self._lost(found)  # before the walk goes on, which closes the file
                    coming = thread.run(read)
                    yield lost
                else:
                    data, passed = found
                    self._extract.passed(passed)
                    coming = thread.run(read)
                    yield data

    async def plan(self, start: int, rows: int, size: int) -> RangePlan:
        """Plans a range with at least the events of the record that contains `start`, unless `rows` is less. Raises
        RequestRefused."""
        after = self._durable_end.next
        if start >= after:
            return RangePlan(start, 0)
        behind = self._extract.behind(start)
        if behind > start:  # a thousand million empty positions are not sent in portions
            return RangePlan(min(behind, after), 0)
        whole = await self._end_of_record(start)
        reach = self._extract.reach(start, after, size)
        end = min(start + rows, max(whole, reach))
        return RangePlan(end, self.size(start, end))

    async def locate(self, first: int, end: int, since: int, before: int) -> tuple[int, int]:
        """The part of the range with all events that arrived from `since` on and before `before`; it may have others.
        Raises RequestRefused."""
        async with self._locating:
            for low, high in [*self._arrivals.unknown(first, end)]:
                await self._find_arrivals(low, high)
        return self._arrivals.within(first, end, since, before)

    async def since(self, first: int, end: int, since: int) -> int:
        """The first position of the range that arrived at `since` or later; `end`: none did.
        Raises RequestRefused."""
        walk = self._extract.begin(first, end)
        with self._reads.of(walk) as thread:
            while (found := await self._result(thread.run(walk.next))) is not None:
                if isinstance(found, Loss):
                    self._lost(found)
                    continue
                self._extract.passed(found)
                position = position_since(found.data, since)
                if position is not None:
                    return min(max(position, first), end)
        return end

    async def _find_arrivals(self, first: int, end: int) -> None:
        walk = self._extract.begin(first, end)
        with self._reads.of(walk) as thread:
            while (found := await self._result(thread.run(partial(_next_arrived, walk)))) is not None:
                if isinstance(found, Loss):
                    self._lost(found)
                    self._arrivals.note(Arrived(found.first, found.last, LATEST, -LATEST, 0))
                else:
                    times, passed = found
                    self._extract.passed(passed)
                    self._arrivals.note(times)

    def size(self, first: int, end: int) -> int:
        """The size in bytes, about."""
        return self._extract.size(first, end)

    async def _end_of_record(self, position: int) -> int:
        walk = self._extract.begin(position, position + 1)
        with self._reads.of(walk) as thread:
            found = await self._result(thread.run(walk.next))
        return position + 1 if found is None else found.last + 1

    async def _result(self, coming: "asyncio.Future[Found]") -> Found:
        try:
            found = await coming
        except DiskFull as error:
            raise RequestRefused(Code.NO_SPACE, str(error)) from error
        except ReadFailed as error:
            raise self._not_read(error) from error
        except FailStop as error:
            self._half.fatal(error)
        self._fails = False
        return found

    def _not_read(self, error: ReadFailed) -> RequestRefused:
        """Who asked asks again, for some minutes."""
        self._read_failures.value += 1
        self._fails = True
        now = self._half.scheduler.time()
        if now >= self._quiet_until:
            self._quiet_until = now + SAID_EVERY
            self._half.log.warning("log not read", reason=str(error))
        return RequestRefused(Code.CANNOT_READ, str(error))

    def _lost(self, loss: Loss) -> LostRange:
        try:
            lost = self._extract.settle(loss)
        except Trimmed as error:
            raise RequestRefused(Code.BELOW_FLOOR, str(error)) from error
        except ReadFailed as error:
            raise self._not_read(error) from error
        if not lost:
            return LostRange(
                loss.first, loss.last, "a crash left nothing there, and nothing there was acked", empty=True
            )
        self.tell_gaps()
        reason = loss.gap.reason
        for gap in self._log.gaps:  # what was known before knows better
            if gap.first <= loss.first <= gap.last:
                reason = gap.reason
        return LostRange(loss.first, loss.last, reason, empty=False)

    def tell_gaps(self) -> None:
        """Logs damage to the operator: damaged events are kept in quarantine/ and will not be sent."""
        gaps = self._log.gaps
        for gap in gaps[self._told :]:
            self._quarantined.value += gap.last - gap.first + 1
            self._half.log.error("quarantined", found=str(gap))
        if self._told < len(gaps):
            self._told = len(gaps)
            self._acked()  # so that a restart does not find and count them again, and their space comes back


def _divided(
    first: int, end: int, ranges: Iterable[tuple[int, int]], *, inside: bool
) -> Iterator[tuple[int, int, bool]]:
    """The ranges, both ends included and in order, each with `inside`, and what lies between them with the
    opposite."""
    at = first
    for low, last in ranges:
        if at < low:
            yield at, low, not inside
        yield low, last + 1, inside
        at = last + 1
    if at < end:
        yield at, end, not inside


def _next(walk: RangeScan, first: int, end: int, summed: bool) -> tuple[Data, RecordSlice] | Loss | None:
    """Reads the next slice on a thread, with the checksum over all of it if it is `summed`."""
    found = walk.next()
    if not isinstance(found, RecordSlice):
        return found
    seed = SEED.pack(found.seed)
    checksum = zlib.crc32(found.data, zlib.crc32(seed)) if summed else 0
    head = HEADER.pack(len(seed) + len(found.data), checksum, FrameKind.DATA) + seed
    rows = min(found.last, end - 1) - max(found.first, first) + 1
    return Data(head, found.data, rows), found


def _next_arrived(walk: RangeScan) -> tuple[Arrived, RecordSlice] | Loss | None:
    found = walk.next()
    if not isinstance(found, RecordSlice):
        return found
    return arrived(found.data, found.first, found.last), found._replace(data=b"")
