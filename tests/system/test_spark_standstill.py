"""A daemon that stood still (SIGSTOP, a hypervisor) reads what waits in its sockets before it judges who was late."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_walflow import wire
from pyspark_walflow.client import Client
from pyspark_walflow.wire import FrameKind, RequestRefused, WireKey
from tests.pyspark_walflow.lake import Lake

NONCE = "0123456789abcdef"
SECOND = 1_000_000_000


@contextmanager
def stopped(lake: Lake, seconds: float) -> Iterator[None]:
    os.kill(lake.daemon.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        yield
    finally:
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        os.kill(lake.daemon.pid, signal.SIGCONT)


def frame(peer: socket.socket) -> tuple[FrameKind, dict[str, object]]:
    stream = peer.makefile("rb")
    size, _, kind = wire.HEADER.unpack(stream.read(wire.HEADER.size))
    return FrameKind(kind), wire.fields_of(stream.read(size))


@pytest.mark.parametrize("before", [0.0, 0.9])
def test_a_proof_that_came_while_the_daemon_stood_still_is_in_time(tmp_path: Path, before: float) -> None:
    """`before`: seconds of the one that it has, when the daemon stops."""
    with Lake(tmp_path / "lake", (), f'"handshake_timeout": {SECOND}') as lake:
        key = WireKey.of_token((lake.state / "token").read_text().strip())
        with socket.create_connection(("127.0.0.1", lake.port), timeout=60) as peer:
            hello = {"version": 1, "right": "full", "nonce": NONCE, "log": None}
            peer.sendall(wire.PREFACE + wire.control(FrameKind.HELLO, hello))
            _, challenge = frame(peer)
            time.sleep(before)
            with stopped(lake, 4.0):
                proof = wire.prove(key, "client", NONCE, str(challenge["nonce"]))
                peer.sendall(wire.control(FrameKind.PROOF, {"proof": proof}))
            assert frame(peer)[0] == FrameKind.WELCOME


def takes(peer: Client) -> bool:
    try:
        return bool(peer.call(FrameKind.LEASE, {"consumer": "spark", "lease": "2", "scan": "b"}))
    except RequestRefused:
        return False


def test_a_lease_whose_holder_died_while_the_daemon_stood_still_is_given_back(tmp_path: Path) -> None:
    with Lake(tmp_path / "lake") as lake, lake.client() as second:
        with lake.client() as first:
            first.call(FrameKind.LEASE, {"consumer": "spark", "lease": "1", "scan": "a"})
            assert not takes(second)
            os.kill(lake.daemon.pid, signal.SIGSTOP)
        os.kill(lake.daemon.pid, signal.SIGCONT)
        deadline = time.monotonic() + 60
        while not takes(second):
            assert time.monotonic() < deadline
