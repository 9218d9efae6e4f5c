"""The counters of what becomes of a log's events: in events, and in bytes."""

from walflow.contract import Outlet
from walflow.wal import Gap


class Outcomes:
    """Of the events that a log sends to its sinks."""

    def __init__(self, out: Outlet) -> None:
        self._acked = out.counter("wal_acked_events_total")
        self._acked_bytes = out.counter("wal_acked_bytes_total")
        self._failed = out.counter("wal_failed_events_total")
        self._failed_bytes = out.counter("wal_failed_bytes_total")
        self._redelivered = out.counter("redelivered_events_total")
        self._redelivered_bytes = out.counter("wal_redelivered_bytes_total")
        self._quarantined = out.counter("quarantined_events_total")
        self._quarantined_bytes = out.counter("wal_quarantined_bytes_total")
        self._rejected_bytes = out.counter("wal_rejected_bytes_total")

    def acked(self, events: int, size: int) -> None:
        self._acked.value += events
        self._acked_bytes.value += size

    def failed(self, events: int, size: int) -> None:
        """Counts events that failed and will be sent again."""
        self._failed.value += events
        self._failed_bytes.value += size
        self._redelivered.value += events
        self._redelivered_bytes.value += size

    def rejected(self, size: int) -> None:
        """An event that failed too often. The outlet counts the event itself."""
        self._rejected_bytes.value += size

    def quarantined(self, gap: Gap) -> None:
        self._quarantined.value += gap.last - gap.first + 1
        self._quarantined_bytes.value += gap.size
