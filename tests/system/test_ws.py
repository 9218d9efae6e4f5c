"""WebSocket as its users meet it: other people's clients, and clients that mean no good."""

import gzip
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

from tests.system.certificates import Authority
from tests.system.daemon import ROOT, running
from tests.system.test_client import flow_of
from tests.system.warm import ran
from tests.waiting import PATIENCE, wait_until

TOKEN = "s3cr3t-t0k3n"


def server_flow(directory: Path, **config: object) -> Path:
    """flows/echo/ws.troy with these keys as well."""
    flow = flow_of("ws.troy", directory, url='"127.0.0.1:0"')
    keys = "".join(f'      "{key}": {json.dumps(value)},\n' for key, value in config.items())
    flow.write_text(flow.read_text().replace('      "url": args.url,\n', f'      "url": args.url,\n{keys}'))
    return flow


def request(port: int, **headers: str) -> bytes:
    lines = {"Host": f"127.0.0.1:{port}", "Upgrade": "websocket", "Connection": "Upgrade"}
    lines |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13", **headers}
    return b"GET / HTTP/1.1\r\n" + b"".join(f"{k}: {v}\r\n".encode() for k, v in lines.items()) + b"\r\n"


class Raw:
    """A client that says what it likes, frame by frame."""

    def __init__(self, port: int, *, shake: bool = True, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        if shake:
            self.socket.sendall(request(port))
            assert b" 101 " in self.read_until(b"\r\n\r\n")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, opcode: Opcode, data: bytes, *, fin: bool = True) -> None:
        self.send(Frame(opcode, data, fin).serialize(mask=True))

    def read_until(self, end: bytes) -> bytes:
        data = b""
        while not data.endswith(end) and (more := self.socket.recv(1 << 16)):
            data += more
        return data

    def close_code(self) -> int:
        """Of the server's goodbye, to which this answers by leaving."""
        data = b""
        while (at := data.find(b"\x88")) < 0 or len(data) < at + 4:
            more = self.socket.recv(1 << 16)
            assert more, data
            data += more
        self.socket.close()
        return int.from_bytes(data[at + 2 : at + 4], "big")

    def read_to_end(self) -> bytes:
        data = b""
        try:
            while more := self.socket.recv(1 << 16):
                data += more
        except ConnectionResetError:
            pass
        self.socket.close()
        return data


