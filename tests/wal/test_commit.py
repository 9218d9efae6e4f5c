import errno
import os

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import FaultyDisk, checkpoint, commit, payloads, put, read, works
from walflow.errors import DiskFull, FailStop, Unusable
from walflow.wal import Commit, Log

FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def operations(disk: FaultyDisk) -> list[tuple[str, str]]:
    return [(operation, os.path.basename(path or "")) for operation, path, _ in disk.operations]


def take(log: Log) -> Commit:
    one = log.commit()
    assert one is not None
    return one


def test_new_files_are_synced_one_by_one_and_their_names_once(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(1024, 16, disk)
    disk.operations.clear()
    put(log, *[bytes(700)] * 3)
    names = [f"{position:020d}.wal" for position in (1, 2, 3)]
    each = [[("open", name), ("write", name), ("sync", name)] for name in names]
    assert operations(disk) == [*each[0], *each[1], *each[2], ("sync_directory", "log")]
    disk.operations.clear()
    put(log, b"small")
    assert operations(disk) == [("write", names[2]), ("sync", names[2])], (
        "one write and one sync where nothing is new"
    )


def test_one_commit_takes_all_that_waited(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(1 << 20, 16, disk)
    put(log, b"the chunk is there")
    for number in range(2000):
        log.append(b"tag", b"%d" % number, 1, 0, number)
    disk.operations.clear()
    one = take(log)
    assert one.refs == list(range(2000))
    one.flush()
    assert [operation for operation, _ in operations(disk)] == ["write", "sync"]
    assert len(read(log)) == 1, "durable is what `committed` says is"
    log.committed(one)
    assert [record.payload for record in read(log)[1:]] == [b"%d" % number for number in range(2000)]


def test_a_commit_is_a_few_mebibytes_at_most(open_log: Open) -> None:
    log = open_log(64 << 20, 2, FaultyDisk(preallocates=False))
    for _ in range(10):
        log.append(b"", bytes(500_000), 1, 0)
    sizes = []
    while (one := log.commit()) is not None:
        assert log.commit() is None, "the next one must wait for this one"
        one.flush()
        log.committed(one)
        sizes.append(len(one.refs))
    assert sizes == [5, 5]
    assert log.commit() is None


def test_only_a_flushed_commit_is_durable(open_log: Open) -> None:
    log = open_log()
    log.append(b"", b"a", 1, 0)
    one = take(log)
    with pytest.raises(ValueError, match="not what was flushed"):
        log.committed(one)
    one.flush()
    log.committed(one)
    with pytest.raises(ValueError, match="not what was flushed"):
        log.committed(one)


def flush_until_done(one: Commit, why: str) -> int:
    for failures in range(20):
        try:
            one.flush()
        except DiskFull as error:
            full = str(error)
        else:
            return failures
    raise AssertionError(f"{full} for ever, instead of {why}")


@pytest.mark.parametrize("number", [FULL[0], *(pytest.param(number, marks=pytest.mark.test) for number in FULL[1:])])
@pytest.mark.parametrize("operation", ["create", "allocate", "write", "rename", "truncate"])
def test_a_full_disk_is_waited_out(open_log: Open, operation: str, number: int) -> None:
    """Every commit meets it twice and goes on as if nothing had been; so does a crash in between."""
    disk = FaultyDisk()
    log = open_log(65536, 8, disk)
    tries = 0

    def fault(what: str, path: str) -> int | None:
        nonlocal tries
        if what != operation or "cursor" in path:
            return None
        tries += 1
        return number if tries % 3 else None

    expected: list[bytes] = []
    failures = 0
    for step in range(40):
        payload = b"%03d" % step * 3000
        if not log.fits(0, len(payload)):
            log.ack(1, log.durable)
            expected.clear()
        log.append(b"", payload, 1, 0)
        one = take(log)
        disk.fault = fault
        failures += flush_until_done(one, os.strerror(number))
        disk.fault = lambda what, path: None
        log.committed(one)
        expected.append(payload)
        if step % 3 == 2:
            log.ack(1, log.durable - 1)
            del expected[:-1]
            checkpoint(log)
        assert payloads(log) == expected
    assert failures or operation in ("rename", "truncate")
    assert payloads(open_log(65536, 8)) == expected


def test_a_crash_after_a_full_disk_promised_nothing(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(4096, 8, disk)
    put(log, b"kept")
    log.append(b"", b"torn" * 100, 1, 0)
    disk.fault = lambda what, path: errno.ENOSPC if what == "write" else None
    with pytest.raises(DiskFull):
        take(log).flush()
    log = open_log(4096, 8)
    assert payloads(log) == [b"kept"]
    assert log.gaps == []
    works(log)


def test_what_a_full_disk_took_is_taken_back_for_good(open_log: Open) -> None:
    """The first of the two records is whole in the file, and a power cut could keep what was not synced."""
    disk = FaultyDisk()
    log = open_log(4096, 8, disk)
    put(log, b"kept")
    log.append(b"", b"whole", 1, 0)
    log.append(b"", b"torn" * 100, 1, 0)
    disk.operations.clear()
    disk.fault = lambda what, path: errno.ENOSPC if what == "write" else None
    with pytest.raises(DiskFull):
        take(log).flush()
    name = f"{1:020d}.wal"
    assert operations(disk) == [("truncate", name), ("sync", name)]


def test_acks_are_kept_and_space_is_freed_on_a_full_disk(open_log: Open) -> None:
    """Nothing can be created, allocated or grown; the cursor is written where it is."""
    disk = FaultyDisk()
    log = open_log(1024, 4, disk)
    put(log, *[bytes(700)] * 3)
    disk.fault = lambda what, path: errno.ENOSPC if what in ("create", "allocate") else None
    log.ack(1, 2)
    checkpoint(log)
    disk.fault = lambda what, path: None
    log = open_log(1024, 4)
    assert log.low == 2
    assert log.recovery.chunks == 1


@pytest.mark.parametrize(
    ("operation", "number"),
    [
        ("write", errno.EIO),
        ("write", errno.EROFS),
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),
        ("sync_directory", errno.EIO),
    ],
)
def test_after_a_failed_write_or_sync_nothing_is_promised_again(open_log: Open, operation: str, number: int) -> None:
    disk = FaultyDisk()
    log = open_log(4096, 8, disk)
    log.append(b"", b"a", 1, 0)
    one = take(log)
    disk.fault = lambda what, path: number if what == operation else None
    with pytest.raises(FailStop, match=f"log.*: {operation.split('_')[0]} failed: "):
        one.flush()
    disk.fault = lambda what, path: None
    with pytest.raises(FailStop):
        one.flush()
    with pytest.raises(ValueError, match="not what was flushed"):
        log.committed(one)
    log.ack(1, 1)
    checkpointed = log.checkpoint(force=True)
    assert checkpointed is not None
    with pytest.raises(FailStop):
        checkpointed.flush()
    log.close()
    works(open_log(4096, 8))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    "operation", ["create", "open", "read", "write", "truncate", "rename", "sync", "sync_directory"]
)
def test_a_log_that_cannot_be_opened_now_can_be_opened_later(open_log: Open, operation: str, number: int) -> None:
    """Whatever fails on the way in: nothing stays open, nothing stays locked, nothing is lost."""
    put(open_log(1024), b"one", bytes(900), b"three")
    for attempt in range(12):
        disk = FaultyDisk()
        count = 0

        def fault(what: str, path: str, attempt: int = attempt) -> int | None:
            nonlocal count
            count += what == operation
            return number if what == operation and count == attempt + 1 else None

        disk.fault = fault
        try:
            log = open_log(1024, 16, disk)
        except (DiskFull, FailStop, Unusable) as error:
            line = str(error)
            assert "\n" not in line
        else:
            disk.fault = lambda what, path: None
            if operation != "read":
                assert payloads(log) == [b"one", bytes(900), b"three"]
    works(open_log(1024))


def test_no_descriptor_for_the_directory_is_no_failed_sync(open_log: Open) -> None:
    disk = FaultyDisk()
    log = open_log(4096, 8, disk)
    log.append(b"", b"a", 1, 0)
    one = take(log)
    disk.fault = lambda what, path: errno.EMFILE if what == "sync_directory" else None
    with pytest.raises(DiskFull):
        one.flush()
    disk.fault = lambda what, path: None
    disk.operations.clear()
    one.flush()
    assert ("sync_directory", "log") in operations(disk)
    log.committed(one)
    commit(log)
    assert payloads(log) == [b"a"]
