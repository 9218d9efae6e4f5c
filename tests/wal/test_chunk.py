"""The window over a file of which the disk cannot read some pages."""

from walflow.testing import MemoryDisk
from walflow.wal.chunk import PAGE, Pages
from walflow.wal.directory import Directory

FILE = "/file"


def pages_of(size: int, bad_from: int) -> Pages:
    disk = MemoryDisk({FILE: b"x" * size})
    disk.bad_from = {FILE: bad_from}
    return Pages(Directory("/", disk), FILE[1:], disk.open(FILE), size)


def test_what_cannot_be_read_is_known_by_the_page() -> None:
    pages = pages_of(3 * PAGE, PAGE)
    assert not pages.unreadable(0, 3 * PAGE), "nothing was read yet"
    assert pages.read(PAGE - 10, PAGE + 20) == b"x" * 10 + bytes(PAGE + 10)
    assert [pages.unreadable(*where) for where in ((0, PAGE), (PAGE - 1, 1), (PAGE - 1, 2), (PAGE, 1))] == [
        0,
        0,
        1,
        1,
    ]
    assert pages.unreadable(3 * PAGE - 1, 1)
    assert not pages.unreadable(3 * PAGE, 1)
    assert not pages.unreadable(PAGE + 5, 0), "of no bytes none is lost"
    assert not pages.unreadable(PAGE, 0)


def test_what_lies_between_two_bad_pages_is_not_one_of_them() -> None:
    pages = pages_of(3 * PAGE, 0)
    pages.read(0, 1)
    pages.read(2 * PAGE, 1)
    assert [pages.unreadable(page * PAGE, PAGE) for page in range(3)] == [True, False, True]


def test_a_read_of_no_bytes_never_fails() -> None:
    pages = pages_of(PAGE, 0)
    assert pages.read(10, 0) == b""
    assert not pages.unreadable(0, PAGE)
