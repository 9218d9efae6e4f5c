"""What a record says of its block beside the bytes: source, stream, codec, framing, metadata, as msgpack.

    [connector, run, stream, codec, framing, meta, event_metas]      codec and framing: name, or [name, config]

Replay uses the codec and framing of the tag, not those of today's flow file.

A log that drops what it has already of logs upstream says in an eighth member where the events came from: `bin` of 36 bytes,
with the uuid of that log, the term, and the first and the last position. It has the same size always and stands at the end,
so that the rest is still the same for all blocks of a stream.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from walflow import codecs, framing as framings
from walflow.event import Block, Codec, Framing, StreamId
from walflow.wal.arrivals import Provenance

KEPT: Final = 4096  # tags remembered: streams come and go, the memory stays

Spec = str | tuple[str, dict[str, object]]
Wire = tuple[str, int, int, Spec, Spec, dict[str, object], list[dict[str, object]] | None]

PLAIN: Final = b"\x97"  # an array of seven
ARRIVED: Final = b"\x98"  # of eight
PROVENANCE: Final = struct.Struct("<2s 16s I QQ")
BIN: Final = b"\xc4\x24"  # of 36 bytes

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Wire).decode


class Tag(NamedTuple):
    stream: StreamId
    codec: Codec
    framing: Framing
    meta: Mapping[str, object]
    event_metas: Sequence[Mapping[str, object]] | None


class Tags:
    """Tags to bytes and back, remembering the last few thousand: a stream's blocks share one."""

    def __init__(self) -> None:
        self._bytes: dict[StreamId, tuple[Codec, Framing, Mapping[str, object], bytes]] = {}
        self._tags: dict[bytes, Tag] = {}

    def encode(self, block: Block) -> bytes:
        codec, framing, meta = block.codec, block.frames.framing, block.meta
        known = self._bytes.get(block.stream)
        if (
            known is not None
            and block.event_metas is None
            and (known[0] is codec and known[1] is framing and known[2] is meta)
        ):
            return known[3]
        name, run, number = block.stream
        event_metas = None if block.event_metas is None else [dict(one) for one in block.event_metas]
        encoded = _encode((name, run, number, _spec(codec), _spec(framing), dict(meta), event_metas))
        if event_metas is None:
            if len(self._bytes) >= KEPT:
                self._bytes.clear()
            self._bytes[block.stream] = (codec, framing, meta, encoded)
        return encoded

    def decode(self, encoded: bytes) -> Tag:
        """Raises msgspec.DecodeError or WalflowError for a tag that this version cannot read."""
        encoded = plain(encoded)
        tag = self._tags.get(encoded)
        if tag is None:
            name, run, number, codec, framing, meta, event_metas = _decode(encoded)
            tag = Tag(
                StreamId(name, run, number),
                codecs.make(*_pair(codec)),
                _framing(framing),
                meta,
                event_metas,
            )
            if len(self._tags) >= KEPT:
                self._tags.clear()
            self._tags[encoded] = tag
        return tag


def arrived(tag: bytes, came: Provenance) -> bytes:
    """The tag of a block that came from there."""
    where = PROVENANCE.pack(BIN, bytes.fromhex(came.log), came.term, came.first, came.last)
    return ARRIVED + tag[1:] + where


def provenance(encoded: bytes) -> Provenance | None:
    """Where its events came from, if it says so."""
    if encoded[:1] != ARRIVED or encoded[-PROVENANCE.size : 2 - PROVENANCE.size] != BIN:
        return None
    _, log, term, first, last = PROVENANCE.unpack_from(encoded, len(encoded) - PROVENANCE.size)
    return Provenance(log.hex(), term, first, last)


def plain(encoded: bytes) -> bytes:
    """The tag without that."""
    return PLAIN + encoded[1 : -PROVENANCE.size] if provenance(encoded) is not None else encoded


def metas_of(encoded: bytes) -> tuple[str, Mapping[str, object], Sequence[Mapping[str, object]] | None]:
    """The source, the metadata of the block, and that of each event. Raises msgspec.DecodeError."""
    name, _, _, _, _, meta, event_metas = _decode(plain(encoded))
    return name, meta, event_metas


def _spec(made: Codec | Framing) -> Spec:
    return (made.name, dict(made.config)) if made.config else made.name


def _framing(spec: Spec) -> Framing:
    for unnamed in (framings.WHOLE, framings.MESSAGES):  # no flow file names these
        if spec == unnamed.name:
            return unnamed
    return framings.make([_pair(spec)])


def _pair(spec: Spec) -> tuple[str, dict[str, object]]:
    return (spec, {}) if isinstance(spec, str) else spec
