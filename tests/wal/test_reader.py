import errno
import mmap
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import EVERYTHING, FaultyDisk, checkpoint, chunk_files, payloads, put, read, works
from walflow.disk import RealDisk
from walflow.errors import DiskFull, FailStop, ReadFailed
from walflow.testing import MemoryDisk
from walflow.testing.disk import Kept
from walflow.wal import Log, LogOptions
from walflow.wal.chunk import WINDOW
from walflow.wal.format import record_size


def overwrite(path: str, offset: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def test_a_reader_goes_on_where_it_was(open_log: Open) -> None:
    for cache_bytes in (0, 1 << 20):
        log = open_log(1024, 100, cache_bytes=cache_bytes)
        log.ack(1, log.durable)
        reader = log.reader()
        for round_ in range(30):
            data = [b"%d-%d" % (round_, number) * 20 for number in range(round_ % 4)]
            put(log, *data)
            assert [record.payload for record in reader.read(EVERYTHING)] == data
        assert reader.read(1) == []


def test_a_reader_takes_what_is_asked_and_one_record_at_least(open_log: Open) -> None:
    log = open_log(1 << 20)
    put(log, *[bytes(1000)] * 10)
    reader = log.reader()
    assert [len(reader.read(size)) for size in (1, 1000, 2000, 2001, EVERYTHING, 1)] == [1, 1, 2, 3, 3, 0]


def test_a_cache_that_comes_and_goes_changes_nothing(open_log: Open) -> None:
    """The reader falls behind and catches up, again and again."""
    log = open_log(4096, 100, cache_bytes=3000)
    reader = log.reader()
    expected = found = 0
    for round_ in range(60):
        put(log, *(b"%d" % (expected + i) * 30 for i in range(round_ % 7)))
        expected += round_ % 7
        for record in reader.read(round_ % 5 * 400):
            assert record.payload == b"%d" % found * 30
            found += 1
    assert [record.payload for record in reader.read(EVERYTHING)] == [b"%d" % i * 30 for i in range(found, expected)]


def test_two_readers_do_not_know_each_other(open_log: Open) -> None:
    log = open_log(1024, 100)
    one, other = log.reader(), log.reader()
    put(log, *(b"%d" % i * 100 for i in range(20)))
    assert one.read(EVERYTHING) == other.read(EVERYTHING)
    log.ack(1, 20)
    checkpoint(log)
    put(log, b"more")
    assert one.read(EVERYTHING) == other.read(EVERYTHING)


def test_a_chunk_that_goes_under_a_reader_is_not_missed(open_log: Open) -> None:
    """Acked by somebody else, recycled, written anew: the reader must not look into what it had open."""
    log = open_log(65536, 4, cache_bytes=0)
    slow = log.reader()
    put(log, *[b"old" * 1000] * 4)
    assert len(slow.read(1)) == 1
    for _ in range(10):
        put(log, *[b"new" * 1000] * 10)
        log.ack(1, log.durable - 5)
        checkpoint(log)
    assert [record.position for record in slow.read(EVERYTHING)] == list(range(log.low + 1, log.durable + 1))
    assert slow.gaps == []


def test_what_is_being_written_is_not_remembered(open_log: Open) -> None:
    log = open_log(65536, 4, cache_bytes=0)
    reader = log.reader()
    put(log, b"one")
    log.append(b"", b"two", 1, 0)
    assert [record.payload for record in reader.read(EVERYTHING)] == [b"one"]
    put(log, b"three")
    assert [record.payload for record in reader.read(EVERYTHING)] == [b"two", b"three"]
    assert log.gaps == []


@pytest.mark.parametrize("what", ["body", "rest", "file", "unreadable"])
def test_what_cannot_be_read_is_reported_and_stepped_over(open_log: Open, directory: Path, what: str) -> None:
    disk = FaultyDisk()
    log = open_log(16384, 16, disk, cache_bytes=0, gives_up=what == "unreadable")
    put(log, *(b"%02d" % i * 1000 for i in range(24)), count=2)
    paths = chunk_files(str(directory))
    assert len(paths) == 4
    at = 160 + 2048 * 3  # the fourth record of the second chunk: positions 21 and 22
    if what == "body":
        overwrite(paths[1], at + 100, b"?")
    elif what == "rest":
        os.truncate(paths[1], at)
    elif what == "file":
        os.unlink(paths[1])
    else:
        disk.fault = lambda operation, path: errno.EIO if operation == "read" and path == paths[1] else None
    first, last = {"rest": (21, 28), "file": (15, 28), "unreadable": (15, 28)}.get(what, (21, 22))
    reader, second = log.reader(), log.reader()
    found = reader.read(EVERYTHING)
    assert {p for record in found for p in (record.position, record.position + 1)} == {
        *range(1, first),
        *range(last + 1, 49),
    }
    assert [(gap.first, gap.last) for gap in reader.gaps] == [(first, last)]
    assert log.gaps == reader.gaps
    disk.fault = lambda operation, path: None
    if what != "unreadable":
        assert second.read(EVERYTHING) == found
        assert second.gaps == reader.gaps
    assert log.unacked(first, last) == [], "nobody could ever ack them"
    report = directory / "quarantine" / f"{first:020d}-{last:020d}.json"
    assert paths[1].rsplit("/", 1)[1] in report.read_text()
    works(log)
    before = sorted(os.listdir(directory / "quarantine"))
    log = open_log(16384, 16, cache_bytes=0)
    assert [record[:4] for record in read(log)[: len(found)]] == [record[:4] for record in found]
    assert sorted(os.listdir(directory / "quarantine")) == before, "reported once"


def test_no_room_for_the_evidence_does_not_stop_the_log(open_log: Open, directory: Path) -> None:
    disk = FaultyDisk()
    log = open_log(4096, 16, disk, cache_bytes=0)
    put(log, b"one", b"two", b"three")
    overwrite(chunk_files(str(directory))[0], 160 + 56 + 50, b"?")
    disk.fault = lambda operation, path: errno.ENOSPC if "quarantine" in path else None
    assert payloads(log) == [b"one", b"three"]
    (gap,) = log.gaps
    assert "not kept in quarantine/: No space left" in gap.reason
    works(log)


def test_no_descriptor_left_is_waited_out(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(4096, 16, disk, cache_bytes=0)
    put(log, b"one")
    reader = log.reader()
    disk.fault = lambda operation, path: errno.EMFILE if operation == "open" else None
    with pytest.raises(DiskFull):
        reader.read(1)
    disk.fault = lambda operation, path: None
    assert [record.payload for record in reader.read(1)] == [b"one"]
    assert reader.gaps == []


@pytest.mark.parametrize(
    ("number", "before", "error"),
    [
        (errno.EMFILE, [b"0", b"1"], DiskFull),
        (errno.EIO, [b"0", b"1"], ReadFailed),
        (errno.EACCES, [], FailStop),
    ],
)
def test_a_file_that_cannot_be_opened_costs_no_record(
    open_log: Open, number: int, before: list[bytes], error: type[Exception]
) -> None:
    """Neither those in it nor those that were read before it, by this reader or by the next process's."""
    disk = FaultyDisk()
    log = open_log(1024, 16, disk, cache_bytes=0)
    put(log, *[b"%d" % chunk * 700 for chunk in range(4)])
    reader = log.reader()
    third = chunk_files(log.directory.path)[2]
    disk.fault = lambda operation, path: number if (operation, path) == ("open", third) else None
    if before:
        assert [record.payload[:1] for record in reader.read(EVERYTHING)] == before
    with pytest.raises(error, match=os.path.basename(third)):
        reader.read(EVERYTHING)
    disk.fault = lambda operation, path: None
    reader = reader if before else open_log(1024, 16).reader()
    after = [record.payload[:1] for record in reader.read(EVERYTHING)]
    assert before + after == [b"0", b"1", b"2", b"3"]
    assert reader.gaps == []


def test_a_payload_that_looks_like_a_log_is_only_a_payload(open_log: Open, directory: Path) -> None:
    log = open_log(4096, 16, cache_bytes=0)
    put(log, b"first", b"x" * 48)
    chunk = Path(chunk_files(str(directory))[0]).read_bytes()[:300]
    put(log, chunk, chunk, b"WF\xa5\x1e" * 50)
    overwrite(chunk_files(str(directory))[0], 160, b"?")
    assert payloads(log) == [b"x" * 48, chunk, chunk, b"WF\xa5\x1e" * 50]
    assert [(gap.first, gap.last) for gap in log.gaps] == [(1, 1)]


def test_a_reader_that_is_overtaken_goes_back_in_its_chunk(open_log: Open) -> None:
    """It has read on from where it had come to; to find what it wants now it begins again."""
    log = open_log(65536, 4, cache_bytes=0)
    reader = log.reader()
    for payload in (b"one", b"two"):
        put(log, payload)
        assert [record.payload for record in reader.read(EVERYTHING)] == [payload]
    put(log, b"three", b"four", b"five")
    log.ack(1, 4)
    assert [record.payload for record in reader.read(EVERYTHING)] == [b"five"]
    assert reader.gaps == []


def test_descriptor_0_is_as_good_as_any(open_log: Open) -> None:
    """A daemon may be started with its stdin closed."""
    log = open_log(1024, 16, cache_bytes=0)
    put(log, *[b"%d" % number * 700 for number in range(3)])
    reader = log.reader()
    stdin = os.dup(0)
    os.close(0)
    try:
        assert [record.payload[:1] for record in reader.read(EVERYTHING)] == [b"0", b"1", b"2"]
        os.fstat(0)
        reader.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(0)
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
    assert reader.gaps == []


def test_records_of_all_shapes_are_read_from_disk(open_log: Open) -> None:
    """Across the ends of what is read at a time; the last one is a header, and ends where the file does."""
    shapes = [(b"tag", b""), (b"", b""), *[(b"t" * size, bytes([size]) * 100_000) for size in range(5)], (b"", b"")]
    log = open_log(1 << 20, 4, cache_bytes=0)
    for tag, payload in shapes:
        put(log, payload, tag=tag)
    assert [(record.tag, record.payload) for record in read(log)] == shapes
    log = open_log(1 << 20, 4, cache_bytes=0)
    assert [(record.tag, record.payload) for record in read(log)] == shapes
    assert log.recovery.lines() == []


def test_a_bad_page_that_is_given_up_costs_what_lies_on_it_and_no_more() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 65536, 4, cache_bytes=0, gives_up=True), disk)
    put(log, *[b"%02d" % number * 490 for number in range(20)])  # 1,028 bytes each
    disk.bad_from = {f"/log/{1:020d}.wal": 8192}
    assert [record.payload[:2] for record in read(log)] == [b"%02d" % number for number in range(7)]
    assert [(gap.first, gap.last) for gap in log.gaps] == [(8, 8), (9, 20)]
    assert {gap.reason for gap in log.gaps} == {"the disk cannot read them"}


