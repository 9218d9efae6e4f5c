"""One lane of a log: sends durable events, in order, within its window, until every sink of the lane has acked
them."""

from collections.abc import Callable, Mapping

from msgspec import MsgspecError

from walflow.contract import Outlet
from walflow.delivery.ahead import ReadAhead
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.log_events import CutRecord, LogEvents
from walflow.delivery.outcomes import Outcomes
from walflow.delivery.sender import Sender
from walflow.delivery.tag import Tag, Tags
from walflow.errors import WalflowError
from walflow.event import Block, Frames, Origin
from walflow.positions import Range
from walflow.receipt import Receipt
from walflow.wal import Log, Mark, Record


class Lane:
    """`mark`: what its sinks have acked. `window`: bytes that may be sent and not acked. A lane knows nothing of the
    others. `found_gaps` is called after each read. `is_full`: whether the log takes no events now."""

    def __init__(
        self,
        log: Log,
        mark: Mark,
        out: Outlet,
        tags: Tags,
        checkpoints: Checkpoints,
        outcomes: Outcomes,
        window: int,
        limits: SendLimits,
        found_gaps: Callable[[], None],
        is_full: Callable[[], bool],
    ) -> None:
        self._log = log
        self._is_full = is_full
        self._mark = mark
        self._out = out
        self._place = LanePlace(log, mark)
        self._tags = tags
        self._checkpoints = checkpoints
        self._outcomes = outcomes
        self.dropped_events = 0  # of a log with several lanes: those that this lane never gets
        self._sender: Sender[LogEvents] = Sender(self, out, limits)
        self._ahead = ReadAhead(log, mark, out, self._sender.ready, found_gaps, self.pump)
        out.window = min(out.window, window)
        out.window_events = limits.events
        out.on_ready(self.pump)
        out.backlog(self.backlog, lambda: self._ahead.waits_for() or self._sender.waits_for())

    def __repr__(self) -> str:
        return f"<Lane {self._mark!r}, {self._sender!r}>"

    @property
    def first_ingest_ns(self) -> int:
        """When the first event that was read had been received, 0 if none was."""
        return self._ahead.first_ingest_ns

    def backlog(self) -> int:
        """Events that are durable and not acked by every sink of the lane."""
        return self._mark.behind(self._log.durable)

    def received_ns(self) -> int:
        """The stamp of the oldest event that is not acked by every sink of the lane. 0: none was read."""
        return self._ahead.received_ns()

    @property
    def low(self) -> int:
        """All positions up to this one are acked in this lane."""
        return self._mark.low

    @property
    def fails(self) -> bool:
        """The disk fails to read what the lane sends next. It is tried again."""
        return self._ahead.fails

    def forget(self, last: int, lacked: int) -> None:
        """The log has dropped all events up to this position that were not acked; the lane had not acked `lacked` of
        them. A sink may still settle some of them; that has no effect."""
        self.dropped_events += lacked
        self._sender.forget(last)

    def pump(self) -> None:
        """Sends what may be sent."""
        self._sender.pump()

    def stop(self) -> None:
        """Reads no more. What is in flight may still settle."""
        self._ahead.stop()

    # walflow.delivery.in_flight.Supply

    def fill(self) -> bool:
        return self._ahead.fill()

    def block(self, part: InFlight[LogEvents], receipt: Receipt) -> Block | None:
        source = part.source
        if isinstance(source, CutRecord):
            tag, frames = source.tag, source.frames
        else:
            found = self._tag(source)
            if found is None:
                return None
            tag, frames = found, Frames(source.payload, source.count, found.framing)
        start = part.first - source.position
        frames = frames.slice(start, start + part.count)
        part.size = len(frames.data)
        log = self._log
        return Block(
            tag.stream,
            frames,
            tag.codec,
            receipt,
            ingest_ns=source.ingest_ns,
            meta=tag.meta,
            event_metas=_metas(tag, start, part.count),
            # not the low of this moment: a crash may bring back what is acked and not yet in the cursor
            origin=Origin(
                log.uuid,
                part.first,
                part.last,
                self._checkpoints.low + 1,
                log.term(part.first),
                self._mark.low,
                self._place,
            ),
        )

    def _tag(self, record: Record) -> Tag | None:
        """None: a codec that this version does not have. The record is not sent, and its positions stay unacked: the
        log fills up rather than lose it."""
        try:
            return self._tags.decode(record.tag)
        except (MsgspecError, WalflowError) as error:
            self._out.log.error("unreadable tag", position=record.position, events=record.count, error=str(error))
            return None

    def cut(self, part: InFlight[LogEvents], first: int, last: int) -> LogEvents:
        source = part.source
        count = source.frames.count if isinstance(source, CutRecord) else source.count
        if (source.position, count) == (first, last - first + 1):
            return source
        if isinstance(source, CutRecord):
            tag, frames = source.tag, source.frames
        else:
            tag = self._tags.decode(source.tag)  # it was sent, so it can be read
            frames = Frames(source.payload, source.count, tag.framing)
        start, count = first - source.position, last - first + 1
        metas = _metas(tag, start, count)
        return CutRecord(first, frames.slice(start, start + count), tag._replace(event_metas=metas), source.ingest_ns)

    def sent(self, part: InFlight[LogEvents]) -> None: ...

    def returned(self, part: InFlight[LogEvents]) -> None: ...

    def acked(self, part: InFlight[LogEvents], first: int, last: int) -> None:
        size = self._size_of(part, first, last)
        by_all = self._mark.ack(first, last)
        count = last - first + 1
        self._outcomes.acked(by_all, size if by_all == count else size * by_all // count)
        self._checkpoints.acked()

    def failed(self, part: InFlight[LogEvents], first: int, last: int) -> None:
        self._outcomes.failed(last - first + 1, self._size_of(part, first, last))

    def given_up(self, part: InFlight[LogEvents]) -> None:
        self._outcomes.rejected(part.size)

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        left = self.backlog()
        passed = passed or self._log.durable - self._mark.low > left
        return passed and left <= events and self._is_full()

    def place(self, part: InFlight[LogEvents]) -> str:
        return f"position {part.first}"

    def _size_of(self, part: InFlight[LogEvents], first: int, last: int) -> int:
        """The size in bytes of these events of the part."""
        if (first, last) == (part.first, part.last):
            return part.size
        source = part.source
        if isinstance(source, CutRecord):
            frames = source.frames
        else:
            frames = Frames(source.payload, source.count, self._tags.decode(source.tag).framing)
        start = first - source.position
        return len(frames.slice(start, start + last - first + 1).data)


class LanePlace:
    """The log as this lane's sinks see it (`walflow.event.PositionLog`)."""

    def __init__(self, log: Log, mark: Mark) -> None:
        self._log = log
        self._mark = mark
        self.path = log.path
        self.relaxed = log.relaxed

    @property
    def next(self) -> int:
        return self._log.next

    @property
    def low(self) -> int:
        return self._mark.low

    def spans(self) -> Mapping[int, Range]:
        return self._log.spans()

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        self._log.trail.gone(name, reason, first, last)


def _metas(tag: Tag, start: int, count: int) -> list[dict[str, object]] | None:
    return None if tag.event_metas is None else [dict(one) for one in tag.event_metas[start : start + count]]
