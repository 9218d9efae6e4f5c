"""The events of a record, in forms for people, scripts and pipes."""

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from walflow.admin.text import printable
from walflow.delivery.tag import Tag, Tags
from walflow.errors import WalflowError
from walflow.event import Frames
from walflow.wal import Record

if TYPE_CHECKING:
    from walflow.wal.cursor import Acked


class Event(NamedTuple):
    """One event, or a whole record (`count` positions) that cannot be taken apart: then `error` says why."""

    position: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    ingest_ns: int
    tag: Tag | None
    number: int  # in its record
    payload: bytes  # as it is in the log, with its framing
    value: object
    error: str


def events_of(tags: Tags, record: Record, first: int, last: int) -> list[Event]:
    try:
        tag = tags.decode(record.tag)
        parts = Frames(record.payload, record.count, tag.framing).parts([1] * record.count)
        if len(parts) != record.count:
            raise WalflowError(f"{len(parts)} events where {record.count} were counted")
    except (msgspec.MsgspecError, WalflowError, ValueError, IndexError) as error:
        why = f"not to be decoded: {error}"
        return [Event(record.position, record.count, record.ingest_ns, None, 0, record.payload, None, why)]
    return [
        _event(record, tag, number, parts[number].data, parts[number].payloads())
        for number in range(max(first - record.position, 0), min(last + 1 - record.position, record.count))
    ]


def _event(record: Record, tag: Tag, number: int, data: bytes, payloads: list[bytes]) -> Event:
    value, why = None, ""
    try:
        (payload,) = payloads
        value = tag.codec.decode(payload)
    except (WalflowError, ValueError) as error:
        why = f"not {tag.codec.name}: {error}"
    return Event(record.position + number, 1, record.ingest_ns, tag, number, data, value, why)


def raw(acked: "Acked", events: list[Event]) -> bytes:
    return b"".join([event.payload for event in events])


def text_lines(acked: "Acked", events: list[Event]) -> bytes:
    return "".join([text_line(event) + "\n" for event in events]).encode(errors="backslashreplace")


def text_line(event: Event) -> str:
    position = str(event.position) if event.count == 1 else f"{event.position}-{event.position + event.count - 1}"
    source = f"{event.tag.stream.connector}#{event.tag.stream.number}" if event.tag else "?"
    words = f"({event.error}) {event.payload!r}" if event.error else compact(event.value)
    return printable(f"{position} {time_of(event.ingest_ns)} {source} {compact(_meta(event))} {words}")


def _meta(event: Event) -> dict[str, object]:
    if event.tag is None:
        return {}
    metas = event.tag.event_metas
    return {**event.tag.meta, **(metas[event.number] if metas is not None else {})}


def json_lines(acked: "Acked", events: list[Event]) -> bytes:
    return "".join([compact(_document(acked, event)) + "\n" for event in events]).encode(errors="backslashreplace")


def _document(acked: "Acked", event: Event) -> dict[str, object]:
    known: dict[str, object] = {"position": event.position, "ingest_ns": event.ingest_ns}
    known["acked"] = acked.covers(event.position, event.position + event.count - 1)
    if event.tag is not None:
        stream = event.tag.stream
        known |= {"source": stream.connector, "run": stream.run, "stream": stream.number}
        known |= {"codec": event.tag.codec.name, "meta": _meta(event)}
    if event.error:
        payload = base64.b64encode(event.payload).decode()
        return {**known, "count": event.count, "error": event.error, "payload_base64": payload}
    return {**known, "event": event.value}


def printed(acked: "Acked", event: Event) -> object:
    """As a line of `json_lines`, read again."""
    return json.loads(compact(_document(acked, event)))


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_foreign)


def _foreign(value: object) -> str:
    """Bytes, which metadata may hold, and any other value without a form in JSON."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def time_of(ingest_ns: int) -> str:
    seconds, rest = divmod(ingest_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"
    except (ValueError, OverflowError, OSError):
        return f"{ingest_ns}ns"
