"""Makes blocks of the bytes of a stream: framing, limit of size, validation. Synchronous. It never raises because of
data.

One read may hold a quarter of a million events, for example empty lines. They would take seconds, and a block takes a
millisecond. So a stream works in turns: what exceeds one turn is held until other streams had their turns, and the
source is paused meanwhile.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from walflow.codecs import JSON
from walflow.contract import Marked
from walflow.errors import CannotEncode
from walflow.event import Codec, Cutting, Frames, Framing, StreamId
from walflow.framing import LINES, MESSAGES, frames_of
from walflow.nodes.marks import SinceMark

TURN_EVENTS: Final = 4096  # events that are validated and delivered in one turn


class Delivery(Protocol):
    """The object that takes the blocks of a stream."""

    def deliver(self, stream: "IngressStream", frames: Frames, codec: Codec) -> None: ...
    def refuse(self, stream: "IngressStream", bad: Sequence[tuple[bytes, str]]) -> None:
        """What came, and why it is no event. b"": it is not known, or was not kept."""
        ...

    def ended(self, stream: "IngressStream") -> None: ...
    def next_turn(self, call: Callable[[], None]) -> None: ...


class IngressStream:
    """One connection or open file. See `walflow.contract.Stream`."""

    __slots__ = (
        "_codec",
        "_framing",
        "_held",
        "_max_bytes",
        "_pause_source",
        "_resume_source",
        "_shut",
        "_skipped",
        "_source_paused",
        "_tail",
        "_to",
        "_yielded",
        "id",
        "meta",
        "since_mark",
    )

    def __init__(
        self,
        to: Delivery,
        stream_id: StreamId,
        meta: Mapping[str, object],
        codec: Codec,
        framing: Cutting,
        max_event_bytes: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        self.id = stream_id
        self.meta = meta
        self._pause_source = pause
        self._resume_source = resume
        self._source_paused = False
        self._shut = False  # by the outlet
        self._yielded = False  # its turn is over, and it holds more
        self._held: deque[Callable[[], None]] = deque()  # bytes that came later, in order
        self._to = to
        self._codec = codec
        self._framing = framing
        self._max_bytes = min(max_event_bytes, framing.max_length or max_event_bytes)
        self._tail = bytearray()
        self.since_mark: SinceMark | None = None  # set if the source asked for the outcome of its events
        self._skipped: int | None = None  # bytes so far of an event that is too large; None: no such event

    def pause(self) -> None:
        self._shut = True
        self._set_source()

    def resume(self) -> None:
        self._shut = False
        self._set_source()

    def feed(self, data: bytes) -> None:
        if self._held:
            self._held.append(partial(self._feed, data))
        else:
            self._feed(data)

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        if self._framing is not MESSAGES:
            for message in messages:
                self.feed(message)
        elif messages:
            self._do(partial(self._take, *frames_of(messages)))

    def reject(self, reason: str) -> None:
        self._do(lambda: self._to.refuse(self, [(b"", reason)]))

    def emit(self, values: Sequence[object]) -> None:
        self._do(partial(self._emit, values))

    def eof(self, *, complete: bool) -> None:
        self._do(partial(self._eof, complete=complete))

    def close(self) -> None:
        self._do(self._close)

    def mark(self, settled: Callable[[Marked], None]) -> None:
        self._do(partial(self._mark, settled))

    def abandon(self) -> None:
        self._held.clear()
        self._tail.clear()
        self._skipped = None
        self._to.ended(self)

    # turns

    def _do(self, call: Callable[[], None]) -> None:
        if self._held:
            self._held.append(call)
        else:
            call()

    def _yield_turn(self) -> None:
        self._yielded = True
        self._set_source()
        self._to.next_turn(self._turn)

    def _turn(self) -> None:
        self._yielded = False
        self._do_held()
        self._set_source()

    def _do_held(self) -> None:
        """Takes the next piece of the held bytes. It does so also while the outlet is shut, because these bytes were
        read before."""
        if self._held:
            self._held.popleft()()
        if self._held and not self._yielded:
            self._yield_turn()

    def _set_source(self) -> None:
        pause = self._shut or self._yielded
        if pause is not self._source_paused:
            self._source_paused = pause
            if pause:
                self._pause_source()
            else:
                self._resume_source()

    # bytes to events

    def _feed(self, data: bytes) -> None:
        if self._skipped is not None:
            data = self._skip(data)
        whole = self._framing.cut(self._tail, data)
        if len(self._tail) > self._max_bytes:
            self._skipped = len(self._tail)
            self._tail.clear()
        if len(whole) > TURN_EVENTS:
            self._take(whole, self._framing)
        elif whole:
            self._judge(whole, self._framing, None)

    def _emit(self, values: Sequence[object]) -> None:
        try:
            payloads = [JSON.encode(value) for value in values]
        except CannotEncode as error:
            self._to.refuse(self, [(b"", str(error))] * len(values))
            return
        self._to.deliver(self, Frames(LINES.join(payloads), len(payloads), LINES), JSON)

    def _eof(self, *, complete: bool) -> None:
        self._end_oversized()
        last = self._framing.finish(self._tail)
        if last:
            if complete or self._ends_whole(last):
                self._take(last, self._framing)
            else:
                self._refuse_last(last, "the stream ended inside an event")
        self._to.ended(self)

    def _close(self) -> None:
        self._end_oversized()
        last = self._framing.finish(self._tail)
        if last:
            self._refuse_last(last, "the stream broke off inside an event")
        self._to.ended(self)

    def _refuse_last(self, last: bytes, reason: str) -> None:
        self._to.refuse(self, [(payload, reason) for payload in self._framing.payloads(last)])

    def _mark(self, settled: Callable[[Marked], None]) -> None:
        assert self.since_mark is not None, "the stream was opened without marks"
        before, self.since_mark = self.since_mark, SinceMark()
        before.mark(len(self._tail) + (self._skipped or 0), settled)

    def _ends_whole(self, last: bytes) -> bool:
        return all(map(self._codec.whole, self._framing.payloads(last)))

    def _take(self, whole: bytes, framing: Framing) -> None:
        """Takes as many events as one turn allows, and holds the others."""
        count = framing.count(whole) if len(whole) > TURN_EVENTS else None
        if count is None or count <= TURN_EVENTS:
            self._judge(whole, framing, count)
            return
        pieces = Frames(whole, count, framing).parts(_turns(count))
        self._held.extendleft(partial(self._judge, each.data, framing, each.count) for each in reversed(pieces))
        self._yielded = True  # delivering may settle events at once, and so resume this stream
        self._held.popleft()()
        self._yield_turn()

    def _judge(self, whole: bytes, framing: Framing, count: int | None) -> None:
        if len(whole) > self._max_bytes:
            count = None
            whole = self._without_oversized(whole, framing)
            if not whole:
                return
        verdict = self._codec.validate(whole, framing, count)
        if verdict.good is not None:
            self._to.deliver(self, verdict.good, self._codec)
        if verdict.bad:
            self._to.refuse(self, verdict.bad)

    def _without_oversized(self, whole: bytes, framing: Framing) -> bytes:
        """The frames of `whole` that are within the limit. The others are rejected."""
        payloads = framing.payloads(whole)
        kept = [payload for payload in payloads if len(payload) <= self._max_bytes]
        if len(kept) == len(payloads):
            return whole
        self._refuse_sizes([len(payload) for payload in payloads if len(payload) > self._max_bytes])
        return framing.join(kept) if kept else b""

    def _skip(self, data: bytes) -> bytes:
        """The bytes that follow an event that is too large. The stream continues there."""
        assert self._skipped is not None
        rest = self._framing.skip(data)
        if rest is None:
            self._skipped += len(data)
            return b""
        self._skipped += len(data) - len(rest)
        self._end_oversized()
        return rest

    def _end_oversized(self) -> None:
        if self._skipped is not None:
            self._refuse_sizes([self._skipped])
            self._skipped = None

    def _refuse_sizes(self, sizes: Sequence[int]) -> None:
        limit = self._max_bytes
        self._to.refuse(self, [(b"", f"event of {size} bytes exceeds max_event_bytes, {limit}") for size in sizes])


def _turns(count: int) -> list[int]:
    full, rest = divmod(count, TURN_EVENTS)
    return [TURN_EVENTS] * full + ([rest] if rest else [])
