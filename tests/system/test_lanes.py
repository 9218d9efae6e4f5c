"""A file and a peer behind one log. The peer is away: the file goes on. walflow is killed: the peer lacks nothing, and the
file has nothing twice."""

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.flows.builder import ANY_PORT, OUT, flow_of, lines_in, lines_out, plain
from tests.system.daemon import Client, Daemon, free_port, running
from tests.waiting import PATIENCE, wait_until

BLOCK = 10


class Peer:
    """What the log's events are sent to, from here on."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port), reuse_port=True)
        self._server.settimeout(PATIENCE)
        self.ids: list[int] = []

    def take(self, count: int | None, then: Callable[[], object] | None = None) -> None:
        """Until so many events came; None: until the sender closes the connection. `then` kills the sender: what the kernel had
        for the peer by then is acked, so the peer takes it too."""
        connection, _ = self._server.accept()
        connection.settimeout(PATIENCE)
        rest = b""
        with connection:
            while count is None or len(self.ids) < count:
                data = connection.recv(1 << 16)
                if not data and count is None:
                    return
                assert data, f"{len(self.ids)} of {count} events came"
                *lines, rest = (rest + data).split(b"\n")
                self.ids += [json.loads(line)["id"] for line in lines]
                if then is not None and count is not None and len(self.ids) >= count:
                    then()
                    count = None

    def close(self) -> None:
        self._server.close()


def ids(file: Path) -> list[int]:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [json.loads(line)["id"] for line in whole.splitlines()]


def send(daemon: Daemon, first: int, last: int) -> None:
    client = Client(daemon.port())
    for start in range(first, last, BLOCK):
        client.send(b"".join(b'{"id":%d}\n' % number for number in range(start, start + BLOCK)))
    client.socket.shutdown(socket.SHUT_WR)
    client.close()


def lanes_to(port: int, **log: object) -> str:
    return flow_of(
        "tcp -> log -> out",
        "log -> peer",
        tcp=lines_in("tcp_server", url=ANY_PORT),
        log=plain("wal", path="state", **log),
        out=OUT,
        peer=lines_out("tcp_client", url=f"127.0.0.1:{port}"),
    )


@pytest.fixture
def flow(tmp_path: Path) -> tuple[Path, int]:
    port = free_port()
    file = tmp_path / "lanes.troy"
    file.write_text(lanes_to(port))
    return file, port


def test_a_peer_that_is_away_stops_no_file_and_gets_all_after_kills(flow: tuple[Path, int], tmp_path: Path) -> None:
    file, port = flow
    out = tmp_path / "out.log"
    for life in range(3):
        daemon = Daemon(file, tmp_path)
        send(daemon, life * 1000, (life + 1) * 1000)
        wait_until(lambda: len(ids(out)) >= (life + 1) * 1000, "the file waits for the peer")  # noqa: B023
        daemon.kill()
    assert ids(out) == list(range(3000))
    peer = Peer(port)
    with running(file, tmp_path) as daemon:
        peer.take(3000)
        daemon.drained()
    peer.close()
    assert peer.ids == list(range(3000))
    assert ids(out) == list(range(3000))


@pytest.mark.nightly
def test_kills_at_any_moment_while_the_peer_catches_up(flow: tuple[Path, int], tmp_path: Path) -> None:
    """What the peer got in a life that was killed may come again; what the file has does not."""
    file, port = flow
    out = tmp_path / "out.log"
    got: set[int] = set()
    for life in range(6):
        daemon = Daemon(file, tmp_path)
        send(daemon, life * 2000, (life + 1) * 2000)
        if life % 2:
            peer = Peer(port)
            peer.take(300, daemon.kill)
            got |= set(peer.ids)
            peer.close()
        else:
            before = len(ids(out))
            wait_until(lambda: len(ids(out)) > before + 300)  # noqa: B023
            daemon.kill()
    peer = Peer(port)
    with running(file, tmp_path) as daemon, ThreadPoolExecutor() as threads:
        taken = threads.submit(peer.take, None)
        daemon.wait_for("connected")
        daemon.drained()
        taken.result(PATIENCE)
    peer.close()
    written = ids(out)
    assert len(written) == len(set(written)), "an event came twice"
    assert set(written) == got | set(peer.ids)
