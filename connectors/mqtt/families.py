"""The metrics of both connectors."""

from typing import Final

from walflow import Families, Family
from walflow.net import BROKER_FAMILIES, CERTIFICATE_FAMILIES, CLIENT_FAMILIES

SUBSCRIBER: Final[Families] = {
    "connection_up": Family("gauge", "1 while the connector is connected to its MQTT broker."),
    "unacked_messages": Family("gauge", "Messages that the MQTT broker has sent and that are not acked to it."),
    "connections_total": CLIENT_FAMILIES["connections_total"],
    **CERTIFICATE_FAMILIES,
}
PUBLISHER: Final[Families] = {
    "connection_up": SUBSCRIBER["connection_up"],
    **BROKER_FAMILIES,
    **CERTIFICATE_FAMILIES,
}
