"""Clients of http_server that mean no good: a good client is served beside them,
and memory stays within its bound."""

import gzip
import http.client
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.system.daemon import Daemon, running
from tests.system.test_http import door, ids_in
from tests.waiting import PATIENCE

MB = 1 << 20
GROWTH = 48 * MB  # of the window, 8 MiB, and 256 KiB for each of 64 clients, and what Python keeps of it


class Attacker:
    """A connection that says what it likes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)

    def say(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it was closed: what it was answered can be read

    def status(self) -> int:
        """0: closed without an answer."""
        data = b""
        try:
            while b"\r\n" not in data and (more := self.socket.recv(1 << 16)):
                data += more
        except ConnectionResetError:
            pass
        return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/1.1 ") else 0

    def rest(self) -> bytes:
        data = b""
        try:
            while more := self.socket.recv(1 << 16):
                data += more
        except ConnectionResetError:
            pass
        return data

    def close(self) -> None:
        self.socket.close()


@contextmanager
def attacked(directory: Path, **config: Any) -> Iterator[tuple[Daemon, int]]:
    with running(door(directory, **config), directory) as daemon:
        port = daemon.port()
        daemon.wait_for("ready")
        yield daemon, port
        is_served(port)
        assert daemon.terminate() == 0, daemon.raw
        said = [line for line in daemon.lines if line.get("level") in ("error", "critical")]
        assert not said, said
        assert not any("Traceback" in line for line in daemon.raw)


def is_served(port: int) -> float:
    """Seconds that a good client waits."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/", b'{"id":"good"}')
    assert connection.getresponse().status == 200
    connection.close()
    return time.monotonic() - begun


@contextmanager
def attackers(port: int, count: int) -> Iterator[list[Attacker]]:
    with ExitStack() as stack:
        made = [Attacker(port) for _ in range(count)]
        for each in made:
            stack.callback(each.close)
        yield made


HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"


def test_slow_heads_are_closed(tmp_path: Path) -> None:
    with attacked(tmp_path, idle_timeout=1_000_000_000) as (_, port), attackers(port, 50) as made:
        for byte in (bytes([each]) for each in HEAD[:12]):
            for each in made:
                each.say(byte)
            time.sleep(0.1)  # a byte at a time does not make it longer
            is_served(port)
        assert [each.status() for each in made] == [0] * 50


def test_slow_bodies_are_answered_with_408(tmp_path: Path) -> None:
    with attacked(tmp_path, body_timeout=1_000_000_000) as (_, port), attackers(port, 50) as made:
        for each in made:
            each.say(HEAD + b"Content-Length: 100\r\n\r\n")
        for _ in range(8):
            for each in made:
                each.say(b"x")
            time.sleep(0.1)
            is_served(port)
        assert [each.status() for each in made] == [408] * 50


def test_a_thousand_idle_connections_keep_no_client_out(tmp_path: Path) -> None:
    with attacked(tmp_path) as (_, port), attackers(port, 1100):
        assert is_served(port) < PATIENCE


IDLE = 10_000
OF_ONE = 12 << 10  # bytes of walflow's memory for an idle connection; measured: 7 KiB


