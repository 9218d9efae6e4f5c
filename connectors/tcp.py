"""TCP. A server is a source of what its clients send, and a sink that answers each client with its own events."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Final, cast

from pydantic import Field, field_validator

from walflow.contract import Connector, Guarantee, Inlet, Outlet, Stream
from walflow.event import Block
from walflow.net import Address, parse_address

DEFAULT_PORT: Final = 4242  # tremor's
SWEEP: Final = 1.0  # seconds between looks for idle and slow clients
CLOSING: Final = 1.0  # seconds a stopping server gives its clients to take what is written to them


class TcpServer(Connector):
    url: str = Field(description="host:port to listen on; port 4242 if none is named.")
    buf_size: int = Field(
        8192, ge=1, description="tremor's bytes per read. Accepted and not used: reads are of up to 256 KiB."
    )
    backlog: int = Field(128, ge=1, description="Connections that wait to be accepted.")
    max_connections: int = Field(1000, ge=1, description="Clients at a time; one more is closed at once.")
    max_event_bytes: int = Field(
        1 << 20, ge=1, description="A larger event is rejected; the stream goes on behind it."
    )
    idle_timeout: int | None = Field(
        None,
        gt=0,
        description="Nanoseconds without a byte either way after which a client is closed. Default: never.",
    )
    write_buffer: int = Field(
        1 << 20, ge=1, description="Bytes that may wait for one client before it is slow and is not read any more."
    )
    write_timeout: int = Field(
        10_000_000_000, gt=0, description="Nanoseconds that a client may be slow before it is closed."
    )
    max_write_buffers: int = Field(
        64 << 20, ge=1, description="Bytes that may wait for all clients; beyond them the slowest is closed."
    )
    insecure: str | None = Field(None, description="Why this may listen beyond loopback without TLS.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        parse_address(url, scheme="tcp", default_port=DEFAULT_PORT)
        return url

    @property
    def address(self) -> Address:
        return parse_address(self.url, scheme="tcp", default_port=DEFAULT_PORT)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings: tuple[str, ...] = ()
        if not self.address.loopback and self.insecure is None:
            warnings = (f'{self.address} is open to the network without TLS; say why in `insecure = "…"`',)
        return Guarantee(
            source="what a client has sent is safe once a log has acked it; TCP itself tells the client nothing, "
            "an echo from behind the log does",
            sink="an event is acked when it is written to the client's socket, or waits for a client that is slow "
            "to read; it is lost only with that client's connection, and for a client that is gone it is "
            "dropped, acked and counted",
            warnings=warnings,
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        server = _Server(self, inlet, out)
        out.max_event_bytes = self.max_event_bytes
        for warning in self.guarantee(behind_log=False).warnings:
            out.log.warning("insecure", reason=warning)
        address = self.address
        listener = await asyncio.get_running_loop().create_server(
            lambda: _Client(server), address.host, address.port, backlog=self.backlog
        )
        port = listener.sockets[0].getsockname()[1]
        out.log.info("listening", address=str(Address(address.host, port)))
        inlet.serve(server.accept)
        server.sweep()
        try:
            await listener.serve_forever()
        finally:
            listener.close()
            await server.close()


class _Server:
    """What the two halves share: who is connected, and what waits to be written to them this turn."""

    def __init__(self, config: TcpServer, inlet: Inlet, out: Outlet) -> None:
        self.config = config
        self.inlet = inlet
        self.out = out
        self.time = out.scheduler.time
        self.clients: dict[int, _Client] = {}
        self.leaving: dict[int, _Client] = {}  # sent their last byte, and may still read
        self._queues: defaultdict[int, list[Block]] = defaultdict(list)
        self._gathering = False
        self._orphaned = inlet.counter("orphaned_events_total")
        self._slow = inlet.counter("slow_clients_closed_total")
        self._idle = out.counter("idle_clients_closed_total")
        self._refused = out.counter("refused_connections_total")

    # sink half

    def accept(self, block: Block) -> None:
        stream = block.stream
        if stream.run != self.out.run or stream.connector != self.out.name:
            self.orphan((block,))
            return
        self._queues[stream.number].append(block)
        if not self._gathering:
            self._gathering = True
            self.out.scheduler.call_soon(self._write)

    def orphan(self, blocks: Iterable[Block]) -> None:
        """Nobody is there to read them, and nobody ever will be."""
        for block in blocks:
            self._orphaned.value += block.frames.count
            self.inlet.ack(block)

    def _write(self) -> None:
        self._gathering = False
        queues, self._queues = self._queues, defaultdict(list)
        for number, blocks in queues.items():
            client = self.clients.get(number) or self.leaving.get(number)
            if client is None:
                self.orphan(blocks)
            else:
                client.write(blocks)

    def bound_buffers(self) -> None:
        """Called when a slow client got slower: all of them together stay under the limit."""
        slow = [
            client for client in (*self.clients.values(), *self.leaving.values()) if client.slow_since is not None
        ]
        sizes = {client: client.unwritten() for client in slow}
        if sum(sizes.values()) > self.config.max_write_buffers:
            self.close_slow(max(slow, key=sizes.__getitem__), "the write buffers of all clients are full")

    def close_slow(self, client: "_Client", reason: str) -> None:
        self._slow.value += 1
        self.out.log.warning("slow client closed", reason=reason, stream=client.stream.id.number)
        client.transport.abort()

    # source half

    def admits(self) -> bool:
        if len(self.clients) < self.config.max_connections:
            return True
        self._refused.value += 1
        self.out.log.warning("connection refused", reason=f"{self.config.max_connections} clients are connected")
        return False

    def joined(self, client: "_Client") -> None:
        self.clients[client.stream.id.number] = client

    def half_closed(self, client: "_Client") -> None:
        """It may still read its answers, for a while, and not at the cost of others' places."""
        self.clients.pop(client.stream.id.number, None)
        self.leaving[client.stream.id.number] = client
        if len(self.leaving) > self.config.max_connections:
            next(iter(self.leaving.values())).transport.close()

    def left(self, client: "_Client") -> None:
        self.clients.pop(client.stream.id.number, None)
        self.leaving.pop(client.stream.id.number, None)

    def sweep(self) -> None:
        """Every second: who has been slow, idle or leaving for too long."""
        now = self.time()
        for client in list(self.clients.values()):
            self._look_at(client, now)
        for client in list(self.leaving.values()):
            self._look_at(client, now)
            if now - client.active > self.config.write_timeout / 1e9:
                client.transport.close()
        self.out.scheduler.call_later(SWEEP, self.sweep)

    def _look_at(self, client: "_Client", now: float) -> None:
        if client.stirred:
            client.stirred = False
            client.active = now
        if client.slow_since is not None:
            if client.unwritten() <= self.config.write_buffer:
                client.slow_since = None
            elif now - client.slow_since > self.config.write_timeout / 1e9:
                self.close_slow(client, "it does not read what is written to it")
        elif self.config.idle_timeout is not None and now - client.active > self.config.idle_timeout / 1e9:
            self._idle.value += 1
            client.transport.close()

    async def close(self) -> None:
        clients = (*self.clients.values(), *self.leaving.values())
        for client in clients:
            client.transport.close()
        gone = asyncio.gather(*(client.gone for client in clients))
        try:
            await asyncio.wait_for(gone, CLOSING)
        except TimeoutError:
            for client in clients:
                client.transport.abort()
        self._write()


