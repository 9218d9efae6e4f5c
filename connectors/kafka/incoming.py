"""Messages of Kafka as events."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from walflow import Codec, Frames, Outlet
from walflow.framing import frames_of

BLOCK_BYTES: Final = 256 << 10


class MessageEvent(NamedTuple):
    """`refused`: why it is none."""

    payload: bytes
    offset: int
    meta: Mapping[str, object]
    refused: str = ""


class MessageRun(NamedTuple):
    """Events to be sent as one block, or one that is to be rejected. `end`: the offset at which to go on behind them."""

    frames: Frames
    metas: Sequence[Mapping[str, object]]
    end: int
    refused: str = ""


def runs_of(messages: Sequence[Message], out: Outlet) -> list[MessageRun]:
    """In order, of messages of one partition. If preprocessors make several events of a message, `end` is behind it only
    with its last event."""
    events = _judged([event for message in messages for event in _events(message, out)], out.codec)
    parts = list(_parts(events))
    if not parts:
        return []
    behind = [*(part[0].offset for part in parts[1:]), (messages[-1].offset() or 0) + 1]
    return [
        MessageRun(_frames(part), [event.meta for event in part], end, part[0].refused)
        for part, end in zip(parts, behind, strict=True)
    ]


def _parts(events: Sequence[MessageEvent]) -> Iterator[Sequence[MessageEvent]]:
    """Each of BLOCK_BYTES at most; a refused one is alone."""
    start = size = 0
    for at, event in enumerate(events):
        size += len(event.payload)
        if at > start and (event.refused or events[at - 1].refused or size > BLOCK_BYTES):
            yield events[start:at]
            start, size = at, len(event.payload)
    if events:
        yield events[start:]


def _events(message: Message, out: Outlet) -> Iterator[MessageEvent]:
    payload, offset, meta = message.value() or b"", message.offset() or 0, meta_of(message)
    assert isinstance(payload, bytes)
    if not out.framed:
        yield MessageEvent(payload, offset, meta)
        return
    for piece in out.cut(payload):
        if piece.refused is not None:
            yield MessageEvent(piece.event or b"", offset, meta, piece.refused)
        elif piece.event is not None:
            yield MessageEvent(piece.event, offset, meta)


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


def _judged(events: list[MessageEvent], codec: Codec) -> list[MessageEvent]:
    if not events:
        return events
    frames = _frames(events)
    if (
        not any(event.refused for event in events)
        and not codec.validate(frames.data, frames.framing, frames.count).bad
    ):
        return events
    return [event if event.refused else _judged_alone(event, codec) for event in events]


def _judged_alone(event: MessageEvent, codec: Codec) -> MessageEvent:
    frames = _frames([event])
    bad = codec.validate(frames.data, frames.framing, 1).bad
    return event._replace(refused=bad[0][1]) if bad else event


def _frames(events: Sequence[MessageEvent]) -> Frames:
    data, framing = frames_of([event.payload for event in events])
    return Frames(data, len(events), framing)
