"""A second daemon, or another directory, where one is running: two real processes on a real file system."""

import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.system.daemon import Client, echo_flow, running
from tests.waiting import wait_until
from walflow.exit_codes import EX_IOERR, EX_TEMPFAIL


@pytest.mark.parametrize("removed", ["LOCK", "nothing"])
def test_a_second_daemon_on_a_log_is_refused(tmp_path: Path, removed: str) -> None:
    flow = echo_flow(tmp_path)
    with running(flow, tmp_path) as first:
        with closing(Client(first.port())) as client:
            echo(client, 1)
            if removed == "LOCK":
                (tmp_path / "state/LOCK").unlink()
            with running(flow, tmp_path) as second:
                assert "state is in use by" in str(second.wait_for("fatal")["error"])
                assert second.wait() == EX_TEMPFAIL
            echo(client, 2)
        wait_until(lambda: (tmp_path / "state/LOCK").exists(), "the lock file that was removed")
        assert (tmp_path / "state/LOCK").read_text() == f"{first.pid}\n"
        assert first.terminate() == 0


def test_a_pod_that_starts_before_the_old_one_is_gone_takes_its_log_then(tmp_path: Path) -> None:
    """Two pods on one volume, as Kubernetes restarts what has ended. Its back-off is left out."""
    flow = echo_flow(tmp_path)
    with running(flow, tmp_path) as first:
        with closing(Client(first.port())) as client:
            echo(client, 1)
        ends = [EX_TEMPFAIL]
        while ends[-1] == EX_TEMPFAIL and len(ends) < 100:
            with running(flow, tmp_path) as second:
                if second.wait_for_one_of("fatal", "ready")["event"] == "ready":
                    (address,) = [str(line["address"]) for line in second.lines if line["event"] == "listening"]
                    with closing(Client(int(address.rpartition(":")[2]))) as client:
                        echo(client, 2)
                    ends.append(second.terminate())
                    continue
                ends.append(second.wait())
            if len(ends) == 3:
                assert first.terminate() == 0
    assert ends == [EX_TEMPFAIL] * 3 + [0]


def moved(state: Path) -> None:
    state.rename(state.with_name("aside"))


def replaced(state: Path) -> None:
    moved(state)
    state.mkdir()


def restored(state: Path) -> None:
    """From a copy, as a backup would be."""
    shutil.copytree(state, state.with_name("copy"))
    moved(state)
    state.with_name("copy").rename(state)


def removed(state: Path) -> None:
    """As `rm -rf` again and again: the daemon may write a cursor between the last file and the directory."""
    while state.exists():
        with suppress(OSError):
            shutil.rmtree(state)


@pytest.mark.parametrize("loss", [moved, replaced, restored, removed])
def test_a_log_whose_directory_is_another_one_acks_nothing(tmp_path: Path, loss: Callable[[Path], None]) -> None:
    flow, state = echo_flow(tmp_path), tmp_path / "state"
    with running(flow, tmp_path) as daemon, closing(Client(daemon.port())) as client:
        echo(client, 1)
        loss(state)
        before = entries(state)
        with suppress(ConnectionError):  # a checkpoint may have noticed it first
            client.send(b'{"n":2}\n')
        error = str(daemon.wait_for("fatal")["error"])
        assert error.startswith("state was moved, replaced or removed while the log was in use: ")
        assert daemon.wait() == EX_IOERR
        assert rest(client) == b"", "the second event was answered"
        assert entries(state) == before, "it wrote where another log is"
        assert not [line for line in daemon.raw if "Traceback" in line]


def entries(directory: Path) -> dict[str, int] | None:
    if not directory.exists():
        return None
    return {entry.name: os.stat(entry).st_mtime_ns for entry in directory.iterdir()}


def echo(client: Client, number: int) -> None:
    line = b'{"n":%d}' % number
    client.send(line + b"\n")
    assert client.lines(1) == [line]


def rest(client: Client) -> bytes:
    """All that still comes."""
    data = b""
    with suppress(ConnectionError):
        while more := client.socket.recv(1 << 16):
            data += more
    return data