class _Client(asyncio.Protocol):
    """One connection. Reading stops while any reason to pause stands."""

    transport: asyncio.Transport
    stream: Stream

    def __init__(self, server: _Server) -> None:
        self.server = server
        self.stirred = True  # a byte went either way since the last look
        self.active = server.time()
        self.slow_since: float | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pauses: set[str] = set()
        self._measuring = False
        self._written: deque[Block] = deque()  # handed to the transport, not yet to the kernel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self.admitted = self.server.admits()
        if not self.admitted:
            transport.abort()
            return
        transport.set_write_buffer_limits(0, 0)  # else it cannot be told when all is in the kernel
        peer = transport.get_extra_info("peername") or ("", 0)
        meta = {"tcp_server": {"tls": False, "peer": {"host": peer[0], "port": peer[1]}}}
        self.stream = self.server.out.stream(
            meta, pause=lambda: self._pause("gate"), resume=lambda: self._resume("gate")
        )
        self.server.joined(self)

    def data_received(self, data: bytes) -> None:
        self.stirred = True
        self.stream.feed(data)

    def eof_received(self) -> bool:
        if not self.admitted:
            return False
        self.stream.eof(complete=False)
        self.server.half_closed(self)
        return self.server.inlet.linked

    def connection_lost(self, error: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if not self.admitted:
            return
        self.stream.close()
        self.server.left(self)
        blocks, self._written = self._written, deque()
        self.server.orphan(blocks)

    def write(self, blocks: list[Block]) -> None:
        self.stirred = True
        self._written.extend(blocks)
        if len(blocks) == 1:
            self.transport.write(blocks[0].frames.data)
        else:
            self.transport.writelines([block.frames.data for block in blocks])
        unwritten = self.transport.get_write_buffer_size()
        if not unwritten:
            self._ack()
        elif unwritten > self.server.config.write_buffer and not self._measuring:
            self._measuring = True  # next turn: uvloop hands its writes to the kernel at the end of this one
            self.server.out.scheduler.call_soon(self._measure)

    def unwritten(self) -> int:
        return self.transport.get_write_buffer_size()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None:
        self.slow_since = None
        self._ack()
        self._resume("write")

    def _measure(self) -> None:
        """What waits for a slow client must not hold the source's window, or it would stop everybody's echo. It
        is lost only with the connection, as what is in the kernel is."""
        self._measuring = False
        if self.unwritten() <= self.server.config.write_buffer or self.transport.is_closing():
            return
        self._ack()
        if self.slow_since is None:
            self.slow_since = self.server.time()
            self._pause("write")
        self.server.bound_buffers()

    def _ack(self) -> None:
        blocks, self._written = self._written, deque()
        for block in blocks:
            self.server.inlet.ack(block)

    def _pause(self, reason: str) -> None:
        if not self._pauses and not self.transport.is_closing():
            self.transport.pause_reading()
        self._pauses.add(reason)

    def _resume(self, reason: str) -> None:
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses and not self.transport.is_closing():
                self.transport.resume_reading()
