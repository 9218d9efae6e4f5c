"""Every page of every file, one at a time, that the disk cannot read: it costs the records that lie on it and no more,
each is named, and none of their positions is given out again. The page with the last file's header costs that file."""

import os
from pathlib import Path

import pytest

from tests.wal.conftest import Open
from tests.wal.tools import BadDisk, chunk_files, put, read
from walflow.wal import Log
from walflow.wal.chunk import PAGE
from walflow.wal.format import CHUNK_START, RECORD_START, record_size
from walflow.wal.tail import UNREADABLE_END

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


@pytest.mark.parametrize("commits", [1, 2, len(SIZES)])
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
    again = open_log(CHUNK, disk=BadDisk(path, page, page + PAGE))
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


def test_what_a_disk_cannot_read_today_is_there_for_a_better_day(open_log: Open, directory: Path) -> None:
    """Of a log that was killed, the last commit is written again: not with zeros where it was not read."""
    log = open_log(CHUNK)
    put(log, *[bytes([65 + at]) * 2900 for at in range(4)])
    log.abandon()
    (path,) = chunk_files(str(directory))
    before = Path(path).read_bytes()
    log = open_log(CHUNK, disk=BadDisk(path, PAGE, 2 * PAGE))
    assert [gap.first for gap in log.gaps] == [2, 3]
    assert [record.position for record in read(log)] == [1, 4]
    log.close()
    end = log.chunks[0].end
    assert Path(path).read_bytes()[:end] == before[:end]


def empty(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
