"""One stream of events there and back. The position in it says which bytes come next, so what comes back is compared
where it lies, and costs a fraction of what is measured."""

import socket
import sys
from typing import Final

from bench.lines import Cycle, Load

READ: Final = 256 << 10
WRITE: Final = 256 << 10
OF_AN_ID: Final = b"$-0123456789\r\n"  # all that Redis answers with, unless it is an error


class Wire:
    def __init__(self, out: socket.socket, back: socket.socket, there: Cycle, expected: Cycle, load: Load) -> None:
        self.out = out
        self.back = back
        self.sent = 0  # bytes
        self._view = memoryview(there.twice)
        self._cycle = len(there.data)
        self._size = there.size
        self._events = there.events
        self._expected = expected
        self._window = load.window // load.connections
        self._write = load.lines_per_write * there.size or WRITE
        self._write_least = self._write if load.lines_per_write else min(self._write, self._window) // 2
        self._returned = 0  # bytes

    @property
    def events_sent(self) -> int:
        return self.events_at(self.sent)

    @property
    def events_returned(self) -> int:
        return self._returned // self._expected.size * self._events

    @property
    def all_lines(self) -> memoryview:
        return self._view[: self._cycle]

    @property
    def between_lines(self) -> bool:
        return self.sent % self._size == 0

    @property
    def underway(self) -> int:
        """Bytes."""
        return self.sent - self.events_returned // self._events * self._size

    def may_send(self) -> bool:
        return self._window - self.underway >= self._write_least

    def send(self) -> None:
        """Raises BlockingIOError."""
        start = self.sent % self._cycle
        self.sent += self.out.send(self._view[start : start + min(self._window - self.underway, self._write)])

    def send_rest_of_line(self) -> None:
        """Or a whole one, between lines. Raises BlockingIOError."""
        start = self.sent % self._cycle
        self.sent += self.out.send(self._view[start : start - start % self._size + self._size])

    def bytes_of(self, events: int) -> int:
        """Of so many, or as few more as are sent together."""
        return -(-events // self._events) * self._size

    def events_at(self, sent: int) -> int:
        """How many come back for so many bytes."""
        return sent // self._size * self._events

    def send_up_to(self, goal: int) -> None:
        """As much as the socket takes of it. Raises BlockingIOError."""
        start = self.sent % self._cycle
        self.sent += self.out.send(self._view[start : start + min(goal - self.sent, self._cycle)])

    def receive(self) -> None:
        """Raises SystemExit if it is not what must come."""
        data = self.back.recv(READ)
        if not data:
            sys.exit(f"the connection was closed after {self.events_returned} events")
        self._take(data)

    def _take(self, data: bytes) -> None:
        start = self._returned % len(self._expected.data)
        if not self._expected.twice.startswith(data, start):
            sys.exit(f"what came back behind event {self.events_returned} is wrong: {data[:120]!r}")
        self._returned += len(data)


class RedisWire(Wire):
    """An id is two lines. Ids are not known in advance;
    at the end XLEN says that there is the right number of entries."""

    _lines = 0

    @property
    def events_returned(self) -> int:
        return self._lines // 2

    def _take(self, data: bytes) -> None:
        if data.translate(None, OF_AN_ID):
            sys.exit(f"Redis said {data[:200]!r}")
        self._lines += data.count(b"\n")
