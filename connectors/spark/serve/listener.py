"""The port for Spark: it decides which peers are accepted, and when a session ends. A mistake of a peer is one line,
to the peer and to the log."""

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from typing import Final, cast

from connectors.spark.config import SparkConfig
from connectors.spark.serve.leases import Leases
from connectors.spark.serve.link import SparkLink, Stranger
from connectors.spark.serve.ranges import LogRanges
from connectors.spark.serve.session import Session, SessionStaging, refusal
from connectors.spark.spark_log import ServedLog
from pyspark_walflow.wire import Code, FrameKind, RequestRefused, control
from walflow import Inlet, Outlet
from walflow.net import Contexts, Listener, TlsProtocol, check_name, within

CLOSING: Final = 1.0  # seconds a stopping daemon gives its peers to read why
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
NOT_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is walflow's port for Spark, and it does not speak HTTP.\n"
)


class SparkBridge:
    """Shared by the sessions."""

    def __init__(
        self,
        config: SparkConfig,
        served: ServedLog,
        ranges: LogRanges,
        token: str,
        results: SessionStaging | None,
        inlet: Inlet,
        out: Outlet,
    ) -> None:
        self.log_id = served.log.uuid
        self.token = token
        self.consumers = served.consumers
        self.durable_end = served.durable_end
        self.ranges = ranges
        self.results = results
        self.leases = Leases()
        self.served_events = out.counter("spark_served_events_total")
        self.served_bytes = out.counter("spark_served_bytes_total")
        self._refused = out.counter("spark_refused_total")
        self._tls = config.tls
        self._contexts = Contexts(config.tls, out) if config.tls else None
        self._out = out
        self._places: dict[SparkLink, str] = {}  # who has one, from its arrival on; oldest first
        self._sessions: dict[SparkLink, Session] = {}
        self._tasks: dict[SparkLink, asyncio.Task[None]] = {}
        self._handshake_seconds = config.handshake_timeout / 1e9
        self._max_connections = config.max_connections
        self._handed: set[asyncio.Task[None]] = set()
        inlet.on_reopen(self._reload)
        out.gauge("spark_sessions", lambda: sum(bool(session.right) for session in self._sessions.values()))

    async def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Serves until it is cancelled."""
        listener = Listener(sockets, self._arrived, self._out)
        listener.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()
            await self._close()

    def hand_over(self, sock: socket.socket, address: object, received: bytes) -> None:
        """Takes over a connection that another listener accepted and that began like a walflow client.
        It has no TLS."""
        if self._tls is not None:
            error = RequestRefused(Code.DENIED, "this port has no TLS, and the bridge wants it")
            self._say(_named(address), error)
            with sock:
                sock.send(control(FrameKind.ERROR, {"code": error.code, "message": str(error)}))
            return
        self._make_room()
        task = asyncio.get_running_loop().create_task(self._set_up(self._link(address, received), sock))
        self._handed.add(task)
        task.add_done_callback(self._handed.discard)

    # who may come in

    def _arrived(self, sock: socket.socket, address: object) -> Coroutine[object, object, None] | None:
        if not self._make_room() and self._tls is not None:  # a handshake only to be told so would be a place
            self._say(_named(address), self._no_place())
            sock.close()
            return None
        return self._set_up(self._link(address, b""), sock)

    def _link(self, address: object, received: bytes) -> SparkLink:
        peer = _named(address)
        link = SparkLink(lambda link: self._began(link, peer), self._ended, received)
        self._places[link] = peer
        return link

    async def _set_up(self, link: SparkLink, sock: socket.socket) -> None:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, seconds in KEEPALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, seconds)
            peer = _named(sock.getpeername())
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self._protocol(link, peer), sock)
        except OSError:  # it is gone already
            sock.close()
            self._places.pop(link, None)

    def _protocol(self, link: SparkLink, peer: str) -> asyncio.Protocol:
        tls = self._tls
        if self._contexts is None or tls is None:
            return link

        def failed(reason: str) -> None:
            if self._places.pop(link, None) is not None:
                self._refused.value += 1
                self._out.log.warning("TLS handshake failed", reason=reason, peer=peer)

        layer = TlsProtocol(
            link,
            self._contexts.current,
            failed,
            handshake_seconds=self._handshake_seconds,
            server_side=True,
            check=lambda client: check_name(client, tls.client_names),
        )
        link.transport = layer.transport  # so that it can be closed in its handshake
        return layer

    def _began(self, link: SparkLink, peer: str) -> None:
        session = Session(self, link, peer)
        self._sessions[link] = session
        self._tasks[link] = asyncio.get_running_loop().create_task(self._talk(session, link))

    def _make_room(self) -> bool:
        """Makes room for one more connection: closes the oldest that has proved nothing.
        A TLS handshake is no proof."""
        if len(self._places) < self._max_connections:
            return True
        for link, peer in self._places.items():
            session = self._sessions.get(link)
            if session is None or not session.right:
                del self._places[link]
                self._say(peer, RequestRefused(Code.NO_SPACE, "its place was wanted"))
                link.abort()
                return True
        return False

    def _no_place(self) -> RequestRefused:
        return RequestRefused(Code.NO_SPACE, f"{self._max_connections} connections are open")

    def _ended(self, link: SparkLink) -> None:
        self._places.pop(link, None)
        self._sessions.pop(link, None)
        for consumer in self.leases.ended(link):
            self.consumers.left(consumer)
        task = self._tasks.pop(link, None)
        if task is not None:
            task.cancel()

    # the conversation

    async def _talk(self, session: Session, link: SparkLink) -> None:
        try:
            if len(self._places) > self._max_connections:
                raise self._no_place()
            async with within(self._handshake_seconds):
                await session.greet()
            while True:
                try:
                    await session.answer()
                except RequestRefused as error:
                    self._say(session.peer, error)
                    await session.refuse(error)
        except ConnectionResetError:
            pass
        except Exception as error:  # noqa: BLE001  # of one peer; the others go on
            await self._break_off(session, link, error)
        link.close()

    async def _break_off(self, session: Session, link: SparkLink, error: Exception) -> None:
        reason = refusal(error)
        self._say(session.peer, reason)
        try:
            async with asyncio.timeout(CLOSING):
                if isinstance(error, Stranger) and error.http:
                    await link.send(NOT_HTTP)
                else:
                    await session.refuse(reason)
        except (ConnectionResetError, TimeoutError):
            pass

    def _say(self, peer: str, error: RequestRefused) -> None:
        self._refused.value += 1
        say = self._out.log.error if error.code == Code.INTERNAL else self._out.log.warning
        say("refused", peer=peer, code=error.code, reason=str(error))

    async def _close(self) -> None:
        for link in [link for link in self._places if link not in self._sessions]:
            del self._places[link]  # its handshake goes on no more
            link.abort()
        links, tasks = list(self._sessions), [*self._tasks.values(), *self._handed]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stopping = control(FrameKind.ERROR, {"code": Code.STOPPING, "message": "walflow is stopping"})
        for link in links:
            link.end(stopping)
        gone = asyncio.gather(*(link.gone.wait() for link in links))
        try:
            await asyncio.wait_for(gone, CLOSING)
        except TimeoutError:
            for link in links:
                link.abort()

    def _reload(self) -> None:
        if self._contexts is not None:
            self._contexts.renew()


def _named(address: object) -> str:
    host, port, *_ = cast(tuple[str, int], address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
