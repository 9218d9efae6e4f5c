"""`on_full = "drop_oldest"`: a record that does not fit the budget makes the log drop its oldest chunks."""

from collections.abc import Callable, Sequence

from walflow.contract import Half
from walflow.wal import Dropped, Log


class Dropping:
    """`forget` gets what must not be sent any more."""

    def __init__(self, log: Log, half: Half, forget: Callable[[Sequence[Dropped]], None]) -> None:
        self._log = log
        self._half = half
        self._forget = forget
        self._events = half.counter("wal_dropped_events_total")
        self._bytes = half.counter("wal_dropped_bytes_total")

    def make_way(self, tag_bytes: int, payload_bytes: int) -> None:
        """Makes room for a record of that size. It fits after the next checkpoint: then the dropped positions are
        acked on disk, in both slots of the cursor, and their files are deleted."""
        dropped = self._log.drop_oldest(tag_bytes, payload_bytes)
        if not dropped:
            return
        first, last = dropped[0].first, dropped[-1].last
        events, size = sum(one.events for one in dropped), sum(one.bytes for one in dropped)
        self._events.value += events
        self._bytes.value += size
        self._half.log.warning(
            "dropped", first=first, last=last, events=events, bytes=size, ever=self._log.dropped_events
        )
        self._forget(dropped)
