"""Every flow file in flows/ starts as it is, on ports of its own, and stops when asked."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.connectors.kafka_world import cluster, put
from tests.connectors.mosquitto import BROKER as BROKER_OF_MQTT, broker
from tests.system.daemon import ROOT, free_port, running
from walflow.cli import app

FLOWS = ROOT / "flows"
SHIPPED = sorted(str(path.relative_to(FLOWS)) for path in FLOWS.rglob("*.troy"))
BROKER = "127.0.0.1:9092"
MQTT = "mqtt://127.0.0.1:1883"
WITH_SPARK = {"spark/hosts.troy"}  # a query, so a JVM


def marked(name: str) -> object:
    return pytest.param(name, marks=[pytest.mark.spark] if name in WITH_SPARK else [])


@contextmanager
def on_ports_of_its_own(text: str) -> Iterator[str]:
    with cluster() if f'"{BROKER}"' in text else nullcontext(BROKER) as broker:
        if broker != BROKER:
            put(broker, "events", b"1")  # there is the topic then
        for address in sorted(set(re.findall(r'"(127\.0\.0\.1:\d+)"', text))):
            ours = broker if address == BROKER else f"127.0.0.1:{free_port()}"
            text = text.replace(f'"{address}"', f'"{ours}"')
        yield text


@pytest.mark.parametrize("name", [marked(name) for name in SHIPPED])
def test_it_runs(name: str, tmp_path: Path) -> None:
    with on_ports_of_its_own((FLOWS / name).read_text()) as text:
        if MQTT not in text:
            start_and_stop(text, name, tmp_path)
            return
        if BROKER_OF_MQTT is None:
            pytest.skip("mosquitto is missing (apt install mosquitto mosquitto-clients)")
        with broker(tmp_path) as mosquitto:
            start_and_stop(text.replace(MQTT, f"mqtt://127.0.0.1:{mosquitto.port}"), name, tmp_path)


def start_and_stop(text: str, name: str, tmp_path: Path) -> None:
    text = text.replace("interval = 1000000000,", "interval = 3600000000000,")  # nobody is there to take what ticks
    flow = tmp_path / Path(name).name
    flow.write_text(text)
    for read in ("client_in.json", "events.json"):
        (tmp_path / read).touch()

    with running(flow, tmp_path) as daemon:
        daemon.wait_for("running")
        daemon.wait_for("ready")
        assert daemon.terminate() == 0, daemon.raw
        assert not [line for line in daemon.lines if line.get("level") in ("error", "critical")], daemon.raw


def test_the_ones_with_a_query_are_known() -> None:
    assert {name for name in SHIPPED if re.search(r'"(query|job)":', (FLOWS / name).read_text())} == WITH_SPARK


@pytest.mark.quick
@pytest.mark.parametrize("name", SHIPPED)
def test_check_passes_strictly_and_permits_no_more_than_needed(name: str) -> None:
    checked = CliRunner().invoke(app(), ["check", "--strict", str(FLOWS / name)])
    assert checked.exit_code == 0, checked.stdout
    assert "not needed" not in checked.stdout
