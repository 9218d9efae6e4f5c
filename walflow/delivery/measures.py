"""The metrics of a log. They are read at each scrape; the only call at work is one for each commit."""

import time
from collections.abc import Callable
from typing import Final, Protocol

from walflow.contract import Inlet
from walflow.delivery.growth import Growth
from walflow.delivery.writer import HIGH_MARK, LogSink
from walflow.metrics import COMMIT_BYTES, SYNC_SECONDS
from walflow.wal import Commit, Log

RESOLUTION: Final = 1.0  # seconds between two marks
UNSYNCED_RESOLUTION: Final = 0.01
MARKS: Final = 1024  # more, and every second one goes: a backlog of days is not known to the second


class Ages:
    """The times at which positions became durable, on the monotonic clock, to `resolution` seconds."""

    def __init__(self, resolution: float = RESOLUTION) -> None:
        self._marks: list[tuple[float, int]] = []  # from then on, up to that position
        self._resolution = resolution

    def note(self, now: float, durable: int, low: int) -> None:
        marks = self._marks
        if marks and now - marks[-1][0] < self._resolution and marks[-1][1] > low:
            marks[-1] = marks[-1][0], durable
            return
        self._forget(low)
        marks.append((now, durable))
        if len(marks) > MARKS:
            self._marks = [(marks[at][0], marks[at + 1][1]) for at in range(0, len(marks) - 1, 2)]
            self._marks += marks[len(self._marks) * 2 :]
            self._resolution *= 2

    def oldest(self, now: float, low: int) -> float:
        self._forget(low)
        return now - self._marks[0][0] if self._marks else 0.0

    def backdate(self, seconds: float) -> None:
        """Corrects the oldest mark: it is older than was known when it was noted."""
        if self._marks:
            self._marks[0] = self._marks[0][0] - seconds, self._marks[0][1]

    def _forget(self, low: int) -> None:
        acked = 0
        while acked < len(self._marks) and self._marks[acked][1] <= low:
            acked += 1
        del self._marks[:acked]


class Backlog(Protocol):
    """The reader of the log. `first_ingest_ns`: when the first event that it read had been received, 0 if unknown."""

    @property
    def first_ingest_ns(self) -> int: ...
    def backlog(self) -> int: ...


def measure(log: Log, inlet: Inlet, reader: Backlog) -> Callable[[Commit], None]:
    """Registers a log's metrics. The function that it returns is called with each commit that is durable."""
    clock = inlet.scheduler.time
    oldest = _Oldest(log, clock, reader)
    unsynced = Ages(UNSYNCED_RESOLUTION)
    growth = Growth(HIGH_MARK * log.budget)
    gauges: dict[str, Callable[[], float]] = {
        "wal_low_position": lambda: log.low,
        "wal_durable_position": lambda: log.durable,
        "wal_next_position": lambda: log.next,
        "wal_backlog_events": reader.backlog,
        "wal_backlog_bytes": lambda: backlog_bytes(log),
        "wal_oldest_seconds": oldest.read,
        "wal_chunks": lambda: len(log.chunks),
        "wal_used_bytes": lambda: log.used,
        "wal_budget_bytes": lambda: log.budget,
        "wal_fill_ratio": lambda: log.fill,
        "wal_full_in_seconds": lambda: 0.0 if log.fill >= HIGH_MARK else growth.full_in(clock(), backlog_bytes(log)),
        "wal_unsynced_events": lambda: log.durable - log.synced_up_to,
        "wal_unsynced_seconds": lambda: unsynced.oldest(clock(), log.synced_up_to),
        "wal_dropped_events": lambda: log.dropped_events,
        "wal_dropped_bytes": lambda: log.dropped_bytes,
        "wal_recovery_seconds": lambda: log.recovery.ms / 1000,
    }
    for name, read in gauges.items():
        inlet.gauge(name, read)
    events = inlet.counter("wal_appended_events_total")
    size = inlet.counter("wal_appended_bytes_total")
    seconds = inlet.histogram("wal_sync_seconds", SYNC_SECONDS)
    sizes = inlet.histogram("wal_commit_bytes", COMMIT_BYTES)
    last = log.durable

    def committed(commit: Commit) -> None:
        nonlocal last
        events.value += commit.last - last
        last = commit.last
        size.value += commit.size
        if not log.relaxed:
            seconds.observe(commit.seconds)
        else:
            unsynced.note(clock(), commit.last, log.synced_up_to)
            if commit.overdue is not None:
                seconds.observe(commit.overdue.seconds)
        sizes.observe(commit.size)
        now = clock()
        oldest.ages.note(now, commit.last, log.low)
        if growth.due(now):
            growth.note(now, backlog_bytes(log))

    return committed


def measure_writer(writer: LogSink, inlet: Inlet) -> None:
    """Registers the reasons why a log accepts no events."""
    inlet.gauge("wal_full", lambda: int(writer.full))
    inlet.gauge("wal_disk_full", lambda: int(writer.no_space))


class _Oldest:
    """The age of the oldest event that is not acked. For events of an earlier process it is the time since they were
    received, by the wall clock, because no other clock goes back before the start. It is known when the reader has read
    them."""

    def __init__(self, log: Log, clock: Callable[[], float], reader: Backlog) -> None:
        self.ages = Ages()
        self._log = log
        self._clock = clock
        self._reader = reader
        self._found = log.durable
        self._opened_ns = time.time_ns()
        if log.durable > log.low:
            self.ages.note(clock(), log.durable, log.low)

    def read(self) -> float:
        if self._found and self._reader.first_ingest_ns:
            if self._log.low < self._found:
                self.ages.backdate(max(0.0, (self._opened_ns - self._reader.first_ingest_ns) / 1e9))
            self._found = 0
        return self.ages.oldest(self._clock(), self._log.low)


def backlog_bytes(log: Log, low: int | None = None) -> int:
    """Bytes from the first event that is not acked, or above `low`. Within its chunk they are estimated by the share of positions, so
    that nothing has to be read."""
    low, total = log.low if low is None else low, 0.0
    for chunk in log.chunks:
        if chunk.last > low:
            unacked = chunk.last - max(low, chunk.first - 1)
            total += chunk.end * unacked / (chunk.last - chunk.first + 1)
    return round(total)
