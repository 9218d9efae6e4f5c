"""Connections and requests of one run: aiohttp speaks HTTP, and what may come in is decided here."""

import asyncio
import hashlib
import logging
import socket
from asyncio import Future
from collections import Counter as Tally
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aiohttp import web

from connectors.http.body import Judged, judge, kind_of, read
from connectors.http.delivery import Departures, NotTaken
from connectors.http.keys import KeyWindow, KnownRequest
from connectors.http.memory import BodyReading, RequestMemory
from connectors.http.refusal import HttpRefusal, answer, json_response
from walflow import Inlet, Outlet, Receipt, Stream
from walflow.net import Contexts, NoSecret
from walflow.net.deadline import within
from walflow.net.listener import Listener
from walflow.net.over_tcp import host_and_port
from walflow.net.secrets import same_token
from walflow.net.secure import TlsProtocol
from walflow.net.tls import check_name

if TYPE_CHECKING:
    from connectors.http.server import HttpServer

SWEEP: Final = 1.0  # seconds between looks for clients that do not read
CLOSING: Final = 1.0  # seconds that answers under way get at the end
LINGER: Final = 2.0  # seconds in which a refused body is read and dropped, so that the client reads the answer
HEAD_BYTES: Final = 32 << 10
REQUEST_BYTES: Final = 512  # what a request takes beside its head and its events
LONGEST_KEY: Final = 255
METHODS: Final = ("POST", "PUT", "PATCH")
SECRET_HEADERS: Final = {"authorization", "proxy-authorization", "cookie"}  # no part of the metadata

# what a client does wrong is answered and counted; aiohttp would log it with a traceback
SILENT: Final = logging.getLogger("walflow.http")
SILENT.setLevel(logging.CRITICAL + 1)


