"""Shared by all servers of byte streams: the connected clients, limits for them, and writing to them.

A server is a source of what its clients send, and a sink that sends each client its own events back.
"""

import asyncio
import socket
from collections import Counter as Tally, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final

from pydantic import Field

from walflow.contract import Connector, Inlet, Outlet
from walflow.event import Block
from walflow.families import Families
from walflow.handover import HandedConnection
from walflow.net.deadline import CLOSING
from walflow.net.families import SERVER_FAMILIES
from walflow.net.handed_on import hand_on
from walflow.net.listener import Listener
from walflow.net.peer import Held, Peer
from walflow.net.secure import TlsProtocol
from walflow.net.tls import Contexts, ServerTls, check_name
from walflow.size import Size
from walflow.world import handover

SWEEP: Final = 1.0  # seconds between looks for idle and slow clients

SENT_TO_CLIENTS: Final = (
    "an event is acked when it is written to the client's socket, or waits for a client that is slow to read. It is "
    "lost only with that client's connection. An event for a client that has disconnected is dropped, acked and "
    "counted. Events that wait for clients and are not acked take at most a quarter of the window of their source or "
    "log. Beyond that, the clients with most of them count as slow, and are closed after write_timeout"
)


class ServerConnector(Connector):
    """Keys of every server of byte streams."""

    families: ClassVar[Families] = SERVER_FAMILIES

    buf_size: Size = Field(
        default=8192,
        ge=1,
        description="A key of tremor's (bytes per read), accepted and not used: walflow reads up "
        "to 256 KiB at a time.",
    )
    backlog: int = Field(
        default=1024,
        ge=1,
        le=(1 << 31) - 1,
        description="The most connections that may wait to be accepted. The kernel has a limit of its own.",
    )
    max_connections: int = Field(
        default=1000,
        ge=1,
        description="The most clients at a time. Clients that have sent their last byte and may still read count "
        "too. At the limit, a new client replaces the one that has been connected longest without sending a byte. If "
        "there is none, it replaces the one that sent its last byte first. If there is none either, "
        "the new client is closed at once.",
    )
    max_event_bytes: Size = Field(
        default=1 << 20,
        ge=1,
        description="The largest event. A larger one is rejected, and the stream continues after it.",
    )
    first_byte_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds after which a client that has sent no byte is closed. Default: never.",
    )
    idle_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds after which a client is closed if no byte was sent in either direction. Default: "
        "never.",
    )
    write_buffer: Size = Field(
        default=1 << 20,
        ge=1,
        description="Bytes that may wait for one client. Beyond them the client counts as slow, and walflow stops "
        "reading from it. If all waiting bytes exceed a quarter of the source's window (8 MiB), the clients with "
        "most of them count as slow too.",
    )
    write_timeout: int = Field(
        default=10_000_000_000, gt=0, description="Nanoseconds that a client may stay slow before it is closed."
    )
    max_write_buffers: int = Field(
        default=64 << 20,
        ge=1,
        description="Bytes that may wait for all clients together. Beyond them the clients with most waiting bytes "
        "are closed.",
    )


MakePeer = Callable[["StreamServer", Mapping[str, object], str | None], Peer]


