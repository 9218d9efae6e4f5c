"""What a record says of its block beside the bytes: source, stream, codec, framing, metadata, as msgpack.

    [connector, run, stream, codec, framing, meta, event_metas]      codec and framing: name, or [name, config]

Replay uses the codec and framing of the tag, not those of today's flow file.

A log that drops what it has already of logs upstream says in an eighth member where the events came from: `bin` of 36
bytes, with the uuid of that log, the term, and the first and the last position. It has the same size always and
stands at the end, so that the rest is still the same for all blocks of a stream.

From its second block on, a stream's tag is written short (see `walflow_kernel.short_tag`). The first one may be the
only one.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from walflow import codecs, framing as framings
from walflow.event import Block, Codec, Framing, StreamId
from walflow.wal.arrivals import Provenance
from walflow_kernel.short_tag import SHORT, NotShort, shortened, whole

KEPT: Final = 4096  # tags remembered: streams come and go, the memory stays

Spec = str | tuple[str, dict[str, object]]
Wire = tuple[str, int, int, Spec, Spec, dict[str, object], list[dict[str, object]] | None]

PLAIN: Final = b"\x97"  # an array of seven
ARRIVED: Final = b"\x98"  # of eight
SHORT_ARRIVED: Final = b"\x02"  # short, and behind it the eighth, as it is
WITH_PLACE: Final = {PLAIN: ARRIVED, SHORT: SHORT_ARRIVED}
WITHOUT_PLACE: Final = {ARRIVED: PLAIN, SHORT_ARRIVED: SHORT}
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


class StreamTag(NamedTuple):
    """What the blocks of a stream had, and `encoded`, their tag. `short`: it is as short as it becomes."""

    codec: Codec
    framing: Framing
    meta: Mapping[str, object]
    encoded: bytes
    short: bool = False


class Tags:
    """Tags to bytes and back, remembering the last few thousand: a stream's blocks share one."""

    def __init__(self) -> None:
        self._bytes: dict[StreamId, StreamTag] = {}
        self._tags: dict[bytes, Tag] = {}

    def encode(self, block: Block) -> bytes:
        codec, framing, meta = block.codec, block.frames.framing, block.meta
        known = self._bytes.get(block.stream)
        if (
            known is not None
            and block.event_metas is None
            and (known.codec is codec and known.framing is framing and known.meta is meta)
        ):
            if not known.short:
                known = known._replace(encoded=shortened(known.encoded), short=True)
                self._bytes[block.stream] = known
            return known.encoded
        name, run, number = block.stream
        event_metas = None if block.event_metas is None else [dict(one) for one in block.event_metas]
        encoded = _encode((name, run, number, _spec(codec), _spec(framing), dict(meta), event_metas))
        if event_metas is None:
            if len(self._bytes) >= KEPT:
                self._bytes.clear()
            self._bytes[block.stream] = StreamTag(codec, framing, meta, encoded)
        return encoded

    def decode(self, encoded: bytes) -> Tag:
        """Raises msgspec.DecodeError or WalflowError for a tag that this version cannot read."""
        encoded = without_place(encoded)
        tag = self._tags.get(encoded)
        if tag is None:
            if len(self._tags) >= KEPT:
                self._tags.clear()
            tag = self._tags[encoded] = self._made(encoded)
        return tag

    def _made(self, encoded: bytes) -> Tag:
        long = plain(encoded)
        if long != encoded and (known := self._tags.get(long)) is not None:
            return known  # one object for all blocks of a stream
        name, run, number, codec, framing, meta, event_metas = _decode(long)
        return Tag(StreamId(name, run, number), codecs.make(*_pair(codec)), _framing(framing), meta, event_metas)


def arrived(tag: bytes, came: Provenance) -> bytes:
    """The tag of a block that came from there."""
    where = PROVENANCE.pack(BIN, bytes.fromhex(came.log), came.term, came.first, came.last)
    return WITH_PLACE[tag[:1]] + tag[1:] + where


def provenance(encoded: bytes) -> Provenance | None:
    """Where its events came from, if it says so."""
    if encoded[:1] not in WITHOUT_PLACE or encoded[-PROVENANCE.size : 2 - PROVENANCE.size] != BIN:
        return None
    _, log, term, first, last = PROVENANCE.unpack_from(encoded, len(encoded) - PROVENANCE.size)
    return Provenance(log.hex(), term, first, last)


def without_place(encoded: bytes) -> bytes:
    """The tag without that: it is the same for all blocks of a stream."""
    if provenance(encoded) is None:
        return encoded
    return WITHOUT_PLACE[encoded[:1]] + encoded[1 : -PROVENANCE.size]


def plain(encoded: bytes) -> bytes:
    """The array of seven, in full. Raises msgspec.DecodeError."""
    try:
        return whole(without_place(encoded))
    except NotShort as error:
        raise msgspec.DecodeError(str(error)) from None


def metas_of(encoded: bytes) -> tuple[str, Mapping[str, object], Sequence[Mapping[str, object]] | None]:
    """The source, the metadata of the block, and that of each event. Raises msgspec.DecodeError."""
    name, _, _, _, _, meta, event_metas = _decode(plain(encoded))
    return name, meta, event_metas


def _spec(made: Codec | Framing) -> Spec:
    return (made.name, dict(made.config)) if made.config else made.name


def _framing(spec: Spec) -> Framing:
    # no flow file names these as what cuts a stream
    for unnamed in (framings.WHOLE, framings.MESSAGES, framings.LENGTH_PREFIXED):
        if spec == unnamed.name:
            return unnamed
    return framings.make([_pair(spec)])


def _pair(spec: Spec) -> tuple[str, dict[str, object]]:
    return (spec, {}) if isinstance(spec, str) else spec
