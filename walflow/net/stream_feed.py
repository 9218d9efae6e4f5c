"""What is read from a peer goes to a stream; while that does not want it, nothing is read."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from walflow.contract import Outlet, Stream

READ_AHEAD: Final = 256 << 10  # bytes of events that may be read for the sake of the echoes among them

PassOn = Callable[[Stream, Sequence[bytes]], None]


class StreamFeed:
    """Of one connection. `ahead`: echoes are read also while events are not wanted, as in a drain, which waits for
    them. `reading`: bytes are taken from the transport."""

    def __init__(self, transport: asyncio.Transport, pass_on: PassOn, *, ahead: bool) -> None:
        self.stream: Stream | None = None
        self.reading = True
        self._transport = transport
        self._pass_on = pass_on
        self._ahead = ahead
        self._paused = False  # what it reads is not wanted now
        self._go_on: Callable[[], None] | None = None  # what was read is not parsed to its end
        self._unread: deque[Sequence[bytes]] = deque()  # read beside echoes, and not wanted yet
        self._unread_bytes = 0

    def begin(self, out: Outlet, meta: Mapping[str, object], broken: Callable[[], None]) -> None:
        self.stream = out.stream(meta, pause=self._pause, resume=self._resume, broken=broken)

    def feed(self, read: Sequence[bytes]) -> None:
        self._unread.append(read)
        self._unread_bytes += sum(map(len, read))
        self._feed()
        self._set_reading()

    @property
    def wanted(self) -> bool:
        return not self._paused or (self._ahead and self._unread_bytes < READ_AHEAD)

    def hold(self, go_on: Callable[[], None]) -> None:
        """What was read is not parsed to its end: no more is read.
        `go_on` is called when its events are wanted again."""
        self._go_on = go_on
        self._set_reading()

    def release(self) -> None:
        self._go_on = None
        self._set_reading()

    def still_paused(self) -> None:
        """Bytes came though they are not wanted: uvloop reads after a `connection_made` that has paused it."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def eof(self) -> None:
        if self.stream is not None:
            self._feed_all(self.stream)
            self.stream.eof(complete=False)
            self.stream = None

    def close(self) -> None:
        if self.stream is not None:
            self._feed_all(self.stream)
            self.stream.close()

    def _feed(self) -> None:
        while self._unread and not self._paused and self.stream is not None:
            read = self._unread.popleft()
            self._unread_bytes -= sum(map(len, read))
            self._pass_on(self.stream, read)  # may pause

    def _feed_all(self, stream: Stream) -> None:
        """Wanted or not: it would be lost."""
        while self._unread:
            self._pass_on(stream, self._unread.popleft())

    def _pause(self) -> None:
        self._paused = True
        self._set_reading()

    def _resume(self) -> None:
        self._paused = False
        self._feed()
        self._set_reading()
        if self._go_on is not None:
            self._go_on()

    def _set_reading(self) -> None:
        reading = self.wanted and self._go_on is None
        if reading != self.reading and not self._transport.is_closing():
            self.reading = reading
            if reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
