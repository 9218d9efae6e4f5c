"""A buffer in memory between a source and its sinks. It works like a log, but its events are lost with the process."""

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from walflow import Block, CodecUse, Connector, Guarantee, Inlet, Outlet, Receipt, WalflowError
from walflow.delivery.redelivery import InFlight, Redelivery
from walflow.size import Size

LOW: Final = 0.9  # of its bounds: full, it takes events again from there on


class Stopped(WalflowError):
    """The buffer stopped before it had room for these events. They may be sent again."""


class Memory(Connector):
    codec: ClassVar[CodecUse] = CodecUse.FORBIDDEN
    transactional: ClassVar[bool] = True
    forwards: ClassVar[bool] = True

    max_elements: int | None = Field(
        default=None,
        ge=1,
        description="The most events it holds. An event counts until every sink has acked it.",
        examples=[1000],
    )
    max_bytes: Size | None = Field(
        default=None,
        ge=1,
        description="The most bytes that these events have together. At least one of "
        "`max_elements` and `max_bytes` must be given.",
    )
    read_count: int | None = Field(
        default=None,
        ge=1,
        description="The most events that may be sent to the sinks and not yet acked. Default: no limit but the "
        "window in bytes.",
    )

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if self.max_elements is None and self.max_bytes is None:
            raise ValueError("give max_elements, max_bytes or both: the buffer needs a bound")
        return self

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        bounds = [f"{self.max_elements:,} events"] if self.max_elements is not None else []
        bounds += [f"{self.max_bytes:,} bytes"] if self.max_bytes is not None else []
        return Guarantee(
            source="every event is sent to every sink that the pipelines choose for it, and again after a failure, "
            "until that sink has acked or rejected it. A sink may get it twice. Events that are in memory when "
            "walflow stops or dies are lost",
            sink="an event is acked once it is in memory: it does not survive walflow",
            notes=(f"it holds up to {' and '.join(bounds)} in memory, then it stops its sources",),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        buffer = Buffer(self, inlet, out)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            buffer.close()


@dataclass(slots=True)
class HeldBlocks:
    """A block, and the number of its events that are not acked yet."""

    block: Block
    first: int
    left: int


class Buffer:
    """Made like a log: it numbers events by position, sends failed events again before newer ones, and halves a block
    that failed twice."""

    def __init__(self, config: Memory, inlet: Inlet, out: Outlet) -> None:
        self._inlet = inlet
        self._out = out
        self._most_events = config.max_elements
        self._most_bytes = config.max_bytes
        self._read_count = config.read_count
        self.events = self.bytes = 0  # not acked; a block's bytes until its last event is
        self.full = False
        self._next = 1  # position
        self._ready: deque[InFlight[HeldBlocks]] = deque()
        self._redelivery = Redelivery[HeldBlocks]()
        self._waiting: deque[Block] = deque()  # for room, and not acked upstream
        self._sent = 0  # events, and not settled
        self._pumping = self._pump_again = self._closed = False
        self._redelivered = out.counter("redelivered_events_total")
        self._lost = out.counter("lost_events_total")
        gauges = {
            "memory_backlog_events": lambda: self.events,
            "memory_backlog_bytes": lambda: self.bytes,
            "memory_full": lambda: int(self.full),
        }
        for name, read in gauges.items():
            out.gauge(name, read)
        out.window_events = config.read_count
        out.on_ready(self.pump)
        out.backlog(lambda: self.events)
        inlet.serve(self.accept)

    def __repr__(self) -> str:
        state = "full" if self.full else "open"
        return f"<Buffer {self.events} events, {self.bytes} bytes, {self._sent} sent, {state}>"

    # what comes

    def accept(self, block: Block) -> None:
        frames = block.frames
        most = self._most_events or frames.count
        for part in block.split(frames.sizes(self._most_bytes or len(frames.data), most)):
            self._admit(part)
        self.pump()

    def _admit(self, block: Block) -> None:
        size = len(block.frames.data)
        if self._most_bytes is not None and size > self._most_bytes:
            self._inlet.reject(block, f"event of {size} bytes is larger than max_bytes, {self._most_bytes}")
        elif self._waiting or not self._fits(block):
            self._waiting.append(block)
            self._look_at_bounds()
        else:
            self._store(block)

    def _fits(self, block: Block) -> bool:
        frames = block.frames
        return (self._most_events is None or self.events + frames.count <= self._most_events) and (
            self._most_bytes is None or self.bytes + len(frames.data) <= self._most_bytes
        )

    def _store(self, block: Block) -> None:
        count = block.frames.count
        held = HeldBlocks(block, self._next, count)
        self._next += count
        self.events += count
        self.bytes += len(block.frames.data)
        self._ready.append(InFlight(held.first, self._next - 1, held))
        self._look_at_bounds()
        self._inlet.ack(block)

    def _free(self, part: InFlight[HeldBlocks], done: int) -> None:
        held = part.record
        held.left -= done
        self.events -= done
        if not held.left:
            self.bytes -= len(held.block.frames.data)
        while self._waiting and self._fits(self._waiting[0]):
            self._store(self._waiting.popleft())
        self._look_at_bounds()

    def _look_at_bounds(self) -> None:
        fill = max(
            self.events / (self._most_events or self.events + 1), self.bytes / (self._most_bytes or self.bytes + 1)
        )
        if not self.full and (self._waiting or fill >= 1):
            self.full = True
            self._inlet.trigger(f"{self.events:,} events, {self.bytes:,} bytes are in memory, and that is its bound")
        elif self.full and not self._waiting and fill <= LOW:
            self.full = False
            self._inlet.restore()

    # what goes

    def pump(self) -> None:
        """Sends the blocks that may be sent. A block may settle while it is being sent, so the loop guards against
        re-entry."""
        if self._pumping or self._closed:
            self._pump_again = True
            return
        self._pumping = True
        try:
            self._pump_again = True
            while self._pump_again:
                self._pump_again = False
                self._pump()
        finally:
            self._pumping = False

    def _pump(self) -> None:
        while self._ready and not self._redelivery.blocks:
            part = self._ready.popleft()
            if self._read_count is not None and self._sent + part.count > self._read_count:
                room = self._read_count - self._sent
                if room <= 0:
                    self._ready.appendleft(part)
                    return
                part, rest = part.cut(room)
                self._ready.appendleft(rest)
            if not self._send(part):
                self._ready.appendleft(part)
                return

    def _send(self, part: InFlight[HeldBlocks]) -> bool:
        held = part.record
        came, start = held.block, part.first - held.first
        metas = came.event_metas
        block = Block(
            came.stream,
            came.frames.slice(start, start + part.count),
            came.codec,
            Receipt(partial(self._settled, part), part.count, None, part.skip),
            ingest_ns=came.ingest_ns,
            meta=came.meta,
            event_metas=None if metas is None else metas[start : start + part.count],
        )
        self._sent += part.count
        if self._out.send(block):
            return True
        self._sent -= part.count
        block.receipt.settled = _not_sent
        block.receipt.ack()
        return False

    def _settled(self, part: InFlight[HeldBlocks], receipt: Receipt) -> None:
        self._sent -= part.count
        if receipt.done:
            self._free(part, receipt.done)
        if receipt.cause is not None and receipt.done < part.count:
            left = part.failed(receipt.done, receipt.delivered)
            self._redelivered.value += left.count
            self._out.log.warning(
                "redelivery", events=left.count, attempts=left.attempts, cause=str(receipt.cause), position=left.first
            )
            self._out.scheduler.call_later(self._redelivery.add(left), self._redeliver)
        self.pump()

    def _redeliver(self) -> None:
        self._ready.extendleft(reversed(self._redelivery.take()))
        self.pump()

    def close(self) -> None:
        """Events that are not acked are lost here; a log line and a counter say how many."""
        self._closed = True
        while self._waiting:
            self._inlet.fail(self._waiting.popleft(), Stopped(f"{self._out.name} has stopped"))
        if self.events:
            self._lost.value += self.events
            self._out.log.error("lost", events=self.events, cause="they were only in memory when walflow stopped")


def _not_sent(receipt: Receipt) -> None:
    """The source may not send now; the block is made anew."""
