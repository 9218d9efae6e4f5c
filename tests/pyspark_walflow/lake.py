"""A daemon with a log that Spark reads, as a user would run it: tcp_server -> spark."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark_walflow.client import Client, Endpoint, integer
from pyspark_walflow.wire import FrameKind, WireKey
from tests.flows.builder import flow_of, lines_in
from tests.pyspark_walflow.logs import Given, write
from tests.system.daemon import Client as Sender, Daemon, free_port
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import Row


class Lake:
    """It keeps its ports over `kill` and `start`. `options` are those of `format("walflow")`."""

    ways: ClassVar[tuple[str, ...]] = ("tcp -> lake",)
    behind: ClassVar[Mapping[str, str]] = {}  # connectors

    def __init__(self, directory: Path, given: Sequence[Given] = (), config: str = "") -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.state = directory / "state"
        if given:
            self.state.mkdir(mode=0o700)
            write(self.state, given)
        self._tcp_port, self.port = free_port(), free_port()
        self._flow = directory / "lake.troy"
        url = f'"path": "state", "url": "127.0.0.1:{self.port}", "consumers": ["spark", "other"]'
        self._flow.write_text(
            flow_of(
                *self.ways,
                name="server",
                tcp=lines_in("tcp_server", url=f"127.0.0.1:{self._tcp_port}"),
                lake=f"spark with config = {{{', '.join(filter(None, [url, config]))}}} end",
                **self.behind,
            )
        )
        self.options = {"port": str(self.port), "tokenFile": str(self.state / "token"), "pollMs": "200"}
        self.daemon: Daemon
        self._sender: Sender | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()

    def start(self) -> None:
        self.daemon = Daemon(self._flow, self.directory)
        self.daemon.wait_for("ready")

    def replace_in_flow(self, old: str, new: str) -> None:
        """Before it is started."""
        text = self._flow.read_text()
        assert old in text
        self._flow.write_text(text.replace(old, new))

    def kill(self) -> None:
        """SIGKILL."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        self.daemon.close()

    def send(self, *events: str) -> None:
        """Returns when they are in the log."""
        if not events:
            return
        until = self.head()["next"] + len(events)
        if self._sender is None:
            self._sender = Sender(self._tcp_port)
        self._sender.send("".join(f"{event}\n" for event in events).encode())
        deadline = time.monotonic() + PATIENCE
        with self.client() as client:
            while integer(client.call(FrameKind.WAIT, {"position": until - 1, "ms": 1000}), "next") < until:
                assert time.monotonic() < deadline, "what was sent is not in the log"

    def head(self, consumer: str = "spark") -> dict[str, int]:
        """floor, next, committed."""
        with self.client() as client:
            answer = client.call(FrameKind.HEAD, {"consumer": consumer})
        return {name: integer(answer, name) for name in ("floor", "next", "committed")}

    def commit(self, position: int, *consumers: str, checkpoint: Path | None = None) -> None:
        """`checkpoint`: in its name, as its query would."""
        scan = {} if checkpoint is None else {"scan": scan_of(checkpoint)}
        with self.client() as client:
            for consumer in consumers:
                client.call(FrameKind.COMMIT, {"consumer": consumer, "position": position} | scan)

    @contextmanager
    def client(self) -> Iterator[Client]:
        key = WireKey.of_token((self.state / "token").read_text().strip())
        client = Client(Endpoint("127.0.0.1", self.port), key)
        try:
            yield client
        finally:
            client.close()


def ids(rows: "Iterable[Row]") -> list[int]:
    """Of events that `numbered` made, in the order of the rows."""
    return [int(json.loads(row.value)["id"]) for row in rows]


def numbered(count: int, first: int = 0) -> list[str]:
    return [f'{{"id":{number}}}' for number in range(first, first + count)]


def scan_of(checkpoint: Path) -> str:
    """As the offsets of its first batch have it."""
    return str(json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[-1])["scan"])
