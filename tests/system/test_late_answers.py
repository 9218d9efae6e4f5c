"""An event whose answer comes while the daemon stops: the answer is delivered,
and the stop does not take all its time."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUDPServer

import dns.message
import dns.rrset
import pytest

from tests.flows.builder import TCP, flow_of, json_only, lines_in, lines_out, pipeline, plain
from tests.system.daemon import running
from tests.waiting import PATIENCE

ASKS = """
    define script ask script {script}; event end;
    create script ask;
    select event from in into ask;
    select event from ask into out;
    select event from ask/err into err;
"""


def asking(source: str, asked: str, script: str, *more: str) -> str:
    return flow_of(
        "incoming -> asks -> asked -> answers",
        "asks/err -> refused",
        "asked/err -> refused",
        *more,
        incoming=source,
        asks=pipeline(ASKS.format(script=script)),
        asked=asked,
        answers=lines_out("file", path="answers.jsonl", mode="truncate"),
        refused=lines_out("file", path="refused.jsonl", mode="truncate"),
        exit=plain("exit"),
    )


EVENTS = 60_000  # more than one read of a file
BINARY = TCP.replace('"json"', '"binary"')


class Late:
    """`asked` is set by the first request; none is answered before `answer` is."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answer = threading.Event()

    def wait(self) -> None:
        self.asked.set()
        assert self.answer.wait(PATIENCE)


@contextmanager
def http_server(late: Late, body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            late.wait()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        yield from _served(server)


@contextmanager
def name_server(late: Late) -> Iterator[str]:
    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            data, answering = self.request
            late.wait()
            query = dns.message.from_wire(data)
            answer = dns.message.make_response(query)
            answer.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.1"))
            answering.sendto(answer.to_wire(), self.client_address)

    with ThreadingUDPServer(("127.0.0.1", 0), Handler) as server:
        yield from _served(server)


def _served(server: ThreadingHTTPServer | ThreadingUDPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield "{}:{}".format(*server.server_address)
    finally:
        server.shutdown()
        thread.join()


def stopped_while_asked(
    directory: Path, late: Late, source: str, asked: str, event: bytes, script: str = "let $a = 1"
) -> None:
    flow = directory / "late.troy"
    flow.write_text(asking(source, asked, script))
    with running(flow, directory) as daemon:
        with socket.create_connection(("127.0.0.1", daemon.port())) as client:
            client.sendall(event + b"\n")
        assert late.asked.wait(PATIENCE)
        stopping = threading.Thread(target=daemon.terminate)
        stopping.start()
        daemon.wait_for("draining")
        late.answer.set()
        stopping.join()
        assert not [line for line in daemon.lines if line["event"] in ("lost", "drain ended early")], daemon.raw
    assert not (directory / "refused.jsonl").read_bytes()


def answers(directory: Path) -> list[object]:
    return [json.loads(line) for line in (directory / "answers.jsonl").read_bytes().splitlines()]


def test_of_a_server(tmp_path: Path) -> None:
    late = Late()
    with http_server(late, b'{"late":true}') as address:
        asked = json_only("http_client", url=f"http://{address}/", responses=True)
        stopped_while_asked(tmp_path, late, TCP, asked, b"1")
    assert answers(tmp_path) == [{"late": True}]


def test_of_a_schema_registry(tmp_path: Path) -> None:
    late = Late()
    with http_server(late, json.dumps({"schema": '"string"'}).encode()) as address:
        asked = plain("schema_registry", url=f"http://{address}", mode="decode")
        stopped_while_asked(tmp_path, late, BINARY, asked, b"\0\0\0\0\7\2a")
    assert answers(tmp_path) == ["a"]


def test_of_a_name_server(tmp_path: Path) -> None:
    late = Late()
    with name_server(late) as address:
        asked = plain("dns_client", servers=[address])
        script = 'let $dns = {"lookup": {"name": "a.test", "type": "A"}}'
        stopped_while_asked(tmp_path, late, TCP, asked, b"1", script)
    assert answers(tmp_path) == [[{"A": "192.0.2.1", "ttl": 60}]]


@pytest.mark.test
def test_of_a_store_when_an_earlier_answer_stops_the_daemon(tmp_path: Path) -> None:
    """As in tremor's own test of `kv`: the answer of the first command, of many that were read, is the end."""
    (tmp_path / "in.json").write_text("".join(f"{number}\n" for number in range(EVENTS)))
    source = lines_in("file", path="in.json", mode="read")
    flow = tmp_path / "late.troy"
    flow.write_text(asking(source, plain("kv", path="store"), 'let $kv = {"put": "a"}', "asked -> exit"))
    with running(flow, tmp_path) as daemon:
        assert daemon.wait() == 0
        assert not [line for line in daemon.lines if line["event"] in ("lost", "drain ended early")], daemon.raw
    assert answers(tmp_path) == list(range(EVENTS))
