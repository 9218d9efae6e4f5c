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
from walflow.contract import Marked, Timer
from walflow.errors import CannotEncode
from walflow.event import Codec, Cutting, Frames, Framing, ReadPlace, StreamId
from walflow.framing import LINES, MESSAGES, WHOLE, Multiline, Pending, divided, frames_of
from walflow.nodes.marks import SinceMark
from walflow.offsets import EventEnds

UNCUT: Final = '. Several lines came as one event: `preprocessors = ["separate"]` cuts the stream at newlines'
LINES_SEEN: Final = 3  # of a read, to know whether its lines are events
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
    def later(self, delay: float, call: Callable[[], None]) -> Timer: ...


class IngressStream:
    """One connection or open file. See `walflow.contract.Stream`."""

    __slots__ = (
        "_begin",
        "_came",
        "_codec",
        "_fed",
        "_framing",
        "_held",
        "_joins",
        "_max_bytes",
        "_pause_source",
        "_resume_source",
        "_shut",
        "_skipped",
        "_source_paused",
        "_tail",
        "_timer",
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
        self._joins = framing if isinstance(framing, Multiline) else None
        self._tail = bytearray() if self._joins is None else self._joins.pending(self._max_bytes)
        self._timer: Timer | None = None  # until the lines that are there are an event
        self._came = False  # more, since the timer began
        self.since_mark: SinceMark | None = None  # set if the source asked for the outcome of its events
        self.place: ReadPlace | None = None
        self._begin = 0
        self._fed = 0  # bytes
        self._skipped: int | None = None  # bytes so far of an event that is too large; None: no such event

    def read_at(self, place: ReadPlace) -> None:
        """Sets the place of what is read next. Call it before that is fed."""
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

    @property
    def open_lines(self) -> int:
        return self._tail.lines if isinstance(self._tail, Pending) else 0

    @property
    def patience(self) -> float:
        return self._joins.timeout if self._joins is not None else 0.0

    def end_event(self) -> None:
        self._do(self._end_event)

    def abandon(self) -> None:
        self._stop_timer()
        self._held.clear()
        self._tail.clear()
        self._skipped = None
        self._to.ended(self)

    def rest(self) -> bytes | None:
        if self._held or self._yielded or self._skipped is not None or self._joins is not None:
            return None
        return bytes(self._tail)

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
        if self._joins is not None:
            self._take_joined(whole, start)
            self._wait_for_more()
        elif len(whole) > TURN_EVENTS:
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
        self._stop_timer()
        self._end_oversized()
        if not complete:
            self._end_event()
        start = self._fed - len(self._tail)
        last = self._framing.finish(self._tail)
        if last:
            if not complete and not self._ends_whole(last):
                self._refuse_last(last, "the stream ended inside an event")
            elif self._joins is not None:
                self._take_joined(last, start)
            else:
                self._take(last, self._framing, start)
        self._to.ended(self)

    def _close(self) -> None:
        self._stop_timer()
        self._end_oversized()
        self._end_event()
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
        """Takes as many events as one turn allows, and holds the others.
        `start`: where they begin, in bytes that were fed."""
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

    # events of several lines

    def _end_event(self) -> None:
        if self._joins is not None and isinstance(self._tail, Pending):
            start = self._fed - len(self._tail)
            self._take_joined(self._joins.end_event(self._tail), start)

    def _wait_for_more(self) -> None:
        """A source that asked for the outcome of its events says itself when an event is over."""
        self._came = True
        if self._timer is None and self.since_mark is None and self.open_lines:
            self._came = False
            self._timer = self._to.later(self.patience, self._waited)

    def _waited(self) -> None:
        """Its rest may be in the kernel, while the source may not read."""
        self._timer = None
        if self._came or self._source_paused or self._held:
            self._wait_for_more()
        else:
            self._end_event()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_joined(self, whole: bytes, start: int) -> None:
        if not whole:
            return
        assert isinstance(self._tail, Pending)
        ends = self._tail.ends
        if len(ends) <= TURN_EVENTS:
            self._judge_joined(whole, ends, start)
            return
        turns: list[Callable[[], None]] = []
        begin = 0
        for number in range(0, len(ends), TURN_EVENTS):
            part = ends[number : number + TURN_EVENTS]
            moved = [end - begin for end in part]
            turns.append(partial(self._judge_joined, whole[begin : part[-1]], moved, start + begin))
            begin = part[-1]
        self._held.extendleft(reversed(turns))
        self._yielded = True  # as in `_take`
        self._held.popleft()()
        self._yield_turn()

    def _judge_joined(self, whole: bytes, ends: Sequence[int], start: int) -> None:
        """They go on as lines, or with their lengths: what comes behind a filter is not joined again."""
        payloads = divided(whole, ends)
        if len(whole) > self._max_bytes:
            sizes = [len(payload) for payload in payloads if len(payload) > self._max_bytes]
            if sizes:
                kept = [(each, end) for each, end in zip(payloads, ends, strict=True) if len(each) <= self._max_bytes]
                payloads, ends = [each for each, _ in kept], [end for _, end in kept]
                self._refuse_sizes(sizes)
            if not payloads:
                return
        data, framing = frames_of(payloads)
        verdict = self._codec.validate(data, framing, len(payloads))
        good = verdict.good
        if good is not None:
            placed = None
            if self.place is not None and (found := _ends_of(good, payloads, ends)) is not None:
                begin, end = self._begin + start, self._begin + min(start + len(whole), self._fed)
                placed = EventEnds(begin, end, good.count, lambda: found)
            self._to.deliver(self, good, self._codec, placed)
        if verdict.bad:
            self._to.refuse(self, verdict.bad)

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
            self._to.refuse(self, self._advised(verdict.bad) if framing is WHOLE else verdict.bad)

    def _advised(self, bad: Sequence[tuple[bytes, str]]) -> Sequence[tuple[bytes, str]]:
        """Of reads that nothing cuts: what to do if a line in one is an event by itself."""
        return [(read, f"{reason}{UNCUT}" if self._has_events(read) else reason) for read, reason in bad]

    def _has_events(self, read: bytes) -> bool:
        """The rest of one, more of them, or the beginning of one stand beside it."""
        lines = read.rstrip(b"\r\n").split(b"\n", LINES_SEEN)
        seen = [line.rstrip(b"\r") for line in lines[:LINES_SEEN] if line.strip()]
        return len(lines) > 1 and any(self._codec.validate(line + b"\n", LINES, 1).good is not None for line in seen)

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
    """Where the good events end in what came. Whether an event is good depends on its bytes alone. None: they are not
    found, because the codec has changed them."""
    wanted = [*reversed(good.framing.frames(good.data))]
    ends: list[int] = []
    for frame, end in zip(framing.frames(came), framing.index(came), strict=True):
        if wanted and frame == wanted[-1]:
            wanted.pop()
            ends.append(end)
    return None if wanted else lambda: ends


def _ends_of(good: Frames, payloads: Sequence[bytes], ends: Sequence[int]) -> Sequence[int] | None:
    """As `_finding`."""
    if good.count == len(payloads):
        return ends
    wanted = [*reversed(good.payloads())]
    found: list[int] = []
    for payload, end in zip(payloads, ends, strict=True):
        if wanted and payload == wanted[-1]:
            wanted.pop()
            found.append(end)
    return None if wanted else found


def _turns(count: int) -> list[int]:
    full, rest = divmod(count, TURN_EVENTS)
    return [TURN_EVENTS] * full + ([rest] if rest else [])
