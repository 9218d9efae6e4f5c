"""flows/doors/kv.troy and dns.troy as shipped, asked by HTTP."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingUDPServer

import dns.message
import dns.rrset
import pytest

from demo.server import free_port, write_flow
from tests.system.daemon import ROOT, Daemon, running
from tests.waiting import wait_until

DOORS = ROOT / "flows" / "doors"


def post(port: int, event: object) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", json.dumps(event).encode())
    with urllib.request.urlopen(request, timeout=100) as answer:
        return int(answer.status)


def lines_of(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


@pytest.mark.nightly
def test_what_was_answered_is_in_the_store_after_kill_9(tmp_path: Path) -> None:
    port = free_port()
    flow = write_flow(tmp_path, DOORS / "kv.troy", {"listen": f"127.0.0.1:{port}"})
    daemon = Daemon(flow, tmp_path)
    daemon.wait_for("ready")
    for number in range(5):
        assert post(port, {"put": f"k{number}", "value": {"n": number}}) == 200
    daemon.kill()
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        assert post(port, {"scan": "k"}) == 200
        assert post(port, {"rename": "k"}) == 200
        assert daemon.terminate() == 0, daemon.raw
    found = [line["answer"] for line in lines_of(tmp_path / "out.jsonl") if line["op"] == "scan"]
    assert found == [{"n": number} for number in range(5)]
    (refused,) = lines_of(tmp_path / "refused.jsonl")
    assert str(refused["error"]).startswith("$kv has one of")


class OneHost(BaseRequestHandler):
    def handle(self) -> None:
        data, socket = self.request
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        answer.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "192.0.2.1"))
        socket.sendto(answer.to_wire(), self.client_address)


@contextmanager
def name_server() -> Iterator[str]:
    with ThreadingUDPServer(("127.0.0.1", 0), OneHost) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()
        thread.join()


@pytest.mark.nightly
def test_a_name_by_http_is_looked_up(tmp_path: Path) -> None:
    port = free_port()
    with name_server() as server:
        flow = write_flow(tmp_path, DOORS / "dns.troy", {"listen": f"127.0.0.1:{port}", "server": server})
        with running(flow, tmp_path) as daemon:
            daemon.wait_for("ready")
            assert post(port, {"host": "a.test"}) == 200
            wait_until(lambda: lines_of(tmp_path / "out.jsonl"))
            assert daemon.terminate() == 0, daemon.raw
    assert lines_of(tmp_path / "out.jsonl") == [
        {"event": {"host": "a.test"}, "records": [{"A": "192.0.2.1", "ttl": 60}]}
    ]
