"""A wire between two daemons that survives both and counts what crosses it."""

import socket
import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE


class Lines:
    """Bytes in pieces -> whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, data: bytes) -> list[bytes]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class Relay:
    """Listens on `port` and passes on to `target`, while there is one. `sent` and `echoed`: how often each line
    crossed, there and back. `again`: lines that were sent by a life of the client that had got their echo before;
    the test says with `new_life` that another one begins.

    A server that dies is an end of the stream to the client, with all that came before: what was echoed here, the
    client has read or is dead."""

    def __init__(self) -> None:
        self.target: int | None = None
        self.sent: Counter[bytes] = Counter()
        self.echoed: Counter[bytes] = Counter()
        self.again: list[bytes] = []
        self._had: set[bytes] = set()  # echoes that the present life has
        self._crossed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.settle()

    def settle(self) -> None:
        """All connections have ended, because one of their ends is dead."""
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not self._threads[0] or self._listener.fileno() < 0:
                thread.join(PATIENCE)
                assert not thread.is_alive()
        for sock in self._open:
            sock.close()
        self._threads[1:] = []
        self._open = []

    def new_life(self) -> None:
        """Of the client. Its predecessor is dead."""
        self._had = set()

    def wait_for_echoes(self, count: int) -> None:
        """So many more."""
        with self._crossed:
            goal = self.echoed.total() + count
            assert self._crossed.wait_for(lambda: self.echoed.total() >= goal, PATIENCE), "nothing crosses"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                assert self.target is not None
                server = socket.create_connection(("127.0.0.1", self.target), PATIENCE)
            except (OSError, AssertionError):
                client.close()
                continue
            server.settimeout(None)
            self._open += [client, server]
            for pump in (self._up, self._down):
                thread = threading.Thread(target=pump, args=(client, server))
                self._threads.append(thread)
                thread.start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        lines = Lines()
        while data := _read(client):
            for line in lines.of(data):
                self.sent[line] += 1
                if line in self._had:
                    self.again.append(line)
            with suppress(OSError):  # a dead server: what the client still writes ends here
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        lines = Lines()
        while data := _read(server):
            try:
                client.sendall(data)
            except OSError:
                return
            with self._crossed:
                whole = lines.of(data)
                self.echoed.update(whole)
                self._had.update(whole)
                self._crossed.notify_all()
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)


def _read(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1 << 16)
    except OSError:
        return b""
