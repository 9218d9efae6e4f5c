"""Accepts connections while file descriptors are free. The last 64 are kept for logs and files.

The servers of the event loops cannot be used: without a free descriptor, uvloop accepts and closes each connection,
and asyncio raises where no caller sees it.
"""

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Final

from walflow.contract import Half

RESERVED: Final = 64
AT_ONCE: Final = 64  # connections accepted before anything else gets its turn
LOOK_AGAIN: Final = 0.25  # seconds
BROKEN: Final = {  # connections that ended before they were accepted: accept(2) reports what became of them
    errno.ECONNABORTED,
    errno.EPROTO,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}

Arrived = Callable[[socket.socket, object], Coroutine[object, object, None] | None]


class Listener:
    """`arrived` is called with each new socket and the peer's address. It may refuse, by closing the socket, or
    return a coroutine that sets the connection up. `make_room` is called where descriptors are short: it closes up to
    so many connections that can be missed, and says how many."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        arrived: Arrived,
        half: Half,
        make_room: Callable[[int], int] = lambda most: 0,
    ) -> None:
        self._sockets = sockets
        self._arrived = arrived
        self._half = half
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[None]] = set()
        self._stopped = self._paused = self._closed = False

    def start(self) -> None:
        self._stopped = False
        for sock in self._sockets:
            self._loop.add_reader(sock, self._accept, sock)

    def add(self, sock: socket.socket) -> None:
        """Accepts from this socket too."""
        self._sockets = (*self._sockets, sock)
        if not self._stopped:
            self._loop.add_reader(sock, self._accept, sock)

    def drop(self, sock: socket.socket) -> None:
        """Closes it; the others stay."""
        self._sockets = tuple(other for other in self._sockets if other is not sock)
        self._loop.remove_reader(sock)
        sock.close()

    async def close(self) -> None:
        self._closed = True
        self._stop()
        for sock in self._sockets:
            sock.close()
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)

    def _stop(self) -> None:
        self._stopped = True
        for sock in self._sockets:
            self._loop.remove_reader(sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, address = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in BROKEN:
                    continue
                self._pause(error.strerror or str(error))  # no descriptors or no memory, mostly
                return
            self._arrive(connection, address)
            if connection.fileno() >= _room():
                self._pause(f"{RESERVED} descriptors are left, which are kept for logs and files")
                return

    def _arrive(self, connection: socket.socket, address: object) -> None:
        connection.setblocking(False)
        starting = self._arrived(connection, address)
        if starting is not None:
            self.begin(starting)

    def begin(self, starting: Coroutine[object, object, None]) -> None:
        """Sets up a connection, which a `close` meanwhile ends."""
        task = self._loop.create_task(starting)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _pause(self, reason: str) -> None:
        """Stops accepting. New connections wait in the kernel's queue."""
        self._stop()
        if self._look_soon():
            return
        if not self._paused:
            self._half.log.warning("accepting paused", reason=reason)
            self._paused = True
        self._half.scheduler.call_later(LOOK_AGAIN, self._look)

    def _look_soon(self) -> bool:
        """What can be missed is closed; its descriptors are free in the loop's next turns."""
        made = self._make_room(AT_ONCE) > 0
        if made:
            self._half.scheduler.call_later(0.0, self._look)
        return made

    def _look(self) -> None:
        if self._closed:
            return
        if self._is_short():
            if not self._look_soon():
                self._half.scheduler.call_later(LOOK_AGAIN, self._look)
            return
        if self._paused:
            self._half.log.info("accepting again")
        self._paused = False
        self.start()

    def _is_short(self) -> bool:
        """Whether descriptors are short: a new one gets the lowest free number."""
        try:
            fd = os.dup(self._sockets[0].fileno())
        except OSError:
            return True
        os.close(fd)
        return fd >= _room() - 1


def _room() -> int:
    """The number of the first descriptor that is kept for logs and files."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 1 << 30
    return limit - min(RESERVED, limit // 2)
