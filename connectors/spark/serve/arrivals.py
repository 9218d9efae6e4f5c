"""When the events of which positions arrived, for `LOCATE`. Clocks step back, so no order in time is relied on: a
stretch of positions has its earliest and its latest time. What is written while the daemon runs is noted as it is
written; what was in the log before is read once, when it is asked for first."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from walflow_kernel.log_records import RECORD, TIME_AT, TIMES, record_offsets

STRETCH: Final = 1 << 20  # bytes of one, about; more in a log with a larger budget
STRETCHES: Final = 1 << 14  # remembered at most, about
LATEST: Final = (1 << 63) - 1


class Arrived(NamedTuple):
    """Positions `first` to `last`, both included. Without an event, `earliest` is behind `latest`."""

    first: int
    last: int
    earliest: int
    latest: int
    size: int


class Arrivals:
    """Belongs to the loop. `budget`: of the log."""

    def __init__(self, budget: int) -> None:
        self._known: list[Arrived] = []  # in order, and none over another
        self._size = max(STRETCH, budget // STRETCHES)

    def __repr__(self) -> str:
        return f"<Arrivals, {len(self._known)} stretches>"

    def note(self, new: Arrived) -> None:
        """What is known already stays as it is."""
        known = self._known
        at = bisect_left(known, new.first, key=_first)
        if (at and known[at - 1].last >= new.first) or (at < len(known) and known[at].first <= new.last):
            return
        before = known[at - 1] if at else None
        if before is not None and before.last + 1 == new.first and before.size + new.size <= self._size:
            known[at - 1] = Arrived(
                before.first,
                new.last,
                min(before.earliest, new.earliest),
                max(before.latest, new.latest),
                before.size + new.size,
            )
        else:
            known.insert(at, new)

    def forget(self, floor: int) -> None:
        """Forgets what is known of positions below `floor`."""
        del self._known[: bisect_left(self._known, floor, key=_last)]

    def unknown(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of the range that were not noted; the end is not included."""
        for one in self._over(first, end):
            if first < one.first:
                yield first, one.first
            first = one.last + 1
        if first < end:
            yield first, end

    def within(self, first: int, end: int, since: int, before: int) -> tuple[int, int]:
        """The least range that has all of its events that arrived from `since` on and before `before`."""
        found = [one for one in self._over(first, end) if one.latest >= since and one.earliest < before]
        return (max(first, found[0].first), min(end, found[-1].last + 1)) if found else (first, first)

    def _over(self, first: int, end: int) -> list[Arrived]:
        at = max(0, bisect_right(self._known, first, key=_first) - 1)
        return [one for one in self._known[at : bisect_left(self._known, end, key=_first)] if one.last >= first]


def arrived(data: bytes, first: int, last: int) -> Arrived:
    """Of whole records with these positions."""
    times = [TIMES.unpack_from(data, at + TIME_AT)[0] for at in record_offsets(data)[0]]
    return Arrived(first, last, min(times, default=LATEST), max(times, default=-LATEST - 1), len(data))


def position_since(data: bytes, since: int) -> int | None:
    """Of whole records: the first position that arrived at `since` or later."""
    for at in record_offsets(data)[0]:
        if TIMES.unpack_from(data, at + TIME_AT)[0] >= since:
            return int(RECORD.unpack_from(data, at)[2])
    return None


def _first(one: Arrived) -> int:
    return one.first


def _last(one: Arrived) -> int:
    return one.last
