"""As much of a broker of MQTT 5 as a publisher needs, on a real socket, in this process."""

import asyncio
from typing import Final, cast

NEVER: Final = 0x99  # the payload's format is invalid
NO_SUCH_VERSION: Final = 0x84
NO_WILDCARDS: Final = 0xA2
TAKEN_OVER: Final = 0x8E
SESSION_EXPIRY: Final = 0x11
FAILURES: Final = 0x80
FOR_NOW: Final = 0x97  # quota exceeded


class StubBroker:
    """Answers a message with `refuses` of its payload, and those of `silent` never. `left`: messages that it takes
    before it leaves. `refuses_all`: it answers so to each CONNECT, with `says` as properties. `grants`: what it
    answers to a subscription; a failure: it ends the connection with it."""

    def __init__(self) -> None:
        self.refuses: dict[bytes, int] = {}
        self.silent: set[bytes] = set()
        self.left = 1_000_000
        self.refuses_all = 0
        self.says = b""
        self.grants = 1
        self.holding = False
        self.taken: list[bytes] = []
        self.port = 0
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", self.port)
        self._server = server
        self.port = server.sockets[0].getsockname()[1]

    def leave(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in [*self._connections]:
            connection.transport.abort()

    def release(self) -> None:
        """Answers what came while `holding`."""
        self.holding = False
        for connection in [*self._connections]:
            connection.data_received(b"")


class _Connection(asyncio.Protocol):
    def __init__(self, broker: StubBroker) -> None:
        self._broker = broker
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has its own
        self._broker._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._read += data
        while not self._broker.holding and (packet := self._packet()) is not None:
            self._answer(*packet)

    def _packet(self) -> tuple[int, bytes] | None:
        """Its kind and what follows its length, which is written in groups of 7 bits."""
        length = at = 0
        while True:
            at += 1
            if len(self._read) <= at:
                return None
            length |= (self._read[at] & 0x7F) << 7 * (at - 1)
            if self._read[at] < 0x80:
                break
        end = at + 1 + length
        if len(self._read) < end:
            return None
        kind, body, self._read = self._read[0] >> 4, self._read[at + 1 : end], self._read[end:]
        return kind, body

    def _answer(self, kind: int, body: bytes) -> None:
        broker = self._broker
        if kind == 1:
            said = bytes([0, broker.refuses_all, len(broker.says)]) + broker.says
            self.transport.write(bytes([0x20, len(said)]) + said)
        elif kind == 8 and broker.grants >= FAILURES:
            self.transport.write(bytes([0xE0, 2, broker.grants, 0]))
            self.transport.close()
        elif kind == 8:
            self.transport.write(bytes([0x90, 4, *body[:2], 0, broker.grants]))
        elif kind == 3:
            if not broker.left:
                broker.leave()
                return
            after = 2 + int.from_bytes(body[:2], "big")
            payload = body[after + 3 :]  # behind the number and no properties
            code = broker.refuses.get(payload, 0)
            if not code:
                broker.left -= 1
                broker.taken.append(payload)
            if payload not in broker.silent:
                self.transport.write(bytes([0x40, 3, *body[after : after + 2], code]))
