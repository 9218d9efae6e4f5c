"""A file that cannot be written now: the breaker triggers, the blocks are held, and nothing comes twice."""

import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.file.output import GRACE
from tests.connectors.world import Clock, FailingDisk, Sink, appending, truncating

TRUNCATE, APPEND = truncating, appending
both = pytest.mark.parametrize("starting", [TRUNCATE, APPEND])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


@both
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
@pytest.mark.parametrize("failing", ["write", "sync"])
def test_a_batch_is_held_until_it_can_be_written(
    path: Path, starting: Callable[..., Sink], number: int, failing: str
) -> None:
    disk = FailingDisk(number)
    sink = starting(path, disk=disk)
    sink.write(b"1", first=1)
    disk.failing, disk.only, disk.written = {failing}, "/out.log", 3
    sink.write(b"2", b"3", first=2)
    reason = os.strerror(number)
    assert sink.inlet.breaker == f"cannot write {path}: {reason[0].lower()}{reason[1:]}"
    assert path.read_bytes() == b"1\n"
    assert sink.inlet.acked == [b"1\n"]
    sink.write(b"4", first=4)  # sources may be slow to stop
    disk.failing = set()
    sink.scheduler.advance(0.1)
    assert (sink.inlet.breaker, sink.inlet.acked[1:]) == (None, [b"2\n3\n", b"4\n"])
    assert path.read_bytes() == b"1\n2\n3\n4\n"
    assert (len(sink.inlet.triggered), sink.inlet.failed) == (1, [])
    sink.stop()


@both
def test_backoff_from_100_ms_to_10_s(path: Path, starting: Callable[..., Sink]) -> None:
    disk = FailingDisk()
    sink = starting(path, disk=disk)
    disk.failing = {"write"}
    sink.write(b"1", first=1)
    delays: list[float] = []
    while len(delays) < 14:
        (delay,) = sink.scheduler.timers
        delays.append(round(delay, 3))
        sink.scheduler.advance(delay)
    assert delays[:3] == [0.1, 0.15, 0.225]
    assert delays[-2:] == [10, 10]
    assert len(sink.inlet.triggered) == 1
    disk.failing = set()
    sink.scheduler.advance(10)
    disk.failing = {"write"}
    sink.write(b"2", first=2)
    assert sink.scheduler.timers == [pytest.approx(0.1)]
    disk.failing = set()
    sink.stop()


@both
def test_half_a_batch_that_cannot_be_taken_back_at_once(path: Path, starting: Callable[..., Sink]) -> None:
    disk = FailingDisk()
    sink = starting(path, disk=disk)
    disk.failing, disk.only, disk.written = {"write", "truncate"}, "/out.log", 3
    sink.write(b"1234", first=1)
    assert path.read_bytes() == b"123"
    sink.scheduler.advance(1)
    assert path.read_bytes() == b"123"
    disk.failing = set()
    sink.scheduler.advance(10)
    assert path.read_bytes() == b"1234\n"
    assert sink.inlet.logged == []
    sink.stop()


@both
def test_a_failed_batch_with_another_processs_bytes_behind_it(path: Path, starting: Callable[..., Sink]) -> None:
    disk = FailingDisk()
    sink = starting(path, disk=disk)
    disk.failing, disk.only, disk.written = {"write", "truncate"}, "/out.log", 3
    sink.write(b"1234", first=1)
    with path.open("ab") as file:
        file.write(b"theirs")
    disk.failing = set()
    sink.scheduler.advance(10)
    assert path.read_bytes() == b"123theirs\n1234\n"
    (line,) = sink.inlet.lines
    assert line == (
        f"{path} has 9 bytes from byte 0 on that may begin with a torn line: another process appended to it while a "
        "write failed"
    )
    sink.stop()


def test_a_sidecar_that_cannot_be_written_holds_the_batch_too(path: Path) -> None:
    disk = FailingDisk(errno.EIO)
    sink = appending(path, disk=disk)
    disk.failing, disk.only = {"write"}, ".walflow"
    sink.write(b"1", first=1)
    assert (path.read_bytes(), sink.inlet.acked) == (b"", [])
    disk.failing = {"sync"}
    sink.scheduler.advance(0.1)
    assert (path.read_bytes(), sink.inlet.acked) == (b"", [])  # written, not known for sure, taken back
    sink.die()
    sink = appending(path)
    sink.write(b"1", first=1)
    assert path.read_bytes() == b"1\n"
    assert sink.inlet.logged == []
    sink.stop()


@both
def test_a_close_that_cannot_be_synced_says_so(path: Path, starting: Callable[..., Sink]) -> None:
    disk = FailingDisk(errno.EIO)
    sink = starting(path, disk=disk, sync=False)
    sink.write(b"1", first=1)
    disk.failing = {"sync"}
    sink.stop()
    assert sink.inlet.lines == [f"not closed cleanly: cannot write {path}: input/output error"]
    assert sink.inlet.acked == [b"1\n"]


# what is in the way of opening it


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def remove(path: Path) -> None:
    path.rmdir() if path.is_dir() else path.unlink()


