"""A secret at every place of every protocol that is served, well formed and not: it is in no line of the log."""

import os
import signal
import socket
import ssl
import struct
from collections.abc import Iterator

import pytest

from tests.flows.builder import flow_of
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import Daemon, running
from tests.waiting import PATIENCE

SECRET = b"S3CR3T-TOKEN-0123456789"
PORTS = {
    "http": 'http_server with codec = "json", config = {"url": "127.0.0.1:0", "token": {"file": "%s"}} end',
    "ws": 'ws_server with codec = "json", config = {"url": "127.0.0.1:0"} end',
    "tcp": 'tcp_server with codec = "json", preprocessors = ["separate"], config = {"url": "127.0.0.1:0"} end',
    "gelf": (
        'tcp_server with codec = "json", preprocessors = ["length-prefixed"], config = {"url": "127.0.0.1:0"} end'
    ),
    "syslog": 'udp_server with codec = "syslog", config = {"url": "127.0.0.1:0"} end',
}

WAYS = {
    "a carriage return behind it": b"Authorization: Bearer %s\r\r\n",
    "a NUL behind it": b"Authorization: Bearer %s\0\r\n",
    "a control character behind it": b"Authorization: Bearer %s\1\r\n",
    "a space before the colon": b"Authorization : Bearer %s\r\n",
    "folded": b"Authorization: Bearer\r\n %s\r\n",
    "no colon": b"Authorization Bearer %s\r\n",
    "as a name": b"%s: x\r\n",
    "as a bad name": b"(%s): x\r\n",
    "as it should be": b"Authorization: Bearer %s\r\n",
    "twice": b"Authorization: Bearer %s\r\nAuthorization: Bearer %s\r\n".replace(b"%s\r\nA", b"x\r\nA"),
    "a bad length": b"Content-Length: %s\r\n",
    "a bad coding": b"Transfer-Encoding: %s\r\n",
    "a bad encoding": b"Content-Length: 1\r\nContent-Encoding: %s\r\n\r\nx",
    "a host": b"Host: %s\r\n",
    "a bad host": b"Host: [%s\r\n",
    "a cookie": b"Cookie: %s\r\n",
    "a key": b"Idempotency-Key: %s\xff\r\nContent-Length: 1\r\n\r\n1",
    "a body": b"Content-Length: 25\r\n\r\n{%s",
    "a chunk": b"Transfer-Encoding: chunked\r\n\r\n%s\r\n",
    "an upgrade": b"Upgrade: %s\r\nConnection: Upgrade\r\n",
    "an expectation": b"Expect: %s\r\nContent-Length: 1\r\n\r\nx",
}
HEADS = {
    "a path": b"%s /%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a query": b"%s /?%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a path that is no text": b"%s /\xff%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "user info": b"%s http://u:%s@h/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a bad port": b"%s http://h:%s/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a version": b"%s / %s\r\nHost: localhost\r\n\r\n",
    "a method": b"%s%s / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no request": b"%s\0%s\r\n\r\n",
}


def requests(method: bytes) -> Iterator[bytes]:
    for line in WAYS.values():
        yield method + b" / HTTP/1.1\r\nHost: localhost\r\n" + line.replace(b"%s", SECRET) + b"\r\n"
    for head in HEADS.values():
        yield head.replace(b"%s", method, 1).replace(b"%s", SECRET)


