"""The err port: an event that can never be delivered leaves as a record of `error`, `source` and `stream_id`, on one
line. `at` is the place in a flow file that failed, if it is known. `event` is the event. Of one that has no JSON
form, or is no event of its codec, its bytes stand there instead: as `text` if they are UTF-8, otherwise in base64 as
`bytes`.

A record has a receipt of its own: once all that `err` leads to have acked it, the event has its outcome for the sink
that rejected it. Until then, only the record is sent again, to those that lack it. A log before the sink may keep the
event itself as a letter: that is an outcome too. Where nothing is linked and nothing kept, the event is dropped and
counted."""

import base64
import codecs
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from walflow.codecs import JSON
from walflow.codecs.json import within_record
from walflow.contract import REJECTED_FOR
from walflow.errors import CannotDecode
from walflow.event import Block, Codec, Frames, Node
from walflow.framing import LENGTH_PREFIXED, LINES
from walflow.metrics import CountedValue
from walflow.nodes.ports import Rejection, WatchedPort
from walflow.operators.operator import RejectionDetails
from walflow.receipt import Receipt

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

BLOCK_BYTES: Final = 256 << 10
BLOCK_EVENTS: Final = 4096
REASONS: Final = 4  # of a block, that are told one by one
KEPT_BYTES: Final = (
    64 << 10
)  # of an event that stands there as bytes; escaped, a record is below half of max_event_bytes
UNLINKED: Final = "rejected, and nothing is linked to err"
REJECTED_TWICE: Final = "its error record was rejected"
ERROR_META: Final = {"rejected": True}  # an error event that is rejected is not sent to err again
NOTHING_MORE: Final[Mapping[str, object]] = {}


class RejectedEvents(NamedTuple):
    """The events that a connector rejects, with their codec. `valid`: they are known to be so. Of one that is not,
    the record has no event: it would be no record. `told`: what else their records say."""

    codec: Codec
    payloads: Sequence[bytes]
    valid: bool = True
    told: Mapping[str, object] = NOTHING_MORE

    def at(self, number: int) -> None:
        """No place in a flow file has failed."""

    def event(self, number: int) -> bytes | None:
        payload = self.payloads[number]
        if not self.valid:
            try:
                self.codec.decode(payload)
            except CannotDecode:
                return None
        return within_record(self.codec, payload)

    def raw(self, number: int) -> bytes:
        return self.payloads[number]


class UndecodedEvents(NamedTuple):
    """What came from outside and is no event."""

    payloads: Sequence[bytes]

    def at(self, number: int) -> None:
        """No place in a flow file has failed."""

    def event(self, number: int) -> None:
        """None: these bytes are no event."""

    def raw(self, number: int) -> bytes:
        return self.payloads[number]


class LetterTarget(Protocol):
    """Of a sink, in a log before it."""

    def takes(self, log: str) -> bool:
        """Whether the events of that log belong here."""
        ...

    def accept(self, block: Block) -> None:
        """A copy of a block that was rejected, as `walflow.contract.LetterKeeper.keep` has it."""
        ...


