"""docs/reference/wal-format.md is enough to read a log: the reader here knows that page and nothing of walflow."""

import json
import shutil
import struct
from base64 import b64decode
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import QuickDisk, checkpoint, chunk_files, put

# The reader: 60 lines.

TABLE = [0] * 256
for entry in range(256):
    value = entry
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    TABLE[entry] = value


def crc(data: bytes, seed: int = 0) -> int:
    value = ~seed & 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    return ~value & 0xFFFFFFFF


def sound(block: bytes) -> bool:
    return crc(block[:-4]) == int.from_bytes(block[-4:], "little")


def read_cursor(directory: Path) -> tuple[int, int, list[tuple[int, int]]]:
    """Low, durable, and the ranges above low."""
    data, newest, found = (directory / "cursor").read_bytes(), 0, (0, 0, list[tuple[int, int]]())
    for slot in (data[:4096], data[4096:]):
        magic, _, generation, low, durable, count = struct.unpack_from("<8s16sQQQI", slot)
        if magic == b"WALFCURS" and sound(slot) and generation > newest:
            newest, found = generation, (low, durable, list(struct.iter_unpack("<QQ", slot[56 : 56 + 16 * count])))
    return found


def read_chunk(data: bytes, seed: int, end: int) -> list[tuple[int, int, int, bytes, bytes]]:
    """Position, count, time of arrival, tag and payload of each sound record."""
    at, records = 160, list[tuple[int, int, int, bytes, bytes]]()
    while at + 48 <= end:
        sync, length, position, arrived, _, count, _, tag, body, head = struct.unpack_from("<4sIQqQIHHII", data, at)
        if sync != b"\x57\x46\xa5\x1e" or crc(data[at : at + 44], seed) != head:
            at += 8
            continue
        content = data[at + 48 : at + 48 + length]
        if len(content) == length and crc(content, seed) == body:
            records.append((position, count, arrived, content[:tag], content[tag:]))
        at += 48 + length + 7 & ~7
    return records


def read_log(directory: Path) -> list[tuple[int, int, int, bytes, bytes]]:
    uuid, chunks, ends = (directory / "meta").read_bytes()[12:28], {}, {}
    for path in directory.glob("*.wal"):
        data = path.read_bytes()
        header = data[:80] if sound(data[:80]) else data[80:160]
        first, _, salt, before, end = struct.unpack_from("<QQIQQ", header, 32)
        assert header[:8] + header[16:32] == b"WALFLOW1" + uuid
        assert sound(header)
        chunks[first], ends[before] = (data, crc(uuid + struct.pack("<QI", first, salt))), end
    found = [read_chunk(data, seed, ends.get(first, len(data))) for first, (data, seed) in sorted(chunks.items())]
    return [record for records in found for record in records]


# What it reads.

GOLDEN = Path(__file__).parent / "golden" / "v1"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_it_reads_the_golden_directories(path: Path) -> None:
    known = json.loads(path.read_text())
    assert read_log(path.with_suffix("")) == [
        (one["position"], one["count"], one["ingest_ns"], b64decode(one["tag"]), one["payload"].encode())
        for one in known["records"]
    ]
    low, durable, ranges = read_cursor(path.with_suffix(""))
    if path.stem not in ("torn", "damaged"):  # there a start adds what it finds
        assert (low, durable, [list(one) for one in ranges]) == (known["low"], known["durable"], known["ranges"])


def test_it_reads_what_is_written_today(open_log: Open, directory: Path) -> None:
    log = open_log(2048, 8, disk=QuickDisk())
    bodies = [(b"tag" * (number % 3), b"%d" % number * (number * 7 % 90), number % 4 + 1) for number in range(60)]
    expected = []
    for tag, body, count in bodies:
        (position,) = put(log, body, tag=tag, count=count)
        expected.append((position, count, 7, tag, body))
    log.ack(1, 3)
    log.ack(9, 12)
    checkpoint(log)
    assert read_log(directory) == expected
    assert read_cursor(directory) == (3, log.durable, [(9, 12)])


@pytest.mark.parametrize(("byte", "lost"), [(160 + 20, 1), (160 + 50, 1), (30, 0), (110, 0)])
def test_it_goes_on_behind_damage(open_log: Open, directory: Path, byte: int, lost: int) -> None:
    log = open_log(65536, 8, disk=QuickDisk())
    put(log, *[b"payload %d" % number for number in range(9)])
    log.close()
    path = Path(chunk_files(str(directory))[0])
    data = bytearray(path.read_bytes())
    data[byte] ^= 4
    path.write_bytes(data)
    assert [record[0] for record in read_log(directory)] == list(range(1 + lost, 10))
    shutil.rmtree(directory)


def test_the_reader_has_sixty_lines() -> None:
    lines = Path(__file__).read_text().split("# The reader: 60 lines.\n")[1].split("# What it reads.")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 60
