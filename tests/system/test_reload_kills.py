"""`walflow reload` under load, again and again; and kill -9 of one of the two processes at a random moment of it."""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.flows.builder import LOG, OUT, flow_of, lines, lines_in, plain
from tests.system.daemon import Daemon, free_port
from tests.system.test_http import Sender
from tests.system.test_reload import Reloaded, connected, ids, more
from tests.waiting import PATIENCE, wait_until

KILLS = 8  # 30 were made by hand
RELOADS = 10
LONGEST = 1.0  # seconds after the request for a reload: by then it serves, on a machine that is idle

pytestmark = pytest.mark.nightly


def doors(directory: Path) -> tuple[Path, int]:
    """A flow file, and the port of its HTTP. What it has goes to a file, once."""
    port = free_port()
    posts = plain("http_server", url=f"http://127.0.0.1:{port}").replace("with", 'with codec = "json",', 1)
    tcp = lines("tcp_server", url=f"127.0.0.1:{free_port()}")
    file = directory / "main.troy"
    file.write_text(flow_of("http -> log -> out", "tcp -> log", http=posts, tcp=tcp, log=LOG, out=OUT))
    return file, port


@contextmanager
def sending(port: int) -> Iterator[list[Sender]]:
    stop = threading.Event()
    senders = [Sender(number, port, stop, keyed=True) for number in range(4)]
    for sender in senders:
        sender.start()
    try:
        yield senders
    finally:
        stop.set()
        for sender in senders:
            sender.join(PATIENCE)


def test_whichever_process_is_killed_nothing_is_missing_and_nothing_double(tmp_path: Path) -> None:
    flow, port = doors(tmp_path)
    socket_file, dice = tmp_path / "admin.sock", random.Random(37)
    killed: Counter[str] = Counter()
    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
    try:
        with sending(port) as senders:
            for _ in range(KILLS):
                reloaded = Reloaded(daemon, flow, socket_file)
                reloaded.admin.until_there()
                daemon.last("running")
                more(lambda: [len(sender.acked) for sender in senders])
                old, asked = reloaded.pid(), reloaded.asks()
                new = reloaded.next_pid()
                time.sleep(dice.random() * LONGEST)
                victim = dice.choice((old, new))
                before = reloaded.pid()
                killed[f"{'old' if victim == old else 'new'} {'before' if before == old else 'after'}"] += 1
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                asked.communicate(timeout=PATIENCE)
                if not _somebody_serves(reloaded):  # a supervisor starts it again
                    daemon.kill()
                    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
            reloaded = Reloaded(daemon, flow, socket_file)
            reloaded.admin.until_there()
            daemon.last("running")
            more(lambda: [len(sender.acked) for sender in senders])
        reloaded.ends()
    finally:
        daemon.kill()
    found = ids(tmp_path)
    assert {found[event] for sender in senders for event in sender.acked} == {1}
    assert {moment.split()[0] for moment in killed} == {"old", "new"}, killed


