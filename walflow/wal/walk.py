"""From record to record of a chunk: the one walk, on which every reader of the log's files stands.

    found = look(pages, seed, offset, position, last)     a record, or a damaged part and where it ends
    offset, position = found.after, found.last + 1        the reader goes on, when it has dealt with what was found

    run = pass_sound(window, seed, position)              the sound records in a window, without an object for each

What readers do differently are parameters. `wanted`: a body is verified only from this position on, and before it the
headers alone are. `last`, `limit`: how far records may go. Damage ends a run (`pass_sound`); the reader stops there,
or looks: then it learns how far the damage goes, because the next sound header is searched for.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from walflow.wal.chunk import Chunk, Pages
from walflow.wal.format import (
    CHUNK_START,
    RECORD_HEADER,
    RECORD_PREFIX,
    RECORD_START,
    SYNC,
    Record,
    crc,
    record_size,
)

Prefix = tuple[bytes, int, int, int, int, int, int, int, int, int]  # a header as it is unpacked, with its checksum
SUMMED: Final = RECORD_HEADER.size  # what a header's checksum covers
NEVER: Final = 1 << 64  # no record has this position
_unpack: Callable[[bytes, int], Prefix] = RECORD_PREFIX.unpack_from


class RecordLook(NamedTuple):
    """What lies at a place, up to `after`: positions up to `last`. Without a `header`, no sound one is there, and it
    goes up to the next sound one; without that too (`ends`), as far as records may go. Without a `record`, its body
    is not sound, or is not wanted."""

    after: int
    last: int
    header: Prefix | None
    record: Record | None
    ends: bool


def look(
    pages: Pages,
    seed: int,
    offset: int,
    position: int,
    last: int,
    wanted: int = 0,
    doubt: Callable[[Pages, int], None] | None = None,
) -> RecordLook:
    """`position`: of the record that should begin at `offset`. `doubt` is called where no sound header is, before the
    next one is searched for: it may refuse by an exception."""
    header = _header_at(pages, seed, offset)
    if header is None or header[2] != position:
        if doubt is not None:
            doubt(pages, offset)
        found = _resync(pages, seed, offset, position)
        return (
            RecordLook(pages.limit, last, None, None, True)
            if found is None
            else RecordLook(*found, None, None, False)
        )
    end = position + header[5] - 1
    record = _body_at(pages, seed, offset, header) if end >= wanted else None
    return RecordLook(offset + record_size(header[1]), end, header, record, False)


def looks(pages: Pages, chunk: Chunk, wanted: int = 0) -> Iterator[tuple[int, int, RecordLook]]:
    """All of a chunk, each with its offset and its first position."""
    offset, position = CHUNK_START, chunk.first
    while position <= chunk.last:
        found = look(pages, chunk.seed, offset, position, chunk.last, wanted)
        yield offset, position, found
        offset, position = found.after, found.last + 1


class SoundRun(NamedTuple):
    """Sound records, one behind the other. `behind`: in the window, where they end; `position`: of the record that
    follows. `header`: of the last of them. `marked`: where the first record with the marked position or a higher one
    begins, -1 without one. `cut`: the size of a wanted record that follows, and is not all in the window."""

    behind: int
    position: int
    records: int
    header: Prefix | None
    marked: int
    cut: int


def pass_sound(
    window: bytes,
    seed: int,
    position: int,
    index: int = 0,
    *,
    stop: int = NEVER,
    end: int = NEVER,
    limit: int = 0,
    wanted: int = 0,
    mark: int = NEVER,
) -> SoundRun:
    """Passes over the sound records from `index` on, up to the first that is damaged or cut off, that begins at
    `stop` or behind it, or that has position `end` or a higher one. Much waits for this: a start, and every range
    that is read. `limit`: where in the window's file records end at the latest, counted from the window's beginning,
    if that is behind the window's end."""
    size = len(window)
    stop = min(stop, size - RECORD_START + 1)
    header: Prefix | None = None
    records, marked, cut = 0, -1, 0
    while index < stop and position < end:
        found = _unpack(window, index)
        sync, length, at, _, _, count, _, tag_size, body_crc, header_crc = found
        body = index + RECORD_START
        if (
            sync != SYNC
            or at != position
            or not count
            or tag_size > length
            or crc(seed, window[index : index + SUMMED]) != header_crc
        ):
            break
        after, behind = index + record_size(length), position + count
        if after > size:
            if after > limit:
                break
            if behind > wanted:
                cut = after - index
                break
        elif behind > wanted and crc(seed, window[body : body + length]) != body_crc:
            break
        if behind > mark:
            marked, mark = index, NEVER
        header, index, position = found, after, behind
        records += 1
    return SoundRun(index, position, records, header, marked, cut)


def _header_at(pages: Pages, seed: int, offset: int) -> Prefix | None:
    """A sound header of a record that ends below the limit."""
    index = pages.find(offset, RECORD_START)
    if index < 0:
        return None
    window = pages.window
    header = _unpack(window, index)
    sync, length, _, _, _, count, _, tag_size, _, header_crc = header
    if sync != SYNC or not count or tag_size > length or crc(seed, window[index : index + SUMMED]) != header_crc:
        return None
    return header if offset + record_size(length) <= pages.limit else None


def _body_at(pages: Pages, seed: int, offset: int, header: Prefix) -> Record | None:
    """The record, if the checksum of tag and payload is right."""
    _, length, position, ingest_ns, _, count, _, tag_size, body_crc, _ = header
    start = offset + RECORD_START
    tag = pages.take(start, tag_size) if tag_size else b""
    payload = pages.take(start + tag_size, length - tag_size)
    if len(tag) + len(payload) != length or crc(crc(seed, tag), payload) != body_crc:
        return None
    return Record(position, count, tag, payload, ingest_ns)


def _resync(pages: Pages, seed: int, offset: int, expected: int) -> tuple[int, int] | None:
    """Where the next sound header begins, from `offset` on, of a record at `expected` or above;
    and the position before it."""
    offset = (offset + 7) & ~7
    while (index := pages.find(offset, RECORD_START)) >= 0:
        found = pages.window.find(SYNC, index)
        if found < 0:  # not in this window; its last bytes may be where the word begins
            offset += (len(pages.window) - index) & ~7
            continue
        offset += found - index
        if offset & 7 == 0:
            header = _header_at(pages, seed, offset)
            if header is not None and header[2] >= expected:
                return offset, header[2] - 1
        offset = (offset + 8) & ~7
    return None
