"""Memory has one bound, whoever connects when: clients that push 50 MB each, before, at and after the moment at which
events are not wanted any more, and in a drain."""

import json
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode

from tests.flows.builder import flow_of, unready
from tests.system.admin import LOOPBACK, Admin
from tests.system.certificates import Authority
from tests.system.daemon import Daemon, running
from tests.system.test_ws import request
from tests.waiting import PATIENCE

WINDOW = 8 << 20
READ = 256 << 10  # for each connection, beside the window
OURS = 48 << 20  # bytes of memory that are no events: connections, blocks, what the allocator keeps
PUSHED = 50_000_000  # by each client, if it is let
LINE = b'{"pad":"' + b"x" * 1013 + b'"}\n'
CALM = 20  # looks at which nothing moves: then nothing will


class Pusher:
    """Sends `data` again and again as far as it is let, and counts."""

    def __init__(self, sock: socket.socket, data: bytes) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.pushed = 0
        self._data = data
        self._at = 0

    def push(self) -> int:
        """How much was taken now."""
        before = self.pushed
        try:
            while self.pushed < PUSHED:
                sent = self.sock.send(self._data[self._at :])
                self.pushed += sent
                self._at = (self._at + sent) % len(self._data)
        except (BlockingIOError, ssl.SSLWantWriteError):
            pass
        return self.pushed - before


Connect = Callable[[], Pusher]


@contextmanager
def shut_flow(directory: Path, kind: str, loop: str, clients: int) -> Iterator[tuple[Daemon, Admin, Connect]]:
    """A flow whose sink takes what the window holds and acks nothing; and what makes a client of it."""
    (directory / "up").touch()
    path = directory / "in.sock"
    authority = Authority(directory) if kind == "tls" else None
    keys: dict[str, object] = {"max_connections": clients + 10}
    keys |= {"path": str(path)} if kind == "unix" else {"url": "127.0.0.1:0"}
    if authority is not None:
        keys["tls"] = authority.issue("localhost")
    server = {"ws": "ws_server", "unix": "unix_socket_server"}.get(kind, "tcp_server")
    flow = directory / "shut.troy"
    chain = 'preprocessors = ["separate"],' if kind != "ws" else ""
    source = f'{server} with codec = "json", {chain} config = {json.dumps(keys)} end'
    flow.write_text(flow_of("source -> held", source=source, held=unready(directory)))
    options = ("--loop", loop, "--drain-seconds", str(PATIENCE))
    with running(flow, directory, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        address = str(daemon.wait_for("listening")["address"])

        def dial() -> socket.socket:
            if kind == "unix":
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(address)
                return sock
            return socket.create_connection(("127.0.0.1", int(address.rsplit(":", 1)[1])), PATIENCE)

        def connect() -> Pusher:
            sock = dial()
            if authority is not None:
                sock = authority.client_context().wrap_socket(sock, server_hostname="localhost")
            if kind == "ws":
                sock.sendall(request(0))
                assert b" 101 " in sock.recv(4096)
                return Pusher(sock, Frame(Opcode.TEXT, LINE[:-1]).serialize(mask=True) * 64)
            return Pusher(sock, LINE * 64)

        yield daemon, admin, connect


def in_flight(admin: Admin) -> int:
    return sum(int(connector["inflight_bytes"]) for connector in admin.status()["flows"][0]["connectors"])


def press(admin: Admin, pushers: Sequence[Pusher], bound: int) -> None:
    """All push until nothing moves any more."""
    calm = 0
    before = -1
    while calm < CALM:
        moved = sum(pusher.push() for pusher in pushers)
        flying = in_flight(admin)
        assert flying <= bound
        calm = 0 if moved or flying != before else calm + 1
        before = flying
        time.sleep(0.001)


def kernel_takes(kind: str) -> int:
    """Of one connection at most, in both its buffers."""
    if kind == "unix":
        return 2 * int(Path("/proc/sys/net/core/wmem_default").read_text())
    return sum(int(Path(f"/proc/sys/net/ipv4/{name}").read_text().split()[2]) for name in ("tcp_rmem", "tcp_wmem"))


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("kind", ["tcp", "unix", "ws", "tls"])
@pytest.mark.parametrize("clients", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_whoever_connects_when(tmp_path: Path, kind: str, loop: str, clients: int) -> None:
    bound = WINDOW + clients * READ
    with shut_flow(tmp_path, kind, loop, clients) as (daemon, admin, connect):
        admin.until_ready()
        idle = daemon.memory
        pushers: list[Pusher] = []
        try:
            pushers += [connect() for _ in range(clients // 4)]
            for _ in range(clients // 4):  # some come as it shuts
                pushers.append(connect())
                pushers[-1].push()
            press(admin, pushers, bound)
            assert in_flight(admin) > WINDOW
            pushers += [connect() for _ in range(clients // 4)]
            press(admin, pushers, bound)
            daemon.process.send_signal(signal.SIGTERM)
            daemon.wait_for("draining")
            pushers += [connect() for _ in range(clients // 4)]
            press(admin, pushers, bound)
            taken = sum(pusher.pushed for pusher in pushers)
            assert daemon.memory <= idle + bound + OURS
            assert taken <= bound + clients * kernel_takes(kind)
        finally:
            for pusher in pushers:
                pusher.sock.close()
