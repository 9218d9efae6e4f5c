"""The sums in the daemon's last log line."""

from pathlib import Path

import pytest

from tests.flows.builder import NULL, TICKS, flow_of, plain
from tests.lang.world import assembled
from walflow.metrics import Metrics
from walflow.runtime.daemon import totals

LOG = plain("wal", path="log")
FLOW = flow_of("ticks -> log -> first", "log -> second", ticks=TICKS, log=LOG, first=NULL, second=NULL)


def test_a_log_counts_no_event_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assembly = assembled(FLOW)
    metrics = Metrics()
    for plan in assembly.connectors:
        given = {"ticks": {"received": 3}, "log": {"acked": 3, "received": 3, "rejected": 1}}
        for what, count in given.get(plan.id.name, {"acked": 2}).items():
            metrics.counter(f"{what}_events_total", **plan.labels).value += count
            metrics.counter(f"{what}_bytes_total", **plan.labels).value += 10 * count
    metrics.counter("slow_clients_closed_total", **assembly.connectors[0].labels)
    assert totals(metrics, assembly.connectors) == {
        "acked_bytes_total": 40,
        "acked_events_total": 4,
        "received_bytes_total": 30,
        "received_events_total": 3,
        "rejected_bytes_total": 10,
        "rejected_events_total": 1,
    }
