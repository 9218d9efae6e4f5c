"""Every event has an outcome, with a daemon and a server that answers as it likes: what is rejected beside what fails
is in the file of rejected events, and a bad event takes no good one along."""

import json
import os
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.flows.builder import ANY_PORT, flow_of, json_only, lines_in, lines_out, pipeline, plain
from tests.system import warm
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import WALFLOW, Client, Daemon, running
from tests.system.test_kv_dns import name_server
from tests.waiting import PATIENCE, wait_until


class Server:
    """`answer`: the status for the ids of a request. `taken`: all ids that were answered with 200."""

    def __init__(self, answer: Callable[[list[int]], int]) -> None:
        self.answer = answer
        self.taken: list[int] = []
        self.requests = 0
        self.port = 0


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            ids = [json.loads(line)["id"] for line in body.splitlines()]
            with lock:
                server.requests += 1
                status = server.answer(ids)
                if status == 200:
                    server.taken += ids
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Not to the test's output."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def flow(directory: Path, out: str, **log: int) -> Path:
    """From TCP through a log to `out`; what neither can take goes to `dead`."""
    file = directory / "main.troy"
    file.write_text(
        flow_of(
            "tcp -> log -> out",
            "out/err -> dead",
            "log/err -> dead",
            tcp=lines_in("tcp_server", url=ANY_PORT),
            log=plain("wal", path="state", **log),
            out=out,
            dead=lines_out("file", path="dead.jsonl", mode="append"),
        )
    )
    return file


def http(server: Server, **config: object) -> str:
    return json_only("http_client", url=f"http://127.0.0.1:{server.port}/", **config)


def records(directory: Path) -> list[dict[str, Any]]:
    dead = directory / "dead.jsonl"
    return [json.loads(line) for line in dead.read_text().splitlines()] if dead.exists() else []


def test_an_event_that_fails_beside_one_that_is_rejected_is_rejected_later(tmp_path: Path) -> None:
    """400 for the first, 500 a few times for the second, and then 400: it was acked and delivered nowhere."""
    asked: list[int] = []

    def answer(ids: list[int]) -> int:
        asked.extend(ids)
        return 400 if 1 in ids or asked.count(2) > 4 else 500

    with (
        serving(Server(answer)) as server,
        running(flow(tmp_path, http(server, attempts=1), max_attempts=2), tmp_path) as daemon,
    ):
        client = Client(daemon.port())
        client.send(b'{"id":1}\n{"id":2}\n')
        wait_until(lambda: len(records(tmp_path)) == 2)
        assert sorted(record["event"]["id"] for record in records(tmp_path)) == [1, 2]
        client.close()
        assert daemon.terminate() == 0, daemon.raw


def test_a_bad_event_takes_no_good_one_along(tmp_path: Path) -> None:
    """Of a batch of lines the server refuses all with 500 for one of them. The good ones pass; the bad one waits, and
    is shown, until so many failures count; then it leaves by err, with what was known of it."""
    with (
        serving(Server(lambda ids: 500 if 0 in ids else 200)) as server,
        running(
            flow(tmp_path, http(server, batch="lines", max_batch_events=100, attempts=1), max_attempts=2),
            tmp_path,
            admin=LOOPBACK,
        ) as daemon,
    ):
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b"".join(b'{"id":%d}\n' % number for number in range(501)))
        wait_until(lambda: len(server.taken) == 500, f"{len(server.taken)} were taken")
        assert sorted(server.taken) == list(range(1, 501))

        def stuck() -> str:
            return warm.said([*WALFLOW, "status", "--stuck", "--admin", admin.address])

        number = 501

        said = [stuck()]

        def shown() -> bool:
            """Each event that passes lets one attempt count."""
            nonlocal number
            client.send(b'{"id":%d}\n' % number)
            number += 1
            return bool(records(tmp_path))

        wait_until(shown)
        assert "500 Internal Server Error" in said[0], said
        (record,) = records(tmp_path)
        assert record["event"] == {"id": 0}
        assert (record["source"], record["sink"], record["attempts"], record["position"]) == (
            "main::log",
            "main::out",
            2,
            1,
        )
        assert "500" in record["cause"]
        wait_until(lambda: len(server.taken) == number - 1)
        client.close()
        assert daemon.terminate() == 0, daemon.raw


