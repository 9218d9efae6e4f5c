"""Looking into a directory changes nothing and says what a start would; also while the log is written and trimmed."""

import os
import threading
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import EVERYTHING, QuickDisk, checkpoint, chunk_files, files_of, put, read, works
from walflow.errors import Unusable
from walflow.wal import Gap, Log, LogOptions, Record
from walflow.wal.cursor import Acked
from walflow.wal.tools.inspect import Onlooker, backlog_bytes, check, holder, look, records, removed
from walflow.wal.tools.inspect.view import up_to


def filled(open_log: Open) -> Log:
    log = open_log(1024, 64, disk=QuickDisk())
    for number in range(20):
        put(log, b"%d" % number * 50, count=2)
    log.ack(1, 5)
    log.ack(9, 10)
    checkpoint(log)
    return log


def test_it_sees_what_a_start_finds(open_log: Open, directory: Path) -> None:
    filled(open_log).abandon()
    before = files_of(str(directory))
    view = look(str(directory) + "/")
    assert files_of(str(directory)) == before
    log = open_log(1024, 64, disk=QuickDisk())
    assert view.found.recovery.as_dict() | {"ms": 0} == log.recovery.as_dict() | {"ms": 0}
    kept = [one for one in records(view, 1, EVERYTHING) if isinstance(one, Record)]
    unacked = read(log)
    assert [one for one in kept if one in unacked] == unacked
    assert [one.position for one in records(view, 8, 11) if isinstance(one, Record)] == [7, 9, 11]
    sizes = [48 + (len(record.payload) + 7 & ~7) for record in unacked]
    assert backlog_bytes(view) == sum(sizes)


def test_what_cannot_be_read_is_a_gap_where_it_was(open_log: Open, directory: Path) -> None:
    filled(open_log).abandon()
    files = chunk_files(str(directory))
    os.unlink(files[1])
    data = bytearray(Path(files[2]).read_bytes())
    data[160 + 50] ^= 1
    Path(files[2]).write_bytes(data)
    found = list(records(look(str(directory)), 1, EVERYTHING))
    gaps = [one for one in found if isinstance(one, Gap)]
    assert [gap.reason for gap in gaps] == ["no chunk holds them", "corrupt"]
    assert gaps[0].last + 1 == gaps[1].first == int(Path(files[2]).name[:20])
    covered = [
        (one.first, one.last) if isinstance(one, Gap) else (one.position, one[0] + one[1] - 1) for one in found
    ]
    assert covered == sorted(covered)
    assert all(left[1] + 1 == right[0] for left, right in pairwise(covered))


def test_an_onlooker_believes_what_it_was_told_to_do(directory: Path) -> None:
    directory.mkdir()
    (directory / "a").write_text("text")
    (directory / "folder").mkdir()
    disk, path = Onlooker(), str(directory)
    disk.rename(f"{path}/a", f"{path}/b")
    disk.unlink(f"{path}/folder")
    fd = disk.open(f"{path}/b")
    disk.write(fd, [b"lost"], 0)
    disk.truncate(fd, 0)
    assert disk.read(fd, 10, 0) == b"text"
    disk.close(fd)
    assert disk.names(path) == ["b"]
    assert (disk.is_file(f"{path}/a"), disk.is_file(f"{path}/b")) == (False, True)
    disk.close(disk.open(f"{path}/new", exclusive=True))
    for name, exclusive, error in (("new", True, FileExistsError), ("a", False, FileNotFoundError)):
        with pytest.raises(error):
            disk.open(f"{path}/{name}", exclusive=exclusive)
    with pytest.raises(FileExistsError):
        disk.makedir(f"{path}/a")
    assert sorted(os.listdir(path)) == ["a", "folder"]


def test_nobody_holds_what_is_not_locked(open_log: Open, directory: Path) -> None:
    log = filled(open_log)
    assert holder(str(directory)) == f"process {os.getpid()}"
    log.abandon()
    assert holder(str(directory)) == ""
    (directory / "LOCK").unlink()
    assert holder(str(directory)) == ""


def test_of_a_log_that_acks_before_it_syncs_it_sees_what_is_there(open_log: Open, directory: Path) -> None:
    log = open_log(4096, 16, disk=QuickDisk(), sync="interval")
    put(log, *[b"some"] * 5)
    log.ack(1, 2)
    checkpoint(log)
    view = look(str(directory))
    assert (view.found.durable, view.found.acked.low, view.found.acked.ranges) == (5, 2, ())
    log.abandon()
    view = look(str(directory))  # nobody has it now: a start leaves out positions
    assert (view.found.durable > 5, view.found.acked.missing(1, view.found.durable)) == (True, [(3, 5)])


def test_a_log_that_is_written_and_trimmed_meanwhile_is_sound(directory: Path) -> None:
    log = Log(LogOptions(str(directory), 2048, 8), QuickDisk())
    stop = threading.Event()

    def use() -> None:
        while not stop.wait(0.0005):
            if log.fits(0, 300):
                put(log, b"x" * 300, count=3)
            else:
                log.ack(1, log.durable - 4)
                checkpoint(log)

    user = threading.Thread(target=use)
    user.start()
    try:
        for _ in range(30):
            view, findings = check(str(directory))
            assert [finding for finding in findings if finding.kind != "torn"] == []
            assert view.holder
            for one in records(look(str(directory)), 1, EVERYTHING):
                assert isinstance(one, Gap | Record)
    finally:
        stop.set()
        user.join()
        works(log)
        log.close()


