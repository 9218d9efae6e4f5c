"""Makes blocks of the bytes of a stream: framing, limit of size, validation. Synchronous. It never raises because of
data.

One read may hold a quarter of a million events, for example empty lines. They would take seconds, and a block takes a
millisecond. So a stream works in turns: what exceeds one turn is held until other streams had their turns, and the
source is paused meanwhile.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, Protocol

from walflow.codecs import JSON
from walflow.contract import Marked
from walflow.errors import CannotEncode
from walflow.event import Codec, Cutting, Frames, Framing, ReadPlace, StreamId
from walflow.framing import LINES, MESSAGES, frames_of
from walflow.nodes.marks import SinceMark
from walflow.offsets import EventEnds

TURN_EVENTS: Final = 4096  # events that are validated and delivered in one turn


class Delivery(Protocol):
    """The object that takes the blocks of a stream."""

    def deliver(
        self, stream: "IngressStream", frames: Frames, codec: Codec, ends: EventEnds | None = None
    ) -> None: ...
    def refuse(self, stream: "IngressStream", bad: Sequence[tuple[bytes, str]]) -> None:
        """What came, and why it is no event. b"": it is not known, or was not kept."""
        ...

    def ended(self, stream: "IngressStream") -> None: ...
    def next_turn(self, call: Callable[[], None]) -> None: ...


class IngressStream:
    """One connection or open file. See `walflow.contract.Stream`."""

    __slots__ = (
        "_begin",
        "_codec",
        "_fed",
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
        "place",
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
        self.place: ReadPlace | None = None
        self._begin = 0
        self._fed = 0  # bytes
        self._skipped: int | None = None  # bytes so far of an event that is too large; None: no such event

    def read_at(self, place: ReadPlace) -> None:
        """Before anything is fed."""
        self.place = place
        self._begin = place.begin()

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
        self._fed += len(data)
        if self._skipped is not None:
            data = self._skip(data)
        whole = self._framing.cut(self._tail, data)
        start = self._fed - len(self._tail) - len(whole)
        if len(self._tail) > self._max_bytes:
            self._skipped = len(self._tail)
            self._tail.clear()
        if len(whole) > TURN_EVENTS:
            self._take(whole, self._framing, start)
        elif whole:
            self._judge(whole, self._framing, None, start)

    def _emit(self, values: Sequence[object]) -> None:
        try:
            payloads = [JSON.encode(value) for value in values]
        except CannotEncode as error:
            self._to.refuse(self, [(b"", str(error))] * len(values))
            return
        self._to.deliver(self, Frames(LINES.join(payloads), len(payloads), LINES), JSON)

    def _eof(self, *, complete: bool) -> None:
        self._end_oversized()
        start = self._fed - len(self._tail)
        last = self._framing.finish(self._tail)
        if last:
            if complete or self._ends_whole(last):
                self._take(last, self._framing, start)
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

    def _take(self, whole: bytes, framing: Framing, start: int = 0) -> None:
        """Takes as many events as one turn allows, and holds the others. `start`: where they begin, in bytes that were fed."""
        count = framing.count(whole) if len(whole) > TURN_EVENTS else None
        if count is None or count <= TURN_EVENTS:
            self._judge(whole, framing, count, start)
            return
        pieces = Frames(whole, count, framing).parts(_turns(count))
        starts = accumulate((len(each.data) for each in pieces), initial=start)
        judges = [
            partial(self._judge, each.data, framing, each.count, at) for each, at in zip(pieces, starts, strict=False)
        ]
        self._held.extendleft(reversed(judges))
        self._yielded = True  # delivering may settle events at once, and so resume this stream
        self._held.popleft()()
        self._yield_turn()

    def _judge(self, whole: bytes, framing: Framing, count: int | None, start: int) -> None:
        came = whole
        if len(whole) > self._max_bytes:
            count = None
            whole = self._without_oversized(whole, framing)
            if not whole:
                return
        verdict = self._codec.validate(whole, framing, count)
        if verdict.good is not None and self.place is not None:
            self._deliver_placed(verdict.good, came, framing, start)
        elif verdict.good is not None:
            self._to.deliver(self, verdict.good, self._codec)
        if verdict.bad:
            self._to.refuse(self, verdict.bad)

    def _deliver_placed(self, good: Frames, came: bytes, framing: Framing, start: int) -> None:
        """With the offset of each event."""
        find: Callable[[], Sequence[int]] | None = partial(good.framing.index, good.data)
        if len(good.data) != len(came):
            find = _finding(good, came, framing)
        begin, end = start, min(start + len(came), self._fed)  # the last line may have no end in the file
        ends = EventEnds(self._begin + begin, self._begin + end, good.count, find) if find is not None else None
        self._to.deliver(self, good, self._codec, ends)

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


def _finding(good: Frames, came: bytes, framing: Framing) -> Callable[[], Sequence[int]] | None:
    """Where the good events end in what came. Whether an event is good depends on its bytes alone. None: they are not found, because
    the codec has changed them."""
    wanted = [*reversed(good.framing.frames(good.data))]
    ends: list[int] = []
    for frame, end in zip(framing.frames(came), framing.index(came), strict=True):
        if wanted and frame == wanted[-1]:
            wanted.pop()
            ends.append(end)
    return None if wanted else lambda: ends


def _turns(count: int) -> list[int]:
    full, rest = divmod(count, TURN_EVENTS)
    return [TURN_EVENTS] * full + ([rest] if rest else [])
