"""Who asks the admin interface without a right to: headers that no library would send,
and a token that was changed."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import echo_flow, running
from tests.waiting import PATIENCE


def answer(admin: Admin, *headers: bytes) -> bytes:
    """The first line of what /metrics answers to a request with these headers, byte by byte."""
    host, _, port = admin.address.rpartition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as sock:
        sock.sendall(b"\r\n".join([b"GET /metrics HTTP/1.1", b"Connection: close", *headers, b"", b""]))
        return sock.makefile("rb").readline().rstrip()


@pytest.mark.parametrize("token", [b"\xff", b"\xed\xa0\x80", b"\x80" * 3000])
def test_a_token_that_is_no_text_is_a_wrong_token(tmp_path: Path, token: bytes) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    options = ("--admin-token-file", str(tmp_path / "token"))
    with running(echo_flow(tmp_path), tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        for scheme in (b"Bearer ", b"bearer", b""):
            headers = (b"Host: localhost", b"Authorization: " + scheme + token)
            assert answer(admin, *headers) == b"HTTP/1.1 401 Unauthorized"
        assert answer(admin, b"Host: localhost", b"Authorization: Bearer s3cret") == b"HTTP/1.1 200 OK"


def test_a_host_that_only_begins_like_loopback_is_refused(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        for host in (b"[::1].evil.com", b"[::1]evil.com:80", b"evil.com[::1]", b"localhost#.evil.com", b"\xff", b""):
            assert answer(admin, b"Host: " + host) == b"HTTP/1.1 403 Forbidden", host
        for host in (b"[::1]", b"[::1]:9898", b"localhost:1"):
            assert answer(admin, b"Host: " + host) == b"HTTP/1.1 200 OK", host


def test_a_token_that_was_changed_is_read_at_sighup(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("before\n")
    file.chmod(0o666)
    options = ("--admin-token-file", str(file))
    with running(echo_flow(tmp_path), tmp_path, *options, admin=LOOPBACK) as daemon:
        warned = daemon.wait_for("token open to others")
        assert (warned["mode"], warned["file"]) == ("0666", str(file))
        admin = Admin(daemon)
        file.chmod(0o600)

        def opens(token: str) -> bool:
            return admin.get("/metrics", {"Authorization": f"Bearer {token}"})[0] == 200

        assert opens("before")
        file.write_text("after\n")
        os.kill(daemon.pid, signal.SIGHUP)
        daemon.wait_for("admin token reloaded")
        assert (opens("before"), opens("after")) == (False, True)

        file.unlink()
        os.mkfifo(file)
        os.kill(daemon.pid, signal.SIGHUP)
        assert "named pipe" in str(daemon.wait_for("admin token not reloaded")["error"])
        assert opens("after"), "the old one stays"
        assert [line["event"] for line in daemon.lines].count("token open to others") == 1
        assert daemon.terminate() == 0
