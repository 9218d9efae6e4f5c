"""One run of the sink: connections, one after the other. What has no answer is published again on the next one."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, cast

from paho.mqtt.client import Client
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from connectors.mqtt.connection import MqttConnection, keep_connected, new_properties
from connectors.mqtt.publisher import MqttPublisherKeys
from connectors.mqtt.settings import MqttAway, check_topic
from walflow import Block, Inlet, PeerSink, SinkPeer, WalflowError
from walflow.net import (
    Contexts,
    EndsEach,
    FruitlessConnections,
    MessageRetries,
    NotConfirmed,
    NumberedMessage,
    Refusal,
    SentBlock,
    any_untried,
)

KEYS: Final = ("topic", "retain", "content_type", "user_properties")
IN_USE: Final = MQTTErrorCode.MQTT_ERR_QUEUE_SIZE  # paho has no bound but that of packet identifiers
NEVER: Final = {
    0x87,
    0x90,
    0x95,
    0x99,
    0x9A,
    0x9B,
}  # not authorized, topic, too large, payload, retain and QoS not supported


class BadMqttMeta(WalflowError):
    """`$mqtt_publisher` of an event has what no message can have."""


class MqttPublisherRun(SinkPeer):
    def __init__(self, config: MqttPublisherKeys, inlet: Inlet) -> None:
        self._config = config
        self._inlet = inlet
        self._connection: MqttConnection | None = None
        self._most = config.most_unacked  # under way at once
        self._waiting: deque[NumberedMessage] = deque()
        self._under_way: dict[int, NumberedMessage] = {}
        self._answered_early: set[int] = set()
        self._held: dict[SentBlock, None] = {}
        PeerSink(inlet, self, gathers=False)
        self._serving = False
        self._fruitless = FruitlessConnections(inlet)
        self._sent = self._unanswered = 0  # messages of a connection, and how many have no answer at its end
        self._retries = MessageRetries(inlet, self.sink, self._send_again, self._has_untried, topic=config.topic)
        self._published = inlet.counter("messages_total")
        self._again = inlet.counter("retried_messages_total")
        inlet.gauge("connection_up", lambda: int(self._connection is not None))

    async def run(self) -> None:
        """Until it is cancelled. Raises MqttAway after `max_retries`."""
        tls = self._config.client_tls
        contexts = Contexts(tls, self._inlet) if tls is not None else None
        if contexts is not None:
            self._inlet.on_reopen(contexts.renew)
        try:
            await keep_connected(
                self._config, self._inlet, partial(self._one_connection, contexts), self._disconnected
            )
        finally:
            await self.sink.close()

    def _disconnected(self, reason: str) -> None:
        ends_each = self._fruitless.ended(self._sent, self._unanswered)
        self._sent = self._unanswered = 0
        self.sink.lost(MqttAway(reason))
        if ends_each:
            self.sink.fail_all(EndsEach(reason))

    async def _one_connection(self, contexts: Contexts | None, fruitful: Callable[[], None]) -> str:
        """Runs one connection, and returns why it ended. Raises MqttAway."""
        connection = MqttConnection(self._config, self._inlet, contexts, self._config.client_id, clean=True)
        connection.client.on_publish = self._on_publish
        connection.client.max_inflight_messages_set(self._config.most_unacked)
        try:
            await connection.open()
            limits = connection.limits
            if self._config.qos > limits.qos:
                raise MqttAway(f"the broker takes QoS {limits.qos} at most, and qos is {self._config.qos}")
            if self._config.retain and not limits.retains:
                raise MqttAway("the broker retains no messages, and retain is true")
            self._most = min(self._config.most_unacked, limits.unacked)
            self._connection = connection
            self.sink.connected()
            if not self._serving:
                self._serving = True
                self._inlet.serve(self.sink.accept)
            return await connection.until_lost(fruitful)
        finally:
            self._connection = None
            connection.close()
            self._unanswered = len(self._under_way)
            self._waiting.extendleft(reversed(self._under_way.values()))
            self._again.value += len(self._under_way)
            self._under_way.clear()
            self._answered_early.clear()

    def send(self, waiting: deque[Block]) -> bool:
        while waiting:
            block = waiting.popleft()
            sent = SentBlock(block, self._inlet.messages(block))
            self._held[sent] = None
            self._waiting.extend((sent, number) for number in range(sent.left))
            self._retries.came()
        while self._waiting and self._connection is not None and not self._retries.waits:
            if len(self._under_way) >= self._most:
                break
            self._publish_one(self._connection, self._waiting.popleft())
        return True

    def unfinished(self) -> Iterable[tuple[Block, int]]:
        self._waiting.clear()
        self._under_way.clear()
        self._retries.forget()
        held, self._held = self._held, {}
        return ((sent.block, 0) for sent in held)

    async def close(self) -> None:
        self._retries.end()

    def stop_cause(self) -> NotConfirmed:
        return NotConfirmed("walflow has stopped")

    def _publish_one(self, connection: MqttConnection, message: NumberedMessage) -> None:
        sent, number = message
        payload, qos = sent.messages[number], self._config.qos
        try:
            topic, retain, properties = self._parts(sent.meta(number))
            refusal = connection.limits.refusal(topic, payload, qos, retain=retain, properties=properties)
            if refusal:
                self._outcome(message, (None, refusal))
                return
            # while the next packet identifier is in use, paho sends nothing, and its next call takes the one after it
            while (info := connection.client.publish(topic, payload, qos, retain, properties)).rc == IN_USE:
                ...
        except (BadMqttMeta, ValueError) as error:
            self._outcome(message, (None, str(error)))
            return
        self._published.value += 1
        self._sent += 1
        if info.mid in self._answered_early:  # QoS 0, and it was written at once
            self._answered_early.discard(info.mid)
            self._outcome(message, None)
        else:
            self._under_way[info.mid] = message

    def _parts(self, meta: Mapping[str, object]) -> tuple[str, bool, Properties | None]:
        """Raises BadMqttMeta and ValueError."""
        own = meta.get("mqtt_publisher")
        if own is None:
            return self._config.topic, self._config.retain, None
        if not isinstance(own, Mapping):
            raise BadMqttMeta("$mqtt_publisher is no record")
        given = cast(Mapping[str, object], own)
        unknown = given.keys() - set(KEYS)
        if unknown:
            raise BadMqttMeta(f"$mqtt_publisher has no key {min(unknown)}: it takes {', '.join(KEYS)}")
        topic, retain = given.get("topic", self._config.topic), given.get("retain", self._config.retain)
        if not isinstance(topic, str):
            raise BadMqttMeta("$mqtt_publisher.topic is no string")
        if not isinstance(retain, bool):
            raise BadMqttMeta("$mqtt_publisher.retain is neither true nor false")
        return check_topic(topic, wildcards=False), retain, self._properties(given)

    def _properties(self, given: Mapping[str, object]) -> Properties | None:
        if self._config.version != "5" or not given.keys() & {"content_type", "user_properties"}:
            return None
        properties = new_properties(PacketTypes.PUBLISH)
        content_type = given.get("content_type")
        if content_type is not None:
            if not isinstance(content_type, str):
                raise BadMqttMeta("$mqtt_publisher.content_type is no string")
            properties.ContentType = content_type
        named = given.get("user_properties", {})
        if not isinstance(named, Mapping):
            raise BadMqttMeta("$mqtt_publisher.user_properties is no record")
        for name, values in cast(Mapping[str, object], named).items():
            for value in cast(list[object], values) if isinstance(values, list) else [values]:
                if not isinstance(value, str):
                    raise BadMqttMeta(f"$mqtt_publisher.user_properties.{name} is no string")
                properties.UserProperty = (name, value)
        return properties

    def _on_publish(
        self, _client: Client, _data: object, mid: int, code: ReasonCode, _properties: Properties | None
    ) -> None:
        message = self._under_way.pop(mid, None)
        if message is None:
            if not self._config.qos:
                self._answered_early.add(mid)
            return
        reason = f"the broker refuses: {code}"
        if code.is_failure and code.value not in NEVER:
            self._not_taken(message, reason)
        else:
            if self._connection is not None and self._config.qos:
                self._connection.heard = True
            self._retries.took(1)
            self._retries.passed()
            self._outcome(message, (None, reason) if code.is_failure else None)
        self.sink.wake()

    def _not_taken(self, message: NumberedMessage, reason: str) -> None:
        """For the moment."""
        if self._inlet.upstream.replaceable:
            self._retries.wait(reason)  # all that it holds fails
        elif (refusal := self._retries.failed(message, reason)) is not None:
            self._outcome(message, refusal)

    def _send_again(self, messages: Sequence[NumberedMessage], first: bool) -> None:
        if first:
            self._waiting.extendleft(reversed(messages))
        else:
            self._waiting.extend(messages)
        self._again.value += len(messages)
        self.sink.wake()

    def _has_untried(self) -> bool:
        return any_untried(chain(self._waiting, self._under_way.values()))

    def _outcome(self, message: NumberedMessage, refused: Refusal | None) -> None:
        sent, number = message
        if refused is not None:
            sent.refused[number] = refused
        sent.left -= 1
        if not sent.left:
            del self._held[sent]
            sent.settle(self._inlet)
