"""Blocks, which go forward. Their receipts come back (walflow.receipt).

A block is a sequence of events of one stream with their original bytes, for example all complete lines of one read
from a socket. It is the unit everywhere: one object, one record in a log, one write. Its bytes are never
changed, so several links may share them. A node that needs other bytes makes another block with the same receipt.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol, Self, overload

from walflow.receipt import Receipt, members, refused_by, runs


class StreamId(NamedTuple):
    """One connection or one open file. `run` is a random number of each start of the connector. So an answer to a
    replayed event never reaches a new client that got the same number."""

    connector: str
    run: int
    number: int


class PositionLog(Protocol):
    """The log that gave an event its position, as the log is now:
    for a sink that stores in its receiver what it has of it."""

    path: str  # its directory
    relaxed: bool  # a power cut may take events that were sent

    @property
    def next(self) -> int:
        """The position that the next event gets."""
        ...

    @property
    def low(self) -> int:
        """On this way, all positions up to this one have an outcome, and are not sent any more."""
        ...

    def spans(self) -> Mapping[int, tuple[int, int]]:
        """By term: the first and the last position of it that the log still has."""
        ...

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        """These never come to `name`, or to no sink behind it, and are kept nowhere. To be called before they are
        acked."""
        ...


class Origin(NamedTuple):
    """The place of a block in its log: its events have positions from `first` to `last`, both included;
    `Block.positions` says which event has which. `acked_below`: every position below it is acked and that is on disk,
    so these events never come again, and a sink may forget what it knows of them. `term`: a random number of the part
    of the log that they are in. A position that was given to another event, because the log lost some or was restored
    from a copy, has another term. None: not known. `settled`: on this way, all events up to that position have an
    outcome. `place`: of events of a file that is followed, the file, which knows how it is now; `log` is then a
    number of the file, and a position is an offset in it. `held_by`: the log as it is now; None in a test of a
    flow."""

    log: str
    first: int
    last: int
    acked_below: int
    term: int | None = None
    settled: int = 0
    held_by: PositionLog | None = None
    place: "ReadPlace | None" = None

    @property
    def part(self) -> str:
        """The part of the log in which a position stands for one event."""
        return self.log if self.term is None else f"{self.log}/{self.term:08x}"


class ReadPlace(Protocol):
    """Where in a file the bytes of a stream are."""

    def begin(self) -> int:
        """The offset of the first byte that is fed. Asked for once, when the stream is opened."""
        ...

    def origin(self) -> Origin:
        """As it is now, without `first` and `last`. `log`: a random number, in hexadecimal, of what the file is now;
        it has another one as soon as it may have other bytes at an offset where events were sent from."""
        ...


class Framing(Protocol):
    """Converts a row of frames to events and back. There is one object for each kind and configuration, so two can be
    compared by identity. Frames keep their delimiters or lengths: `join(payloads(data)) == data`."""

    name: str
    config: Mapping[str, object]
    countable: bool  # several events in one `data` can be told apart; False: one event a block

    def count(self, data: bytes) -> int:
        """The number of frames in `data`."""
        ...

    def index(self, data: bytes) -> Sequence[int]:
        """The end offset of each frame."""
        ...

    def frames(self, data: bytes) -> list[bytes]:
        """Each event with its frame."""
        ...

    def payloads(self, data: bytes) -> list[bytes]:
        """Each event without its frame."""
        ...

    def join(self, payloads: Iterable[bytes]) -> bytes:
        """Each event with its frame."""
        ...


class Cutting(Framing, Protocol):
    """A framing that finds frames in a stream of bytes without changing the bytes."""

    max_length: int | None  # an event longer than this is rejected; None: the connector's own limit alone

    def cut(self, tail: bytearray, data: bytes) -> bytes:
        """The complete frames of `tail + data`. The rest stays in `tail`."""
        ...

    def skip(self, data: bytes) -> bytes | None:
        """The bytes after the end of the frame that `data` continues; None: the frame does not end in `data`. For an
        event that is too large to keep."""
        ...

    def finish(self, tail: bytearray) -> bytes:
        """The last event, which has no end, as a complete frame (b"" if there is none). Empties `tail`."""
        ...


class Codec(Protocol):
    """Converts the bytes of one event to a value and back. There is one object for each kind and configuration.
    `transparent`: an unchanged event may be written with its original bytes (with sorted json it may not)."""

    name: str
    config: Mapping[str, object]
    transparent: bool

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> "Verdict":
        """Finds the frames that can be decoded. It never raises because of the content of `data`. `count`: the number
        of frames, if known."""
        ...

    def decode(self, payload: bytes) -> object:
        """Raises CannotDecode."""
        ...

    def encode(self, value: object) -> bytes:
        """Raises CannotEncode."""
        ...

    def whole(self, payload: bytes) -> bool:
        """Whether a valid payload could not be the beginning of a longer one: true for `{"a":1}`, false for `12`."""
        ...


class TimedCodec:
    """A codec whose values depend on when an event was received: a year that a sender leaves out. It reads no clock,
    so an event that comes again from a log has the same value again."""

    def at(self, ingest_ns: int) -> Codec:
        """The codec of events that were received then."""
        raise NotImplementedError


def codec_at(codec: Codec, ingest_ns: int) -> Codec:
    """To decode and encode with, not to compare: a block's `codec` says what its bytes are."""
    return codec.at(ingest_ns) if isinstance(codec, TimedCodec) else codec


