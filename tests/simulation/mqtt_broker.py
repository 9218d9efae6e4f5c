"""A broker of MQTT 5, as far as walflow's connectors ask one: sessions that outlive connections, QoS 1 and 2. It is
plain asyncio, so it runs in a story and beside mosquitto (`tests/simulation/test_mqtt_broker.py`).

Behaviour is that of the OASIS standard, MQTT Version 5.0: sections 3 (packets), 4.3 (QoS), 4.4 (what is sent again),
4.9 (Receive Maximum).
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from walflow.testing.simulation.wires import GONE, WirePeer

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, _, _, PINGREQ, PINGRESP, DISCONNECT = range(8, 15)
SUCCESS: Final = 0
NO_QUOTA: Final = 0x97
BAD_PAYLOAD: Final = 0x99
TAKEN_OVER: Final = 0x8E
UNKNOWN_PACKET: Final = 0x92
SESSION_EXPIRY: Final = 0x11
RECEIVE_MAXIMUM: Final = 0x21
SIZES: Final = {SESSION_EXPIRY: 4, RECEIVE_MAXIMUM: 2}  # of the properties that walflow sends
FIXED_FLAGS: Final = {PUBREL: 2}
TOPIC: Final = "events"


class MqttPacket(NamedTuple):
    kind: int
    flags: int
    body: bytes


def encoded(kind: int, body: bytes = b"", flags: int | None = None) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, low = left >> 7, left & 0x7F
        length.append(low | 0x80 if left else low)
        if not left:
            return bytes([kind << 4 | (FIXED_FLAGS.get(kind, 0) if flags is None else flags), *length]) + body


def publish(payload: bytes, qos: int, mid: int, *, dup: bool = False, topic: str = TOPIC) -> bytes:
    number = mid.to_bytes(2) if qos else b""
    name = topic.encode()
    return encoded(PUBLISH, len(name).to_bytes(2) + name + number + b"\0" + payload, dup << 3 | qos << 1)


async def read_packet(reader: asyncio.StreamReader) -> MqttPacket:
    """Raises IncompleteReadError."""
    (first,) = await reader.readexactly(1)
    length = shift = 0
    while True:
        (byte,) = await reader.readexactly(1)
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return MqttPacket(first >> 4, first & 0xF, await reader.readexactly(length))


class _Body:
    """Reads fields one by one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def text(self) -> str:
        return self.take(self.number(2)).decode()

    def properties(self) -> dict[int, int]:
        end = self.number(1) + self._at
        found: dict[int, int] = {}
        while self._at < end:
            kind = self.number(1)
            found[kind] = self.number(SIZES[kind])
        return found

    def more(self) -> bool:
        return self._at < len(self._data)

    def rest(self) -> bytes:
        return self._data[self._at :]


class MqttHello(NamedTuple):
    """What CONNECT says."""

    client_id: str
    clean: bool
    receive_maximum: int


def hello_of(packet: MqttPacket) -> MqttHello:
    assert packet.kind == CONNECT, f"the first packet is {packet}"
    body = _Body(packet.body)
    assert (body.text(), body.number(1)) == ("MQTT", 5)
    flags, _ = body.number(1), body.number(2)
    properties = body.properties()
    return MqttHello(body.text(), bool(flags & 2), properties.get(RECEIVE_MAXIMUM, 65535))


def connack(*, present: bool) -> bytes:
    return encoded(CONNACK, bytes([present, SUCCESS, 0]))


class MqttMessage(NamedTuple):
    mid: int
    qos: int
    dup: bool
    payload: bytes


def message_of(packet: MqttPacket) -> MqttMessage:
    body, qos = _Body(packet.body), packet.flags >> 1 & 3
    body.text()
    mid = body.number(2) if qos else 0
    body.properties()
    return MqttMessage(mid, qos, bool(packet.flags & 8), body.rest())


class MqttReceived:
    """What a publisher has sent on one connection: with QoS 2 a message is taken once, until it is released."""

    def __init__(self) -> None:
        self._held: set[int] = set()

    def answer(self, message: MqttMessage, code: int) -> tuple[bool, bytes]:
        """Whether it is taken now, and what the broker says."""
        new = code == SUCCESS and message.mid not in self._held
        if new and message.qos == 2:
            self._held.add(message.mid)
        kind = PUBACK if message.qos == 1 else PUBREC
        return new, encoded(kind, message.mid.to_bytes(2) + bytes([code]))

    def released(self, packet: MqttPacket) -> bytes:
        self._held.discard(int.from_bytes(packet.body[:2]))
        return encoded(PUBCOMP, packet.body[:2])


class _Stage(Enum):
    """Of a message that was sent to a subscriber."""

    SENT = "PUBLISH has no answer"
    RELEASED = "PUBREC came; PUBREL has no answer"


