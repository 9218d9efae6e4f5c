"""What a log remembers of a daemon: its flow, its sinks, and the events that no sink got."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.flows.builder import TCP, flow_of, lines_out, plain
from tests.system.daemon import Client, Daemon, running
from tests.waiting import wait_until


def flow_in(directory: Path, *more: str, **nodes: str) -> Path:
    """A table whose amounts are below 100."""
    with closing(sqlite3.connect(directory / "out.db")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS events(id INTEGER, amount INTEGER CHECK (amount < 100))")
        connection.commit()
    file = directory / "flow.troy"
    file.write_text(
        flow_of(
            "tcp -> log -> db",
            *more,
            tcp=TCP,
            log=plain("wal", path="log", letters=False),
            db=plain("sqlite", path="out.db", columns={"id": "id", "amount": "amount"}),
            **nodes,
        )
    )
    return file


def send(daemon: Daemon, *amounts: int) -> None:
    with closing(Client(daemon.port())) as client:
        client.send(b"".join(b'{"id":%d,"amount":%d}\n' % (n, amount) for n, amount in enumerate(amounts, 1)))


def stats(directory: Path, *options: str) -> str:
    command = [sys.executable, "-m", "walflow", "wal", "stats", "log", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout


def rows(directory: Path) -> int:
    with closing(sqlite3.connect(directory / "out.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def test_what_no_sink_got_is_told_after_kill_9_and_since_when_a_sink_is_linked(tmp_path: Path) -> None:
    with running(flow_in(tmp_path), tmp_path) as daemon:
        send(daemon, 1, 500, 600, 2, 700)
        wait_until(lambda: json.loads(stats(tmp_path, "--json"))["low"] == 5, "all events have an outcome")
        daemon.kill()
    assert rows(tmp_path) == 2
    seen = stats(tmp_path)
    reason = "at main::db: rejected, and nothing is linked to err"
    assert f"not delivered:\n  positions 2 to 3 {reason}\n  position 5 {reason}\n" in seen
    with running(flow_in(tmp_path), tmp_path) as daemon:
        send(daemon, 3)
        wait_until(lambda: rows(tmp_path) == 3)
        assert daemon.terminate() == 0
    with running(
        flow_in(tmp_path, "log -> copy", copy=lines_out("file", path="copy", mode="append")), tmp_path
    ) as daemon:
        send(daemon, 4)
        wait_until(lambda: rows(tmp_path) == 4 and (tmp_path / "copy").read_bytes() == b'{"id":1,"amount":4}\n')
        assert daemon.terminate() == 0
    known = json.loads(stats(tmp_path, "--json"))
    assert [(one["name"], one["since"], one["or_earlier"]) for one in known["sinks"]] == [
        ("copy", 7, False),
        ("db", 1, False),
    ]
    assert [(one["first"], one["last"]) for one in known["flows"]] == [(1, 6), (7, None)]
    assert [(one["first"], one["last"], one["at"]) for one in known["gone"]] == [
        (2, 3, "main::db"),
        (5, 5, "main::db"),
    ]


def test_the_log_of_spark_remembers_its_flow_too(tmp_path: Path) -> None:
    file = tmp_path / "flow.troy"
    for number in (1, 2):
        spark = plain("spark", path="log", url="127.0.0.1:0", insecure="a test", max_chunks=7 + number)
        file.write_text(flow_of("tcp -> log", tcp=TCP, log=spark))
        with running(file, tmp_path) as daemon:
            daemon.wait_for("ready")
            (address,) = [str(one["address"]) for one in daemon.lines if one.get("component") == "tcp"]
            client = Client(int(address.rpartition(":")[2]))
            client.send(b'{"n":1}\n')
            client.close()
            wait_until(lambda seen=number: json.loads(stats(tmp_path, "--json"))["durable"] == seen)  # type: ignore[misc]
            assert daemon.terminate() == 0
    known = json.loads(stats(tmp_path, "--json"))
    assert [(one["first"], one["last"]) for one in known["flows"]] == [(1, 1), (2, None)]
