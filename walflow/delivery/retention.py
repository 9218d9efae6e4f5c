"""What is acked and kept: looks at its age though nothing happens, measures it, and gives it up on a full disk."""

from typing import Final

from walflow.contract import Half, Timer
from walflow.delivery.checkpoints import Checkpoints
from walflow.wal import Log
from walflow.wal.format import NO_STAMP

LOOKS: Final = 60.0  # seconds between two looks, at most
OFTEN: Final = 0.1  # of `retain`
SMALL: Final = 60.0  # seconds after a full disk in which the history does not grow: then no event waits again


def kept_bytes(retain_ns: int | None, retain_bytes: int | None, budget: int) -> int:
    """The most bytes of acked events that are kept, as the keys `retain` and `retain_bytes` say."""
    if retain_bytes is not None:
        return retain_bytes
    return budget if retain_ns is not None else 0


def kept_note(most: int, retain_ns: int | None) -> str:
    """For `Guarantee.notes`; "": nothing is kept."""
    for_so_long = f", for {retain_ns / 1e9:,g} s" if retain_ns is not None else ""
    return f"it keeps up to {most:,} bytes more of what is acked{for_so_long}" if most else ""


class Retention:
    """`retain_ns`: how long what is acked may stay; None: there is no limit."""

    def __init__(self, log: Log, half: Half, checkpoints: Checkpoints, retain_ns: int | None) -> None:
        self._log = log
        self._half = half
        self._checkpoints = checkpoints
        self._every = None if retain_ns is None else max(1.0, min(LOOKS, retain_ns / 1e9 * OFTEN))
        self._stopped = False
        self._widens: Timer | None = None
        self._given_up = half.counter("wal_history_given_up_total")
        half.gauge("wal_history_bytes", lambda: log.history.bytes)
        half.gauge("wal_history_seconds", self._seconds)
        if log.history.keeps:
            self._look_later()

    def stop(self) -> None:
        self._stopped = True
        if self._widens is not None:
            self._widens.cancel()

    def disk_is_full(self, reason: str) -> None:
        """The oldest file goes at once, so that the next try may find room. From then on one goes for each that
        comes."""
        oldest = self._log.chunks[0] if self._log.history.count else None
        if oldest is None or not self._log.make_room():
            return
        if self._widens is not None:
            self._widens.cancel()
        self._widens = self._half.scheduler.call_later(SMALL, self._log.history.widen)
        self._given_up.value += 1
        self._half.log.warning(
            "history given up", reason=reason, file=oldest.name, first=oldest.first, last=oldest.last
        )
        self._checkpoints.now()

    def _seconds(self) -> float:
        """How far back it reaches."""
        log = self._log
        since = log.chunks[0].since_ns if log.history.count else NO_STAMP
        return 0.0 if since == NO_STAMP else max(0.0, (log.time.now_ns() - since) / 1e9)

    def _look_later(self) -> None:
        if self._every is not None and not self._stopped:
            self._half.scheduler.call_later(self._every, self._look)

    def _look(self) -> None:
        if not self._stopped:
            self._checkpoints.now()
            self._look_later()
