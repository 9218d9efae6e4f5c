"""What travels: blocks forward, receipts back.

A block is a run of events of one stream as they came, for instance the whole lines that one socket read
brought. It is the unit everywhere: one object, one record in a log, one write, one outcome. Its bytes are never
changed, so several links may share them; a node that needs other bytes makes another block around the same receipt.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self


class StreamId(NamedTuple):
    """One connection, one open file. `run` is drawn at random at each start of the connector, so that nothing
    replayed from an earlier life reaches a stranger who got the same number."""

    connector: str
    run: int
    number: int


class Origin(NamedTuple):
    """Where a block stands in the log it was read from: within positions `first` to `last`, both included. Which event
    has which is `Block.positions`.

    `acked_below`: every position under it is acked, and that is on disk: it never comes again, so a sink may forget
    what it knows of it.
    """

    log: str
    first: int
    last: int
    acked_below: int


class Framing(Protocol):
    """Frames in a row <-> events. One object per kind and configuration, so that two ends compare by identity.

    Frames on the wire keep their delimiters or prefixes: `join(payloads(data)) == data`.
    """

    name: str
    config: Mapping[str, object]
    countable: bool  # several events in one `data` can be told apart; False: one event a block

    def count(self, data: bytes) -> int:
        """How many frames `data` is."""
        ...

    def index(self, data: bytes) -> Sequence[int]:
        """Where each frame ends."""
        ...

    def payloads(self, data: bytes) -> list[bytes]:
        """Each event without its frame."""
        ...

    def join(self, payloads: Iterable[bytes]) -> bytes:
        """Each event within its frame."""
        ...


class Cutting(Framing, Protocol):
    """A framing that cuts frames out of a stream of bytes where they lie."""

    max_length: int | None  # an event longer than this is rejected; None: the connector's own limit alone

    def cut(self, tail: bytearray, data: bytes) -> bytes:
        """The whole frames of `tail + data`; what is left of them stays in `tail`."""
        ...

    def skip(self, data: bytes) -> bytes | None:
        """What follows the frame that `data` continues: b"" or more once it has ended, None while it goes on.
        For an event that is too large to keep."""
        ...

    def finish(self, tail: bytearray) -> bytes:
        """The last, unended event as a whole frame (b"" if there is none); empties `tail`."""
        ...


class Codec(Protocol):
    """Bytes of one event <-> value. One object per kind and configuration.

    `transparent`: an unchanged event may be written as the bytes it came in (json sorted may not).
    """

    name: str
    config: Mapping[str, object]
    transparent: bool

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> "Verdict":
        """Which of the frames decode. Never raises for what is in `data`. `count`: how many there are, if it is known."""
        ...

    def decode(self, payload: bytes) -> object:
        """Raises CannotDecode."""
        ...

    def encode(self, value: object) -> bytes:
        """Raises CannotEncode."""
        ...

    def whole(self, payload: bytes) -> bool:
        """A payload that decodes could not be the beginning of a longer one: true of `{"a":1}`, not of `12`."""
        ...


class Frames:
    """`count` events in `data`, as `framing` made them. Immutable."""

    __slots__ = ("count", "data", "framing")

    def __init__(self, data: bytes, count: int, framing: Framing) -> None:
        self.data = data
        self.count = count
        self.framing = framing

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<Frames {self.count} in {len(self.data)} bytes, {self.framing.name}>"

    def payloads(self) -> list[bytes]:
        return self.framing.payloads(self.data)

    def slice(self, start: int, stop: int) -> "Frames":
        """Events `start` to `stop` (exclusive), counted from 0."""
        if start == 0 and stop >= self.count:
            return self
        ends = self.framing.index(self.data)
        low = ends[start - 1] if start else 0
        high = ends[stop - 1] if stop else 0
        return Frames(self.data[low:high], stop - start, self.framing)

    def sizes(self, max_bytes: int, max_events: int) -> list[int]:
        """How many events each part has if none exceeds the caps; a single event may exceed `max_bytes`."""
        if len(self.data) <= max_bytes and self.count <= max_events:
            return [self.count]
        parts: list[int] = []
        begin = start = last = 0
        for number, end in enumerate(self.framing.index(self.data)):
            if number > start and (end - begin > max_bytes or number - start >= max_events):
                parts.append(number - start)
                start, begin = number, last
            last = end
        parts.append(self.count - start)
        return parts

    def parts(self, sizes: Sequence[int]) -> list["Frames"]:
        if len(sizes) == 1:
            return [self]
        ends = self.framing.index(self.data)
        parts: list[Frames] = []
        event = low = 0
        for size in sizes:
            event += size
            parts.append(Frames(self.data[low : ends[event - 1]], size, self.framing))
            low = ends[event - 1]
        return parts


class Verdict(NamedTuple):
    """What validation found in one read. `good` is None where nothing decodes. `bad`: each refused payload with
    the reason."""

    good: Frames | None
    bad: Sequence[tuple[bytes, str]] = ()


Settled = Callable[["Receipt"], None]


class Receipt:
    """Settles one block at its origin, once, when every copy of it has an outcome. Needs no event loop.

    A node that hands a block to n takers calls `fork(n - 1)` first. `settled` is called exactly once, possibly
        inside the call that handed the block out: guard against re-entry.

        After it: `cause` is None for an ack, else the first failure; then `done` is how many events from the front
        are delivered everywhere, and `delivered` the sinks that acked and never failed: a redelivered block carries
        them as `skip`. A receipt collected unsettled fails its block and warns.
    """

    __slots__ = ("_acked", "_failed", "cause", "count", "done", "pending", "ref", "settled", "skip")

    def __init__(self, settled: Settled, count: int, ref: object = None, skip: frozenset[str] = frozenset()) -> None:
        self.pending = 1
        self.count = count
        self.done = count
        self.cause: BaseException | None = None
        self.settled = settled
        self.ref = ref
        self.skip = skip
        self._acked: set[str] | None = None
        self._failed: set[str | None] | None = None

    def __repr__(self) -> str:
        state = f"{self.pending} pending" if self.pending else "failed" if self.cause else "acked"
        return f"<Receipt of {self.count}, {state}>"

    @property
    def delivered(self) -> frozenset[str]:
        """Sinks that need not see the block again."""
        failed = self._failed or set()
        if None in failed:  # lost somewhere: which sink it was bound for is not known
            return frozenset()
        return self.skip | (frozenset(self._acked or ()) - failed)

    def fork(self, more: int) -> None:
        self.pending += more

    def ack(self, sink: str | None = None) -> None:
        if sink is not None:
            if self._acked is None:
                self._acked = {sink}
            else:
                self._acked.add(sink)
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def fail(self, cause: BaseException, done: int = 0, sink: str | None = None) -> None:
        """The first `done` events are delivered; the rest may succeed later."""
        self._note_failure(cause, done, {sink})
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def split(self, sizes: Sequence[int]) -> list["Receipt"]:
        """Receipts for the parts, in order, of the one copy the caller holds."""
        self.pending += len(sizes) - 1
        parts: list[Receipt] = []
        start = 0
        for size in sizes:
            parts.append(Receipt(self._part_settled, size, start, self.skip))
            start += size
        return parts

    def branch(self, count: int) -> "Receipt":
        """A receipt for `count` events picked out of the one copy the caller holds; `fork` first to keep others.
        As they are not the first ones, a failure among them counts none as done."""
        return Receipt(self._part_settled, count, None, self.skip)

    def follow(self, other: "Receipt", done: int | None) -> None:
        """The outcome of `other`, a settled receipt that was about these events, among others perhaps. The first `done`
        of them are delivered, None: all."""
        if other._acked:
            self._acked = (self._acked or set()) | other._acked
        if other.cause is not None and done is not None:
            self._note_failure(other.cause, done, other._failed or {None})
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def _part_settled(self, part: "Receipt") -> None:
        if part._acked:
            self._acked = (self._acked or set()) | part._acked
        if part.cause is not None:
            done = part.ref + part.done if isinstance(part.ref, int) else 0
            self._note_failure(part.cause, done, part._failed or {None})
        self.pending -= 1
        if not self.pending:
            self.settled(self)

    def _note_failure(self, cause: BaseException, done: int, sinks: Iterable[str | None]) -> None:
        self.cause = self.cause or cause
        self.done = min(self.done, done)
        self._failed = (self._failed or set()) | set(sinks)

    def __del__(self) -> None:
        if self.pending > 0:
            self.pending = 1
            self.fail(LostReceipt(f"{self.count} events were dropped without an outcome"))
            warnings.warn(f"a receipt of {self.count} events was collected unsettled", ResourceWarning, stacklevel=2)


class LostReceipt(Exception):
    """A node dropped a block without ack, fail or reject: a bug in that node. The block is redelivered."""


class Block:
    """Events of one stream with the receipt that settles them. Immutable but for its lazily decoded values.

    `meta` holds for all of its events; `event_metas`, where not None, has one mapping an event. `positions`, where not
    None, has the position of each event in the log of `origin`, never falling: several events may be made of one. `weight`: how many
    bytes of its source's window stay taken until it is settled: its own, or those of the block it was made of.
    """

    __slots__ = (
        "_values",
        "codec",
        "event_metas",
        "frames",
        "ingest_ns",
        "meta",
        "origin",
        "positions",
        "receipt",
        "stream",
        "weight",
    )

    def __init__(
        self,
        stream: StreamId,
        frames: Frames,
        codec: Codec,
        receipt: Receipt,
        *,
        ingest_ns: int,
        meta: Mapping[str, object],
        event_metas: Sequence[Mapping[str, object]] | None = None,
        origin: Origin | None = None,
        weight: int | None = None,
        positions: Sequence[int] | None = None,
    ) -> None:
        """`positions` may be left out where the events are those of `origin`, one at each of its positions."""
        self.stream = stream
        self.frames = frames
        self.codec = codec
        self.receipt = receipt
        self.ingest_ns = ingest_ns
        self.meta = meta
        self.event_metas = event_metas
        self.origin = origin
        self.weight = len(frames.data) if weight is None else weight
        if positions is None and origin is not None and origin.last - origin.first + 1 == frames.count:
            positions = range(origin.first, origin.last + 1)
        self.positions = positions
        self._values: list[object] | None = None

    def __repr__(self) -> str:
        where = f" at {self.origin.log}:{self.origin.first}" if self.origin else ""
        return f"<Block {self.frames.count} events of {self.stream.connector}#{self.stream.number}{where}>"

    @property
    def values(self) -> list[object]:
        """Decoded on first use. Its events were validated at the source, so this does not raise for them."""
        if self._values is None:
            decode = self.codec.decode
            self._values = [decode(payload) for payload in self.frames.payloads()]
        return self._values

    def with_frames(self, frames: Frames, codec: Codec, receipt: Receipt | None = None) -> Self:
        """The same events in other bytes, around the same receipt; or some of them, around a branch of it, and which ones
        is unknown."""
        return type(self)(
            self.stream,
            frames,
            codec,
            receipt or self.receipt,
            ingest_ns=self.ingest_ns,
            meta=self.meta,
            event_metas=self.event_metas if frames.count == self.frames.count else None,
            origin=self.origin,
            weight=self.weight,
            positions=self.positions if frames.count == self.frames.count else None,
        )

    def picked(
        self, numbers: Sequence[int], frames: Frames, codec: Codec, receipt: Receipt, *, distinct: bool = True
    ) -> Self:
        """What was made of the events at these places of the block; not `distinct`: of some more than once."""
        metas, positions = self.event_metas, self.positions
        return type(self)(
            self.stream,
            frames,
            codec,
            receipt,
            ingest_ns=self.ingest_ns,
            meta=self.meta,
            event_metas=None if metas is None else [metas[number] for number in numbers],
            # of repeated events there may be as many as positions, and yet not one for each: a sink would take them for it
            origin=self.origin if distinct else None,
            weight=self.weight,
            positions=None if positions is None else [positions[number] for number in numbers],
        )

    def split(self, sizes: Sequence[int], frames: Sequence[Frames] | None = None) -> list[Self]:
        """Parts of so many events each, with their share of the receipt. The caller gives up this copy. `frames`: of the
        parts, where they are at hand."""
        if len(sizes) == 1:
            return [self]
        parts: list[Self] = []
        start = 0
        each = self.weight / max(1, len(self.frames.data))
        for some, receipt in zip(frames or self.frames.parts(sizes), self.receipt.split(sizes), strict=True):
            stop = start + some.count
            part = type(self)(
                self.stream,
                some,
                self.codec,
                receipt,
                ingest_ns=self.ingest_ns,
                meta=self.meta,
                event_metas=self.event_metas[start:stop] if self.event_metas is not None else None,
                origin=self._origin_of(start, stop),
                weight=round(len(some.data) * each),
                positions=self.positions[start:stop] if self.positions is not None else None,
            )
            parts.append(part)
            start = stop
        return parts

    def _origin_of(self, start: int, stop: int) -> Origin | None:
        if self.origin is None or self.positions is None:
            return self.origin  # a filter removed events; which positions remain is unknown
        return self.origin._replace(first=self.positions[start], last=self.positions[stop - 1])


class Node(Protocol):
    """Whatever takes blocks along a link."""

    def accept(self, block: Block) -> None:
        """Takes one copy of the block and owes its receipt one outcome. Never blocks, never raises."""
        ...
