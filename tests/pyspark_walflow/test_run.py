"""The same pipeline over old files: what docs/howto/pipeline-over-old-files.md says, with flows/spark/orders.troy."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_walflow.run import main
from tests.system.daemon import Client, running

ROOT = Path(__file__).parents[2]
ORDERS = ROOT / "flows" / "spark" / "orders.troy"


def given(count: int) -> list[str]:
    amounts = [{"EUR": number, "USD": 2 * number} for number in range(count)]
    found = [
        json.dumps({"id": number, "currency": currency, "amount": amount[currency]})
        for number, amount in enumerate(amounts)
        for currency in ("EUR", "USD")
    ]
    return [*found, '{"id": -1, "currency": "XYZ", "amount": 7}', '{"id": -2, "currency": "EUR", "amount": "x"}']


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ([], 2, "the following arguments are required"),
        (["--read", "xml:in", "--write", "noop:"], 2, "'xml:in' begins with none of json, text, parquet, orc"),
        (["--read", "json:", "--write", "noop:"], 2, "'json:' names no path"),
        (["--read", "json:in", "--write", "noop:", "--port", "owt"], 2, "the pipeline's outputs are out, err"),
        (["--read", "json:in", "--write", "noop:", "--arg", "most=1"], 65, "most"),
        (["--read", "json:in", "--write", "noop:", "--arg", "least"], 2, "write NAME=VALUE"),
    ],
)
def test_what_is_wrong_before_spark_starts_is_one_line(
    words: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(ORDERS), "large_orders", *words]) == code
    said = capsys.readouterr().err
    assert said.startswith("pyspark_walflow.run: ")
    assert said.count("\n") == 1
    assert line in said


@pytest.mark.spark
def test_the_live_pipeline_and_the_one_over_old_files_agree(tmp_path: Path) -> None:
    lines = given(150)
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "orders.jsonl").write_text("".join(f"{line}\n" for line in lines))
    command = [sys.executable, "-m", "pyspark_walflow.run", str(ORDERS), "large_orders"]
    command += ["--read", f"json:{old}", "--write", f"json:{new}", "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    assert f"json:{new}: 2 err, 144 out; " in done.stderr
    rows = [json.loads(line) for file in new.glob("part-*") for line in file.read_text().splitlines()]

    flow = tmp_path / "orders.troy"
    flow.write_text(ORDERS.read_text().replace("127.0.0.1:7710", "127.0.0.1:0"))
    with running(flow, tmp_path) as daemon:
        client = Client(int(str(daemon.wait_for("listening")["address"]).rpartition(":")[2]))
        client.send("".join(f"{line}\n" for line in lines).encode())
        client.socket.shutdown(socket.SHUT_WR)
        assert client.socket.recv(1) == b""
        client.close()
        assert daemon.terminate() == 0
    for port, file in (("out", "large.jsonl"), ("err", "broken.jsonl")):
        live = (tmp_path / file).read_text().splitlines()
        assert [told(row["value"]) for row in rows if row["port"] == port] == [*map(told, live)]


def told(value: str) -> object:
    """Of an error all but where it happened: a client has a stream, and a file of flows its path."""
    return {key: one for key, one in json.loads(value).items() if key not in {"stream_id", "at", "source"}}
