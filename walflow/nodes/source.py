"""The source half of a connector: its ports and its gate, and for each run of it an outlet with a window.

The window is the bound of everything downstream: bytes sent and not yet settled. A synchronous accept cannot
refuse, so what is full stops the source instead.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from walflow.event import Block, Codec, Cutting, Frames, Node, Receipt, Settled, StreamId
from walflow.framing import LINES, MESSAGES, Incoming
from walflow.nodes.gate import ReasonGate
from walflow.nodes.ingress import IngressStream
from walflow.nodes.rejects import ErrPort
from walflow.nodes.run_context import RunContext, RunHalf
from walflow.nodes.staged import StagedStream

BLOCK_BYTES: Final = 256 << 10  # what one read of a socket brings at most
BLOCK_EVENTS: Final = 4096
WINDOW: Final = 8 << 20
MAX_EVENT_BYTES: Final = 1 << 20
ERROR_BYTES: Final = 64  # of an error event, beside its reason
SHARES: Final = 4  # a part of the window that may wait for clients; the other three keep the flow going


def _nothing() -> None: ...


class Holder(NamedTuple):
    """A sink or an operator downstream. `held`: what it has and has not settled, in words, "" for nothing. `outcomes`: a
    number that changes whenever it settles something."""

    name: str
    held: Callable[[], str]
    outcomes: Callable[[], float]


class SourceNode:
    """What outlives the connector's runs. `gate` is what sinks downstream trigger."""

    def __init__(
        self,
        name: str,
        out: Node,
        err: ErrPort,
        codec: Codec,
        framing: Cutting | Incoming = LINES,
        *,
        linked: bool = True,
        transactional: bool = False,
    ) -> None:
        self.name = name
        self.out = out
        self.err = err
        self.codec = codec
        self.incoming = framing if isinstance(framing, Incoming) else Incoming((), framing)
        self.linked = linked
        self.transactional = transactional
        self.gate = ReasonGate(self._shut, self._open)
        self.outlet: RunOutlet | None = None
        self.sink_is_full: Callable[[], bool] = lambda: False  # of a log: its other half takes no more
        self._on_full: list[Callable[[], None]] = []
        self.holders: list[Holder] = []
        self._sharing: set[str] = set()  # sinks that may hold a part of the window for long

    def __repr__(self) -> str:
        return f"<SourceNode {self.name} {self.gate!r} {self.outlet!r}>"

    def begin(self, context: RunContext) -> "RunOutlet":
        self.outlet = RunOutlet(self, context)
        return self.outlet

    def limits(self) -> tuple[int, int | None]:
        """Bytes and events that may be unsettled at most: what an operator that holds blocks has to stay below."""
        return (self.outlet.window, self.outlet.window_events) if self.outlet is not None else (WINDOW, None)

    def share(self, sink: str) -> tuple[int, int | None]:
        """What this sink may hold of the limits: see `walflow.contract.Inlet.share`."""
        self._sharing.add(sink)
        size, events = self.limits()
        parts = SHARES * len(self._sharing)
        return size // parts, None if events is None else events // parts

    @property
    def full(self) -> bool:
        """Nothing more comes before something is settled."""
        return self.sink_is_full() or (self.outlet is not None and self.outlet.full)

    def on_full(self, call: Callable[[], None]) -> None:
        self._on_full.append(call)

    def tell_full(self) -> None:
        for call in self._on_full:
            call()

    def end(self) -> None:
        """The run is over: its receipts and its window count no more."""
        if self.outlet is not None:
            self.outlet.void()
            self.outlet = None
        self.gate.restore("window")

    def _shut(self) -> None:
        if self.outlet is not None:
            self.outlet.pause()

    def _open(self) -> None:
        if self.outlet is not None:
            self.outlet.resume()


