"""A daemon whose log Spark reads: what is sent to it over TCP is there, and stays."""

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from bench.systems import WrongResult
from demo.server import Server, ServerFailed, free_port, write_flow
from pyspark_walflow.client import Client, Endpoint
from pyspark_walflow.wire import FrameKind, WireKey

FLOW: Final = Path(__file__).with_name("lake.troy")
HOLDER: Final = "held"
CHUNK: Final = 64 << 20  # the connector's default
LOGGED_WITHIN: Final = 120.0  # seconds
ASKED: Final = 1000  # milliseconds a WAIT takes at most


class Lake:
    """`room`: bytes of events that it must hold. `consumers`: each query is one of its own."""

    def __init__(self, workdir: Path, room: int, consumers: Iterable[str]) -> None:
        workdir.mkdir()
        self._tcp, self._port = free_port(), free_port()
        self._token = workdir / "state" / "token"
        args = {
            "tcp": f"127.0.0.1:{self._tcp}",
            "bridge": f"127.0.0.1:{self._port}",
            "consumers": [HOLDER, *consumers],
            "max_chunks": 2 * room // CHUNK + 4,
        }
        self._server = Server(write_flow(workdir, FLOW, args), workdir)

    def __enter__(self) -> Self:
        try:
            self._server.start()
            self._server.wait_for("ready")
        except BaseException:
            self._server.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and (code := self._server.stop()):
                raise WrongResult(f"walflow ended with exit code {code}\n{self._server.last_words()}")
        finally:
            self._server.close()

    @property
    def pid(self) -> int:
        return self._server.pid

    def options(self, consumer: str) -> dict[str, str]:
        """Of `format("walflow")`."""
        options = {"port": str(self._port), "tokenFile": str(self._token), "consumer": consumer}
        return options | {"newCheckpoint": "accept"}  # each round has a checkpoint and an output of its own

    def connect(self) -> socket.socket:
        """To send lines by."""
        sock = socket.create_connection(("127.0.0.1", self._tcp))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def fill(self, files: Iterable[Path], lines: int) -> None:
        """Returns when all of them are in the log. Raises ServerFailed."""
        with self.connect() as sock:
            for path in files:
                with path.open("rb") as file:
                    sock.sendfile(file)
            self.wait_until_logged(lines)

    def wait_until_logged(self, lines: int) -> None:
        """So many in all. Raises ServerFailed."""
        client = Client(Endpoint("127.0.0.1", self._port), WireKey.of_token(self._token.read_text().strip()))
        deadline = time.monotonic() + LOGGED_WITHIN
        try:
            while client.call(FrameKind.WAIT, {"position": lines, "ms": ASKED})["next"] != lines + 1:
                self._server.events()  # raises if it is gone
                if time.monotonic() > deadline:
                    raise ServerFailed(f"not all lines were in the log within {LOGGED_WITHIN:.0f} s")
        finally:
            client.close()
