"""Many events that are next to nothing: whoever sends them has turns, and a good client is served in between."""

import gzip
import json
import os
import socket
import struct
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from websockets.extensions.permessage_deflate import ServerPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.client import connect

from tests.flows.builder import flow_of, unready
from tests.late import late
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Client, Daemon, running
from tests.system.test_ws import Raw, request
from tests.waiting import PATIENCE, wait_until

ROUNDS = 30  # echoes that a good client waits for, one after the other
PATIENT = 1.0  # seconds that the daemon may compute for others meanwhile; a clock would judge the machine
WINDOW = 8 << 20


def echo_flow(directory: Path, kind: str, *preprocessors: str) -> Path:
    flow = directory / "echo.troy"
    chain = f"preprocessors = {json.dumps(preprocessors)}, " if preprocessors else ""
    chain += 'postprocessors = ["separate"],' if preprocessors else ""
    server = f'{kind} with codec = "json", {chain} config = {{"url": "127.0.0.1:0"}} end'
    flow.write_text(flow_of("server -> server", server=server))
    return flow


def computed(daemon: Daemon) -> float:
    """Seconds so far."""
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def worst(daemon: Daemon, echo: Callable[[int], None], attackers: Sequence[socket.socket], data: bytes) -> float:
    """Seconds that the daemon computed at most until a good client had an echo, while all these send."""

    def attack(sock: socket.socket) -> None:
        try:
            sock.sendall(data)
        except OSError:
            pass  # the daemon was ended first

    threads = [threading.Thread(target=attack, args=(sock,)) for sock in attackers]
    for thread in threads:
        thread.start()
    took = 0.0
    for number in range(ROUNDS):
        begun = computed(daemon)
        echo(number)
        took = max(took, computed(daemon) - begun)
        time.sleep(0.01)  # the attack goes on meanwhile
    for sock in attackers:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()
    for thread in threads:
        thread.join(PATIENCE)
    return took


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize(
    ("preprocessors", "data", "attackers"),
    [
        (("separate",), b"\n" * 4_000_000, 5),
        *late((("decompress", "separate"), gzip.compress(b"\n" * 30_000_000), 5)),
        (("decompress", "separate", "remove-empty"), gzip.compress(b"\n" * 30_000_000), 5),
    ],
    ids=["empty lines", "compressed empty lines", "compressed nothing"],
)
def test_empty_lines(tmp_path: Path, loop: str, preprocessors: Sequence[str], data: bytes, attackers: int) -> None:
    flow = echo_flow(tmp_path, "tcp_server", *preprocessors)
    with running(flow, tmp_path, "--loop", loop) as daemon:
        port = daemon.port()
        good = Client(port)

        def echo(number: int) -> None:
            line = b"%d" % number
            good.send(gzip.compress(line + b"\n") if "decompress" in preprocessors else line + b"\n")
            assert good.lines(1) == [line]

        echo(0)
        sockets = [socket.create_connection(("127.0.0.1", port), PATIENCE) for _ in range(attackers)]
        took = worst(daemon, echo, sockets, data)
        good.close()
        assert took < PATIENT
        assert daemon.terminate() == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize(
    "data",
    [
        Frame(Opcode.TEXT, b"", False).serialize(mask=True)
        + Frame(Opcode.CONT, b"", False).serialize(mask=True) * 10**6,
        *late(
            Frame(Opcode.TEXT, b"1").serialize(mask=True) * 10**6,
            Frame(Opcode.PONG, b"").serialize(mask=True) * 10**6,
        ),
    ],
    ids=["fragments", "messages", "pongs"],
)
def test_small_frames(tmp_path: Path, loop: str, data: bytes) -> None:
    with running(echo_flow(tmp_path, "ws_server"), tmp_path, "--loop", loop) as daemon:
        port = daemon.port()
        with connect(f"ws://127.0.0.1:{port}", compression=None) as good:

            def echo(number: int) -> None:
                good.send(str(number))
                assert good.recv(PATIENCE) == str(number)

            echo(0)
            assert worst(daemon, echo, [Raw(port).socket for _ in range(10)], data) < PATIENT
        assert daemon.terminate() == 0


def megabyte(mask: bytes) -> bytes:
    """A message that takes a kilobyte on its way."""
    deflate = zlib.compressobj(wbits=-15)
    small = deflate.compress(b'"' + b"0" * 999_998 + b'"') + deflate.flush(zlib.Z_FULL_FLUSH)[:-4]
    return bytes([0xC1, 0x7E | (0x80 if mask else 0)]) + struct.pack("!H", len(small)) + mask + small


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_what_is_inflated_counts(tmp_path: Path, loop: str) -> None:
    """250 MB in 260 KB: no more of it is inflated than the window holds, and all of it comes."""
    message = megabyte(mask=bytes(4))
    (tmp_path / "up").touch()
    flow = tmp_path / "held.troy"
    server = 'ws_server with codec = "json", config = {"url": "127.0.0.1:0", "compression": true} end'
    flow.write_text(flow_of("server -> held", server=server, held=unready(tmp_path)))
    with running(flow, tmp_path, "--loop", loop, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        port = daemon.port()
        admin.until_ready()
        idle = daemon.memory
        client = Raw(port, shake=False)
        client.send(request(port, **{"Sec-WebSocket-Extensions": "permessage-deflate"}))
        assert b"permessage-deflate" in client.read_until(b"\r\n\r\n")
        client.send(message * 250)

        def received() -> float:
            return admin.metrics()["walflow_component_received_events_total", "server"]

        wait_until(lambda: received() * 1_000_000 > WINDOW)
        before = received()
        assert before * 1_000_000 <= 2 * WINDOW
        assert daemon.memory <= idle + 4 * WINDOW
        (tmp_path / "ack").touch()
        wait_until(lambda: received() == 250)
        assert daemon.memory <= idle + 8 * WINDOW
        client.socket.close()
        assert daemon.terminate() == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("ack", ["written", *late("pong")])
def test_what_a_server_makes_a_client_inflate_counts(tmp_path: Path, loop: str, ack: str) -> None:
    """The same from the other side, and the server closes right behind it."""
    (tmp_path / "up").touch()
    flow = tmp_path / "held.troy"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = {"url": f"127.0.0.1:{listener.getsockname()[1]}", "compression": True, "ack": ack}
        client = f'ws_client with codec = "json", config = {json.dumps(config)} end'
        flow.write_text(flow_of("client -> held", client=client, held=unready(tmp_path)))
        with running(flow, tmp_path, "--loop", loop, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            listener.settimeout(PATIENCE)
            peer, _ = listener.accept()
            with peer:
                accept_compressed(peer)
                idle = daemon.memory
                peer.sendall(megabyte(mask=b"") * 250)
                peer.shutdown(socket.SHUT_WR)

                def received() -> float:
                    return admin.metrics()["walflow_component_received_events_total", "client"]

                wait_until(lambda: received() * 1_000_000 > WINDOW)
                assert received() * 1_000_000 <= 2 * WINDOW
                assert daemon.memory <= idle + 4 * WINDOW
                (tmp_path / "ack").touch()
                wait_until(lambda: received() == 250)
                assert daemon.memory <= idle + 8 * WINDOW
            assert daemon.terminate() == 0


def accept_compressed(peer: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += peer.recv(1 << 16)
    answer = ServerProtocol(extensions=[ServerPerMessageDeflateFactory()])
    answer.receive_data(head)
    (asked,) = answer.events_received()
    assert isinstance(asked, Request)
    answer.send_response(answer.accept(asked))
    peer.sendall(b"".join(answer.data_to_send()))
