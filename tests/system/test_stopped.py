"""The process is stopped (SIGSTOP) for longer than every deadline, and goes on: what its peers sent meanwhile is read
before they are judged."""

import os
import signal
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.flows.builder import ANY_PORT, LOG, flow_of, plain
from tests.system.certificates import Authority
from tests.system.daemon import Client, Daemon, echo_flow, running
from tests.system.test_standstill import holding
from tests.system.test_tls import server_flow
from tests.waiting import PATIENCE

SECONDS = 3  # of every deadline here
NANOS = SECONDS * 1_000_000_000


def stopped(daemon: Daemon, seconds: float = SECONDS * 1.5) -> None:
    os.kill(daemon.pid, signal.SIGSTOP)
    time.sleep(seconds)  # it is what the test is about
    os.kill(daemon.pid, signal.SIGCONT)


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_peer_whose_echoes_wait_in_the_socket_is_kept(tmp_path: Path, loop: str) -> None:
    """Stopped in the midst of work: what an idle loop does first is to read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flow = echo_flow(tmp_path, peer=holding(listener.getsockname()[1], SECONDS))
        with running(flow, tmp_path, "--loop", loop) as daemon:
            client = Client(daemon.port())
            peer, _ = listener.accept()
            peer.settimeout(PATIENCE)
            echoing = threading.Thread(target=_echo, args=(peer,), daemon=True)
            echoing.start()
            over = threading.Event()
            talking = threading.Thread(target=_talk, args=(client, over), daemon=True)
            talking.start()
            for _ in range(3):
                time.sleep(0.5)
                stopped(daemon)
            over.set()
            talking.join(PATIENCE)
            client.send(b"true\n")
            assert client.lines(1) == [b"true"]
            client.close()
            assert daemon.terminate() == 0
            echoing.join(PATIENCE)
        assert not [line for line in daemon.lines if line.get("event") in ("cannot connect", "redelivery")]


def _echo(peer: socket.socket) -> None:
    with peer:
        try:
            while data := peer.recv(1 << 16):
                peer.sendall(data)
        except ConnectionError:
            pass


def _talk(client: Client, over: threading.Event) -> None:
    """So fast that the daemon is always at work."""
    lines = b"1\n" * 100_000
    while not over.is_set():
        client.send(lines)
        _read(client.socket, len(lines))


@pytest.mark.nightly
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_clients_of_a_server_are_not_idle_for_it(tmp_path: Path, loop: str) -> None:
    flow = echo_flow(tmp_path)
    keys = f'"127.0.0.1:0", "idle_timeout": {NANOS}, "first_byte_timeout": {NANOS}'
    flow.write_text(flow.read_text().replace('"127.0.0.1:0"', keys))
    with running(flow, tmp_path, "--loop", loop) as daemon:
        port = daemon.port()
        client, silent = Client(port), Client(port)
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        os.kill(daemon.pid, signal.SIGSTOP)
        client.send(b"2\n")
        silent.send(b"3\n")
        stopped(daemon)
        assert client.lines(1) == [b"2"]
        assert silent.lines(1) == [b"3"]
        client.close()
        silent.close()


@pytest.mark.nightly
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_handshake_goes_on(tmp_path: Path, loop: str) -> None:
    authority = Authority(tmp_path)
    flow = server_flow(tmp_path, **authority.issue("localhost"))
    flow.write_text(flow.read_text().replace('"127.0.0.1:0"', f'"127.0.0.1:0", "handshake_timeout": {NANOS}'))
    with running(flow, tmp_path, "--loop", loop) as daemon:
        port = daemon.port()
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
            sock.sendall(b"\x16")  # the first byte of it
            time.sleep(SECONDS / 3)
            stopped(daemon)
            context = authority.client_context()
            came, goes = ssl.MemoryBIO(), ssl.MemoryBIO()
            peer = context.wrap_bio(came, goes, server_hostname="localhost")
            with pytest.raises(ssl.SSLWantReadError):
                peer.do_handshake()
            sock.sendall(goes.read()[1:])
            came.write(sock.recv(1 << 16))  # its answer: it is still there
            assert came.pending


@pytest.mark.nightly
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_pong_that_waits_in_the_socket_counts(tmp_path: Path, loop: str) -> None:
    flow = tmp_path / "flow.troy"
    ws = plain("ws_server", url=ANY_PORT, ping_interval=500_000_000, pong_timeout=NANOS)
    flow.write_text(flow_of("ws -> log -> ws", ws=ws.replace("with ", 'with codec = "json", '), log=LOG))
    with running(flow, tmp_path, "--loop", loop) as daemon:
        with connect(f"ws://127.0.0.1:{daemon.port()}") as client:
            client.send("1")
            assert client.recv(PATIENCE) == "1"
            stopped(daemon)
            client.send("2")
            assert client.recv(PATIENCE) == "2"
            assert daemon.terminate() == 0
        assert not [line for line in daemon.lines if line.get("event") == "dead client closed"]


def _read(sock: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        read += sock.recv(min(1 << 16, size - len(read)))
    return read