class ErrPort:
    """The err port of a pipeline, or of a connector, whose two halves share it. `target` is None if the port is not
    linked. Then `unlinked` is what can be watched instead. `rejections` keeps the last ones. `letters`: of a sink,
    those of each log before it that keeps what the sink rejects."""

    def __init__(
        self,
        name: str,
        target: Node | None,
        rejected: CountedValue,
        log: "FilteringBoundLogger",
        rejections: "deque[Rejection] | None" = None,
    ) -> None:
        self.name = name
        self.target = target
        self.unlinked: WatchedPort | None = None
        self.letters: list[LetterTarget] = []
        self._rejected = rejected
        self._log = log
        self._rejections = rejections

    def take(self, block: Block, reasons: Sequence[str], details: RejectionDetails | None = None) -> None:
        """Takes over this copy of the block. `reasons` has one for each event."""
        rejected_again = bool(block.meta.get("rejected"))
        unsent = rejected_again or (self.target is None and self._letters_of(block, details) is None)
        self.note(block, reasons, details, unsent=unsent)
        self.hand_on(block, reasons, details)

    def note(
        self, block: Block, reasons: Sequence[str], details: RejectionDetails | None, *, unsent: bool = False
    ) -> None:
        """Counts and shows it. `unsent`: it goes nowhere."""
        self._rejected.value += len(reasons)
        if self._rejections is not None or unsent:
            for one in self._noted(block, reasons, details):
                if self._rejections is not None:
                    self._rejections.append(one)
                if unsent:
                    place = {name: value for name in ("at", "position") if (value := getattr(one, name)) is not None}
                    self._log.warning(
                        "rejected", reason=one.reason, **place, events=one.events, stream=block.stream.number
                    )
        if unsent and self.unlinked is not None and self.unlinked.watchers:
            self.unlinked.show(self._error_block(block, reasons, details, block.receipt))

    def _noted(self, block: Block, reasons: Sequence[str], details: RejectionDetails | None) -> Iterator[Rejection]:
        """One for each reason; of many, for the first few, and one for all others."""
        numbers: dict[str, list[int]] = {}
        for number, reason in enumerate(reasons):
            numbers.setdefault(reason, []).append(number)
        kinds = list(numbers.items())
        others = [number for _, of in kinds[REASONS:] for number in of]
        if others:
            kinds = [
                *kinds[:REASONS],
                (f"{len(kinds) - REASONS:,} other reasons, the first: {reasons[others[0]]}", others),
            ]
        for reason, of in kinds:
            at = details.at(of[0]) if details is not None else None
            position = block.positions[of[0]] if block.positions else None
            yield Rejection(self.name, reason, at, len(of), position, block.ingest_ns)

    def hand_on(self, block: Block, reasons: Sequence[str], details: RejectionDetails | None = None) -> None:
        """`take` without a word: it was counted and logged before."""
        letters = None if block.meta.get("rejected") else self._letters_of(block, details)
        target = None if block.meta.get("rejected") else self.target
        if target is None and letters is None:
            block.gone(self.name, REJECTED_TWICE if block.meta.get("rejected") else UNLINKED)
            block.receipt.ack(self.name)
            return
        record = block.receipt.pick(None, tag=f" !{self.name}", name=self.name, reasons=reasons)
        if target is not None and letters is not None:
            record.fork(1)
        if letters is not None:
            assert isinstance(details, RejectedEvents)
            letters.accept(_letter_block(block, reasons, details, record))
        if target is not None:
            whole = self._error_block(block, reasons, details, record)
            for part in whole.split(whole.frames.sizes(BLOCK_BYTES, BLOCK_EVENTS)):
                target.accept(part)

    def _letters_of(self, block: Block, details: RejectionDetails | None) -> "LetterTarget | None":
        """Those of the log that the block came from. One that was made of several blocks has no log of its own."""
        if not self.letters or not isinstance(details, RejectedEvents):
            return None
        log = block.origin.log if block.origin is not None else ""
        return next((one for one in self.letters if one.takes(log)), self.letters[0])

    def _error_block(
        self, block: Block, reasons: Sequence[str], details: RejectionDetails | None, receipt: Receipt
    ) -> Block:
        errors = [self._error(block, reason, number, details) for number, reason in enumerate(reasons)]
        frames = Frames(LINES.join(errors), len(errors), LINES)
        return Block(
            block.stream,
            frames,
            JSON,
            receipt,
            ingest_ns=block.ingest_ns,
            meta=ERROR_META,
            origin=block.origin,
            weight=block.weight,
            positions=block.positions,
        )

    def _error(self, block: Block, reason: str, number: int, details: RejectionDetails | None) -> bytes:
        told: dict[str, object] = {"error": reason, "source": self.name, "stream_id": block.stream.number}
        if details is None:
            return JSON.encode(told)
        at, event = details.at(number), details.event(number)
        if at is not None:
            told["at"] = at
        if isinstance(details, RejectedEvents):
            told |= details.told
        if event is None:
            told |= _as_they_came(details.raw(number))
        text = JSON.encode(told)
        return text if event is None else b'%b,"event":%b}' % (text[:-1], event)


def _letter_block(block: Block, reasons: Sequence[str], details: RejectedEvents, receipt: Receipt) -> Block:
    frames = Frames(LENGTH_PREFIXED.join(details.payloads), len(reasons), LENGTH_PREFIXED)
    came = block.event_metas or [NOTHING_MORE] * len(reasons)
    return Block(
        block.stream,
        frames,
        details.codec,
        receipt,
        ingest_ns=block.ingest_ns,
        meta=block.meta,
        event_metas=[{**meta, REJECTED_FOR: reason} for meta, reason in zip(came, reasons, strict=True)],
        origin=block.origin,
        weight=block.weight,
        positions=block.positions,
        port=block.port,
    )


def _as_they_came(payload: bytes) -> Mapping[str, object]:
    """`length`: the number of all bytes, if these are only the first of them."""
    if not payload:
        return {}
    kept = payload[:KEPT_BYTES]
    cut = {"length": len(payload)} if len(payload) > KEPT_BYTES else {}
    try:
        text, _ = codecs.utf_8_decode(kept, "strict", not cut)  # a character that the limit cuts in two is left out
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(kept).decode(), **cut}
    return {"text": text, **cut}


class UncountedErr:
    """The same port, for events that another lane has brought there before."""

    def __init__(self, port: ErrPort) -> None:
        self._port = port

    def take(self, block: Block, reasons: Sequence[str], details: RejectionDetails | None = None) -> None:
        self._port.hand_on(block, reasons, details)
