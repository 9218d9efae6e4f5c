"""Makes blocks of the bytes that a source's streams push. A connector learns the outcome of these blocks only if it
opened the stream with `marks`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walflow.event import Block, Codec, Frames, Node, ReadPlace, StreamId
from walflow.framing import LINES, Incoming
from walflow.nodes.ingress import IngressStream
from walflow.nodes.marks import SinceMark
from walflow.nodes.rejects import KEPT_BYTES, ErrPort, UndecodedEvents
from walflow.nodes.run_context import RunContext
from walflow.nodes.staged import StagedStream
from walflow.nodes.turns import Turns
from walflow.nodes.window import SendWindow
from walflow.offsets import EventEnds
from walflow.receipt import Receipt, Settled
from walflow.world import wall_ns

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BLOCK_BYTES: Final = 256 << 10  # the most bytes of one read of a socket
BLOCK_EVENTS: Final = 4096
ERROR_BYTES: Final = 64  # bytes of an error event without its reason and what came


@dataclass(frozen=True)
class SourcePorts:
    """Where the blocks of a source go, and the codec and framing that the flow file names for its input."""

    name: str
    out: Node
    err: ErrPort
    codec: Codec
    incoming: Incoming


class Streams:
    """The open streams of one run. They deliver events here: see `walflow.nodes.ingress.Delivery`."""

    def __init__(self, ports: SourcePorts, run: int, window: SendWindow, turns: Turns, context: RunContext) -> None:
        self._ports = ports
        self._out = ports.out
        self._run = run
        self._window = window
        self._log = context.log
        self._open: dict[int, IngressStream] = {}
        self._last = 0
        self.later = context.scheduler.call_later
        self._received = context.counter("received_events_total")
        self._received_bytes = context.counter("received_bytes_total")
        self._lost = context.counter("lost_events_total")
        self.next_turn = turns.next

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self,
        meta: Mapping[str, object],
        max_event_bytes: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
        broken: Callable[[], None],
        *,
        marks: bool,
        place: ReadPlace | None,
    ) -> IngressStream:
        self._last += 1
        codec, incoming = self._ports.codec, self._ports.incoming
        name = StreamId(self._ports.name, self._run, self._last)
        stream = (
            StagedStream(self, name, meta, codec, incoming, max_event_bytes, pause, resume, broken)
            if incoming.steps
            else IngressStream(self, name, meta, codec, incoming.framing, max_event_bytes, pause, resume)
        )
        stream.since_mark = SinceMark() if marks else None
        if place is not None and not incoming.steps:
            stream.read_at(place)
        self._open[name.number] = stream
        if self._window.gate.shut:
            stream.pause()
        return stream

    def pause(self) -> None:
        for stream in self._open.values():
            stream.pause()

    def resume(self) -> bool:
        """Resumes the streams. False if one of them filled the window again with what it held."""
        for stream in list(self._open.values()):
            if self._window.gate.shut:
                return False
            stream.resume()
        return True

    def deliver(self, stream: IngressStream, frames: Frames, codec: Codec, ends: EventEnds | None = None) -> None:
        window = self._window
        if window.over:
            return
        now = wall_ns()
        place = stream.place if ends is not None else None
        read_from = None if place is None else place.origin()._replace(place=place)
        positions: Sequence[int] | None = ends
        sent = 0
        for part in frames.parts(frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
            size = len(part.data)
            window.inflight += size
            self._received.value += part.count
            self._received_bytes.value += size
            receipt = Receipt(self._outcome_of(stream), part.count, size)
            if ends is not None and part is not frames:
                positions = ends[sent : sent + part.count]
                sent += part.count
            block = Block(
                stream.id,
                part,
                codec,
                receipt,
                ingest_ns=now,
                meta=stream.meta,
                positions=positions,
                read_from=read_from,
            )
            try:
                self._out.accept(block)
            except Exception as error:  # noqa: BLE001  # any bug
                log_bug(self._log, error, block)
        if window.inflight > window.window:
            window.exceed()

    def refuse(self, stream: IngressStream, bad: Sequence[tuple[bytes, str]]) -> None:
        window = self._window
        if window.over:
            return
        size = sum(ERROR_BYTES + len(reason) + min(len(payload), KEPT_BYTES) for payload, reason in bad)
        window.inflight += size
        frames = Frames(LINES.join([b""] * len(bad)), len(bad), LINES)  # only the errors are sent on
        receipt = Receipt(self._outcome_of(stream), len(bad), size)
        block = Block(
            stream.id,
            frames,
            self._ports.codec,
            receipt,
            ingest_ns=wall_ns(),
            meta=stream.meta,
            weight=size,
        )
        events = UndecodedEvents([payload for payload, _ in bad])
        self._ports.err.take(block, [reason for _, reason in bad], events)
        if window.inflight > window.window:
            window.exceed()

    def ended(self, stream: IngressStream) -> None:
        self._open.pop(stream.id.number, None)

    def end(self) -> None:
        self._open.clear()

    def _outcome_of(self, stream: IngressStream) -> Settled:
        return self._settled if stream.since_mark is None else stream.since_mark.include(self._marked_settled)

    def _marked_settled(self, receipt: Receipt) -> None:
        """Events that failed are not lost: their source sends them again."""
        window = self._window
        if window.over:
            return
        if receipt.done:
            window.delivered += 1
        assert isinstance(receipt.ref, int)
        window.give_back(receipt.ref)

    def _settled(self, receipt: Receipt) -> None:
        window = self._window
        if receipt.cause is not None:  # also after the run: a stop does not wait for ever
            self._lost.value += receipt.count - receipt.done
            self._log.error("lost", events=receipt.count - receipt.done, cause=str(receipt.cause))
        if window.over:
            return
        size = receipt.ref
        assert isinstance(size, int)
        if receipt.done:
            window.delivered += 1
        window.give_back(size)


def log_bug(log: "FilteringBoundLogger", error: Exception, block: Block) -> None:
    """A node that raises has a bug. Only this block fails, when its receipt is collected. A log sends it again, in
    the end alone."""
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    log.error("internal error", error=text, events=block.frames.count, stream=block.stream.number)
    log.debug("internal error", exc_info=error)