def test_what_the_disk_cannot_read_now_is_read_later_and_only_what_was_read_and_is_wrong_is_given_up() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 65536, 4, cache_bytes=0), disk)
    put(log, *[b"%02d" % number * 490 for number in range(20)])  # 1,028 bytes each
    path = f"/log/{1:020d}.wal"
    fd = disk.open(path)
    disk.write(fd, [b"?"], 160 + record_size(980) * 2 + 500)
    disk.close(fd)
    disk.bad_from = {path: 8192}
    reader = log.reader()
    assert [record.position for record in reader.read(EVERYTHING)] == [1, 2, 4, 5, 6, 7]
    for _ in range(3):
        with pytest.raises(ReadFailed, match=rf"{path}: the disk cannot read it at byte 8192: "):
            reader.read(EVERYTHING)
    assert [(gap.first, gap.last) for gap in log.gaps] == [(3, 3)]
    disk.bad_from = {}
    assert [record.position for record in reader.read(EVERYTHING)] == list(range(8, 21))
    assert [(gap.first, gap.last, gap.reason) for gap in log.gaps] == [(3, 3, "corrupt")]


def test_what_is_wrong_is_not_given_up_before_its_bytes_are_copied() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 65536, 4, cache_bytes=0), disk)
    put(log, *[b"%02d" % number * 490 for number in range(20)])
    path = f"/log/{1:020d}.wal"
    fd = disk.open(path)
    disk.write(fd, [b"?"], 160 + record_size(980) * 2 + 500)
    disk.close(fd)
    reader = log.reader()
    reads = 0

    def first_alone(operation: str, read: str) -> int | None:
        nonlocal reads
        reads += operation == "read" and read == path
        return errno.EIO if operation == "read" and read == path and reads > 1 else None

    disk.fault = first_alone
    assert [record.position for record in reader.read(EVERYTHING)] == [1, 2]
    with pytest.raises(ReadFailed):
        reader.read(EVERYTHING)
    assert log.gaps == []
    disk.fault = None
    assert [record.position for record in reader.read(EVERYTHING)] == list(range(4, 21))
    assert [gap.first for gap in log.gaps] == [3]
    kept = next(name for name in disk.inodes if name.endswith(".bytes"))
    assert disk.content(kept) == disk.content(path)[160 + record_size(980) * 2 : 160 + record_size(980) * 3]


