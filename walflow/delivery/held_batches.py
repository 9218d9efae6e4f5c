"""For a source without a log that can have its events again, as a broker's consumer: it sends them until each is
settled.

It is made like the source half of a log, around the same sender (walflow.delivery.sender): events have positions.
What it holds is only in memory: after a crash the broker sends it again.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from walflow.contract import Outlet
from walflow.delivery.held import HeldEvents
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.sender import Sender
from walflow.event import Block, Codec, Frames, StreamId
from walflow.receipt import Receipt

NO_META: Final[Mapping[str, object]] = MappingProxyType({})


class HeldBatch:
    """Events of one read, to be sent as a block. A subclass learns what becomes of them. `left`: how many have no
    outcome yet. `metas`: of each event, None if they have none of their own. `codec`: None: the connector's."""

    def __init__(
        self,
        stream: StreamId,
        frames: Frames,
        metas: Sequence[Mapping[str, object]] | None,
        ingest_ns: int,
        *,
        codec: Codec | None = None,
        meta: Mapping[str, object] = NO_META,
    ) -> None:
        self.stream = stream
        self.frames = frames
        self.metas = metas
        self.ingest_ns = ingest_ns
        self.codec = codec
        self.meta = meta
        self.left = frames.count
        self.first = 0  # the position at which it is held

    def __repr__(self) -> str:
        return f"<HeldBatch of {self.frames.count} events, {self.left} left>"

    def wanted(self) -> bool:
        """False: it is sent no more."""
        return True

    def marked(
        self, metas: Sequence[Mapping[str, object]] | None, start: int, count: int
    ) -> Sequence[Mapping[str, object]] | None:
        """What is sent as the metadata of `count` events, of which the first is number `start` of the batch."""
        return metas

    def went(self, count: int) -> None:
        """`count` events were sent."""

    def settled(self) -> None:
        """Each event is acked or rejected."""

    def came_back(self, count: int) -> None:
        """So many have an outcome, after `settled` if it was the last one."""

    def place(self, meta: Mapping[str, object]) -> str:
        """Where the event with this metadata came from, for the reason that stands in its record at err."""
        return ""


Batches = HeldEvents[HeldBatch]


class Resending:
    """`on_room`: called when more may be held. `max_attempts`: how often a single event may fail before it is
    rejected; `most`: how many may be sent and not settled; None: no limit."""

    def __init__(
        self, out: Outlet, on_room: Callable[[], None], max_attempts: int | None = None, most: int | None = None
    ) -> None:
        self._out = out
        self._on_room = on_room
        self._next = 1  # the position of the next event, counted since the start
        self._bytes = 0  # of what is not settled
        self._redelivered = out.counter("redelivered_events_total")
        self._sender = Sender(self, out, SendLimits(most, max_attempts))

    def __repr__(self) -> str:
        return f"<Resending {self._sender!r}, {self._bytes} bytes are not settled>"

    @property
    def has_room(self) -> bool:
        return not self._sender.ready and self._bytes < self._out.window

    def hold(self, batch: HeldBatch, refused: str = "") -> None:
        """Sent with the next `pump`. `refused`: why it leaves by err instead."""
        batch.first = self._next
        events = HeldEvents(batch, self._next, batch.frames, batch.metas)
        self._next += batch.frames.count
        self._bytes += events.size
        part = InFlight(events.first, self._next - 1, events)
        if refused:
            part.verdict = _with_place(refused, self.place(part))
        self._sender.ready.append(part)

    def pump(self) -> None:
        self._sender.pump()

    # walflow.delivery.in_flight.Supply

    def fill(self) -> bool:
        if self.has_room:
            self._on_room()
        return bool(self._sender.ready)

    def block(self, part: InFlight[Batches], receipt: Receipt) -> Block | None:
        batch = part.source.owner
        if not batch.wanted():
            self._settle(part, part.count)
            return None
        frames, metas = part.source.between(part.first, part.last)
        part.size = len(frames.data)
        return Block(
            batch.stream,
            frames,
            batch.codec or self._out.codec,
            receipt,
            ingest_ns=batch.ingest_ns,
            meta=batch.meta,
            event_metas=batch.marked(metas, part.first - batch.first, part.count),
        )

    def cut(self, part: InFlight[Batches], first: int, last: int) -> Batches:
        whole = part.source
        if (whole.first, whole.frames.count) == (first, last - first + 1):
            return whole
        events = whole.cut(first, last)
        self._free(whole)
        return events

    def sent(self, part: InFlight[Batches]) -> None:
        part.source.owner.went(part.count)

    def returned(self, part: InFlight[Batches]) -> None:
        part.source.owner.came_back(part.count)
        if self.has_room:
            self._on_room()

    def acked(self, part: InFlight[Batches], first: int, last: int) -> None:
        self._settle(part, last - first + 1)

    def failed(self, part: InFlight[Batches], first: int, last: int) -> None:
        self._redelivered.value += last - first + 1

    def given_up(self, part: InFlight[Batches]) -> None: ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        return passed and self._bytes >= self._out.window

    def place(self, part: InFlight[Batches]) -> str:
        events, batch = part.source, part.source.owner
        _, metas = events.between(part.first, part.first)
        marked = batch.marked(metas, part.first - batch.first, 1)
        return batch.place(marked[0]) if marked is not None else ""

    def _settle(self, part: InFlight[Batches], count: int) -> None:
        events, batch = part.source, part.source.owner
        events.left -= count
        self._free(events)
        batch.left -= count
        if not batch.left:
            batch.settled()

    def _free(self, events: Batches) -> None:
        if not events.left:
            self._bytes -= events.size


def _with_place(reason: str, place: str) -> str:
    return f"{reason} ({place})" if place else reason
