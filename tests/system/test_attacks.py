"""What a network does to a daemon: memory stays bounded, a good client is served meanwhile, and one clear line says
what it is."""

import json
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.flows.builder import flow_of, lines, lines_in
from tests.system.certificates import Authority
from tests.system.daemon import ROOT, Client, Daemon, echo_flow, running
from tests.system.test_tls import TlsClient, refused, server_flow
from tests.system.warm import ran
from tests.waiting import PATIENCE

MANY = 1000
ALLOWED = 64 << 20  # bytes above idle
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"  # how a TLS handshake begins


@contextmanager
def crowd(port: int, size: int, first: bytes = b"") -> Iterator[list[socket.socket]]:
    sockets: list[socket.socket] = []
    try:
        for _ in range(size):
            sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
            sockets.append(sock)
            if first:
                sock.sendall(first)
        yield sockets
    finally:
        for sock in sockets:
            sock.close()


def is_served(client: Client, lines: int = 100) -> None:
    for number in range(lines):
        client.send(b'{"good":%d}\n' % number)
        assert client.lines(1) == [b'{"good":%d}' % number]
    client.close()


def ended(sock: socket.socket) -> bool:
    """Waits for it."""
    try:
        return not sock.recv(1)
    except ConnectionError:
        return True


def lines_of(daemon: Daemon, event: str) -> list[dict[str, object]]:
    return [line for line in daemon.lines if line.get("event") == event]


def with_config(flow: Path, **keys: object) -> Path:
    """More keys for the server's config."""
    more = "".join(f', "{key}": {json.dumps(value)}' for key, value in keys.items())
    flow.write_text(flow.read_text().replace('"url": "127.0.0.1:0"', '"url": "127.0.0.1:0"' + more))
    return flow


