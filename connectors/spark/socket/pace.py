"""A limit per second, spread evenly over ticks. What was not used in time is not saved."""

from typing import Final

TICK: Final = 0.01  # seconds
BURST: Final = 0.05  # seconds of credit at most: a loop that was busy for so long makes up for it


class Pace:
    """`now`: monotonic seconds."""

    def __init__(self, per_second: int, now: float) -> None:
        self._rate = per_second
        self._most = max(1.0, per_second * BURST)
        self._tick = max(1.0, per_second * TICK)
        self._credit = self._most
        self._at = now

    def delay(self, wanted: int, now: float) -> float:
        """Seconds until `take` returns one tick's number of lines, or all if they are fewer."""
        self._earn(now)
        return max(0.0, min(wanted, self._tick) - self._credit) / self._rate

    def take(self, wanted: int, now: float) -> int:
        """The number of lines that may be sent now."""
        self._earn(now)
        count = min(wanted, int(self._credit))
        self._credit -= count
        return count

    def _earn(self, now: float) -> None:
        self._credit = min(self._most, self._credit + (now - self._at) * self._rate)
        self._at = now
