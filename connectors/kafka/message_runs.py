"""Messages of Kafka as events.

The block is the unit here too: for a read of good messages, only calls of C take their turn message by message.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast, overload

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from walflow import Codec, Frames, Outlet
from walflow.framing import frames_of

BLOCK_BYTES: Final = 256 << 10


class MessageMetas(Sequence[Mapping[str, object]]):
    """The metadata of each event, made when it is asked for. Most flows ask for none."""

    __slots__ = ("_messages",)

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def __repr__(self) -> str:
        return f"<MessageMetas of {len(self)} events>"

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return map(meta_of, self._messages)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, object]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, object] | Sequence[Mapping[str, object]]:
        return MessageMetas(self._messages[at]) if isinstance(at, slice) else meta_of(self._messages[at])


class ReadEvents(NamedTuple):
    """`messages`: for each event, the one that it came in. `refused`: by number, why it is no event."""

    payloads: Sequence[bytes]
    messages: Sequence[Message]
    refused: dict[int, str]


class MessageRun(NamedTuple):
    """Events to be sent as one block, or one that is to be rejected.
    `end`: the offset at which to go on behind them."""

    frames: Frames
    metas: Sequence[Mapping[str, object]]
    end: int
    refused: str = ""


def runs_of(messages: Sequence[Message], out: Outlet) -> list[MessageRun]:
    """In order, of messages of one partition. If preprocessors make several events of a message, `end` is behind it
    only with its last event."""
    events = _cut(messages, out) if out.framed else ReadEvents(_values(messages), messages, {})
    for message in messages:
        message.set_value(None)  # the events have these bytes, and the metadata keeps the message
    judged = [
        part for span in _parts(events, range(len(events.payloads))) for part in _judged(events, span, out.codec)
    ]
    if not judged:
        return []
    behind = [*(_offset(events.messages[span[0]]) for span, _ in judged[1:]), _offset(messages[-1]) + 1]
    return [
        MessageRun(
            frames, MessageMetas(events.messages[span[0] : span[-1] + 1]), end, events.refused.get(span[0], "")
        )
        for (span, frames), end in zip(judged, behind, strict=True)
    ]


def _values(messages: Sequence[Message]) -> Sequence[bytes]:
    return [value or b"" for value in map(Message.value, messages)]


def _offset(message: Message) -> int:
    return message.offset() or 0


def _cut(messages: Sequence[Message], out: Outlet) -> ReadEvents:
    """Cuts messages into events, by the preprocessors."""
    payloads: list[bytes] = []
    sources: list[Message] = []
    refused: dict[int, str] = {}
    for message, value in zip(messages, _values(messages), strict=True):
        for piece in out.cut(value):
            if piece.refused is not None:
                refused[len(payloads)] = piece.refused
            elif piece.event is None:
                continue
            payloads.append(piece.event or b"")  # of a refused one, what is known of it
            sources.append(message)
    return ReadEvents(payloads, sources, refused)


def _parts(events: ReadEvents, span: range) -> Iterator[range]:
    """Each of BLOCK_BYTES at most; a refused one is alone."""
    sizes = list(map(len, events.payloads[span.start : span.stop]))
    if sum(sizes) <= BLOCK_BYTES and not events.refused:
        if span:
            yield span
        return
    start, total = span.start, 0
    for number, size in zip(span, sizes, strict=True):
        total += size
        alone = number in events.refused or number - 1 in events.refused
        if number > start and (alone or total > BLOCK_BYTES):
            yield range(start, number)
            start, total = number, size
    yield range(start, span.stop)


def _judged(events: ReadEvents, span: range, codec: Codec) -> list[tuple[range, Frames]]:
    """The whole part, if the codec takes all of it.
    Otherwise each event that it does not take is refused, and alone."""
    frames = _frames(events, span)
    if span.start in events.refused or not codec.validate(frames.data, frames.framing, frames.count).bad:
        return [(span, frames)]
    for number in span:
        one = _frames(events, range(number, number + 1))
        bad = codec.validate(one.data, one.framing, 1).bad
        if bad:
            events.refused[number] = bad[0][1]
    return [(part, _frames(events, part)) for part in _parts(events, span)]


def _frames(events: ReadEvents, span: range) -> Frames:
    data, framing = frames_of(events.payloads[span.start : span.stop])
    return Frames(data, len(span), framing)


def meta_of(message: Message) -> Mapping[str, object]:
    """By tremor's names. A header that is there several times is a list."""
    kind, milliseconds = message.timestamp()
    return {
        "kafka_consumer": {
            "key": message.key(),
            "headers": _headers(message.headers()),
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds * 1_000_000,
        }
    }


def _headers(given: object) -> Mapping[str, object] | None:
    if not given:
        return None
    values: dict[str, list[object]] = {}
    for name, value in cast(list[tuple[str, object]], given):
        values.setdefault(name, []).append(value)
    return {name: several if len(several) > 1 else several[0] for name, several in values.items()}
