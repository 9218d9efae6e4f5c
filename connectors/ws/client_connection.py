"""The connection of `ws_client` to its peer: the handshake, then messages, pings and the close."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus

from connectors.ws.acks import MessagesWritten
from connectors.ws.wire import SHOWN, SILENT, FrameWire
from walflow import Block, Stream
from walflow.net import NoSecret
from walflow.net.client import StreamClient
from walflow.net.client_sink import CLOSING
from walflow.net.connection import Connection
from walflow.net.secrets import bearer
from walflow.net.writing import Writing

if TYPE_CHECKING:
    from connectors.ws.client import WsClient

PONGS: Final = 1 << 20  # bytes in the transport beyond what it is handed of blocks, which is less


class WsConnection(Connection):
    """Made when the handshake is done.

    What comes is parsed a turn at a time, and only as far as it is wanted; the rest stays as it came.
    """

    _wire: FrameWire

    def __init__(self, client: StreamClient, config: "WsClient", acks: MessagesWritten) -> None:
        super().__init__(client)
        self._inlet = client.inlet
        self._others = client.others
        self._config = config
        self._acks = acks
        self._alive = self._pinged = self._time()
        self._opened = False
        self._leaving: asyncio.TimerHandle | None = None
        self._unread = b""  # came, and was not parsed
        self._has_turn = False  # the next one is asked for
        self._peer_ended = False  # it is heard of behind what is unread

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)
        if self.made.done():
            transport.abort()
            return
        try:
            self._wire = FrameWire(self._request())
        except NoSecret as error:
            self._refuse(str(error))
            return
        self._flush()

    def _request(self) -> ClientProtocol:
        config = self._config
        protocol = ClientProtocol(
            config.uri,
            extensions=config.client_extensions,
            subprotocols=config.subprotocols,
            max_size=config.max_event_bytes,
            logger=SILENT,
        )
        request = protocol.connect()
        for name, value in config.headers.items():
            request.headers[name] = value
        if config.token is not None:
            token = config.token.read().get_secret_value()
            if not token.isascii() or not token.isprintable():
                raise NoSecret("the token holds what no header can hold")
            request.headers["Authorization"] = bearer(token)
        protocol.send_request(request)
        return protocol

    def data_received(self, data: bytes) -> None:
        if self.ended.done() or not hasattr(self, "_wire"):
            return
        self._alive = self._time()
        if not self.made.done():
            _, data = self._wire.receive_head(data)
            self._shake()
        if not self._opened:
            self._wire.receive(data)  # the rest of a refusal
            if not self.made.done():
                self._shake()
            return
        self._unread += data
        if not self.feed.reading:
            self.feed.still_paused()
        elif not self._has_turn:
            self._receive()

    def _receive(self) -> None:
        """Reads what came, for one turn of the event loop."""
        read, self._unread = self._wire.receive_turn(self._unread)
        self._heard = self._heard or (self._wire.open and bool(read.messages or read.pongs))
        for payload in read.pongs:
            self._acks.pong(payload)
        others = self._acks.others(read.messages)
        if others:
            self._others(self, others)
        self._flush()
        if self.ended.done():
            return
        if not self._wire.open:
            self._closed()
        elif self._unread:
            self.feed.hold(self._ask_for_turn)
            self._ask_for_turn()
        else:
            self.feed.release()
            if self._peer_ended:
                super().eof_received()
                self.transport.close()

    def _ask_for_turn(self) -> None:
        if not self._has_turn and self.feed.wanted:
            self._has_turn = True
            self._client.out.next_turn(self._go_on)

    def _go_on(self) -> None:
        self._has_turn = False
        if self.feed.wanted and not self.ended.done():
            self._receive()

    def _shake(self) -> None:
        protocol = self._wire.protocol
        if protocol.handshake_exc is not None:
            self._refuse(_refusal(protocol.handshake_exc))
        elif self._wire.shaking:
            return
        elif self._config.subprotocol is not None and protocol.subprotocol != self._config.subprotocol:
            self._refuse(f"the peer does not speak the subprotocol {self._config.subprotocol}")
        else:
            self._opened = True
            super().connection_made(self.transport)

    def _refuse(self, reason: str) -> None:
        self.failed(reason)
        self.transport.abort()

    def _closed(self) -> None:
        if self._wire.too_large and self.feed.stream is not None:
            self.feed.stream.reject(self._wire.ending())
        self.end(self._wire.ending(), orderly=True)

    def eof_received(self) -> bool:
        if self._opened and self._unread and not self.ended.done():
            self._peer_ended = True
            return True
        if self._opened:
            return super().eof_received()
        self._wire.eof()  # an answer without a length ends here
        self._shake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        if self._opened:
            super().connection_lost(exc)
        else:
            self.failed("the connection ended in the handshake")

    def resume_writing(self) -> None:
        if self._opened:
            super().resume_writing()

    def look(self, now: float) -> None:
        if not self.feed.reading:
            self._alive = now
        elif now - self._alive > self._config.dead_after():
            self.end("no pong within pong_timeout")
        elif now - max(self._alive, self._pinged) > self._config.ping_interval / 1e9:
            self._pinged = now
            self._wire.ping()
            self._flush()

    def _writing(self, transport: asyncio.Transport) -> Writing:
        return Writing(transport, self._acks.written, self._encode)

    def _encode(self, blocks: Sequence[Block]) -> Sequence[bytes]:
        inlet = self._inlet
        for block in blocks:
            self._wire.encode(inlet.messages(block), text=self._config.is_text(inlet, block))
        behind = self._acks.ping(len(blocks))
        if behind is not None:
            self._wire.ping(behind)
        return [self._wire.to_send()[0]]

    def _pass_on(self, stream: Stream, read: Sequence[bytes]) -> None:
        stream.feed_messages(read)

    def _flush(self) -> None:
        data, _ = self._wire.to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)
            if self._opened and self.transport.get_write_buffer_size() > PONGS:
                self.end("it does not read the pongs it asks for")

    def _leave(self) -> None:
        self._wire.close("")
        self._flush()
        self.transport.close()
        self._leaving = asyncio.get_running_loop().call_later(CLOSING, self.transport.abort)


def _refusal(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        response = error.response
        reason = response.reason_phrase if response.reason_phrase.isprintable() else ""
        return f"the peer answers {response.status_code} {reason}"[:SHOWN].rstrip()
    if isinstance(error, InvalidHandshake):
        return f"no WebSocket: {printable(error)}"
    return "the connection ended in the handshake"


def printable(error: Exception) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(error))
    return text[:SHOWN]
