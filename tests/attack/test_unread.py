"""Clients that send and never read, in the README's flow. However many they are and however little waits for each of
them, the file grows, a good client gets its echoes, and they are closed after `write_timeout`."""

import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.late import late
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Client, Daemon, echo_flow, running
from tests.waiting import PATIENCE, wait_until

LINE = b'{"pad":"' + b"x" * 989 + b'"}\n'
STEP = LINE * 16
WRITE_BUFFER = 1 << 20
UNREAD = 900_000  # bytes: just under it
QUARTER = 2 << 20  # of the window
FOREVER = 1_000_000_000_000_000


class Served:
    """A daemon with the README's flow, and its clients."""

    def __init__(self, daemon: Daemon, admin: Admin, out: Path, connect: Callable[[], socket.socket]) -> None:
        self.daemon = daemon
        self.connect = connect
        self._admin = admin
        self._out = out

    @property
    def written(self) -> int:
        return self._out.stat().st_size if self._out.exists() else 0

    def ends_with(self, line: bytes) -> bool:
        return self._out.read_bytes().endswith(line)

    def closed(self) -> float:
        return self._admin.metrics().get(("walflow_component_slow_clients_closed_total", "tcp"), 0)

    def unsettled(self) -> int:
        """Bytes that the log waits for."""
        (flow,) = self._admin.status()["flows"]
        return next(int(one["inflight_bytes"]) for one in flow["connectors"] if one["name"] == "log")

    def until_unread(self) -> int:
        """How many bytes a client can leave unread in the kernel: more wait in the daemon."""
        size = total = 0
        while True:
            size += 4 * len(STEP)
            total += size
            with self.connect() as probing:
                probing.sendall(STEP * (size // len(STEP)))
                wait_until(lambda: self.written >= total)  # noqa: B023
                seen = {self.unsettled() for _ in range(5)}  # what is on its way changes
                if len(seen) == 1 and 0 not in seen:
                    return size


@contextmanager
def served(directory: Path, loop: str, kind: str = "tcp_server", **keys: object) -> Iterator[Served]:
    flow = echo_flow(directory)
    path = directory / "socket"
    where = '"url": "127.0.0.1:0"' if kind == "tcp_server" else f'"path": "{path}"'
    config = where + "".join(f', "{key}": {json.dumps(value)}' for key, value in keys.items())
    text = flow.read_text().replace('"url": "127.0.0.1:0"', config).replace("from tcp_server", f"from {kind}")
    flow.write_text(text)
    with running(flow, directory, "--loop", loop, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        listening = str(daemon.wait_for("listening")["address"])

        def connect() -> socket.socket:
            if kind == "unix_socket_server":
                sock = socket.socket(socket.AF_UNIX)
                sock.settimeout(PATIENCE)
                sock.connect(str(path))
                return sock
            sock = socket.socket()
            sock.settimeout(PATIENCE)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", int(listening.rsplit(":", 1)[1])))
            return sock

        yield Served(daemon, admin, directory / "out.log", connect)


class Good(Client):
    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._rest = b""


def send_unread(sockets: list[socket.socket], size: int) -> None:
    """As much by each, in turns, or what is taken of it: a client that is slow is not read any more."""
    left = dict.fromkeys(sockets, size // len(STEP) * len(STEP))
    for sock in sockets:
        sock.setblocking(False)
    while left and (writable := select.select([], left, [], 1)[1]):
        for sock in writable:
            try:
                left[sock] -= sock.send(STEP[-left[sock] % len(STEP) :])
            except OSError:  # closed: more waits for all than max_write_buffers
                left[sock] = 0
            if not left[sock]:
                del left[sock]


@pytest.mark.parametrize(
    ("kind", "clients", "unread"),
    [
        ("tcp_server", 9, UNREAD),
        *late(("tcp_server", 60, UNREAD), ("unix_socket_server", 60, UNREAD)),
        ("unix_socket_server", 500, 60_000),
    ],
)
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_clients_that_do_not_read_stop_nobody(
    tmp_path: Path, kind: str, clients: int, unread: int, loop: str
) -> None:
    with (
        ExitStack() as leaving,
        served(tmp_path, loop, kind, write_timeout=FOREVER, max_write_buffers=1 << 30) as flow,
    ):
        size = flow.until_unread() + unread
        sockets = [leaving.enter_context(flow.connect()) for _ in range(clients + 1)]
        sender = threading.Thread(target=send_unread, args=(sockets, size), daemon=True)
        sender.start()
        good = Good(leaving.enter_context(flow.connect()))
        for number in range(100):
            good.send(b'{"good":%d}\n' % number)
            assert good.lines(1) == [b'{"good":%d}' % number]
        sender.join(PATIENCE)
        assert not sender.is_alive()
        wait_until(lambda: flow.unsettled() <= QUARTER)
        good.send(b'{"good":true}\n')
        assert good.lines(1) == [b'{"good":true}']
        wait_until(lambda: flow.ends_with(b'{"good":true}\n'))
        assert not any(line.get("event") == "slow client closed" for line in flow.daemon.lines)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_they_are_closed_after_write_timeout(tmp_path: Path, loop: str) -> None:
    with ExitStack() as leaving, served(tmp_path, loop, "unix_socket_server", write_timeout=1_000_000_000) as flow:
        size = flow.until_unread() + UNREAD
        send_unread([leaving.enter_context(flow.connect()) for _ in range(9)], size)
        for _ in range(9 - QUARTER // UNREAD):  # the others may stay
            closed = flow.daemon.wait_for("slow client closed")
            assert closed["reason"] == "it does not read what is written to it"
        assert flow.daemon.terminate() == 0
        said = [line for line in flow.daemon.lines if line.get("event") == "slow client closed"]
        assert flow.daemon.last("stopped")["slow_clients_closed_total"] == len(said)


@contextmanager
def under_load(flow: Served) -> Iterator[None]:
    """A client that reads has 256 KiB on their way all the time."""
    over = threading.Event()

    def load() -> None:
        with flow.connect() as sock:
            client = Good(sock)
            while not over.is_set():
                client.send(LINE * 256)
                client.lines(256)

    loading = threading.Thread(target=load, daemon=True)
    loading.start()
    yield
    over.set()
    loading.join(PATIENCE)
    assert not loading.is_alive()


@contextmanager
def senders(flow: Served, count: int) -> Iterator[None]:
    """They send whenever they can, some 30 MB/s together at first, and never read."""
    over = threading.Event()
    with ExitStack() as leaving:
        sockets = [leaving.enter_context(flow.connect()) for _ in range(count)]
        for sock in sockets:
            sock.setblocking(False)

        def send() -> None:
            while not over.is_set():
                for sock in select.select([], sockets, [], 0.1)[1]:
                    over.wait(0.0005)
                    try:
                        sock.send(STEP)
                    except OSError:  # it was closed
                        sockets.remove(sock)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        yield
        over.set()
        sending.join(PATIENCE)


def growth(flow: Served, good: Good, seconds: float) -> tuple[float, float]:
    """Of the file, in bytes a second; and the longest that a good client waits for an echo meanwhile."""
    began, before, longest = time.monotonic(), flow.written, 0.0
    while (now := time.monotonic()) < began + seconds:
        good.send(b"1\n")
        assert good.lines(1) == [b"1"]
        longest = max(longest, time.monotonic() - now)
    return (flow.written - before) / (time.monotonic() - began), longest


@pytest.mark.alone
@pytest.mark.nightly
def test_a_hundred_that_keep_sending_cost_a_fifth_at_most(tmp_path: Path) -> None:
    with served(tmp_path, "uvloop", "unix_socket_server", write_timeout=1_000_000_000) as flow:
        with flow.connect() as sock, under_load(flow):
            good = Good(sock)
            growth(flow, good, 1)
            alone = beside = longest = 0.0
            for number in range(1, 5):
                alone += growth(flow, good, 2)[0]
                with senders(flow, 100):
                    rate, waited = growth(flow, good, 2)
                    wait_until(lambda: flow.closed() >= number * 90)  # noqa: B023  # the others hold a quarter at most
                beside += rate
                longest = max(longest, waited)
        assert longest < 1, f"{longest} s"
        assert beside / alone > 0.8
