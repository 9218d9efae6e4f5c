"""EIO from reads, for a while: an event that the disk has is not given up. Its lane waits, and all else goes on."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.strace import Tracer, injections, needs_strace, options
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import WALFLOW, Client, Daemon, free_port, running
from tests.system.test_lanes import Peer, ids, lanes_to
from tests.waiting import wait_until

pytestmark = needs_strace

EVENTS = 4000


@pytest.fixture
def behind(tmp_path: Path) -> tuple[Path, int]:
    """A log whose file has all events and whose peer has none, and which knows it: else the file's lane reads too."""
    port = free_port()
    flow = tmp_path / "lanes.troy"
    flow.write_text(lanes_to(port, chunk_size=1 << 20, max_chunks=64))
    with running(flow, tmp_path) as daemon:
        send(daemon.port(), 0, EVENTS)
        wait_until(lambda: len(ids(tmp_path / "out.log")) == EVENTS, "the file has all")
        assert daemon.terminate() == 0
    return flow, port


def send(port: int, first: int, last: int) -> None:
    client = Client(port)
    for number in range(first, last):
        client.send(b'{"id":%d,"more":"%s"}\n' % (number, b"x" * 2000))
    client.close()


def drop_cache(directory: Path) -> None:
    for path in directory.glob("*.wal"):
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def test_a_while_of_eio_loses_nothing_and_stops_its_lane_alone(behind: tuple[Path, int], tmp_path: Path) -> None:
    flow, port = behind
    log, out = tmp_path / "strace", tmp_path / "out.log"
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        tcp = daemon.port()
        admin.until_ready()
        drop_cache(tmp_path / "state")
        with Tracer(daemon.pid, log, options("pread64,preadv2:error=EIO", calls=[])):
            peer = Peer(port)
            said = daemon.wait_for("log not read")
            send(tcp, EVENTS, EVENTS + 100)
            wait_until(lambda: len(ids(out)) == EVENTS + 100, "the file's lane goes on")
            assert admin.metrics()["walflow_wal_cannot_read", "log"] == 1
        assert injections(log) > 0
        assert ".wal: the disk cannot read it at byte " in str(said["reason"])
        assert f"walflow wal repair {tmp_path / 'state'}" in str(said["reason"]) or "repair state" in str(
            said["reason"]
        )
        peer.take(EVENTS + 100)
        assert admin.metrics()["walflow_wal_cannot_read", "log"] == 0
        daemon.drained()
    peer.close()
    assert peer.ids == list(range(EVENTS + 100))
    assert not (tmp_path / "state" / "quarantine").exists()


@pytest.mark.parametrize("name", ["meta", "cursor", "marks", ".wal"])
def test_a_start_that_cannot_read_ends_with_74_and_a_line_and_gives_nothing_up(
    behind: tuple[Path, int], tmp_path: Path, name: str
) -> None:
    flow, port = behind
    log, state = tmp_path / "strace", tmp_path / "state"
    (path,) = list(state.glob(f"*{name}"))[-1:]
    given = options("pread64:error=EIO", path=[path, Path("state", path.name)], calls=[])
    daemon = Daemon(flow, tmp_path, prefix=["strace", "-f", "--seccomp-bpf", "-o", str(log), *given])
    assert daemon.wait() == 74
    assert injections(log) > 0
    (line,) = [line for line in daemon.lines if line["event"] == "fatal"]
    assert f"{path.name}: the disk cannot read it at byte " in str(line["error"])
    assert "walflow wal repair " in str(line["error"])
    assert "Traceback" not in "".join(daemon.raw)
    assert not (state / "quarantine").exists()
    peer = Peer(port)
    with running(flow, tmp_path) as daemon:
        peer.take(EVENTS)
        assert daemon.terminate() == 0
    peer.close()
    assert peer.ids == list(range(EVENTS))


def test_what_stays_unreadable_is_given_up_by_repair_alone(behind: tuple[Path, int], tmp_path: Path) -> None:
    flow, port = behind
    state = tmp_path / "state"
    path = min(state.glob("*.wal"))
    given = options("pread64:error=EIO", path=[path], calls=[])
    command = ["strace", "-f", "-o", str(tmp_path / "strace"), *given, *WALFLOW, "wal", "repair", str(state), "--yes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    reports = [json.loads(one.read_text()) for one in (state / "quarantine").glob("*.json")]
    assert reports, done.stdout
    lost = {at - 1 for one in reports for at in range(one["first"], one["last"] + 1)}
    peer = Peer(port)
    with running(flow, tmp_path) as daemon:
        peer.take(EVENTS - len(lost))
        assert daemon.terminate() == 0
    peer.close()
    assert peer.ids == [number for number in range(EVENTS) if number not in lost]
