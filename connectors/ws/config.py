"""Keys of both the WebSocket client and the server."""

from typing import ClassVar, Final

from pydantic import Field
from websockets.extensions.permessage_deflate import (
    ClientPerMessageDeflateFactory,
    ServerPerMessageDeflateFactory,
)
from websockets.typing import Subprotocol

from connectors.ws.wire import is_utf8, runs
from walflow import Block, Connector, Inlet, Size, Traits
from walflow.net import BearerToken, UrlScheme

TOKEN: Final = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"  # RFC 9110
WEBSOCKET: Final = UrlScheme("ws", 80, "wss", 443)
TEXT_CODECS: Final = ("json", "string")
TEXT_FRAMINGS: Final = ("messages", "separate")


class Ws(Connector):
    traits: ClassVar[Traits] = Traits(messages=True)

    subprotocol: str | None = Field(
        default=None,
        pattern=TOKEN,
        description="The WebSocket subprotocol. Both sides must name the same one, or there is no connection.",
    )
    token: BearerToken = None
    binary: bool | None = Field(
        default=None,
        description="Whether messages are sent as binary messages. Default: as text if the codec is json or string "
        "and there is no postprocessor but `separate`; otherwise as binary. Both kinds are always read.",
    )
    compression: bool = Field(
        default=False,
        description="Offers (client) or accepts (server) permessage-deflate: it sends fewer bytes and uses more CPU "
        "and memory.",
    )
    max_event_bytes: Size = Field(
        default=1 << 20,
        ge=1,
        description="The largest message. A larger one is rejected, and its connection is closed with code 1009, "
        "because the rest of it would have to be read to find the next message.",
    )
    ping_interval: int = Field(
        default=20_000_000_000,
        gt=0,
        description="Nanoseconds without a byte from the peer after which walflow sends it a ping.",
    )
    pong_timeout: int = Field(
        default=30_000_000_000, gt=0, description="Nanoseconds to wait for the pong before the connection is closed."
    )

    @property
    def subprotocols(self) -> list[Subprotocol] | None:
        return [Subprotocol(self.subprotocol)] if self.subprotocol else None

    @property
    def client_extensions(self) -> list[ClientPerMessageDeflateFactory] | None:
        return [ClientPerMessageDeflateFactory(client_max_window_bits=True)] if self.compression else None

    @property
    def server_extensions(self) -> list[ServerPerMessageDeflateFactory] | None:
        return [ServerPerMessageDeflateFactory()] if self.compression else None

    def dead_after(self) -> float:
        """Seconds without a byte after which a peer counts as gone."""
        return (self.ping_interval + self.pong_timeout) / 1e9

    def is_text(self, inlet: Inlet, block: Block) -> bool:
        return _holds_text(inlet, block) if self.binary is None else not self.binary

    def sendable(self, inlet: Inlet, block: Block) -> list[Block]:
        """The block without the events that would break the protocol. Those are rejected."""
        if self.binary is not False or _holds_text(inlet, block):
            return [block]
        flags = [is_utf8(message) for message in inlet.messages(block)]
        if all(flags):
            return [block]
        return divide(inlet, block, flags, "not UTF-8, and a text message is nothing else")


def _holds_text(inlet: Inlet, block: Block) -> bool:
    """Whether every message of the block is text, independent of its events."""
    framing = block.frames.framing.name
    return block.codec.name in TEXT_CODECS and framing in TEXT_FRAMINGS and not inlet.encoded


def divide(inlet: Inlet, block: Block, good: list[bool], reason: str) -> list[Block]:
    """The parts whose events are good; the others are rejected."""
    kept: list[Block] = []
    at = 0
    for part in block.split(runs(good)):
        if good[at]:
            kept.append(part)
        else:
            inlet.reject(part, reason)
        at += part.frames.count
    return kept
