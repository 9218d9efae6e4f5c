"""The sink half of a client, over all its connections."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from walflow.contract import Inlet, Outlet
from walflow.errors import OneOfMany, PeerAway, WalflowError
from walflow.event import Block
from walflow.net.acks import Acks, NoEcho
from walflow.net.connection import Connection
from walflow.net.fruitless import EndsEach, FruitlessConnections
from walflow.sinks import PeerSink, SinkPeer

CLOSING: Final = 1.0  # seconds for the peer to take what is written to it when we stop
STALLED: Final = 5.0  # seconds without a byte taken after which the sources are stopped, and it is said


class PeerLost(PeerAway):
    """The connection ended with events on it that are not known to have arrived. They may be sent again."""


class NotAnswered(OneOfMany):
    """The peer reads, and has not sent an event back in time. It may never do so."""


class ClientSink(SinkPeer):
    """`write_buffer`: bytes that may wait for the peer to read; beyond them the sources stop. `write_timeout`:
    nanoseconds without a byte taken after which the connection is ended."""

    def __init__(
        self, inlet: Inlet, out: Outlet, peer: str, acks: Acks, write_buffer: int, write_timeout: int | None
    ) -> None:
        self._inlet = inlet
        self._out = out
        self._peer = peer
        self._acks = acks
        self._write_buffer = write_buffer
        self._write_timeout = write_timeout
        self._connection: Connection | None = None
        self._sent = 0  # events on this connection
        self._fruitless = FruitlessConnections(inlet)
        self._overdue = False  # the connection is ended because an answer did not come: what is held fails with it
        PeerSink(inlet, self)

    @property
    def triggered(self) -> bool:
        return bool(self.sink.breaker.reason)

    def serve(self) -> None:
        self.sink.serve(PeerLost(f"not connected to {self._peer} yet"))

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self.sink.connected()

    def not_connected(self, reason: str) -> None:
        self.sink.lost(PeerLost(f"not connected to {self._peer}: {reason}"))

    def taken(self, connection: Connection) -> None:
        """The peer has read something."""
        if self.sink.is_full and connection.writing.unwritten <= self._write_buffer // 2:
            self.sink.full("")

    def lost(self, connection: Connection, reason: str) -> None:
        self._connection = None
        lost = f"lost {self._peer}: {reason}"
        unwritten = connection.writing.give_up()
        sent, self._sent = self._sent, 0
        ends_each = self._fruitless.ended(sent, self._acks.unanswered(unwritten))
        cause = NotAnswered(lost) if self._overdue else EndsEach(lost) if ends_each else PeerLost(lost)
        self.sink.lost(cause)
        self.sink.full("")
        self.sink.put_back(self._acks.lost(unwritten, cause))
        if self._overdue or self._inlet.upstream.replaceable or ends_each:
            self._overdue = False
            self.sink.fail_all(cause)

    def look(self, now: float) -> None:
        """Once a second: ends a connection that does not answer, and stops the sources of one that does not read."""
        connection = self._connection
        if connection is None:
            return
        since = self._acks.waiting_since()
        stalled = connection.stalled(now)
        timeout = self._write_timeout
        if since is not None and connection.feed.reading and now - since > self._acks.timeout:
            self._overdue = self._acks.fails_overdue
            connection.end(self._acks.overdue)
        elif (timeout is not None and stalled > timeout / 1e9) or (
            stalled > STALLED and self._inlet.upstream.replaceable
        ):
            connection.end("it does not read what is written to it")
        elif stalled > STALLED and not self.sink.is_full:
            self.sink.full(f"{self._peer} does not read what is written to it")
        connection.look(now)

    def send(self, waiting: deque[Block]) -> bool:
        connection = self._connection
        if connection is None or not waiting:
            return True
        blocks: Sequence[Block] = [*waiting]
        waiting.clear()
        try:
            blocks = self._acks.sent(blocks)
        except NoEcho as error:
            self._out.log.error("rejecting all events", reason=str(error))
            for block in blocks:
                self._inlet.reject(block, str(error))
            return True
        self._sent += sum(block.frames.count for block in blocks)
        connection.writing.add(blocks)
        if connection.writing.unwritten > self._write_buffer:
            self.sink.full(f"more than {self._write_buffer:,} bytes wait for {self._peer} to read")
        return True

    async def close(self) -> None:
        connection = self._connection
        if connection is not None:
            try:
                async with asyncio.timeout(CLOSING):
                    await connection.empty()
            except TimeoutError:
                pass
            connection.end("walflow stops", orderly=True)

    def stop_cause(self) -> WalflowError:
        return PeerLost(f"{self._out.name} has stopped")
