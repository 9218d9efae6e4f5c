"""`walflow tap` of a running daemon, as an operator types it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.flows.builder import TCP, flow_of, pipeline, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import ROOT, WALFLOW, Client, Daemon, running
from tests.system.warm import popen
from tests.waiting import PATIENCE

FLOW = flow_of(
    "tcp -> log -> halve -> gone",
    halve=pipeline('into out, err pipeline select {"user": event.user, "half": 10 / event.n} from in into out;'),
    tcp=TCP,
    log=plain("wal", path="log", chunk_size=1 << 20, max_chunks=64),
    gone="null",
)


class Tap:
    """One `walflow tap`. `lines` come as it prints them."""

    def __init__(self, admin: Admin, *arguments: str) -> None:
        command = [*WALFLOW, "tap", "--admin", admin.address, *arguments]
        self._process = popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def end(self) -> tuple[int, str, str]:
        out, err = self._process.communicate(timeout=PATIENCE)
        return self._process.returncode, out.decode(), err.decode()


@contextmanager
def tapped(tmp_path: Path, *options: str) -> Iterator[tuple[Daemon, Admin, Client]]:
    file = tmp_path / "flow.troy"
    file.write_text(FLOW)
    with running(file, tmp_path, *options, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        admin.until_ready()
        client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
        yield daemon, admin, client
        client.close()
        with suppress(ProcessLookupError):  # it has ended already
            daemon.terminate()
        assert daemon.wait() == 0


def open_taps(count: int) -> Any:
    return lambda admin: admin.metrics()["walflow_open_taps", ""] == count


def test_a_tap_shows_events_and_rejected_ones_and_says_what_there_is(tmp_path: Path) -> None:
    with tapped(tmp_path, "--tap", "--tap-redact", "event.user.pin") as (_, admin, client):
        code, out, err = Tap(admin, "main/nothing").end()
        assert (code, out) == (69, "")
        assert err.splitlines() == [
            "walflow: there is no main/nothing; there is:",
            "  main/from_tcp  (in, out)",
            "  main/gone  (err, in, out)",
            "  main/halve  (err, in, out)",
            "  main/log  (err, in, out)",
            "  main/tcp  (err, out)",
        ]
        _, _, err = Tap(admin, "main/log/up").end()
        assert err == "walflow: main/log has no port `up`; it has err, in, out\n"
        _, _, err = Tap(admin, "main/log", "--where", "evnt.n == 1").end()
        assert err.startswith("walflow: --where:1:1: error: unknown constant `evnt`\n    1 | evnt.n == 1\n")
        _, _, err = Tap(admin, "main/log", "--raw").end()
        assert "--raw is not allowed: the daemon redacts events" in err

        whole = Tap(admin, "main/log/out", "--count", "2")
        some = Tap(
            admin, "main/log/in", "--where", "string::len(event.user.name) == 2 and event.n > 0", "--count", "1"
        )
        errors = Tap(admin, "main/halve/err", "--count", "1")
        admin.until(open_taps(3))
        client.send(b'{"n":0,"user":{"name":"ab","pin":1}}\n{"n":5,"user":{"name":"cd","pin":2}}\n')
        first, second = whole.line(), whole.line()
        assert (first["port"], first["position"], second["position"]) == ("main/log/out", 1, 2)
        assert first["event"] == {"n": 0, "user": {"name": "ab", "pin": "redacted"}}
        assert some.line()["event"] == {"n": 5, "user": {"name": "cd", "pin": "redacted"}}
        rejected = errors.line()
        assert rejected["position"] == 1
        error = rejected["event"]
        assert (error["error"], error["source"]) == ("division by zero", "main::halve")
        assert error["at"].endswith("flow.troy:4:84")
        assert error["event"] == {"n": 0, "user": {"name": "ab", "pin": "redacted"}}
        code, out, said = whole.end()
        assert (code, out, said.splitlines()[1:]) == (0, "", ["walflow: 2 events shown"])
        assert [some.end()[0], errors.end()[0]] == [0, 0]
        admin.until(open_taps(0))


def test_without_leave_no_event_is_shown(tmp_path: Path) -> None:
    with tapped(tmp_path) as (_, admin, _):
        refused = "this daemon shows no events; start it with `walflow run --tap` to allow it\n"
        assert admin.get("/tap?at=main/log") == (403, refused)


def test_a_tap_that_does_not_read_loses_and_the_flow_does_not(tmp_path: Path) -> None:
    """It ends with the daemon, which it does not hold up either."""
    with tapped(tmp_path, "--tap") as (_, admin, client):
        host, _, port = admin.address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE) as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            silent.sendall(b"GET /tap?at=main&limit=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            admin.until(open_taps(1))
            events, text = 20_000, b'{"n":1,"user":{"name":"%s"}}\n' % (b"x" * 200)
            sender = threading.Thread(target=client.send, args=(text * events,))
            sender.start()
            admin.until(lambda admin: admin.metrics()["walflow_component_acked_events_total", "gone"] == events)
            sender.join()


def test_who_may_not_open_a_tap_and_one_that_is_open_when_the_daemon_ends(tmp_path: Path) -> None:
    with tapped(tmp_path, "--tap") as (daemon, admin, _):

        def answer(headers: dict[str, str], query: str = "at=main") -> tuple[int, str]:
            return admin.get(f"/tap?{query}", headers)

        assert answer({"Host": "evil.example"})[0] == 403
        assert answer({"Sec-Fetch-Site": "cross-site"}) == (403, "a page of another site may not ask\n")
        assert answer({"Sec-Fetch-Site": "same-site"})[0] == 403
        assert answer({}, "at=main&limit=99999") == (400, "limit: 0 to 10,000 events a second\n")
        assert answer({}, "at=main&colour=red")[0] == 400
        streams = [_stream(admin) for _ in range(4)]
        admin.until(open_taps(4))
        assert answer({}) == (503, "4 taps are open already; the daemon allows no more at a time\n")
        for stream in streams:
            stream.close()
        admin.until(open_taps(0))
        code, out, _ = Tap(admin, "main", "--rate", "--count", "2").end()
        assert (code, len(out.splitlines())) == (0, 2)
        admin.until(open_taps(0))
        tap = Tap(admin, "main", "--rate")
        admin.until(open_taps(1))
        os.kill(daemon.pid, signal.SIGTERM)
        code, _, err = tap.end()
        watching = "walflow: watching main, until Ctrl-C\n"
        assert (code, err) == (69, f"{watching}walflow: the daemon at {admin.address} has ended the tap\n")


def _stream(admin: Admin) -> http.client.HTTPConnection:
    host, _, port = admin.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    connection.request("GET", "/tap?at=main")
    response = connection.getresponse()
    assert json.loads(response.readline())["ports"]
    return connection
