"""How far a partition is acked. It needs neither Kafka nor a loop."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from walflow import Frames, StreamId
from walflow.delivery import HeldBatch


class AssignedPartition:
    """From its assignment to this member of the group until it is revoked; another assignment makes another one.

    `acked`: the offset behind all messages that are settled with all before them; None: none yet. `in_flight`: events
    that are sent and not settled. `leaving`: it is being revoked, and none of its events is sent any more. `gone`: it
    is revoked, and what becomes of its events changes nothing here.
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

    def hold(self, held: "HeldMessages") -> None:
        self._held.append(held)

    def advance(self) -> bool:
        """Whether `acked` is greater now."""
        before = self.acked
        while self._held and not self._held[0].left:
            self.acked = self._held.popleft().end
        return self.acked != before


class HeldMessages(HeldBatch):
    """Messages of one read of a partition. `end`: the offset at which to go on behind them. `advanced` is called when
    more of the partition is acked."""

    def __init__(
        self,
        partition: AssignedPartition,
        stream: StreamId,
        frames: Frames,
        metas: Sequence[Mapping[str, object]],
        ingest_ns: int,
        end: int,
        advanced: Callable[[AssignedPartition], None],
    ) -> None:
        super().__init__(stream, frames, metas, ingest_ns)
        self.end = end
        self._partition = partition
        self._advanced = advanced
        partition.hold(self)

    def __repr__(self) -> str:
        return f"<HeldMessages before {self.end} of {self._partition!r}, {self.left} left>"

    def wanted(self) -> bool:
        return not self._partition.leaving and not self._partition.gone

    def went(self, count: int) -> None:
        self._partition.in_flight += count

    def settled(self) -> None:
        if not self._partition.gone and self._partition.advance():
            self._advanced(self._partition)

    def came_back(self, count: int) -> None:
        self._partition.in_flight -= count

    def place(self, meta: Mapping[str, object]) -> str:
        told = cast(Mapping[str, object], meta["kafka_consumer"])
        return f"topic {self._partition.topic}, partition {self._partition.partition}, offset {told['offset']}"
