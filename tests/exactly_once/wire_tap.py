"""Stands between Spark and the daemon, sees every frame, and may stop the world before one goes on."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from pyspark_walflow import wire
from pyspark_walflow.wire import FrameKind
from tests.system.daemon import free_port

TO_DAEMON: Final = "to the daemon"
TO_SPARK: Final = "to Spark"

Hook = Callable[[str, FrameKind, bytes], bytes | None]


class WireTap:
    """`hook` gets the direction, the kind and the whole frame, before it goes on; it returns what does go on, None
    for the end of the connection. `log`: (direction, kind) of what went on whole."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self.port = free_port()
        self.hook: Hook = lambda direction, kind, frame: frame
        self.log: list[tuple[str, FrameKind]] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        for one in list(self._open):
            _end(one)
        for thread in self._threads[1:]:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                spark, _ = self._listener.accept()
            except OSError:
                return
            try:
                daemon = socket.create_connection(("127.0.0.1", self._upstream))
            except OSError:  # it is dead just now
                spark.close()
                continue
            self._open |= {spark, daemon}
            for one, other, direction in ((spark, daemon, TO_DAEMON), (daemon, spark, TO_SPARK)):
                thread = threading.Thread(target=self._pump, args=(one, other, direction), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, one: socket.socket, other: socket.socket, direction: str) -> None:
        try:
            with one.makefile("rb", buffering=1 << 16) as stream:
                if direction == TO_DAEMON:
                    other.sendall(stream.read(len(wire.PREFACE)))
                while header := stream.read(wire.HEADER.size):
                    size, _, number = wire.HEADER.unpack(header)
                    frame = header + stream.read(size)
                    going = self.hook(direction, FrameKind(number), frame)
                    if going is None:
                        break
                    if len(going) == len(frame):
                        self.log.append((direction, FrameKind(number)))
                    other.sendall(going)
        except (OSError, ValueError):  # either of them is gone
            pass
        finally:
            _end(one)
            _end(other)
            self._open -= {one, other}


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
