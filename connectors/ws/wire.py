"""One WebSocket connection without its socket: converts bytes to messages and back, with the `websockets` library.

A frame costs it 3 to 6 µs. A message in a frame of its own is therefore read and written by the block
(`connectors.ws.frames`), while nothing else is under way: no handshake, no compression, no message in fragments, no
goodbye.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import Protocol, Side, State

from connectors.ws.frames import MASK, frame_size, frames_of, take_messages
from walflow.world import dice

# what it has to say is said by us, once and without the peer's words
SILENT: Final = logging.getLogger("walflow.websockets")
SILENT.setLevel(logging.CRITICAL + 1)

END_OF_HEAD: Final = b"\r\n\r\n"
PING: Final = b"walflow"
GOING_AWAY: Final = 1001
SERVICE_RESTART: Final = 1012  # the server is there again at once
SHOWN: Final = 60  # of a peer's words in a line of ours
TURN_FRAMES: Final = 4096  # taken before others have their turn: empty ones take as long as full ones
TURN_BYTES: Final = 256 << 10  # the same for what they hold
SLICE: Final = 16 << 10  # parsed at once, 2,700 frames at most
INFLATED_SLICE: Final = 4 << 10  # the same of what is compressed: it may hold a thousand times as much


@dataclass
class FrameRead:
    """The content of some bytes, each kind in order. `frames`: the number of frames of any kind. `size`: their
    content in bytes, inflated."""

    frames: int = 0
    size: int = 0
    requests: list[Request] = field(default_factory=list[Request])
    messages: list[bytes] = field(default_factory=list[bytes])
    pongs: list[bytes] = field(default_factory=list[bytes])


class FrameWire:
    """Never raises because of a peer's bytes. After `receive`, write what `to_send` returns."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._begun = bytearray()  # a message in fragments, however many and however small they are
        self._seen = b""  # the end of what came of the head
        self._serves = protocol.side is Side.SERVER
        self._limit = sys.maxsize if protocol.max_message_size is None else protocol.max_message_size
        self._owed: int = 0  # bytes of a frame that the library has begun to read
        self._head = b""  # of a frame, too little to say how long it is
        self._written: list[bytes] = []

    def __repr__(self) -> str:
        return f"<FrameWire {self.protocol.state.name.lower()}, {len(self._begun)} bytes of a message>"

    @property
    def open(self) -> bool:
        return self.protocol.state is State.OPEN

    @property
    def shaking(self) -> bool:
        return self.protocol.state is State.CONNECTING

    @property
    def too_large(self) -> bool:
        """The connection ends because of a message over the limit."""
        return isinstance(self.protocol.parser_exc, PayloadTooBig)

    def receive(self, data: bytes) -> FrameRead:
        read = FrameRead()
        self._receive(data, read)
        return read

    def receive_turn(self, data: bytes) -> tuple[FrameRead, bytes]:
        """As `receive`, for as much as one turn may take, and the rest. 256 KiB may hold 40,000 empty frames, or 250
        MB once they are inflated."""
        step = INFLATED_SLICE if self.protocol.extensions else SLICE
        read = FrameRead()
        at = 0
        while at < len(data) and read.frames < TURN_FRAMES and read.size < TURN_BYTES:
            self._receive(data[at : at + step], read)
            at += step
        return read, data[at:]

    def receive_head(self, data: bytes) -> tuple[FrameRead, bytes]:
        """As `receive`, and what follows the head of the request or the answer: what there is in it must not end a
        connection that the server does not know yet."""
        known = len(self._seen)
        head = self._seen + data
        end = head.find(END_OF_HEAD)
        end = end + len(END_OF_HEAD) if end >= 0 else len(head)
        self._seen = head[max(0, end - 3) : end]
        return self.receive(head[known:end]), head[end:]

    def eof(self) -> None:
        self.protocol.receive_eof()

    def to_send(self) -> tuple[bytes, bool]:
        """The bytes to send, and whether the connection ends after them."""
        pieces = self.protocol.data_to_send()
        ends = b"" in pieces
        written, self._written = self._written, []
        return b"".join([*written, *pieces]), ends

    def encode(self, messages: Sequence[bytes], *, text: bool) -> None:
        """For `to_send`. Only while it is open."""
        if self._plain:
            self._written += self.protocol.data_to_send()  # in the order in which they were asked for
            keys = None if self._serves else dice().randbytes(MASK * len(messages))
            self._written.append(frames_of(messages, text=text, keys=keys))
            return
        send = self.protocol.send_text if text else self.protocol.send_binary
        for message in messages:
            send(message)

    def ping(self, payload: bytes = PING) -> None:
        if self.open:
            self.protocol.send_ping(payload)

    def close(self, reason: str, code: int = GOING_AWAY) -> None:
        if self.open:
            self.protocol.send_close(code, reason)

    def ending(self) -> str:
        """The reason why the connection ended."""
        if self.too_large:
            return f"a message of more than max_event_bytes, {self.protocol.max_message_size}"
        if self.protocol.close_rcvd is not None:
            return f"the peer closed the connection: {_words(self.protocol.close_rcvd)}"
        if isinstance(self.protocol.parser_exc, (ProtocolError, UnicodeDecodeError)):
            return f"it breaks the protocol: {self.protocol.parser_exc}"[:SHOWN]
        return "the peer closed the connection"

    @property
    def _plain(self) -> bool:
        return self.open and not self.protocol.extensions

    def _receive(self, data: bytes, read: FrameRead) -> None:
        at = 0
        if self._head:
            data, self._head = self._head + data, b""
        while at < len(data):
            if self._owed:
                end = at + min(self._owed, len(data) - at)
                self._owed -= end - at
                self._parse(data[at:end], read)
                at = end
                continue
            if not self._plain:
                self._parse(data[at:], read)
                return
            if self.protocol.current_size is None:
                at = self._take_messages(data, at, read)
            size = frame_size(data, at)
            if size is None:
                self._head = data[at:]
                return
            self._owed = size

    def _take_messages(self, data: bytes, at: int, read: FrameRead) -> int:
        known = len(read.messages)
        end = take_messages(data, at, read.messages, masked=self._serves, limit=self._limit)
        read.frames += len(read.messages) - known
        read.size += end - at
        return end

    def _parse(self, data: bytes, read: FrameRead) -> None:
        if self.protocol.reader.eof:
            return
        self.protocol.receive_data(data)
        for event in self.protocol.events_received():
            if isinstance(event, Frame):
                read.frames += 1
                read.size += len(event.data)
                self._take(event, read)
            elif isinstance(event, Request):
                read.requests.append(event)

    def _take(self, frame: Frame, read: FrameRead) -> None:
        opcode = frame.opcode
        if opcode is Opcode.TEXT or opcode is Opcode.BINARY:
            if frame.fin:
                read.messages.append(bytes(frame.data))
            else:
                self._begun += frame.data
        elif opcode is Opcode.CONT:
            self._begun += frame.data
            if frame.fin:
                read.messages.append(bytes(self._begun))
                self._begun.clear()
        elif opcode is Opcode.PONG:
            read.pongs.append(bytes(frame.data))


def _words(close: Close) -> str:
    reason = close.reason if close.reason.isprintable() else ""
    return f"{close.code} {reason}"[:SHOWN].rstrip()


def is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def runs(flags: Sequence[bool]) -> list[int]:
    """The length of each run of equal flags."""
    sizes: list[int] = []
    before: bool | None = None
    for flag in flags:
        if flag is before:
            sizes[-1] += 1
        else:
            sizes.append(1)
            before = flag
    return sizes


def printable(error: Exception) -> str:
    text = "".join(c if c.isprintable() else "?" for c in str(error))
    return text[:SHOWN]
