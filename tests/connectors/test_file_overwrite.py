"""mode = "overwrite": from the first byte on at every start, over what is there, and never less of the file."""

import errno
from pathlib import Path

import pytest

from connectors.file import File
from connectors.file.overwritten_file import FilePlace, OverwrittenFile
from tests.connectors.test_file import run
from tests.connectors.world import DeadlyDisk, FailingDisk, Killed, Sink
from walflow.disk import Disk, RealDisk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


def overwriting(path: Path, *, disk: Disk | None = None, place: FilePlace | None = None) -> Sink:
    return Sink(OverwrittenFile(str(path), disk or RealDisk(), sync=True, place=place)).start()


def had(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")


def held(path: Path) -> bytes:
    return path.read_bytes()


async def test_every_start_begins_at_the_first_byte_and_leaves_what_is_behind(path: Path) -> None:
    had(path)
    file = File(path=str(path), mode="overwrite")
    await run(file, b"1\n")
    assert held(path) == b"1\nd 1\nold 2\n"
    await run(file, b"2\n")  # the connector alone was restarted
    assert held(path) == b"1\n2\n1\nold 2\n"
    await run(File(path=str(path), mode="overwrite"), b"3\n")
    assert held(path) == b"3\n2\n1\nold 2\n"


async def test_it_grows_where_more_is_written_than_was_there(path: Path) -> None:
    await run(File(path=str(path), mode="overwrite"), b"1\n", b"2\n")
    assert held(path) == b"1\n2\n"


def test_a_failed_batch_is_written_again_at_its_place(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    disk = FailingDisk(errno.ENOSPC)
    sink = overwriting(path, disk=disk)
    sink.write(b"1")
    disk.failing, disk.only, disk.written = {"write"}, "/out.log", 2
    sink.write(b"234")
    assert path.read_bytes() == b"1\n231\nold 2\n"
    assert sink.inlet.acked == [b"1\n"]
    disk.failing = set()
    sink.scheduler.advance(10)
    assert path.read_bytes() == b"1\n234\nold 2\n"
    assert sink.inlet.acked == [b"1\n", b"234\n"]
    assert sink.inlet.lines == []
    sink.stop()


def test_after_a_kill_the_last_line_may_be_torn_and_goes_on_as_the_old_one(path: Path) -> None:
    path.write_bytes(b"old 1\nold 2\n")
    disk = DeadlyDisk()
    sink = overwriting(path, disk=disk)
    sink.write(b"1")
    disk.dies(1, 2)
    with pytest.raises(Killed):
        sink.write(b"234")
    sink.die()
    assert path.read_bytes() == b"1\n231\nold 2\n"
    assert sink.inlet.acked == [b"1\n"]


def test_renamed_away_a_new_one_begins(path: Path) -> None:
    sink = overwriting(path)
    sink.write(b"1")
    old = path.rename(path.with_name("out.log.1"))
    sink.inlet.reopen()
    sink.scheduler.run()
    sink.write(b"2")
    assert (old.read_bytes(), path.read_bytes()) == (b"1\n", b"2\n")
    sink.stop()


def test_cut_by_another_it_goes_on_at_the_end(path: Path) -> None:
    sink = overwriting(path)
    sink.write(b"1", b"2")
    path.write_bytes(b"")
    sink.write(b"3")
    assert path.read_bytes() == b"3\n"
    assert [line for line in sink.inlet.lines if "was cut from 4 to 0 bytes by another process" in line]
    sink.stop()
