"""What the disk cannot read is not given up: every page of every file, one at a time. If an operator gives it up, it
costs the records that lie on it and no more, each is named, and none of their positions is given out again. The page
with the last file's header costs that file."""

import errno
import os
import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import (
    EVERYTHING,
    BadDisk,
    FaultyDisk,
    checkpoint,
    chunk_files,
    files_of,
    put,
    read,
    restore,
    works,
)
from walflow.errors import ReadFailed, Unusable
from walflow.wal import Log
from walflow.wal.chunk import PAGE
from walflow.wal.format import CHUNK_START, RECORD_START, SKIP, record_size
from walflow.wal.opening.tail import UNREADABLE_END

SIZES = (10, 3000, 1000, 4048, 700, 5000, 1, 1, 2500, 900, 4200, 30, 6000, 100)
CHUNK = 12288


def pages(directory: Path) -> list[tuple[str, int]]:
    return [(path, at) for path in chunk_files(str(directory)) for at in range(0, os.stat(path).st_size, PAGE)]


def on_page(log: Log, path: str, page: int) -> set[int]:
    """Positions of the records in that file with a byte on that page."""
    (chunk,) = [chunk for chunk in log.chunks if path.endswith(chunk.name)]
    if page == 0 and chunk is log.chunks[-1]:
        return set(range(chunk.first, chunk.last + 1))
    found: set[int] = set()
    offset = CHUNK_START
    for position in range(chunk.first, chunk.last + 1):
        end = offset + record_size(SIZES[position - 1])
        if offset < page + PAGE and page < offset + RECORD_START + SIZES[position - 1]:
            found.add(position)
        offset = end
    return found


@pytest.mark.parametrize(
    "commits", [2, pytest.param(1, marks=pytest.mark.test), pytest.param(len(SIZES), marks=pytest.mark.test)]
)
@pytest.mark.parametrize("closed", [True, False])
def test_a_page_costs_what_lies_on_it(open_log: Open, directory: Path, commits: int, closed: bool) -> None:
    each = len(SIZES) // commits
    tried = 0
    while True:
        log = open_log(CHUNK)
        for first in range(0, len(SIZES), each):
            put(log, *[bytes([65 + at]) * SIZES[at] for at in range(first, first + each)])
        log.close() if closed else log.abandon()
        todo = pages(directory)
        if tried == len(todo):
            return
        path, page = todo[tried]
        expect_that_it_costs_what_lies_on_it(log, open_log, path, page)
        empty(directory)
        tried += 1


def expect_that_it_costs_what_lies_on_it(log: Log, open_log: Open, path: str, page: int) -> None:
    bad = on_page(log, path, page)
    expect_that_a_start_gives_nothing_up(open_log, path, page)
    again = open_log(CHUNK, disk=BadDisk(path, page, page + PAGE), gives_up=True)
    found = {record.position for record in read(again)}
    gone = set(range(1, len(SIZES) + 1)) - found
    told = again.recovery.lines()
    where = f"page {page} of {os.path.basename(path)}: {told}"
    assert gone <= bad, where
    assert gone or not told, where
    named = {at for gap in again.gaps for at in range(gap.first, gap.last + 1)}
    unknown = min((gap.first for gap in again.gaps if gap.reason == UNREADABLE_END), default=again.next)
    if "has no sound header: moved" not in where:
        assert named == {at for at in gone if at <= unknown}, where
    assert again.next > len(SIZES), where


def expect_that_a_start_gives_nothing_up(open_log: Open, path: str, page: int) -> None:
    """It ends, or it opens the log and delivers what is not on that page.
    When the disk is well again, all is there."""
    files = files_of(os.path.dirname(path))
    disk = BadDisk(path, page, page + PAGE)
    refusal = rf"{path}: the disk cannot read it at byte {page}: .* run: walflow wal repair {os.path.dirname(path)}"
    log: Log | None = None
    told = ""
    try:
        log = open_log(CHUNK, disk=disk)
    except Unusable as error:
        told = str(error)
    if log is None:
        assert re.fullmatch(refusal, told)
    else:
        reader = log.reader()
        with suppress(ReadFailed):
            reader.read(EVERYTHING)
        with suppress(ReadFailed):
            reader.read(EVERYTHING)
        assert not log.gaps
        disk.heal()
        found = [record.position for record in reader.read(EVERYTHING)]
        assert found == list(range(len(SIZES) - len(found) + 1, len(SIZES) + 1))
    assert [record.position for record in read(open_log(CHUNK))] == list(range(1, len(SIZES) + 1))
    assert not (Path(path).parent / "quarantine").exists()
    open_log(CHUNK).abandon()
    restore(os.path.dirname(path), files)


