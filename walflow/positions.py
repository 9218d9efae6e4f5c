"""Sets of log positions, by log: what a sink has of each log upstream."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Self

Range = tuple[int, int]  # first and last position, both included


class PositionRun(NamedTuple):
    """A range of positions that are all known, or all unknown."""

    length: int
    known: bool


class WrittenPositions:
    """Ranges of positions per log: ascending, disjoint and never touching."""

    __slots__ = ("_logs",)

    def __init__(self, logs: Mapping[str, Sequence[Range]] | None = None) -> None:
        self._logs: dict[str, list[Range]] = {log: list(ranges) for log, ranges in (logs or {}).items() if ranges}

    def __repr__(self) -> str:
        return f"<WrittenPositions {self._logs}>"

    def __len__(self) -> int:
        return sum(map(len, self._logs.values()))

    def __contains__(self, log: str) -> bool:
        return log in self._logs

    def total(self) -> int:
        """The number of positions."""
        return sum(last - first + 1 for ranges in self._logs.values() for first, last in ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrittenPositions) and self._logs == other._logs

    __hash__ = None  # type: ignore[assignment]  # it changes

    def dump(self) -> dict[str, list[Range]]:
        return {log: list(ranges) for log, ranges in self._logs.items()}

    def copy(self) -> Self:
        return type(self)(self._logs)

    def add(self, log: str, first: int, last: int) -> None:
        ranges = self._logs.setdefault(log, [])
        if ranges and ranges[-1][1] + 1 == first:  # in order, as nearly always
            ranges[-1] = (ranges[-1][0], last)
            return
        low = bisect_left(ranges, first - 1, key=_last)
        high = low
        while high < len(ranges) and ranges[high][0] <= last + 1:
            first, last = min(first, ranges[high][0]), max(last, ranges[high][1])
            high += 1
        ranges[low:high] = [(first, last)]

    def update(self, other: "WrittenPositions") -> None:
        for log, ranges in other._logs.items():
            for first, last in ranges:
                self.add(log, first, last)

    def forget_below(self, log: str, position: int) -> None:
        ranges = self._logs.get(log)
        if not ranges or ranges[0][0] >= position:
            return
        kept = [(max(first, position), last) for first, last in ranges if last >= position]
        if kept:
            self._logs[log] = kept
        else:
            del self._logs[log]

    def forget_parts_below(self, log: str, position: int) -> None:
        """Of all parts of a log: see `walflow.event.Origin.part`."""
        for part in [one for one in self._logs if one == log or one.startswith(f"{log}/")]:
            self.forget_below(part, position)

    def close_gaps(self, log: str, last: int) -> None:
        """From the first known position up to `last` all are known."""
        ranges = self._logs.get(log)
        if ranges and ranges[0][1] < last:
            self.add(log, ranges[0][0], last)

    def forget(self, log: str) -> None:
        self._logs.pop(log, None)

    def forget_lowest(self) -> None:
        """The lower half of the log that has most: it is acked soonest."""
        log = max(self._logs, key=lambda each: len(self._logs[each]))
        ranges = self._logs[log]
        del ranges[: (len(ranges) + 1) // 2]
        if not ranges:
            del self._logs[log]

    def runs(self, log: str, first: int, last: int) -> list[PositionRun]:
        """The positions from `first` to `last`, by what is known of them."""
        return list(_runs(self._logs.get(log, ()), first, last))


def _last(each: Range) -> int:
    return each[1]


def _runs(ranges: Sequence[Range], first: int, last: int) -> Iterator[PositionRun]:
    at = first
    for low, high in ranges[bisect_left(ranges, first, key=_last) :]:
        if low > last:
            break
        if low > at:
            yield PositionRun(low - at, known=False)
            at = low
        end = min(high, last)
        yield PositionRun(end - at + 1, known=True)
        at = end + 1
    if at <= last:
        yield PositionRun(last - at + 1, known=False)
