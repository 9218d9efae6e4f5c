"""How fast a log fills, and when it will be full at this rate."""

from collections import deque
from math import inf
from typing import Final

EVERY: Final = 5.0  # seconds between two marks
ENDED: Final = 3 * EVERY  # seconds without a mark: nothing comes any more
OVER: Final = 60.0  # seconds: the rate is that of the last minute


class Growth:
    """Of the bytes that wait in a log. `limit`: at so many of them it is full."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._marks: deque[tuple[float, int]] = deque()  # time, and the bytes that waited then

    def __repr__(self) -> str:
        return f"<Growth to {self._limit:.0f} bytes, {len(self._marks)} marks>"

    def due(self, now: float) -> bool:
        return not self._marks or now - self._marks[-1][0] >= EVERY

    def note(self, now: float, size: int) -> None:
        """Must be called where `due`, after something was written."""
        marks = self._marks
        while len(marks) > 1 and now - marks[1][0] >= OVER:
            marks.popleft()
        marks.append((now, size))

    def full_in(self, now: float, size: int) -> float:
        """Seconds until the log is full. Infinite if it does not grow, if nothing comes any more, or if it has not
        been known for 5 seconds."""
        if size >= self._limit:
            return 0.0
        if not self._marks or now - self._marks[-1][0] >= ENDED:
            return inf
        if now - self._marks[0][0] < EVERY or size <= self._marks[0][1]:
            return inf
        began, before = self._marks[0]
        return (self._limit - size) * (now - began) / (size - before)
