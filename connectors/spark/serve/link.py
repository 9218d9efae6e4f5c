"""One connection as frames: incoming bytes are divided and checked, outgoing frames wait for the peer. The peer may
be any program."""

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from pyspark_walflow.wire import HEADER, PREFACE, Damaged, FrameKind

BEFORE_PROOF: Final = 4096  # bytes of a frame at most, before its sender has proved itself
PIECE: Final = 256 << 10  # written at a time: what the loop copies before another connection has its turn
OVERHEAD: Final = 256  # bytes that the objects around a frame take

FROM_CLIENTS: Final = frozenset(kind for kind in FrameKind if kind < FrameKind.OK) - {
    FrameKind.CHALLENGE,
    FrameKind.WELCOME,
}
HTTP: Final = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) ")

Frame = tuple[FrameKind, bytes]


class Stranger(Damaged):
    """The peer did not begin like a walflow client. `http`: it is an HTTP client."""

    def __init__(self, began: bytes) -> None:
        self.http = HTTP.match(began) is not None
        if self.http:
            what = "it is an HTTP client"
        elif began[:2] == b"\x16\x03":
            what = "it wants TLS, and this listener has none"
        else:
            what = f"it began with {began[:16]!r}"
        super().__init__(f"no client of the Spark bridge: {what}")


class ReceivedFrames:
    """Divides bytes into frames. `limit`: the most bytes of a payload."""

    def __init__(self) -> None:
        self.limit = BEFORE_PROOF
        self._buffer = bytearray()
        self._greeted = False

    def feed(self, data: bytes) -> list[Frame]:
        """Raises Damaged; after that no frame can be found any more."""
        self._buffer += data
        if not self._greeted:
            self._greet()
        frames: list[Frame] = []
        while self._greeted and (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _greet(self) -> None:
        buffer = self._buffer
        if not PREFACE.startswith(buffer[: len(PREFACE)]):
            raise Stranger(bytes(buffer[:64]))
        if len(buffer) >= len(PREFACE):
            self._greeted = True
            del buffer[: len(PREFACE)]

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < HEADER.size:
            return None
        size, checksum, kind = HEADER.unpack_from(buffer)
        if kind not in FROM_CLIENTS:
            raise Damaged(f"a frame of kind {kind}, which no client sends")
        if size > self.limit:
            raise Damaged(f"a frame of {size} bytes, where {self.limit} are the most")
        end = HEADER.size + size
        if len(buffer) < end:
            return None
        payload = bytes(buffer[HEADER.size : end])
        if zlib.crc32(payload) != checksum:
            raise Damaged("a frame with a wrong checksum")
        del buffer[:end]
        return FrameKind(kind), payload


class SparkLink(asyncio.Protocol):
    """`begun` is called with it once it is connected, `ended` once it is not. Taking and sending raise
    ConnectionResetError when the peer is gone, and Damaged when it has sent what is no frame."""

    transport: asyncio.Transport

    def __init__(
        self, begun: Callable[["SparkLink"], None], ended: Callable[["SparkLink"], None], received: bytes = b""
    ) -> None:
        self.frames = ReceivedFrames()
        self.connected = False
        self.over = False
        self._begun = begun
        self._ended = ended
        self._received = received
        self._waiting: deque[Frame] = deque()
        self._waiting_bytes = 0
        self._damage: Damaged | None = None
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._between = True  # no frame is half written
        self.gone = asyncio.Event()

    def abort(self) -> None:
        self.over = True
        if hasattr(self, "transport"):
            self.transport.abort()

    # called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        if self.over:
            transport.abort()
            return
        transport.set_write_buffer_limits(0, 0)  # a slice is made when the last one is in the kernel
        self.connected = True
        self._begun(self)
        if self._received:
            received, self._received = self._received, b""
            self.data_received(received)

    def data_received(self, data: bytes) -> None:
        if self._damage is not None:
            return
        try:
            frames = self.frames.feed(data)
        except Damaged as error:
            self._damage = error
            self._pause()
        else:
            self._waiting += frames
            self._waiting_bytes += sum(map(_cost, frames))
            if self._waiting_bytes > self.frames.limit:
                self._pause()
            if not frames:
                return
        self._arrived.set()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.over = True
        self.gone.set()
        self._arrived.set()
        self._writable.set()
        self._ended(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # called by the session

    async def take(self) -> Frame:
        while not self._waiting:
            if self._damage is not None:
                raise self._damage
            if self.over:
                raise ConnectionResetError("the peer closed the connection")
            self._arrived.clear()
            await self._arrived.wait()
        frame = self._waiting.popleft()
        self._waiting_bytes -= _cost(frame)
        if self._paused and self._waiting_bytes <= self.frames.limit and self._damage is None and not self.over:
            self._paused = False
            self.transport.resume_reading()
        return frame

    async def send(self, *parts: bytes) -> None:
        """Returns when the bytes are in the kernel."""
        self._between = False
        for part in parts:
            view = memoryview(part)
            for start in range(0, len(view), PIECE):
                if self.over or self.transport.is_closing():
                    raise ConnectionResetError("the peer closed the connection")
                self.transport.write(view[start : start + PIECE])
                await self._writable.wait()
        self._between = True

    def close(self) -> None:
        """Closes the connection, after what was sent."""
        if self.connected:
            self.transport.close()

    def end(self, last: bytes) -> None:
        """Sends a last frame and closes the connection, unless another frame is being sent."""
        if self._between and not self.over and not self.transport.is_closing():
            self.transport.write(last)
        self.close()

    def _pause(self) -> None:
        """Each time that there is too much, not only the first: uvloop begins to read once `connection_made` has
        returned, also if that has paused it."""
        if not self.over:
            self._paused = True
            self.transport.pause_reading()


def _cost(frame: Frame) -> int:
    return len(frame[1]) + OVERHEAD