def test_what_a_disk_cannot_read_today_is_there_for_a_better_day(open_log: Open, directory: Path) -> None:
    """Of a log that was killed, the last commit is written again: not with zeros where it was not read."""
    log = open_log(CHUNK)
    put(log, *[bytes([65 + at]) * 2900 for at in range(4)])
    log.abandon()
    (path,) = chunk_files(str(directory))
    before = Path(path).read_bytes()
    log = open_log(CHUNK, disk=BadDisk(path, PAGE, 2 * PAGE), gives_up=True)
    assert [gap.first for gap in log.gaps] == [2, 3]
    assert [record.position for record in read(log)] == [1, 4]
    log.close()
    end = log.chunks[0].end
    assert Path(path).read_bytes()[:end] == before[:end]


def test_a_tail_that_the_disk_cannot_read_is_lost_aloud(open_log: Open, directory: Path) -> None:
    """A torn write can be read: what gives an error was there."""
    put(open_log(), b"one", b"two")
    disk = FaultyDisk()
    (path,) = chunk_files(str(directory))
    tries = 0

    def second_half(operation: str, path_read: str) -> int | None:
        nonlocal tries
        tries += operation == "read" and path_read == path
        return errno.EIO if path_read == path and operation == "read" and tries > 1 else None

    disk.fault = second_half
    log = open_log(disk=disk, gives_up=True)
    assert [(gap.first, gap.reason) for gap in log.recovery.gaps] == [(1, UNREADABLE_END)]
    assert log.next > 2, "given out already, and not to be read"
    disk.fault = lambda operation, path: None
    works(log)
    log.abandon()
    first = log.next
    disk.fault = lambda operation, path_read: errno.EIO if path_read == path and operation == "read" else None
    assert open_log(disk=disk, gives_up=True).next == first, "what is known is not passed a second time"


def test_what_an_unreadable_page_held_is_lost_aloud_and_its_positions_are_not_given_out_again(
    open_log: Open, directory: Path
) -> None:
    """The second of its records has no proof but the page itself."""
    log = open_log(chunk_size=1 << 16)
    put(log, *[b"." * 2000] * 2)
    put(log, *[b"-" * 100] * 3)
    log.abandon()
    (path,) = chunk_files(str(directory))
    log = open_log(chunk_size=1 << 16, disk=BadDisk(path, 4096), gives_up=True)
    assert [(gap.first, gap.last, gap.reason) for gap in log.recovery.gaps] == [
        (2, 2, "the disk cannot read them"),
        (3, 3, UNREADABLE_END),
    ]
    assert log.next > 5
    assert [record.position for record in read(log)] == [1]


def test_what_an_unreadable_end_takes_ends_where_the_next_chunk_begins(open_log: Open, directory: Path) -> None:
    log = open_log(chunk_size=1 << 13)
    put(log, *[b"." * 2000] * 6)
    log.close()
    first, _ = chunk_files(str(directory))
    log = open_log(chunk_size=1 << 13, disk=BadDisk(first, 4096), gives_up=True)
    assert [(gap.first, gap.last) for gap in log.recovery.gaps] == [(2, 2), (3, 3)]
    assert [record.position for record in read(log)] == [1, 4, 5, 6]


@pytest.mark.parametrize("known", [1, 2, 3])
def test_the_positions_of_a_last_chunk_whose_header_cannot_be_read_are_not_given_out_again(
    open_log: Open, directory: Path, known: int
) -> None:
    """Whatever the cursor had heard of."""
    log = open_log()
    put(log, b"." * 3700)
    if known == 1:
        checkpoint(log, force=True)
    put(log, b"-" * 900)
    if known == 2:
        checkpoint(log, force=True)
    put(log, b"+")
    if known == 3:
        checkpoint(log, force=True)
    log.abandon()
    _, last = chunk_files(str(directory))
    log = open_log(disk=BadDisk(last, 0, CHUNK_START), gives_up=True)
    assert "has no sound header" in log.recovery.lines()[0]
    assert log.next > SKIP
    works(log)


def test_a_header_that_cannot_be_read_of_an_older_chunk_has_nothing_passed_over(
    open_log: Open, directory: Path
) -> None:
    log = open_log(1024)
    put(log, b"." * 700)
    put(log, b"-" * 700)
    log.abandon()
    log = open_log(1024, disk=BadDisk(chunk_files(str(directory))[0], 0, CHUNK_START), gives_up=True)
    assert [record.position for record in read(log)] == [1, 2]
    assert log.next == 3


def empty(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
