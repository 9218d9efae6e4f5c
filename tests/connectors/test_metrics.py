"""walflow's own metrics as events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from connectors.metrics import MetricEvents
from tests.connectors.started import started
from tests.flows.builder import flow_of, plain
from tests.system.daemon import running
from tests.waiting import wait_until
from walflow import MetricValue
from walflow.codecs.influx import influx_codec
from walflow.metrics import Metrics
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

SECOND = 1_000_000_000


@asynccontextmanager
async def rounds(**config: object) -> AsyncIterator[tuple[VirtualScheduler, MemoryOutlet]]:
    scheduler = VirtualScheduler()
    out = MemoryOutlet(scheduler)
    out.metric_values = [
        MetricValue("walflow_component_a_total", {"flow": "main"}, 3),
        MetricValue("walflow_wal_b", {"flow": "main"}, 0.5),
    ]
    connector = MetricEvents.model_validate({"interval": SECOND, **config})
    async with started(connector.run(MemoryInlet(scheduler, linked=False), out)):
        await scheduler.settle()
        yield scheduler, out
    assert scheduler.timers == []


def sent(out: MemoryOutlet) -> list[dict[str, object]]:
    return cast(list[dict[str, object]], out.streams[0].emitted)


async def test_each_metric_is_an_event_that_influx_writes() -> None:
    async with rounds() as (scheduler, out):
        scheduler.advance(1)
        first, second = sent(out)
        assert first["measurement"] == "walflow_component_a_total"
        assert first["tags"] == {"flow": "main"}
        assert first["fields"] == {"value": 3}
        written = influx_codec({}).encode(second)
        assert written.startswith(b"walflow_wal_b,flow=main value=0.5 ")


async def test_a_prefix_chooses() -> None:
    async with rounds(prefix="walflow_wal_") as (scheduler, out):
        scheduler.advance(2)
        assert [event["measurement"] for event in sent(out)] == ["walflow_wal_b"] * 2


async def test_a_flow_that_accepts_nothing_gets_the_next_values_and_not_all_that_were_missed() -> None:
    async with rounds() as (scheduler, out):
        out.pause()
        scheduler.advance(5.5)
        assert sent(out) == []
        out.resume()
        scheduler.advance(0.5)
        assert len(sent(out)) == 2


def test_values_have_the_names_of_prometheus_and_a_gauge_that_fails_is_left_out() -> None:
    metrics = Metrics()
    metrics.counter("events_total", flow="main").value = 2
    metrics.gauge("wal_depth", lambda: 7.0, flow="main")
    metrics.gauge("broken", lambda: 1 / 0)
    assert metrics.values() == [
        MetricValue("walflow_component_events_total", {"flow": "main"}, 2),
        MetricValue("walflow_wal_depth", {"flow": "main"}, 7.0),
    ]


OUT = 'stdio with codec = "influx", postprocessors = ["separate"] end'
FLOW = flow_of("own -> out", own=plain("metrics", interval=100000000), out=OUT)


@pytest.mark.nightly
def test_a_daemon_tells_of_itself(tmp_path: Path) -> None:
    (tmp_path / "main.troy").write_text(FLOW)
    with running(tmp_path / "main.troy", tmp_path) as daemon:
        daemon.wait_for("ready")
        wait_until(lambda: daemon.stdout)
        assert daemon.terminate() == 0, daemon.raw
    assert any(line.startswith(b"walflow_component_") and b"flow=main" in line for line in daemon.stdout)
