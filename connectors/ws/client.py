import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.uri import WebSocketURI, parse_uri

from connectors.ws.acks import MessagesPonged, MessagesReturned, MessagesWritten
from connectors.ws.config import Ws
from connectors.ws.wire import SHOWN, SILENT, FrameWire
from walflow import Block, Guarantee, Inlet, Outlet, Stream
from walflow.net import Address, ClientTls, NoSecret, Reconnect, SocketOptions, check_host
from walflow.net.address import check_brackets
from walflow.net.client import CLOSING, StreamClient
from walflow.net.connection import Connection
from walflow.net.dial import Dial
from walflow.net.secrets import bearer
from walflow.net.writing import Writing

OURS: Final = {  # headers that the handshake itself has
    "host",
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
}

PONGS: Final = 1 << 20  # bytes in the transport beyond what it is handed of blocks, which is less

LOSES: Final = (
    'a peer that dies loses events that it had not read, because a log deletes what is acked; `"ack": "pong"` keeps '
    "those that have not reached the peer"
)
LOSES_LITTLE: Final = (
    "a pong comes from the peer's WebSocket library, not from its application: a peer that dies between the two loses "
    'the events there; `"ack": "message"` keeps them, if the peer sends events back'
)


class WsClient(Ws):
    """A client of one peer. As a sink, it sends events as messages. As a source, it reads the peer's messages from the
    same connection."""

    url: str = Field(
        description="ws://host:port/path, or wss:// for TLS. host:port alone means ws://. The default port is 80, "
        "with TLS 443."
    )
    tls: bool | ClientTls = Field(
        default=False,
        description="For wss://: `true` for the system's certificate authorities, or a record with the keys below.",
    )
    headers: Mapping[str, str] = Field(
        default={}, description="More headers of the handshake. For a secret, use `token`."
    )
    ack: Literal["written", "pong", "message"] = Field(
        default="pong",
        description="When an event counts as delivered. `written`: once it is in the kernel's buffer. `pong`: once "
        "the peer's WebSocket library has answered a ping that was sent after the event. `message`: once the peer has "
        "sent the event, or its id_field, back. Other messages from the peer are events.",
    )
    id_field: str | None = Field(
        default=None,
        min_length=1,
        description='For `"ack": "message"`: the field that identifies an event. The peer sends the event or the '
        "field's value back, in any order. Default: the peer sends the same bytes back, in the same order.",
    )
    echo_timeout: int = Field(
        default=30_000_000_000,
        gt=0,
        description='For `"ack": "message"`: nanoseconds without a returned event after which the connection is '
        "closed, and all events that were not returned fail.",
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
        description="Nanoseconds after which walflow reconnects if the peer has taken no byte. Default: never, but a "
        "peer that does not answer pings is disconnected.",
    )
    socket_options: SocketOptions = Field(
        default=SocketOptions(), description="Options of the socket, by tremor's names."
    )
    reconnect: Reconnect = Field(
        default=Reconnect(),
        description='How to reconnect, with tremor\'s keys: `{"retry": {…}}`. Default: without end.',
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        _parse(url, secure=False)
        return url

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, headers: Mapping[str, str]) -> Mapping[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        return headers

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.tls and self.url.lower().startswith("ws://"):
            raise ValueError("url says ws:// and tls is there: write wss://")
        if self.id_field is not None and self.ack != "message":
            raise ValueError('id_field is for `"ack": "message"`')
        if self.token is not None and any(name.lower() == "authorization" for name in self.headers):
            raise ValueError("token and headers both say Authorization: name one")
        return self

    @property
    def uri(self) -> WebSocketURI:
        return _parse(self.url, secure=bool(self.tls))

    @property
    def address(self) -> Address:
        return Address(self.uri.host, self.uri.port)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        warnings = self._insecure()
        if self.ack == "written":
            sink = (
                "an event is acked when it is in the kernel's buffer. Events that the peer has not read by then are "
                "lost if the peer or the connection dies"
            )
            warnings += [LOSES] if behind_log else []
        elif self.ack == "pong":
            sink = (
                "an event is acked when the peer's WebSocket library has answered a ping sent after it. What is not "
                "acked when the connection ends is sent again on the next one, so the peer may get it twice"
            )
            warnings += [LOSES_LITTLE] if behind_log else []
        else:
            returned = f"it, or its {self.id_field}" if self.id_field else "it, byte for byte and in order"
            sink = (
                f"an event is acked when the peer has returned {returned}. What is not back when the connection ends is "
                "sent again on the next one; what is not back within echo_timeout fails. So the peer may get an event twice"
            )
            warnings += (
                [] if behind_log else ["an event that fails is lost: put a log upstream, which sends it again"]
            )
        return Guarantee(
            source="what was read from the peer cannot be read again: a crash loses the events that no log has acked "
            "yet",
            sink=sink,
            warnings=tuple(warnings),
        )

    def _insecure(self) -> list[str]:
        warnings: list[str] = []
        tls = self._tls()
        if tls is not None and tls.key_password is not None and tls.key_password.inline:
            warnings.append("the key_password stands in the flow file; name a file, env or credential instead")
        if self.token is not None and self.token.inline:
            warnings.append("the token stands in the flow file; name a file, env or credential instead")
        if any(name.lower() == "authorization" for name in self.headers):
            warnings.append("headers contain an Authorization; name a file with it in `token` instead")
        if self.token is not None and tls is None and not self.address.loopback:
            warnings.append(f"the token goes to {self.address} without TLS, so every machine on the way can read it")
        return warnings

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        tls = self._tls()
        acks = self._acks(inlet, out)
        dial = Dial(self.address, tls, self.socket_options, out)
        inlet.on_reopen(dial.reload)
        peer = {"host": self.address.host, "port": self.address.port}
        await StreamClient(
            self,
            inlet,
            out,
            peer=str(self.address),
            meta={"ws_client": {"tls": tls is not None, "peer": peer}},
            connect=dial.connect,
            acks=acks,
            reads_answers=self.ack != "written",
            connection=lambda client: WsConnection(client, self, acks),
        ).run()

    def _acks(self, inlet: Inlet, out: Outlet) -> MessagesWritten:
        time = out.scheduler.awake
        if self.ack == "pong":
            return MessagesPonged(self, inlet, time)
        if self.ack == "message":
            timeout = self.echo_timeout / 1e9
            return MessagesReturned(self, inlet, time, timeout, id_field=self.id_field, codec=out.codec)
        return MessagesWritten(self, inlet)

    def _tls(self) -> ClientTls | None:
        if isinstance(self.tls, ClientTls):
            return self.tls
        return ClientTls() if self.uri.secure else None


class WsConnection(Connection):
    """Made when the handshake is done.

    What comes is parsed a turn at a time, and only as far as it is wanted; the rest stays as it came.
    """

    _wire: FrameWire

    def __init__(self, client: StreamClient, config: WsClient, acks: MessagesWritten) -> None:
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
        """A turn."""
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


def _parse(url: str, *, secure: bool) -> WebSocketURI:
    """Raises ValueError with a line for the flow file's author."""
    text = url if "://" in url else f"{'wss' if secure else 'ws'}://{url}"
    try:
        uri = parse_uri(text)
        check_host(uri.host)
        check_brackets(urlsplit(text).netloc.rpartition("@")[2])
    except (InvalidURI, ValueError) as error:
        raise ValueError(f"{url!r} is not ws://host:port/path: {_short(error)}") from None
    if uri.username is not None:
        raise ValueError("a url holds no user and password: use `token` or `headers`")
    return uri


def _check_header(name: str, value: str) -> None:
    if name.lower() in OURS:
        raise ValueError(f"the header {name} is the handshake's own")
    if not name or not all(c.isascii() and (c.isalnum() or c in "!#$%&'*+-.^_`|~") for c in name):
        raise ValueError(f"{name!r} is no name of a header")
    if not value.isprintable() or not value.isascii():
        raise ValueError(f"the header {name} has a value that cannot be sent")


def _refusal(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        response = error.response
        reason = response.reason_phrase if response.reason_phrase.isprintable() else ""
        return f"the peer answers {response.status_code} {reason}"[:SHOWN].rstrip()
    if isinstance(error, InvalidHandshake):
        return f"no WebSocket: {_short(error)}"
    return "the connection ended in the handshake"


def _short(error: Exception) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(error))
    return text[:SHOWN]
