"""flows/doors/mqtt.troy with a real mosquitto and its programs, and kill -9 of both."""

import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from tests.connectors.mosquitto import Mosquitto, broker, needs_mosquitto
from tests.system.daemon import ROOT, Daemon, running
from tests.waiting import PATIENCE

KILLS = 4
LINES = 50  # of one mosquitto_pub
AHEAD = 500  # messages, more than are sent between two kills

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


class Ledger:
    """What has come, and how often. Its session is kept: a connection that breaks under load loses nothing."""

    def __init__(self, port: int, topic: str) -> None:
        self.found: Counter[bytes] = Counter()
        self._changed = threading.Condition()
        self._subscribed = threading.Event()
        self._topic = topic
        self._client = client = Client(CallbackAPIVersion.VERSION2, "ledger", clean_session=False)
        client.on_connect = self._on_connect
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_message = self._on_message
        client.connect("127.0.0.1", port)

    def _on_connect(self, client: Client, *_: object) -> None:
        client.subscribe(self._topic, 1)

    def _on_message(self, _client: Client, _data: object, message: MQTTMessage) -> None:
        with self._changed:
            self.found[bytes(message.payload)] += 1
            self._changed.notify_all()

    def wait_for(self, true: Callable[[], bool], what: Callable[[], str]) -> None:
        """Fails once nothing new has come for PATIENCE."""
        with self._changed:
            while not true():
                before = len(self.found)
                self._changed.wait_for(lambda: true() or len(self.found) > before, PATIENCE)  # noqa: B023  # called at once
                assert true() or len(self.found) > before, what()

    def has(self, goal: int) -> bool:
        return len(self.found) >= goal

    def __enter__(self) -> Self:
        self._client.loop_start()
        assert self._subscribed.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Publisher(threading.Thread):
    """Publishes until it is stopped, and writes down what the broker has answered. It waits where AHEAD of them have
    not arrived yet, so what is left at the end does not depend on how long the kills took."""

    def __init__(self, mosquitto: Mosquitto, qos: int, ledger: Ledger, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._qos = str(qos)
        self.answered: list[bytes] = []
        self._mosquitto, self._ledger, self._stop_now = mosquitto, ledger, stop

    def run(self) -> None:
        while not self._stop_now.is_set():
            lines = [b"%d" % (len(self.answered) + number) for number in range(LINES)]
            self._mosquitto.publish("edge/n", lines, "-q", self._qos)
            self.answered += lines
            self._ledger.wait_for(self._may_go_on, self.missing)

    def _may_go_on(self) -> bool:
        return self._stop_now.is_set() or len(self.answered) - len(self._ledger.found) < AHEAD

    def missing(self) -> str:
        absent = [line for line in self.answered if line not in self._ledger.found]
        return f"{len(absent)} of {len(self.answered)} are missing, first {absent[:3]}"

    @property
    def arrived(self) -> bool:
        return self._ledger.found.keys() >= set(self.answered)


@pytest.mark.nightly
@pytest.mark.parametrize("kills", [KILLS, pytest.param(30, marks=pytest.mark.soak)])
@pytest.mark.parametrize("qos", [1, 2])
def test_killed_under_load_every_message_that_a_broker_has_taken_arrives(
    qos: int, kills: int, tmp_path: Path
) -> None:
    with (
        broker(tmp_path, "max_inflight_messages 1000") as mosquitto,
        Ledger(mosquitto.port, "central/#") as ledger,
    ):
        flow = bridge(tmp_path, mosquitto.port)
        flow.write_text(
            flow.read_text()
            .replace('"central"}', f'"central", "qos": {qos}}}')
            .replace('"client_id": "walflow"', f'"client_id": "walflow", "qos": {qos}')
        )
        daemon = Daemon(flow, tmp_path)
        daemon.wait_for("subscribed")
        stop = threading.Event()
        publisher = Publisher(mosquitto, qos, ledger, stop)
        publisher.start()
        dice = random.Random(7)
        try:
            for _ in range(kills):
                goal = len(ledger.found) + dice.randrange(1, 4 * LINES)
                ledger.wait_for(partial(ledger.has, goal), publisher.missing)
                daemon.kill()
                daemon = Daemon(flow, tmp_path)
            stop.set()
            publisher.join(PATIENCE)
            ledger.wait_for(lambda: publisher.arrived, publisher.missing)
            assert daemon.terminate() == 0, daemon.raw
        except BaseException:
            stop.set()
            daemon.kill()
            raise
    repeats = ledger.found.total() - len(ledger.found)
    sys.stdout.write(f"{kills} kills: {len(publisher.answered)} messages, none is missing, {repeats} repeats\n")


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
