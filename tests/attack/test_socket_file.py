"""The file of a Unix socket, and what others do to it: hold locks, remove it, take its name."""

import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.admin import Admin
from tests.system.daemon import Client, echo_flow, running
from tests.waiting import PATIENCE, wait_until
from walflow.net import CannotListen
from walflow.net.sockets import UnixListener


class UnixClient(Client):
    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self._rest = b""

    def echoes(self, line: bytes) -> bool:
        self.send(line + b"\n")
        return self.lines(1) == [line]


def unix_flow(directory: Path) -> Path:
    flow = echo_flow(directory)
    text = flow.read_text().replace("from tcp_server", "from unix_socket_server")
    flow.write_text(text.replace('"url": "127.0.0.1:0"', f'"path": "{directory}/s"'))
    return flow


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_file_that_is_removed_is_made_again_and_said(tmp_path: Path, loop: str) -> None:
    path = tmp_path / "s"
    with running(unix_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        daemon.wait_for("listening")
        before = UnixClient(path)
        assert before.echoes(b"1")
        for number in range(2, 4):
            path.unlink()
            assert daemon.wait_for("socket file is gone")["path"] == str(path)
            daemon.wait_for("listening")
            after = UnixClient(path)
            assert after.echoes(b"%d" % number)
            after.close()
        assert before.echoes(b"4"), "who is connected stays so"
        before.close()
        assert daemon.terminate() == 0
    assert not path.exists()
    assert not list(tmp_path.glob(".s*")), "no lock is left"


def test_a_name_that_another_process_has_taken_is_not_ready_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running(unix_flow(tmp_path), tmp_path, admin="127.0.0.1:0") as daemon:
        admin = Admin(daemon)
        daemon.wait_for("listening")
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(f"{path}.other")
            other.listen()
            os.rename(f"{path}.other", path)
            daemon.wait_for("socket file is gone")
            admin.until(lambda admin: "another process listens there" in admin.get("/readyz")[1])
        daemon.wait_for("listening")
        client = UnixClient(path)
        assert client.echoes(b"1")
        client.close()
        assert daemon.terminate() == 0


def test_the_admin_socket_is_made_again_too(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    with running(echo_flow(tmp_path), tmp_path, admin=f"unix:{path}") as daemon:
        admin = Admin(daemon)
        assert admin.get("/livez") == (200, "ok\n")
        path.unlink()
        daemon.wait_for("admin socket file is gone")
        wait_until(path.exists)
        assert admin.get("/livez") == (200, "ok\n")
        assert daemon.terminate() == 0
    assert not path.exists()


def test_who_may_read_the_directory_cannot_keep_it_from_starting(tmp_path: Path) -> None:
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        UnixListener(str(tmp_path / "s"), 0o600, 1).remove()
    finally:
        os.close(held)


def open_it(lock: Path) -> None:
    lock.touch()
    lock.chmod(0o644)


def link_it(lock: Path) -> None:
    lock.symlink_to("/etc/passwd")


@pytest.mark.parametrize("spoil", [open_it, link_it, os.mkfifo, Path.mkdir])
def test_a_lock_that_others_can_open_is_none(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / ".s.lock")
    with pytest.raises(CannotListen, match="cannot listen on"):
        UnixListener(str(tmp_path / "s"), 0o600, 1)
    assert not (tmp_path / "s").exists()


def test_two_that_begin_at_once_do_not_both_get_it(tmp_path: Path) -> None:
    fd = os.open(tmp_path / ".s.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with pytest.raises(CannotListen, match="another process is making it"):
            UnixListener(str(tmp_path / "s"), 0o600, 1)
    finally:
        os.close(fd)
    UnixListener(str(tmp_path / "s"), 0o600, 1).remove()  # what a process that was killed left holds up none
