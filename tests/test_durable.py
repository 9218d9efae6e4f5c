"""A file that is replaced: the power is cut before every operation,
and its name has the old bytes or the new ones."""

import errno
from collections.abc import Iterator
from random import Random

import pytest

from walflow.durable import DiskFolder, replace, replace_and_keep
from walflow.errors import DiskFull, FailStop
from walflow.testing import MemoryDisk, PowerCut, SimulatedDisk, images
from walflow.wal.directory import Directory

OLD, PIECES = b"o" * 700, [b"a" * 600, b"b" * 600]
NEW = b"".join(PIECES)


def cuts(disk: SimulatedDisk) -> Iterator[bytes | None]:
    """What the name may have, for each operation before which the power is cut, and after the last one."""
    for operations in range(20):
        cut = SimulatedDisk({"/d/f": OLD, "/d/f.tmp": b"of a process that was killed"})
        cut.lies = disk.lies
        cut.operations_left = operations
        try:
            replace(DiskFolder(cut, "/d"), "f", PIECES)
        except PowerCut:
            pass
        else:
            return
        for image in images(cut, Random(operations), 64):
            yield image.files["/d/f"].data if "/d/f" in image.files else None


def test_whenever_the_power_goes_the_name_has_the_old_bytes_or_the_new_ones() -> None:
    found = set(cuts(SimulatedDisk()))
    assert found == {OLD, NEW}


def test_that_would_be_noticed() -> None:
    disk = SimulatedDisk()
    disk.lies = frozenset({"sync"})
    assert set(cuts(disk)) - {OLD, NEW}, "half of the new bytes, where the rename came before they were synced"


@pytest.mark.parametrize(("lies", "left"), [((), {NEW}), (("sync_directory",), {OLD, NEW})])
def test_once_it_has_returned_only_the_new_ones_are_left(lies: tuple[str, ...], left: set[bytes]) -> None:
    disk = SimulatedDisk({"/d/f": OLD})
    disk.lies = frozenset(lies)
    replace(DiskFolder(disk, "/d"), "f", PIECES)
    assert {image.files["/d/f"].data for image in images(disk, Random(1), 64)} == left
    assert not disk._fds


def test_what_a_killed_process_left_is_removed_and_nothing_else() -> None:
    disk = MemoryDisk({"/d/f": OLD, "/d/f.tmp": b"half", "/d/g.new": b"half", "/d/h.tmp": b"another's"})
    replace(DiskFolder(disk, "/d"), "f", [NEW])
    replace(DiskFolder(disk, "/d"), "g", [NEW], temporary="g.new")
    assert disk.names("/d") == ["f", "g", "h.tmp"]


def test_the_descriptor_that_is_kept_is_of_the_file_that_now_has_the_name() -> None:
    disk = MemoryDisk({"/d/f": OLD})
    fd = replace_and_keep(DiskFolder(disk, "/d"), "f", [NEW])
    disk.write(fd, [b"more"], len(NEW))
    disk.close(fd)
    assert disk.content("/d/f") == NEW + b"more"


def test_a_file_of_another_process_is_not_taken_for_the_new_one() -> None:
    disk = MemoryDisk({"/d/f": OLD})
    with pytest.raises(FileExistsError):
        DiskFolder(disk, "/d").create("f")


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
def test_a_call_that_failed_leaves_old_or_new_bytes_and_no_descriptor_and_is_done_again(operation: str) -> None:
    disk = SimulatedDisk({"/d/f": OLD})
    disk.fault = lambda called, path: errno.ENOSPC if called == operation else None
    with pytest.raises(OSError, match="No space"):
        replace(DiskFolder(disk, "/d"), "f", PIECES)
    assert not disk._fds
    assert {image.files["/d/f"].data for image in images(disk, Random(1), 64)} <= {OLD, NEW}
    disk.fault = None
    replace(DiskFolder(disk, "/d"), "f", PIECES)
    assert {image.files["/d/f"].data for image in images(disk, Random(1), 64)} == {NEW}


@pytest.mark.parametrize(
    ("operation", "number", "named"), [("write", errno.ENOSPC, DiskFull), ("sync", errno.ENOSPC, FailStop)]
)
def test_errors_are_the_folders(operation: str, number: int, named: type[Exception]) -> None:
    disk = MemoryDisk({"/d/f": OLD})
    disk.fault = lambda called, path: number if called == operation else None
    with pytest.raises(named):
        replace(Directory("/d", disk), "f", [NEW])
    assert disk.content("/d/f") == OLD
