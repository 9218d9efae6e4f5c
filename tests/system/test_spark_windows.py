"""flows/spark/windows.troy on both hosts: a script, a `where`, windows by group, `having`. One line moves the
pipeline to Spark; each group has the same windows in the same order, also over a kill -9. And a window that nothing
follows is closed by time."""

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, Daemon, running
from tests.system.hosts import until
from tests.system.test_spark_engine import send, told

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

FLOW = (ROOT / "flows" / "spark" / "windows.troy").read_text().replace("127.0.0.1:7711", "127.0.0.1:0")
ON_SPARK = """\
  pipeline
    #!config engine = "spark"
    #!config spark = { "partitions": 2, "buckets": 3, "max_rows_per_batch": 500 }
"""
QUIET = "interval = nanos::from_seconds(1) end;"  # by the time of arrival
HOSTS = ("a.example", "b.example", "c.example", "d.example", "e.example")
Windows = Mapping[str, Sequence[str]]


def flow(directory: Path, *, moved: bool, text: str = FLOW) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / "windows.troy"
    assert "  pipeline\n" in text
    file.write_text(text.replace("  pipeline\n", ON_SPARK) if moved else text)
    return file


def requests(first: int, end: int) -> list[str]:
    """A hundred a second. Some have failed, and of some the size is no number."""
    return [
        json.dumps(
            {
                "id": number,
                "host": HOSTS[number * number % len(HOSTS)],
                "at": number * 10_000_000,
                "status": 503 if number % 13 == 0 else 200,
                "bytes": "much" if number % 100 == 99 else number % 7 * 512,
            }
        )
        for number in range(first, end)
    ]


def port(daemon: Daemon) -> int:
    while (said := daemon.wait_for("listening"))["component"] != "servers":
        pass
    return int(str(said["address"]).rpartition(":")[2])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def windows(directory: Path) -> Windows:
    """By host. What a sink gets again behind a log, after a crash, comes here once."""
    found: dict[str, list[str]] = {}
    for line in dict.fromkeys(lines(directory / "counts.jsonl")):
        found.setdefault(json.loads(line)["host"], []).append(line)
    return found


def errors(directory: Path) -> list[object]:
    return sorted(
        {json.dumps(json.loads(told(line))["event"]) for line in lines(directory / "broken.jsonl")}, key=str
    )


def in_the_daemon(directory: Path, given: Sequence[str]) -> tuple[Windows, list[object]]:
    with running(flow(directory, moved=False), directory) as daemon:
        send(port(daemon), given)
        assert daemon.terminate() == 0
    return windows(directory), errors(directory)


def test_the_same_windows_over_a_kill_9(tmp_path: Path) -> None:
    given = requests(0, 3_000)
    expected, broken = in_the_daemon(tmp_path / "daemon", given)
    assert len(expected) == 3, "squares modulo five"
    assert min(map(len, expected.values())) > 20
    assert len(broken) == 30
    there = tmp_path / "spark"
    file = flow(there, moved=True)
    with running(file, there) as daemon:
        send(port(daemon), given[:2_000])
        until(lambda: windows(there), daemon)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
    with running(file, there) as daemon:
        send(port(daemon), given[2_000:])
        until(lambda: sum(map(len, windows(there).values())) >= sum(map(len, expected.values())), daemon)
        until(lambda: len(errors(there)) >= len(broken), daemon)
        assert daemon.terminate() == 0
    assert windows(there) == expected
    assert errors(there) == broken


def test_a_window_that_nothing_follows_and_a_changed_pipeline(tmp_path: Path) -> None:
    """The last event's window is closed although no other event comes. Then the pipeline is changed."""
    text = FLOW.replace("interval = nanos::from_seconds(1) script event.at end;", QUIET)
    assert text != FLOW
    file = flow(tmp_path, moved=True, text=text)
    with running(file, tmp_path) as daemon:
        send(port(daemon), requests(1, 9))
        until(lambda: windows(tmp_path), daemon)
        assert daemon.terminate() == 0
    counted = [json.loads(line) for some in windows(tmp_path).values() for line in some]
    assert all(one["window"] == "second" for one in counted)
    assert {one["host"]: one["requests"] for one in counted} == {"b.example": 3, "e.example": 4}

    file.write_text(file.read_text().replace("event.requests >= 3", "event.requests >= 1"))
    with running(file, tmp_path) as daemon:
        error = str(daemon.wait_for("fatal")["error"])
        assert daemon.wait() == 78
    assert "holds windows and `state` of this pipeline before it was changed" in error
    assert "name another `checkpoint`" in error