@both
@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (Path.mkdir, "a directory"),
        (lambda path: path.symlink_to("elsewhere"), "a symbolic link, name the file it points to"),
        (fifo, "a named pipe"),
        (unix_socket, "a socket"),
    ],
)
def test_what_is_no_file(
    path: Path, starting: Callable[..., Sink], put: Callable[[Path], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)  # a socket's path is short
    put(Path(path.name))
    sink = starting(Path(path.name))
    sink.write(b"1", first=1)
    assert sink.inlet.triggered == [f"cannot write out.log: it is {kind}"]
    remove(path)
    sink.scheduler.advance(0.1)
    assert (sink.inlet.breaker, path.read_bytes()) == (None, b"1\n")
    sink.stop()


def test_a_device() -> None:
    sink = truncating(Path("/dev/null"))
    assert sink.inlet.breaker == "cannot write /dev/null: it is a device"
    sink.stop()


@both
def test_a_directory_that_is_missing_or_gone(path: Path, starting: Callable[..., Sink]) -> None:
    path = path.parent / "logs" / "out.log"
    clock = Clock()
    sink = starting(path, clock=clock)
    reason = f"cannot write {path}: its directory {path.parent} does not exist"
    assert sink.inlet.breaker == reason
    path.parent.mkdir()
    sink.write(b"1", first=1)
    sink.scheduler.advance(0.1)
    assert (sink.inlet.breaker, sink.inlet.acked) == (None, [b"1\n"])
    moved = path.parent.rename(path.parent.with_name("moved")) / "out.log"
    sink.write(b"2", first=2)  # as after a rename: what renamed it may be about to make the new one
    assert (sink.inlet.breaker, moved.read_bytes()) == (None, b"1\n2\n")
    clock.now += GRACE
    sink.write(b"3", first=3)
    assert sink.inlet.breaker == reason
    path.parent.mkdir()
    sink.scheduler.advance(0.1)
    assert (path.read_bytes(), sink.inlet.acked) == (b"3\n", [b"1\n", b"2\n", b"3\n"])
    sink.stop()


@both
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, f"permission denied for user {os.geteuid()}"),
        (errno.EROFS, "read-only file system"),
        (errno.EMFILE, "too many open files"),
    ],
)
def test_it_cannot_be_opened(path: Path, starting: Callable[..., Sink], number: int, reason: str) -> None:
    disk = FailingDisk(number)
    disk.failing = {"open"}
    sink = starting(path, disk=disk)
    assert sink.inlet.breaker == f"cannot write {path}: {reason}"
    disk.failing = set()
    sink.scheduler.advance(0.1)
    assert sink.inlet.breaker is None
    sink.stop()


def test_the_sidecar_cannot_be_made(path: Path) -> None:
    disk = FailingDisk(errno.EACCES)
    disk.failing, disk.only = {"open"}, ".walflow"
    sink = appending(path, disk=disk)
    sidecar = path.with_name(".out.log.walflow")
    assert sink.inlet.breaker == (
        f"cannot append to {path} without its sidecar: cannot write {sidecar}: "
        f"permission denied for user {os.geteuid()}"
    )
    sink.stop()


def test_a_file_in_place_of_its_directory(path: Path) -> None:
    path.touch()
    sink = truncating(path / "out.log")
    assert sink.inlet.breaker == f"cannot write {path}/out.log: {path} is not a directory"
    sink.stop()


@both
def test_a_reopened_path_that_cannot_be_opened_keeps_the_blocks(path: Path, starting: Callable[..., Sink]) -> None:
    sink = starting(path)
    sink.write(b"1", first=1)
    old = path.rename(path.with_name("out.log.1"))
    path.mkdir()
    sink.inlet.reopen()
    sink.scheduler.run()
    sink.write(b"2", first=2)
    assert sink.inlet.breaker == f"cannot write {path}: it is a directory"
    path.rmdir()
    sink.scheduler.advance(0.1)
    assert (old.read_bytes(), path.read_bytes(), sink.inlet.breaker) == (b"1\n", b"2\n", None)
    sink.stop()


# truncate


def test_truncate_empties_once_and_keeps_what_others_write(path: Path) -> None:
    path.write_bytes(b"old\n")
    sink = truncating(path)
    assert path.read_bytes() == b""
    sink.write(b"1", first=1)
    with path.open("ab") as file:
        file.write(b"theirs")
    sink.write(b"2", first=2)
    assert path.read_bytes() == b"1\ntheirs\n2\n"
    old = path.rename(path.with_name("out.log.1"))
    path.write_bytes(b"theirs too\n")
    sink.inlet.reopen()
    sink.scheduler.run()
    sink.write(b"3", first=3)
    assert old.read_bytes() == b"1\ntheirs\n2\n"
    assert path.read_bytes() == b"theirs too\n3\n"  # emptied at the start, not at SIGHUP
    assert {each.name for each in path.parent.iterdir()} == {"out.log", "out.log.1"}
    sink.stop()


def test_two_daemons_do_not_empty_each_others_file(path: Path) -> None:
    first = truncating(path)
    first.write(b"1")
    second = truncating(path)
    assert second.inlet.breaker == f"cannot write {path}: another writer holds it"
    assert path.read_bytes() == b"1\n"
    first.stop()
    second.stop()


# a real limit


LIMITED = """
import resource, sys
from pathlib import Path
from tests.connectors.world import appending
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 100_000))
sink = appending(Path(sys.argv[1]), sync=False)
for position in range(1, 6):
    sink.write(b"%d" % position * 9000, first=position)
print(sink.inlet.breaker, len(sink.inlet.acked), flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sink.scheduler.advance(1)
print(sink.inlet.breaker, len(sink.inlet.acked), len(sink.inlet.failed), flush=True)
sink.stop()
"""


def test_a_file_size_limit(path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [f"cannot write {path}: file too large 3", "None 5 0"]
    assert path.read_bytes() == b"".join(b"%d" % position * 9000 + b"\n" for position in range(1, 6))
