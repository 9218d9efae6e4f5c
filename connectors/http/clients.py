"""The connections of one run: who is let in, who has to leave."""

import asyncio
import socket
from collections import Counter as Tally
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

from connectors.http.connection import HttpConnection, RequestTaker
from connectors.http.server import HttpServerKeys
from walflow import Outlet
from walflow.net import Contexts, HandedConnection, Listener, TlsProtocol, check_name, hand_on, host_and_port
from walflow.world import handover

SWEEP: Final = 1.0  # seconds between looks for clients that do not read
CLOSING: Final = 1.0  # seconds that answers under way get at the end
HANDING: Final = 0.05  # seconds that an answer gets to be written before its connection goes to the next process
LOOK: Final = 0.002
LOOK_LATER: Final = 0.02


class HttpClients:
    def __init__(self, config: HttpServerKeys, out: Outlet, taker: RequestTaker) -> None:
        self._config = config
        self._out = out
        self._taker = taker
        self._contexts = Contexts(config.tls, out) if config.tls is not None else None
        self._connections: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, None] = {}  # without a request, longest first
        self._addresses: Tally[str] = Tally()
        self._empty = asyncio.Event()
        self._handover = handover()
        self.place = f"http_server {config.address}" if config.address.port else ""
        self.listener: Listener | None = None
        self._refused = out.counter("refused_connections_total")
        self._idle_closed = out.counter("idle_clients_closed_total")
        self._slow_closed = out.counter("slow_clients_closed_total")
        self._handshakes_failed = out.counter("failed_handshakes_total")
        out.gauge("connections", lambda: len(self._connections))

    def __repr__(self) -> str:
        return f"<HttpClients {len(self._connections)}, {len(self._idle)} without a request>"

    def reload(self) -> None:
        if self._contexts is not None:
            self._contexts.renew()

    async def close(self) -> None:
        if self._handover.leaving and self.place:
            await self._hand_on()
        else:
            await self._close()

    async def _hand_on(self) -> None:
        """To the next process: each that is between two requests. Those that send one get some time for that, while
        the next process serves already."""
        deadline = asyncio.get_running_loop().time() + HANDING
        while self.hand_on() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110  # a buffer has no event
            await asyncio.sleep(LOOK)
        for connection in list(self._connections):
            if connection.waits_for_outcome:  # it cannot come any more
                connection.abort()
        if self._connections:
            self._handover.relays.add(Stragglers(self))

    def hand_on(self) -> int:
        """How many are left."""
        for connection in list(self._connections):
            came = connection.rest()
            if came is not None:
                assert connection.transport is not None
                hand_on(self.place, connection.transport, (connection.host, connection.port), came)
                connection.connection_lost(None)
        return len(self._connections)

    def abort(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _close(self) -> None:
        """Answers that are known are written; a request that waits for its acks gets none."""
        self._empty.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self._empty.wait()
        self.abort()

    def take_over(self, handed: HandedConnection) -> None:
        """A client of the process before. It was let in there, and its handshake is done."""
        assert self.listener is not None
        host, port = host_and_port(handed.peer)
        connection = HttpConnection(self._taker, host, port, handed.came, relayed=handed.secure)
        self._add(connection)
        handed.socket.setblocking(False)
        self.listener.begin(self._set_up(connection, handed.socket, connection))

    def arrived(self, sock: socket.socket, address: object) -> Coroutine[object, object, None] | None:
        host, port = host_and_port(address)
        refusal = self._no_place(host)
        if refusal is not None:
            sock.close()
            self._refused.value += 1
            self._out.log.warning("connection refused", reason=refusal, peer=host)
            return None
        connection = HttpConnection(self._taker, host, port)
        self._add(connection)
        return self._set_up(connection, sock, self._protocol(connection))

    def _add(self, connection: HttpConnection) -> None:
        self._connections.add(connection)
        self._idle[connection] = None
        self._addresses[connection.host] += 1

    def _no_place(self, host: str) -> str | None:
        most = self._config.max_connections_per_address
        if most is not None and self._addresses[host] >= most:
            return f"{most} clients of its address are connected"
        if len(self._connections) < self._config.max_connections:
            return None
        if not self._idle:
            return f"{self._config.max_connections} clients are connected"
        longest = next(iter(self._idle))
        self._idle_closed.value += 1
        self._out.log.warning(
            "idle client closed", reason="it had no request, and its place was wanted", peer=longest.host
        )
        self.left(longest)
        longest.abort()
        return None

    async def _set_up(self, connection: HttpConnection, sock: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            if sock.family != socket.AF_UNIX:
                self._config.socket_options.connected(sock)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, sock)
        except OSError:  # it is gone already
            sock.close()
            self.left(connection)
        else:
            if connection not in self._connections:  # its place was wanted meanwhile
                connection.abort()

    def _protocol(self, connection: HttpConnection) -> asyncio.Protocol:
        tls = self._config.tls
        if self._contexts is None or tls is None:
            return connection
        connection.secure = TlsProtocol(
            connection,
            self._contexts.current,
            lambda reason: self._handshake_failed(connection, reason),
            handshake_seconds=self._config.handshake_timeout / 1e9,
            server_side=True,
            check=lambda client: check_name(client, tls.client_names),
        )
        return connection.secure

    def _handshake_failed(self, connection: HttpConnection, reason: str) -> None:
        self._handshakes_failed.value += 1
        self._out.log.warning("TLS handshake failed", reason=reason, peer=connection.host)
        self.left(connection)

    def idle(self, connection: HttpConnection, *, idle: bool) -> None:
        self._idle.pop(connection, None)
        if idle and connection in self._connections:
            self._idle[connection] = None

    def left(self, connection: HttpConnection) -> None:
        if connection not in self._connections:
            return
        self._connections.discard(connection)
        self._idle.pop(connection, None)
        self._addresses[connection.host] -= 1
        if not self._addresses[connection.host]:
            del self._addresses[connection.host]
        if connection.stream is not None:
            connection.stream.close()
        if not self._connections:
            self._empty.set()

    def sweep(self) -> None:
        now = self._out.scheduler.awake()
        for connection in list(self._connections):
            transport = connection.transport
            unread = transport.get_write_buffer_size() if transport is not None else 0
            if not unread or unread < connection.unread:
                connection.unread_since = now
            elif now - connection.unread_since > self._config.write_timeout / 1e9:
                self._slow_closed.value += 1
                self._out.log.warning(
                    "slow client closed", reason="it does not read its answers", peer=connection.host
                )
                connection.abort()
            connection.unread = unread
        self._out.scheduler.call_later(SWEEP, self.sweep)


class Stragglers:
    """Clients that were sending a request as their server ended. They are handed on once it is complete.
    See `walflow.handover.Relay`."""

    def __init__(self, clients: HttpClients) -> None:
        self._clients = clients
        self._look()

    def _look(self) -> None:
        if self._clients.hand_on():
            asyncio.get_running_loop().call_later(LOOK_LATER, self._look)
        else:
            handover().relays.discard(self)

    def finish(self) -> None:
        self._clients.abort()

    def abort(self) -> None:
        self._clients.abort()
