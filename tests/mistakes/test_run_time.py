"""Mistakes that show when a flow runs: the daemon's words for each, in log, dead letter file and `walflow status`."""

import json
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.server import free_port
from tests.flows.builder import ANY_PORT, LOG, OUT, flow_of, json_only, lines_in, lines_out, pipeline, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import WALFLOW, Client, running
from tests.waiting import wait_until

DEAD = lines_out("file", path="dead.jsonl", mode="append")
TCP = lines_in("tcp_server", url=ANY_PORT)
COMPARING = pipeline("select event from in where event.n > 1 into out")


def written(directory: Path, text: str) -> Path:
    file = directory / "main.troy"
    file.write_text(text)
    return file


def test_events_that_are_bad(tmp_path: Path) -> None:
    """No JSON, one of 80 MB, and a `>` between a text and a number."""
    flow = flow_of("tcp -> comparing -> out", "tcp/err -> dead", "comparing/err -> dead",
                   tcp=TCP, comparing=COMPARING, out=OUT, dead=DEAD)  # fmt: skip
    with running(written(tmp_path, flow), tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b'{"n": \n{"n": 1 2}\n{"n": "two"}\n')
        client.send(b"[" + b"1" * 80_000_000 + b"]\n")
        client.send(b'{"n": 2}\n')
        wait_until(lambda: (tmp_path / "dead.jsonl").read_bytes().count(b"\n") == 4)
        wait_until(lambda: (tmp_path / "out.log").read_bytes() == b'{"n": 2}\n')
        client.close()
        assert daemon.terminate() == 0, daemon.raw
    records = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    by_reason = {record["error"]: record for record in records}
    assert sorted(by_reason) == [
        "`>` cannot be applied to a string and a whole number",
        "event of 80000003 bytes exceeds max_event_bytes, 1048576",
        "not JSON: unexpected character, expected ',' or '}' at column 9",
        "not JSON: unexpected end of data at column 7",
    ]
    assert by_reason["not JSON: unexpected end of data at column 7"]["text"] == '{"n": '
    compared = by_reason["`>` cannot be applied to a string and a whole number"]
    assert compared["event"] == {"n": "two"}
    assert "main.troy:" in compared["at"]


def test_a_port_that_another_process_has(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"127.0.0.1:{taken.getsockname()[1]}"
        flow = flow_of("tcp -> out", tcp=lines_in("tcp_server", url=url), out=OUT)
        said = f"cannot listen on {url}: Address already in use"
        with running(written(tmp_path, flow), tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            wait_until(lambda: f"main::tcp is restarting: {said}" in admin.get("/readyz")[1])
            assert said in str(daemon.last("connector failed"))
            told = status(admin)
            assert said in told
            assert "None" not in told
            assert daemon.terminate() == 0, daemon.raw


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (
            lines_out("file", path="nowhere/out.log", mode="append"),
            "cannot write nowhere/out.log: its directory nowhere does not exist",
        ),
        (
            lines_out("tcp_client", url="127.0.0.1:1", tls={"cafile": "nowhere.pem"}),
            "cannot read nowhere.pem: No such file or directory",
        ),
    ],
)
def test_what_a_connector_needs_is_not_there(tmp_path: Path, node: str, said: str) -> None:
    with running(written(tmp_path, flow_of("tcp -> out", tcp=TCP, out=node)), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        wait_until(lambda: said in status(admin))
        assert daemon.terminate() == 0, daemon.raw


@pytest.mark.parametrize("kind", ["http", "kafka"])
def test_a_peer_that_is_away(tmp_path: Path, kind: str) -> None:
    port = free_port()
    out = (
        json_only("http_client", url=f"http://127.0.0.1:{port}/")
        if kind == "http"
        else json_only("kafka_producer", brokers=[f"127.0.0.1:{port}"], topic="t")
    )
    with running(
        written(tmp_path, flow_of("tcp -> log -> out", tcp=TCP, log=LOG, out=out)), tmp_path, admin=LOOPBACK
    ) as daemon:
        admin = Admin(daemon)
        client = Client(daemon.port())
        client.send(b'{"n": 1}\n')
        wait_until(lambda: "Connection refused" in status(admin))
        told = status(admin)
        assert f"127.0.0.1:{port}" in told
        assert "ssl" not in told
        assert "None" not in told
        client.close()
        assert daemon.terminate() == 0, daemon.raw


def test_a_log_that_is_full(tmp_path: Path) -> None:
    log = plain("wal", path="state", max_chunks=2, chunk_size=1 << 20)
    away = json_only("http_client", url=f"http://127.0.0.1:{free_port()}/")
    with running(
        written(tmp_path, flow_of("tcp -> log -> out", tcp=TCP, log=log, out=away)), tmp_path, admin=LOOPBACK
    ) as daemon:
        admin = Admin(daemon)
        with ExitStack() as ends:
            client = Client(daemon.port())
            ends.callback(client.close)
            client.send((b'{"text": "' + b"x" * 100_000 + b'"}\n') * 30)
            wait_until(lambda: "is full" in status(admin), "the log is not full")
        assert "main::out" in status(admin), "who does not take its events"
        assert daemon.terminate() == 0, daemon.raw


def status(admin: Admin) -> str:
    return subprocess.run(
        [*WALFLOW, "status", "--admin", admin.address], capture_output=True, text=True, timeout=100, check=False
    ).stdout
