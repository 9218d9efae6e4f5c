"""kill -9 while Spark reads and commits: what was answered stands, what was seen stays, and nothing unread goes."""

import contextlib
import random
import socket
import threading
from pathlib import Path

import pytest

from pyspark_walflow import wire
from pyspark_walflow.client import Client, Endpoint, LostPositions
from pyspark_walflow.wire import FrameKind, WireKey
from tests.system.daemon import Daemon, free_port, running
from walflow_kernel import log_records

pytestmark = pytest.mark.nightly

FLOW = """\
define flow main
flow
  use tremor::pipelines;

  define connector tcp from tcp_server
  with
    codec = "json",
    preprocessors = ["separate"],
    config = {"url": "127.0.0.1:TCP"}
  end;

  define connector spark from spark
  with
    codec = "json",
    postprocessors = ["separate"],
    config = {"path": "state", "url": "127.0.0.1:BRIDGE", "chunk_size": 65536, "max_chunks": 64, "consumers": ["spark", "other"]}
  end;

  create connector tcp;
  create connector spark;
  create pipeline between from pipelines::passthrough;
  connect /connector/tcp to /pipeline/between;
  connect /pipeline/between to /connector/spark;
end;

deploy flow main;
"""


class Feeder(threading.Thread):
    """Numbered lines into one life of the daemon."""

    def __init__(self, port: int, first: int) -> None:
        super().__init__(daemon=True)
        self.number = first
        self.enough = threading.Event()
        self._socket = socket.create_connection(("127.0.0.1", port))
        self.start()

    def stop(self) -> None:
        self.enough.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # it may be stuck in a send: the log is full
        self.join()

    def run(self) -> None:
        with contextlib.suppress(OSError), self._socket:
            while not self.enough.is_set():
                some = range(self.number, self.number + 50)
                self._socket.sendall(
                    b"".join(b'{"n":%d,"x":"%s"}\n' % (number, b"x" * (number % 200)) for number in some)
                )
                self.number += 50


class Spark:
    """What a consumer remembers over the daemon's lives."""

    def __init__(self, tcp: int, bridge: int, token: Path) -> None:
        self.ports = tcp, bridge
        self.token = token
        self.dice = random.Random(7)
        self.seen: dict[int, bytes] = {}
        self.answered = {"spark": 1, "other": 1}
        self.asked = {"spark": 1, "other": 1}
        self.next = 1
        self.killed_in: list[str] = []

    def live(self, daemon: Daemon, last: bool = False) -> None:
        for _ in self.ports:
            daemon.wait_for("listening")
        client = Client(Endpoint("127.0.0.1", self.ports[1]), WireKey.of_token(self.token.read_text().strip()))
        feeder = Feeder(self.ports[0], 1_000_000 * (1 + len(self.killed_in)))
        try:
            self._check(client)
            for _ in range(self.dice.randint(3, 30)):
                self._turn(client)
            if not last:
                self._die(client, daemon)
        finally:
            client.close()
            feeder.stop()

    def _check(self, client: Client) -> None:
        """After a start: all that was ever promised."""
        for name, position in self.answered.items():
            head = client.call(FrameKind.HEAD, {"consumer": name})
            assert position <= number(head, "committed") <= self.asked[name]
            self.answered[name] = number(head, "committed")
        assert number(head, "floor") <= min(self.answered.values())
        assert number(head, "next") >= self.next
        self._read(client, number(head, "floor"), number(head, "next"), "other")

    def _turn(self, client: Client) -> None:
        name = self.dice.choice(("spark", "other"))
        if self.answered[name] == self.next:  # it may be that the log is full until the other one goes on
            name = min(self.answered, key=self.answered.__getitem__)
        start = self.answered[name]
        head = client.call(FrameKind.WAIT, {"position": start, "ms": 10_000})
        self.next = number(head, "next")
        plan = client.call(FrameKind.PLAN, {"start": start, "rows": self.dice.randint(1, 5000), "bytes": 1 << 20})
        end = number(plan, "end")
        self._read(client, start, end, name)
        self.asked[name] = max(self.asked[name], end)
        self.answered[name] = number(client.call(FrameKind.COMMIT, {"consumer": name, "position": end}), "committed")
        assert self.answered[name] == end

    def _read(self, client: Client, first: int, end: int, name: str) -> None:
        found = lines_of(client, first, end, name)
        assert sorted(found) == list(range(first, end))
        for position, line in found.items():
            assert self.seen.setdefault(position, line) == line

    def _die(self, client: Client, daemon: Daemon) -> None:
        """In the middle of an answer."""
        self.killed_in.append(self.dice.choice(("READ", "COMMIT")))
        if self.killed_in[-1] == "READ":
            found = client.read(min(self.answered.values()), self.next, "spark")
            next(found, None)
        else:
            name = self.dice.choice(("spark", "other"))
            self.asked[name] = self.next
            fields = {"consumer": name, "position": self.next}
            client._socket.sendall(wire.control(FrameKind.COMMIT, fields))
        daemon.kill()


def number(fields: dict[str, object], name: str) -> int:
    return int(str(fields[name]))


def lines_of(client: Client, first: int, end: int, name: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for one in client.read(first, end, name):
        assert not isinstance(one, LostPositions), one
        data, at = bytes(one[1]), 0
        while at < len(data):
            _, length, position, _, _, count, _, tag, _, _ = log_records.RECORD.unpack_from(data, at)
            lines = data[at + 48 + tag : at + 48 + length].split(b"\n")
            found |= {
                where: line
                for where, line in zip(range(position, position + count), lines, strict=False)
                if first <= where < end
            }
            at += (48 + length + 7) & ~7
    return found


def test_ten_kills_while_spark_reads_and_commits(tmp_path: Path) -> None:
    flow, tcp, bridge = tmp_path / "flow.troy", free_port(), free_port()
    flow.write_text(FLOW.replace("TCP", str(tcp)).replace("BRIDGE", str(bridge)))
    spark = Spark(tcp, bridge, tmp_path / "state" / "token")
    for _ in range(10):
        with running(flow, tmp_path) as daemon:
            spark.live(daemon)
    with running(flow, tmp_path) as daemon:
        spark.live(daemon, last=True)
        assert daemon.terminate() == 0
    assert set(spark.killed_in) == {"READ", "COMMIT"}
    assert len(spark.seen) > 1000
    numbers = [int(line.split(b",")[0].removeprefix(b'{"n":')) for _, line in sorted(spark.seen.items())]
    assert numbers == sorted(set(numbers))  # in order, none twice