@pytest.mark.nightly
def test_ten_thousand_idle_connections_cost_little_and_keep_no_client_out(tmp_path: Path) -> None:
    """Each has had one request answered before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 1000:
        pytest.skip(f"{hard} descriptors are too few: ulimit -Hn {IDLE + 1000}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the daemon inherits it
    try:
        config = {"max_connections": IDLE + 100, "backlog": 4096, "idle_timeout": 600_000_000_000}
        with attacked(tmp_path, **config) as (daemon, port):
            for _ in range(200):
                is_served(port)
            before = daemon.memory
            with attackers(port, IDLE) as made:
                request = HEAD + b"Content-Length: 1\r\n\r\n1"
                for first in range(0, IDLE, 100):
                    some = made[first : first + 100]
                    for each in some:
                        each.say(request)
                    assert [each.status() for each in some] == [200] * 100
                assert is_served(port) < PATIENCE
                each_takes = (daemon.memory - before) / IDLE
                assert each_takes < OF_ONE, f"{each_takes / 1024:.1f} KiB"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_bodies_that_do_not_end_stay_within_the_window(tmp_path: Path) -> None:
    """64 clients of 4 MiB, all but the last byte, with a window of 8 MiB."""
    size = 4 * MB
    with attacked(tmp_path) as (daemon, port):
        is_served(port)
        before = daemon.memory
        with attackers(port, 64) as made:
            for each in made:
                each.socket.settimeout(0.5)
                try:
                    each.socket.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * (size - 1))
                except OSError:
                    pass  # not read on, or closed
                is_served(port)
        assert daemon.memory - before < GROWTH


@pytest.mark.parametrize("encoding", ["gzip"])
def test_a_bomb_is_413_and_takes_no_memory(tmp_path: Path, encoding: str) -> None:
    bomb = gzip.compress(b" " * 256 * MB)
    with attacked(tmp_path) as (daemon, port), attackers(port, 20) as made:
        is_served(port)
        before = daemon.memory
        for each in made:
            each.say(HEAD + f"Content-Encoding: {encoding}\r\nContent-Length: {len(bomb)}\r\n\r\n".encode() + bomb)
        assert [each.status() for each in made] == [413] * 20
        assert daemon.memory - before < GROWTH


@pytest.mark.parametrize(
    "request_",
    [
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        HEAD + b"Content-Length: 5, 6\r\n\r\n12345",
        HEAD + b"Content-Length: +5\r\n\r\n12345",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n1\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n1\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n12\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n1\r\n0\r\n\r\n",
        HEAD + b" folded: x\r\nContent-Length: 1\r\n\r\n1",
        HEAD + b"X: a\x00b\r\nContent-Length: 1\r\n\r\n1",
        HEAD + b"no colon\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"P" * 10_000 + b" / HTTP/1.1\r\n\r\n",
        b"POST /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"X: " + b"x" * 10_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X-%d: x\r\n" % n for n in range(1000)) + b"Content-Length: 1\r\n\r\n1",
    ],
    ids=lambda data: repr(data[len(HEAD) : len(HEAD) + 30]),
)
def test_what_two_parsers_could_read_in_two_ways_is_refused_and_ends_the_connection(
    shared: tuple[Daemon, int, Path], request_: bytes
) -> None:
    daemon, port, out = shared
    smuggled = b'POST /smuggled HTTP/1.1\r\nHost: h\r\nContent-Length: 17\r\n\r\n{"id":"smuggled"}'
    with attackers(port, 1) as (attacker,):
        attacker.say(request_ + smuggled)
        attacker.socket.shutdown(socket.SHUT_WR)
        answer = attacker.rest()
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 501")), answer
        assert answer.count(b"HTTP/1.") <= 1
    is_served(port)
    assert "smuggled" not in ids_in(out)
    assert daemon.process.poll() is None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, int, Path]]:
    directory = tmp_path_factory.mktemp("door")
    with attacked(directory) as (daemon, port):
        yield daemon, port, directory / "out.jsonl"


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(HEAD + b"X: ", id="a header"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", id="an extension of a chunk"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\nX: ", id="a trailer"),
    ],
)
def test_what_does_not_end_around_the_events_is_refused(shared: tuple[Daemon, int, Path], endless: bytes) -> None:
    daemon, port, _ = shared
    before = daemon.memory
    with attackers(port, 4) as made:
        for each in made:
            each.say(endless)
            for _ in range(64):
                each.say(b"x" * MB)
        assert all(each.status() in (0, 400, 431) for each in made)
    is_served(port)
    assert daemon.memory - before < GROWTH


@pytest.mark.nightly
def test_answers_that_are_not_read_do_not_swell(tmp_path: Path) -> None:
    """Requests in one write after the other, and no answer is read."""
    with attacked(tmp_path, write_timeout=1_000_000_000) as (daemon, port), attackers(port, 20) as made:
        is_served(port)
        before = daemon.memory
        for each in made:
            each.socket.settimeout(0.3)
            try:
                for _ in range(200):
                    each.socket.sendall((HEAD + b"Content-Length: 1\r\n\r\nx") * 500)
            except OSError:
                pass  # it is not read on, or closed
        is_served(port)
        assert daemon.memory - before < GROWTH