def test_bad_events_as_many_as_the_log_may_send_hold_up_nothing(tmp_path: Path) -> None:
    """Three bad events come first, and two may be unacked: the sink has nothing else in hand, and would wait for
    ever. It hands them back, and the good ones pass."""
    with serving(Server(lambda ids: 500 if min(ids) < 3 else 200)) as server:
        file = flow(tmp_path, http(server, attempts=3), read_count=2)
        with running(file, tmp_path) as daemon:
            client = Client(daemon.port())
            client.send(b"".join(b'{"id":%d}\n' % number for number in range(100)))
            wait_until(lambda: len(server.taken) >= 97, "the good ones wait")
            assert sorted(server.taken) == list(range(3, 100))
            server.answer = lambda ids: 200
            wait_until(lambda: len(server.taken) == 100, "the others wait")
            client.close()
            assert daemon.terminate() == 0, daemon.raw


@contextmanager
def ending_at(bad: int, taken: list[int]) -> Iterator[int]:
    """A WebSocket server that sends each event back, and ends the connection at one. Yields its port."""

    def serve_one(connection: ServerConnection) -> None:
        try:
            for message in connection:
                number = json.loads(message)["id"]
                if number == bad:
                    connection.socket.shutdown(socket.SHUT_RDWR)
                    return
                connection.send(message)
                taken.append(number)
        except ConnectionClosed:
            pass

    with serve(serve_one, "127.0.0.1", 0, ping_interval=None) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


def test_an_event_that_ends_each_connection_holds_up_no_other(tmp_path: Path) -> None:
    taken: list[int] = []
    with ending_at(7, taken) as port:
        retry = {"retry": {"interval_ms": 10}}
        out = json_only("ws_client", url=f"ws://127.0.0.1:{port}/", ack="message", reconnect=retry)
        file = flow(tmp_path, out, max_attempts=2)
        with running(file, tmp_path) as daemon:
            client = Client(daemon.port())
            client.send(b"".join(b'{"id":%d}\n' % number for number in range(20)))
            wait_until(lambda: set(taken) == {*range(20)} - {7})
            number = 20
            while not records(tmp_path):
                client.send(b'{"id":%d}\n' % number)
                wait_until(partial(taken.__contains__, number))
                number += 1
            assert [record["event"]["id"] for record in records(tmp_path)] == [7]
            client.close()
            assert daemon.terminate() == 0, daemon.raw


def test_an_event_that_ends_each_connection_of_an_echoing_peer_holds_up_no_other(tmp_path: Path) -> None:
    taken: list[int] = []
    connections: list[int] = []  # that have ended, when the first newer event was taken

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                if json.loads(line)["id"] == 0:
                    connections.append(0)
                    return
                self.wfile.write(line)
                taken.append(json.loads(line)["id"])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        retry = {"retry": {"interval_ms": 10}}
        out = lines_out("tcp_client", url=f"127.0.0.1:{server.server_address[1]}", ack="echo", reconnect=retry)
        file = flow(tmp_path, out, max_attempts=2)
        with running(file, tmp_path) as daemon:
            client = Client(daemon.port())
            client.send(b'{"id":0}\n')
            wait_until(lambda: connections)
            number = 1
            while not records(tmp_path):
                client.send(b'{"id":%d}\n' % number)
                wait_until(partial(taken.__contains__, number))
                if number == 1:
                    assert len(connections) < 8  # of the 12 that a peer which is away has
                number += 1
            assert [record["event"]["id"] for record in records(tmp_path)] == [0]
            client.close()
            assert daemon.terminate() == 0, daemon.raw
        server.shutdown()
        thread.join()


