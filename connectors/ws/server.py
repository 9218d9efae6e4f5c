import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, cast

from pydantic import Field
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol

from connectors.ws.config import WEBSOCKET, Ws
from connectors.ws.wire import GOING_AWAY, SERVICE_RESTART, SILENT, FrameWire
from walflow import Block, Guarantee, Inlet, Need, Outlet, Timer
from walflow.net import (
    CLOSING,
    SENT_TO_CLIENTS,
    AtUrl,
    Deadline,
    NoSecret,
    Peer,
    StreamServer,
    TcpListening,
    UrlScheme,
    Writing,
    credentials_written,
    same_token,
    to_listen,
    to_read,
    warn_if_open,
)
from walflow.world import handover


class WsServer(AtUrl, Ws, TcpListening):
    """A source of its clients' messages, and a sink that answers each client with its own events."""

    scheme: ClassVar[UrlScheme] = WEBSOCKET

    url: str = WEBSOCKET.listens(" Any path will do.")
    idle_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds without a message either way after which a client is closed. Default: never.",
    )

    @property
    def secure(self) -> bool:
        return self.tls is not None

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.token, "token"), *to_listen(self.address, self.socket_options, self.tls)]

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self.exposed()
        warnings += credentials_written(token=self.token)
        return Guarantee(
            source="what a client has sent is safe once a log has acked it. WebSocket itself does not tell the "
            "client; an echo sent from below the log does",
            sink=SENT_TO_CLIENTS,
            warnings=tuple(warnings),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if self.token is not None:
            self.token.read()  # better now than at the first client
            if self.token.file is not None:
                warn_if_open(self.token.file, "token", out.log)
        await self.listen("ws_server", inlet, out, lambda server, meta, origin: WsPeer(server, meta, origin, self))


class WsPeer(Peer):
    """`joined` once the handshake is done.

    What comes is parsed a turn at a time, and only as far as events are wanted; the rest stays as it came.
    """

    def __init__(
        self, server: StreamServer, meta: Mapping[str, object], origin: str | None, config: WsServer
    ) -> None:
        super().__init__(server, meta, origin)
        self._config = config
        self._ours = server
        self._protocol = ServerProtocol(
            extensions=config.server_extensions,
            subprotocols=config.subprotocols,
            max_size=config.max_event_bytes,
            logger=SILENT,
        )
        self._wire = FrameWire(self._protocol)
        self._alive = self._pinged = server.time()
        self._timer: Timer | None = None
        self._closing = False
        self._unread = b""  # came, and was not parsed
        self._receiving = False
        self._ended = False  # by the peer; it is heard of behind what is unread

    # the handshake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)
        if self.left:
            transport.abort()
            return
        seconds = self._config.handshake_timeout / 1e9
        self._after(seconds, lambda: self._fail(f"no handshake within {seconds:g} s"))

    def _shake(self, data: bytes) -> bytes:
        """Reads the request of the handshake. Returns the bytes that follow it."""
        read, rest = self._wire.receive_head(data)
        if self._protocol.handshake_exc is not None:
            self._flush()
            self._fail(_words(self._protocol.handshake_exc))
        elif read.requests:
            self._answer(read.requests[0])
        return rest

    def _answer(self, request: Request) -> None:
        response = self._refusal(request) or self._protocol.accept(request)
        self._protocol.send_response(response)
        self._flush()
        if response.status_code == 101:
            self._stop_timer()
            super().connection_made(self.transport)
        elif self._protocol.handshake_exc is not None:
            self._fail(_words(self._protocol.handshake_exc))
        else:
            self._fail(f"{response.status_code} {response.reason_phrase}")

    def _refusal(self, request: Request) -> Response | None:
        if self._config.token is None:
            return None
        try:
            wanted = self._config.token.read().get_secret_value()
        except NoSecret as error:
            self._ours.out.log.error("no client is let in", reason=str(error))
            return self._protocol.reject(503, "The server cannot read its token.\n")
        given = request.headers.get_all("Authorization")
        if len(given) == 1 and same_token(given[0], wanted):
            return None
        response = self._protocol.reject(401, "A token is required.\n")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _fail(self, reason: str) -> None:
        self._ours.handshake_failed(self, "WebSocket handshake failed", reason)
        self._linger(CLOSING)
        self.transport.close()

    # messages

    def data_received(self, data: bytes) -> None:
        self.keep_paused()
        if self._closing and not self.joined:
            return
        if not self.joined:
            data = self._shake(data)
            if not self.joined:
                return
        self._alive = self._ours.time()
        self._unread += data
        if not self._pauses:
            self._receive()

    def _go_on(self) -> None:
        if self._receiving:  # what is fed may pause us, and resume us, at once
            self._yield_turn()
            return
        if self._unread:
            self._receive()
        if not self._pauses:
            super()._go_on()

    def _yield_turn(self) -> None:
        self._pause("turn")
        self._ours.out.next_turn(lambda: self._resume("turn"))

    def _receive(self) -> None:
        """Reads what came, for one turn of the event loop."""
        self._receiving = True
        read, self._unread = self._wire.receive_turn(self._unread)
        if read.messages and not self._closing:
            self.heard()
            self.stream.feed_messages(read.messages)
        self._flush()
        self._receiving = False
        if not self._wire.open and not self._closing:
            self._unread = b""
            self._closed()
        elif self._unread and not self._pauses:
            self._yield_turn()
        elif self._ended and not self._unread:
            self._end()

    def _closed(self) -> None:
        """By its goodbye, or by ours for what it did."""
        if self._wire.too_large:
            self.stream.reject(self._wire.ending())
        if self._protocol.close_rcvd is None:
            self._ours.out.log.warning("client closed", reason=self._wire.ending(), stream=self.stream.id.number)
            self._linger(CLOSING)  # closed at once, with something unread, it would not read why
        self._give_up()

    def rest(self) -> None:
        """What a WebSocket has agreed on is not handed on."""
        return

    def _give_up(self) -> None:
        self._closing = True
        self.drop_unwritten()

    def write(self, blocks: list[Block]) -> None:
        if self._closing:
            self._ours.orphan(blocks)
        else:
            super().write([part for block in blocks for part in self._config.sendable(self._ours.inlet, block)])

    def _new_writing(self, transport: asyncio.Transport) -> Writing:
        return Writing(transport, self._ack, self._encode)

    def _encode(self, blocks: Sequence[Block]) -> Sequence[bytes]:
        inlet = self._ours.inlet
        for block in blocks:
            self._wire.encode(inlet.messages(block), text=self._config.is_text(inlet, block))
        return [self._wire.to_send()[0]]

    def _flush(self) -> None:
        data, ends = self._wire.to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)
            if self.joined:
                self.wrote()  # a flood of pings is not read on while the pongs are not read
        if ends and self._protocol.close_rcvd is not None:
            self._linger(self._config.write_timeout / 1e9)
            self.transport.close()

    # the end

    def close(self) -> None:
        self.stirred = True
        if not self.joined or self._closing:
            self.transport.close()
            return
        self._wire.close("", SERVICE_RESTART if handover().leaving else GOING_AWAY)
        self._flush()
        self._give_up()
        self._linger(CLOSING)
        if self._pauses:  # its own goodbye is to be read
            self._pauses.clear()
            self._go_on()

    def eof_received(self) -> bool:
        if self.joined and self._unread and not self._closing:
            self._ended = True
            return True
        if self.joined and not self._closing:
            self._give_up()
            self.stream.eof(complete=False)
        return False

    def _end(self) -> None:
        self._ended = False
        self.eof_received()
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if not self.joined:
            self._ours.handshake_failed(self, "WebSocket handshake failed", "the connection ended in the handshake")
        super().connection_lost(exc)

    def look(self, now: float) -> None:
        if self._pauses or self._closing:
            self._alive = now  # its pongs are not read
        elif now - self._alive > self._config.dead_after():
            self._ours.close_dead(self)
        elif now - max(self._alive, self._pinged) > self._config.ping_interval / 1e9:
            self._pinged = now
            self._wire.ping()
            self._flush()

    def _linger(self, seconds: float) -> None:
        self._closing = True
        self._after(seconds, self.abort)

    def _after(self, seconds: float, call: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = Deadline(self._ours.out.scheduler, seconds, call)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _words(error: Exception) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(error))
    return text[:120]
