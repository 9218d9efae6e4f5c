"""The letters of one sink of a log. A letter stays until a user sends it again or drops it, or its room is needed.

The log of the letters is made with the first one. Until it is open, letters wait; their events are not acked.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from urllib.parse import quote

from msgspec import MsgspecError

from walflow.backoff import Backoff
from walflow.contract import REJECTED_FOR, Counter, LetterAnswer, LetterWay, Outlet, Timer, Upstream
from walflow.delivery.in_flight import SendLimits
from walflow.delivery.known_arrivals import Arriving
from walflow.delivery.letters.again import LetterSender
from walflow.delivery.letters.letter import LETTER, POSITION, Letter, merged, without
from walflow.delivery.letters.retry import READ_BYTES, LetterRetry
from walflow.delivery.letters.store import BY_HAND, FOR_BYTES, FOR_THE_DISK, Going, KeptLetter, LetterStore, options
from walflow.delivery.log_events import CutRecord
from walflow.delivery.tag import Tags
from walflow.errors import DiskFull, FailStop, LettersShut, WalflowError
from walflow.event import Block, Frames
from walflow.positions import Range
from walflow.wal import Log, Record
from walflow.wal.format import MAX_TAG

DIRECTORY: Final = "letters"
EVENTS: Final = 256  # of a record: each has metadata of its own, and a record takes 64 KiB of it
RECORD_BYTES: Final = 256 << 10
GOING_BYTES: Final = 1 << 20  # that may go to the sink at once
LOOKS: Final = 60.0  # seconds between two looks at how old letters are, at most
OFTEN: Final = 0.1  # of `letters_age`
OPENS_AGAIN: Final = Backoff(1.0, 30.0)
BUSY: Final = "busy"
NOT_OPEN: Final = "the letters cannot be opened: the daemon's log says why"
TOO_LARGE: Final = "too large"
FOR_EVENTS: Final = "letters_events"
FOR_AGE: Final = "letters_age"
STAMP_NS: Final = 1_000_000_000  # ages are known to the second


class LetterBounds(NamedTuple):
    """`size`: bytes on disk. `events`: letters. `age_ns`: None: any age."""

    size: int
    events: int
    age_ns: int | None


def directory_of(log: str, sink: str) -> str:
    """`log`: its directory. Of the letters of that sink."""
    return os.path.join(log, DIRECTORY, quote(sink, safe=" "))


class Opened(NamedTuple):
    """A log of letters, read to its end. `stamps`: up to which position letters were rejected when. `going`: what was
    on its way to the sink at the end of an earlier run."""

    log: Log
    arriving: Arriving
    stamps: Sequence[tuple[int, int]]
    going: Sequence[Record]


class LetterBox:
    """`walflow.contract.LetterKeeper` for a sink. `out`: of the log, for what is counted and told."""

    def __init__(self, way: LetterWay, log: Log, out: Outlet, bounds: LetterBounds, attempts: int | None) -> None:
        self.logs: Sequence[str] = (log.uuid,)
        self.path = directory_of(os.path.realpath(log.path), way.sink)
        self._way = way
        self._disk, self._clock = log.disk, log.clock
        self._out = out
        self._bounds = bounds
        self._limits = SendLimits(None, attempts, letters=frozenset({way.receiver}))
        self._tags = Tags()
        self._waiting: deque[Block] = deque()  # of one reason each
        self._store: LetterStore | None = None
        self._sender: LetterSender | None = None
        self._arriving: Arriving | None = None
        self._are_there = False  # letters of an earlier run
        self._opening = False
        self._found: Opened | None = None
        self._retry: LetterRetry | None = None
        self._stamps: deque[tuple[int, int]] = deque()
        self._stopped = False
        self._ages: Timer | None = None
        self._settled = self._rejected_again = 0
        self._run = log.clock.wall_ns()
        self._failures = 0
        labels = {"sink": way.sink}
        self._kept = out.counter("wal_letters_kept_total", **labels)
        self._given_up_of = {
            why: out.counter("wal_letters_given_up_total", **labels, reason=why)
            for why in (FOR_BYTES, FOR_EVENTS, FOR_AGE, FOR_THE_DISK, TOO_LARGE)
        }
        out.gauge("wal_letters", lambda: self._store.kept if self._store else 0, **labels)
        out.gauge("wal_letters_going", lambda: self._store.going if self._store else 0, **labels)
        out.gauge("wal_letters_disk_bytes", lambda: self._store.log.used if self._store else 0, **labels)
        way.serve(self)

    def __repr__(self) -> str:
        return f"<LetterBox {self.path} {self._store!r}, {len(self._waiting)} wait>"

    def begin(self) -> None:
        """Opens the letters of an earlier run."""
        try:
            self._are_there = bool(self._disk.names(self.path))
        except FileNotFoundError:
            return
        except OSError:  # opening meets it, says so, and tries again
            self._are_there = True
        if self._are_there:
            self._open()

    def stop(self) -> None:
        """Begins no more work. Work that has started goes on."""
        self._stopped = True
        if self._retry is not None:
            self._retry.refuse("the log is being closed")
        if self._store is not None and self._sender is not None:
            self._sender.stop()
            self._store.stop()
        if self._ages is not None:
            self._ages.cancel()

    def close(self, *, abandon: bool) -> None:
        """Blocks: for a thread, behind the work that has started."""
        opened = self._found.log if self._found is not None else None
        log = self._store.log if self._store is not None else opened
        if log is not None:
            log.abandon() if abandon else log.close()

    def closed(self) -> None:
        """What is on no disk fails: its log sends it again."""
        waiting, self._waiting = [*self._waiting], deque()
        if self._store is not None:
            waiting += self._store.unwritten()
        for block in waiting:
            block.receipt.fail(LettersShut(f"{self._way.name} are not open"), sink=self._way.name)

    # walflow.contract.LetterKeeper

    def keep(self, block: Block) -> None:
        metas = block.event_metas
        assert metas is not None
        places = block.positions or range(block.frames.count)
        # of one reason and without a gap: what is between two letters was not rejected, and may be if it comes again
        runs = groupby(enumerate(metas), lambda one: (one[1][REJECTED_FOR], places[one[0]] - one[0]))
        for part in block.split([len(list(run)) for _, run in runs]):
            self._waiting += part.split(part.frames.sizes(RECORD_BYTES, EVENTS))
        self._pump()

    def retry(
        self, ranges: Sequence[Range], mended: Mapping[int, bytes], done: Callable[[LetterAnswer], None]
    ) -> None:
        store, sender = self._store, self._sender
        if store is None or sender is None:
            done(self._not_open())
            return
        most = min(GOING_BYTES, store.reserve // 2)
        if self._retry is not None or sender.bytes > most or self._stopped:
            done(self.state()._replace(refusal=BUSY))
            return

        def over(count: int, refusal: str) -> None:
            self._retry = None
            done(self.state()._replace(taken=count, refusal=refusal))

        self._retry = LetterRetry(store, self._out, merged(ranges), mended, most, over)
        self._retry.begin()

    def drop(self, ranges: Sequence[Range], done: Callable[[LetterAnswer], None]) -> None:
        if self._store is None:
            done(self._not_open())
            return
        count = self._store.drop(ranges, BY_HAND)
        if count:
            self._out.log.info("letters dropped", sink=self._way.sink, events=count)
        done(self.state()._replace(taken=count))

    def state(self) -> LetterAnswer:
        store = self._store
        if store is None:
            return LetterAnswer(run=self._run)
        again = self._rejected_again
        return LetterAnswer(0, store.kept, store.going, max(0, self._settled - again), again, run=self._run)

    def _not_open(self) -> LetterAnswer:
        """To a request: not that there are none, if there may be."""
        refusal = NOT_OPEN if self._failures else BUSY
        return self.state()._replace(refusal=refusal if self._opening else "")

    # what comes

    def _pump(self) -> None:
        if self._waiting and self._store is None:
            self._open()
        while self._waiting and self._store is not None and not self._stopped:
            block = self._waiting.popleft()
            fresh = [block]
            if self._arriving is not None and (self._way.straight or Letter.of(block.meta) is not None):
                fresh = [*self._arriving.fresh(block)]
            for number, part in enumerate(fresh):
                if not self._append(self._store, part):
                    self._waiting.extendleft(reversed(fresh[number:]))
                    return

    def _append(self, store: LetterStore, block: Block) -> bool:
        known = Letter.of(block.meta)
        metas = block.event_metas
        assert metas is not None
        reason = str(metas[0][REJECTED_FOR])
        log = block.origin.log if block.origin is not None else ""
        ns = self._clock.wall_ns()
        if known is None:
            letter = Letter(reason, ns, block.ingest_ns, log, port=block.port)
        else:
            letter = known.rejected_again(reason, ns)
        positions = block.positions if known is None else None
        written = Block(
            block.stream,
            block.frames,
            block.codec,
            block.receipt,
            ingest_ns=ns,
            meta={**block.meta, LETTER: letter.meta()},
            event_metas=[_meta(meta, positions, number) for number, meta in enumerate(metas)],
        )
        tag = self._tags.encode(written)
        if self._arriving is not None and (self._way.straight or known is not None):
            tag = self._arriving.tag(tag, block)
        count, size = block.frames.count, len(tag) + len(block.frames.data)
        if len(tag) > MAX_TAG and count > 1:
            first, second = block.split([count // 2, count - count // 2])
            if self._append(store, first):
                self._waiting.appendleft(second)
                return True
            self._waiting.appendleft(second)
            self._waiting.appendleft(first)
            return True
        if len(tag) > MAX_TAG or not store.fits_at_all(size):
            self._given_up(TOO_LARGE, count)
            block.gone(self._way.receiver, TOO_LARGE)
            block.receipt.ack(self._way.name)
            return True
        return store.append(tag, block.frames.data, count, block)

    def _durable(self, kept: Sequence[KeptLetter]) -> None:
        store, sender = self._store, self._sender
        assert store is not None
        assert sender is not None
        for record, what in kept:
            if isinstance(what, Going):
                first, last = record.position, record.position + record.count - 1
                sender.add(CutRecord(record.position, what.frames, what.tag, record.ingest_ns), [(first, last)])
                what.done(record.count)
                continue
            self._kept.value += record.count
            self._stamp(record.position + record.count - 1, record.ingest_ns)
            known = Letter.of(what.meta)
            if known is not None and known.goes:
                self._rejected_again += record.count
            what.receipt.ack(self._way.name)
        if store.kept > self._bounds.events:
            self._give_up_oldest(store, store.kept - self._bounds.events)

    # what goes

    def _give_up_oldest(self, store: LetterStore, count: int) -> None:
        given_up = 0
        for first, last in store.letters(store.log.low + 1, store.log.durable):
            if given_up >= count:
                break
            given_up += store.drop([(first, min(last, first + count - given_up - 1))], FOR_EVENTS)
        self._given_up(FOR_EVENTS, given_up)

    def _given_up(self, why: str, count: int) -> None:
        if count:
            self._given_up_of[why].value += count
            self._out.log.warning("letters given up", sink=self._way.sink, reason=why, events=count)

    def _give_up(self, blocks: Sequence[Block], reason: str) -> None:
        for block in blocks:
            block.gone(self._way.receiver, FOR_THE_DISK)
            block.receipt.ack(self._way.name)
        if self._retry is not None:
            self._retry.refuse(reason)

    def _stamp(self, last: int, ns: int) -> None:
        if self._stamps and ns - self._stamps[-1][1] < STAMP_NS:
            self._stamps[-1] = last, self._stamps[-1][1]
        else:
            self._stamps.append((last, ns))

    def _look_at_ages(self) -> None:
        store, age = self._store, self._bounds.age_ns
        if store is None or age is None or self._stopped:
            return
        old = 0
        while self._stamps and self._stamps[0][1] < self._clock.wall_ns() - age:
            old, _ = self._stamps.popleft()
        if old:
            self._given_up(FOR_AGE, store.drop([(1, old)], FOR_AGE))
        delay = max(1.0, min(LOOKS, age / 1e9 * OFTEN))
        self._ages = self._out.scheduler.call_later(delay, self._look_at_ages)

    # opening

    def _open(self) -> None:
        if self._opening or self._stopped:
            return
        self._opening = True
        self._out.scheduler.submit(self._open_and_read, self._is_open)

    def _open_and_read(self) -> None:
        log = Log(options(self.path, self._bounds.size), self._disk, self._clock)
        try:
            self._found = _read(log, Arriving(log, ArrivesAsLetter(self._way, self._out)))
        except BaseException:
            log.abandon()
            raise

    def _is_open(self, error: BaseException | None) -> None:
        if isinstance(error, FailStop):
            self._out.fatal(error)
        if error is not None:
            self._cannot_open(error)
            return
        found, self._found = self._found, None
        assert found is not None
        if self._stopped:
            self._found = found  # to be closed
            return
        self._opening, self._failures = False, 0
        log = found.log
        for line in log.recovery.lines():
            self._out.log.info("recovery of letters", sink=self._way.sink, found=line)
        store = LetterStore(
            log, self._out, found.arriving, self._durable, self._pump, self._given_up, self._forget, self._give_up
        )
        self.logs = (*self.logs[:1], log.uuid)
        self._arriving = found.arriving
        self._sender = LetterSender(store, self._way.out, self._limits, self._has_settled)
        self._store = store
        self._take_up(store, self._sender, found)
        self._look_at_ages()
        self._pump()

    def _take_up(self, store: LetterStore, sender: LetterSender, found: Opened) -> None:
        log = store.log
        self._stamps = deque(found.stamps)
        going = [(record.position, record.position + record.count - 1) for record in found.going]
        at = 1
        for first, last in going:
            store.settled.add(at, first - 1)
            at = last + 1
        store.settled.add(at, log.durable)
        for record in found.going:
            tag = self._tags.decode(record.tag)
            frames = Frames(record.payload, record.count, tag.framing)
            left = log.unacked(record.position, record.position + record.count - 1)
            for one in without((record.position, record.position + record.count - 1), left):
                store.settled.add(*one)
            sender.add(CutRecord(record.position, frames, tag, record.ingest_ns), left)

    def _cannot_open(self, error: BaseException) -> None:
        self._failures += 1
        self._out.log.error("letters not open", sink=self._way.sink, path=self.path, reason=str(error))
        waiting, self._waiting = [*self._waiting], deque()
        if not isinstance(error, DiskFull):  # they come again, and hold up no others meanwhile
            for block in waiting:
                block.receipt.fail(LettersShut(f"{self._way.name}: {error}"), sink=self._way.name)
        else:
            self._given_up("disk full", sum(block.frames.count for block in waiting))
            self._give_up(waiting, str(error))
        if not self._stopped:
            self._out.scheduler.call_later(OPENS_AGAIN.after(self._failures), self._open_again)

    def _open_again(self) -> None:
        self._opening = False
        if self._are_there:
            self._open()
        else:
            self._pump()

    def _forget(self, last: int) -> None:
        if self._sender is not None:
            self._sender.forget(last)

    def _has_settled(self, count: int) -> None:
        self._settled += count


class ArrivesAsLetter:
    """For `Arriving`: an event that the log sends again after a crash, and that is a letter already."""

    upstream = Upstream(straight=True)

    def __init__(self, way: LetterWay, out: Outlet) -> None:
        self._name = way.name
        self._out = out

    def counter(self, name: str, **labels: str) -> Counter:
        return self._out.counter(name, **labels)

    def ack(self, block: Block) -> None:
        block.receipt.ack(self._name)


def _read(log: Log, arriving: Arriving) -> Opened:
    """All letters of a log, before it runs. What goes to the sink again is acked as a letter."""
    arriving.open()
    tags, reader = Tags(), log.reader()
    stamps: list[tuple[int, int]] = []
    going: list[Record] = []
    try:
        while records := reader.read(READ_BYTES):
            for record in records:
                try:
                    letter = Letter.of(tags.decode(record.tag).meta)
                except (MsgspecError, WalflowError):
                    continue  # it stays, and `walflow letters list` says so
                if letter is None:
                    continue
                if letter.goes:
                    going.append(record)
                    for one in letter.again_for:
                        log.ack(*one)
                last = record.position + record.count - 1
                if stamps and record.ingest_ns - stamps[-1][1] < STAMP_NS:
                    stamps[-1] = last, stamps[-1][1]
                else:
                    stamps.append((last, record.ingest_ns))
    finally:
        reader.close()
    return Opened(log, arriving, stamps, going)


def _meta(meta: Mapping[str, object], positions: Sequence[int] | None, number: int) -> Mapping[str, object]:
    kept = {name: value for name, value in meta.items() if name != REJECTED_FOR}
    return {**kept, POSITION: positions[number]} if positions is not None else kept
