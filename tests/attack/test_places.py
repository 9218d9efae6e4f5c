"""`max_connections` bounds descriptors, whatever those who had a place did last."""

import os
import socket
from pathlib import Path

import pytest

from tests.flows.builder import flow_of
from tests.system.daemon import Client, echo_flow, running
from tests.system.test_attacks import is_served
from tests.waiting import PATIENCE, wait_until
from walflow.net.listener import AT_ONCE

FEW = 256  # descriptors
LIMIT = 1000  # the default
MANY = 4000
CLOSING = 4 * AT_ONCE  # descriptors whose place is another's already: a loop closes them in its next turns


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_whoever_sends_four_bytes_and_closes(tmp_path: Path, loop: str) -> None:
    """They may still read, so they are kept for a while: but not more of them than there are places."""
    with running(echo_flow(tmp_path), tmp_path, "--loop", loop) as daemon:
        port = daemon.port()

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{daemon.pid}/fd"))

        is_served(Client(port), 1)
        idle = descriptors()
        most = 0
        for number in range(MANY):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
                sock.sendall(b"1234")
            if number % 100 == 0:
                most = max(most, descriptors())
        is_served(Client(port), 1)
        assert max(most, descriptors()) <= idle + LIMIT + CLOSING
        wait_until(lambda: descriptors() <= idle + LIMIT)
        assert daemon.terminate() == 0


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_whoever_has_sent_its_last_byte_keeps_no_descriptor_from_others(tmp_path: Path, loop: str) -> None:
    """They would be kept for an hour, and all descriptors are theirs: a good client got none."""
    server = 'tcp_server with codec = "json", preprocessors = ["separate"], postprocessors = ["separate"],'
    server += ' config = {"url": "127.0.0.1:0", "write_timeout": 3_600_000_000_000} end'
    flow = tmp_path / "echo.troy"
    flow.write_text(flow_of("tcp -> tcp", tcp=server))
    prefix = ("prlimit", f"--nofile={FEW}:{FEW}")
    with running(flow, tmp_path, "--loop", loop, prefix=prefix) as daemon:
        port = daemon.port()
        for _ in range(3 * FEW):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
                sock.sendall(b"POST /")
        is_served(Client(port), 1)
        said = daemon.last("leaving client closed")
        assert said["reason"] == "it has sent its last byte, and descriptors are short"
        assert daemon.terminate() == 0
