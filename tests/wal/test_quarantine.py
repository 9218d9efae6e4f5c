"""What is put aside is never lost on the way, and told once."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.wal.tools import put
from walflow.disk import RealDisk
from walflow.testing import PowerCut, SimulatedDisk, images
from walflow.wal import Gap, Log, LogOptions
from walflow.wal.chunk import Pages
from walflow.wal.directory import Directory
from walflow.wal.quarantine import Quarantine

STRANGE = "/log/00000000000000000099.wal"
BYTES = b"what somebody put there"


def a_log_with_a_strange_file() -> SimulatedDisk:
    disk = SimulatedDisk()
    log = Log(LogOptions("/log", 4096, 4), disk)
    put(log, b"a")
    log.close()
    fd = disk.open(STRANGE, create=True)
    disk.write(fd, [BYTES], 0)
    disk.sync(fd)
    disk.close(fd)
    disk.sync_directory("/log")
    return disk


def test_what_is_moved_is_here_or_there_whenever_the_power_goes() -> None:
    for operations in range(30):
        disk = a_log_with_a_strange_file()
        disk.operations_left = operations
        try:
            Log(LogOptions("/log", 4096, 4), disk)
        except PowerCut:
            pass
        for image in images(disk, Random(operations), 20):
            assert BYTES in [kept.data for kept in image.files.values()]


def test_what_was_moved_stays_where_it_was_moved_to() -> None:
    disk = a_log_with_a_strange_file()
    directory = Directory("/log", disk)
    assert Quarantine(directory).move(STRANGE[5:]) == "quarantine/00000000000000000099.wal"
    for image in images(disk, Random(1), 20):
        assert STRANGE not in image.files
        assert image.files["/log/quarantine/00000000000000000099.wal"].data == BYTES


def test_what_has_the_same_name_is_kept_beside_it(tmp_path: Path) -> None:
    quarantine = Quarantine(Directory(str(tmp_path), RealDisk()))
    for number in range(3):
        (tmp_path / "file").write_bytes(b"%d" % number)
        quarantine.move("file")
    kept = {path.name: path.read_bytes() for path in (tmp_path / "quarantine").iterdir()}
    assert kept == {"file": b"0", "file.1": b"1", "file.2": b"2"}


def test_a_report_is_written_once(tmp_path: Path) -> None:
    quarantine = Quarantine(Directory(str(tmp_path), RealDisk()))
    gap = Gap(3, 5, "", 0, 0, "corrupt")
    quarantine.report(gap, None)
    (report,) = (tmp_path / "quarantine").iterdir()
    before = report.read_bytes()
    quarantine.report(gap._replace(reason="another"), None)
    assert report.read_bytes() == before


def reports(disk: SimulatedDisk) -> None:
    """Bytes 10 to 3009 of a file are kept, and told of."""
    fd = disk.open("/log/chunk")
    directory = Directory("/log", disk)
    Quarantine(directory).report(Gap(3, 5, "chunk", 10, 3000, "corrupt"), Pages(directory, "chunk", fd, 4000))


def test_a_report_is_whole_or_not_there_whenever_the_power_goes() -> None:
    lost = bytes(range(250)) * 16
    stem = f"/log/quarantine/{3:020d}-{5:020d}"
    for operations in range(20):
        disk = SimulatedDisk({"/log/chunk": lost})
        disk.operations_left = operations
        with suppress(PowerCut):
            reports(disk)
        cut = [disk.like_this(image.files) for image in images(disk, Random(operations), 20)]
        disk.after_kill(writeback_fails=False)
        reports(disk)
        safe = [disk.like_this(image.files) for image in images(disk, Random(operations), 1)]
        assert all(other.is_file(f"{stem}.json") for other in safe)
        for other in cut + safe:
            if other.is_file(f"{stem}.json"):
                assert json.loads(other.content(f"{stem}.json"))["reason"] == "corrupt"
                assert other.content(f"{stem}.bytes") == lost[10:3010]
