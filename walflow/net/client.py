"""Shared by all clients of byte streams: one connection that is made again when it ends. Blocks are held while there
is none."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal, Protocol

from pydantic import Field

from walflow.contract import Connector, Guarantee, Inlet, Lossless, Outlet, Risk
from walflow.errors import WalflowError
from walflow.families import Families
from walflow.net.acks import Acks, WhenEchoed, WhenWritten
from walflow.net.client_sink import ClientSink
from walflow.net.connection import CONNECTS_WITHIN, Connection, words_of
from walflow.net.deadline import within
from walflow.net.families import CLIENT_FAMILIES
from walflow.net.keys import ReconnectKeys
from walflow.net.reconnect import Reconnect
from walflow.size import Size

SWEEP: Final = 1.0  # seconds between looks at what is overdue

LOSES: Final = Risk(
    "unconfirmed",
    'a peer that dies loses events that it had not read, because a log deletes what is acked; `"ack": "echo"` keeps '
    "them, if the peer echoes",
)


class ClientConnector(Connector):
    """Keys of every client of a byte stream."""

    families: ClassVar[Families] = CLIENT_FAMILIES

    buf_size: Size = Field(
        default=8192,
        ge=1,
        description="A key of tremor's (bytes per read), accepted and not used: walflow reads up "
        "to 256 KiB at a time.",
    )
    max_event_bytes: Size = Field(
        default=1 << 20,
        ge=1,
        description="The largest event from the peer. A larger one is rejected, and the stream continues after it.",
    )
    ack: Literal["written", "echo"] = Field(
        default="written",
        description="When an event counts as delivered. `written`: once it is in the kernel's buffer. `echo`: once "
        "the peer has sent it back, byte for byte and in order. Other lines from the peer are events.",
    )
    echo_timeout: int = Field(
        default=30_000_000_000,
        gt=0,
        description="Nanoseconds without an echo after which the connection is closed, "
        "and all events without an echo fail.",
    )
    write_buffer: Size = Field(
        default=64 << 20,
        ge=1,
        description="Bytes that may wait for the peer to read. Beyond them the sources stop. "
        "A single source stops at its window, 8 MiB.",
    )
    write_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds after which walflow reconnects if the peer has taken no byte. Default: never, "
        "because sending everything again does not help a peer that is slow.",
    )
    reconnect: ReconnectKeys = Reconnect()

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        source = (
            "what was read from the peer cannot be read again: a crash loses the events that no log has acked yet"
        )
        if self.ack == "written":
            return Guarantee(
                source=source,
                sink="an event is acked when it is in the kernel's buffer. Events that the peer has not read by then "
                "are lost if the peer or the connection dies",
                warnings=(LOSES,) if behind_log else (),
            )
        return Guarantee(
            source=source,
            sink=Lossless(
                "an event is acked when the peer has sent it back. Events that are not back when the connection "
                "ends, or within echo_timeout, fail; then the peer may get them twice"
            ),
            warnings=()
            if behind_log
            else (Risk("no-log", "an event that fails is lost: put a log upstream, which sends it again"),),
        )


Connect = Callable[["Connection"], Awaitable[None]]


class Config(Protocol):
    """What a client needs of its configuration; times in nanoseconds."""

    @property
    def max_event_bytes(self) -> int: ...
    @property
    def write_buffer(self) -> int: ...
    @property
    def write_timeout(self) -> int | None: ...
    @property
    def reconnect(self) -> Reconnect: ...


def acks_of(config: ClientConnector, inlet: Inlet, time: Callable[[], float]) -> Acks:
    if config.ack == "echo":
        return WhenEchoed(inlet, time, config.echo_timeout / 1e9)
    return WhenWritten(inlet)


class StreamClient:
    """`peer`: what its lines call it. `connect`: makes a connection, and raises OSError or WalflowError. `acks`: when
    an event counts as delivered; with `reads_answers` the peer is read also while its events are not wanted.
    `connection`: what speaks to the peer."""

    def __init__(
        self,
        config: Config,
        inlet: Inlet,
        out: Outlet,
        *,
        peer: str,
        meta: Mapping[str, object],
        connect: Connect,
        acks: Acks,
        reads_answers: bool,
        connection: Callable[["StreamClient"], Connection] | None = None,
    ) -> None:
        self.inlet = inlet
        self.out = out
        self.meta = meta
        self.reads_answers = reads_answers and inlet.linked
        self.sink = ClientSink(inlet, out, peer, acks, config.write_buffer, config.write_timeout)
        self.written, self.taken = acks.written, self.sink.taken
        self._acks = acks
        self._max_event_bytes = config.max_event_bytes
        self._peer = peer
        self._connect = connect
        self._make = connection or Connection
        self._backoff = config.reconnect.retry.backoff()
        self._connections = out.counter("connections_total")
        self._unlinked = out.counter("unlinked_bytes_total")

    async def run(self) -> None:
        """Connects and reconnects until it is cancelled."""
        self.out.max_event_bytes = self._max_event_bytes
        self.sink.serve()
        self._sweep()
        try:
            while (delay := await self._live()) is not None:
                await self._sleep(delay)
            await asyncio.get_running_loop().create_future()
        finally:
            await self.sink.sink.close()
            self._sweeps.cancel()

    async def _live(self) -> float | None:
        """One connection, or the attempt; seconds to wait before the next, None: there will be none."""
        connection = self._make(self)
        try:
            async with within(CONNECTS_WITHIN):
                await self._connect(connection)
                await connection.made
        except (OSError, WalflowError, TimeoutError) as error:
            connection.abort()
            return self._next_attempt(words_of(error))
        except asyncio.CancelledError:  # it may be there already: nothing more is written to it
            connection.end("walflow stops")
            connection.abort()
            raise
        reason = await asyncio.shield(connection.ended)  # ours to end, also when this is cancelled
        if connection.fruitful:
            self._backoff.reset()
        return self._next_attempt(reason)

    def _next_attempt(self, reason: str) -> float | None:
        delay = self._backoff.next()
        if self._backoff.gave_up:
            self.out.log.error("gave up", peer=self._peer, reason=reason, failures=self._backoff.failures)
        elif self._backoff.failures > 1 or not self.sink.triggered:
            self.out.log.warning("cannot connect", peer=self._peer, reason=reason, retry_seconds=round(delay, 2))
        ended = (
            f", and gave up after {self._backoff.failures} failures: restart walflow" if self._backoff.gave_up else ""
        )
        self.sink.not_connected(f"{reason}{ended}")
        return None if self._backoff.gave_up else delay

    async def _sleep(self, delay: float) -> None:
        over = asyncio.Event()
        timer = self.out.scheduler.call_later(delay, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    def _sweep(self) -> None:
        self.sink.look(self.out.scheduler.awake())
        self._sweeps = self.out.scheduler.call_later(SWEEP, self._sweep)

    # walflow.net.connection.ConnectionClient, with `written` and `taken`

    def connected(self, connection: Connection) -> None:
        self._connections.value += 1
        self.out.log.info("connected", peer=self._peer)
        self.sink.connected(connection)

    def received(self, connection: Connection, data: bytes) -> None:
        others = self._acks.received(data)
        if others:
            self.others(connection, (others,))

    def others(self, connection: Connection, read: Sequence[bytes]) -> None:
        """Takes what the peer sent and is no echo."""
        if connection.feed.stream is not None:
            connection.feed.feed(read)
        else:
            self._unlinked.value += sum(map(len, read))

    def lost(self, connection: Connection, reason: str) -> None:
        self.sink.lost(connection, reason)
