"""The bytes on disk; docs/reference/wal-format.md has them as tables. All numbers are little-endian.

Every checksum has a seed. The seed of a record depends on the log, on its chunk's first position and on the chunk's
random salt. So bytes that are left over, recycled or misplaced never pass for a record.
"""

import struct
from collections.abc import Callable
from heapq import nlargest
from typing import Final, NamedTuple

import google_crc32c

from walflow.world import dice
from walflow_kernel import log_records

crc: Callable[[int, bytes], int] = google_crc32c.extend  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

VERSION: Final = 1
WITH_HISTORY: Final = 2  # of `meta`: a walflow that knows no history would delete it

CHUNK_MAGIC: Final = b"WALFLOW1"
CHUNK_HEADER: Final = struct.Struct("<8s HH I 16s QQ I QQ I I")
CHUNK_COPY: Final = 80  # one header with its checksum
CHUNK_START: Final = 2 * CHUNK_COPY  # it stands twice; here the records begin

SYNC: Final = log_records.SYNC
RECORD_HEADER: Final = struct.Struct("<4sI QqQ I HHI")  # what the header's checksum covers
RECORD_PREFIX: Final = log_records.RECORD  # with the checksum
CHECKSUM: Final = struct.Struct("<I")
RECORD_START: Final = log_records.RECORD_START  # here the tag begins
record_size = log_records.record_size
LAST: Final = 1  # flag: the last record of its commit
BEGINS: Final = 1  # flag of a chunk: its first record is the first of its commit, so all before was written
RELAXED: Final = 2  # flag of a chunk: commits were acked before they were synced
MAX_TAG: Final = 0xFFFF
MAX_COUNT: Final = 0xFFFF_FFFF
MAX_LENGTH: Final = 0x7FFF_FFFF
NO_STAMP: Final = -(1 << 63)  # no record has an older one
PADS: Final = tuple(bytes(-size & 7) for size in range(8))  # by length modulo 8

META: Final = struct.Struct("<8s HH 16s I")
META_MAGIC: Final = b"WALFMETA"

SLOT: Final = 4096
SLOT_HEADER: Final = struct.Struct("<8s 16s QQQ I I")
SLOT_MAGIC: Final = b"WALFCURS"
RANGE: Final = struct.Struct("<QQ")
SLOT_TAIL: Final = struct.Struct("<QQQ 12x")  # where older versions had two ranges more, or zeros
SLOT_RANGES: Final = (SLOT - SLOT_HEADER.size - SLOT_TAIL.size - CHECKSUM.size) // RANGE.size
SLOT_TAIL_AT: Final = SLOT - CHECKSUM.size - SLOT_TAIL.size

# What a slot says of the writer.
SYNCED: Final = 0  # every commit was synced before it was acked, or the log was closed
INTERVAL: Final = 1  # here and below, positions beyond `durable` may have been acked
NEVER: Final = 2
MODES: Final = {"always": SYNCED, "interval": INTERVAL, "never": NEVER}
SKIP: Final = 1 << 30  # positions: fewer than that are unsynced and acked at one time

assert RECORD_HEADER.size + CHECKSUM.size == RECORD_START
assert CHUNK_HEADER.size + CHECKSUM.size == CHUNK_COPY


class Record(NamedTuple):
    """One block in its original bytes. It has the positions `position` to `position + count - 1`."""

    position: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which is not used
    tag: bytes
    payload: bytes
    ingest_ns: int


class RecordHeader(NamedTuple):
    """In the order of the bytes."""

    sync: bytes
    length: int  # of tag and payload
    position: int
    ingest_ns: int
    commit: int
    positions: int
    flags: int
    tag_size: int
    body_crc: int


class ChunkHeader(NamedTuple):
    """`before`: the previous chunk, or zeros. From it, recovery finds a chunk that is missing or cut short, and can
    read a chunk whose own header is gone. `skipped`: this many positions below `first` belong to no event; all that
    is known of them has been reported."""

    first: int  # position
    commit: int  # of the first record
    salt: int
    flags: int = 0
    before_first: int = 0
    before_end: int = 0
    before_salt: int = 0
    skipped: int = 0


class NewerVersion(Exception):
    """The data is sound, but a newer walflow has written it."""


def chunk_name(first: int) -> str:
    return f"{first:020d}.wal"


def chunk_seed(uuid: bytes, first: int, salt: int) -> int:
    return crc(0, uuid + struct.pack("<QI", first, salt))


def random_salt() -> int:
    return int.from_bytes(dice().randbytes(4), "little")


