"""Blocks into requests: what each holds, and the key by which a server knows it again."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple, cast
from zlib import crc32

import msgspec

from walflow import Block, Inlet
from walflow.world import dice

Form = Literal["event", "lines", "array"]

TYPES: Final = {"lines": "application/x-ndjson", "array": "application/json"}
EVENT_TYPES: Final = {"json": "application/json", "string": "text/plain; charset=utf-8"}


class Parcel(NamedTuple):
    """What one request carries: blocks whose events all share its outcome."""

    blocks: Sequence[Block]
    key: str

    @property
    def events(self) -> int:
        return sum(block.frames.count for block in self.blocks)


def parcels(blocks: Sequence[Block], most_events: int, most_bytes: int) -> list[Parcel]:
    """In order. With `most_events` 1, an event each."""
    made: list[Parcel] = []
    gathered: list[Block] = []
    events = size = 0
    first = ""
    for block in blocks:
        keys = _places(block)
        at = 0
        for part in block.split(block.frames.sizes(most_bytes, most_events)):
            if gathered and (events + part.frames.count > most_events or size + len(part.frames.data) > most_bytes):
                made.append(_parcel(gathered, first))
                gathered, events, size = [], 0, 0
            if not gathered:
                first = keys[at]
            gathered.append(part)
            events += part.frames.count
            size += len(part.frames.data)
            at += part.frames.count
    if gathered:
        made.append(_parcel(gathered, first))
    return made


def lanes(blocks: Sequence[Block], path: Sequence[str], count: int) -> Mapping[int, Sequence[Block]]:
    """Events with an equal value at `path` are in one of them, in their order. The events are JSON."""
    made: dict[int, list[Block]] = {}
    for block in blocks:
        numbers = [_checksum(value, path) % count for value in block.values]
        runs = [(number, sum(1 for _ in run)) for number, run in groupby(numbers)]
        for (number, _), part in zip(runs, block.split([size for _, size in runs]), strict=True):
            made.setdefault(number, []).append(part)
    return made


def values_in(parcel: Parcel, path: Sequence[str]) -> frozenset[int]:
    """Checksums of what its events have at `path`."""
    return frozenset(_checksum(value, path) for block in parcel.blocks for value in block.values)


def _checksum(value: object, path: Sequence[str]) -> int:
    return crc32(msgspec.json.encode(_at(value, path), order="sorted"))


def _at(value: object, path: Sequence[str]) -> object:
    """The value at the path, or None."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast(dict[str, object], value).get(name)
    return value


def halves(parcel: Parcel) -> list[Parcel]:
    """The two halves of a parcel of more than one event."""
    half = parcel.events // 2
    front: list[Block] = []
    back: list[Block] = []
    for block in parcel.blocks:
        room = half - sum(part.frames.count for part in front)
        count = block.frames.count
        if count <= room:
            front.append(block)
        elif not room:
            back.append(block)
        else:
            begin, end = block.split([room, count - room])
            front.append(begin)
            back.append(end)
    return [Parcel(front, f"{parcel.key}.0"), Parcel(back, f"{parcel.key}.1")]


def _parcel(blocks: Sequence[Block], first: str) -> Parcel:
    if not first:
        return Parcel(blocks, dice().randbytes(16).hex())
    digest = hashlib.blake2b(digest_size=8)
    for block in blocks:
        digest.update(block.frames.data)
    return Parcel(blocks, f"{first}-{sum(block.frames.count for block in blocks)}-{digest.hexdigest()}")


def _places(block: Block) -> Sequence[str]:
    """Where each event is in its log, "" for each where there is none. Events of one position are told apart by their
    number there; where a filter has removed some, by their number in the block."""
    origin = block.origin
    if origin is None:
        return [""] * block.frames.count
    if block.positions is None:
        return [f"{origin.log}-{origin.first}-{origin.last}.{number}" for number in range(block.frames.count)]
    ordinals = [0]
    for before, position in pairwise(block.positions):
        ordinals.append(ordinals[-1] + 1 if position == before else 0)
    return [f"{origin.log}-{position}.{n}" for position, n in zip(block.positions, ordinals, strict=True)]


def body_of(parcel: Parcel, form: Form, inlet: Inlet) -> bytes:
    messages = [message for block in parcel.blocks for message in inlet.messages(block)]
    if form == "event":
        return messages[0]
    # in JSON a newline is white space: within a string it is written \n
    lines = [message.replace(b"\n", b" ").replace(b"\r", b" ") for message in messages]
    return b"[" + b",".join(lines) + b"]" if form == "array" else b"".join(line + b"\n" for line in lines)


def type_of(parcel: Parcel, form: Form, inlet: Inlet) -> str:
    if form != "event":
        return TYPES[form]
    return (
        "application/octet-stream"
        if inlet.encoded
        else EVENT_TYPES.get(parcel.blocks[0].codec.name, "application/octet-stream")
    )