class Frames:
    """`count` events in `data`, in the form of `framing`. Immutable."""

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

    def picked(self, numbers: Sequence[int]) -> "Frames":
        """The events of these numbers, in this order."""
        frames = self.framing.frames(self.data)
        # a quarter less time than a comprehension takes; of one number it makes no tuple
        picked = itemgetter(*numbers)(frames) if len(numbers) > 1 else [frames[number] for number in numbers]
        return Frames(b"".join(picked), len(numbers), self.framing)

    def slice(self, start: int, stop: int) -> "Frames":
        """Events `start` to `stop` (exclusive), counted from 0."""
        if start == 0 and stop >= self.count:
            return self
        ends = self.framing.index(self.data)
        low = ends[start - 1] if start else 0
        high = ends[stop - 1] if stop else 0
        return Frames(self.data[low:high], stop - start, self.framing)

    def sizes(self, max_bytes: int, max_events: int) -> list[int]:
        """The number of events of each part if no part exceeds the limits. A single event may exceed `max_bytes`."""
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
    """The result of validating one read. `good` is None if no event is valid. `bad`: each invalid payload with the
    reason."""

    good: Frames | None
    bad: Sequence[tuple[bytes, str]] = ()


class PickedPositions(Sequence[int]):
    """Those of some events of a block. A list of them would cost a `where` as much as it takes itself,
    and few ask."""

    __slots__ = ("_numbers", "_of")

    def __init__(self, of: Sequence[int], numbers: Sequence[int]) -> None:
        self._of = of
        self._numbers = numbers

    def __repr__(self) -> str:
        return f"<PickedPositions of {len(self)} events>"

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return map(self._of.__getitem__, self._numbers)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        if isinstance(at, slice):
            return PickedPositions(self._of, self._numbers[at])
        return self._of[self._numbers[at]]


