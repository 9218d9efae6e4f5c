"""Spark's socket source is promised "at most once": whatever is killed, no line comes twice."""

import random
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from pyspark_walflow.client import Client, Endpoint, integer
from pyspark_walflow.wire import FrameKind, WireKey
from tests.system.daemon import ROOT, Daemon, free_port, running
from tests.waiting import PATIENCE

FLOW = ROOT / "flows" / "spark" / "socket.troy"
LINES = 20_000
KILLS = 4


class Reader:
    """What Spark's source does: it connects, and reads lines."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    def numbers(self, count: int) -> list[int]:
        """At least so many, unless the connection ends before."""
        data = self._rest
        while data.count(b"\n") < count:
            try:
                some = self._socket.recv(1 << 16)
            except ConnectionResetError:
                break
            if not some:
                break
            data += some
        *lines, self._rest = data.split(b"\n")
        return [int(line) for line in lines]


@pytest.mark.nightly
def test_kills_repeat_nothing(tmp_path: Path) -> None:
    port, bridge = free_port(), free_port()
    flow = tmp_path / FLOW.name
    flow.write_text(FLOW.read_text().replace(":9999", f":{port}").replace(":7700", f":{bridge}"))
    chance = random.Random(7)
    got: list[int] = []
    for life in range(KILLS):
        with running(flow, tmp_path, stdin=subprocess.PIPE) as daemon:
            daemon.wait_for("listening for a socket source")
            if life == 0:
                fill(daemon, Endpoint("127.0.0.1", bridge), tmp_path / "socket_state" / "token")
            with Reader(port) as reader:
                got += reader.numbers(chance.randrange(500, 3000))
                daemon.kill()
                got += reader.numbers(LINES)
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("listening for a socket source")
        with Reader(port) as reader:
            while got[-1] != LINES - 1:
                more = reader.numbers(1)
                assert more, "the end of it is missing"
                got += more
        assert daemon.terminate() == 0

    assert len(set(got)) == len(got), "none twice"
    assert got == sorted(got)
    assert len(got) >= LINES - KILLS * 3000, "what a kill may cost is a tenth of a second and what is in the socket"


def fill(daemon: Daemon, bridge: Endpoint, token: Path) -> None:
    """Returns when all lines are in the log."""
    assert daemon.process.stdin is not None
    daemon.process.stdin.write("".join(f"{number}\n" for number in range(LINES)).encode())
    daemon.process.stdin.flush()
    client = Client(bridge, WireKey.of_token(token.read_text().strip()))
    deadline = time.monotonic() + PATIENCE
    while integer(client.call(FrameKind.WAIT, {"position": LINES, "ms": 1000}), "next") <= LINES:
        assert time.monotonic() < deadline
    client.close()
