"""One lane of a log: sends durable events, in order, within its window, until every sink of the lane has acked them."""

import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec import MsgspecError

from walflow.contract import Outlet
from walflow.delivery.ahead import ReadAhead
from walflow.delivery.checkpoints import Checkpoints
from walflow.delivery.outcomes import Outcomes
from walflow.delivery.pump import Pump
from walflow.delivery.redelivery import InFlight, Redelivery
from walflow.delivery.tag import Tag, Tags
from walflow.errors import WalflowError
from walflow.event import Block, Frames, Origin, Receipt
from walflow.wal import Log, Mark, Record


class LaneLimits(NamedTuple):
    """`window`: bytes that may be sent and not acked, `events`: their number; None: no limit but the window. `attempts`:
    how often a single event may fail before it is rejected; None: no limit. `turn`: bytes that may be sent in one turn
    of the loop, because other lanes wait; None: no limit."""

    window: int
    events: int | None = None
    attempts: int | None = None
    turn: int | None = None


class Lane:
    """`mark`: what its sinks have acked. A lane knows nothing of the others. `found_gaps` is called after each read."""

    def __init__(
        self,
        log: Log,
        mark: Mark,
        out: Outlet,
        tags: Tags,
        checkpoints: Checkpoints,
        outcomes: Outcomes,
        limits: LaneLimits,
        found_gaps: Callable[[], None],
    ) -> None:
        self._log = log
        self._mark = mark
        self._out = out
        self._tags = tags
        self._checkpoints = checkpoints
        self._outcomes = outcomes
        self._limits = limits
        self._sent = 0  # events, and not settled
        self.dropped_events = 0  # of a log with several lanes: those that this lane never gets
        self._dropped = 0  # all events up to this position were dropped
        self._ahead = ReadAhead(log, mark, out, found_gaps, self.pump)
        self._redelivery = Redelivery[Record]()
        self._pump = Pump(out.scheduler, self._send_ready)
        out.window = min(out.window, limits.window)
        out.window_events = limits.events
        out.on_ready(self.pump)
        out.backlog(self.backlog, self._ahead.waits_for)

    def __repr__(self) -> str:
        return f"<Lane {self._mark!r}, {self._sent} events sent>"

    @property
    def first_ingest_ns(self) -> int:
        """When the first event that was read had been received, 0 if none was."""
        return self._ahead.first_ingest_ns

    def backlog(self) -> int:
        """Events that are durable and not acked by every sink of the lane."""
        return self._mark.behind(self._log.durable)

    def oldest_seconds(self) -> float:
        """The age of the oldest event that is durable and not acked by every sink of the lane, by the wall clock."""
        received_ns = self._ahead.received_ns() if self.backlog() else 0
        return max(0.0, (time.time_ns() - received_ns) / 1e9) if received_ns else 0.0

    @property
    def low(self) -> int:
        """All positions up to this one are acked in this lane."""
        return self._mark.low

    def forget(self, last: int, lacked: int) -> None:
        """The log has dropped all events up to this position that were not acked; the lane had not acked `lacked` of them.
        A sink may still settle some of them; that has no effect."""
        self._dropped = last
        self.dropped_events += lacked
        self._redelivery.forget(last)

    def pump(self) -> None:
        """Sends what may be sent."""
        self._pump.now()

    def stop(self) -> None:
        """Reads no more. What is in flight may still settle."""
        self._ahead.stop()

    def _send_ready(self) -> None:
        parts, turn, size = self._ahead.parts, self._limits.turn, 0
        while not self._redelivery.blocks and self._ahead.fill():
            part = self._fitted(parts[0])
            if part is None:
                return
            if turn is not None and size >= turn:
                self._pump.later()
                return
            block = self._block(part) if part.last > self._dropped else None
            if block is None:
                parts.popleft()
                continue
            if not self._send(part, block):
                return
            size += part.size

    def _fitted(self, part: InFlight[Record]) -> InFlight[Record] | None:
        """The part of the next events that may be sent now; None: no more may be sent."""
        most = self._limits.events
        if most is None or self._sent + part.count <= most:
            return part
        if self._sent >= most:
            return None
        parts = self._ahead.parts
        parts.popleft()
        parts.extendleft(reversed(part.cut(most - self._sent)))
        return parts[0]

    def _send(self, part: InFlight[Record], block: Block) -> bool:
        """Sends a part. False: not now. The part leaves the queue first, because it may settle (and fail) while it is
        being sent."""
        self._ahead.parts.popleft()
        if part.given_up(self._limits.attempts):
            self._outcomes.rejected(part.size)
            self._sent += part.count
            self._out.reject(block, f"failed {part.attempts} times")
            return True
        self._sent += part.count
        if self._out.send(block):
            return True
        self._sent -= part.count
        block.receipt.settled = _not_sent
        block.receipt.ack()
        self._ahead.parts.appendleft(part)
        return False

    def _block(self, part: InFlight[Record]) -> Block | None:
        log, record = self._log, part.record
        try:
            tag = self._tags.decode(record.tag)
        except (MsgspecError, WalflowError) as error:
            self._give_up(part, record, error)
            return None
        receipt = Receipt(self._settled, part.count, part, part.skip)
        frames = Frames(record.payload, record.count, tag.framing)
        start = part.first - record.position
        frames = frames.slice(start, start + part.count)
        part.size = len(frames.data)
        return Block(
            tag.stream,
            frames,
            tag.codec,
            receipt,
            ingest_ns=record.ingest_ns,
            meta=tag.meta,
            event_metas=_metas(tag, start, part.count),
            # not the low of this moment: a crash may bring back what is acked and not yet in the cursor
            origin=Origin(
                log.uuid, part.first, part.last, self._checkpoints.low + 1, log.term(part.first), self._mark.low
            ),
        )

    def _give_up(self, part: InFlight[Record], record: Record, error: Exception) -> None:
        """Handles a record with a codec that this version does not have. It is not sent, and its positions stay
        unacked: the log fills up rather than lose it."""
        self._out.log.error("unreadable tag", position=record.position, events=part.count, error=str(error))

    def _settled(self, receipt: Receipt) -> None:
        part: InFlight[Record] = receipt.ref  # type: ignore[assignment]  # it is what we gave it
        self._sent -= part.count
        if part.last > self._dropped:
            self._account(part, receipt)
        self._pump.soon()

    def _account(self, part: InFlight[Record], receipt: Receipt) -> None:
        size = self._size_of(part, receipt.done)
        if receipt.done:
            by_all = self._mark.ack(part.first, part.first + receipt.done - 1)
            self._outcomes.acked(by_all, size if by_all == receipt.done else size * by_all // receipt.done)
            self._checkpoints.acked()
        if receipt.cause is not None and receipt.done < part.count:
            left = part.failed(receipt.done, receipt.delivered)
            self._outcomes.failed(left.count, part.size - size)
            self._out.log.warning(
                "redelivery", position=left.first, events=left.count, attempts=left.attempts, cause=str(receipt.cause)
            )
            delay = self._redelivery.add(left)
            self._out.scheduler.call_later(delay, self._redeliver)

    def _size_of(self, part: InFlight[Record], count: int) -> int:
        """The size in bytes of its first `count` events."""
        if not 0 < count < part.count:
            return part.size if count else 0
        record = part.record
        start = part.first - record.position
        frames = Frames(record.payload, record.count, self._tags.decode(record.tag).framing)
        return len(frames.slice(start, start + count).data)

    def _redeliver(self) -> None:
        self._ahead.parts.extendleft(reversed(self._redelivery.take()))
        self.pump()


def _metas(tag: Tag, start: int, count: int) -> list[dict[str, object]] | None:
    return None if tag.event_metas is None else [dict(one) for one in tag.event_metas[start : start + count]]


def _not_sent(receipt: Receipt) -> None:
    """The window is full. The block will be made again later."""
