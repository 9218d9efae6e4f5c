"""metronome -> wal -> ws_client -> a listener that is killed again and again: what arrives, by what acks."""

import json
import random
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.frames import Frame, Opcode
from websockets.protocol import CLIENT, SERVER, Protocol

from tests.system.daemon import Daemon, running
from tests.system.listener import Listener
from tests.system.relay import Relay, _read
from tests.system.test_client import flow_of
from tests.waiting import PATIENCE, wait_until

INTERVAL = 200_000  # ns


def client_flow(directory: Path, url: str, interval: int = INTERVAL, **config: object) -> Path:
    """flows/echo/metronome.troy by WebSocket."""
    flow = flow_of("metronome.troy", directory, interval=str(interval))
    text = flow.read_text()
    at, end = text.index("  define connector tcp_client"), text.index("  create connector metronome")
    reconnect = {"retry": {"interval_ms": 20, "growth_rate": 1.2}}
    keys = json.dumps({"url": url, "reconnect": reconnect, **config})
    sink = f'  define connector tcp_client from ws_client args url with codec = "json", config = {keys} end;\n\n'
    flow.write_text(text[:at] + sink + text[end:])
    return flow


class Body:
    """What follows an HTTP head."""

    def __init__(self) -> None:
        self._head: bytes | None = b""

    def of(self, data: bytes) -> bytes:
        if self._head is None:
            return data
        self._head, ended, rest = (self._head + data).partition(b"\r\n\r\n")
        if ended:
            self._head = None
        return rest


class Frames(Relay):
    """`passed`: how often each message went on to a listener. `read`: those with a pong of a listener behind them:
    they were in its process, while the others may have ended in a socket that nobody read any more."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: Counter[bytes] = Counter()
        self.read: set[bytes] = set()
        self._behind: dict[bytes, tuple[list[bytes], int]] = {}  # by the ping: the connection's messages before it

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        wire = Protocol(SERVER, max_size=None)
        body = Body()
        messages: list[bytes] = []
        counted = 0
        while data := _read(client):
            wire.receive_data(body.of(data))
            for event in wire.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.PING:
                    self._behind[bytes(event.data)] = messages, len(messages)
                elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    messages.append(bytes(event.data))
            with suppress(OSError):
                server.sendall(data)
                with self._crossed:
                    self.passed.update(messages[counted:])
                    self._crossed.notify_all()
                counted = len(messages)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        wire = Protocol(CLIENT, max_size=None)
        body = Body()
        while data := _read(server):
            wire.receive_data(body.of(data))
            for event in wire.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.PONG and bytes(event.data) in self._behind:
                    messages, count = self._behind.pop(bytes(event.data))
                    self.read.update(messages[:count])
            with suppress(OSError):
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    def wait_for_messages(self, count: int) -> None:
        """So many more."""
        with self._crossed:
            goal = self.passed.total() + count
            assert self._crossed.wait_for(lambda: self.passed.total() >= goal, PATIENCE), "nothing crosses"


def ids_of(file: Path) -> list[int]:
    return [json.loads(line)["id"] for line in file.read_bytes().splitlines()]


def kill_and_restart(directory: Path, kills: int, *, answers: bool, **config: Any) -> tuple[list[int], int, set[int]]:
    """The ids that the listeners printed, how many the log had, and those that a listener's process had read."""
    out = directory / "out"
    chance = random.Random(kills)
    with Frames() as relay:
        listener = Listener(0, out, answers=answers)
        relay.target = listener.port
        flow = client_flow(directory, f"ws://127.0.0.1:{relay.port}", **config)
        client = Daemon(flow, directory)
        try:
            for _ in range(kills):
                relay.wait_for_messages(chance.randrange(1, 1500))
                listener.freeze()
                relay.wait_for_messages(10)  # so that each kill hits something
                listener.kill()
                listener = Listener(0, out, answers=answers)
                relay.target = listener.port
            relay.wait_for_messages(1000)
            assert client.terminate() == 0
            assert relay.passed.total() > int(str(client.last("log closing")["durable"])) + kills
            assert client.last("stopped")["left"] == 0, "\n".join(client.raw)
            logged = int(str(client.last("log closing")["durable"]))
        finally:
            client.close()
            listener.kill()
        read = {json.loads(message)["id"] for message in relay.read}
    return ids_of(out), logged, read


def sent_back(directory: Path, kills: int) -> None:
    ids, logged, _ = kill_and_restart(directory, kills, answers=True, ack="message", id_field="id")
    assert set(ids) == set(range(logged))
    assert logged > kills * 300  # there was load


def ponged(directory: Path, kills: int) -> str:
    ids, logged, read = kill_and_restart(directory, kills, answers=False)
    lost = set(range(logged)) - set(ids)
    assert lost <= read
    assert logged > kills * 300
    return f"{kills} kills, acks by pong: {len(lost)} of {logged} events were with a listener and are not in its file"


@pytest.mark.nightly
def test_killed_under_load_every_event_arrives_where_it_is_sent_back(tmp_path: Path) -> None:
    sent_back(tmp_path, 6)


@pytest.mark.nightly
def test_killed_under_load_every_event_reaches_a_listener_that_answers_pings(
    tmp_path: Path, record_property: pytest.Function
) -> None:
    record_property("lost", ponged(tmp_path, 6))  # type: ignore[operator]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_fifty_kills_where_events_are_sent_back(tmp_path: Path) -> None:
    sent_back(tmp_path, 50)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_fifty_kills_of_a_listener_that_answers_pings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figure = ponged(tmp_path, 50)
    with capsys.disabled():
        print(f"\n{figure}")  # noqa: T201


def test_the_seeds_scene_shows_event_five(tmp_path: Path) -> None:
    """The seed's listener dies between two events, and its event 5 was lost: written to a connection that nobody
    was left to read. Here the pages' scene, twenty times as fast: whatever was on its way, every event is printed."""
    out = tmp_path / "out"
    listener = Listener(0, out)
    flow = client_flow(tmp_path, f"ws://127.0.0.1:{listener.port}", 50_000_000)
    with running(flow, tmp_path) as client:
        for _ in range(3):
            goal = len(ids_of(out)) + 5
            wait_until(lambda goal=goal: len(ids_of(out)) >= goal)  # type: ignore[misc]
            listener.kill()
            before = ids_of(out)
            client.wait_for("breaker triggered")
            listener = Listener(listener.port, out)
            wait_until(lambda before=before: len(ids_of(out)) > len(before) + 2)  # type: ignore[misc]
        assert client.terminate() == 0
        logged = int(str(client.last("log closing")["durable"]))
        assert client.last("stopped")["left"] == 0
    listener.kill()
    assert sorted(set(ids_of(out))) == list(range(logged))
