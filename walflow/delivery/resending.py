"""For a source without a log that can have its events again, as a broker's consumer: it sends them until each is settled.

It is made like the source half of a log: events have positions, failed ones are sent again before newer ones, and a block that
failed twice is halved. An event that has failed `max_attempts` times is rejected. What it holds is only in memory: after a crash the broker sends it again.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from walflow.contract import Outlet
from walflow.delivery.redelivery import InFlight, Redelivery
from walflow.event import Block, Frames, Receipt, StreamId

REJECT_AGAIN: Final = 1.0  # seconds, where the path behind `err` has failed


class HeldBatch:
    """Events of one read, to be sent as a block. A subclass learns what becomes of them. `first`: the position of the first
    one. `left`: how many have no outcome yet."""

    def __init__(
        self, stream: StreamId, frames: Frames, metas: Sequence[Mapping[str, object]], ingest_ns: int
    ) -> None:
        self.stream = stream
        self.frames = frames
        self.metas = metas
        self.ingest_ns = ingest_ns
        self.first = 0
        self.left = frames.count

    def __repr__(self) -> str:
        return f"<HeldBatch {self.first} of {self.frames.count} events, {self.left} left>"

    def wanted(self) -> bool:
        """False: it is sent no more."""
        return True

    def went(self, count: int) -> None:
        """So many events were sent."""

    def settled(self) -> None:
        """Each event is acked or rejected."""

    def came_back(self, count: int) -> None:
        """So many have an outcome, after `settled` if it was the last one."""

    def told(self) -> Mapping[str, object]:
        """What log lines say of it."""
        return {}

    def place(self, number: int) -> str:
        """Where one of its events came from, for the reason that stands in its record at err."""
        return ""


class Resending:
    """`on_room`: called when more may be held. `max_attempts`: how often a single event may fail before it is rejected; None: no
    limit."""

    def __init__(self, out: Outlet, on_room: Callable[[], None], max_attempts: int | None = None) -> None:
        self._out = out
        self._on_room = on_room
        self._max_attempts = max_attempts
        self._ready: deque[InFlight[HeldBatch]] = deque()
        self._redelivery = Redelivery[HeldBatch]()
        self._next = 1  # the position of the next event, counted since the start
        self._bytes = 0  # of what is not settled
        self._pumping = self._pump_again = False
        self._redelivered = out.counter("redelivered_events_total")

    def __repr__(self) -> str:
        return f"<Resending {len(self._ready)} blocks wait, {self._bytes} bytes are not settled>"

    @property
    def has_room(self) -> bool:
        return not self._ready and self._bytes < self._out.window

    def hold(self, batch: HeldBatch, refused: str = "") -> None:
        """Sent with the next `pump`. `refused`: why it leaves by err instead."""
        batch.first = self._next
        self._next += batch.frames.count
        self._bytes += len(batch.frames.data)
        if refused:
            self._reject(batch, refused)
        else:
            self._ready.append(InFlight(batch.first, self._next - 1, batch))

    def pump(self) -> None:
        """A block may settle while it is being sent."""
        self._pump_again = True
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._pump_again:
                self._pump_again = False
                self._send_ready()
        finally:
            self._pumping = False
        if self.has_room:
            self._on_room()

    def _send_ready(self) -> None:
        while self._ready and not self._redelivery.blocks:
            part = self._ready.popleft()
            if not part.record.wanted():
                self._count(part.record, part.count)
            elif not self._send(part):
                self._ready.appendleft(part)
                return

    def _send(self, part: InFlight[HeldBatch]) -> bool:
        block = self._block(part, Receipt(partial(self._settled, part), part.count, None, part.skip))
        part.record.went(part.count)
        if part.given_up(self._max_attempts):
            reason = f"failed {part.attempts} times"
            self._out.reject(block, _with_place(reason, part.record, part.first - part.record.first))
            return True
        if self._out.send(block):
            return True
        part.record.came_back(part.count)
        block.receipt.settled = _not_sent
        block.receipt.ack()
        return False

    def _block(self, part: InFlight[HeldBatch], receipt: Receipt) -> Block:
        batch = part.record
        start = part.first - batch.first
        return Block(
            batch.stream,
            batch.frames.slice(start, start + part.count),
            self._out.codec,
            receipt,
            ingest_ns=batch.ingest_ns,
            meta={},
            event_metas=batch.metas[start : start + part.count],
        )

    def _reject(self, batch: HeldBatch, reason: str) -> None:
        part = InFlight(batch.first, batch.first + batch.frames.count - 1, batch)

        def settled(receipt: Receipt) -> None:
            if receipt.cause is None:
                self._count(batch, part.count)
            else:
                self._out.scheduler.call_later(REJECT_AGAIN, lambda: self._reject(batch, reason))

        self._out.reject(self._block(part, Receipt(settled, part.count)), _with_place(reason, batch, 0))

    def _settled(self, part: InFlight[HeldBatch], receipt: Receipt) -> None:
        batch = part.record
        if receipt.done:
            self._count(batch, receipt.done)
        if receipt.cause is not None and receipt.done < part.count:
            left = part.failed(receipt.done, receipt.delivered)
            self._redelivered.value += left.count
            self._out.log.warning(
                "redelivery", **batch.told(), events=left.count, attempts=left.attempts, cause=str(receipt.cause)
            )
            self._out.scheduler.call_later(self._redelivery.add(left), self._redeliver)
        batch.came_back(part.count)
        self.pump()

    def _redeliver(self) -> None:
        self._ready.extendleft(reversed(self._redelivery.take()))
        self.pump()

    def _count(self, batch: HeldBatch, count: int) -> None:
        batch.left -= count
        if not batch.left:
            self._bytes -= len(batch.frames.data)
            batch.settled()


def _with_place(reason: str, batch: HeldBatch, number: int) -> str:
    place = batch.place(number)
    return f"{reason} ({place})" if place else reason


def _not_sent(receipt: Receipt) -> None:
    """There was no room. The block is made again later."""
