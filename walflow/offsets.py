"""Where events end in the file that they were read from."""

from collections.abc import Callable, Sequence
from typing import overload


class EventEnds(Sequence[int]):
    """The offset behind each event of a block. `begin` to `end`: the bytes that they were found in; refused lines may
    be between them. The offsets are looked for when they are asked for; of most blocks they are not."""

    __slots__ = ("_count", "_ends", "_find", "begin", "end")

    def __init__(self, begin: int, end: int, count: int, find: Callable[[], Sequence[int]]) -> None:
        """`find`: the offsets, counted from `begin`."""
        self.begin = begin
        self.end = end
        self._count = count
        self._find = find
        self._ends: Sequence[int] | None = None

    def __repr__(self) -> str:
        return f"<EventEnds of {self._count} events, {self.begin} to {self.end}>"

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        ends = self._found()
        if not isinstance(at, slice):
            return ends[at]
        start, stop, step = at.indices(self._count)
        if step != 1 or stop <= start:
            return ends[at]
        begin = ends[start - 1] if start else self.begin
        end = self.end if stop == self._count else ends[stop - 1]
        return EventEnds(begin, end, stop - start, lambda: [one - begin for one in ends[start:stop]])

    def _found(self) -> Sequence[int]:
        if self._ends is None:
            # the last line may have no end in the file, though its frame has one
            self._ends = [min(self.begin + one, self.end) for one in self._find()]
        return self._ends