class HttpConnection(web.RequestHandler):
    """One client."""

    def __init__(self, serving: "HttpServing", address: object) -> None:
        super().__init__(
            serving.server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=serving.config.idle_timeout / 1e9,
            tcp_keepalive=False,  # the socket has it
            logger=SILENT,
            access_log=SILENT,
            lingering_time=LINGER,
            auto_decompress=False,  # a limit must count what is inflated
        )
        self.host, self.port = host_and_port(address)
        self.secure: TlsProtocol | None = None
        self.stream: Stream | None = None
        self.unread = 0  # bytes of answers at the last look, and since when
        self.unread_since = 0.0
        self._serving = serving

    def connection_lost(self, exc: BaseException | None) -> None:
        self._serving.left(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What came is no HTTP, or we have a bug."""
        return self._serving.refuse_unread(status, exc)

    def abort(self) -> None:
        if self.secure is not None:
            self.secure.transport.abort()
        elif self.transport is not None:
            self.transport.abort()


class HttpServing:
    def __init__(self, config: "HttpServer", inlet: Inlet, out: Outlet) -> None:
        self.config = config
        self.server = web.Server(self.answer)
        self._inlet = inlet
        self._out = out
        self._contexts = Contexts(config.tls, out.log) if config.tls is not None else None
        self._connections: set[HttpConnection] = set()
        self._idle: dict[HttpConnection, None] = {}  # without a request, longest first
        self._addresses: Tally[str] = Tally()
        self._memory = RequestMemory(out.window)
        self._keys = KeyWindow(config.idempotency_window / 1e9, config.idempotency_keys, out.scheduler.time)
        self._departures = Departures(out)
        self._shut = False
        self._gate = out.stream({}, pause=lambda: self._set_shut(True), resume=lambda: self._set_shut(False))
        self._requests = out.counter("requests_total")
        self._refusals = out.counter("refused_requests_total")
        self._repeated = out.counter("repeated_requests_total")
        self._lost = out.counter("lost_events_total")
        self._refused_connections = out.counter("refused_connections_total")
        self._idle_closed = out.counter("idle_clients_closed_total")
        self._slow_closed = out.counter("slow_clients_closed_total")
        self._handshakes_failed = out.counter("failed_handshakes_total")
        out.gauge("connections", lambda: len(self._connections))
        out.gauge("request_bytes", lambda: self._memory.held)

    async def run(self, sockets: Sequence[socket.socket]) -> None:
        """Until it is cancelled."""
        listener = Listener(sockets, self._arrived, self._out)
        self._inlet.on_reopen(self._reload)
        listener.start()
        self._sweep()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()
            await self._close()

    async def _close(self) -> None:
        """Answers that are known are written; a request that waits for its acks gets none."""
        closing = [connection.shutdown(CLOSING) for connection in self._connections]
        await asyncio.gather(*closing, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        self._gate.close()

    def _set_shut(self, shut: bool) -> None:
        self._shut = shut

    def _reload(self) -> None:
        if self._contexts is not None:
            self._contexts.renew()

    # connections

    def _arrived(self, sock: socket.socket, address: object) -> Coroutine[object, object, None] | None:
        host, _ = host_and_port(address)
        refusal = self._no_place(host)
        if refusal is not None:
            sock.close()
            self._refused_connections.value += 1
            self._out.log.warning("connection refused", reason=refusal, peer=host)
            return None
        connection = HttpConnection(self, address)
        self._connections.add(connection)
        self._idle[connection] = None
        self._addresses[host] += 1
        return self._set_up(connection, sock)

    def _no_place(self, host: str) -> str | None:
        most = self.config.max_connections_per_address
        if most is not None and self._addresses[host] >= most:
            return f"{most} clients of its address are connected"
        if len(self._connections) < self.config.max_connections:
            return None
        if not self._idle:
            return f"{self.config.max_connections} clients are connected"
        longest = next(iter(self._idle))
        self._idle_closed.value += 1
        self._out.log.warning(
            "idle client closed", reason="it had no request, and its place was wanted", peer=longest.host
        )
        self.left(longest)
        longest.abort()
        return None

    async def _set_up(self, connection: HttpConnection, sock: socket.socket) -> None:
        try:
            self.config.socket_options.connected(sock)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: self._protocol(connection), sock)
        except OSError:  # it is gone already
            sock.close()
            self.left(connection)
        else:
            if connection not in self._connections:  # its place was wanted meanwhile
                connection.abort()

    def _protocol(self, connection: HttpConnection) -> asyncio.Protocol:
        tls = self.config.tls
        if self._contexts is None or tls is None:
            return connection
        connection.secure = TlsProtocol(
            connection,
            self._contexts.current,
            lambda reason: self._handshake_failed(connection, reason),
            handshake_seconds=self.config.handshake_timeout / 1e9,
            server_side=True,
            check=lambda client: check_name(client, tls.client_names),
        )
        return connection.secure

    def _handshake_failed(self, connection: HttpConnection, reason: str) -> None:
        self._handshakes_failed.value += 1
        self._out.log.warning("TLS handshake failed", reason=reason, peer=connection.host)
        self.left(connection)

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

    def _sweep(self) -> None:
        now = self._out.scheduler.awake()
        for connection in list(self._connections):
            transport = connection.transport
            unread = transport.get_write_buffer_size() if transport is not None else 0
            if not unread or unread < connection.unread:
                connection.unread_since = now
            elif now - connection.unread_since > self.config.write_timeout / 1e9:
                self._slow_closed.value += 1
                self._out.log.warning(
                    "slow client closed", reason="it does not read its answers", peer=connection.host
                )
                connection.abort()
            connection.unread = unread
        self._out.scheduler.call_later(SWEEP, self._sweep)

    # requests

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        self._idle.pop(connection, None)
        self._requests.value += 1
        try:
            return await self._answer(request, connection)
        except HttpRefusal as refused:
            return self._refuse(refused)
        finally:
            if connection in self._connections:
                self._idle[connection] = None

    def _refuse(self, refused: HttpRefusal) -> web.Response:
        self._refusals.value += 1
        return refused.response(self.config.retry_after)

    def refuse_unread(self, status: int, error: BaseException | None) -> web.Response:
        if status < 500:
            return self._refuse(HttpRefusal(status, "this is no HTTP request", closes=True))
        self._out.log.error("internal error", error=repr(error))
        self._out.log.debug("internal error", exc_info=error)
        return self._refuse(HttpRefusal(status, "internal error", later=True, closes=True))

    async def _answer(self, request: web.BaseRequest, connection: HttpConnection) -> web.Response:
        head = self._check(request)
        reading = self._memory.begin(REQUEST_BYTES + head)
        handed_over = False
        try:
            if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
                request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            config = self.config
            body = await read(request, reading, config.max_body_bytes, config.body_timeout / 1e9)
            key = _key(request)
            kind = kind_of(request.content_type, self._out, split_arrays=config.arrays == "split")
            all_or_none = config.refuse == "request"
            judged = await judge(body, kind, self._out, config.limits, all_or_none=all_or_none)
            digest = hashlib.blake2b(body, digest_size=16).digest() if key is not None else b""
            known = self._keys.find(key, digest) if key is not None else None
            if known is not None:
                reading.release()
                return await self._repeat(known)
            said = answer({"events": sum(frames.count for frames in judged.frames)}, judged.refused)
            if not judged.frames:
                return _response(200, said)
            outcome: Future[BaseException | None] = asyncio.get_running_loop().create_future()
            if key is not None:
                self._keys.keep(key, digest, outcome, said)
            handed_over = True
            return await self._deliver(request, connection, judged, reading, outcome, said)
        finally:
            if not handed_over:
                reading.release()

    def _check(self, request: web.BaseRequest) -> int:
        """Bytes of its head. Raises HttpRefusal: nothing of its body has been read then."""
        if request.method not in METHODS:
            raise HttpRefusal(405, f"the method is one of {', '.join(METHODS)}", closes=True)
        if "Origin" in request.headers:
            raise HttpRefusal(403, "requests of web pages are not taken", closes=True)
        self._check_token(request)
        head = len(request.raw_path) + sum(len(name) + len(value) for name, value in request.raw_headers)
        if head > HEAD_BYTES:
            raise HttpRefusal(431, f"the head has more than {HEAD_BYTES} bytes", closes=True)
        if self._shut:
            raise HttpRefusal(503, "the flow takes no events now", later=True, closes=True)
        return head

    def _check_token(self, request: web.BaseRequest) -> None:
        if self.config.token is None:
            return
        try:
            wanted = self.config.token.read().get_secret_value()
        except NoSecret as error:
            self._out.log.error("no client is let in", reason=str(error))
            raise HttpRefusal(503, "the server cannot read its token", later=True, closes=True) from None
        given = request.headers.getall("Authorization", [])
        if len(given) != 1 or not same_token(given[0], wanted):
            raise HttpRefusal(401, "a token is wanted", closes=True)

    async def _deliver(
        self,
        request: web.BaseRequest,
        connection: HttpConnection,
        judged: Judged,
        reading: BodyReading,
        outcome: "Future[BaseException | None]",
        said: bytes,
    ) -> web.Response:
        def settled(receipt: Receipt) -> None:
            reading.release()
            if not outcome.done():
                outcome.set_result(receipt.cause)
            if receipt.cause is not None and self.config.answer == "taken":
                self._lost.value += receipt.count - receipt.done
                self._out.log.error("lost", events=receipt.count - receipt.done, cause=str(receipt.cause))

        if connection.stream is None:
            connection.stream = self._out.stream({})
        sending = self._departures.send(connection.stream.id, judged.frames, self._meta(request, connection), settled)
        if self.config.answer == "taken":
            await self._taken(sending)
            return _response(202, said)
        try:
            async with within(self.config.ack_timeout / 1e9):
                await self._taken(sending)
                await asyncio.shield(outcome)
        except TimeoutError:
            raise self._late() from None
        return self._told(outcome, said)

    async def _taken(self, sending: Coroutine[object, object, None]) -> None:
        try:
            await sending
        except NotTaken:
            raise HttpRefusal(503, "the flow takes no events now", later=True) from None

    async def _repeat(self, known: KnownRequest) -> web.Response:
        self._repeated.value += 1
        if self.config.answer == "taken":
            return _response(202, known.answer, repeated=True)
        try:
            async with within(self.config.ack_timeout / 1e9):
                await asyncio.shield(known.outcome)
        except TimeoutError:
            raise self._late() from None
        return self._told(known.outcome, known.answer, repeated=True)

    def _late(self) -> HttpRefusal:
        seconds = self.config.ack_timeout / 1e9
        return HttpRefusal(
            504, f"not acked within {seconds:g} s; the events are in the flow, and may still be delivered", later=True
        )

    def _told(self, outcome: "Future[BaseException | None]", said: bytes, *, repeated: bool = False) -> web.Response:
        cause = outcome.result()
        if cause is not None:
            raise HttpRefusal(503, f"not delivered: {cause}", later=True)
        return _response(200, said, repeated=repeated)

    def _meta(self, request: web.BaseRequest, connection: HttpConnection) -> Mapping[str, object]:
        headers: dict[str, list[str]] = {}
        for name, value in request.headers.items():
            lower = name.lower()
            if lower not in SECRET_HEADERS:
                headers.setdefault(lower, []).append(_text(value))
        path, _, query = request.raw_path.partition("?")
        secure = connection.secure is not None
        url = {"scheme": "https" if secure else "http", "path": _text(path), "query": _text(query)}
        peer = {"host": connection.host, "port": connection.port}
        return {
            "request": {"method": request.method, "url": url, "headers": headers},
            "http_server": {"tls": secure, "peer": peer},
        }


def _key(request: web.BaseRequest) -> str | None:
    """What a repeated request is recognised by. Raises HttpRefusal."""
    given = request.headers.getall("Idempotency-Key", [])
    if not given:
        return None
    if len(given) > 1 or not 0 < len(given[0]) <= LONGEST_KEY:
        raise HttpRefusal(400, f"an Idempotency-Key has 1 to {LONGEST_KEY} characters, and there is one of them")
    return f"{request.method} {request.raw_path} {given[0]}"


def _text(value: str) -> str:
    """Bytes that are no UTF-8 come as surrogates, which no JSON holds."""
    return value.encode(errors="surrogateescape").decode(errors="replace")


def _response(status: int, body: bytes, *, repeated: bool = False) -> web.Response:
    response = json_response(status, body)
    if repeated:
        response.headers["Idempotency-Replayed"] = "true"
    return response
