"""What is known from outside of the windows of a pipeline."""

import re
from pathlib import Path

import pytest

from connectors.memory import Memory
from connectors.stdio import Stdio
from connectors.tcp import TcpServer
from tests.lang.world import assembled
from tests.operators.test_stateful import Counting
from walflow.cli.promises import promises
from walflow.contract import Connector

REGISTRY: dict[str, type[Connector]] = {"memory": Memory, "stdio": Stdio, "tcp_server": TcpServer}
PER_HOST = Path(__file__).parents[2] / "flows" / "windows" / "per-host.troy"

WINDOWS = """
    define window w from tumbling with interval = 10 script event.at end;
    define window seconds from tumbling with interval = 1_000_000_000 end;
    select aggr::win::collect_flattened(event.x) from in[w] group by event.g into out;
    select aggr::stats::count() from in[seconds] group by event.g into out;
"""


class Measured(Counting):
    def __getitem__(self, name: str) -> float:
        [value] = [
            reading.value
            for reading in self.world.metrics.gauges()
            if reading.name == name and reading.labels["type"] == "pipeline"
        ]
        return value


def test_groups_open_windows_bytes_age_and_late_events_are_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow = Measured(WINDOWS)
    assert (flow["window_groups"], flow["window_open"], flow["window_late_events_total"]) == (0, 0, 0)
    assert flow["window_oldest_seconds"] == 0
    empty = flow["state_bytes"]
    flow.send({"g": "a", "at": 100, "x": 1}, {"g": "a", "at": 99, "x": 1}, {"g": "b", "at": 7, "x": "x" * 1000})
    flow.world.scheduler.advance(0.25)
    assert (flow["window_groups"], flow["window_open"], flow["window_late_events_total"]) == (4, 4, 1)
    assert flow["window_oldest_seconds"] == pytest.approx(0.25)
    kept = flow["state_bytes"]
    assert kept > empty + 1000
    flow.send({"g": "b", "at": 17, "x": 1})
    assert empty < flow["state_bytes"] < kept - 1000
    assert flow["window_late_events_total"] == 1
    flow.close()


def test_check_says_that_open_windows_are_lost_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = re.sub("# check: allow .*", "", PER_HOST.read_text(encoding="utf-8"))
    said = promises(assembled(text, registry=REGISTRY)).warnings
    assert [str(node) for node, warning in said if "the open windows are lost" in str(warning)] == ["main::per_host"]