class StreamServer:
    """The part that both halves share: the connected clients, and the blocks to write to them in this turn.

    `place`: its kind and its address, by which the next process knows it; "": none would. `meta`: makes the events'
    metadata from a peer's address. `origin`: the address that counts for the limit, None if there is none.
    `prepare`: sets the options of an accepted socket. `peer`: makes the object that talks to a client.
    """

    def __init__(
        self,
        config: ServerConnector,
        inlet: Inlet,
        out: Outlet,
        meta: Callable[[object], Mapping[str, object]],
        *,
        prepare: Callable[[socket.socket], None] = lambda sock: None,
        origin: Callable[[object], str | None] = lambda address: None,
        per_origin: int | None = None,
        tls: ServerTls | None = None,
        handshake_timeout: int = 10_000_000_000,
        peer: MakePeer = Peer,
        place: str = "",
    ) -> None:
        self.config = config
        self.inlet = inlet
        self.out = out
        self.time = out.scheduler.awake
        self.clients: dict[int, Peer] = {}
        self.leaving: dict[int, Peer] = {}  # sent their last byte, and may still read
        self.silent: dict[Peer, None] = {}  # connected, and not a byte from them so far; oldest first
        self.listener: Listener | None = None
        self._place = place
        self._meta = meta
        self._make = peer
        self._prepare = prepare
        self._origin = origin
        self._per_origin = per_origin
        self._origins: Tally[str] = Tally()
        self._places = 0  # taken, by those in a handshake too
        self._tls = tls
        self._contexts = Contexts(tls, out) if tls else None
        self._handshake_seconds = handshake_timeout / 1e9
        self._queues: defaultdict[int, list[Block]] = defaultdict(list)
        self._gathering = self._relieving = self._bounding = False
        self.held = Held()  # by what waits for all clients
        self._share: tuple[int, int | None] | None = None  # asked for once a second: windows change with runs alone
        self._orphaned = inlet.counter("orphaned_events_total")
        self._slow = inlet.counter("slow_clients_closed_total")
        self._idle = out.counter("idle_clients_closed_total")
        self._refused = out.counter("refused_connections_total")
        self._handshakes_failed = out.counter("failed_handshakes_total")

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serves clients until it is cancelled."""
        self.out.max_event_bytes = self.config.max_event_bytes
        self.listener = listener = Listener(sockets, self._arrived, self.out, self._make_room)
        self.inlet.serve(self.accept)
        self.inlet.on_reopen(self._reload)
        listener.start()
        handover().takes(self._place, self._take_over)
        self.sweep()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            handover().takes_no_more(self._place)
            await listener.close()
            await self._close()

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
        """Acks blocks whose client has disconnected. Its number is never used again."""
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
        if not self._relieving and self._exceeds_share():
            self._relieving = True  # next turn: uvloop hands its writes to the kernel at the end of this one
            self.out.scheduler.call_soon(self._relieve)

    def _exceeds_share(self) -> bool:
        if not self.held.events:
            return False
        if self._share is None:
            self._share = self.inlet.share()
        size, events = self._share
        return self.held.bytes > size or (events is not None and self.held.events > events)

    def _relieve(self) -> None:
        """Together, all clients hold no more of a window than their share, even if little waits for each. The clients
        with most waiting bytes are made slow first."""
        self._relieving = False
        if not self._exceeds_share():
            return
        fullest = sorted(self._present(), key=lambda client: (client.held.bytes, client.held.events), reverse=True)
        for client in fullest:
            client.be_slow()
            if not self._exceeds_share():
                return

    def _present(self) -> list[Peer]:
        return [*self.clients.values(), *self.leaving.values()]

    def bound_buffers(self) -> None:
        """Called when more bytes wait for a slow client."""
        if not self._bounding:
            self._bounding = True
            self.out.scheduler.call_soon(self._bound_buffers)

    def _bound_buffers(self) -> None:
        """Keeps the bytes for all clients under the limit; clients that are no longer slow count too."""
        self._bounding = False
        sizes = {client: client.unwritten() for client in self._present() if not client.aborted}
        total = sum(sizes.values())
        for client in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if total <= self.config.max_write_buffers:
                return
            total -= sizes[client]
            self._close_slow(client, "the write buffers of all clients are full")

    def _close_slow(self, client: Peer, reason: str) -> None:
        self._slow.value += 1
        self.out.log.warning("slow client closed", reason=reason, stream=client.stream.id.number)
        client.abort()

    def close_dead(self, client: Peer) -> None:
        self._idle.value += 1
        self.out.log.warning(
            "dead client closed", reason="no pong within pong_timeout", stream=client.stream.id.number
        )
        client.abort()

    # source half: who may come in

    def _arrived(self, sock: socket.socket, address: object) -> Coroutine[object, object, None] | None:
        origin = self._origin(address)
        refusal = self._refusal(origin)
        if refusal is not None:
            sock.close()
            self._refused.value += 1
            self.out.log.warning("connection refused", reason=refusal, peer=origin)
            return None
        peer = self._let_in(address, origin)
        return self._set_up(peer, sock, lambda: self._protocol(peer))

    def _let_in(self, address: object, origin: str | None) -> Peer:
        peer = self._make(self, self._meta(address), origin)
        peer.address = address
        self._places += 1
        if origin is not None:
            self._origins[origin] += 1
        self.silent[peer] = None
        return peer

    def _take_over(self, handed: HandedConnection) -> None:
        """A client of the process before. It was let in there, and its handshake is done."""
        assert self.listener is not None
        peer = self._let_in(handed.peer, self._origin(handed.peer))
        peer.came = handed.came
        handed.socket.setblocking(False)
        self.listener.begin(self._set_up(peer, handed.socket, lambda: peer))

    def _refusal(self, origin: str | None) -> str | None:
        if self._per_origin is not None and origin is not None and self._origins[origin] >= self._per_origin:
            return f"{self._per_origin} clients of its address are connected"
        if self._places + len(self.leaving) < self.config.max_connections:
            return None
        if self.silent:
            self._evict(
                next(iter(self.silent)), "silent client closed", "it has sent nothing, and its place was wanted"
            )
        elif self.leaving:
            leaving = next(iter(self.leaving.values()))
            self._evict(leaving, "leaving client closed", "it has sent its last byte, and its place was wanted")
        else:
            return f"{self.config.max_connections} clients are connected"
        return None

    def _make_room(self, most: int) -> int:
        """Descriptors are short: those who have sent their last byte go first."""
        leaving = list(islice(self.leaving.values(), most))
        for peer in leaving:
            self._evict(peer, "leaving client closed", "it has sent its last byte, and descriptors are short")
        return len(leaving)

    def _evict(self, peer: Peer, event: str, reason: str) -> None:
        """Closes a client to make room. Data in the kernel still reaches it."""
        self._idle.value += 1
        self.out.log.warning(event, reason=reason, peer=peer.origin)
        self.left(peer)
        peer.abort()

    async def _set_up(self, peer: Peer, sock: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        try:
            if sock.family != socket.AF_UNIX:
                self._prepare(sock)
            await loop.connect_accepted_socket(protocol, sock)
            peer.keep_paused()
        except OSError:  # it is gone already
            sock.close()
            self.left(peer)

    def _protocol(self, peer: Peer) -> asyncio.Protocol:
        tls = self._tls
        if self._contexts is None or tls is None:
            return peer

        layer = TlsProtocol(
            peer,
            self._contexts.current,
            lambda reason: self.handshake_failed(peer, "TLS handshake failed", reason),
            handshake_seconds=self._handshake_seconds,
            server_side=True,
            check=lambda client: check_name(client, tls.client_names),
        )
        peer.transport = layer.transport  # so that it can be closed in its handshake
        return layer

    def handshake_failed(self, peer: Peer, line: str, reason: str) -> None:
        if not peer.left:
            self._handshakes_failed.value += 1
            self.out.log.warning(line, reason=reason, peer=peer.origin)
        self.left(peer)

    def _reload(self) -> None:
        if self._contexts is not None:
            self._contexts.renew()

    # source half: who is there

    def joined(self, client: Peer) -> None:
        self.clients[client.stream.id.number] = client

    def half_closed(self, client: Peer) -> None:
        """The client has sent its last byte. It may still read its answers, until its time is over or its place is
        needed."""
        self.clients.pop(client.stream.id.number, None)
        self.leaving[client.stream.id.number] = client
        self._give_place_back(client)

    def left(self, client: Peer) -> None:
        self._give_place_back(client)
        if client.joined:
            self.clients.pop(client.stream.id.number, None)
            self.leaving.pop(client.stream.id.number, None)

    def _give_place_back(self, client: Peer) -> None:
        if client.left:
            return
        client.left = True
        self._places -= 1
        self.silent.pop(client, None)
        if client.origin is not None:
            self._origins[client.origin] -= 1
            if not self._origins[client.origin]:
                del self._origins[client.origin]

    def sweep(self) -> None:
        """Called every second: closes clients that have been slow, idle or leaving for too long."""
        self._share = None
        now = self.time()
        for client in list(self.clients.values()):
            self._look_at(client, now)
            client.look(now)
        for client in list(self.leaving.values()):
            self._look_at(client, now)
            if now - client.active > self.config.write_timeout / 1e9:
                self._hang_up(client, client.transport.close)
        self.bound_buffers()
        if self.config.first_byte_timeout is not None:
            self._close_silent(now - self.config.first_byte_timeout / 1e9)
        self.out.scheduler.call_later(SWEEP, self.sweep)

    def _close_silent(self, before: float) -> None:
        for peer in list(self.silent):  # oldest first
            if peer.since > before:
                return
            if peer.joined:  # a handshake has a timeout of its own
                self._evict(peer, "silent client closed", "it has sent nothing within first_byte_timeout")

    def _look_at(self, client: Peer, now: float) -> None:
        if client.stirred:
            client.stirred = False
            client.active = now
        client.let_go()
        if client.slow_since is not None:
            if client.unwritten() <= client.slow_above:
                client.slow_since = None
            elif now - client.slow_since > self.config.write_timeout / 1e9 and not client.aborted:
                self._close_slow(client, "it does not read what is written to it")
        elif self.config.idle_timeout is not None and now - client.active > self.config.idle_timeout / 1e9:
            self._idle.value += 1
            self._hang_up(client, client.close)

    def _hang_up(self, client: Peer, close: Callable[[], None]) -> None:
        """Closes a client after all data is written to it. For that it has as much time as a slow client."""
        close()
        client.be_slow()

    async def _close(self) -> None:
        if handover().leaving and self._place and self.out.name not in handover().owing:
            self._hand_on()
        clients = self._present()
        for peer in list(self.silent):
            if not peer.joined:
                peer.abort()
        for client in clients:
            client.close()
        gone = asyncio.gather(*(client.gone for client in clients))
        try:
            await asyncio.wait_for(gone, CLOSING)
        except TimeoutError:
            for client in clients:
                client.abort()
        self._write()

    def _hand_on(self) -> None:
        """The clients that another process can go on with."""
        for client in list(self.clients.values()):
            came = client.rest()
            if came is not None:
                hand_on(self._place, client.transport, client.address, came)
                client.stream.abandon()
                client.connection_lost(None)