class RunOutlet(RunHalf):
    """See `walflow.contract.Outlet`."""

    def __init__(self, node: SourceNode, context: RunContext) -> None:
        self.name = node.name
        self.linked = node.linked
        self.run = secrets.randbits(63)
        self.codec = node.codec
        self.framed = bool(node.incoming.steps) or node.incoming.framing is not MESSAGES
        self.window = WINDOW
        self.window_events: int | None = None
        self.max_event_bytes = MAX_EVENT_BYTES
        self.inflight = 0
        self.delivered = 0  # blocks, in whole or in part
        self._events = 0  # in flight, of those that were given to `send`
        self.set_context(context)
        self._node = node
        self._gate = node.gate
        self._streams: dict[int, IngressStream] = {}
        self._last_stream = 0
        self._on_ready: Callable[[], None] = _nothing
        self._refused = False
        self._opened = context.signal()
        self._backlog: Callable[[], int] = lambda: 0
        self._void = False
        self._turns: deque[Callable[[], None]] = deque()  # what waits for one
        self._received = self.counter("received_events_total")
        self._received_bytes = self.counter("received_bytes_total")
        self._lost = self.counter("lost_events_total")
        self._set_opened()

    def __repr__(self) -> str:
        return f"<Outlet {self.name} {self.inflight} of {self.window} bytes unsettled>"

    @property
    def quiet(self) -> bool:
        """All that was read is settled."""
        return not self.inflight and not self._turns

    @property
    def full(self) -> bool:
        return self._refused or "window" in self._gate.reasons or self._has_all_events

    @property
    def stuck(self) -> bool:
        """It has something to send, or cannot know, and may not before something is settled, or a sink takes events."""
        if not self._node.transactional:
            return self._gate.shut
        return (self._gate.shut or self.full) and (self.inflight > 0 or self._backlog() > 0)

    @property
    def _has_all_events(self) -> bool:
        return self.window_events is not None and self._events >= self.window_events

    # sources that push

    def stream(
        self,
        meta: Mapping[str, object],
        *,
        pause: Callable[[], None] = _nothing,
        resume: Callable[[], None] = _nothing,
        broken: Callable[[], None] = _nothing,
    ) -> IngressStream:
        self._context.up()
        self._last_stream += 1
        codec, incoming, limit = self._node.codec, self._node.incoming, self.max_event_bytes
        name = StreamId(self.name, self.run, self._last_stream)
        stream = (
            StagedStream(self, name, meta, codec, incoming, limit, pause, resume, broken)
            if incoming.steps
            else IngressStream(self, name, meta, codec, incoming.framing, limit, pause, resume)
        )
        self._streams[name.number] = stream
        if self._gate.shut:
            stream.pause()
        return stream

    def deliver(self, stream: IngressStream, frames: Frames, codec: Codec) -> None:
        if self._void:
            return
        now = time.time_ns()
        sizes = frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)
        for part in frames.parts(sizes):
            self._received.value += part.count
            self._emit(stream, part, codec, now, self._node.out)
        self._look_at_window()

    def _look_at_window(self) -> None:
        if self.inflight > self.window:
            self._gate.trigger("window", f"{self.window} bytes sent and not settled")
            self._node.tell_full()

    def _emit(self, stream: IngressStream, frames: Frames, codec: Codec, now: int, to: Node) -> None:
        size = len(frames.data)
        self.inflight += size
        self._received_bytes.value += size
        receipt = Receipt(self._settled, frames.count, size)
        block = Block(stream.id, frames, codec, receipt, ingest_ns=now, meta=stream.meta)
        try:  # as `_hand_on`, without a call for each block
            to.accept(block)
        except Exception as error:  # noqa: BLE001  # whatever it is
            self._raised(error, block)

    def _hand_on(self, block: Block, to: Node) -> None:
        """A node that raises has a bug. It costs this block, which fails as its receipt is collected, and no other one:
        of a log it comes again, until it is alone."""
        try:
            to.accept(block)
        except Exception as error:  # noqa: BLE001  # whatever it is
            self._raised(error, block)

    def _raised(self, error: Exception, block: Block) -> None:
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        self.log.error("internal error", error=text, events=block.frames.count, stream=block.stream.number)
        self.log.debug("internal error", exc_info=error)

    def refuse(self, stream: IngressStream, bad: Sequence[tuple[bytes, str]]) -> None:
        if self._void:
            return
        size = sum(ERROR_BYTES + len(reason) for _, reason in bad)
        self.inflight += size
        frames = Frames(LINES.join([b""] * len(bad)), len(bad), LINES)  # the payloads end here, their errors go on
        receipt = Receipt(self._settled, len(bad), size)
        block = Block(
            stream.id,
            frames,
            self._node.codec,
            receipt,
            ingest_ns=time.time_ns(),
            meta=stream.meta,
            weight=size,
        )
        self._node.err.take(block, [reason for _, reason in bad])
        self._look_at_window()

    def ended(self, stream: IngressStream) -> None:
        self._streams.pop(stream.id.number, None)

    def next_turn(self, call: Callable[[], None]) -> None:
        if self._void:
            return
        if not self._turns:
            self._opened.clear()
            self.scheduler.call_soon(self._have_turn)
        self._turns.append(call)

    def _have_turn(self) -> None:
        if self._void:
            return
        self._turns[0]()  # still among them: what it asks for is not the first
        self._turns.popleft()
        if self._turns:
            self.scheduler.call_soon(self._have_turn)
        else:
            self._set_opened()

    def _set_opened(self) -> None:
        if self._gate.shut or self._turns:
            self._opened.clear()
        else:
            self._opened.set()

    def _settled(self, receipt: Receipt) -> None:
        if self._void:
            return
        size = receipt.ref
        assert isinstance(size, int)
        if receipt.cause is not None:
            self._lost.value += receipt.count - receipt.done
            self.log.error("lost", events=receipt.count - receipt.done, cause=str(receipt.cause))
        if receipt.done:
            self.delivered += 1
        self._give_back(size)

    def _give_back(self, size: int) -> None:
        self.inflight -= size
        if self.inflight <= self.window >> 1:
            if self._gate.shut:
                self._gate.restore("window")
            if self._refused and not self._gate.shut:
                self._refused = False
                self._on_ready()

    # sources that know what became of each block

    def send(self, block: Block) -> bool:
        size = len(block.frames.data)
        if self._gate.shut or (self.inflight and self.inflight + size > self.window):
            self._refused = True
            self._node.tell_full()
            return False
        self.inflight += size
        self._events += block.frames.count
        receipt = block.receipt
        receipt.settled = partial(self._sent_settled, receipt.settled, size)
        self._received.value += block.frames.count
        self._received_bytes.value += size
        self._hand_on(block, self._node.out)
        if self._has_all_events:
            self._node.tell_full()
        return True

    def _sent_settled(self, settled: Settled, size: int, receipt: Receipt) -> None:
        if self._void:
            return
        self._events -= receipt.count
        if receipt.done:
            self.delivered += 1
        settled(receipt)
        self._give_back(size)

    def on_ready(self, call: Callable[[], None]) -> None:
        self._context.up()
        self._on_ready = call

    async def ready(self) -> None:
        self._context.up()
        while self._gate.shut or self._turns:  # what a stream held back may have shut it again
            await self._opened.wait()

    def reject(self, block: Block, reason: str) -> None:
        self._node.err.take(block, [reason] * block.frames.count)

    def backlog(self, count: Callable[[], int]) -> None:
        self._backlog = count

    # what the runtime does with it

    def waiting(self) -> int:
        """Events this source still holds for its sinks."""
        return self._backlog()

    def pause(self) -> None:
        self._set_opened()
        for stream in self._streams.values():
            stream.pause()

    def resume(self) -> None:
        self._set_opened()
        for stream in list(self._streams.values()):
            if self._gate.shut:  # what one stream held filled the window again
                return
            stream.resume()
        self._refused = False
        self._on_ready()

    def void(self) -> None:
        self._void = True
        self._streams.clear()