def pack_chunk_header(uuid: bytes, header: ChunkHeader) -> bytes:
    first, commit, salt, flags, *before = header
    fields = CHUNK_HEADER.pack(CHUNK_MAGIC, VERSION, CHUNK_START, flags, uuid, first, commit, salt, *before)
    return (fields + CHECKSUM.pack(crc(0, fields))) * 2


def unpack_chunk_header(data: bytes) -> tuple[bytes, ChunkHeader] | None:
    """The log's uuid and the header, from the first of two copies that is sound."""
    for start in (0, CHUNK_COPY):
        copy = data[start : start + CHUNK_COPY]
        if len(copy) < CHUNK_COPY or copy[:8] != CHUNK_MAGIC or not _sound(copy):
            continue
        _, version, _, flags, uuid, first, commit, salt, *before = CHUNK_HEADER.unpack_from(copy)
        if version != VERSION:
            raise NewerVersion
        return uuid, ChunkHeader(first, commit, salt, flags, *before)
    return None


def first_stamp(uuid: bytes, header: ChunkHeader, data: bytes) -> int:
    """When the first record of a chunk came in, from what stands behind the chunk's header. NO_STAMP: there is no
    sound one."""
    fields = data[: RECORD_HEADER.size]
    if len(data) < RECORD_START or fields[:4] != SYNC:
        return NO_STAMP
    sound = CHECKSUM.pack(crc(chunk_seed(uuid, header.first, header.salt), fields))
    if data[RECORD_HEADER.size : RECORD_START] != sound:
        return NO_STAMP
    return RecordHeader(*RECORD_HEADER.unpack(fields)).ingest_ns


def pack_meta(uuid: bytes, *, history: bool = False) -> bytes:
    fields = META.pack(META_MAGIC, WITH_HISTORY if history else VERSION, 0, uuid, 0)
    return fields + CHECKSUM.pack(crc(0, fields))


def unpack_meta(data: bytes) -> bytes | None:
    """The log's uuid."""
    data = data[: META.size + CHECKSUM.size]
    if len(data) < META.size + CHECKSUM.size or data[:8] != META_MAGIC or not _sound(data):
        return None
    _, version, _, uuid, _ = META.unpack_from(data)
    if version not in (VERSION, WITH_HISTORY):
        raise NewerVersion
    return bytes(uuid)


def has_history(meta: bytes) -> bool:
    """Whether a directory with this sound `meta` may hold chunks that are acked and kept."""
    version: int = META.unpack_from(meta)[1]
    return version == WITH_HISTORY


class Slot(NamedTuple):
    """One slot of the cursor. All positions up to `low` are acked, and the `ranges` above it, ends included.
    `durable`: all positions up to it were on disk when the slot was written. `written`: with INTERVAL and NEVER, all
    positions up to it had been written and may have been acked. `dropped_...`: everything that was ever dropped
    because the log was full."""

    generation: int
    low: int
    durable: int
    ranges: tuple[tuple[int, int], ...] = ()
    sync: int = SYNCED
    written: int = 0
    dropped_events: int = 0
    dropped_bytes: int = 0


def pack_slot(uuid: bytes, slot: Slot) -> bytes:
    ranges = slot.ranges
    if len(ranges) > SLOT_RANGES:  # what does not fit will be delivered again, not lost
        ranges = tuple(sorted(nlargest(SLOT_RANGES, ranges, key=lambda one: one[1] - one[0])))
    fields = SLOT_HEADER.pack(SLOT_MAGIC, uuid, slot.generation, slot.low, slot.durable, len(ranges), slot.sync)
    body = (fields + b"".join([RANGE.pack(*one) for one in ranges])).ljust(SLOT_TAIL_AT, b"\0")
    body += SLOT_TAIL.pack(slot.written, slot.dropped_events, slot.dropped_bytes)
    return body + CHECKSUM.pack(crc(0, body))


def unpack_slot(data: bytes) -> tuple[bytes, Slot] | None:
    """The log's uuid and the slot."""
    if len(data) < SLOT or data[:8] != SLOT_MAGIC or not _sound(data):
        return None
    _, uuid, generation, low, durable, count, sync = SLOT_HEADER.unpack_from(data)
    room = (SLOT - SLOT_HEADER.size - CHECKSUM.size) // RANGE.size  # of an older version
    ranges = tuple(RANGE.unpack_from(data, SLOT_HEADER.size + RANGE.size * i) for i in range(min(count, room)))
    tail = SLOT_TAIL.unpack_from(data, SLOT_TAIL_AT) if count <= SLOT_RANGES else (0, 0, 0)
    return uuid, Slot(generation, low, durable, ranges, sync, *tail)


def _sound(data: bytes) -> bool:
    """Whether its last four bytes are the checksum of the others."""
    return data[-4:] == CHECKSUM.pack(crc(0, data[:-4]))
