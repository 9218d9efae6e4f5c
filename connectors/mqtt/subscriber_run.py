"""One run of the source: connections, one after the other, and the messages that are not acked."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from connectors.mqtt.connection import MqttConnection, keep_connected
from connectors.mqtt.settings import MqttAway
from connectors.mqtt.subscriber import MqttSubscriberKeys
from walflow import Frames, Outlet, StreamId
from walflow.delivery import HeldBatch, Resending
from walflow.framing import frames_of
from walflow.net import Contexts
from walflow.world import wall_ns

TWO: Final = 2
SAY: Final = 10.0  # seconds between lines about dropped messages


class UnackedMessages(HeldBatch):
    """`packets`: those whose answer the broker waits for, by packet identifier. `done` is called once, when each of
    their events is settled."""

    def __init__(
        self,
        stream: StreamId,
        payloads: Sequence[bytes],
        metas: Sequence[Mapping[str, object]],
        packets: Mapping[int, MQTTMessage],
        done: Callable[["UnackedMessages"], None],
    ) -> None:
        data, framing = frames_of(payloads)
        super().__init__(stream, Frames(data, len(payloads), framing), metas, wall_ns())
        self.packets = packets
        self.is_settled = False
        self._done = done

    def settled(self) -> None:
        self.is_settled = True
        self._done(self)

    def place(self, meta: Mapping[str, object]) -> str:
        told = cast(Mapping[str, object], meta["mqtt_subscriber"])
        return f"topic {told['topic']}"


class ReceivedMessages:
    """Messages of QoS 2, from their arrival until the broker has said that it will not send them again (PUBREL). If
    the connection breaks between, the broker sends such a message once more, and it is no new one.

    A broker that has lost its newest state gives identifiers out again: so the bytes must be the same too.
    """

    def __init__(self) -> None:
        self._held: dict[int, tuple[bytes, UnackedMessages]] = {}

    def add(self, message: MQTTMessage, batch: UnackedMessages) -> None:
        self._held[message.mid] = _digest(message), batch

    def batch_of(self, message: MQTTMessage) -> UnackedMessages | None:
        """The unacked batch that the repeated message is of. None: the message is new."""
        digest, batch = self._held.get(message.mid, (b"", None))
        return batch if message.dup and digest == _digest(message) else None

    def released(self, mid: int) -> None:
        self._held.pop(mid, None)

    def clear(self) -> None:
        self._held.clear()


class MqttSubscriberRun:
    def __init__(self, config: MqttSubscriberKeys, out: Outlet) -> None:
        self._config = config
        self._out = out
        self._resending = Resending(out, lambda: None, config.max_attempts)
        self._connection: MqttConnection | None = None  # also while it is being opened: the broker may send at once
        self._up = False
        self._stream = StreamId(out.name, out.run, 1)
        self._arrived: list[MQTTMessage] = []  # in this turn of the loop
        self._unacked: dict[int, UnackedMessages] = {}  # by their packet identifiers, on this connection
        self._received = ReceivedMessages()
        self._dropped = out.counter("dropped_events_total")
        self._said = 0.0
        self._connected = out.counter("connections_total")
        out.gauge("unacked_messages", lambda: len(self._unacked))
        out.gauge("connection_up", lambda: int(self._up))

    async def run(self) -> None:
        """Receives messages until it is cancelled."""
        tls = self._config.client_tls
        contexts = Contexts(tls, self._out) if tls is not None else None
        await keep_connected(self._config, self._out, partial(self._one_connection, contexts), lambda reason: None)

    async def _one_connection(self, contexts: Contexts | None, fruitful: Callable[[], None]) -> str:
        """Runs one connection, and returns why it ended. Raises MqttAway."""
        config = self._config
        connection = MqttConnection(config, self._out, contexts, config.client_id, clean=False)
        connection.on_message = partial(self._on_message, connection)
        connection.client.on_released = self._received.released
        self._connection = connection
        try:
            await connection.open(config.session_expiry // 1_000_000_000, config.max_unacked)
            if not connection.present:
                self._received.clear()
            await self._subscribe(connection)
            self._up = True
            self._connected.value += 1
            self._out.log.info("subscribed", peer=str(config.address), session_kept=connection.present)
            self._tell_session(connection.limits.session_s)
            self._out.on_ready(self._resending.pump)
            self._resending.pump()
            return await connection.until_lost(fruitful)
        finally:
            self._take()
            self._connection = None
            self._up = False
            self._unacked.clear()  # the broker sends them again on the next connection, perhaps by other identifiers
            connection.close()

    def _tell_session(self, seconds: int | None) -> None:
        asked = self._config.session_expiry // 1_000_000_000
        if seconds is not None and seconds < asked:
            self._out.log.warning("shorter session", kept_seconds=seconds, asked_seconds=asked)

    async def _subscribe(self, connection: MqttConnection) -> None:
        """Raises MqttAway."""
        granted: asyncio.Future[Sequence[ReasonCode]] = asyncio.get_running_loop().create_future()

        def on_subscribe(
            _client: Client, _data: object, _mid: int, codes: list[ReasonCode], _properties: Properties | None
        ) -> None:
            if not granted.done():
                granted.set_result(codes)

        connection.client.on_subscribe = on_subscribe
        qos: int = self._config.qos
        if self._config.version == "5":
            connection.client.subscribe([(topic, SubscribeOptions(qos=qos)) for topic in self._config.topics])
        else:
            connection.client.subscribe([(topic, qos) for topic in self._config.topics])
        codes = await connection.until(granted, "the broker does not answer a subscription")
        for topic, code in zip(self._config.topics, codes, strict=False):
            if code.is_failure:
                raise MqttAway(f"the broker refuses the subscription to {topic}: {code}")
            if not code.value and qos:
                raise MqttAway(f"the broker grants {topic} with QoS 0 only, and qos is {qos}: it would keep nothing")
            if code.value < qos:
                self._out.log.warning("lower QoS", topic=topic, granted=code.value, asked=qos)

    # what comes

    def _on_message(self, connection: MqttConnection, message: MQTTMessage) -> None:
        if message.qos == TWO and connection.present:
            batch = self._received.batch_of(message)
            if batch is not None:
                self._unacked[message.mid] = batch
                if batch.is_settled:
                    self._answer(message)
                return
        if not message.qos and not self._resending.has_room:
            self._drop()
            return
        if not self._arrived:
            self._out.scheduler.call_soon(self._take)
        self._arrived.append(message)

    def _take(self) -> None:
        messages, self._arrived = self._arrived, []
        good: list[MQTTMessage] = []
        for message in messages:
            reason = self._judge(message)
            if reason:
                self._hold(good)
                good = []
                self._hold([message], reason)
            else:
                good.append(message)
        self._hold(good)
        self._resending.pump()

    def _judge(self, message: MQTTMessage) -> str:
        """Why it is no event; "": it is one."""
        data, framing = frames_of([bytes(message.payload)])
        bad = self._out.codec.validate(data, framing, 1).bad
        return bad[0][1] if bad else ""

    def _hold(self, messages: Sequence[MQTTMessage], refused: str = "") -> None:
        if not messages:
            return
        packets = {message.mid: message for message in messages if message.qos}
        payloads = [bytes(message.payload) for message in messages]
        metas = [_meta(message) for message in messages]
        batch = UnackedMessages(self._stream, payloads, metas, packets, self._settled)
        self._unacked.update(dict.fromkeys(packets, batch))
        for message in messages:
            if message.qos == TWO:
                self._received.add(message, batch)
        self._resending.hold(batch, refused)

    def _settled(self, batch: UnackedMessages) -> None:
        for packet, message in batch.packets.items():
            if self._unacked.get(packet) is batch:
                self._answer(message)

    def _answer(self, message: MQTTMessage) -> None:
        if self._connection is None:
            return
        del self._unacked[message.mid]
        if message.qos == TWO:
            self._connection.client.pubrec(message.mid)
        else:
            self._connection.client.ack(message.mid, 1)

    def _drop(self) -> None:
        self._dropped.value += 1
        now = self._out.scheduler.time()
        if now - self._said > SAY or self._dropped.value == 1:
            self._said = now
            self._out.log.warning(
                "dropped", reason="QoS 0, and the flow accepts none now", so_far=self._dropped.value
            )


def _digest(message: MQTTMessage) -> bytes:
    return hashlib.sha256(message.topic.encode() + b"\0" + bytes(message.payload)).digest()


def _given(properties: Properties) -> Mapping[str, object]:
    read: Callable[[], object] = properties.json  # which has no types
    return cast(Mapping[str, object], read())


def _meta(message: MQTTMessage) -> Mapping[str, object]:
    told: dict[str, object] = {
        "topic": message.topic,
        "qos": message.qos,
        "retain": message.retain,
        "duplicate": message.dup,
    }
    given: Mapping[str, object] = _given(message.properties) if message.properties is not None else {}
    if "ContentType" in given:
        told["content_type"] = given["ContentType"]
    if "UserProperty" in given:
        values: dict[str, list[str]] = {}
        for name, value in cast(list[tuple[str, str]], given["UserProperty"]):
            values.setdefault(name, []).append(value)
        told["user_properties"] = values
    return {"mqtt_subscriber": told}
