"""The disk that loses what was not synced, and what a power cut may leave of it."""

import errno
from random import Random

import pytest
from hypothesis import given, strategies as st

from walflow.testing import Image, MemoryDisk, PowerCut, SimulatedDisk, images

A, B, OLD = b"a" * 512, b"b" * 512, b"o" * 512


def all_of(disk: SimulatedDisk, breadth: int = 4096) -> list[Image]:
    return [image for image in images(disk, Random(1), breadth) if image.kind != "garbled"]


def contents(disk: SimulatedDisk, path: str = "/f") -> set[bytes | None]:
    return {image.files[path].data if path in image.files else None for image in all_of(disk)}


def written(disk: SimulatedDisk, data: bytes, offset: int = 0, path: str = "/f") -> int:
    fd = disk.open(path, create=True)
    disk.write(fd, [data], offset)
    return fd


def test_each_sector_that_was_not_synced_is_there_or_not() -> None:
    disk = SimulatedDisk({"/f": OLD * 2})
    written(disk, A + B)
    assert contents(disk) == {OLD + OLD, A + OLD, OLD + B, A + B}


def test_a_sector_that_was_written_twice_has_any_of_its_versions() -> None:
    disk = SimulatedDisk({"/f": OLD})
    written(disk, A)
    written(disk, b"xyz", 100)
    assert contents(disk) == {OLD, A, A[:100] + b"xyz" + A[103:]}


def test_what_was_synced_stays() -> None:
    disk = SimulatedDisk({"/f": OLD})
    fd = written(disk, A)
    disk.sync(fd)
    assert contents(disk) == {A}


def test_a_file_grows_sector_by_sector_and_may_have_holes() -> None:
    disk = SimulatedDisk({"/f": b""})
    written(disk, A + B[:100])
    zeros = bytes(512)
    assert contents(disk) == {b"", A, zeros, A + B[:100], A + zeros[:100], zeros + B[:100], zeros + zeros[:100]}


def test_a_truncation_may_be_lost() -> None:
    disk = SimulatedDisk({"/f": A + B})
    fd = disk.open("/f")
    disk.truncate(fd, 512)
    assert contents(disk) == {A, A + B}
    disk.sync(fd)
    assert contents(disk) == {A}


CHANGES = st.sampled_from(("write", "truncate", "allocate", "sync", "kill"))


@given(st.lists(st.tuples(CHANGES, st.integers(0, 900)), max_size=8))
def test_who_asks_on_the_way_gets_the_same_in_the_end(changes: list[tuple[str, int]]) -> None:
    asked, not_asked = SimulatedDisk({"/f": OLD}), SimulatedDisk({"/f": OLD})
    for number, (change, size) in enumerate(changes):
        for disk in (asked, not_asked):
            _change(disk, change, size, bytes([number]))
        all_of(asked, 8)
    assert [image.files for image in all_of(asked, 32)] == [image.files for image in all_of(not_asked, 32)]


def _change(disk: SimulatedDisk, change: str, size: int, byte: bytes) -> None:
    fd = disk.open("/f")
    if change == "write":
        disk.write(fd, [byte * 200], size)
    elif change == "truncate":
        disk.truncate(fd, size)
    elif change == "allocate":
        disk.allocate(fd, size)
    elif change == "sync":
        disk.sync(fd)
    else:
        disk.after_kill(writeback_fails=True)


def test_what_is_cut_off_never_comes_back_behind_a_sync() -> None:
    disk = SimulatedDisk({"/f": A + B})
    fd = disk.open("/f")
    disk.truncate(fd, 10)
    disk.truncate(fd, 1024)
    disk.sync(fd)
    assert contents(disk) == {A[:10] + bytes(1014)}


def test_a_name_is_its_directorys_to_sync() -> None:
    disk = SimulatedDisk({"/d/old": A})
    fd = written(disk, B, path="/d/new")
    disk.sync(fd)
    assert contents(disk, "/d/new") == {None, B}
    disk.sync_directory("/")
    assert contents(disk, "/d/new") == {None, B}
    disk.sync_directory("/d")
    assert contents(disk, "/d/new") == {B}


