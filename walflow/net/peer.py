"""One client of a server. It is not read while there is any reason to pause."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Protocol, cast

from walflow.contract import Inlet, Outlet, Stream
from walflow.event import Block
from walflow.net.socket_writer import Writing


class Limits(Protocol):
    @property
    def write_buffer(self) -> int: ...


class Held:
    """Bytes and events that were taken from the windows of their sources and are not settled."""

    __slots__ = ("bytes", "events")

    def __init__(self) -> None:
        self.bytes = self.events = 0

    def __repr__(self) -> str:
        return f"<Held {self.bytes} bytes, {self.events} events>"


class Server(Protocol):
    """The interface of a server for its peers."""

    inlet: Inlet
    out: Outlet
    silent: dict["Peer", None]
    held: Held

    @property
    def config(self) -> Limits: ...

    def time(self) -> float: ...
    def joined(self, client: "Peer") -> None: ...
    def half_closed(self, client: "Peer") -> None: ...
    def left(self, client: "Peer") -> None: ...
    def orphan(self, blocks: Iterable[Block]) -> None: ...
    def bound_buffers(self) -> None: ...


class Peer(asyncio.Protocol):
    """`joined`: it is connected, and its handshake, if any, is done.
    `left`: it is no client of the server any more."""

    transport: asyncio.Transport
    stream: Stream

    def __init__(self, server: Server, meta: Mapping[str, object], origin: str | None) -> None:
        self.origin = origin
        self.joined = self.left = False
        self.stirred = True  # a byte went either way since the last look
        self.since = self.active = server.time()
        self.slow_since: float | None = None
        self.slow_above = 0  # bytes; it is slow until no more than these wait
        self.held = Held()
        self.aborted = False
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._server = server
        self._meta = meta
        self._silent = True
        self._pauses: set[str] = set()
        self._measuring = False
        self._settled_before = 0
        self.address: object = None
        self.came = b""  # before it was set up: the process before had read it

    def abort(self) -> None:
        self.aborted = True
        if hasattr(self, "transport"):
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if self.left:  # its place was wanted before it was set up
            transport.abort()
            return
        self._writing = self._new_writing(transport)
        self.joined = True
        self.stream = self._server.out.stream(
            self._meta,
            pause=lambda: self._pause("gate"),
            resume=lambda: self._resume("gate"),
            broken=lambda: self.close(),
        )
        self._server.joined(self)
        if self.came:
            came, self.came = self.came, b""
            self.data_received(came)

    def _new_writing(self, transport: asyncio.Transport) -> Writing:
        return Writing(transport, self._ack)

    def close(self) -> None:
        """Closes the connection. Data that was written before still reaches the client."""
        self.transport.close()

    def rest(self) -> bytes | None:
        """What came and is no event yet, if another process could go on with that alone. None: it could not."""
        if self.aborted or self.transport.is_closing() or self.unwritten() or self.held.events:
            return None
        return self.stream.rest()

    def look(self, now: float) -> None:
        """Called once a second."""

    def data_received(self, data: bytes) -> None:
        self.keep_paused()
        self.heard()
        self.stream.feed(data)

    def heard(self) -> None:
        self.stirred = True
        if self._silent:
            self._silent = False
            self._server.silent.pop(self, None)

    def eof_received(self) -> bool:
        if not self.joined:
            return False
        self.stream.eof(complete=False)
        if self._silent:  # no answer is on its way to it
            return False
        self._server.half_closed(self)
        return self._server.inlet.linked

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self.joined:
            self.stream.close()
            self.drop_unwritten()
        self._server.left(self)

    def drop_unwritten(self) -> None:
        """Drops the data that waits, because the client will never read it."""
        blocks = self._writing.give_up()
        self._hold(blocks, -1)
        self._server.orphan(blocks)

    def write(self, blocks: list[Block]) -> None:
        self.stirred = True
        self._hold(blocks, 1)
        self._writing.add(blocks)
        self.wrote()

    def wrote(self) -> None:
        if self._writing.unwritten > self._server.config.write_buffer and not self._measuring:
            self._measuring = True  # next turn: uvloop hands its writes to the kernel at the end of this one
            self._server.out.scheduler.call_soon(self._measure)

    def unwritten(self) -> int:
        return self._writing.unwritten

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None:
        if not self.joined:
            return
        self._writing.drained()
        if self.slow_since is None or self._writing.unwritten <= self.slow_above:
            self.slow_since = None
            self._resume("write")

    def _measure(self) -> None:
        self._measuring = False
        if self.unwritten() > self._server.config.write_buffer:
            self.be_slow()

    def be_slow(self) -> None:
        """Acks the events that wait for a slow client: otherwise they would hold the source's window and stop the
        echo of all clients. They are lost only with the connection, like data in the kernel."""
        self._writing.settle()
        waits = self.unwritten()
        if self.slow_since is None and waits:
            self.slow_since = self._server.time()
            self.slow_above = min(self._server.config.write_buffer, waits // 2)
            self._pause("write")
        self._server.bound_buffers()

    def let_go(self) -> None:
        """Called once a second. Acks events that have waited since the last call, even few of them: they may hold the
        window of a large block, or other receivers may wait for the same event."""
        if self.held.events and self._writing.settled == self._settled_before:
            self._writing.settle()
        self._settled_before = self._writing.settled

    def _ack(self, blocks: Iterable[Block]) -> None:
        ack = self._server.inlet.ack
        blocks = list(blocks)
        self._hold(blocks, -1)
        for block in blocks:
            ack(block)

    def keep_paused(self) -> None:
        """Pauses reading again. uvloop begins to read when `connection_made` has returned, even if that has paused
        it. So this is called when the connection is set up, and when bytes come although reading is paused: that is
        at most one read."""
        if self._pauses and not self.transport.is_closing():
            self.transport.pause_reading()

    def _pause(self, reason: str) -> None:
        self._pauses.add(reason)
        self.keep_paused()

    def _resume(self, reason: str) -> None:
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses:
                self._go_on()

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def _hold(self, blocks: list[Block], sign: int) -> None:
        """`sign`: 1 for blocks that are taken, -1 for those that are settled. Events are counted as their source
        counts them, including those that a filter took out. Written without calls, because it runs twice for each
        block, and a block may be one line."""
        size = events = 0
        for block in blocks:
            size += block.weight
            origin = block.origin
            events += block.frames.count if origin is None else origin.last - origin.first + 1
        for held in (self.held, self._server.held):
            held.bytes += sign * size
            held.events += sign * events
