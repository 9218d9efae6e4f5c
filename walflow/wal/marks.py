"""What each lane of a log has acked, and what all of them have.

The log itself goes by what all have acked: that is in the cursor, and that is deleted. What is sent to a lane, and
what is not sent to it again, goes by the lane's own mark. What the log gives up (damage, `drop_oldest`, positions
that recovery never used) is acked for every lane.
"""

from collections.abc import Iterable, Sequence

from walflow.wal.cursor import Acked


class Mark:
    """What one lane has acked. For a log with a single lane it is what all have acked, without a copy."""

    def __init__(self, marks: "Marks", own: Acked) -> None:
        self._marks = marks
        self._own = own

    def __repr__(self) -> str:
        return f"<Mark {self._own!r}>"

    @property
    def low(self) -> int:
        """The lane has acked all positions up to this one."""
        return self._own.low

    def unacked(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of that range that the lane has not acked yet."""
        return self._own.missing(first, last)

    def behind(self, durable: int) -> int:
        """The number of durable events that the lane has not acked."""
        own = self._own
        return max(0, durable - own.low - own.above)

    def ack(self, first: int, last: int) -> int:
        """Acks positions, both included. Returns how many of them are acked by all lanes now, and were not before."""
        return self._marks.add_of(self._own, first, last)


def common(marks: Sequence[Acked]) -> Acked:
    """What is acked in each of them."""
    last = max(one.last for one in marks)
    lacking = Acked()
    for one in marks:
        for part in one.missing(1, last):
            lacking.add(*part)
    return Acked(0, lacking.missing(1, last))


class Marks(Acked):
    """What all lanes have acked. `add` acks for all of them. `lanes`: the marks of several lanes. `changes`: how
    often an ack was added."""

    def __init__(self, low: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.lanes: Sequence[Acked] = ()
        self.changes = 0
        super().__init__(low, ranges)

    def part(self, stored: Sequence[Acked | None]) -> Sequence[Mark]:
        """A mark for each lane, with what all have acked and what was stored of it. To be called once, before the
        first ack of a lane."""
        lanes = [Acked(self.low, self.ranges) for _ in stored]
        for own, known in zip(lanes, stored, strict=True):
            if known is not None:
                own.add(1, known.low)
                for one in known.ranges:
                    own.add(*one)
        last = max(own.last for own in lanes)
        self.lanes = lanes
        for one in self._newly_in_all(1, last):
            super().add(*one)
        if len(lanes) < 2:
            self.lanes = ()
        return [Mark(self, own) for own in self.lanes or [self]]

    def add(self, first: int, last: int) -> bool:
        self.changes += 1
        for own in self.lanes:
            own.add(first, last)
        return super().add(first, last)

    def add_of(self, own: Acked, first: int, last: int) -> int:
        """Acks for one lane. Returns how many positions all have acked now that not all had."""
        self.changes += 1
        if own is not self:
            own.add(first, last)
            # in order, as nearly always: another lane is behind, or all the others have it
            if any(one.low < first and one.in_order for one in self.lanes):
                return 0
        if self.in_order and self.low + 1 >= first and all(one.low >= last for one in self.lanes):
            before, self.low = self.low, max(self.low, last)
            return self.low - before
        fresh = self._newly_in_all(first, last)
        for one in fresh:
            super().add(*one)
        return sum(end - begin + 1 for begin, end in fresh)

    def lacking(self, first: int, last: int) -> Sequence[int]:
        """How many of these positions each of several lanes has not acked."""
        return [sum(end - begin + 1 for begin, end in own.missing(first, last)) for own in self.lanes]

    def _newly_in_all(self, first: int, last: int) -> list[tuple[int, int]]:
        lacking = Acked()
        for own in self.lanes:
            for one in own.missing(first, last):
                lacking.add(*one)
        return [part for one in lacking.missing(first, last) for part in self.missing(*one)]
