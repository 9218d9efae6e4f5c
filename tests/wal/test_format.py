"""The format is a promise: these bytes were written by the first version, and every later one reads them."""

import struct
from pathlib import Path

import pytest

from tests.wal.tools import QuickDisk, files_of, put, read, restore
from walflow.wal import Log, LogOptions
from walflow.wal.format import (
    CHECKSUM,
    CHUNK_START,
    RECORD_START,
    SKIP,
    SLOT_RANGES,
    ChunkHeader,
    Slot,
    chunk_seed,
    crc,
    pack_chunk_header,
    pack_meta,
    pack_slot,
    record_size,
    unpack_chunk_header,
    unpack_meta,
    unpack_slot,
)

UUID = bytes(range(16))
GOLDEN = {
    "meta": bytes.fromhex("57414c464d45544101000000000102030405060708090a0b0c0d0e0f0000000009589b84"),
    f"{5:020d}.wal": bytes.fromhex(
        "57414c464c4f57310100a00001000000000102030405060708090a0b0c0d0e0f05000000000000000300000000000000efbe"
        "adde010000000000000030030000000000000403020100000000ee667bbc57414c464c4f57310100a0000100000000010203"
        "0405060708090a0b0c0d0e0f05000000000000000300000000000000efbeadde010000000000000030030000000000000403"
        "020100000000ee667bbc5746a51e0b000000050000000000000000002a36fe9c971703000000000000000200000000000300"
        "f5850befd0705ec87461676f6e650a74776f0a00000000005746a51e090000000700000000000000ffffffffffffffff0300"
        "000000000000030000000100000064349f0c3b0bc113ffffffffffffffffff00000000000000"
    ),
    "cursor": bytes.fromhex(
        "57414c4643555253000102030405060708090a0b0c0d0e0f0800000000000000040000000000000009000000000000000100000000000000060000000000000006"
    ).ljust(4092, b"\0")
    + bytes.fromhex("77b67566")
    + bytes(4096),
}


def test_sizes_that_the_documents_name() -> None:
    assert (CHUNK_START, RECORD_START, SLOT_RANGES) == (160, 48, 250)
    assert [record_size(length) for length in (0, 1, 8, 9)] == [48, 56, 56, 64]


def test_a_log_of_the_first_version_opens(tmp_path: Path) -> None:
    restore(str(tmp_path / "log"), GOLDEN)
    log = Log(LogOptions(str(tmp_path / "log"), 1024, 4), QuickDisk())
    assert log.uuid == UUID.hex()
    assert (log.low, log.durable, log.unacked(1, 99)) == (4, 9, [(5, 5), (7, 99)])
    assert read(log) == [(5, 2, b"tag", b"one\ntwo\n", 1_700_000_000_000_000_000), (7, 3, b"", b"\xff" * 9, -1)]
    assert log.recovery.lines() == []
    log.abandon()


def test_a_chunk_written_today_has_the_bytes_of_the_first_version(tmp_path: Path) -> None:
    restore(str(tmp_path / "log"), {"meta": GOLDEN["meta"]})
    log = Log(LogOptions(str(tmp_path / "log"), 1024, 4), QuickDisk())
    put(log, b"x")
    log.abandon()
    files = files_of(str(tmp_path / "log"))
    assert files["meta"] == GOLDEN["meta"]
    found = unpack_chunk_header(files[f"{1:020d}.wal"])
    assert found is not None
    uuid, header = found
    assert uuid == UUID
    assert pack_chunk_header(UUID, header) == files[f"{1:020d}.wal"][:160]


@pytest.mark.parametrize("copy", [0, 80])
def test_either_copy_of_a_chunk_header_will_do(copy: int) -> None:
    header = ChunkHeader(7, 3, 99, 1, 4, 500, 98)
    data = bytearray(pack_chunk_header(UUID, header))
    assert len(data) == CHUNK_START
    data[copy : copy + 80] = bytes(80)
    assert unpack_chunk_header(bytes(data)) == (UUID, header)
    assert unpack_chunk_header(bytes(160)) is None
    assert unpack_chunk_header(b"") is None


def test_no_bit_of_meta_may_differ() -> None:
    data = pack_meta(UUID)
    assert unpack_meta(data) == UUID
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert unpack_meta(bytes(flipped)) is None


def test_the_same_record_has_another_checksum_in_another_chunk() -> None:
    """So bytes that a recycled file still holds never pass for new ones."""
    seeds = {chunk_seed(UUID, 1, 1), chunk_seed(UUID, 2, 1), chunk_seed(UUID, 1, 2), chunk_seed(bytes(16), 1, 1)}
    assert len(seeds) == 4


def test_a_slot_with_all_the_ranges_of_an_older_version_is_read() -> None:
    """It had room for two more, and nothing else stood there."""
    ranges = tuple((10 * at, 10 * at + 1) for at in range(1, 253))
    fields = struct.pack("<8s 16s QQQ II", b"WALFCURS", UUID, 7, 3, 9000, len(ranges), 0)
    data = (fields + b"".join(struct.pack("<QQ", *one) for one in ranges)).ljust(4092, b"\0")
    slot = unpack_slot(data + CHECKSUM.pack(crc(0, data)))
    assert slot == (UUID, Slot(7, 3, 9000, ranges))


def test_a_slot_keeps_the_widest_ranges_and_all_else() -> None:
    ranges = tuple((10 * at, 10 * at + (5 if at > 200 else 1)) for at in range(1, 400))
    slot = Slot(7, 3, 9000, ranges, 2, 9100, 1 << 40, 1 << 50)
    found = unpack_slot(pack_slot(UUID, slot))
    kept = tuple([one for one in ranges if one[0] <= 10 * (SLOT_RANGES - 199) or one[0] > 2000])
    assert found == (UUID, slot._replace(ranges=kept))


def test_the_sum_of_all_skips_fits_a_header() -> None:
    header = ChunkHeader(7, 3, 99, 3, 4, 500, 98, SKIP)
    assert unpack_chunk_header(pack_chunk_header(UUID, header)) == (UUID, header)
