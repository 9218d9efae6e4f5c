"""A log as lines of JSON, one for each record, and back.

The tag is decoded if JSON can express all of it; otherwise it is base64. So is a payload that is not UTF-8. Each line
is exactly one record: reading it gives the same bytes.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final

import msgspec

from walflow.delivery.tag import Spec, Wire, arrived, plain, provenance, without_place
from walflow.wal import Record
from walflow.wal.arrivals import Provenance
from walflow.wal.cursor import Acked
from walflow_kernel.short_tag import shortened

VERSION: Final = 3  # with terms; 2 had marks, and 1 neither. An older walflow says that it does not know it.
KEPT: Final = 4096  # tags remembered

Unset = msgspec.UnsetType
UNSET: Final = msgspec.UNSET


class LogLine(msgspec.Struct, tag="log", tag_field="kind", forbid_unknown_fields=True):
    """The first line. All up to `low` is acked, and the `ranges` above it, ends included."""

    version: int
    uuid: str
    low: int
    durable: int
    ranges: list[tuple[int, int]]


class MarkLine(msgspec.Struct, tag="mark", tag_field="kind", forbid_unknown_fields=True):
    """What one of several sinks has acked: all up to `low`, and the `ranges` above it.
    They come behind the first line."""

    name: str
    low: int
    ranges: list[tuple[int, int]]


class ExportLine(msgspec.Struct, tag="record", tag_field="kind", forbid_unknown_fields=True):
    """One record: `count` events from `position` on, so many of them `acked`, under this `term` in the log.
    Either `tag_base64` or the rest of it."""

    position: int
    count: int
    ingest_ns: int
    term: int | Unset = UNSET
    acked: int | Unset = UNSET
    source: str | Unset = UNSET
    run: int | Unset = UNSET
    stream: int | Unset = UNSET
    codec: Spec | Unset = UNSET
    framing: Spec | Unset = UNSET
    meta: dict[str, object] | Unset = UNSET
    event_metas: list[dict[str, object]] | Unset = UNSET
    short: bool | Unset = UNSET  # the tag is in its short form
    arrived: tuple[str, int, int, int] | Unset = UNSET  # uuid of a log upstream, term, first and last position there
    tag_base64: bytes | Unset = UNSET
    payload: str | Unset = UNSET
    payload_base64: bytes | Unset = UNSET


class LostLine(msgspec.Struct, tag="lost", tag_field="kind", forbid_unknown_fields=True):
    """Positions that are not acked and cannot be read."""

    first: int
    last: int


class Gone(msgspec.Struct, tag="gone", tag_field="kind", forbid_unknown_fields=True):
    """Positions that a running daemon delivered and deleted while the log was read."""

    first: int
    last: int


encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Wire).decode
_first = msgspec.json.Decoder(LogLine).decode
Line = ExportLine | LostLine | Gone | MarkLine
_other: Callable[[bytes], Line] = msgspec.json.Decoder(Line).decode


class LineWriter:
    """Records to lines, remembering tags: a stream's records share one."""

    def __init__(self, acked: Acked, terms: Sequence[tuple[int, int]] = ()) -> None:
        """`terms`: each with the position from which on it counts, in order."""
        self._acked = acked
        self._terms = terms
        self._tags: dict[bytes, ExportLine] = {}

    def line(self, record: Record) -> ExportLine:
        position, count, tag, payload, ingest_ns = record
        unacked = sum(last - first + 1 for first, last in self._acked.missing(position, position + count - 1))
        shown = self._tags.get(tag)
        if shown is None:
            if len(self._tags) >= KEPT:
                self._tags.clear()
            self._tags[tag] = shown = _shown(tag)
        at = bisect_right(self._terms, position, key=itemgetter(0))
        term = self._terms[at - 1][1] if at else UNSET
        line = msgspec.structs.replace(
            shown, position=position, count=count, ingest_ns=ingest_ns, term=term, acked=count - unacked
        )
        try:
            line.payload = payload.decode()
        except UnicodeDecodeError:
            line.payload_base64 = payload
        return line


def _shown(tag: bytes) -> ExportLine:
    """A line with nothing but the tag."""
    bare = ExportLine(0, 0, 0)
    try:
        long, came = plain(tag), provenance(tag)
        source, run, stream, codec, framing, meta, metas = _unpack(long)
        line = msgspec.structs.replace(
            bare,
            source=source,
            run=run,
            stream=stream,
            codec=codec,
            framing=framing,
            meta=meta,
            event_metas=UNSET if metas is None else metas,
            short=True if without_place(tag) != long else UNSET,
            arrived=UNSET if came is None else tuple(came),
        )
        again = _other(encode(line))
        if isinstance(again, ExportLine) and _tag(again) == tag:
            return line
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError):
        pass  # not a tag of this version, or JSON cannot say it
    return msgspec.structs.replace(bare, tag_base64=tag)


def _tag(line: ExportLine) -> bytes:
    if not isinstance(line.tag_base64, Unset):
        return line.tag_base64
    metas = None if isinstance(line.event_metas, Unset) else line.event_metas
    parts = (line.source, line.run, line.stream, line.codec, line.framing, line.meta)
    if any(isinstance(part, Unset) for part in parts):
        raise ValueError("it has neither tag_base64 nor all of source, run, stream, codec, framing and meta")
    tag = _pack((*parts, metas))
    if line.short is True:
        tag = _short(tag)
    if isinstance(line.arrived, Unset):
        return tag
    came = Provenance(*line.arrived)
    try:
        if len(came.log) == 32:
            return arrived(tag, came)
    except struct.error:
        pass
    raise ValueError("arrived must be the uuid of a log, a term and two positions")


_short = lru_cache(KEPT // 64)(shortened)  # a tag may have 64 KiB


def read_head(data: bytes) -> LogLine:
    """Raises ValueError, with the reason."""
    head = _first(data)
    if not 1 <= head.version <= VERSION:
        raise ValueError(f"these are lines of version {head.version}, and this walflow knows versions 1 to {VERSION}")
    if len(head.uuid) != 32 or head.uuid.strip("0123456789abcdef"):
        raise ValueError(f"no log has the uuid {head.uuid!r}")
    tidy(head.low, head.ranges, head.durable)
    return head


def tidy(low: int, ranges: list[tuple[int, int]], durable: int) -> Acked:
    """Raises ValueError if they are not what a log could say."""
    acked = Acked(low, ranges)
    if not 0 <= low <= acked.last <= durable or acked.low != low or list(acked.ranges) != ranges:
        raise ValueError("low, ranges and durable do not fit together")
    return acked


def read_line(data: bytes) -> Line:
    """Raises ValueError, with the reason."""
    return _other(data)


def record_of(line: ExportLine) -> Record:
    """Raises ValueError, with the reason."""
    payloads = [one for one in (line.payload, line.payload_base64) if not isinstance(one, Unset)]
    if len(payloads) != 1:
        raise ValueError("it must have either payload or payload_base64")
    (payload,) = payloads
    data = payload.encode() if isinstance(payload, str) else payload
    return Record(line.position, line.count, _tag(line), data, line.ingest_ns)
