"""Lines to one reader after the other: committed first, for a tenth of a second at a time, then written at their
pace.

What was committed and not yet written waits for the next reader if this one goes; what was written to its socket is
gone with it.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from connectors.spark.consumers import PLAIN
from connectors.spark.socket.lines import Lines, SparkLine
from connectors.spark.socket.pace import Pace
from connectors.spark.spark_log import ServedLog
from pyspark_walflow.wire import RequestRefused
from walflow import DiskFull, Half

READ_BYTES: Final = 256 << 10
AT_ONCE: Final = 64 << 10  # bytes handed to the socket in one go
AHEAD: Final = 0.1  # seconds of lines that one commit covers: it costs two fsyncs
LOOK_AGAIN: Final = 1.0  # seconds, after a disk that was full
WAIT: Final = 60.0  # seconds between looks at a log to which nothing is added


class SentLines:
    def __init__(self, served: ServedLog, half: Half, per_second: int) -> None:
        self._consumers = served.consumers
        self._durable_end = served.durable_end
        self._half = half
        self._rate = per_second
        self._lines = Lines(served.log, served.consumers.committed(PLAIN), half)
        self._read: deque[SparkLine] = deque()  # and not committed
        self._owed: deque[bytes] = deque()  # committed and not written; of the first maybe a part is
        self._torn = False  # a part of it is

    @property
    def owed(self) -> int:
        """The lines that no client will get if this ends now."""
        return len(self._owed)

    async def run(self, sock: socket.socket, peer: str) -> None:
        """Sends lines. Raises OSError if the reader has disconnected. If it is cancelled, at most one line is
        incomplete."""
        if self._torn:  # another reader had the beginning of it
            self._owed.popleft()
            self._torn = False
        loop = asyncio.get_running_loop()
        pace = Pace(self._rate, loop.time())
        while True:
            if not self._owed:
                await self._commit_more(peer)
            await asyncio.sleep(pace.delay(self.owed, loop.time()))
            left = self.owed - pace.take(self.owed, loop.time())
            while self.owed > left:
                await writable(sock)
                self._write(sock, self.owed - left)

    def rest(self, sock: socket.socket) -> None:
        """At the end: sends all lines that are committed, without the pace, as far as the socket accepts them."""
        with contextlib.suppress(OSError):
            while self._owed and self._write(sock, self.owed):
                pass

    async def _commit_more(self, peer: str) -> None:
        """Waits until there are lines, and commits the next of them for this reader."""
        while not self._read:
            await self._read_more()
        count = min(len(self._read), max(1, int(self._rate * AHEAD)))
        committing = asyncio.ensure_future(self._commit(count, peer))
        try:
            await asyncio.shield(committing)
        except asyncio.CancelledError:
            await asyncio.gather(committing, return_exceptions=True)  # or no one would note what it commits
            raise

    async def _read_more(self) -> None:
        await self._fetch()
        try:
            self._read.extend(self._lines.read(READ_BYTES))
        except DiskFull as error:
            self._half.log.warning("log not read", reason=str(error))
            await asyncio.sleep(LOOK_AGAIN)
            return
        if not self._read:
            await self._durable_end.wait(self._lines.position, WAIT)

    async def _fetch(self) -> None:
        """Waits for the disk on a thread, if the next lines are not in the page cache."""
        cold = self._lines.cold(READ_BYTES)
        if cold is not None:
            fetched = asyncio.Event()
            self._half.scheduler.fetch(cold.run, lambda error: fetched.set())
            await fetched.wait()

    async def _commit(self, count: int, peer: str) -> None:
        try:
            await self._consumers.commit(PLAIN, self._read[count - 1].after, peer)
        except RequestRefused as error:
            self._half.log.warning("lines not committed, so not sent", reason=str(error))
            await asyncio.sleep(LOOK_AGAIN)
            return
        for _ in range(count):
            self._owed.append(self._read.popleft().data)

    def _write(self, sock: socket.socket, most: int) -> int:
        """Writes as many of these lines as the socket accepts now. Returns the bytes."""
        data = bytearray()
        for number, line in enumerate(self._owed):
            if number == most or (data and len(data) + len(line) > AT_ONCE):
                break
            data += line
        try:
            sent = sock.send(data)
        except BlockingIOError:
            return 0
        self._written(sent)
        return sent

    def _written(self, size: int) -> None:
        while size and size >= len(self._owed[0]):
            size -= len(self._owed.popleft())
            self._torn = False
        if size:
            self._owed[0] = self._owed[0][size:]
            self._torn = True


async def readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await _ready(sock, loop.add_reader, loop.remove_reader)


async def writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await _ready(sock, loop.add_writer, loop.remove_writer)


async def _ready(sock: socket.socket, add: Callable[..., object], remove: Callable[[socket.socket], object]) -> None:
    """Waits for the socket. The loop's `sock_recv` and `sock_sendall` cannot be used: after a cancellation it is
    unknown how much they have moved."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    add(sock, _set, ready)
    try:
        await ready
    finally:
        remove(sock)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
