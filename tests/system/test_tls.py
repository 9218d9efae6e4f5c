"""TLS as its users meet it: certificates that are right, wrong, renewed, and what is said of each."""

import json
import os
import re
import signal
import socket
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.late import late
from tests.system.admin import LOOPBACK, Admin
from tests.system.certificates import Authority
from tests.system.daemon import ROOT, Client, Daemon, echo_flow, running
from tests.system.test_client import flow_of
from tests.system.warm import ran
from tests.waiting import PATIENCE, wait_until

CANARY = "canary-5ec12e7"


def server_flow(directory: Path, **tls: object) -> Path:
    """tcp -> wal -> file and back, with these keys of `tls`."""
    flow = echo_flow(directory)
    keys = f'"url": "127.0.0.1:0", "tls": {json.dumps(tls)}'
    flow.write_text(flow.read_text().replace('"url": "127.0.0.1:0"', keys))
    return flow


def client_flow(directory: Path, url: str, tls: object) -> Path:
    flow = flow_of("client.troy", directory, url=f'"{url}"')
    flow.write_text(flow.read_text().replace('"ack": "echo"', f'"ack": "echo", "tls": {json.dumps(tls)}'))
    return flow


class TlsClient(Client):
    def __init__(self, port: int, context: ssl.SSLContext, name: str = "localhost") -> None:
        super().__init__(port)
        self.socket = context.wrap_socket(self.socket, server_hostname=name)

    @property
    def serial(self) -> object:
        """Of the server's certificate."""
        assert isinstance(self.socket, ssl.SSLSocket)
        return (self.socket.getpeercert() or {})["serialNumber"]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_lines_come_back_whole(tmp_path: Path, loop: str, version: ssl.TLSVersion) -> None:
    authority = Authority(tmp_path)
    context = authority.client_context()
    context.maximum_version = version
    lines = [b'{"id":%d,"pad":"%s"}' % (number, b"x" * (number % 3000)) for number in range(3000)]
    with running(server_flow(tmp_path, **authority.issue("localhost")), tmp_path, "--loop", loop) as daemon:
        client = TlsClient(daemon.port(), context)
        for start in range(0, len(lines), 300):
            some = lines[start : start + 300]
            client.send(b"\n".join(some) + b"\n")
            assert client.lines(len(some)) == some
        client.socket.close()
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes().splitlines() == lines


def test_what_does_not_speak_tls_is_told_apart_and_holds_up_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with running(server_flow(tmp_path, **authority.issue("localhost")), tmp_path) as daemon:
        port = daemon.port()
        plain = Client(port)
        plain.send(b'{"a":1}\n')
        assert daemon.wait_for("TLS handshake failed")["reason"] == "it does not speak TLS"
        assert plain.socket.recv(100)[:1] in (b"", b"\x15")  # nothing, or an alert
        plain.close()
        web = Client(port)
        web.send(b"GET / HTTP/1.1\r\n\r\n")
        assert daemon.wait_for("TLS handshake failed")["reason"] == "it does not speak TLS"
        web.close()
        client = TlsClient(port, authority.client_context())
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        client.close()
        assert daemon.terminate() == 0
        assert daemon.last("stopped")["failed_handshakes_total"] == 2


def refused(port: int, context: ssl.SSLContext) -> bool:
    """In TLS 1.3 a client learns what the server thinks of its certificate with the first read."""
    sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
    try:
        with context.wrap_socket(sock, server_hostname="localhost") as client:
            client.sendall(b"1\n")
            return client.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True
    finally:
        sock.close()


def test_client_certificates(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "strangers")
    tls = authority.issue("localhost") | {"client_ca": authority.file, "client_names": ["edge-1", "edge-2"]}
    with running(server_flow(tmp_path, **tls), tmp_path) as daemon:
        port = daemon.port()
        for own, reason in [
            (None, "it sent no certificate, and client_ca requires one"),
            (stranger.issue("edge-1"), "its certificate is not accepted: unable to get local issuer certificate"),
            (authority.issue("edge-3"), "its certificate is for edge-3, which is not among client_names"),
        ]:
            assert refused(port, authority.client_context(own))
            assert daemon.wait_for("TLS handshake failed")["reason"] == reason
        client = TlsClient(port, authority.client_context(authority.issue("edge-2")))
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        client.close()
        assert daemon.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == b"1\n"


def test_an_old_tls_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with running(server_flow(tmp_path, min_version="1.3", **authority.issue("localhost")), tmp_path) as daemon:
        assert refused(daemon.port(), old)
        assert daemon.wait_for("TLS handshake failed")["reason"] == "its TLS is older than min_version"


