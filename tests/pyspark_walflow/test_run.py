"""The same pipeline over old files: what docs/howto/pipeline-over-old-files.md says, with flows/spark/orders.troy."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_walflow.run import main
from tests.system.daemon import Client, running
from tests.system.hosts import until

ROOT = Path(__file__).parents[2]
ORDERS = ROOT / "flows" / "spark" / "orders.troy"
WINDOWS = ROOT / "flows" / "spark" / "windows.troy"
PAGE = ROOT / "docs" / "howto" / "pipeline-over-old-files.md"


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
        (["--read", "json:nosuch/", "--write", "noop:"], 66, "--read json:nosuch/: there is no 'nosuch'"),
        (["--read", "json:file:///nosuch", "--write", "noop:"], 66, "there is no '/nosuch'"),
        (["--read", "json:.", "--write", "json:/"], 73, "--write json:/: '/' is there already: --mode append"),
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


@pytest.mark.spark
def test_the_page_shows_that_both_agree(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## See that both agree\n")[2].partition("\n## ")[0]
    live, over_files = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    started, sends = live.splitlines()
    assert started == "walflow run flows/spark/orders.troy &"
    old = tmp_path / "old"
    old.mkdir()
    for number in range(2):
        (old / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in given(150)))
    flow = tmp_path / "orders.troy"
    flow.write_text(ORDERS.read_text().replace("127.0.0.1:7710", "127.0.0.1:0"))

    with running(flow, tmp_path) as daemon:
        port = str(daemon.wait_for("listening")["address"]).rpartition(":")[2]
        shell(sends.replace("/7710", f"/{port}"), tmp_path)
        large = tmp_path / "large.jsonl"
        until(lambda: large.exists() and large.read_text().count("\n") == 2 * 144, daemon)
        assert daemon.terminate() == 0
    compared = over_files.replace("flows/spark/orders.troy", str(ORDERS)).replace("python ", f"{sys.executable} ")

    assert shell(compared, tmp_path) == "both agree\n"


@pytest.mark.spark
def test_flush_closes_the_windows_that_are_open_at_the_end(tmp_path: Path) -> None:
    """Three seconds and a half: the fourth second is open, and so is the second window of three of them."""
    events = [
        {"id": number, "host": "ab"[number % 2], "at": number * 10_000_000, "status": 200, "bytes": 1024}
        for number in range(350)
    ]
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    (old / "requests.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    words = f"{WINDOWS} by_host --read json:{old} --port out --write text:{new} --buckets 3 --flush"
    shell(f"{sys.executable} -m pyspark_walflow.run {words} --master local[2]", tmp_path)
    made = [json.loads(line) for file in new.glob("part-*") for line in file.read_text().splitlines()]
    for host in "ab":
        counts = {
            name: [one["requests"] for one in made if (one["host"], one["window"]) == (host, name)]
            for name in ("second", "three")
        }
        assert sorted(counts["second"]) == [25, 50, 50, 50]
        assert sorted(counts["three"]) == [25, 150]


def shell(command: str, directory: Path) -> str:
    """What it prints."""
    done = subprocess.run(
        ["bash", "-ec", command], cwd=directory, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(value: str) -> object:
    """Of an error all but where it happened: a client has a stream, and a file of flows its path."""
    return {key: one for key, one in json.loads(value).items() if key not in {"stream_id", "at", "source"}}