def test_status_says_why_an_event_stays_and_what_to_do(tmp_path: Path) -> None:
    server = Server(lambda ids: 500 if 7 in ids else 200)
    with serving(server):
        file = flow(tmp_path, http(server, timeout=10_000_000_000))
        with running(file, tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            client = Client(daemon.port())
            client.send(b"".join(b'{"id":%d}\n' % number for number in range(20)))

            def out() -> dict[str, Any]:
                found: dict[str, Any] = admin.status()["flows"][0]["connectors"][2]
                return found

            admin.until(lambda _: out()["events"]["acked"] == 19 and "position 8" in out()["failure"]["advice"])
            failure = out()["failure"]
            assert failure["cause"] == "500 Internal Server Error"
            assert (failure["first"], failure["waiting"], failure["position"]) == (8, 1, 8)
            way_out = (
                "max_attempts of log lets the event at position 8 leave by err; or stop walflow and take it out: "
                f"walflow wal skip {tmp_path / 'state'} 8"
            )
            assert failure["advice"].split("; ", 1)[-1] == way_out or failure["advice"] == way_out
            admin.until(lambda _: out()["requests"] is not None and out()["requests"]["p99"] > 0)
            seen = admin.get("/metrics")[1]
            assert re.search(r'walflow_component_request_seconds_count{.*outcome="taken".*} 19.0', seen)
            values = admin.metrics()
            assert values["walflow_component_failing_seconds", "out"] > 0
            assert values["walflow_component_failed_tries_total", "out"] > 2
            client.close()


def test_a_stop_does_not_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    server = Server(lambda ids: 200)
    with serving(server):
        file = flow(tmp_path, http(server, timeout=10_000_000_000), max_attempts=2)
    with running(file, tmp_path, "--drain-seconds", "1000", admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b"".join(b'{"id":%d}\n' % number for number in range(20)))
        daemon.wait_for("breaker triggered")
        admin.until(lambda admin: admin.metrics()["walflow_wal_backlog_events", "log"] == 20)
        client.close()
        assert daemon.terminate() == 0
        assert daemon.last("drain is over")["reason"] == "main::out takes no events"
        assert daemon.last("stopped")["left"] == 20


@pytest.mark.parametrize("kind", ["kv", "http_client", "dns_client"])
def test_a_stop_does_not_wait_for_whoever_is_to_get_the_answers_and_is_away(tmp_path: Path, kind: str) -> None:
    """The log has the events. Without an answer delivered none of them is acked."""
    away = Server(lambda ids: 200)
    with serving(away):
        out = http(away, timeout=10_000_000_000)
    with ExitStack() as ends:
        if kind == "kv":
            asked = plain("kv", path="store")
        elif kind == "http_client":
            asked = http(ends.enter_context(serving(Server(lambda ids: 200))), responses=True)
        else:
            asked = plain("dns_client", servers=[ends.enter_context(name_server())])
        file = tmp_path / "main.troy"
        meta = 'let $kv = {"put": "a"}; let $dns = {"lookup": {"name": "a.test", "type": "A"}}; event'
        file.write_text(
            flow_of(
                "tcp -> log -> asking -> asked -> out",
                tcp=lines_in("tcp_server", url=ANY_PORT),
                log=plain("wal", path="state"),
                asking=pipeline(
                    f"define script s script {meta} end; create script s; select event from in into s; "
                    "select event from s into out"
                ),
                asked=asked,
                out=out,
            )
        )
        daemon = ends.enter_context(running(file, tmp_path, "--drain-seconds", "1000", admin=LOOPBACK))
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b"".join(b'{"id":%d}\n' % number for number in range(20)))
        daemon.wait_for("breaker triggered")
        admin.until(lambda admin: admin.metrics()["walflow_wal_backlog_events", "log"] == 20)
        client.close()
        assert daemon.terminate() == 0
        assert daemon.last("drain is over")["reason"] == "main::out takes no events"
        assert daemon.last("stopped")["left"] == 20