def test_a_thousand_slow_handshakes(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    flow = with_config(server_flow(tmp_path, **authority.issue("localhost")), handshake_timeout=3_000_000_000)
    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        idle = daemon.memory
        with crowd(port, MANY, HELLO) as sockets:
            is_served(TlsClient(port, authority.client_context()))
            assert all(map(ended, sockets))
        assert daemon.wait_for("TLS handshake failed")["reason"] == "no handshake within 3 s"
        assert daemon.memory <= idle + ALLOWED
        assert daemon.terminate() == 0
        assert len(lines_of(daemon, "TLS handshake failed")) <= 20  # of a thousand


def test_a_thousand_idle_connections_have_no_right_to_their_places(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        port = daemon.port()
        idle = daemon.memory
        with crowd(port, MANY) as sockets:
            is_served(Client(port))
            assert (
                daemon.wait_for("silent client closed")["reason"] == "it has sent nothing, and its place was wanted"
            )
            assert ended(sockets[0])
            is_served(Client(port))
        assert daemon.memory <= idle + ALLOWED
        assert daemon.terminate() == 0


def test_who_has_sent_something_keeps_its_place(tmp_path: Path) -> None:
    with running(with_config(echo_flow(tmp_path), max_connections=10), tmp_path) as daemon:
        port = daemon.port()
        clients = [Client(port) for _ in range(10)]
        for client in clients:
            client.send(b"1\n")
            assert client.lines(1) == [b"1"]
        late = Client(port)
        assert ended(late.socket)
        late.close()
        assert daemon.wait_for("connection refused")["reason"] == "10 clients are connected"
        clients.pop().close()
        while True:  # until the server has heard of it
            late = Client(port)
            try:
                late.send(b"2\n")
                assert late.lines(1) == [b"2"]
                break
            except (ConnectionError, AssertionError):
                late.close()
        for client in (*clients, late):
            is_served(client, 1)


def test_timeouts_and_limits_of_a_listener(tmp_path: Path) -> None:
    keys = {"first_byte_timeout": 1_000_000_000, "idle_timeout": 1_000_000_000, "max_connections_per_address": 2}
    with running(with_config(echo_flow(tmp_path), **keys), tmp_path) as daemon:
        port = daemon.port()
        silent, idle = Client(port), Client(port)
        idle.send(b"1\n")
        third = Client(port)
        assert ended(third.socket)
        assert daemon.wait_for("connection refused")["reason"] == "2 clients of its address are connected"
        assert ended(silent.socket)
        assert daemon.wait_for("silent client closed")["reason"] == "it has sent nothing within first_byte_timeout"
        assert idle.lines(1) == [b"1"]
        assert ended(idle.socket)
        for client in (silent, idle, third):
            client.close()


def test_events_that_never_end(tmp_path: Path) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        port = daemon.port()
        idle = daemon.memory
        with crowd(port, 30) as sockets:
            for _ in range(64):
                for sock in sockets:
                    sock.sendall(b"x" * (256 << 10))
            is_served(Client(port))
        reason = str(daemon.wait_for("rejected")["reason"])
        assert reason == f"event of {16 << 20} bytes exceeds max_event_bytes, {1 << 20}"
        assert daemon.memory <= idle + ALLOWED
        assert daemon.terminate() == 0


@pytest.mark.parametrize("nested", [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_json_a_hundred_thousand_deep(tmp_path: Path, nested: bytes) -> None:
    with running(echo_flow(tmp_path), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(nested + b'\n{"after":1}\n')
        assert client.lines(1) == [b'{"after":1}']
        client.close()
        rejected = daemon.wait_for("rejected")
        assert rejected["events"] == 1
        assert len(str(rejected)) < 1000
        assert daemon.terminate() == 0


def test_a_hundred_wrong_certificates(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "strangers")
    flow = server_flow(tmp_path, client_ca=authority.file, **authority.issue("localhost"))
    wrong = authority.client_context(stranger.issue("edge"))
    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        idle = daemon.memory
        assert all(refused(port, wrong) for _ in range(100))
        is_served(TlsClient(port, authority.client_context(authority.issue("edge"))))
        assert daemon.memory <= idle + ALLOWED
        assert daemon.terminate() == 0
        lines = lines_of(daemon, "TLS handshake failed")
        assert 1 <= len(lines) <= 20
        assert lines[0]["reason"] == "its certificate is not accepted: unable to get local issuer certificate"
        assert daemon.last("stopped")["failed_handshakes_total"] == 100


def test_a_peer_that_does_not_read_until_it_does(tmp_path: Path) -> None:
    line = b'{"pad":"' + b"x" * 989 + b'"}\n'
    size = 96 << 20
    with (tmp_path / "in.json").open("wb") as file:
        file.writelines([line * 1024] * (size >> 20))
    total = (tmp_path / "in.json").stat().st_size
    with ExitStack() as leaving:
        listener = leaving.enter_context(socket.create_server(("127.0.0.1", 0)))
        flow = echo_flow(tmp_path)
        source = lines_in("file", path="in.json", mode="read")
        sink = lines("tcp_client", url=f"127.0.0.1:{listener.getsockname()[1]}")
        flow.write_text(flow.read_text() + flow_of("source -> peer", name="sending", source=source, peer=sink))
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            idle = daemon.memory
            peer, _ = listener.accept()
            leaving.callback(peer.close)
            reason = str(daemon.wait_for("breaker triggered")["reason"])
            assert reason.endswith("does not read what is written to it")
            is_served(Client(port))
            assert daemon.memory <= idle + ALLOWED
            peer.settimeout(PATIENCE)
            came = 0
            while came < total:
                came += len(peer.recv(1 << 18))
            daemon.wait_for("breaker restored")
            assert daemon.process.poll() is None


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed (apt install util-linux)")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_descriptors_run_out(tmp_path: Path, loop: str) -> None:
    flow = echo_flow(tmp_path, chunk_size=64 << 10, max_chunks=64)
    prefix: Sequence[str] = ["prlimit", "--nofile=200:200"]
    line = b'{"pad":"' + b"x" * 1000 + b'"}\n'
    with running(flow, tmp_path, "--loop", loop, prefix=prefix) as daemon:
        port = daemon.port()
        first = Client(port)
        first.send(b"1\n")
        assert first.lines(1) == [b"1"]
        with crowd(port, 180) as sockets:
            assert "64 descriptors" in str(daemon.wait_for("accepting paused")["reason"])
            for _ in range(20):  # new chunks of the log, all the while
                first.send(line * 50)
                assert first.lines(50) == [line[:-1]] * 50
            (tmp_path / "out.log").rename(tmp_path / "out.log.1")
            daemon.process.send_signal(signal.SIGHUP)
            daemon.wait_for("reopening files")
            waiting = Client(port)
            waiting.send(b"2\n")
            served = threading.Event()
            reading = threading.Thread(target=lambda: waiting.lines(1) and served.set())  # type: ignore[func-returns-value]
            reading.start()
            first.send(b"3\n")
            assert first.lines(1) == [b"3"]
            assert not served.is_set()
            for sock in sockets:
                sock.close()
        daemon.wait_for("accepting again")
        reading.join(PATIENCE)
        assert served.is_set()
        for client in (first, waiting):
            client.close()
        assert daemon.terminate() == 0
        assert len(lines_of(daemon, "accepting paused")) <= 10  # places become free one after the other
    assert (tmp_path / "out.log").exists()


def test_paths_in_flow_files_do_not_lead_astray(tmp_path: Path) -> None:
    """`../` is resolved before anything is claimed, so two spellings of one file are one file;
    a link is not followed."""
    outside = tmp_path / "outside.log"
    outside.write_text("mine\n")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link.log").symlink_to(outside)
    flow = echo_flow(tmp_path)
    flow.write_text(flow.read_text().replace('"path": "out.log"', '"path": "link.log"'))
    with running(flow, inside) as daemon:
        reason = str(daemon.wait_for("breaker triggered")["reason"])
        assert "link.log" in reason
        assert "a symbolic link, name the file it points to" in reason
    assert outside.read_text() == "mine\n"
    twice = tmp_path / "twice.troy"
    twice.write_text(
        flow.read_text()
        .replace('"path": "link.log"', '"path": "../inside/out.log"')
        .replace("create connector out;", "create connector out; create connector again from out;")
    )
    check = [sys.executable, "-m", "walflow", "check", str(twice), "--workdir", str(inside)]
    checked = ran(check, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert checked.returncode == 78
    assert f"{inside}/out.log" in checked.stdout
