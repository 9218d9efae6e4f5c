"""flows/doors/kafka-avro.troy as shipped, beside librdkafka's mock cluster and a stand-in for the registry."""

import asyncio
import json
from pathlib import Path

import pytest

from demo.server import write_flow
from tests.connectors.kafka_world import cluster, put
from tests.connectors.registry_stub import registry
from tests.connectors.test_schema_registry import NAME, schema, wire
from tests.system.daemon import ROOT, running
from tests.waiting import wait_until


@pytest.mark.nightly
async def test_messages_wait_for_a_registry_that_is_away(tmp_path: Path) -> None:
    out, refused = tmp_path / "out.jsonl", tmp_path / "refused.jsonl"

    def scenario(url: str, brokers: str) -> None:
        put(brokers, "events", wire(7, NAME, {"name": "a"}), b"no avro", wire(7, NAME, {"name": "caf\xe9"}))
        args = {"broker": brokers, "topic": "events", "registry": url}
        flow = write_flow(tmp_path, ROOT / "flows" / "doors" / "kafka-avro.troy", args)
        with running(flow, tmp_path) as daemon:
            daemon.wait_for("breaker triggered")
            assert not out.read_bytes()
            stub.status = 200
            wait_until(lambda: out.exists() and out.read_bytes().count(b"\n") == 2)
            wait_until(lambda: refused.exists() and refused.read_bytes().count(b"\n"))
            assert daemon.terminate() == 0, daemon.raw

    with cluster() as brokers:
        async with registry() as stub:
            stub.schemas, stub.status = {7: schema(NAME)}, 503
            await asyncio.to_thread(scenario, stub.url, brokers)
    assert [json.loads(line) for line in out.read_text().splitlines()] == [{"name": "a"}, {"name": "caf\xe9"}]
    assert "zero byte" in json.loads(refused.read_text())["error"]
