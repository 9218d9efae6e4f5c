"""flows/spark/orders.troy on both hosts: one line moves its pipeline to Spark,
and the files that it writes are the same."""

import json
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, Client, Daemon, running
from tests.system.hosts import until

pytestmark = pytest.mark.spark

FLOW = ROOT / "flows" / "spark" / "orders.troy"
ON_SPARK = """\
  pipeline
    #!config engine = "spark"
    #!config spark = { "partitions": 2, "max_rows_per_batch": 500 }
"""
ONE_INPUT, TWO_INPUTS = (
    ("  into out, err\n", "select event from in into euros;", "create connector shop;", "connect /connector/shop to"),
    (
        "  from in, late\n  into out, err\n",
        "select event from in into euros;\n    select event from late into euros;",
        "create connector shop;\n  create connector evening from shop;",
        "connect /connector/evening to /pipeline/large_orders/late;\n  connect /connector/shop to",
    ),
)
SETTLED = ("large.jsonl", "broken.jsonl")


def flow(directory: Path, *, moved: bool) -> Path:
    text = FLOW.read_text().replace("127.0.0.1:7710", "127.0.0.1:0")
    assert "  pipeline\n" in text
    file = directory / "orders.troy"
    file.write_text(text.replace("  pipeline\n", ON_SPARK) if moved else text)
    return file


def of_two_inputs(file: Path) -> Path:
    text = file.read_text()
    for one, two in zip(ONE_INPUT, TWO_INPUTS, strict=True):
        assert text.count(one) == 1
        text = text.replace(one, two)
    file.write_text(text)
    return file


def orders(first: int, end: int) -> list[str]:
    """Every hundredth is of an unknown currency, and the one behind it has an amount that is none."""
    found: list[str] = []
    for number in range(first, end):
        currency = "XYZ" if number % 100 == 98 else ("EUR", "USD")[number % 2]
        amount = "much" if number % 100 == 99 else number % 250
        found.append(json.dumps({"id": number, "currency": currency, "amount": amount}))
    return found


def shop(daemon: Daemon, name: str = "shop") -> int:
    while True:
        said = daemon.wait_for("listening")
        if said["component"] == name:
            return int(str(said["address"]).rpartition(":")[2])


def send(port: int, lines: Sequence[str]) -> None:
    client = Client(port)
    client.send("".join(f"{line}\n" for line in lines).encode())
    client.socket.shutdown(socket.SHUT_WR)
    assert client.socket.recv(1) == b""  # the server has read all of it
    client.close()


def told(line: str) -> str:
    """An error names the stream of its client, which Spark's rows have not."""
    return json.dumps({key: value for key, value in json.loads(line).items() if key != "stream_id"})


def written(directory: Path) -> dict[str, list[str]]:
    files = {name: directory / name for name in SETTLED}
    return {
        name: [told(line) for line in file.read_text().splitlines()] if file.exists() else []
        for name, file in files.items()
    }


def in_the_daemon(directory: Path, lines: Sequence[str], name: str) -> dict[str, list[str]]:
    """What the daemon writes; `at` names the flow file, which is another one."""
    directory.mkdir()
    with running(flow(directory, moved=False), directory) as daemon:
        send(shop(daemon), lines)
        assert daemon.terminate() == 0
    return {
        file: [line.replace(str(directory), name) for line in found] for file, found in written(directory).items()
    }


def without_places(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The line that moves the pipeline moves what stands below it, too."""
    return {
        name: [json.dumps({key: one for key, one in json.loads(line).items() if key != "at"}) for line in lines]
        for name, lines in found.items()
    }


def test_the_same_files_in_the_same_order(tmp_path: Path) -> None:
    lines = orders(0, 3_000)
    expected = in_the_daemon(tmp_path / "daemon", lines, "x")
    assert len(expected["large.jsonl"]) > 1_000
    assert len(expected["broken.jsonl"]) == 60
    there = tmp_path / "spark"
    there.mkdir()
    with running(flow(there, moved=True), there) as daemon:
        send(shop(daemon), lines)
        until(lambda: sum(map(len, written(there).values())) >= sum(map(len, expected.values())), daemon)
        assert daemon.terminate() == 0
    assert without_places(written(there)) == without_places(expected)


def test_after_kill_9_nothing_is_missing(tmp_path: Path) -> None:
    """Nor mixed up: after the kill, events come to another input of the pipeline."""
    lines = orders(0, 3_000)
    expected = without_places(in_the_daemon(tmp_path / "daemon", lines, "x"))
    there = tmp_path / "spark"
    there.mkdir()
    file = of_two_inputs(flow(there, moved=True))
    with running(file, there) as daemon:
        send(shop(daemon), lines[:2_000])
        until(lambda: written(there)["large.jsonl"], daemon)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    with running(file, there) as daemon:
        send(shop(daemon, "evening"), lines[2_000:])
        until(
            lambda: all(set(expected[name]) <= set(without_places(written(there))[name]) for name in SETTLED), daemon
        )
        assert daemon.terminate() == 0
    for name, found in without_places(written(there)).items():
        assert list(dict.fromkeys(found)) == expected[name], "the first time each comes is its turn"
