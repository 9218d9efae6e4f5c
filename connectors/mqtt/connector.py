"""The connectors: their keys, and what runs with them."""

from connectors.mqtt.publisher import MqttPublisherKeys
from connectors.mqtt.publisher_run import MqttPublisherRun
from connectors.mqtt.subscriber import MqttSubscriberKeys
from connectors.mqtt.subscriber_run import MqttSubscriberRun
from walflow import Inlet, Outlet


class MqttPublisher(MqttPublisherKeys):
    """A sink that publishes each event as a message to an MQTT broker."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await MqttPublisherRun(self, inlet).run()


class MqttSubscriber(MqttSubscriberKeys):
    """A source that subscribes to topics of an MQTT broker. Each message is an event."""

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await MqttSubscriberRun(self, out).run()
