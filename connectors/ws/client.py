from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from websockets.exceptions import InvalidURI
from websockets.uri import WebSocketURI, parse_uri

from connectors.ws.acks import MessagesPonged, MessagesReturned, MessagesWritten
from connectors.ws.config import WEBSOCKET, Ws
from connectors.ws.wire import printable
from walflow import Families, Guarantee, Inlet, Lossless, Need, Outlet, Risk, Size
from walflow.net import (
    CERTIFICATE_FAMILIES,
    CLIENT_FAMILIES,
    Address,
    AtUrl,
    ClientTls,
    Reconnect,
    ReconnectKeys,
    SocketOptions,
    TcpOptions,
    TlsToPeer,
    UrlScheme,
    check_brackets,
    check_host,
    credential_in_the_open,
    credentials_written,
    to_reach,
    to_read,
)

OURS: Final = {  # headers that the handshake itself has
    "host",
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
}

LOSES: Final = Risk(
    "unconfirmed",
    'a peer that dies loses events that it had not read, because a log deletes what is acked; `"ack": "pong"` keeps '
    "those that have not reached the peer",
)
LOSES_LITTLE: Final = Risk(
    "unconfirmed",
    "a pong comes from the peer's WebSocket library, not from its application: a peer that dies between the two "
    'loses the events there; `"ack": "message"` keeps them, if the peer sends events back',
)


class WsClientKeys(AtUrl, Ws):
    """What `WsClient` takes."""

    families: ClassVar[Families] = {**CLIENT_FAMILIES, **CERTIFICATE_FAMILIES}
    scheme: ClassVar[UrlScheme] = WEBSOCKET

    url: str = WEBSOCKET.connects("ws://host:port/path", " host:port alone means ws://.")
    tls: TlsToPeer = False
    headers: Mapping[str, str] = Field(
        default={}, description="More headers of the handshake. For a secret, use `token`."
    )
    ack: Literal["written", "pong", "message"] = Field(
        default="pong",
        description="When an event counts as delivered. `written`: once it is in the kernel's buffer. `pong`: once "
        "the peer's WebSocket library has answered a ping that was sent after the event. `message`: once the peer "
        "has sent the event, or its id_field, back. Other messages from the peer are events.",
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
    write_buffer: Size = Field(
        default=64 << 20,
        ge=1,
        description="Bytes that may wait for the peer to read. Beyond them the sources stop. "
        "A single source stops at its window, 8 MiB.",
    )
    write_timeout: int | None = Field(
        default=None,
        gt=0,
        description="Nanoseconds after which walflow reconnects if the peer has taken no byte. Default: never, but a "
        "peer that does not answer pings is disconnected.",
    )
    socket_options: TcpOptions = SocketOptions()
    reconnect: ReconnectKeys = Reconnect()

    @classmethod
    def checked_url(cls, url: str) -> str:
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

    def needs(self) -> Sequence[Need]:
        return [*to_read(self.token, "token"), *to_reach(self.address, self._tls())]

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
            sink = Lossless(
                f"an event is acked when the peer has returned {returned}. What is not back when the connection ends "
                "is sent again on the next one; what is not back within echo_timeout fails. "
                "So the peer may get an event twice"
            )
            warnings += (
                []
                if behind_log
                else [Risk("no-log", "an event that fails is lost: put a log upstream, which sends it again")]
            )
        return Guarantee(
            source="what was read from the peer cannot be read again: a crash loses the events that no log has acked "
            "yet",
            sink=sink,
            warnings=tuple(warnings),
        )

    def _insecure(self) -> list[str]:
        tls = self._tls()
        key_password = tls.key_password if tls is not None else None
        warnings = credentials_written(self.headers, key_password=key_password, token=self.token)
        if self.token is not None and tls is None and not self.address.loopback:
            warnings.append(credential_in_the_open("token", self.address))
        return warnings

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


def _parse(url: str, *, secure: bool) -> WebSocketURI:
    """Raises ValueError with a line for the flow file's author."""
    text = url if "://" in url else f"{'wss' if secure else 'ws'}://{url}"
    try:
        uri = parse_uri(text)
        check_host(uri.host)
        check_brackets(urlsplit(text).netloc.rpartition("@")[2])
    except (InvalidURI, ValueError) as error:
        raise ValueError(f"{url!r} is not ws://host:port/path: {printable(error)}") from None
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
