"""What every sink owes, of those that write to a broker: `mqtt_publisher` and `kafka_producer`."""

import asyncio
from collections.abc import Sequence

from connectors.mqtt import MqttPublisher
from tests.connectors.mqtt_broker import NEVER, StubBroker
from walflow.testing import VirtualScheduler
from walflow.testing.sinks import RunsSink, SinkSubject, sink_promises


class MqttSubject(SinkSubject):
    """In trouble, the broker is away, or it refuses each connection.
    What it has not answered then is published again."""

    never = b'"never"'
    bad_meta = {"mqtt_publisher": {"topic": "a/#"}}  # noqa: RUF012  # it is read alone
    notices = True
    exactly = False

    def __init__(self) -> None:
        self._broker = StubBroker()
        self._broker.refuses = {self.never: NEVER}
        self._away = False
        self._listening: asyncio.Future[None] | None = None

    async def open(self) -> RunsSink:
        await self._broker.listen()
        if self._away:
            self._broker.leave()
        return await self.again()

    async def again(self) -> RunsSink:
        retry = {"interval_ms": 20, "growth_rate": 2.0, "randomized": False}
        keys = {"url": f"mqtt://127.0.0.1:{self._broker.port}", "topic": "t", "reconnect": {"retry": retry}}
        return MqttPublisher.model_validate(keys)

    def got(self) -> Sequence[bytes]:
        return self._broker.taken

    def fail(self) -> None:
        self._away = True
        self._broker.leave()

    def fail_otherwise(self) -> None:
        self._broker.refuses_all = 0x88  # the server is unavailable
        self._listening = asyncio.ensure_future(self._broker.listen())

    def fail_after(self, events: int) -> None:
        self._broker.left = events

    def mend(self) -> None:
        self._away, self._broker.left, self._broker.refuses_all = False, 1_000_000, 0
        if self._listening is None:
            self._listening = asyncio.ensure_future(self._broker.listen())

    def hold(self, scheduler: VirtualScheduler) -> None:
        self._broker.holding = True

    def release(self, scheduler: VirtualScheduler) -> None:
        self._broker.release()

    async def close(self) -> None:
        if self._listening is not None:
            await self._listening
        self._broker.leave()


test_mqtt = sink_promises(
    MqttSubject,
    without={"a_stop_waits_for_what_is_under_way": "it waits for no answer: what has none fails"},
)