def test_the_progress_counts_every_byte_once(open_log: Open, directory: Path) -> None:
    filled(open_log).abandon()
    told: list[int] = []
    seen: list[int] = []

    def begin(size: int):  # type: ignore[no-untyped-def]
        told.append(size)
        return seen.append

    check(str(directory), begin)
    assert sum(seen) <= told[0] == sum(os.stat(path).st_size for path in chunk_files(str(directory)))
    assert sum(seen) > told[0] * 0.9
    assert min(seen) > 0


def test_what_is_no_log_is_not_taken_for_one(directory: Path) -> None:
    with pytest.raises(Unusable, match="there is no log there"):
        look(str(directory))
    directory.mkdir()
    (directory / "notes").write_text("")
    with pytest.raises(Unusable, match="it has no meta, no cursor and no chunk"):
        look(str(directory))


def test_an_onlooker_knows_what_is_not_there(directory: Path) -> None:
    directory.mkdir()
    disk, path = Onlooker(), str(directory)
    assert not disk.is_file(f"{path}/meta")
    disk.close(disk.open(f"{path}/meta.tmp", exclusive=True))
    disk.rename(f"{path}/meta.tmp", f"{path}/meta")
    assert disk.names(path) == ["meta"]


def test_it_sees_both_slots_of_the_cursor(open_log: Open, directory: Path) -> None:
    log = filled(open_log)
    log.close()
    slots = look(str(directory)).slots
    assert [slot and slot.low for slot in slots] == [5, 5]


def test_a_chunk_that_a_start_removes_is_named(open_log: Open, directory: Path) -> None:
    filled(open_log).abandon()
    last = chunk_files(str(directory))[-1]
    os.truncate(last, 170)
    view = look(str(directory))
    assert removed(view) == [os.path.basename(last)]
    assert ("torn", os.path.basename(last)) in [(one.kind, one.file) for one in check(str(directory))[1]]


def test_an_onlooker_reads_what_is_moved_and_what_is_written_anew(directory: Path) -> None:
    """The first is what it was elsewhere; the second what stands there already."""
    directory.mkdir()
    (directory / "old").write_text("old")
    (directory / "moved").write_text("moved")
    for source, expected in (("meta.tmp", b"old"), ("moved", b"moved")):
        disk = Onlooker()
        if source == "meta.tmp":
            disk.close(disk.open(f"{directory}/{source}", exclusive=True))
        disk.rename(f"{directory}/{source}", f"{directory}/old")
        fd = disk.open(f"{directory}/old")
        assert disk.read(fd, 10, 0) == expected
        disk.close(fd)


def span(one: Record | Gap) -> tuple[int, int]:
    return (one.first, one.last) if isinstance(one, Gap) else (one.position, one.position + one.count - 1)


def test_any_range_shows_what_overlaps_it(open_log: Open, directory: Path) -> None:
    """Of a log that lost its first chunk, its last one, and records between."""
    log = open_log(1024, 64, disk=QuickDisk())
    for number in range(12):
        put(log, b"%d" % (number % 10) * 220, count=2)
    log.close()
    files = chunk_files(str(directory))
    for file in (files[0], files[-1]):
        os.unlink(file)
    data = bytearray(Path(files[1]).read_bytes())
    data[160 + 50] ^= 1
    Path(files[1]).write_bytes(data)
    view = look(str(directory))
    whole = list(records(view, 1, EVERYTHING))
    assert [type(one) for one in whole[:2] + whole[-1:]] == [Gap, Gap, Gap]
    assert [position for one in whole for position in range(span(one)[0], span(one)[1] + 1)] == list(range(1, 25))
    for first, last in combinations_with_replacement(range(1, 25), 2):
        expected = [
            (type(one), max(first, span(one)[0]), min(last, span(one)[1]))
            for one in whole
            if span(one)[0] <= last and span(one)[1] >= first
        ]
        found = [(type(one), max(first, span(one)[0]), min(last, span(one)[1])) for one in records(view, first, last)]
        assert found == expected, (first, last)
        chunks = [chunk for chunk in view.chunks if {*range(chunk.first, chunk.last + 1)} & {*range(first, last + 1)}]
        assert view.bytes_from(first, last) == sum(chunk.synced for chunk in chunks)


def test_acked_positions_up_to_any() -> None:
    acked = Acked(2, [(5, 6), (9, 9)])
    for last in range(1, 12):
        assert up_to(acked, last).missing(1, 12) == acked_but(last)


def acked_but(last: int) -> list[tuple[int, int]]:
    """What is missing up to 12 where nothing above `last` is acked."""
    acked = Acked()
    for position in (1, 2, 5, 6, 9):
        if position <= last:
            acked.add(position, position)
    return acked.missing(1, 12)
