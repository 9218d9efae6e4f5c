"""MQTT, by paho-mqtt (the extra `[mqtt]`), on the loop: no thread but for connecting.

`settings` is what both connectors take. `connection` is one connection to the broker. `subscriber` is the source,
with `subscribing` as one run of it; `publisher` is the sink, with `publishing`.
"""

from walflow import WalflowError, lacks

try:
    from connectors.mqtt.connector import MqttPublisher, MqttSubscriber
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] != "paho":
        raise
    raise WalflowError(lacks("it", "mqtt")) from missing

__all__ = ["MqttPublisher", "MqttSubscriber"]
