"""What is said of a daemon that is not ready."""

import asyncio

from tests.runtime.test_runs import Twice
from walflow.metrics import Metrics
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.plan import Assembly, ConnectorPlan, NodeId
from walflow.runtime.readiness import Readiness


def made() -> ConnectorNodes:
    plan = ConnectorPlan(NodeId("f", "connector", "c"), "twice", Twice(), None, None, None)
    (nodes,) = build(Assembly((plan,), (), ()), Metrics()).connectors
    return nodes


async def test_each_state_is_a_word_and_a_reason_if_there_is_one() -> None:
    nodes = made()
    readiness = Readiness([nodes], asyncio.Event(), lambda: None)
    assert readiness.lacking() == ["f::c is starting"]
    peer = "Connection refused"
    nodes.health.explain(lambda: peer)
    assert readiness.lacking() == ["f::c is starting: Connection refused"]
    nodes.health.becomes("restarting", "it broke")
    assert readiness.lacking() == ["f::c is restarting: it broke"]
    nodes.health.up()
    assert readiness.lacking() == []
    assert nodes.health.why == ""  # the run that said so is over
