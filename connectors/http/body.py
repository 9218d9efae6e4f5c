"""A request's body, cut into events, which are judged before any is taken."""

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from connectors.http.refusal import LISTED, HttpRefusal, RefusedEvent, too_large
from walflow import Codec, Frames, Outlet
from walflow.framing import LINES, frames_of

LINE_TYPES: Final = {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
TURN_EVENTS: Final = 4096  # judged before others have their turn, and the most of a block
BLOCK_BYTES: Final = 256 << 10  # the same, in bytes; a larger event has a turn of its own
ELEMENTS: Final = 4  # an array with so many commas for each event allowed is counted before it is decoded

Kind = Literal["one", "lines", "array", "framed"]


class BodyLimits(NamedTuple):
    body: int
    event: int
    events: int


class Judged(NamedTuple):
    frames: Sequence[Frames]
    refused: Sequence[RefusedEvent]


def kind_of(content_type: str, body: bytes, out: Outlet, codec: Codec, *, split_arrays: bool) -> Kind:
    """How the events of a body are told apart. `content_type`: without parameters."""
    if out.framed:
        return "framed"
    if content_type in LINE_TYPES and codec.name in ("json", "string"):
        return "lines"
    arrays = split_arrays and content_type == "application/json" and codec.name == "json"
    return "array" if arrays and body.lstrip()[:1] == b"[" else "one"


class _Slice(NamedTuple):
    """Events to be judged at once, with the number of each."""

    numbers: Sequence[int]
    frames: Frames


def judged_at_once(body: bytes, kind: Kind, codec: Codec, limits: BodyLimits) -> Judged | None:
    """Of a small body whose events are all good, what `judge` says; None: `judge` looks closer."""
    if kind == "one":
        data, framing = frames_of([body])
        frames = Frames(data, 1, framing)
    elif kind == "lines" and codec.name == "json" and b"\r" not in body:
        data = body if body.endswith(b"\n") else body + b"\n"
        frames = Frames(data, LINES.count(data), LINES)
    else:
        return None
    if not body or frames.count > min(limits.events, TURN_EVENTS) or len(data) > BLOCK_BYTES:
        return None
    good = _all_good(frames, codec, limits.event)
    return None if good is None else Judged((good,), ())


def judge(
    body: bytes, kind: Kind, out: Outlet, codec: Codec, limits: BodyLimits, *, all_or_none: bool
) -> Generator[None, None, Judged]:
    """In turns: it yields where others may have theirs. Raises HttpRefusal, with `all_or_none` also for the first
    events that are bad."""
    unit = "line" if kind == "lines" else "event"
    refused: list[RefusedEvent] = []
    found: list[Frames] = []
    for turn, part in enumerate(_slices(body, kind, out, limits, refused)):
        if turn:
            yield
        good = _judge(part, kind, codec, limits.event, refused)
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


def _judge(part: _Slice, kind: Kind, codec: Codec, limit: int, refused: list[RefusedEvent]) -> Frames | None:
    # An empty line is no JSON, so there it is looked for only in what is bad: the search costs half of the
    # validation.
    if kind == "lines" and (codec.name != "json" or b"\r" in part.frames.data):
        part = _with_content(part)
    good = _all_good(part.frames, codec, limit)
    if good is None and kind == "lines" and b"" in part.frames.payloads():
        part = _with_content(part)
        good = _all_good(part.frames, codec, limit)
    if good is not None:
        return good
    return _one_by_one(part, codec, limit, "line" if kind == "lines" else "event", refused)


def _all_good(frames: Frames, codec: Codec, limit: int) -> Frames | None:
    if not frames.count or (len(frames.data) > limit and max(map(len, frames.payloads())) > limit):
        return None
    verdict = codec.validate(frames.data, frames.framing, frames.count)
    return None if verdict.bad else verdict.good


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
    if kind == "array":
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
    whole = Frames(data, count, LINES)
    first = 1
    for frames in whole.parts(whole.sizes(BLOCK_BYTES, TURN_EVENTS)):
        yield _Slice(range(first, first + frames.count), frames)
        first += frames.count


def _with_content(part: _Slice) -> _Slice:
    """Without empty lines, and without the carriage return that a line may end with."""
    lines = [
        (number, line.removesuffix(b"\r")) for number, line in zip(part.numbers, part.frames.payloads(), strict=True)
    ]
    full = [(number, line) for number, line in lines if line]
    return _Slice([number for number, _ in full], _frames([line for _, line in full]))


def _sliced(payloads: Sequence[bytes]) -> Iterator[_Slice]:
    begin = size = 0
    for at, payload in enumerate(payloads):
        if at > begin and (size + len(payload) > BLOCK_BYTES or at - begin == TURN_EVENTS):
            yield _Slice(range(begin + 1, at + 1), _frames(payloads[begin:at]))
            begin, size = at, 0
        size += len(payload)
    if payloads:
        yield _Slice(range(begin + 1, len(payloads) + 1), _frames(payloads[begin:]))


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
    number = size = held = 0
    numbers: list[int] = []
    payloads: list[bytes] = []
    for piece in out.cut(body):
        size += piece.size
        if size > limits.body:
            raise too_large(limits.body)
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
            held += len(piece.event)
        if len(payloads) == TURN_EVENTS or held >= BLOCK_BYTES:
            yield _Slice(numbers, _frames(payloads))
            numbers, payloads, held = [], [], 0
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
