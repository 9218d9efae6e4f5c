"""The metrics of a log. They are read at each scrape; the only call at work is one for each commit."""

from collections.abc import Callable
from typing import Final, Protocol

from walflow.contract import Inlet
from walflow.delivery.ages import Ages, BacklogAge
from walflow.delivery.growth import Growth
from walflow.delivery.lead import Lead
from walflow.delivery.writer import HIGH_MARK, LogSink
from walflow.metrics import COMMIT_BYTES, SYNC_SECONDS
from walflow.wal import Commit, Log

BACKLOG_EVENTS: Final = "wal_backlog_events"
UNSYNCED_RESOLUTION: Final = 0.01


class Backlog(Protocol):
    """The reader of the log. `first_ingest_ns`: when the first event that it read had been received, 0 if unknown."""

    @property
    def ages(self) -> BacklogAge: ...
    @property
    def first_ingest_ns(self) -> int: ...
    def backlog(self) -> int: ...


def measure(log: Log, inlet: Inlet, reader: Backlog) -> Callable[[Commit], None]:
    """Registers a log's metrics. The function that it returns is called with each commit that is durable."""
    clock = inlet.scheduler.time
    ages, lead = reader.ages, Lead(log, inlet)
    unsynced = Ages(UNSYNCED_RESOLUTION)
    growth = Growth(HIGH_MARK * log.budget)
    gauges: dict[str, Callable[[], float]] = {
        "wal_low_position": lambda: log.low,
        "wal_durable_position": lambda: log.durable,
        "wal_next_position": lambda: log.next,
        BACKLOG_EVENTS: reader.backlog,
        "wal_backlog_bytes": lambda: backlog_bytes(log),
        "wal_oldest_seconds": lambda: ages.since_commit(log.low, reader.first_ingest_ns),
        "wal_clock_lead_seconds": lead.seconds,
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
        ages.committed(commit)
        lead.look()
        if growth.due(now):
            growth.note(now, backlog_bytes(log))

    return committed


def measure_writer(writer: LogSink, inlet: Inlet) -> None:
    """Registers the reasons why a log accepts no events."""
    inlet.gauge("wal_full", lambda: int(writer.is_full))
    inlet.gauge("wal_disk_full", lambda: int(writer.no_space))


def backlog_bytes(log: Log, low: int | None = None) -> int:
    """Bytes from the first event that is not acked, or above `low`. Within its chunk they are estimated by the share
    of positions, so that nothing has to be read."""
    low, total = log.low if low is None else low, 0.0
    for chunk in log.chunks:
        if chunk.last > low:
            unacked = chunk.last - max(low, chunk.first - 1)
            total += chunk.end * unacked / (chunk.last - chunk.first + 1)
    return round(total)
