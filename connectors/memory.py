"""A buffer in memory between a source and its sinks. It works like a log, but its events are lost with the
process."""

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
    JobSink,
    Outlet,
    Receipt,
    SinkWork,
    Size,
    StreamId,
    Traits,
)
from walflow.delivery import HeldEvents, InFlight, Sender, SendLimits

LOW: Final = 0.9  # of its bounds: full, it takes events again from there on


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
        description="How often a single event may fail before it leaves by `err`. A failure counts only if the sink "
        "has taken another event since. Default: no limit.",
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
        await Buffer(self, inlet, out).buffering.run()


class BlockHead(NamedTuple):
    """A block without its events."""

    stream: StreamId
    codec: Codec
    ingest_ns: int
    meta: Mapping[str, object]


BlockEvents = HeldEvents[BlockHead]


class StoredBlock:
    """The job of the sink half: one block is stored, in line."""

    def __init__(self, block: Block) -> None:
        self.blocks = [block]


class Buffer(SinkWork[StoredBlock]):
    """Made like a log, around the same sender (walflow.delivery.sender): it numbers events by position."""

    def __init__(self, config: Memory, inlet: Inlet, out: Outlet) -> None:
        self._out = out
        self._most_events = config.max_elements
        self._most_bytes = config.max_bytes
        self.events = self.bytes = (
            0  # not settled; the bytes of a block until its last event is, but for those that failed
        )
        self._next = 1  # position
        self._no_room = False  # for the first block that waits
        self._full_reason = ""
        self.buffering = JobSink(inlet, self, inline=True)
        self._redelivered = out.counter("redelivered_events_total")
        self._lost = out.counter("lost_events_total")
        gauges = {
            "memory_backlog_events": lambda: self.events,
            "memory_backlog_bytes": lambda: self.bytes,
            "memory_full": lambda: int(self.buffering.is_full),
        }
        for name, read in gauges.items():
            out.gauge(name, read)
        out.window_events = config.read_count
        self._sender = Sender(self, out, SendLimits(config.read_count, config.max_attempts))
        out.on_ready(self._sender.pump)
        out.backlog(lambda: self.events, self._sender.waits_for)

    def __repr__(self) -> str:
        return f"<Buffer {self.events} events, {self.bytes} bytes, {self.buffering!r}, {self._sender!r}>"

    # what comes: walflow.SinkWork

    def take(self, waiting: deque[Block]) -> StoredBlock | None:
        while waiting:
            block = waiting.popleft()
            frames = block.frames
            size, self._no_room = len(frames.data), not self._fits(block)
            most_events, most_bytes = self._most_events or frames.count, self._most_bytes or size
            if not self._no_room:
                return StoredBlock(block)
            if frames.count > most_events or (size > most_bytes and frames.count > 1):
                waiting.extendleft(reversed(block.split(frames.sizes(most_bytes, most_events))))
            elif size > most_bytes:
                self.buffering.reject(block, f"event of {size} bytes is larger than max_bytes, {most_bytes}")
            else:
                waiting.appendleft(block)
                return None
        return None

    def do(self, job: StoredBlock) -> None:
        (block,) = job.blocks
        head = BlockHead(block.stream, block.codec, block.ingest_ns, block.meta)
        events = HeldEvents(head, self._next, block.frames, block.event_metas)
        self._next += block.frames.count
        self.events += block.frames.count
        self.bytes += events.size
        self._sender.ready.append(InFlight(events.first, self._next - 1, events))

    def settled(self, job: StoredBlock) -> None:
        self._sender.pump()

    def full(self, held_bytes: int, *, was: bool) -> str:
        fill = max(
            self.events / (self._most_events or self.events + 1), self.bytes / (self._most_bytes or self.bytes + 1)
        )
        waits = self._no_room and bool(self.buffering.waiting)
        if not (waits or fill >= 1 or (was and fill > LOW)):
            return ""
        if not was:
            self._full_reason = f"{self.events:,} events, {self.bytes:,} bytes are in memory, and that is its bound"
        return self._full_reason

    def closed(self, error: BaseException | None) -> None:
        """Events that are not acked are lost here; a log line and a counter say how many."""
        self._sender.stop()
        if self.events:
            self._lost.value += self.events
            self._out.log.error("lost", events=self.events, cause="they were only in memory when walflow stopped")

    def _fits(self, block: Block) -> bool:
        frames = block.frames
        return (self._most_events is None or self.events + frames.count <= self._most_events) and (
            self._most_bytes is None or self.bytes + len(frames.data) <= self._most_bytes
        )

    def _free(self, events: BlockEvents) -> None:
        if not events.left:
            self.bytes -= events.size

    # what goes: walflow.delivery.in_flight.Supply

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
        self.buffering.room()

    def failed(self, part: InFlight[BlockEvents], first: int, last: int) -> None:
        self._redelivered.value += last - first + 1

    def given_up(self, part: InFlight[BlockEvents]) -> None: ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        return passed and self.buffering.is_full and self.events <= events

    def place(self, part: InFlight[BlockEvents]) -> str:
        return ""
