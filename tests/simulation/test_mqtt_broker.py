"""The broker of the stories says what mosquitto says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Self

import pytest

from tests.connectors.mosquitto import broker, needs_mosquitto
from tests.simulation.mqtt_broker import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    MqttPacket,
    MqttSubscriptions,
    encoded,
    message_of,
    publish,
    read_packet,
)
from tests.waiting import PATIENCE

EXPIRY: Final = bytes([5, 0x11, 0, 0, 1, 0])
TWO_UNDER_WAY: Final = bytes([8, 0x11, 0, 0, 1, 0, 0x21, 0, 2])

Port = int


class Raw:
    """A client that says what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, *packets: bytes) -> None:
        self._writer.writelines(packets)

    async def hears(self) -> tuple[object, ...]:
        """What matters of the next packet."""
        async with asyncio.timeout(PATIENCE):
            packet = await read_packet(self._reader)
        return told(packet)

    async def ends(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._reader.read()

    async def leave(self) -> None:
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Clients:
    def __init__(self, port: Port) -> None:
        self._port = port
        self._made: list[Raw] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._made:
            await client.leave()

    async def connected(self, name: str, properties: bytes = EXPIRY) -> Raw:
        client = Raw(*await asyncio.open_connection("127.0.0.1", self._port))
        self._made.append(client)
        client.say(encoded(CONNECT, b"\0\4MQTT\5\0\0\0" + properties + bytes([0, len(name)]) + name.encode()))
        return client


def told(packet: MqttPacket) -> tuple[object, ...]:
    body = packet.body
    if packet.kind == PUBLISH:
        message = message_of(packet)
        return "PUBLISH", message.mid, message.qos, message.dup, message.payload
    if packet.kind == CONNACK:
        return "CONNACK", *body[:2]
    if packet.kind == DISCONNECT:
        return "DISCONNECT", body[0]
    if packet.kind in (PUBREC, PUBREL, PUBCOMP):
        return packet.kind, int.from_bytes(body[:2]), body[2] if len(body) > 2 else 0
    return packet.kind, body


def numbered(kind: int, mid: int) -> bytes:
    return encoded(kind, mid.to_bytes(2))


async def a_session(clients: Clients) -> list[tuple[object, ...]]:
    """What a subscriber and a publisher hear, with QoS 2 and connections that break."""
    heard: list[tuple[object, ...]] = []
    client = await clients.connected("reader", TWO_UNDER_WAY)
    heard.append(await client.hears())
    client.say(encoded(SUBSCRIBE, b"\0\1\0\0\6events\2", 2))
    heard.append(await client.hears())
    writer = await clients.connected("writer")
    heard.append(await writer.hears())
    for mid, payload in enumerate([b"a", b"b", b"c"], 1):
        writer.say(publish(payload, 2, mid))
        heard.append(await writer.hears())
        writer.say(numbered(PUBREL, mid))
        heard.append(await writer.hears())
    heard += [await client.hears(), await client.hears()]
    client.say(numbered(PUBREC, 1))
    heard.append(await client.hears())
    await client.leave()
    client = await clients.connected("reader", TWO_UNDER_WAY)
    heard += [await client.hears() for _ in range(3)]
    client.say(numbered(PUBCOMP, 1))
    heard.append(await client.hears())
    client.say(numbered(PUBREC, 2))
    heard.append(await client.hears())
    client.say(encoded(PINGREQ))
    heard.append(await client.hears())
    other = await clients.connected("reader", TWO_UNDER_WAY)
    await client.ends()  # mosquitto 2.0.11 says no DISCONNECT
    heard += [await other.hears() for _ in range(3)]
    return heard


@asynccontextmanager
async def of_the_stories(_directory: Path) -> AsyncIterator[Port]:
    made = MqttSubscriptions()
    server = await asyncio.start_server(made.begin, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@asynccontextmanager
async def mosquitto(directory: Path) -> AsyncIterator[Port]:
    with broker(directory) as made:
        yield made.port


Brokers = Callable[[Path], AbstractAsyncContextManager[Port]]

NEW: Final = ("CONNACK", 0, 0)
KEPT: Final = ("CONNACK", 1, 0)
HEARD: Final = [
    NEW,
    (SUBACK, b"\0\1\0\2"),
    NEW,
    *((kind, mid, 0) for mid in (1, 2, 3) for kind in (PUBREC, PUBCOMP)),
    ("PUBLISH", 1, 2, False, b"a"),
    ("PUBLISH", 2, 2, False, b"b"),
    (PUBREL, 1, 0),
    KEPT,
    (PUBREL, 1, 0),
    ("PUBLISH", 2, 2, True, b"b"),
    ("PUBLISH", 3, 2, False, b"c"),
    (PUBREL, 2, 0),
    (PINGRESP, b""),
    KEPT,
    (PUBREL, 2, 0),
    ("PUBLISH", 3, 2, True, b"c"),
]


@needs_mosquitto
@pytest.mark.parametrize("made", [mosquitto, of_the_stories])
async def test_a_session_is_as_mosquitto_has_it(made: Brokers, tmp_path: Path) -> None:
    async with made(tmp_path) as port, Clients(port) as clients:
        heard = await a_session(clients)
    assert heard == HEARD
