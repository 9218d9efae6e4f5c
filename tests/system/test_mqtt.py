"""flows/doors/mqtt.troy with a real mosquitto and its programs, and kill -9 of both."""

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.connectors.mosquitto import Mosquitto, broker, needs_mosquitto
from tests.system.daemon import PATIENCE, ROOT, Daemon, running, wait_until

KILLS = 30
LINES = 50  # of one mosquitto_pub

pytestmark = needs_mosquitto


def bridge(directory: Path, port: int) -> Path:
    flow = directory / "mqtt.troy"
    flow.write_text((ROOT / "flows/doors/mqtt.troy").read_text().replace("127.0.0.1:1883", f"127.0.0.1:{port}"))
    return flow


def test_a_message_goes_from_broker_to_broker_under_another_topic(tmp_path: Path) -> None:
    with broker(tmp_path) as mosquitto:
        mosquitto.keep("central/edge/#")
        with running(bridge(tmp_path, mosquitto.port), tmp_path) as daemon:
            daemon.wait_for("subscribed")
            mosquitto.publish("edge/room-1/temperature", [b'{"celsius":21.5}', b"no JSON", b"2"])
            assert mosquitto.kept("central/edge/#", 2) == [b'{"celsius":21.5}', b"2"]
            assert daemon.terminate() == 0, daemon.raw


class Publisher(threading.Thread):
    """Publishes until it is stopped, and writes down what the broker has answered."""

    def __init__(self, mosquitto: Mosquitto, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.answered: list[bytes] = []
        self._mosquitto, self._stop_now = mosquitto, stop

    def run(self) -> None:
        while not self._stop_now.is_set():
            lines = [b"%d" % (len(self.answered) + number) for number in range(LINES)]
            self._mosquitto.publish("edge/n", lines)
            self.answered += lines


@contextmanager
def listening(port: int, topic: str) -> Iterator[set[bytes]]:
    """What has come."""
    found: set[bytes] = set()
    client = Client(CallbackAPIVersion.VERSION2)
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _client, _data, message: found.add(bytes(message.payload))
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        client.subscribe(topic, 1)
        assert subscribed.wait(PATIENCE)
        yield found
    finally:
        client.disconnect()
        client.loop_stop()


def reached(found: set[bytes], goal: int) -> bool:
    return len(found) >= goal


@pytest.mark.nightly
@pytest.mark.parametrize("qos", [1, 2])
def test_killed_under_load_every_message_that_a_broker_has_taken_arrives(qos: int, tmp_path: Path) -> None:
    with broker(tmp_path, "max_inflight_messages 1000") as mosquitto, listening(mosquitto.port, "central/#") as found:
        flow = bridge(tmp_path, mosquitto.port)
        flow.write_text(flow.read_text().replace('"central"}', f'"central", "qos": {qos}}}'))
        daemon = Daemon(flow, tmp_path)
        daemon.wait_for("subscribed")
        stop = threading.Event()
        publisher = Publisher(mosquitto, stop)
        publisher.start()
        dice = random.Random(7)
        try:
            for _ in range(KILLS):
                goal = len(found) + dice.randrange(1, 4 * LINES)
                wait_until(partial(reached, found, goal))
                daemon.kill()
                daemon = Daemon(flow, tmp_path)
            stop.set()
            publisher.join(PATIENCE)
            wait_until(lambda: found.issuperset(publisher.answered))
            assert daemon.terminate() == 0, daemon.raw
        except BaseException:
            stop.set()
            daemon.kill()
            raise


@pytest.mark.nightly
def test_a_broker_that_is_killed_is_waited_for(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    with broker(tmp_path) as mosquitto, broker(there, "autosave_interval 1", "autosave_on_changes true") as other:
        flow = bridge(tmp_path, mosquitto.port)
        flow.write_text(
            flow.read_text().replace(
                f'to_url = "mqtt://127.0.0.1:{mosquitto.port}"', f'to_url = "mqtt://127.0.0.1:{other.port}"'
            )
        )
        other.keep("central/edge/#")
        with running(flow, tmp_path) as daemon:
            daemon.wait_for("subscribed")
            other.end(signal.SIGKILL)
            mosquitto.publish("edge/n", [b"%d" % number for number in range(LINES)])
            daemon.wait_for("disconnected")
            other.start()
            assert set(other.kept("central/edge/#", LINES)) >= {b"%d" % number for number in range(LINES)}
            assert daemon.terminate() == 0, daemon.raw
