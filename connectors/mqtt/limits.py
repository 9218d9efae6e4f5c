"""What a broker takes at most. It says so in its CONNACK (MQTT 5, 3.2.2.3); with version 3.1.1 it says nothing."""

from collections.abc import Callable
from typing import Final, NamedTuple, Self, cast

from paho.mqtt.properties import Properties

LARGEST_LENGTH: Final = ((1 << 7) - 1, (1 << 14) - 1, (1 << 21) - 1)  # that one, two, three bytes say (MQTT 5, 1.5.5)


class BrokerLimits(NamedTuple):
    """`unacked`: messages with QoS 1 or 2 that it has not answered. `packet`: bytes of a packet; 0: no limit."""

    unacked: int = 65_535
    qos: int = 2
    retains: bool = True
    packet: int = 0
    session_s: int | None = None  # how long it keeps the session; None: as long as it was asked to

    @classmethod
    def of(cls, properties: Properties) -> Self:
        def said(name: str, otherwise: int) -> int:
            return cast(int, getattr(properties, name, otherwise))

        return cls(
            said("ReceiveMaximum", 65_535),
            said("MaximumQoS", 2),
            bool(said("RetainAvailable", 1)),
            said("MaximumPacketSize", 0),
            cast(int | None, getattr(properties, "SessionExpiryInterval", None)),
        )

    def refusal(self, topic: str, payload: bytes, qos: int, *, retain: bool, properties: Properties | None) -> str:
        """Why the broker would end the connection at this message; "": it would not."""
        if retain and not self.retains:
            return "the broker retains no messages"
        if self.packet and (size := packet_size(topic, payload, qos, properties)) > self.packet:
            return f"the message has {size:,} bytes, and the broker takes at most {self.packet:,}"
        return ""


def packet_size(topic: str, payload: bytes, qos: int, properties: Properties | None) -> int:
    """Bytes of a PUBLISH of version 5 (MQTT 5, 3.3)."""
    said = 1  # the length of no properties
    if properties is not None:
        pack: Callable[[], bytes] = properties.pack  # which has no types
        said = len(pack())
    length = 2 + len(topic.encode()) + (2 if qos else 0) + said + len(payload)
    return 1 + 1 + sum(length > largest for largest in LARGEST_LENGTH) + length