def echoes(client: ClientConnection, *messages: str | bytes) -> None:
    for message in messages:
        client.send(message)
    for message in messages:
        back = client.recv(PATIENCE)
        assert back == (message if isinstance(message, str) else message.decode())


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_messages_come_back_and_are_in_the_file(tmp_path: Path, loop: str) -> None:
    with running(server_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        url = f"ws://127.0.0.1:{daemon.port()}/any/path?will=do"
        with connect(url) as client:
            assert client.protocol.extensions == []  # it offers compression
            echoes(client, '{"id":1}', b'{"id":2}', '{"id":\n3}', '"\u00e4"')
            client.send(['{"id', '":', "4}"])
            assert client.recv(PATIENCE) == '{"id":4}'
            client.send("garbage")
            client.send(b"\xff")
            client.send("")
            assert client.ping().wait(PATIENCE)
            some = [f'{{"id":{number},"pad":"{"x" * (number % 3000)}"}}' for number in range(3000)]
            sender = threading.Thread(target=lambda: [*map(client.send, some)])
            sender.start()
            assert [client.recv(PATIENCE) for _ in some] == some
            sender.join(PATIENCE)
        assert client.close_code == 1000
        assert daemon.terminate() == 0
        stopped = daemon.last("stopped")
        assert (stopped["left"], stopped["rejected_events_total"]) == (0, 3)
    written = (tmp_path / "ws_out.log").read_bytes()
    assert written.startswith(b'{"id":1}\n{"id":2}\n{"id":3}\n"\xc3\xa4"\n{"id":4}\n')
    assert written.splitlines()[5:] == [one.encode() for one in some]


def test_messages_that_hold_something_else(tmp_path: Path) -> None:
    """Lines, cut anywhere; each goes back as a message within its frame."""
    flow = server_flow(tmp_path)
    both = '    codec = "json",\n    preprocessors = ["separate"],\n    postprocessors = ["separate"],\n    config = {\n      "url"'
    flow.write_text(flow.read_text().replace('    codec = "json",\n    config = {\n      "url"', both))
    with running(flow, tmp_path) as daemon:
        with connect(f"ws://127.0.0.1:{daemon.port()}") as client:
            for part in ("1\n2", "3\n", '{"4":\n', "5\n"):
                client.send(part)
            assert [client.recv(PATIENCE) for _ in range(3)] == ["1\n", "23\n", "5\n"]
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["rejected_events_total"] == 1


def test_compressed_by_a_postprocessor_messages_are_binary(tmp_path: Path) -> None:
    flow = server_flow(tmp_path)
    compressed = """    codec = "json",
    postprocessors = [{"name": "compress", "config": {"algorithm": "gzip"}}],
    config = {
      "url\""""
    flow.write_text(flow.read_text().replace('    codec = "json",\n    config = {\n      "url"', compressed))
    with running(flow, tmp_path) as daemon:
        with connect(f"ws://127.0.0.1:{daemon.port()}") as client:
            client.send("[1]")
            client.send("[2]")
            back = [client.recv(PATIENCE), client.recv(PATIENCE)]
        assert [gzip.decompress(one) for one in back if isinstance(one, bytes)] == [b"[1]", b"[2]"]
        assert daemon.terminate() == 0


def test_python_m_websockets(tmp_path: Path) -> None:
    with running(server_flow(tmp_path), tmp_path) as daemon:
        command = [sys.executable, "-m", "websockets", f"ws://127.0.0.1:{daemon.port()}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(b'{"hello":"world"}\n')
            client.stdin.flush()
            said = b""
            while b'< {"hello":"world"}' not in said:
                more = os.read(client.stdout.fileno(), 1 << 16)
                assert more, said
                said += more
            client.terminate()
        assert daemon.terminate() == 0


@pytest.fixture(scope="session")
def wscat(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command, from npm: it is no package of ours, and a build has to have tried it."""
    refuse = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        refuse("wscat needs node and npm: apt-get install nodejs npm")
    assert npm is not None
    assert node is not None
    where = tmp_path_factory.mktemp("npm")
    done = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(where), "wscat@6"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    if done.returncode:
        refuse(f"wscat is not to be had: {done.stdout[-300:]}{done.stderr[-300:]}")
    return [node, str(where / "node_modules" / ".bin" / "wscat")]


def test_wscat_as_a_client(tmp_path: Path, wscat: list[str]) -> None:
    """With a token and a subprotocol: what it gets back it prints."""
    token = {"file": str(tmp_path / "token")}
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with running(server_flow(tmp_path, token=token, subprotocol="events"), tmp_path) as daemon:
        command = [
            *wscat,
            "-c",
            f"ws://127.0.0.1:{daemon.port()}",
            "-s",
            "events",
            "-H",
            f"Authorization: Bearer {TOKEN}",
        ]
        command += ["-x", '{"id":1}', "-w", "1"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:  # open, or it leaves
            assert client.stdout is not None
            assert b'{"id":1}' in client.stdout.read()
            assert client.stdin is not None
            client.stdin.close()
        assert daemon.terminate() == 0


def test_strangers_stay_outside(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    config = {"token": {"file": str(token)}, "subprotocol": "events", "handshake_timeout": 3_000_000_000}
    with running(server_flow(tmp_path, **config), tmp_path) as daemon:
        port = daemon.port()
        url = f"ws://127.0.0.1:{port}"

        def refused(status: int, given: str | None, protocol: str | None = "events") -> None:
            headers = {} if given is None else {"Authorization": given}
            with pytest.raises(InvalidStatus) as error:
                connect(url, additional_headers=headers, subprotocols=[protocol] if protocol else None)  # type: ignore[list-item]
            assert error.value.response.status_code == status

        def let_in(given: str) -> None:
            headers = {"Authorization": f"Bearer {given}"}
            with connect(url, additional_headers=headers, subprotocols=["events"]) as client:  # type: ignore[list-item]
                assert client.subprotocol == "events"
                echoes(client, "1")

        let_in(TOKEN)
        for given in (None, TOKEN, f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN.upper()}"):
            refused(401, given)
        refused(400, f"Bearer {TOKEN}", "others")
        refused(400, f"Bearer {TOKEN}", None)
        token.write_text("new")
        refused(401, f"Bearer {TOKEN}")
        let_in("new")
        token.unlink()
        refused(503, "Bearer new")
        token.write_text(TOKEN)

        for said, answer in [
            (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"401"),
            (b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n", b"426"),
            (b"GET / HTTP/1.1\r\nAuthorization: Bearer \xff\r\n\r\n", b"401"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b""),
            (b"SSH-2.0-x\r\n", b""),
            (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n", b"414"),
            (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", b"431"),
            (b"GET / HTTP/1.1\r\n", b""),  # and no more: handshake_timeout
            (b"", b""),
        ]:
            client = Raw(port, shake=False)
            client.send(said)
            came = client.read_to_end()
            assert answer in came
            assert TOKEN.encode() not in came
        let_in(TOKEN)
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["failed_handshakes_total"] == 19
        assert TOKEN not in "".join(daemon.raw)
        assert [line for line in daemon.lines if line.get("level") == "error"] == [daemon.last("no client is let in")]


def test_what_breaks_the_protocol_or_the_limits_ends_its_own_connection(tmp_path: Path) -> None:
    with running(server_flow(tmp_path, max_event_bytes=1000), tmp_path) as daemon:
        port = daemon.port()
        with connect(f"ws://127.0.0.1:{port}") as witness:
            idle = daemon.memory

            large = Raw(port)
            large.frame(Opcode.TEXT, b"1")
            large.frame(Opcode.TEXT, b"x" * 1001)
            assert large.close_code() == 1009

            endless = Raw(port)
            endless.send(b"\x82\xff" + struct.pack("!Q", 1 << 62) + b"mask")
            endless.send(b"x" * 100_000)
            assert endless.close_code() == 1009

            pieces = Raw(port)
            pieces.frame(Opcode.TEXT, b"x" * 600, fin=False)
            pieces.send(Frame(Opcode.CONT, b"", False).serialize(mask=True) * 100_000)  # none makes it larger
            pieces.frame(Opcode.CONT, b"x" * 401)
            assert pieces.close_code() == 1009

            for data, code in [
                (Frame(Opcode.TEXT, b"1").serialize(mask=False), 1002),
                (Frame(Opcode.CONT, b"1").serialize(mask=True), 1002),
                (b"\x8b\x80mask", 1002),
                (b"\xc1\x80mask", 1002),
                (b"\x89\xfe\x00\x7emask" + b"x" * 126, 1002),
                (Frame(Opcode.CLOSE, b"\x00").serialize(mask=True), 1002),
                (Frame(Opcode.CLOSE, b"\x03\xe8\xff").serialize(mask=True), 1007),
            ]:
                client = Raw(port)
                client.send(data)
                assert client.close_code() == code, data

            broken_off = Raw(port)
            broken_off.frame(Opcode.TEXT, b"12", fin=False)
            broken_off.socket.close()

            echoes(witness, "1", "2")
            witness.send("x" * 1001)
            with pytest.raises(ConnectionClosedError):
                witness.recv(PATIENCE)
            assert witness.close_code == 1009
            assert daemon.memory < idle + (16 << 20)
        assert daemon.terminate() == 0
        stopped = daemon.last("stopped")
        assert stopped["rejected_events_total"] == 4
        assert [line for line in daemon.lines if line.get("level") == "error"] == []


def test_whoever_does_not_read_is_closed_and_nobody_else_notices(tmp_path: Path) -> None:
    """One sends messages, one pings; neither reads."""
    config = {"write_timeout": 1_000_000_000, "write_buffer": 100_000}
    with running(server_flow(tmp_path, **config), tmp_path) as daemon:
        port = daemon.port()

        def flood(opcode: Opcode, data: bytes) -> None:
            mute = Raw(port, receive_buffer=4096)
            frames = Frame(opcode, data).serialize(mask=True) * 500
            try:
                while True:
                    mute.send(frames)
            except ConnectionError:
                mute.socket.close()

        floods = [
            threading.Thread(target=flood, args=(Opcode.TEXT, b'"' + b"x" * 1000 + b'"')),
            threading.Thread(target=flood, args=(Opcode.PING, b"x" * 100)),
        ]
        for thread in floods:
            thread.start()
        with connect(f"ws://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + PATIENCE
            while any(thread.is_alive() for thread in floods):
                echoes(client, *map(str, range(100)))
                assert time.monotonic() < deadline
        for thread in floods:
            thread.join()
        assert daemon.memory < 200 << 20
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["slow_clients_closed_total"] == 2


def client_flow(directory: Path, **config: object) -> Path:
    """flows/echo/client.troy by WebSocket: file -> wal -> ws_client."""
    flow = flow_of("client.troy", directory)
    text = flow.read_text()
    at, end = text.index("  define connector tcp_client"), text.index("  create connector read_file")
    text = (
        text[:at]
        + f'  define connector tcp_client from ws_client args url with codec = "json", config = {json.dumps(config)} end;\n'
        + text[end:]
    )
    flow.write_text(text)
    return flow


def test_a_client_of_ours_and_a_server_of_ours_with_all_that_there_is(tmp_path: Path) -> None:
    """wss://, a token, a subprotocol, compression; idle for longer than the limits; and the server killed once."""
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    both = {
        "token": {"file": str(tmp_path / "token")},
        "subprotocol": "events",
        "compression": True,
        "ping_interval": 500_000_000,
        "pong_timeout": 5_000_000_000,
    }
    server = server_flow(tmp_path, tls=authority.issue("localhost"), **both)
    lines = [b'{"line":%d,"pad":"%s"}' % (number, b"x" * (number % 500)) for number in range(20_000)]
    (tmp_path / "client_in.json").write_bytes(b"\n".join(lines) + b"\n")
    with running(server, tmp_path) as first:
        port = first.port()
        server.write_text(server.read_text().replace("127.0.0.1:0", f"127.0.0.1:{port}"))
        tls = {"cafile": authority.file, "domain": "localhost"}
        client_file = client_flow(tmp_path, url=f"wss://127.0.0.1:{port}", tls=tls, ack="message", **both)
        with running(client_file, tmp_path) as client:
            client.wait_for("connected")
            first.kill()
            client.wait_for("breaker triggered")
            with running(server, tmp_path) as second:
                client.wait_for("connected")
                out = tmp_path / "ws_out.log"
                wait_until(lambda: len(set(out.read_bytes().splitlines())) >= len(lines), lambda: client.raw[-5:])
                time.sleep(1.5)  # of silence: the pings are answered
                client.drained()
                assert second.terminate() == 0
                assert "dead client closed" not in "".join(second.raw)
        assert [line for line in client.lines if line.get("event") == "connected"][2:] == []
    assert set((tmp_path / "ws_out.log").read_bytes().splitlines()) == set(lines)


def test_what_check_says(tmp_path: Path) -> None:
    done = ran(
        [sys.executable, "-m", "walflow", "check", str(server_flow(tmp_path))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done
    assert "WebSocket itself does not tell the client" in " ".join(done.stdout.split())
