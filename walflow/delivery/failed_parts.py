"""What has failed and waits to be sent again, by when it is due."""

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import Generic, TypeVar

from walflow.delivery.in_flight import InFlight

S = TypeVar("S")

Entry = tuple[float, int, InFlight[S]]  # due, or 0 of what goes in its order; first; part


class FailedParts(Generic[S]):
    """`bytes`: of all of them."""

    def __init__(self) -> None:
        self.bytes = 0
        self._firsts: list[Entry[S]] = []  # a heap, by position: what newer events wait for
        self._others: list[Entry[S]] = []  # a heap, by time

    def __repr__(self) -> str:
        return f"<FailedParts {len(self._firsts)} in order, {len(self._others)} others, {self.bytes} bytes>"

    def __len__(self) -> int:
        return len(self._others) + len(self._firsts)

    def __bool__(self) -> bool:
        return bool(self._others or self._firsts)

    def __iter__(self) -> Iterator[InFlight[S]]:
        return (part for _, _, part in chain(self._firsts, self._others))

    @property
    def first(self) -> InFlight[S] | None:
        """What newer events wait for."""
        return self._firsts[0][2] if self._firsts else None

    @property
    def due(self) -> InFlight[S] | None:
        """Of those for which no event waits, what is due first."""
        return self._others[0][2] if self._others else None

    def probe(self) -> InFlight[S]:
        """What is sent while everything fails. There is one."""
        return self._firsts[0][2] if self._firsts else min(self._others, key=_probed_first)[2]

    def add(self, part: InFlight[S]) -> None:
        if part.holds:
            heapq.heappush(self._firsts, (0.0, part.first, part))
        else:
            heapq.heappush(self._others, (part.due, part.first, part))
        self.bytes += part.size

    def take(self, part: InFlight[S]) -> InFlight[S]:
        heap = self._firsts if part.holds else self._others
        if part is heap[0][2]:
            heapq.heappop(heap)
        else:
            heap[:] = [one for one in heap if one[2] is not part]
            heapq.heapify(heap)
        self.bytes -= part.size
        return part

    def all_due(self, now: float) -> None:
        """But for those that failed while their sink took others."""
        for part in self:
            if not part.blame.counted:
                part.due = now
        self._others = [(part.due, first, part) for _, first, part in self._others]
        heapq.heapify(self._others)

    def forget(self, last: int) -> None:
        """All up to that position are gone."""
        for heap in (self._firsts, self._others):
            heap[:] = [one for one in heap if one[2].last > last]
            heapq.heapify(heap)
        self.bytes = sum(part.size for part in self)


def _probed_first(entry: Entry[S]) -> tuple[bool, int, int, int]:
    """While everything fails, halves of what failed are tried before it is another part's turn: if each block has a
    bad event, an event that the sink takes is found soon. Otherwise all get their turn."""
    part = entry[2]
    return (not part.untried, part.failures, part.count, part.first)
