"""A flow that feeds itself makes events without end. It is refused, unless it is meant."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, WALFLOW, Daemon
from tests.system.warm import ran
from tests.waiting import wait_until

pytestmark = pytest.mark.test

HOPS = """
define flow main
flow
  define pipeline hop
  pipeline
    select {"n": event.n + 1} from in where event.n < 50 into out;
  end;
  use tremor::pipelines;
  define connector first from file with
    codec = "json", preprocessors = ["separate"], config = {"path": "first.json", "mode": "read"}
  end;
  define connector log from wal with config = {"path": "log"} end;
  define connector out from file with
    codec = "json", postprocessors = ["separate"], config = {"path": "out.json", "mode": "append"}
  end;
  create connector first;
  create connector log;
  create connector out;
  create pipeline before from pipelines::passthrough;
  create pipeline after from pipelines::passthrough;
  create pipeline hop;
  connect /connector/first to /pipeline/before;
  connect /pipeline/before to /connector/log;
  connect /connector/log to /pipeline/hop;
  connect /pipeline/hop to /pipeline/before;
  connect /connector/log to /pipeline/after;
  connect /pipeline/after to /connector/out;
end;
deploy flow main;
"""

YAML = """
onramp:
  - {id: ticks, type: metronome, config: {interval: 1000}}
offramp:
  - {id: out, type: stdout}
binding:
  - id: default
    links:
      "/onramp/ticks/{instance}/out": ["/pipeline/keeps/{instance}/in"]
      "/pipeline/keeps/{instance}/out": ["/pipeline/passes/{instance}/in"]
      "/pipeline/passes/{instance}/out": ["/pipeline/keeps/{instance}/in", "/offramp/out/{instance}/in"]
mapping:
  /binding/default/01: {instance: "01"}
"""
KEEPS = """
define qos::wal operator kept with dir = "kept", max_elements = 100 end;
create operator kept;
select event from in into kept;
select event from kept into out;
"""


def walflow(command: str, *arguments: str, at: Path) -> "subprocess.CompletedProcess[str]":
    return ran(
        [*WALFLOW, command, *arguments],
        cwd=at,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_it_is_refused_with_the_place_and_a_drawing_and_can_be_drawn(tmp_path: Path) -> None:
    (tmp_path / "flow.troy").write_text(HOPS)
    for command in ("check", "run"):
        done = walflow(command, "flow.troy", at=tmp_path)
        assert done.returncode == 78
        lines = (done.stdout + done.stderr).splitlines()
        place = "flow.troy:25:3: error: this flow feeds itself: what leaves the log `log` comes back to it"
        at = lines.index(place)
        assert lines[at + 1].endswith("connect /pipeline/hop to /pipeline/before;")
        assert lines[at + 3] == "      = ┌─> before -> log -> hop ─┐"
    assert not (tmp_path / "log").exists()
    assert walflow("graph", "flow.troy", at=tmp_path).returncode == 0
    assert walflow("check", "--allow-cycles", "flow.troy", at=tmp_path).returncode == 0


def test_where_it_is_meant_it_runs_and_what_does_not_go_round_ends(tmp_path: Path) -> None:
    flow = tmp_path / "flow.troy"
    flow.write_text(HOPS)
    (tmp_path / "first.json").write_text('{"n":0}\n')
    daemon = Daemon(flow, tmp_path, "--allow-cycles")
    try:
        wait_until(lambda: b'{"n":50}' in out(tmp_path), "50 hops")
    finally:
        assert daemon.terminate() == 0
    assert [json.loads(line)["n"] for line in out(tmp_path).splitlines()] == list(range(51))


def out(folder: Path) -> bytes:
    file = folder / "out.json"
    return file.read_bytes() if file.exists() else b""


def test_in_the_older_language_too_and_through_a_log_within_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "main.yaml").write_text(YAML)
    (tmp_path / "keeps.trickle").write_text(KEEPS)
    (tmp_path / "passes.trickle").write_text("select event from in into out;")
    files = ("keeps.trickle", "passes.trickle", "main.yaml")
    done = walflow("check", *files, at=tmp_path)
    assert done.returncode == 78
    assert (
        "main.yaml:11:43: error: this flow feeds itself: what leaves the log `keeps/kept` comes back to it"
        in done.stdout
    )
    assert "┌─> keeps -> keeps/kept -> keeps -> passes ─┐" in done.stdout
    done = walflow("check", "--allow-cycles", *files, at=tmp_path)
    assert done.returncode == 0, done.stdout
