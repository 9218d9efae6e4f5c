"""The passwords that walflow says to Kafka and MQTT brokers: no line of the log, no page and no error has one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.flows.builder import flow_of
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import running
from tests.waiting import PATIENCE
from walflow.diagnostics import has_errors, render_all
from walflow.plan import load

SECRET = "S3CR3T-PASSWORD-0123456789"
PAGES = ("/status", "/metrics", "/readyz", "/livez", "/v1/flows", "/v1/flows/main/connectors", "/watch?once", "/")


class Peer:
    """Says to each client what the client has said, or `answer`, and then hangs up.
    `heard`: it has said so to one."""

    def __init__(self, listener: socket.socket, answer: bytes) -> None:
        self.address = "{}:{}".format(*listener.getsockname())
        self.heard = threading.Event()
        self.said = b""
        self._listener = listener
        self._answer = answer

    def serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:  # the test is over
                return
            with sock:
                try:
                    data = sock.recv(1 << 16)
                    self.said += data
                    sock.sendall(self._answer or data)
                    self.heard.set()
                    while sock.recv(1 << 16):
                        pass
                except OSError:
                    pass


@contextmanager
def peer(answer: bytes = b"") -> Iterator[Peer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Peer(listener, answer)
        thread = threading.Thread(target=made.serve)
        thread.start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def connectors_at(kafka: str, mqtt: str, password: str) -> dict[str, str]:
    sasl = f'"sasl": {{"mechanism": "PLAIN", "username": "u", "password": {password}}}'
    debug = '"mode": {"custom": {"rdkafka_options": {"debug": "all"}}}'
    options = '"rdkafka_options": {"debug": "all"}'
    broker = f'"url": "mqtt://{mqtt}", "username": "u", "password": {password}'
    return {
        "consumer": f'kafka_consumer with codec = "json", config = {{"brokers": ["{kafka}"], "topics": ["t"], '
        f'"group_id": "g", {sasl}, {debug}}} end',
        "producer": (
            f'kafka_producer with codec = "json", config = {{"brokers": ["{kafka}"], "topic": "t", {sasl}, '
            f"{options}}} end"
        ),
        "subscriber": (
            f'mqtt_subscriber with codec = "json", config = {{{broker}, "topics": ["t"], "client_id": "s"}} end'
        ),
        "publisher": f'mqtt_publisher with codec = "json", config = {{{broker}, "topic": "t"}} end',
    }


def flow_with(directory: Path, **connectors: str) -> Path:
    flow = directory / "main.troy"
    flow.write_text(flow_of("consumer -> producer", "subscriber -> publisher", **connectors))
    return flow


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("answer", [b"", b"\x20\x03\x00\x86\x00", b"\0\0\0\4\0\0\0\1"])
def test_brokers_that_refuse_or_talk_nonsense(tmp_path: Path, answer: bytes, *, inline: bool) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET)
    file.chmod(0o600)
    password = f'"{SECRET}"' if inline else f'{{"file": "{file}"}}'
    with peer(answer) as kafka, peer(answer) as mqtt:
        flow = flow_with(tmp_path, **connectors_at(kafka.address, mqtt.address, password))
        with running(flow, tmp_path, "--log-level", "debug", "--tap", admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            assert kafka.heard.wait(PATIENCE)
            assert mqtt.heard.wait(PATIENCE)
            daemon.wait_for_one_of("kafka", "connector failed")
            names = [f"main::{name} is" for name in ("consumer", "producer", "publisher", "subscriber")]
            admin.until(lambda admin: all(name in admin.get("/readyz")[1] for name in names))
            pages = {page: admin.get(page)[1] for page in PAGES}
            daemon.terminate()
        assert SECRET.encode() in mqtt.said  # it was said where it belongs
    assert not [line for line in daemon.raw if SECRET in line]
    assert SECRET.encode() not in b"".join(daemon.stdout)
    assert not [page for page, said in pages.items() if SECRET in said]


@pytest.mark.parametrize(
    ("place", "mistake"),
    [
        ('"mechanism": "PLAIN"', '"mechanism": "PLAINX"'),
        ('"mechanism": "PLAIN", ', '"mechanismus": "PLAIN", '),
        ('"username": "u", ', ""),
        ('"password": ', '"passwort": '),
        (f'"password": "{SECRET}"', f'"password": {{"text": "{SECRET}", "file": "f"}}'),
        (f'"password": "{SECRET}"', f'"password": {{\n"file": "f",\n"text": "{SECRET}", "txt": 1\n}}'),
        (f'"password": "{SECRET}"', f'"password": ["{SECRET}"]'),
        ('"topic": "t"', '"topic": 1'),
        ('"rdkafka_options": {', '"rdkafka_options": {"lingr.ms": 1, '),
        ('"rdkafka_options": {', f'"rdkafka_options": {{"sasl.password": "{SECRET}", '),
        ('"mqtt://', f'"mqtt://u:{SECRET}@'),
        ('"mqtt://', '"mqt://'),
    ],
)
def test_mistakes_beside_a_password_in_the_file(tmp_path: Path, place: str, mistake: str) -> None:
    text = connectors_at("127.0.0.1:1", "127.0.0.1:1", f'"{SECRET}"')
    assert any(place in one for one in text.values())
    flow = flow_with(tmp_path, **{name: one.replace(place, mistake) for name, one in text.items()})
    _, found = load([flow])
    assert has_errors(found)
    assert SECRET not in render_all(found)
    assert SECRET not in "".join(f"{one.message}{one.hint}" for one in found)
