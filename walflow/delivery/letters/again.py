"""The re-sender of letters: a user has asked for these, and their sink gets them again."""

from collections.abc import Callable, Mapping

from walflow.contract import Outlet
from walflow.delivery.in_flight import InFlight, SendLimits
from walflow.delivery.letters.letter import Letter
from walflow.delivery.letters.store import LetterStore
from walflow.delivery.log_events import CutRecord
from walflow.delivery.sender import Sender
from walflow.event import Block, Origin
from walflow.positions import Range
from walflow.receipt import Receipt


class LetterSender:
    """`settled`: called with how many have an outcome: delivered, or rejected again."""

    def __init__(self, store: LetterStore, out: Outlet, limits: SendLimits, settled: Callable[[int], None]) -> None:
        self._left: dict[int, list[int]] = {}  # by the first position of a record: events that are not settled, bytes
        self._store = store
        self._log = store.log
        self._place = LettersPlace(store)
        self._settled = settled
        self._sender: Sender[CutRecord] = Sender(self, out, limits)
        out.window = min(out.window, self._log.window)
        out.on_ready(self._sender.pump)

    def __repr__(self) -> str:
        return f"<LetterSender {self._sender!r}>"

    def add(self, record: CutRecord, ranges: list[Range]) -> None:
        """`ranges`: the positions of the record that are not settled."""
        for first, last in ranges:
            self._sender.ready.append(InFlight(first, last, record))
        self._left[record.position] = [sum(last - first + 1 for first, last in ranges), len(record.frames.data)]
        self._sender.soon()

    @property
    def bytes(self) -> int:
        """Of the records that are not settled."""
        return sum(size for _, size in self._left.values())

    def forget(self, last: int) -> None:
        """All positions up to this one are gone."""
        self._sender.forget(last)
        self._left = {first: left for first, left in self._left.items() if first > last}

    def stop(self) -> None:
        self._sender.stop()

    # walflow.delivery.in_flight.Supply

    def fill(self) -> bool:
        return bool(self._sender.ready)

    def block(self, part: InFlight[CutRecord], receipt: Receipt) -> Block | None:
        record, log = part.source, self._log
        tag = record.tag
        start = part.first - record.position
        frames = record.frames.slice(start, start + part.count)
        part.size = len(frames.data)
        metas = None if tag.event_metas is None else list(tag.event_metas[start : start + part.count])
        letter = Letter.of(tag.meta)
        return Block(
            tag.stream,
            frames,
            tag.codec,
            receipt,
            ingest_ns=letter.ingest_ns if letter is not None else record.ingest_ns,
            meta=tag.meta,
            event_metas=metas,
            origin=Origin(
                log.uuid,
                part.first,
                part.last,
                self._store.checkpoints.low + 1,
                log.term(part.first),
                self._place.low,
                self._place,
            ),
            port=letter.port if letter is not None else "in",
        )

    def cut(self, part: InFlight[CutRecord], first: int, last: int) -> CutRecord:
        record = part.source
        start, count = first - record.position, last - first + 1
        tag = record.tag
        metas = None if tag.event_metas is None else tag.event_metas[start : start + count]
        frames = record.frames.slice(start, start + count)
        return CutRecord(first, frames, tag._replace(event_metas=metas), record.ingest_ns)

    def sent(self, part: InFlight[CutRecord]) -> None: ...

    def returned(self, part: InFlight[CutRecord]) -> None: ...

    def acked(self, part: InFlight[CutRecord], first: int, last: int) -> None:
        store = self._store
        self._log.ack(first, last)
        store.settled.add(first, last)
        store.checkpoints.acked()
        count = last - first + 1
        at = max((begin for begin in self._left if begin <= first), default=None)
        if at is not None:  # else it was forgotten
            self._left[at][0] -= count
            if not self._left[at][0]:
                del self._left[at]
        self._settled(count)

    def failed(self, part: InFlight[CutRecord], first: int, last: int) -> None: ...

    def given_up(self, part: InFlight[CutRecord]) -> None: ...

    def is_held_up(self, events: int, *, passed: bool) -> bool:
        return False

    def place(self, part: InFlight[CutRecord]) -> str:
        return f"letter {part.first}"


class LettersPlace:
    """The log of the letters as the sink sees it (`walflow.event.PositionLog`). A letter that stays is never sent at
    its own position: it gets a new one when it goes."""

    relaxed = False

    def __init__(self, store: LetterStore) -> None:
        self._store = store
        self.path = store.log.path

    @property
    def next(self) -> int:
        return self._store.log.next

    @property
    def low(self) -> int:
        return self._store.settled.low

    def spans(self) -> Mapping[int, Range]:
        return self._store.log.spans()

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        self._store.log.trail.gone(name, reason, first, last)