def say(port: int, data: bytes) -> None:
    """Until the daemon has answered and closed, or has nothing to say."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass  # reset: it has said what it had to


def client_hello() -> bytes:
    """Of TLS. The name of the server stands in it as it is."""
    written = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), written, server_hostname=SECRET.decode())
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = written.read()
    assert SECRET in hello
    return hello


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, dict[str, int], int]]:
    directory = tmp_path_factory.mktemp("served")
    token = directory / "token"
    token.write_bytes(SECRET + b"\n")
    token.chmod(0o600)
    flow = directory / "main.troy"
    connectors = {name: text.replace("%s", str(token)) for name, text in PORTS.items()}
    flow.write_text(flow_of(*(f"{name} -> gone" for name in connectors), gone="null", **connectors))
    options = ("--admin-token-file", str(token), "--tap", "--log-level", "debug")
    with running(flow, directory, *options, admin=LOOPBACK) as daemon:
        admin = int(Admin(daemon).address.rpartition(":")[2])
        ports: dict[str, int] = {}
        while len(ports) < len(PORTS):
            line = daemon.wait_for("listening")
            name = str(line["component"]).rpartition("/")[2].rpartition("::")[2]
            ports[name] = int(str(line["address"]).rpartition(":")[2])
        yield daemon, ports, admin


def said_nothing(daemon: Daemon, admin: int) -> None:
    """What the daemon has logged so far; its answer comes after the lines of what came before."""
    say(admin, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert daemon.process.poll() is None
    found = [line for line in daemon.raw if SECRET.decode() in line]
    assert not found, found


def test_admin(served: tuple[Daemon, dict[str, int], int]) -> None:
    daemon, _, admin = served
    for method in (b"GET", b"PATCH", b"POST"):
        for data in requests(method):
            say(admin, data)
    for path in (b"/tap?at=%s", b"/tap?where=%s", b"/tap?where=%%22%s", b"/v1/flows/%s", b"/watch?%s"):
        head = b"GET " + path.replace(b"%s", SECRET).replace(b"%%", b"%") + b" HTTP/1.1\r\nHost: localhost\r\n"
        say(admin, head + b"Connection: close\r\nAuthorization: Bearer " + SECRET + b"\r\n\r\n")
    said_nothing(daemon, admin)


def test_http_server(served: tuple[Daemon, dict[str, int], int]) -> None:
    daemon, ports, admin = served
    for method in (b"POST", b"GET", b"PUT"):
        for data in requests(method):
            say(ports["http"], data)
    said_nothing(daemon, admin)


def test_ws_server(served: tuple[Daemon, dict[str, int], int]) -> None:
    daemon, ports, admin = served
    for data in requests(b"GET"):
        say(ports["ws"], data)
    head = b"GET /%s HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" % SECRET
    head += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    good = head + b"dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: " + SECRET + b"\r\n\r\n"
    bad = b"{" + SECRET
    frame = bytes([0x81, 0x80 | len(bad), 0, 0, 0, 0]) + bad
    close = bytes([0x88, 0x80 | (2 + len(SECRET)), 0, 0, 0, 0]) + struct.pack("!H", 1000) + SECRET
    wrong = bytes([0xF1, len(bad)]) + bad  # unmasked, with reserved bits
    for data in (good + frame, good + close, good + wrong, head + SECRET + b"\r\n\r\n"):
        say(ports["ws"], data)
    said_nothing(daemon, admin)


def test_bytes(served: tuple[Daemon, dict[str, int], int]) -> None:
    daemon, ports, admin = served
    for port in (ports["tcp"], ports["gelf"], ports["http"], ports["ws"], admin):
        for data in (
            SECRET,
            SECRET + b"\n",
            b'{"a":' + SECRET + b"\n",
            b"\0" + SECRET,
            b"\xff\xfe" + SECRET + b"\n" * 9,
        ):
            say(port, data)
        say(port, client_hello())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for data in (SECRET, b"<" + SECRET, b"<13>1 " + SECRET, b"<13>1 - - - - - [" + SECRET):
            sock.sendto(data, ("127.0.0.1", ports["syslog"]))
    said_nothing(daemon, admin)


def test_and_the_daemon_says_so_to_its_end(served: tuple[Daemon, dict[str, int], int]) -> None:
    daemon, _, _ = served
    os.kill(daemon.pid, signal.SIGTERM)
    daemon.wait()
    assert not [line for line in daemon.raw if SECRET.decode() in line]
    refused = [line for line in daemon.lines if line.get("component") == "aiohttp.server"]
    assert all(line["level"] == "debug" for line in refused), refused