def _somebody_serves(reloaded: Reloaded) -> bool:
    """Within some seconds: an old process that goes on opens its logs first."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        with suppress(OSError):
            if reloaded.admin.get("/readyz")[0] == 200:
                return True
        time.sleep(0.02)
    return False


def test_many_reloads_fail_no_request(tmp_path: Path) -> None:
    flow, port = doors(tmp_path)
    socket_file = tmp_path / "admin.sock"
    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
    try:
        reloaded = Reloaded(daemon, flow, socket_file)
        daemon.wait_for("ready")
        with sending(port) as senders:
            for _ in range(RELOADS):
                more(lambda: [len(sender.acked) for sender in senders])
                reloaded.reloads()
        reloaded.ends()
    finally:
        daemon.kill()
    assert [sender.failures for sender in senders] == [0] * len(senders)
    assert ids(tmp_path) == Counter(event for sender in senders for event in sender.acked)


class Doors:
    """One client for each kind of door. `sent`: what each has sent, and what was answered if its door answers."""

    def __init__(self, directory: Path) -> None:
        self.sent: dict[str, list[str]] = {name: [] for name in ("tcp", "http", "ws", "udp", "syslog", "file")}
        self.enough = threading.Event()
        self.closed: list[int] = []  # codes of WebSockets
        self.ports = {name: free_port() for name in self.sent}
        self._path = directory / "followed.log"
        self._path.touch()
        self._threads = [threading.Thread(target=self._runs, args=(call,), daemon=True) for call in self._calls()]
        self._failed: list[BaseException] = []

    def _calls(self) -> list[Callable[[], None]]:
        return [self._tcp, self._http, self._ws, self._udp, self._syslog, self._file]

    def flow(self) -> str:
        local = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        syslog = 'udp_server with codec = "syslog", config = ' + json.dumps({"url": local["syslog"]}) + " end"
        ways = [f"{name} -> log" for name in self.sent] + ["log -> out", "log -> tcp", "log -> ws"]
        return flow_of(
            *ways,
            tcp=lines("tcp_server", url=local["tcp"]),
            http=plain("http_server", url=f"http://{local['http']}").replace(" with ", ' with codec = "json", '),
            ws=plain("ws_server", url=f"ws://{local['ws']}").replace(" with ", ' with codec = "json", '),
            udp=plain("udp_server", url=local["udp"]).replace(" with ", ' with codec = "json", '),
            syslog=syslog,
            file=lines_in("file", path=str(self._path), mode="read", follow=True),
            log=LOG,
            out=OUT,
        )

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self.enough.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        assert not self._failed, self._failed

    def counts(self) -> list[int]:
        assert not self._failed, self._failed
        return [len(sent) for sent in self.sent.values()]

    def _runs(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # the test says it
            self._failed.append(error)

    def _next(self, name: str) -> str:
        self.enough.wait(0.001)
        return f"{name}-{len(self.sent[name])}"

    def _tcp(self) -> None:
        """Over one connection, from the first to the last reload."""
        with connected(self.ports["tcp"]) as sock, sock.makefile("rb") as answers:
            while not self.enough.is_set():
                event = json.dumps({"id": self._next("tcp")}).encode()
                sock.sendall(event + b"\n")
                assert json.loads(answers.readline()) == json.loads(event)
                self.sent["tcp"].append(json.loads(event)["id"])

    def _http(self) -> None:
        """Likewise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=PATIENCE)
        connection.connect()
        first = connection.sock
        while not self.enough.is_set():
            event = self._next("http")
            connection.request("POST", "/", json.dumps({"id": event}))
            with connection.getresponse() as answer:
                answer.read()
                assert answer.status == 200
            assert connection.sock is first
            self.sent["http"].append(event)
        connection.close()

    def _ws(self) -> None:
        while not self.enough.is_set():
            with connect(f"ws://127.0.0.1:{self.ports['ws']}", open_timeout=PATIENCE) as connection:
                try:
                    while not self.enough.is_set():
                        event = self._next("ws")
                        connection.send(json.dumps({"id": event}))
                        assert json.loads(connection.recv(PATIENCE)) == {"id": event}
                        self.sent["ws"].append(event)
                except ConnectionClosed as error:
                    self.closed.append(error.rcvd.code if error.rcvd is not None else 0)

    def _udp(self) -> None:
        self._datagrams("udp", lambda event: json.dumps({"id": event}).encode())

    def _syslog(self) -> None:
        self._datagrams("syslog", lambda event: f"<13>1 2026-01-01T00:00:00Z host app 1 - - {event}".encode())

    def _datagrams(self, name: str, made: Callable[[str], bytes]) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", self.ports[name]))
            while not self.enough.is_set():
                event = self._next(name)
                sender.send(made(event))
                self.sent[name].append(event)

    def _file(self) -> None:
        with self._path.open("ab", buffering=0) as file:
            while not self.enough.is_set():
                event = self._next("file")
                file.write(json.dumps({"id": event}).encode() + b"\n")
                self.sent["file"].append(event)


def test_many_reloads_with_a_client_at_each_door(tmp_path: Path) -> None:
    """No connection is refused, none ends but a WebSocket, which is told so; all that was sent is there, once."""
    doors_, socket_file, file = Doors(tmp_path), tmp_path / "admin.sock", tmp_path / "main.troy"
    file.write_text(doors_.flow())
    daemon = Daemon(file, tmp_path, admin=f"unix:{socket_file}")
    try:
        reloaded = Reloaded(daemon, file, socket_file)
        daemon.wait_for("ready")
        doors_.begin()
        for _ in range(RELOADS):
            more(doors_.counts)
            reloaded.reloads()
        ended_well(doors_, reloaded, tmp_path, RELOADS)
    finally:
        doors_.enough.set()
        daemon.kill()


def ended_well(doors_: Doors, reloaded: Reloaded, directory: Path, reloads: int) -> None:
    more(doors_.counts)
    doors_.end()
    sent = {event for events in doors_.sent.values() for event in events}
    wait_until(lambda: sent <= delivered(directory).keys(), "some are missing")
    reloaded.ends()
    found = delivered(directory)
    assert doors_.closed == [1012] * reloads
    assert {event for event, count in found.items() if count > 1 and not event.startswith("ws")} == set()
    assert sum(count for event, count in found.items() if event.startswith("ws")) <= len(doors_.sent["ws"]) + reloads


def delivered(directory: Path) -> Counter[str]:
    written = (directory / "out.log").read_bytes().splitlines()
    return Counter(value.get("id") or value["msg"] for value in map(json.loads, written))
