"""Bytes that no Spark sends, pushed at the port for Spark: memory has its bound, and Spark is served all the same."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from pyspark_walflow import wire
from pyspark_walflow.wire import FrameKind, WireKey
from tests.attack.test_memory import Pusher
from tests.pyspark_walflow.lake import Lake
from tests.system.test_spark_standstill import NONCE, frame
from tests.waiting import PATIENCE

CLIENTS = 12
OURS = 32 << 20  # bytes of memory that are no client's: consumers, what the allocator keeps
EACH = 2 * wire.MAX_CONTROL + (512 << 10)  # of one connection: two frames of the largest kind, a read
HELLO = wire.control(FrameKind.HELLO, {"version": 1, "right": "full", "nonce": NONCE, "log": None})
WAIT = wire.control(FrameKind.WAIT, {"position": 1 << 62, "ms": 60_000})
ENDLESS = wire.HEADER.pack(0xFFFFFFFF, 0, FrameKind.HELLO)
LONG = wire.HEADER.pack(wire.MAX_CONTROL, 0, FrameKind.HEAD)

PUSHED = {
    "noise": os.urandom(1 << 16),
    "nothing but zeros": bytes(1 << 16),
    "hello without an end": wire.PREFACE + HELLO * 500,
    "a frame of 4 GB": wire.PREFACE + ENDLESS + bytes(1 << 16),
    "an HTTP request without an end": b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (1 << 16),
}


@contextmanager
def served(lake: Lake) -> Iterator[None]:
    """Before, within and after: a client with the token is answered."""
    before = lake.head()
    yield
    assert lake.head() == before


def press(pushers: list[Pusher], seconds: float) -> int:
    """Until nothing is taken any more, or each connection is closed."""
    taken, calm = 0, 0
    deadline = time.monotonic() + PATIENCE
    while calm < 20 and time.monotonic() < deadline:
        moved = 0
        for pusher in list(pushers):
            try:
                moved += pusher.push()
            except OSError:  # it was hung up on
                pushers.remove(pusher)
        taken += moved
        calm = 0 if moved else calm + 1
        time.sleep(seconds)
    return taken


@pytest.mark.parametrize("pushed", PUSHED)
def test_who_has_proved_nothing_holds_nothing(tmp_path: Path, pushed: str) -> None:
    with Lake(tmp_path / "lake") as lake, ExitStack() as stack, served(lake):
        idle = lake.daemon.memory
        pushers: list[Pusher] = []
        for _ in range(CLIENTS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", lake.port), PATIENCE))
            pushers.append(Pusher(sock, PUSHED[pushed]))
        press(pushers, 0.001)
        assert lake.daemon.memory <= idle + OURS


@pytest.mark.nightly
@pytest.mark.parametrize("request_bytes", [WAIT, LONG + bytes(wire.MAX_CONTROL)], ids=["requests", "one long one"])
def test_who_has_the_token_and_does_not_wait_for_answers_is_bounded(tmp_path: Path, request_bytes: bytes) -> None:
    with Lake(tmp_path / "lake") as lake, ExitStack() as stack, served(lake):
        idle = lake.daemon.memory
        key = WireKey.of_token((lake.state / "token").read_text().strip())
        pushers: list[Pusher] = []
        for _ in range(CLIENTS):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", lake.port), PATIENCE))
            sock.sendall(wire.PREFACE + HELLO)
            _, challenge = frame(sock)
            proof = wire.prove(key, "client", NONCE, str(challenge["nonce"]))
            sock.sendall(wire.control(FrameKind.PROOF, {"proof": proof}))
            assert frame(sock)[0] == FrameKind.WELCOME
            pushers.append(Pusher(sock, request_bytes))
        press(pushers, 0.001)
        assert lake.daemon.memory <= idle + OURS + CLIENTS * EACH