def test_a_bad_page_of_what_is_acked_stands_in_nobodys_way() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 65536, 4, cache_bytes=0), disk)
    put(log, *[b"%02d" % number * 490 for number in range(20)])
    log.ack(1, 12)
    path = f"/log/{1:020d}.wal"
    disk.bad_from, disk.bad_to = {path: 4096}, {path: 8192}
    assert [record.position for record in read(log)] == list(range(13, 21))
    assert log.gaps == []


def write_past_the_page_cache(path: Path) -> None:
    """The same file, of which nothing is in the page cache.
    A request to forget a file (POSIX_FADV_DONTNEED) is only a hint."""
    data = path.read_bytes()
    new = path.with_suffix(".new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
    with mmap.mmap(-1, -(-len(data) // 4096) * 4096) as aligned:
        aligned[: len(data)] = data
        assert os.write(fd, aligned) == len(aligned)
    os.ftruncate(fd, len(data))
    os.close(fd)
    new.rename(path)


def test_what_is_not_in_the_page_cache_is_cold(open_log: Open, directory: Path) -> None:
    log = open_log(1 << 20, 8, cache_bytes=0)
    if log.disk.filesystem(log.directory.path) not in ("ext4", "xfs", "btrfs"):
        pytest.skip("the file system does not say what it has cached")
    put(log, *[bytes([number]) * 300_000 for number in range(10)])
    files = chunk_files(str(directory))
    assert len(files) > 2
    log.close()
    for path in files:
        write_past_the_page_cache(Path(path))
    log = open_log(1 << 20, 8, cache_bytes=0)
    reader = log.reader()
    positions: list[int] = []
    fetches = 0
    while positions[-1:] != [log.durable]:
        cold = reader.cold(1 << 20)
        if cold is not None:
            fetches += 1
            cold.run()  # what it brings may be gone again before the read: the kernel may need the room at any time
        positions += [record.position for record in reader.read(1 << 20)]
    assert positions == list(range(1, 11))
    assert fetches
    assert reader.cold(1 << 20) is None, "there is nothing to read"


def test_what_was_just_written_is_in_the_page_cache(tmp_path: Path) -> None:
    disk = RealDisk()
    fd = disk.open(str(tmp_path / "file"), create=True)
    disk.write(fd, [bytes(4096)], 0)  # not on disk yet, so the kernel cannot do without it
    assert disk.cached(fd, 4096, 0)
    disk.close(fd)


def test_what_is_cold_is_fetched_with_the_reads_that_it_names() -> None:
    disk = Reads({})
    log = Log(LogOptions("/log", 1 << 20, 8, cache_bytes=0), disk)
    put(log, *[b"." * 300_000] * 10)
    disk.cold = True
    cold = log.reader().cold(1 << 20)
    assert cold is not None
    disk.read_now.clear()
    cold.run()
    for path, offset, size in cold.spans:
        reads = sorted((at, length) for of, at, length in disk.read_now if of == path)
        assert reads[0][0] == offset
        assert [at + length for at, length in reads] == [*(at for at, _ in reads[1:]), offset + size]


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 20])
@pytest.mark.parametrize("cache_bytes", [0, 3000])
@pytest.mark.parametrize("payload", [300, 5000])  # several records in a file, or one
def test_what_is_cold_is_what_the_next_read_reads(size: int, cache_bytes: int, payload: int) -> None:
    disk = Reads({})
    log = Log(LogOptions("/log", 4096, 100, cache_bytes=cache_bytes), disk)
    put(log, *[b"." * payload] * 60)
    log.ack(1, 7)
    reader = log.reader()
    disk.cold = True
    while reader.position <= log.durable:
        cold = reader.cold(size)
        position = max(reader.position, log.low + 1)
        disk.read_now.clear()
        assert reader.read(size)
        assert bool(disk.read_now) <= (cold is not None), f"at {position}"
    assert reader.cold(size) is None


class Reads(MemoryDisk):
    """Notes what was read, in this order."""

    def __init__(self, files: Mapping[str, bytes | Kept]) -> None:
        self.read_now: list[tuple[str, int, int]] = []
        super().__init__(files)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self.read_now.append((self._fds[fd][0], offset, size))
        return super().read(fd, size, offset)


class OneIsCold(MemoryDisk):
    path = ""

    def cached(self, fd: int, size: int, offset: int) -> bool:
        return self._fds[fd][0] != self.path


def test_each_file_is_asked_for_itself() -> None:
    disk = OneIsCold()
    log = Log(LogOptions("/log", 4096, 400, cache_bytes=0), disk)
    put(log, *[b"." * (WINDOW + 5000)] * 3)
    reader = log.reader()
    reader.read(1)
    for chunk, cold in zip(log.chunks, (False, True, False), strict=True):
        disk.path = log.directory.file(chunk.name)
        assert (reader.cold(1) is not None) == cold


def test_a_reader_that_goes_on_fetches_what_it_may_read_and_not_the_rest_of_the_file() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 1 << 20, 4, cache_bytes=0), disk)
    put(log, *[b"." * 1000] * 900)
    disk.cold = True
    reader = log.reader()
    for _ in range(5):
        cold = reader.cold(10_000)
        assert cold is not None
        assert [span.size for span in cold.spans] == [20_000 + WINDOW], "events, their headers, and a window"
        reader.read(10_000)


def test_a_file_that_cannot_be_read_is_left_to_the_read_that_follows() -> None:
    disk = MemoryDisk()
    log = Log(LogOptions("/log", 4096, 100, cache_bytes=0), disk)
    put(log, *[b"%d" % number * 200 for number in range(100)])
    disk.cold = True
    reader = log.reader()
    cold = reader.cold(EVERYTHING)
    assert cold is not None
    for operation, number in (("open", errno.EMFILE), ("open", errno.ENOENT), ("read", errno.EIO)):
        disk.fault = lambda called, path, operation=operation, number=number: number if called == operation else None
        cold.run()
    disk.fault = lambda called, path: errno.EMFILE if called == "open" else None
    assert reader.cold(EVERYTHING) is None
    with pytest.raises(DiskFull):
        reader.read(EVERYTHING)
    disk.fault = None
    assert len(reader.read(EVERYTHING)) == 100