def test_a_stop_does_not_wait_for_events_that_have_failed(tmp_path: Path) -> None:
    server = Server(lambda ids: 500 if 7 in ids else 200)
    with serving(server):
        file = flow(tmp_path, http(server, timeout=10_000_000_000))
        with running(file, tmp_path, "--drain-seconds", "1000", admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            client = Client(daemon.port())
            client.send(b"".join(b'{"id":%d}\n' % number for number in range(20)))
            admin.until(lambda admin: admin.metrics()["walflow_wal_acked_events_total", "log"] == 19)
            admin.until(lambda admin: admin.metrics()["walflow_component_failed_tries_total", "out"] > 2)
            client.close()
            assert daemon.terminate() == 0
            assert daemon.last("drain is over")["reason"] in (
                "what main::log has left has failed",
                "main::out takes no events",  # while it tries this event alone
            )
            assert daemon.last("stopped")["left"] == 1


def test_a_stop_waits_for_the_second_try_of_what_has_failed_once(tmp_path: Path) -> None:
    draining = threading.Event()
    tries: list[list[int]] = []

    def answer(ids: list[int]) -> int:
        tries.append(ids)
        if len(tries) == 2:  # the others were taken by then, so it is no outage
            return 500
        if len(tries) > 2:
            assert draining.wait(PATIENCE)
        return 200

    server = Server(answer)
    with serving(server):
        file = flow(tmp_path, http(server, timeout=10_000_000_000))
        with running(file, tmp_path, "--drain-seconds", "1000", admin=LOOPBACK) as daemon:
            client = Client(daemon.port())
            client.send(b'{"id":0}\n')
            wait_until(lambda: len(tries) == 1)
            client.send(b'{"id":1}\n')
            wait_until(lambda: len(tries) > 1)
            client.close()
            stop = threading.Thread(target=daemon.terminate)
            stop.start()
            daemon.wait_for("draining")
            draining.set()
            stop.join()
            assert daemon.last("stopped")["left"] == 0
    assert sorted(server.taken) == [0, 1]


@contextmanager
def echoing_all_but(bad: int, taken: list[int], connections: list[int]) -> Iterator[int]:
    """A TCP server that sends back each line but one. Yields its port."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            connections.append(len(connections))
            for line in self.rfile:
                number = json.loads(line)["id"]
                if number != bad:
                    taken.append(number)
                    self.wfile.write(line)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_an_event_that_is_never_echoed_holds_up_newer_ones_for_a_few_tries_only(tmp_path: Path) -> None:
    taken: list[int] = []
    connections: list[int] = []
    with echoing_all_but(0, taken, connections) as port:
        out = lines_out("tcp_client", url=f"127.0.0.1:{port}", ack="echo", echo_timeout=1_000_000_000)
        file = flow(tmp_path, out, max_attempts=2)
        with running(file, tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            client = Client(daemon.port())
            client.send(b'{"id":0}\n')
            wait_until(lambda: len(connections) > 1)
            client.send(b'{"id":1}\n')
            admin.until(lambda admin: admin.metrics()["walflow_wal_acked_events_total", "log"] > 0)
            assert len(connections) < 8, "the peer is there: no reason to keep the order for half a minute"
            client.close()
            daemon.terminate()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("door", ["tcp_server", "unix_socket_server", "tcp_client", "stdio"])
def test_what_a_stop_breaks_off_reaches_err(tmp_path: Path, door: str, loop: str) -> None:
    """Beside its sinks, which stop too: half a line, of a peer that would have sent the other half."""
    server = Server(lambda ids: 200)
    file = tmp_path / "main.troy"
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        config = {
            "tcp_server": {"url": ANY_PORT},
            "unix_socket_server": {"path": "socket"},
            "tcp_client": {"url": f"127.0.0.1:{listener.getsockname()[1]}"},
            "stdio": {},
        }[door]
        file.write_text(
            flow_of(
                "door -> out",
                "door/err -> dead",
                door=lines_in(door, **config),
                out=http(stack.enter_context(serving(server))),
                dead=lines_out("file", path="dead.jsonl", mode="append"),
            )
        )
        theirs, ours = os.pipe()
        stack.callback(os.close, theirs)
        stdin = stack.enter_context(os.fdopen(ours, "wb", buffering=0))
        with running(file, tmp_path, "--loop", loop, stdin=theirs) as daemon:
            if door == "stdio":
                send: Callable[[bytes], object] = stdin.write
            elif door == "tcp_client":
                send = stack.enter_context(listener.accept()[0]).sendall
            elif door == "tcp_server":
                send = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port()))).sendall
            else:
                peer = stack.enter_context(socket.socket(socket.AF_UNIX))
                peer.connect(str(tmp_path / str(daemon.wait_for("listening")["address"])))
                send = peer.sendall
            send(b'{"id": 1}\n{"id": 2')
            wait_until(lambda: server.taken == [1])
            assert daemon.terminate() == 0
    assert records(tmp_path) == [
        {"error": "the stream broke off inside an event", "source": "main::door", "stream_id": 1, "text": '{"id": 2'}
    ]


def broken_off(directory: Path, err: str, data: bytes, until: Callable[[], bool], *options: str) -> Daemon:
    """A daemon that was stopped within an event, after this data and once `until`."""
    file = directory / "main.troy"
    file.write_text(
        flow_of(
            "tcp -> out",
            "tcp/err -> named -> err",
            tcp=lines_in("tcp_server", url=ANY_PORT),
            out=lines_out("file", path="out.log", mode="append"),
            named=pipeline('select {"id": 7} from in into out;'),
            err=err,
        )
    )
    with running(file, directory, *options) as daemon:
        client = Client(daemon.port())
        client.send(data)
        wait_until(until)
        assert daemon.terminate() == 0
        client.close()
    return daemon


def test_a_stop_waits_for_what_takes_the_event_that_it_broke_off(tmp_path: Path) -> None:
    def answer(ids: list[int]) -> int:
        if server.requests > 1:
            time.sleep(0.5)  # so long it takes
        return 200

    server = Server(answer)
    with serving(server):
        daemon = broken_off(tmp_path, http(server), b'bad\n{"id": 2', lambda: server.taken == [7])
    assert server.taken == [7, 7]
    assert not [line for line in daemon.lines if line["level"] in ("warning", "error")]


def test_a_stop_says_that_nothing_has_taken_the_event_that_it_broke_off(tmp_path: Path) -> None:
    out = tmp_path / "out.log"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        err = json_only("http_client", url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        daemon = broken_off(
            tmp_path, err, b'1\n{"id": 2', lambda: out.exists() and out.read_bytes() == b"1\n", "--drain-seconds", "1"
        )
    assert daemon.last("drain ended early")["reason"] == "time is up"


@pytest.mark.parametrize("door", ["tcp_server", "follow", "log"])
def test_a_stop_says_how_many_events_are_lost(tmp_path: Path, door: str) -> None:
    """Those that no log has, and no file, as it does not wait for ever for a sink that has them."""
    data = b"".join(b'{"id":%d}\n' % number for number in range(5))
    (tmp_path / "in.log").write_bytes(data)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "main.troy"
        way = ["door -> out"] if door != "log" else ["door -> log", "log -> out"]
        kinds = {"follow": lines_in("file", path="in.log", mode="read", follow=True)}
        file.write_text(
            flow_of(
                *way,
                door=kinds.get(door, lines_in("tcp_server", url=ANY_PORT)),
                out=json_only("http_client", url=f"http://127.0.0.1:{silent.getsockname()[1]}/"),
                **({"log": plain("wal", path="state")} if door == "log" else {}),
            )
        )
        with running(file, tmp_path, "--drain-seconds", "0.2") as daemon:
            if door != "follow":
                client = Client(daemon.port())
                client.send(data)
            asked, _ = silent.accept()
            with asked:
                request = b""
                while b'"id":0' not in request:
                    request += asked.recv(1 << 16)
                assert daemon.terminate() == 0
            if door != "follow":
                client.close()
    lost = [line for line in daemon.lines if line["event"] == "lost"]
    if door == "tcp_server":
        assert [(line["events"], line["cause"]) for line in lost] == [(5, "the connector has stopped")]
        assert daemon.last("stopped")["lost_events_total"] == 5
    else:
        assert lost == []
