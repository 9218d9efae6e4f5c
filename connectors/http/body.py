"""A request's body: read within limits that count inflated bytes, cut into events, and judged before any is taken."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from aiohttp import web

from connectors.http.memory import BodyReading
from connectors.http.refusal import LISTED, HttpRefusal, RefusedEvent
from walflow import Codec, Frames, Outlet
from walflow.framing import LINES, frames_of
from walflow.framing.compression import Corrupt, Members
from walflow.net.deadline import within

LINE_TYPES: Final = {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
ENCODINGS: Final = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "zlib", "zstd": "zstd"}
TURN_EVENTS: Final = 4096  # judged before others have their turn, and the most of a block
BLOCK_BYTES: Final = 256 << 10
ELEMENTS: Final = 4  # an array with so many commas for each event allowed is counted before it is decoded

Kind = Literal["one", "lines", "array", "framed"]


class BodyLimits(NamedTuple):
    body: int
    event: int
    events: int


class Judged(NamedTuple):
    frames: Sequence[Frames]
    refused: Sequence[RefusedEvent]


def kind_of(content_type: str, out: Outlet, *, split_arrays: bool) -> Kind:
    """How the events of a body are told apart. `content_type`: without parameters."""
    if out.framed:
        return "framed"
    if content_type in LINE_TYPES and out.codec.name in ("json", "string"):
        return "lines"
    return "array" if split_arrays and content_type == "application/json" and out.codec.name == "json" else "one"


async def read(request: web.BaseRequest, reading: BodyReading, limit: int, seconds: float) -> bytes:
    """Raises HttpRefusal. `reading` makes no room for others any more when this returns."""
    members = _members(request.headers.get("Content-Encoding", ""))
    if (request.content_length or 0) > limit:
        raise _too_large(limit)
    if request.content.is_eof():  # all of it came with the head
        return await _read(request, reading, members, limit)
    try:
        async with within(seconds):
            return await _read(request, reading, members, limit)
    except TimeoutError:
        raise HttpRefusal(408, f"the body has not come within {seconds:g} s", closes=True) from None


async def _read(request: web.BaseRequest, reading: BodyReading, members: Members | None, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    try:
        while data := await request.content.readany():
            for part in _inflated(members, data):
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                reading.add(len(part))
                parts.append(part)
        if members is not None:
            members.end()
        reading.is_read()
    except asyncio.CancelledError:
        refusal = reading.made_room()
        if refusal is None:
            raise
        parts.clear()  # the frame lives as long as the error
        raise refusal from None
    except HttpRefusal:
        parts.clear()
        raise
    except Corrupt as error:
        raise HttpRefusal(400, str(error), closes=True) from None
    except (web.RequestPayloadError, ConnectionError, asyncio.IncompleteReadError) as error:
        raise HttpRefusal(400, f"the body is broken off or badly chunked: {_words(error)}", closes=True) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _members(encoding: str) -> Members | None:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ENCODINGS:
        raise HttpRefusal(415, "Content-Encoding may be gzip, deflate or zstd, and only one of them", closes=True)
    return Members(ENCODINGS[encoding])


def _inflated(members: Members | None, data: bytes) -> Iterator[bytes]:
    if members is None:
        yield data
        return
    members.feed(data)
    while (read := members.read()) is not None:
        yield read[0]


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"the body has more than max_body_bytes, {limit}, inflated", closes=True)


# events


class _Slice(NamedTuple):
    """Events to be judged at once, with the number of each."""

    numbers: Sequence[int]
    frames: Frames


async def judge(body: bytes, kind: Kind, out: Outlet, limits: BodyLimits, *, all_or_none: bool) -> Judged:
    """Raises HttpRefusal, with `all_or_none` also for the first events that are bad."""
    unit = "line" if kind == "lines" else "event"
    refused: list[RefusedEvent] = []
    found: list[Frames] = []
    for turn, part in enumerate(_slices(body, kind, out, limits, refused)):
        if turn:
            await asyncio.sleep(0)
        good = _judge(part, out.codec, limits.event, unit, refused)
        if refused and all_or_none:
            break
        if good is not None:
            found += good.parts(good.sizes(BLOCK_BYTES, TURN_EVENTS))
    if refused and all_or_none:
        if not body:
            raise HttpRefusal(400, "the body is empty; nothing was taken")
        first = min(refused)
        hint = _hint(body, kind)
        raise HttpRefusal(400, f"{unit} {first.number}: {first.reason}{hint}; nothing was taken", refused)
    return Judged(found, refused)


def _judge(part: _Slice, codec: Codec, limit: int, unit: str, refused: list[RefusedEvent]) -> Frames | None:
    frames = part.frames
    if len(frames.data) <= limit:
        verdict = codec.validate(frames.data, frames.framing, frames.count)
        if not verdict.bad:
            return verdict.good
    return _one_by_one(part, codec, limit, unit, refused)


def _one_by_one(part: _Slice, codec: Codec, limit: int, unit: str, refused: list[RefusedEvent]) -> Frames | None:
    good: list[bytes] = []
    for number, payload in zip(part.numbers, part.frames.payloads(), strict=True):
        if len(payload) > limit:
            reason = f"event of {len(payload)} bytes exceeds max_event_bytes, {limit}"
        else:
            data, framing = frames_of([payload])
            bad = codec.validate(data, framing, 1).bad
            reason = bad[0][1] if bad else ""
        if reason:
            refused.append(RefusedEvent(number, unit, reason))
        else:
            good.append(payload)
    return _frames(good) if good else None


def _slices(
    body: bytes, kind: Kind, out: Outlet, limits: BodyLimits, refused: list[RefusedEvent]
) -> Iterator[_Slice]:
    if kind == "lines":
        return _lines(body, limits.events)
    if kind == "array" and body.lstrip()[:1] == b"[":
        return _sliced(_elements(body, limits.events))
    if kind == "framed":
        return _framed(body, out, limits, refused)
    return iter([_Slice((1,), _frames([body]))])


def _lines(body: bytes, most: int) -> Iterator[_Slice]:
    data = body if body.endswith(b"\n") or not body else body + b"\n"
    count = LINES.count(data)
    if count > most:
        raise _too_many(most)
    if not data:
        return
    if b"\r\n" in data or b"\n\n" in data or data.startswith(b"\n"):
        lines = [(number, line.removesuffix(b"\r")) for number, line in enumerate(LINES.payloads(data), 1)]
        full = [(number, line) for number, line in lines if line]
        for at in range(0, len(full), TURN_EVENTS):
            some = full[at : at + TURN_EVENTS]
            yield _Slice([number for number, _ in some], _frames([line for _, line in some]))
        return
    whole = Frames(data, count, LINES)
    first = 1
    for frames in whole.parts(whole.sizes(len(data), TURN_EVENTS)):
        yield _Slice(range(first, first + frames.count), frames)
        first += frames.count


def _sliced(payloads: Sequence[bytes]) -> Iterator[_Slice]:
    for at in range(0, len(payloads), TURN_EVENTS):
        some = payloads[at : at + TURN_EVENTS]
        yield _Slice(range(at + 1, at + 1 + len(some)), _frames(some))


def _elements(body: bytes, most: int) -> list[bytes]:
    try:
        if body.count(b",") > ELEMENTS * most and _has_more_elements(body, most):
            raise _too_many(most)
        elements = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise HttpRefusal(400, f"the body is no JSON array: {_words(error)}; nothing was taken") from None
    except RecursionError:
        raise HttpRefusal(400, "the body is nested too deeply; nothing was taken") from None
    if len(elements) > most:
        raise _too_many(most)
    return [bytes(element) for element in elements]


def _has_more_elements(body: bytes, most: int) -> bool:
    """Without a list of them: each may be two bytes in the body, and sixty in a list. Raises ValueError."""
    text = body.decode()
    decode = json.JSONDecoder().raw_decode
    at, count = text.index("[") + 1, 0
    while count <= most:
        while text[at : at + 1].isspace():
            at += 1
        _, at = decode(text, at)
        count += 1
        while text[at : at + 1].isspace():
            at += 1
        if text[at : at + 1] != ",":
            return False
        at += 1
    return True


def _framed(body: bytes, out: Outlet, limits: BodyLimits, refused: list[RefusedEvent]) -> Iterator[_Slice]:
    """As the preprocessors tell the events apart. What they inflate counts as the body does."""
    number = size = 0
    numbers: list[int] = []
    payloads: list[bytes] = []
    for piece in out.cut(body):
        size += piece.size
        if size > limits.body:
            raise _too_large(limits.body)
        if piece.event is None and piece.refused is None:
            continue
        number += 1
        if number > limits.events:
            raise _too_many(limits.events)
        if piece.refused is not None:
            refused.append(RefusedEvent(number, "event", piece.refused))
        elif piece.event is not None:
            numbers.append(number)
            payloads.append(piece.event)
        if len(payloads) == TURN_EVENTS:
            yield _Slice(numbers, _frames(payloads))
            numbers, payloads = [], []
    if payloads or refused:
        yield _Slice(numbers, _frames(payloads))


def _frames(payloads: Sequence[bytes]) -> Frames:
    data, framing = frames_of(payloads) if payloads else (b"", LINES)
    return Frames(data, len(payloads), framing)


def _too_many(most: int) -> HttpRefusal:
    return HttpRefusal(413, f"the body has more than max_events, {most}")


def _hint(body: bytes, kind: Kind) -> str:
    if kind == "one" and b"\n" in body.strip():
        return " (for an event a line, send Content-Type: application/x-ndjson)"
    return ""


def _words(error: BaseException) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)[:LISTED]