def test_a_directory_that_is_lost_takes_all_in_it() -> None:
    disk = SimulatedDisk()
    disk.makedir("/d/e")
    disk.sync(written(disk, A, path="/d/e/f"))
    disk.sync_directory("/d/e")
    disk.sync_directory("/d")
    assert {frozenset(image.files) for image in all_of(disk)} == {frozenset(), frozenset({"/d", "/d/e", "/d/e/f"})}


def test_a_rename_happens_whole_or_not_and_an_unlink_too() -> None:
    disk = SimulatedDisk({"/a": A, "/b": B})
    disk.rename("/a", "/c")
    disk.unlink("/b")
    found = {frozenset(image.files) for image in all_of(disk)}
    assert found == {frozenset(names) for names in ({"/a", "/b"}, {"/c", "/b"}, {"/a"}, {"/c"})}


def test_what_was_done_to_a_name_is_not_reordered() -> None:
    disk = SimulatedDisk({"/a": A})
    disk.rename("/a", "/b")
    disk.sync(written(disk, B, path="/a"))
    found = {tuple((path, kept.data) for path, kept in image.files.items()) for image in all_of(disk)}
    assert found == {(("/a", A),), (("/b", A),), (("/a", B), ("/b", A))}


@pytest.mark.parametrize("widely", [False, True])
def test_a_garbled_sector_has_other_bytes_where_it_was_being_written(widely: bool) -> None:
    disk = SimulatedDisk({"/f": OLD * 2})
    disk.spoils_neighbours = widely
    written(disk, b"w" * 50, 600)
    spoiled = [image.files["/f"].data for image in images(disk, Random(3), 400) if image.kind == "garbled"]
    assert len(set(spoiled)) > 20
    assert all(data is not None and data[:512] == OLD for data in spoiled), "the sector beside it is whole"
    beside = {data[512:600] + data[650:] for data in spoiled if data is not None}
    assert (beside != {OLD[:88] + OLD[:374]}) == widely


def test_few_images_are_enumerated_and_many_are_chosen() -> None:
    disk = SimulatedDisk({"/f": bytes(512 * 20)})
    written(disk, A * 20)
    few = all_of(disk, 64)
    assert len(few) <= 64
    assert {image.kind for image in few} == {"nothing", "everything", "torn"}
    assert len({image.digest for image in few}) > 40


def test_a_disk_that_lies() -> None:
    disk = SimulatedDisk({"/f": OLD})
    disk.lies = frozenset({"sync", "sync_directory"})
    disk.sync(written(disk, A))
    disk.rename("/f", "/g")
    disk.sync_directory("/")
    assert contents(disk) == {OLD, A, None}


def test_the_power_goes_before_the_operation() -> None:
    disk = SimulatedDisk({"/f": OLD})
    disk.operations_left = 1
    fd = written(disk, A)
    with pytest.raises(PowerCut):
        disk.sync(fd)
    assert contents(disk) == {OLD, A}


def test_a_kill_keeps_the_page_cache_but_for_pages_that_could_not_be_written() -> None:
    disk = SimulatedDisk({"/f": OLD})
    written(disk, A)
    disk.after_kill(writeback_fails=True)
    assert disk.content("/f") == A
    disk.sync(disk.open("/f"))
    assert contents(disk) == {OLD}


def test_a_full_disk_takes_what_fits() -> None:
    disk = SimulatedDisk({"/f": OLD})
    disk.capacity = 600
    with pytest.raises(OSError, match="No space"):
        written(disk, A, 512)
    assert disk.sizes() == {"/f": 600}
    written(disk, A)  # in place
    with pytest.raises(OSError, match="No space"):
        disk.allocate(disk.open("/f"), 2000)
    assert disk.failures == 2


def test_an_operation_may_fail() -> None:
    disk = MemoryDisk({"/f": OLD})
    fd = disk.open("/f")
    disk.fault = lambda operation, path: errno.EIO if operation == "write" else None
    with pytest.raises(OSError, match="Input/output"):
        disk.write(fd, [A], 0)
    assert disk.content("/f") == A[:256] + OLD[256:], "half of it is there"


def test_a_lock_is_its_descriptors() -> None:
    disk = SimulatedDisk({"/f": OLD})
    one, other = disk.open("/f"), disk.open("/f")
    assert disk.lock(one)
    assert not disk.lock(other)
    disk.close(other)
    assert not disk.lock(disk.open("/f"))
    disk.close(one)
    assert disk.lock(disk.open("/f"))
