"""Failed events, in order, until they are sent again.

After a failure, no newer event is sent until the failed ones have been sent again. So at most the events in flight get
out of order. After two failures a block is halved until the bad event is alone. Newer events then pass it.
"""

from bisect import insort
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from walflow.backoff import Backoff

R = TypeVar("R")

BACKOFF: Final = Backoff(0.1, 10.0)  # seconds, after so many attempts of one part


@dataclass(order=True, slots=True)
class InFlight(Generic[R]):
    """Positions `first` to `last` of a record that have been sent to the sinks."""

    first: int
    last: int
    record: R = field(compare=False)
    attempts: int = field(default=0, compare=False)  # that failed
    skip: frozenset[str] = field(default=frozenset(), compare=False)  # sinks that have it
    size: int = field(default=0, compare=False)  # bytes, once it was sent
    alone: bool = field(default=False, compare=False)  # it has failed as one event, so no other one is to blame

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def cut(self, count: int) -> "tuple[InFlight[R], InFlight[R]]":
        """Two parts: its first `count` events (fewer than it has), and the rest."""
        middle = self.first + count
        return (
            InFlight(self.first, middle - 1, self.record, self.attempts, self.skip),
            InFlight(middle, self.last, self.record, self.attempts, self.skip),
        )

    def failed(self, done: int, delivered: frozenset[str]) -> "InFlight[R]":
        """The rest after an attempt that delivered the first `done` events everywhere."""
        return InFlight(
            self.first + done, self.last, self.record, self.attempts + 1, delivered, alone=self.count == 1
        )

    def given_up(self, max_attempts: int | None) -> bool:
        """Whether it is rejected instead of sent again. None: no limit."""
        return max_attempts is not None and self.alone and self.attempts >= max_attempts

    def halves(self) -> "list[InFlight[R]]":
        return [self] if self.attempts < 2 or self.count == 1 else [*self.cut(self.count >> 1)]


class Redelivery(Generic[R]):
    def __init__(self) -> None:
        self._parts: list[InFlight[R]] = []

    @property
    def blocks(self) -> bool:
        """Whether a block has failed for the first time: no newer event may be sent before it."""
        return any(part.attempts == 1 for part in self._parts)

    def add(self, part: InFlight[R]) -> float:
        """Seconds to wait before `take`."""
        for half in part.halves():
            insort(self._parts, half)
        return BACKOFF.after(part.attempts)

    def forget(self, last: int) -> None:
        """Removes all events up to that position; they must not be sent again."""
        self._parts = [part for part in self._parts if part.last > last]

    def take(self) -> list[InFlight[R]]:
        """All failed parts, oldest first."""
        parts, self._parts = self._parts, []
        return parts
