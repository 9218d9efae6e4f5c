"""One connection to a peer, from its making to its end."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, cast

from walflow.contract import Outlet, Stream
from walflow.errors import WalflowError
from walflow.event import Block
from walflow.net.socket_writer import Writing
from walflow.net.stream_feed import StreamFeed

CONNECTS_WITHIN: Final = 10.0  # seconds, a TLS handshake included
STEADY: Final = 1.0  # a connection that lasted this long was no failed attempt


class CannotConnect(WalflowError):
    """There is a peer, and it is not the right one, or does not want us."""


class ConnectionClient(Protocol):
    """What a connection needs of its client, and tells it. `reads_answers`: the peer is read also while its events
    are not wanted."""

    @property
    def out(self) -> Outlet: ...
    @property
    def meta(self) -> Mapping[str, object]: ...
    @property
    def reads_answers(self) -> bool: ...
    def connected(self, connection: "Connection", /) -> None:
        """The connection is made, and can be written to."""
        ...

    def received(self, connection: "Connection", data: bytes, /) -> None: ...
    def written(self, blocks: Iterable[Block], /) -> None:
        """Their last byte is in the kernel."""
        ...

    def taken(self, connection: "Connection", /) -> None:
        """The peer has read something."""
        ...

    def lost(self, connection: "Connection", reason: str, /) -> None:
        """It has ended. Called once, and only after `connected`."""
        ...


class Connection(asyncio.Protocol):
    """One connection, from its making to its end; an end for any reason is one call of `end`."""

    transport: asyncio.Transport
    writing: Writing
    feed: StreamFeed

    def __init__(self, client: ConnectionClient) -> None:
        loop = asyncio.get_running_loop()
        self.made: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._client = client
        self._time = client.out.scheduler.awake
        self._since = self._moved = self._time()
        self._left = 0  # unwritten at the last look
        self._begun = False  # its client has heard of it
        self._heard = False
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
        self.feed = StreamFeed(transport, self._pass_on, ahead=self._client.reads_answers)
        self._begun = True
        self.made.set_result(None)
        if self._client.out.linked:
            self.feed.begin(self._client.out, self._client.meta, self._broken)
        self._client.connected(self)

    def _writing(self, transport: asyncio.Transport) -> Writing:
        return Writing(transport, self._client.written)

    def look(self, now: float) -> None:
        """Called once a second, to find what is overdue."""

    def data_received(self, data: bytes) -> None:
        if self.ended.done() or not self._begun:
            return
        if not self.feed.reading:
            self.feed.still_paused()
        self._heard = True
        self._client.received(self, data)

    def eof_received(self) -> bool:
        if self._begun and not self.ended.done():
            self.feed.eof()
        self.end("the peer closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(words_of(exc) if exc else "the connection ended")

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
        """Seconds for which the peer has taken nothing of what waits for it."""
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
        if self.ended.done() or not self._begun:
            return
        self.ended.set_result(reason)
        self._drained.set()
        self.feed.close()
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

    def _pass_on(self, stream: Stream, read: Sequence[bytes]) -> None:
        for data in read:
            stream.feed(data)

    def _broken(self) -> None:
        """Not from within `feed`: what ends the connection feeds what is left."""
        self._client.out.scheduler.call_soon(lambda: self.end("what it sends cannot be read"))


def words_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.args:
        return f"no connection within {CONNECTS_WITHIN:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__
