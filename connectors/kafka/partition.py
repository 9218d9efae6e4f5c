"""How far a partition is acked. It needs neither Kafka nor a loop."""

from collections import deque
from collections.abc import Mapping, Sequence

from walflow import Frames


class HeldMessages:
    """Messages of one read that are not all settled. `end`: the offset behind the last of them. `left`: how many have no
    outcome yet."""

    __slots__ = ("end", "first", "frames", "ingest_ns", "left", "metas", "partition")

    def __init__(
        self,
        partition: "AssignedPartition",
        first: int,
        frames: Frames,
        metas: Sequence[Mapping[str, object]],
        end: int,
        ingest_ns: int,
    ) -> None:
        self.partition = partition
        self.first = first
        self.frames = frames
        self.metas = metas
        self.end = end
        self.ingest_ns = ingest_ns
        self.left = frames.count

    def __repr__(self) -> str:
        return f"<HeldMessages before {self.end} of {self.partition!r}, {self.left} left>"


class AssignedPartition:
    """From its assignment to this member of the group until it is revoked; another assignment makes another one.

    `acked`: the offset behind all messages that are settled with all before them; None: none yet. `in_flight`: events that
    are sent and not settled. `leaving`: it is being revoked, and none of its events is sent any more. `gone`: it is revoked, and what becomes of its events changes nothing here.
    """

    __slots__ = ("_held", "acked", "gone", "in_flight", "leaving", "number", "partition", "topic")

    def __init__(self, topic: str, partition: int, number: int) -> None:
        self.topic = topic
        self.partition = partition
        self.number = number
        self.acked: int | None = None
        self.in_flight = 0
        self.leaving = False
        self.gone = False
        self._held: deque[HeldMessages] = deque()

    def __repr__(self) -> str:
        return f"<AssignedPartition {self.topic}/{self.partition}, acked {self.acked}>"

    def hold(self, held: HeldMessages) -> None:
        self._held.append(held)

    def advance(self) -> bool:
        """Whether `acked` is greater now."""
        before = self.acked
        while self._held and not self._held[0].left:
            self.acked = self._held.popleft().end
        return self.acked != before
