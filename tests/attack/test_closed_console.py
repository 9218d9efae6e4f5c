"""`walflow run flow.troy | head -1`: a console that is gone takes nothing from a log."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.flows.builder import flow_of, lines
from tests.system.daemon import ROOT, WALFLOW
from tests.waiting import wait_until

pytestmark = pytest.mark.test

THROUGH_LOG = "lines -> log -> console"
WITHOUT = "lines -> console"
LINES = [b'{"n":%d,"x":"%s"}' % (n, b"y" * 200) for n in range(20_000)]  # more than a pipe holds


def console_flow(way: str, **told: str) -> str:
    return flow_of(
        way,
        lines=lines("file", path="lines.json", mode="read"),
        log='wal with config = {"path": "log"} end',
        console=lines("stdio", **told),
    )


def through_head(folder: Path, said: str) -> bytes:
    """What `head -1` printed; walflow is stopped by SIGTERM once it has said so."""
    errors = folder / "stderr"
    with errors.open("wb") as stderr:
        walflow = subprocess.Popen(
            [*WALFLOW, "run", "flow.troy", "--admin", "off", "--log-format", "json", "--drain-seconds", "1"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        head = subprocess.run(["head", "-1"], stdin=walflow.stdout, capture_output=True, check=True)
        assert walflow.stdout is not None
        walflow.stdout.close()
        wait_until(lambda: said in errors.read_text(), said)
        walflow.send_signal(signal.SIGTERM)
        assert walflow.wait(100) == 0
    return head.stdout


@pytest.mark.parametrize("told", [{}, {"when_closed": "hold"}])
def test_head_ends_and_the_log_keeps_the_rest(tmp_path: Path, told: dict[str, str]) -> None:
    (tmp_path / "flow.troy").write_text(console_flow(THROUGH_LOG, **told))
    (tmp_path / "lines.json").write_bytes(b"\n".join([*LINES, b""]))
    assert through_head(tmp_path, "its events are held and its sources stop") == LINES[0] + b"\n"
    closing = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines() if '"log closing"' in line]
    logged = LINES[: closing[0]["durable"]]
    (tmp_path / "lines.json").write_bytes(b"")
    rest = (tmp_path / "rest").open("wb")
    walflow = subprocess.Popen(
        [*WALFLOW, "run", "flow.troy", "--admin", "off"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=rest,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: logged[-1] + b"\n" in (tmp_path / "rest").read_bytes()[-1000:], "the last line")
    finally:
        walflow.send_signal(signal.SIGTERM)
        assert walflow.wait(100) == 0
        rest.close()
    lines = (tmp_path / "rest").read_bytes().splitlines()
    # what a pipe held when `head` ended was written, and acked
    assert lines == logged[-len(lines) :]
    assert len(logged) - len(lines) < 1000


@pytest.mark.parametrize(
    ("told", "way"),
    [({}, WITHOUT), ({"when_closed": "drop"}, THROUGH_LOG)],
    ids=["no log", "told to drop"],
)
def test_without_a_log_or_where_it_is_told_to_the_rest_is_dropped(
    tmp_path: Path, told: dict[str, str], way: str
) -> None:
    (tmp_path / "flow.troy").write_text(console_flow(way, **told))
    (tmp_path / "lines.json").write_bytes(b"\n".join([*LINES, b""]))
    assert through_head(tmp_path, "its events are dropped from now on") == LINES[0] + b"\n"