def test_a_certificate_is_renewed_while_connections_stay(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.client_context()
    certificate = authority.issue("localhost")
    with running(server_flow(tmp_path, **certificate), tmp_path) as daemon:
        port = daemon.port()
        before = TlsClient(port, context)
        authority.issue("localhost")
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("certificates reloaded")
        after = TlsClient(port, context)
        assert after.serial != before.serial
        Path(certificate["key"]).write_text("no key")
        daemon.process.send_signal(signal.SIGHUP)
        error = str(daemon.wait_for("certificates not reloaded")["error"])
        assert certificate["key"] in error
        last = TlsClient(port, context)
        assert last.serial == after.serial
        for client in (before, after, last):
            client.send(b"1\n")
            assert client.lines(1) == [b"1"]
            client.close()
        assert daemon.terminate() == 0


def test_a_certificate_that_ends_is_told_by_a_line_and_a_metric(tmp_path: Path) -> None:
    authority, now = Authority(tmp_path), datetime.now(UTC)
    past, ends = now - timedelta(days=100), now + timedelta(days=5)
    expired = authority.issue("localhost", not_before=past, not_after=now - timedelta(days=1))
    with running(server_flow(tmp_path, **expired), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        line = daemon.wait_for("certificate not valid")
        assert (line["file"], str(line["reason"])[:18]) == (expired["cert"], "it has expired on ")
        assert refused(daemon.port(), authority.client_context())
        assert daemon.wait_for("TLS handshake failed")["reason"] == "to it, our certificate has expired"
        authority.issue("localhost", not_before=past, not_after=ends)
        daemon.process.send_signal(signal.SIGHUP)
        assert daemon.wait_for("certificate expires soon")["days"] == pytest.approx(5, abs=0.1)
        told = admin.get("/metrics")[1]
        found = re.search(r"^walflow_component_certificate_expiry_timestamp_seconds\{.*} (\S+)$", told, re.MULTILINE)
        assert found is not None
        assert float(found[1]) == pytest.approx(ends.timestamp(), abs=1)
        assert daemon.terminate() == 0


def test_client_and_server_trust_each_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "client_in.json").write_bytes(b"1\n2\n3\n")
    tls = authority.issue("server.example") | {"client_ca": authority.file, "client_names": ["edge-1"]}
    with running(server_flow(tmp_path, **tls), tmp_path) as server:
        own = authority.issue("edge-1") | {"cafile": authority.file, "domain": "server.example"}
        with running(client_flow(tmp_path, f"127.0.0.1:{server.port()}", own), tmp_path) as client:
            out = tmp_path / "out.log"
            wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") == 3)
            client.drained()
        assert server.terminate() == 0
    assert (tmp_path / "out.log").read_bytes() == b"1\n2\n3\n"


@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        (True, "TLS: its certificate is not accepted: unable to get local issuer certificate"),
        (
            {"cafile": "ca.pem", "domain": "other.example"},
            "TLS: its certificate is not accepted: Hostname mismatch, certificate is not valid for 'other.example'.",
        ),
    ],
)
def test_a_client_sends_nothing_to_a_stranger(tmp_path: Path, tls: object, reason: str) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "client_in.json").write_bytes(b"1\n")
    with running(server_flow(tmp_path, **authority.issue("server.example")), tmp_path) as server:
        with running(client_flow(tmp_path, f"127.0.0.1:{server.port()}", tls), tmp_path) as client:
            assert client.wait_for("cannot connect")["reason"] == reason
        server.wait_for("TLS handshake failed")
    assert (tmp_path / "out.log").read_bytes() == b""


def test_a_client_that_wants_tls_from_a_server_without(tmp_path: Path) -> None:
    (tmp_path / "client_in.json").write_bytes(b"1\n")
    with running(echo_flow(tmp_path), tmp_path) as server:
        with running(client_flow(tmp_path, f"127.0.0.1:{server.port()}", tls=True), tmp_path) as client:
            server.wait_for("rejected")  # its hello is no JSON
            assert client.process.poll() is None


@pytest.mark.parametrize("place", ["file", *late("env", "credential", "inline")])
def test_a_secret_is_shown_nowhere(tmp_path: Path, place: str) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("localhost", password=CANARY)
    (tmp_path / "password").write_text(CANARY + "\n")
    environment = {"KEY_PASSWORD": CANARY, "CREDENTIALS_DIRECTORY": str(tmp_path)}
    secret: object = {
        "file": {"file": str(tmp_path / "password")},
        "env": {"env": "KEY_PASSWORD"},
        "credential": {"credential": "password"},
        "inline": CANARY,
    }[place]
    flow = server_flow(tmp_path, **certificate, key_password=secret)
    for as_json in ([], ["--json"]):
        check = [sys.executable, "-m", "walflow", "check", str(flow), *as_json]
        checked = ran(check, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert CANARY not in checked.stdout + checked.stderr
        assert ("stands in the flow file" in checked.stdout) is (place == "inline")
    show = [sys.executable, "-m", "walflow", "connectors", "show", "tcp_server", "--json"]
    shown = ran(
        show, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=True, env=os.environ | environment
    )
    assert CANARY not in shown.stdout + shown.stderr
    with running(flow, tmp_path, "--log-level", "debug", environment=environment) as daemon:
        client = TlsClient(daemon.port(), authority.client_context())
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        client.close()
        daemon.process.send_signal(signal.SIGHUP)
        daemon.wait_for("certificates reloaded")
        if place == "file":
            (tmp_path / "password").write_text(CANARY + "-wrong")
            daemon.process.send_signal(signal.SIGHUP)
            assert "key_password is wrong" in str(daemon.wait_for("certificates not reloaded")["error"])
        assert daemon.terminate() == 0
    assert CANARY not in "\n".join(daemon.raw)


def test_an_encrypted_key_without_a_password_asks_nobody(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("localhost", password=CANARY)
    daemon = Daemon(server_flow(tmp_path, **certificate), tmp_path)
    try:
        error = str(daemon.wait_for("connector failed")["error"])
        assert error.startswith("cannot use certificate")
        assert "key_password is wrong or missing" in error
    finally:
        daemon.kill()


def test_open_to_the_network_is_said_unless_there_is_a_reason(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    text = flow.read_text()
    flow.write_text(text.replace("127.0.0.1:0", "0.0.0.0:0"))
    with running(flow, tmp_path) as daemon:
        assert "open to the network without TLS" in str(daemon.wait_for("insecure")["reason"])
    flow.write_text(text.replace('"127.0.0.1:0"', '"0.0.0.0:0", "insecure": "a test"'))
    with running(flow, tmp_path) as daemon:
        daemon.port()
        assert "insecure" not in [line.get("event") for line in daemon.lines]
