"""log -> file: what is in the file after whatever happened."""

import os
from pathlib import Path

import pytest

from connectors.file.appending import Appending
from connectors.file.writing import Writer
from walflow.disk import Disk, RealDisk, RecordingDisk
from walflow.event import Origin
from walflow.testing import MemoryInlet, Scheduler

LOG = "log-1"


class Daemon:
    """One life of a sink that appends to `path`, driven by hand."""

    def __init__(
        self, path: Path, *, disk: Disk | None = None, boot: str = "boot-1", sync: bool = True, sole_path: bool = True
    ) -> None:
        self.scheduler = Scheduler()
        self.inlet = MemoryInlet(self.scheduler, behind_log=True, sole_path=sole_path)
        self.output = Appending(str(path), disk or RealDisk(), sync=sync, boot=lambda: boot)
        self.writer = Writer(self.inlet, self.output)
        self.writer.start()
        self.inlet.serve(self.writer.accept)
        self.scheduler.run()

    def write(self, *events: bytes, first: int | None = None, acked_below: int = 1) -> None:
        origin = None if first is None else Origin(LOG, first, first + len(events) - 1, acked_below)
        self.inlet.give(self.inlet.lines_of(*events, origin=origin))
        self.scheduler.run()

    def stop(self) -> None:
        self.output.close()

    def die(self) -> None:
        """kill -9: the descriptors close and nothing else happens."""
        for fd in (self.output._fd, self.output._sidecar and self.output._sidecar._fd):
            if fd is not None:
                os.close(fd)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


def test_it_writes_and_acks(path: Path) -> None:
    daemon = Daemon(path)
    daemon.write(b"1", b"2", first=1)
    daemon.write(b"3", first=3)
    assert path.read_bytes() == b"1\n2\n3\n"
    assert daemon.inlet.acked == [b"1\n2\n", b"3\n"]
    daemon.stop()
    assert [each.name for each in sorted(path.parent.iterdir())] == [".out.log.walflow", "out.log"]
    assert (path.parent / ".out.log.walflow").stat().st_size == 3 * 4096


def test_what_is_in_the_file_is_not_written_again(path: Path) -> None:
    daemon = Daemon(path)
    daemon.write(b"1", b"2", first=1)
    daemon.die()
    daemon = Daemon(path)
    daemon.write(b"1", b"2", first=1)
    daemon.write(b"3", first=3)
    assert path.read_bytes() == b"1\n2\n3\n"
    assert daemon.inlet.acked == [b"1\n2\n", b"3\n"]
    daemon.stop()
