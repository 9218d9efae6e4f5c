"""A buffer in memory between a source and its sinks. It works like a log, but its events are lost with the process."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import ClassVar, Final, NamedTuple, Self

from pydantic import Field, model_validator

from walflow import (
    Block,
    Codec,
    CodecUse,
    Connector,
    Families,
    Family,
    Guarantee,
    Inlet,
    Outlet,
    Receipt,
    Size,
    StreamId,
    Traits,
    WalflowError,
)
from walflow.delivery import HeldEvents, InFlight, Sender, SendLimits

LOW: Final = 0.9  # of its bounds: full, it takes events again from there on


class BufferFull(WalflowError):
    """The buffer is full. Another output may take the events."""


class Stopped(WalflowError):
    """The buffer stopped before it had room for these events. They may be sent again."""


class Memory(Connector):
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN, transactional=True, forwards=True, passes=True)
    families: ClassVar[Families] = {
        "memory_backlog_events": Family("gauge", "Events in memory that not every sink has acked."),
        "memory_backlog_bytes": Family("gauge", "Bytes of the blocks in memory that contain these events."),
        "memory_full": Family("gauge", "1 while the buffer in memory is full."),
    }

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
    max_attempts: int | None = Field(
        default=None,
        ge=1,
        description="How often a single event may fail before it leaves by `err`. A failure counts only if the sink has taken another "
        "event since. Default: no limit.",
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


class BlockHead(NamedTuple):
    """A block without its events."""

    stream: StreamId
    codec: Codec
    ingest_ns: int
    meta: Mapping[str, object]


BlockEvents = HeldEvents[BlockHead]


class Buffer:
    """Made like a log, around the same sender (walflow.delivery.sender): it numbers events by position."""

    def __init__(self, config: Memory, inlet: Inlet, out: Outlet) -> None:
        self._inlet = inlet
        self._out = out
        self._most_events = config.max_elements
        self._most_bytes = config.max_bytes
        self.events = self.bytes = (
            0  # not settled; the bytes of a block until its last event is, but for those that failed
        )
        self.full = False
        self._next = 1  # position
        self._closed = False
        self._waiting: deque[Block] = deque()  # for room, and not acked upstream
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
        self._sender = Sender(self, out, SendLimits(config.read_count, config.max_attempts))
        out.on_ready(self._sender.pump)
        out.backlog(lambda: self.events, self._sender.waits_for)
        inlet.serve(self.accept)

    def __repr__(self) -> str:
        state = "full" if self.full else "open"
        return f"<Buffer {self.events} events, {self.bytes} bytes, {self._sender!r}, {state}>"

    # what comes

    def accept(self, block: Block) -> None:
        frames = block.frames
        most = self._most_events or frames.count
        for part in block.split(frames.sizes(self._most_bytes or len(frames.data), most)):
            self._admit(part)
        self._sender.pump()

    def _admit(self, block: Block) -> None:
        size = len(block.frames.data)
        if self._most_bytes is not None and size > self._most_bytes:
            self._inlet.reject(block, f"event of {size} bytes is larger than max_bytes, {self._most_bytes}")
        elif self._waiting or not self._fits(block):
            if self._inlet.upstream.replaceable:
                self._trigger()
                self._inlet.fail(block, BufferFull(f"{self._out.name} is full"))
                return
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
        head = BlockHead(block.stream, block.codec, block.ingest_ns, block.meta)
        events = HeldEvents(head, self._next, block.frames, block.event_metas)
        self._next += block.frames.count
        self.events += block.frames.count
        self.bytes += events.size
        self._sender.ready.append(InFlight(events.first, self._next - 1, events))
        self._look_at_bounds()
        self._inlet.ack(block)

    def _free(self, events: BlockEvents) -> None:
        if not events.left:
            self.bytes -= events.size

    def _look_at_bounds(self) -> None:
        fill = max(
            self.events / (self._most_events or self.events + 1), self.bytes / (self._most_bytes or self.bytes + 1)
        )
        if self._waiting or fill >= 1:
            self._trigger()
        elif self.full and not self._waiting and fill <= LOW:
            self.full = False
            self._inlet.restore()

    def _trigger(self) -> None:
        if not self.full:
            self.full = True
            self._inlet.trigger(f"{self.events:,} events, {self.bytes:,} bytes are in memory, and that is its bound")

    # what goes: walflow.delivery.sender.Supply

    def fill(self) -> bool:
        return bool(self._sender.ready)

    def block(self, part: InFlight[BlockEvents], receipt: Receipt) -> Block:
        head = part.source.owner
        frames, metas = part.source.between(part.first, part.last)
        part.size = len(frames.data)
        return Block(
            head.stream, frames, head.codec, receipt, ingest_ns=head.ingest_ns, meta=head.meta, event_metas=metas
        )

    def cut(self, part: InFlight[BlockEvents], first: int, last: int) -> BlockEvents:
        whole = part.source
        if (whole.first, whole.frames.count) == (first, last - first + 1):
            return whole
        events = whole.cut(first, last)
        self._free(whole)
        return events

    def sent(self, part: InFlight[BlockEvents]) -> None: ...

    def acked(self, part: InFlight[BlockEvents], first: int, last: int) -> None:
        count = last - first + 1
        part.source.left -= count
        self.events -= count
        self._free(part.source)

    def returned(self, part: InFlight[BlockEvents]) -> None:
        if self._closed:
            return
        while self._waiting and self._fits(self._waiting[0]):
            self._store(self._waiting.popleft())
        self._look_at_bounds()

    def failed(self, part: InFlight[BlockEvents], first: int, last: int) -> None:
        self._redelivered.value += last - first + 1

    def given_up(self, part: InFlight[BlockEvents]) -> None: ...

    def place(self, part: InFlight[BlockEvents]) -> str:
        return ""

    def close(self) -> None:
        """Events that are not acked are lost here; a log line and a counter say how many."""
        self._closed = True
        self._sender.stop()
        while self._waiting:
            self._inlet.fail(self._waiting.popleft(), Stopped(f"{self._out.name} has stopped"))
        if self.events:
            self._lost.value += self.events
            self._out.log.error("lost", events=self.events, cause="they were only in memory when walflow stopped")
