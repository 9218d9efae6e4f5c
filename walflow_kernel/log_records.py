"""A record of the log, as docs/reference/wal-format.md has it: what the daemon and Spark's half both have to know, in
one place.

Records lie one behind the other, each at a multiple of 8 bytes. `record_offsets` goes from one to the next by their
sizes alone: what it passes was verified before (`walflow.wal.walk`), or is verified behind it
(`pyspark_walflow.columns`).
"""

from struct import Struct
from typing import Final

RECORD: Final = Struct("<4sI QqQ I HHI I")  # the header, with its checksum
RECORD_START: Final = RECORD.size  # here the tag begins
SYNC: Final = b"WF\xa5\x1e"
TIMES: Final = Struct("<q")  # of a header, at TIME_AT
TIME_AT: Final = 16
TAG_SIZES: Final = Struct("<H")  # of a header, at TAG_SIZE_AT
TAG_SIZE_AT: Final = 38
_SIZES: Final = Struct("<4sI")

assert RECORD_START == 48


def record_size(length: int) -> int:
    """The record's size on disk, with header and padding. `length`: of tag and payload."""
    return (RECORD_START + length + 7) & ~7


def record_offsets(data: bytes | memoryview) -> tuple[list[int], int]:
    """Where each whole record in `data` begins, from its beginning on, and where the last of them ends: there is the
    end, a record that is cut off, or none."""
    offsets: list[int] = []
    at, unpack, sync, size_of, note = 0, _SIZES.unpack_from, SYNC, record_size, offsets.append
    last = len(data) - RECORD_START
    while at <= last:
        word, length = unpack(data, at)
        if word != sync:
            break
        note(at)
        at += size_of(length)
    if at > len(data):  # cut off
        at = offsets.pop()
    return offsets, at
