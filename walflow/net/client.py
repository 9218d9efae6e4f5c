"""Shared by all clients of byte streams: one connection that is made again when it ends. Blocks are held while there is
none."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal, Protocol, cast

from pydantic import Field

from walflow.contract import Connector, Guarantee, Inlet, Outlet, Stream
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.net.acks import Acks, NoEcho, WhenEchoed, WhenWritten
from walflow.net.deadline import within
from walflow.net.reconnect import Reconnect
from walflow.net.writing import Writing

CONNECTS_WITHIN: Final = 10.0  # seconds, a TLS handshake included
SWEEP: Final = 1.0  # seconds between looks at what is overdue
STALLED: Final = 5.0  # seconds without a byte taken after which the sources are stopped, and it is said
STEADY: Final = 1.0  # a connection that lasted this long was no failed attempt
READ_AHEAD: Final = 256 << 10  # bytes of events that may be read for the sake of the echoes among them
CLOSING: Final = 1.0  # seconds for the peer to take what is written to it when we stop

LOSES: Final = (
    'a peer that dies loses events that it had not read, because a log deletes what is acked; `"ack": "echo"` keeps '
    "them, if the peer echoes"
)


class PeerLost(WalflowError):
    """The connection ended before all its events were known to have arrived. They may be sent again."""


class CannotConnect(WalflowError):
    """A peer answers, but it is the wrong one or refuses us."""


class ClientConnector(Connector):
    """Keys of every client of a byte stream."""

    buf_size: int = Field(
        default=8192,
        ge=1,
        description="A key of tremor's (bytes per read), accepted and not used: walflow reads up "
        "to 256 KiB at a time.",
    )
    max_event_bytes: int = Field(
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
        description="Nanoseconds without an echo after which the connection is closed, and all events without an echo "
        "fail.",
    )
    write_buffer: int = Field(
        default=64 << 20,
        ge=1,
        description="Bytes that may wait for the peer to read. Beyond them the sources stop. A single source stops at "
        "its window, 8 MiB.",
    )
    write_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds after which walflow reconnects if the peer has taken no byte. Default: never, "
        "because sending everything again does not help a peer that is slow.",
    )
    reconnect: Reconnect = Field(
        default=Reconnect(),
        description='How to reconnect, with tremor\'s keys: `{"retry": {…}}`. Default: without end.',
    )

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
            sink="an event is acked when the peer has sent it back. Events that are not back when the connection "
            "ends, or within echo_timeout, fail; then the peer may get them twice",
            warnings=() if behind_log else ("an event that fails is lost: put a log upstream, which sends it again",),
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
        connection: Callable[["StreamClient"], "Connection"] | None = None,
    ) -> None:
        self.config = config
        self.inlet = inlet
        self.out = out
        self.meta = meta
        self.acks = acks
        self.reads_answers = reads_answers and inlet.linked
        self._peer = peer
        self._connect = connect
        self._make = connection or Connection
        self._backoff = config.reconnect.retry.backoff()
        self._connection: Connection | None = None
        self._held: deque[Block] = deque()
        self._gathering = self._triggered = self._closing = self._overdue = False
        self._connections = out.counter("connections_total")
        self._unlinked = out.counter("unlinked_bytes_total")

    async def run(self) -> None:
        """Runs until it is cancelled."""
        self.out.max_event_bytes = self.config.max_event_bytes
        if self.inlet.replaceable:
            self._trigger(f"not connected to {self._peer} yet")
        self.inlet.serve(self.accept)
        self._sweep()
        try:
            while (delay := await self._live()) is not None:
                await self._sleep(delay)
            await asyncio.get_running_loop().create_future()
        finally:
            await self._close()

    async def _live(self) -> float | None:
        """One connection, or the attempt; seconds to wait before the next, None: there will be none."""
        connection = self._make(self)
        try:
            async with within(CONNECTS_WITHIN):
                await self._connect(connection)
                await connection.made
        except (OSError, WalflowError, TimeoutError) as error:
            connection.abort()
            return self._next_attempt(_words(error))
        reason = await asyncio.shield(connection.ended)  # ours to end, also when this is cancelled
        if connection.fruitful:
            self._backoff.reset()
        return self._next_attempt(reason)

    def _next_attempt(self, reason: str) -> float | None:
        delay = self._backoff.next()
        if self._backoff.gave_up:
            self.out.log.error("gave up", peer=self._peer, reason=reason, failures=self._backoff.failures)
        elif self._backoff.failures > 1 or not self._triggered:
            self.out.log.warning("cannot connect", peer=self._peer, reason=reason, retry_seconds=round(delay, 2))
        self._trigger(f"not connected to {self._peer}: {reason}")
        return None if self._backoff.gave_up else delay

    async def _sleep(self, delay: float) -> None:
        over = asyncio.Event()
        timer = self.out.scheduler.call_later(delay, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    # sink half

    def accept(self, block: Block) -> None:
        if self.inlet.replaceable and self._connection is None:
            self.inlet.fail(block, PeerLost(f"not connected to {self._peer}"))
            return
        self._held.append(block)
        if self._connection is not None and not self._gathering:
            self._gathering = True
            self.out.scheduler.call_soon(self._write)

    def _write(self) -> None:
        self._gathering = False
        connection = self._connection
        if connection is None or not self._held:
            return
        held: Sequence[Block] = self._held
        self._held = deque()
        try:
            held = self.acks.sent(held)
        except NoEcho as error:
            self.out.log.error("rejecting all events", reason=str(error))
            for block in held:
                self.inlet.reject(block, str(error))
            return
        connection.writing.add(held)
        if connection.writing.unwritten > self.config.write_buffer:
            self._trigger(f"more than {self.config.write_buffer:,} bytes wait for {self._peer} to read")

    def taken(self, connection: "Connection") -> None:
        """Called when the peer has read data."""
        if self._triggered and connection.writing.unwritten <= self.config.write_buffer // 2:
            self._restore()

    def _trigger(self, reason: str) -> None:
        self._triggered = True
        self.inlet.trigger(reason)

    def _restore(self) -> None:
        self._triggered = False
        self.inlet.restore()

    # the connection

    def connected(self, connection: "Connection") -> None:
        self._connections.value += 1
        self.out.log.info("connected", peer=self._peer)
        self._connection = connection
        self._write()
        if self._triggered:
            self._restore()

    def received(self, connection: "Connection", data: bytes) -> None:
        others = self.acks.received(data)
        if others:
            self.others(connection, (others,))

    def others(self, connection: "Connection", read: Sequence[bytes]) -> None:
        """Returns the data that is no echo."""
        if connection.stream is not None:
            connection.feed(read)
        else:
            self._unlinked.value += sum(map(len, read))

    def lost(self, connection: "Connection", reason: str) -> None:
        """The breaker first: what fails here must not be sent again before a peer is connected."""
        self._connection = None
        if not self._closing:
            self._trigger(f"lost {self._peer}: {reason}")
        again = self.acks.lost(connection.writing.give_up(), PeerLost(f"lost {self._peer}: {reason}"))
        self._held.extendleft(reversed(again))
        if self._overdue or self.inlet.replaceable:
            self._overdue = False
            self._fail_held(PeerLost(f"lost {self._peer}: {reason}"))

    def _fail_held(self, cause: PeerLost) -> None:
        held, self._held = self._held, deque()
        for block in held:
            self.inlet.fail(block, cause)

    def _sweep(self) -> None:
        connection = self._connection
        if connection is not None:
            self._look_at(connection, self.out.scheduler.awake())
        self.out.scheduler.call_later(SWEEP, self._sweep)

    def _look_at(self, connection: "Connection", now: float) -> None:
        since = self.acks.waiting_since()
        stalled = connection.stalled(now)
        timeout = self.config.write_timeout
        if since is not None and connection.reading and now - since > self.acks.timeout:
            self._overdue = self.acks.fails_overdue
            connection.end(self.acks.overdue)
        elif (timeout is not None and stalled > timeout / 1e9) or (stalled > STALLED and self.inlet.replaceable):
            connection.end("it does not read what is written to it")
        elif stalled > STALLED and not self._triggered:
            self._trigger(f"{self._peer} does not read what is written to it")
        connection.look(now)

    async def _close(self) -> None:
        self._closing = True
        connection = self._connection
        if connection is not None:
            try:
                async with asyncio.timeout(CLOSING):
                    await connection.empty()
            except TimeoutError:
                pass
            connection.end("walflow stops", orderly=True)
        self._fail_held(PeerLost(f"{self.out.name} has stopped"))


class Connection(asyncio.Protocol):
    """One connection from its start to its end. Whatever ends it, `end` is called once."""

    transport: asyncio.Transport
    writing: Writing

    def __init__(self, client: StreamClient) -> None:
        loop = asyncio.get_running_loop()
        self.made: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self.stream: Stream | None = None
        self.paused = False  # what it reads is not wanted now
        self.reading = True
        self._client = client
        self._time = client.out.scheduler.awake
        self._since = self._moved = self._time()
        self._left = 0  # unwritten at the last look
        self._heard = False
        self._unread: deque[Sequence[bytes]] = deque()  # read beside echoes, and not wanted yet
        self._unread_bytes = 0
        self._drained = asyncio.Event()

    @property
    def fruitful(self) -> bool:
        return self._heard or self._time() - self._since > STEADY

    def failed(self, reason: str) -> None:
        """There will be no connection: a TLS handshake failed."""
        if not self.made.done():
            self.made.set_exception(CannotConnect(reason))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if self.made.done():  # it took too long, and was given up
            transport.abort()
            return
        self.writing = self._writing(transport)
        self._since = self._moved = self._time()
        self.made.set_result(None)
        if self._client.out.linked:
            self.stream = self._client.out.stream(
                self._client.meta, pause=self._pause, resume=self._resume, broken=self._broken
            )
        self._client.connected(self)

    def _writing(self, transport: asyncio.Transport) -> Writing:
        return Writing(transport, self._client.acks.written)

    def look(self, now: float) -> None:
        """Called once a second."""

    def data_received(self, data: bytes) -> None:
        if not self.reading and not self.transport.is_closing():
            self.transport.pause_reading()  # uvloop reads after a `connection_made` that has paused it
        self._heard = True
        if not self.ended.done():
            self._client.received(self, data)

    def eof_received(self) -> bool:
        if self.stream is not None and not self.ended.done():
            self._feed_all(self.stream)
            self.stream.eof(complete=False)
            self.stream = None
        self.end("the peer closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(_words(exc) if exc else "the connection ended")

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None:
        if self.ended.done():
            return
        self._moved = self._time()
        self.writing.drained()
        if not self.writing.unwritten:
            self._drained.set()
        self._client.taken(self)

    def stalled(self, now: float) -> float:
        """Seconds for which the peer has taken none of the data that waits for it."""
        left = self.writing.unwritten
        if left < self._left or not left:
            self._moved = now
            self._client.taken(self)
        self._left = left
        return now - self._moved

    async def empty(self) -> None:
        self._drained.clear()
        if self.writing.unwritten and not self.ended.done():
            await self._drained.wait()

    def end(self, reason: str, *, orderly: bool = False) -> None:
        if self.ended.done() or not self.made.done() or self.made.cancelled():
            return
        self.ended.set_result(reason)
        self._drained.set()
        if self.stream is not None:
            self._feed_all(self.stream)
            self.stream.close()
        self._client.lost(self, reason)
        if orderly:
            self._leave()
        else:
            self.transport.abort()

    def _leave(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        if not self.made.done():
            self.made.cancel()
        elif not self.made.cancelled():
            self.made.exception()  # it was raised, or no task waits for it any more
        if hasattr(self, "transport"):
            self.transport.abort()

    def feed(self, read: Sequence[bytes]) -> None:
        self._unread.append(read)
        self._unread_bytes += sum(map(len, read))
        self._feed()
        self._set_reading()

    def _feed(self) -> None:
        while self._unread and not self.paused and self.stream is not None:
            read = self._unread.popleft()
            self._unread_bytes -= sum(map(len, read))
            self._pass_on(self.stream, read)  # may pause

    def _feed_all(self, stream: Stream) -> None:
        """Wanted or not: it would be lost."""
        while self._unread:
            self._pass_on(stream, self._unread.popleft())

    def _pass_on(self, stream: Stream, read: Sequence[bytes]) -> None:
        for data in read:
            stream.feed(data)

    def _pause(self) -> None:
        self.paused = True
        self._set_reading()

    def _resume(self) -> None:
        self.paused = False
        self._feed()
        self._set_reading()

    def _broken(self) -> None:
        """Not from within `feed`: what ends the connection feeds what is left."""
        self._client.out.scheduler.call_soon(lambda: self.end("what it sends cannot be read"))

    def _set_reading(self) -> None:
        """Echoes are read also while events are not wanted, as in a drain, which waits for them."""
        wanted = not self.paused or (self._client.reads_answers and self._unread_bytes < READ_AHEAD)
        if wanted != self.reading and not self.transport.is_closing():
            self.reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"no connection within {CONNECTS_WITHIN:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
