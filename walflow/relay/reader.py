"""The source half of a log: sends durable events, in order, within its window, until every sink has acked them."""

from collections import deque
from typing import Final

from msgspec import MsgspecError

from walflow.contract import Outlet
from walflow.errors import DiskFull, FailStop, WalflowError
from walflow.event import Block, Frames, Origin, Receipt
from walflow.relay.checkpoints import Checkpoints
from walflow.relay.redelivery import InFlight, Redelivery
from walflow.relay.tag import Tag, Tags
from walflow.wal import Log, Record

READ_BYTES: Final = 1 << 20  # asked of the log at a time
NO_DESCRIPTOR_DELAY: Final = 1.0  # seconds until a file is tried again that could not be opened


class LogSource:
    """`max_attempts`: how often a single event may fail before it is rejected; None: no limit. `most`: how many events
    may be sent and not acked; None: no limit but the window."""

    def __init__(
        self,
        log: Log,
        out: Outlet,
        tags: Tags,
        checkpoints: Checkpoints,
        max_attempts: int | None = None,
        most: int | None = None,
    ) -> None:
        self._log = log
        self._out = out
        self._tags = tags
        self._checkpoints = checkpoints
        self._max_attempts = max_attempts
        self._most = most
        self._sent = 0  # events, and not settled
        self._records = log.reader()
        self._ready: deque[InFlight[Record]] = deque()
        self._redelivery = Redelivery[Record]()
        self._pumping = self._pump_again = self._pump_planned = False
        self._redelivered = out.counter("redelivered_events_total")
        self._redelivered_bytes = out.counter("wal_redelivered_bytes_total")
        self._quarantined = out.counter("quarantined_events_total")
        self._quarantined_bytes = out.counter("wal_quarantined_bytes_total")
        self._rejected_bytes = out.counter("wal_rejected_bytes_total")
        self._acked = out.counter("wal_acked_events_total")
        self._acked_bytes = out.counter("wal_acked_bytes_total")
        self._failed = out.counter("wal_failed_events_total")
        self._failed_bytes = out.counter("wal_failed_bytes_total")
        self._dropped = 0
        self._gaps_told = 0
        self._reads_later = False
        self.first_ingest_ns = 0  # when what it read first had been received
        out.window = min(out.window, log.window)
        out.window_events = most
        out.on_ready(self.pump)
        out.backlog(self.backlog)

    def backlog(self) -> int:
        """Events that are durable and not acked by every sink."""
        log = self._log
        return sum(last - first + 1 for first, last in log.unacked(log.low + 1, log.durable))

    def forget(self, last: int) -> None:
        """The log has dropped all events up to this position that were not acked. A sink may still settle some of them;
        that has no effect."""
        self._dropped = last
        self._redelivery.forget(last)

    def pump(self) -> None:
        """Sends what may be sent. A block may settle while it is being sent, hence the guard."""
        if self._pumping:
            self._pump_again = True
            return
        self._pumping = True
        try:
            self._pump()
            while self._pump_again:
                self._pump_again = False
                self._pump()
        finally:
            self._pumping = False

    def _pump(self) -> None:
        while not self._redelivery.blocks:
            if not self._ready:
                self._read()
                if not self._ready:
                    return
            part = self._fitted(self._ready[0])
            if part is None:
                return
            block = self._block(part) if part.last > self._dropped else None
            if block is None:
                self._ready.popleft()
                continue
            if not self._send(part, block):
                return

    def _fitted(self, part: InFlight[Record]) -> InFlight[Record] | None:
        """The part of the next events that may be sent now; None: no more may be sent."""
        if self._most is None or self._sent + part.count <= self._most:
            return part
        if self._sent >= self._most:
            return None
        self._ready.popleft()
        self._ready.extendleft(reversed(part.cut(self._most - self._sent)))
        return self._ready[0]

    def _send(self, part: InFlight[Record], block: Block) -> bool:
        """Sends a part. False: not now. The part leaves the queue first, because it may settle (and fail) while it is
        being sent."""
        self._ready.popleft()
        if self._max_attempts is not None and part.attempts >= self._max_attempts and part.count == 1:
            self._rejected_bytes.value += part.size
            self._sent += part.count
            self._out.reject(block, f"failed {part.attempts} times")
            return True
        self._sent += part.count
        if self._out.send(block):
            return True
        self._sent -= part.count
        block.receipt.settled = _not_sent
        block.receipt.ack()
        self._ready.appendleft(part)
        return False

    def _read(self) -> None:
        try:
            records = self._records.read(READ_BYTES)
        except DiskFull as error:
            if not self._reads_later:  # others call for a pump meanwhile; one timer is enough
                self._reads_later = True
                self._out.log.warning("log not read", reason=str(error))
                self._out.scheduler.call_later(NO_DESCRIPTOR_DELAY, self._read_again)
            return
        except FailStop as error:
            self._out.fatal(error)
        self._tell_gaps()
        if records and not self.first_ingest_ns:
            self.first_ingest_ns = records[0].ingest_ns
        for record in records:
            last = record.position + record.count - 1
            self._ready.extend(InFlight(low, high, record) for low, high in self._log.unacked(record.position, last))

    def _read_again(self) -> None:
        self._reads_later = False
        self.pump()

    def _tell_gaps(self) -> None:
        """Logs damage to the operator: damaged events are kept in quarantine/ and will not be sent."""
        for gap in self._log.gaps[self._gaps_told :]:
            self._quarantined.value += gap.last - gap.first + 1
            self._quarantined_bytes.value += gap.size
            self._out.log.error("quarantined", found=str(gap))
        if self._gaps_told < len(self._log.gaps):
            self._gaps_told = len(self._log.gaps)
            self._checkpoints.acked()  # so that a restart does not find and count them again

    def _block(self, part: InFlight[Record]) -> Block | None:
        record = part.record
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
            origin=Origin(self._log.uuid, part.first, part.last, self._checkpoints.low + 1),
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
        if not self._pumping and not self._pump_planned:
            self._pump_planned = True
            self._out.scheduler.call_soon(self._planned_pump)

    def _account(self, part: InFlight[Record], receipt: Receipt) -> None:
        size = self._size_of(part, receipt.done)
        if receipt.done:
            self._acked.value += receipt.done
            self._acked_bytes.value += size
            self._log.ack(part.first, part.first + receipt.done - 1)
            self._checkpoints.acked()
        if receipt.cause is not None and receipt.done < part.count:
            left = part.failed(receipt.done, receipt.delivered)
            self._failed.value += left.count
            self._failed_bytes.value += part.size - size
            self._redelivered.value += left.count
            self._redelivered_bytes.value += part.size - size
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

    def _planned_pump(self) -> None:
        self._pump_planned = False
        self.pump()

    def _redeliver(self) -> None:
        self._ready.extendleft(reversed(self._redelivery.take()))
        self.pump()


def _metas(tag: Tag, start: int, count: int) -> list[dict[str, object]] | None:
    return None if tag.event_metas is None else [dict(one) for one in tag.event_metas[start : start + count]]


def _not_sent(receipt: Receipt) -> None:
    """The window is full. The block will be made again later."""
