"""A stream's bytes into blocks: framing, the size limit, validation, the caps. Synchronous; never raises for data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from walflow.codecs import JSON
from walflow.errors import CannotEncode
from walflow.event import Codec, Cutting, Frames, Framing, StreamId
from walflow.framing import LINES, MESSAGES, held


class Delivery(Protocol):
    """What a stream hands its blocks to."""

    def deliver(self, stream: "IngressStream", frames: Frames, codec: Codec) -> None: ...
    def refuse(self, stream: "IngressStream", bad: Sequence[tuple[bytes, str]]) -> None: ...
    def ended(self, stream: "IngressStream") -> None: ...


class IngressStream:
    """One connection or open file. See `walflow.contract.Stream`."""

    __slots__ = ("_codec", "_framing", "_max_bytes", "_skipped", "_tail", "_to", "id", "meta", "pause", "resume")

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
        self.pause = pause
        self.resume = resume
        self._to = to
        self._codec = codec
        self._framing = framing
        self._max_bytes = min(max_event_bytes, framing.max_length or max_event_bytes)
        self._tail = bytearray()
        self._skipped: int | None = None  # bytes so far of an event too large to keep, while one goes on

    def feed(self, data: bytes) -> None:
        if self._skipped is not None:
            data = self._skip(data)
        whole = self._framing.cut(self._tail, data)
        if len(self._tail) > self._max_bytes:
            self._skipped = len(self._tail)
            self._tail.clear()
        if whole:
            self._take(whole, self._framing)

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        if self._framing is not MESSAGES:
            for message in messages:
                self.feed(message)
        elif messages:
            self._take(*held(messages))

    def reject(self, reason: str) -> None:
        self._to.refuse(self, [(b"", reason)])

    def emit(self, values: Sequence[object]) -> None:
        try:
            payloads = [JSON.encode(value) for value in values]
        except CannotEncode as error:
            self._to.refuse(self, [(b"", str(error))] * len(values))
            return
        self._to.deliver(self, Frames(LINES.join(payloads), len(payloads), LINES), JSON)

    def eof(self, *, complete: bool) -> None:
        self._end_oversized()
        last = self._framing.finish(self._tail)
        if last:
            if complete or self._ends_whole(last):
                self._take(last, self._framing)
            else:
                self._to.refuse(self, [(last, "the stream ended inside an event")])
        self._to.ended(self)

    def close(self) -> None:
        self._end_oversized()
        last = self._framing.finish(self._tail)
        if last:
            self._to.refuse(self, [(last, "the stream broke off inside an event")])
        self._to.ended(self)

    def _ends_whole(self, last: bytes) -> bool:
        return all(map(self._codec.whole, self._framing.payloads(last)))

    def _take(self, whole: bytes, framing: Framing) -> None:
        if len(whole) > self._max_bytes:
            whole = self._without_oversized(whole, framing)
            if not whole:
                return
        verdict = self._codec.validate(whole, framing)
        if verdict.good is not None:
            self._to.deliver(self, verdict.good, self._codec)
        if verdict.bad:
            self._to.refuse(self, verdict.bad)

    def _without_oversized(self, whole: bytes, framing: Framing) -> bytes:
        """The frames of `whole` that are within the limit; the others are refused."""
        payloads = framing.payloads(whole)
        kept = [payload for payload in payloads if len(payload) <= self._max_bytes]
        if len(kept) == len(payloads):
            return whole
        self._refuse_sizes([len(payload) for payload in payloads if len(payload) > self._max_bytes])
        return framing.join(kept) if kept else b""

    def _skip(self, data: bytes) -> bytes:
        """What follows the event that is too large; the stream goes on there."""
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
