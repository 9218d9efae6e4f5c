"""What is known from outside of the windows of a pipeline."""

from pathlib import Path

import pytest

from tests.operators.test_stateful import Counting

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
