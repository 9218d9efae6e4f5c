"""How old the events are that a log waits to get rid of.

Ages are measured on the monotonic clock, from the commit on: the wall clock may be set meanwhile. What an event was
old when it was committed, or when an earlier process left it, is known from its stamp, by the log's own time.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

from walflow.wal import Commit, Log

RESOLUTION: Final = 1.0  # seconds between two marks
MARKS: Final = 1024  # more, and every second one goes: a backlog of days is not known to the second


class Ages:
    """The times at which positions became durable, on the monotonic clock, to `resolution` seconds."""

    def __init__(self, resolution: float = RESOLUTION) -> None:
        self._marks: list[tuple[float, int]] = []  # from then on, up to that position
        self._resolution = resolution

    def note(self, now: float, durable: int, low: int) -> None:
        """`low`: nothing up to it is asked for any more."""
        marks = self._marks
        if marks and now - marks[-1][0] < self._resolution and marks[-1][1] > low:
            marks[-1] = marks[-1][0], durable
            return
        del marks[: self._acked(low)]
        marks.append((now, durable))
        if len(marks) > MARKS:
            self._marks = [(marks[at][0], marks[at + 1][1]) for at in range(0, len(marks) - 1, 2)]
            self._marks += marks[len(self._marks) * 2 :]
            self._resolution *= 2

    def oldest(self, now: float, low: int) -> float:
        """Of the first position above `low`."""
        acked = self._acked(low)
        return now - self._marks[acked][0] if acked < len(self._marks) else 0.0

    def _acked(self, low: int) -> int:
        return bisect_right(self._marks, low, key=_last)


def _last(mark: tuple[float, int]) -> int:
    return mark[1]


class BacklogAge:
    """Of a log. `clock`: monotonic seconds. To be made when the log was opened."""

    def __init__(self, log: Log, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._found = log.durable  # the events up to this one are of an earlier process
        self._opened = clock()
        self._opened_ns = log.time.now_ns()
        self._committed = Ages()
        self._received = Ages()

    def committed(self, commit: Commit) -> None:
        """To be called with each commit that is durable."""
        now, low = self._clock(), self._log.low
        self._committed.note(now, commit.last, low)
        waited = self._log.time.now_ns() - commit.entries[0][0].ingest_ns
        self._received.note(now - max(0, waited) / 1e9, commit.last, low)

    def since_commit(self, low: int, stamp_ns: int) -> float:
        """The age of the oldest event above `low`, in seconds.
        `stamp_ns`: of that event if it was read, 0 if none was."""
        return self._of(self._committed, low, stamp_ns)

    def since_receipt(self, low: int, stamp_ns: int) -> float:
        """The same, with the time before it came to this log."""
        return self._of(self._received, low, stamp_ns)

    def _of(self, ages: Ages, low: int, stamp_ns: int) -> float:
        if low >= self._log.durable:
            return 0.0
        now = self._clock()
        if low >= self._found:
            return ages.oldest(now, low)
        # where its stamp is ahead of the wall clock, nobody knows how long the log was closed
        before = max(0, self._opened_ns - stamp_ns) / 1e9 if stamp_ns else 0.0
        return now - self._opened + before
