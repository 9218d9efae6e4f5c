"""What a connector's runs leave behind in the metrics, and where it stands."""

import asyncio
import gc
from typing import NoReturn

import pytest
from pydantic import PrivateAttr

from walflow import Block, Connector, Frames, Guarantee, Inlet, Outlet, Receipt, StreamId, WalflowError
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.metrics import Metrics
from walflow.nodes.build import build
from walflow.plan import Assembly, ConnectorPlan, NodeId
from walflow.runtime.runner import run_connector


class Twice(Connector):
    """Fails once, then runs until it is told to finish."""

    _runs: int = PrivateAttr(default=0)
    _finish: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee()

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        self._runs += 1
        run = self._runs
        inlet.gauge("run", lambda: run)
        inlet.counter("tries_total").value += 1
        if run == 1:
            raise ConnectionError("not yet")
        inlet.serve(inlet.ack)
        await self._finish.wait()


def never(error: WalflowError) -> NoReturn:
    raise AssertionError(error)


async def test_gauges_go_with_the_run_counters_stay_and_its_state_is_known() -> None:
    metrics = Metrics()
    connector = Twice()
    plan = ConnectorPlan(NodeId("f", "connector", "c"), "twice", connector, None, None, None)
    (nodes,) = build(Assembly((plan,), (), ()), metrics).connectors
    states: list[str] = []
    up = asyncio.Event()

    def changed() -> None:
        states.append(nodes.health.state)
        runs.append([reading.value for reading in metrics.gauges() if reading.name == "run"])
        if nodes.health.state == "up":
            up.set()

    runs: list[list[float]] = []
    nodes.health.on_change = changed
    running = asyncio.create_task(run_connector(nodes, metrics, never))
    await up.wait()
    connector._finish.set()
    await running
    assert states == ["restarting", "up", "finished"]
    assert runs == [[], [2], []]
    labels = {"flow": "f", "component": "c", "kind": "connector", "type": "twice"}
    assert metrics.counter("restarts_total", **labels).value == 1
    assert metrics.counter("tries_total", **labels).value == 2
    assert nodes.health.ready


async def test_cancelled_it_has_stopped() -> None:
    metrics = Metrics()
    connector = Twice()
    connector._runs = 1
    plan = ConnectorPlan(NodeId("f", "connector", "c"), "twice", connector, None, None, None)
    (nodes,) = build(Assembly((plan,), (), ()), metrics).connectors
    up = asyncio.Event()
    nodes.health.on_change = up.set
    running = asyncio.create_task(run_connector(nodes, metrics, never))
    await up.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (nodes.health.state, nodes.health.ready) == ("stopped", False)


class RaisesInAccept(Connector):
    """Raises at the first block; acks the next ones."""

    _raised: bool = PrivateAttr(default=False)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee()

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        def accept(block: Block) -> None:
            if not self._raised:
                self._raised = True
                try:
                    raise ConnectionError("not yet")
                except ConnectionError as error:
                    raise ValueError("a bug") from error
            inlet.ack(block)

        inlet.serve(accept)
        await asyncio.get_running_loop().create_future()


@pytest.mark.filterwarnings("ignore:a receipt of 1 events was collected unsettled:ResourceWarning")
async def test_the_block_at_which_it_raised_fails_although_no_collector_comes_by() -> None:
    plan = ConnectorPlan(NodeId("f", "connector", "c"), "raises", RaisesInAccept(), None, None, None)
    metrics = Metrics()
    (nodes,) = build(Assembly((plan,), (), ()), metrics).connectors
    up, failed = asyncio.Event(), asyncio.Event()
    nodes.health.on_change = up.set

    def give() -> None:
        frames = Frames(b"1\n", 1, LINES)
        receipt = Receipt(lambda receipt: failed.set(), 1)
        nodes.sink.accept(Block(StreamId("f::source", 1, 1), frames, JSON, receipt, ingest_ns=0, meta={}))

    gc.disable()
    try:
        running = asyncio.create_task(run_connector(nodes, metrics, never))
        await up.wait()
        asyncio.get_running_loop().call_soon(give)
        await asyncio.wait_for(failed.wait(), 100)
        assert metrics.counter("restarts_total", **plan.labels).value == 1
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    finally:
        gc.enable()