class MqttSession:
    """A subscriber's. `queued`: messages that were not sent; `under_way`: those that were, by packet identifier."""

    def __init__(self) -> None:
        self.queued: deque[bytes] = deque()
        self.under_way: dict[int, tuple[_Stage, bytes]] = {}
        self.qos = 1
        self.subscribed = False
        self.most = 0  # under way
        self.writer: asyncio.StreamWriter | None = None
        self._last = 0

    def __repr__(self) -> str:
        return f"<MqttSession with {len(self.queued)} messages, and {len(self.under_way)} under way>"

    def put(self, payload: bytes) -> None:
        self.queued.append(payload)
        self.pump()

    def pump(self) -> None:
        while self.writer is not None and self.queued and len(self.under_way) < self.most:
            payload = self.queued.popleft()
            mid = self._new_identifier()
            self.under_way[mid] = _Stage.SENT, payload
            self.writer.write(publish(payload, self.qos, mid))

    def again(self) -> Iterator[bytes]:
        """After a connection was lost (4.4), in the order of the first time."""
        for mid, (stage, payload) in self.under_way.items():
            if stage is _Stage.SENT:
                yield publish(payload, self.qos, mid, dup=True)
            else:
                yield encoded(PUBREL, mid.to_bytes(2))

    def answered(self, packet: MqttPacket) -> bytes:
        """What the broker says to it."""
        mid = int.from_bytes(packet.body[:2])
        stage, payload = self.under_way.get(mid, (None, b""))
        if packet.kind == PUBREC:
            if stage is None:
                return encoded(PUBREL, mid.to_bytes(2) + bytes([UNKNOWN_PACKET]))
            self.under_way[mid] = _Stage.RELEASED, payload
            return encoded(PUBREL, mid.to_bytes(2))
        self.under_way.pop(mid, None)
        return b""

    def _new_identifier(self) -> int:
        while True:
            self._last = self._last % 65535 + 1
            if self._last not in self.under_way:
                return self._last


class MqttSubscriptions:
    """The half of a broker that a subscriber sees. Its sessions are kept for ever."""

    def __init__(self) -> None:
        self.sessions: dict[str, MqttSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, payload: bytes) -> bool:
        """Somebody has published it: it goes to who has subscribed. Returns whether anybody has."""
        subscribed = [session for session in self.sessions.values() if session.subscribed]
        for session in subscribed:
            session.put(payload)
        return bool(subscribed)

    def left(self) -> str:
        kept = [session for session in self.sessions.values() if session.queued or session.under_way]
        return str(kept) if kept else ""

    async def run(self, host: str, port: int) -> None:
        server = await asyncio.start_server(self.begin, host, port)
        await server.serve_forever()

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session: MqttSession | None = None
        try:
            session = self._greet(hello_of(await read_packet(reader)), writer)
            received = MqttReceived()
            while (packet := await read_packet(reader)).kind != DISCONNECT:
                self._answer(session, packet, writer, received)
                await writer.drain()
        except GONE:
            pass
        finally:
            if session is not None and session.writer is writer:
                session.writer = None
            writer.transport.abort()

    def _greet(self, hello: MqttHello, writer: asyncio.StreamWriter) -> MqttSession:
        present = not hello.clean and hello.client_id in self.sessions
        session = self.sessions[hello.client_id] if present else MqttSession()
        self.sessions[hello.client_id] = session
        if session.writer is not None:  # another connection of the same client takes its place (3.1.4)
            session.writer.write(encoded(DISCONNECT, bytes([TAKEN_OVER, 0])))
            session.writer.close()
        session.writer, session.most = writer, hello.receive_maximum
        writer.write(connack(present=present))
        writer.writelines(session.again())
        session.pump()
        return session

    def _answer(
        self, session: MqttSession, packet: MqttPacket, writer: asyncio.StreamWriter, received: MqttReceived
    ) -> None:
        if packet.kind == SUBSCRIBE:
            writer.write(_subscribe(session, _Body(packet.body)))
        elif packet.kind == PINGREQ:
            writer.write(encoded(PINGRESP))
        elif packet.kind == PUBLISH:
            message = message_of(packet)
            taken, answer = received.answer(message, SUCCESS)
            if taken:
                self.put(message.payload)
            writer.write(answer)
        elif packet.kind == PUBREL:
            writer.write(received.released(packet))
        else:
            writer.write(session.answered(packet))
            if session.writer is writer:
                session.pump()


def _subscribe(session: MqttSession, body: _Body) -> bytes:
    mid = body.number(2)
    body.properties()
    granted = bytearray()
    while body.more():
        body.text()
        session.qos = body.number(1) & 3
        granted.append(session.qos)
    session.subscribed = True
    return encoded(SUBACK, mid.to_bytes(2) + b"\0" + granted)


class MqttPeer(WirePeer):
    """The half that a publisher sees. It closes the connection when it chokes."""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello_of(await read_packet(reader))
        received = MqttReceived()
        writer.write(connack(present=False))
        while (packet := await read_packet(reader)).kind != DISCONNECT:
            if packet.kind == PINGREQ:
                writer.write(encoded(PINGRESP))
            elif packet.kind == PUBREL:
                writer.write(received.released(packet))
            else:
                await self.speaks()
                message = message_of(packet)
                code = self._code(message.payload)
                if code is None:
                    return
                taken, answer = received.answer(message, code)
                if taken:
                    self.take([message.payload])
                writer.write(answer)
            await writer.drain()

    def _code(self, payload: bytes) -> int | None:
        numbers = self.numbers([payload])
        if self.mood == "busy":
            return NO_QUOTA
        if numbers & self.chokes:
            return None
        return BAD_PAYLOAD if numbers & self.poison else SUCCESS