class Block:
    """Events of one stream with the receipt that settles them. Immutable, except for its lazily decoded values.

    `meta` belongs to all its events; `event_metas`, if not None, has one mapping for each event. `positions`, if not
    None, has each event's position in the log of `origin`, in ascending order; several events may have the same one.
    `weight`: the bytes of the source's window that are in use until the block is settled: its own size, or the size
    of the blocks that it was made of. `port`: the input of the connector that it has come to. `read_from`: of events
    without `origin`, the file that they were read from; then `positions` are the offsets behind them.
    """

    __slots__ = (
        "_values",
        "codec",
        "event_metas",
        "frames",
        "ingest_ns",
        "meta",
        "origin",
        "port",
        "positions",
        "read_from",
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
        port: str = "in",
        read_from: Origin | None = None,
    ) -> None:
        """`positions` may be left out if the events are those of `origin`, one for each of its positions."""
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
        self.port = port
        self.read_from = read_from
        self._values: list[object] | None = None

    def __repr__(self) -> str:
        where = f" at {self.origin.log}:{self.origin.first}" if self.origin else ""
        return f"<Block {self.frames.count} events of {self.stream.connector}#{self.stream.number}{where}>"

    def event_meta(self, number: int) -> Mapping[str, object]:
        """All metadata of one event."""
        return self.meta if self.event_metas is None else {**self.meta, **self.event_metas[number]}

    @property
    def timed_codec(self) -> Codec:
        """To decode these events with."""
        return codec_at(self.codec, self.ingest_ns)

    @property
    def values(self) -> list[object]:
        """The values, decoded at the first use.
        The source has validated the events, so this does not raise for them."""
        if self._values is None:
            decode = self.timed_codec.decode
            self._values = [decode(payload) for payload in self.frames.payloads()]
        return self._values

    def with_frames(self, frames: Frames, codec: Codec, receipt: Receipt | None = None) -> Self:
        """The same events with other bytes, and the same receipt or another one of as many events."""
        return type(self)(
            self.stream,
            frames,
            codec,
            receipt or self.receipt,
            ingest_ns=self.ingest_ns,
            meta=self.meta,
            event_metas=self.event_metas,
            origin=self.origin,
            weight=self.weight,
            positions=self.positions,
            port=self.port,
            read_from=self.read_from,
        )

    def at_port(self, port: str) -> Self:
        """The same block, as it comes to this input of a connector."""
        block = self.with_frames(self.frames, self.codec)
        block.port = port
        return block

    def picked(
        self,
        numbers: Sequence[int],
        frames: Frames,
        codec: Codec,
        receipt: Receipt,
        metas: Sequence[Mapping[str, object]] | None = None,
        *,
        distinct: bool = True,
    ) -> Self:
        """What was made of the events at these places of the block; not `distinct`: of some more than once. `metas`:
        all the metadata of each, where it is not what it came with."""
        came, positions = self.event_metas, self.positions
        kept = None if came is None else [came[number] for number in numbers]
        return type(self)(
            self.stream,
            frames,
            codec,
            receipt,
            ingest_ns=self.ingest_ns,
            meta=self.meta if metas is None else {},
            event_metas=kept if metas is None else metas,
            # of repeated events there may be as many as positions, and yet not one for each: a sink would take them
            # for it
            origin=self.origin if distinct else None,
            read_from=self.read_from if distinct else None,
            weight=self.weight,
            positions=None if positions is None else PickedPositions(positions, numbers),
            port=self.port,
        )

    def split(self, sizes: Sequence[int], frames: Sequence[Frames] | None = None) -> list[Self]:
        """Parts with these numbers of events, each with its share of the receipt. The caller's own copy ends.
        `frames`: the frames of the parts, if the caller has them."""
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
                port=self.port,
                read_from=self.read_from,
            )
            parts.append(part)
            start = stop
        return parts

    def gone(self, name: str, reason: str) -> None:
        """Its log is told that its events are given up, as `PositionLog.gave_up` has it. Not of events that one event
        was made into."""
        held, positions = self.origin.held_by if self.origin is not None else None, self.positions
        if held is None or positions is None:
            return
        first = last = positions[0]
        for position in positions:
            if position > last + 1:
                held.gave_up(first, last, name, reason)
                first = position
            last = position
        held.gave_up(first, last, name, reason)

    def lacked_by(self, name: str) -> "Sequence[Self]":
        """What the receiver of that name does not have of a block that may be sent again. What it has is acked."""
        known = self.receipt.delivered
        has = 0 if known is None else known.has.get(name, 0)
        if not has:
            return (self,)
        found = list(runs(has, self.frames.count))
        left: list[Self] = []
        for part, (_, _, inside) in zip(self.split([stop - start for start, stop, _ in found]), found, strict=True):
            if inside:
                part.receipt.ack(name)
            else:
                left.append(part)
        return left

    def begun(self, ways: Sequence[str]) -> "list[tuple[Self, int | None]]":
        """For a node that sends each event one of several ways: the parts of a block with the number of the way that
        their events must take, because a sink behind it has rejected them and their error records were not delivered
        everywhere. None: any."""
        known = self.receipt.delivered
        if known is None or not known.refused:
            return [(self, None)]
        of: list[int | None] = [None] * self.frames.count
        for number, way in enumerate(ways):
            for at in members(refused_by(known.refused, way)):
                of[at] = number
        found = [(way, len(list(alike))) for way, alike in groupby(of)]
        parts = self.split([size for _, size in found])
        return [(part, way) for part, (way, _) in zip(parts, found, strict=True)]

    def _origin_of(self, start: int, stop: int) -> Origin | None:
        if self.origin is None or self.positions is None:
            return self.origin  # a filter removed events; which positions remain is unknown
        return self.origin._replace(first=self.positions[start], last=self.positions[stop - 1])


class Node(Protocol):
    """A receiver of blocks at the end of a link."""

    def accept(self, block: Block) -> None:
        """Takes one copy of the block, and later calls exactly one outcome on its receipt. It never blocks and never
        raises."""
        ...
