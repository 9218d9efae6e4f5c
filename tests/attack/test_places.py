"""`max_connections` bounds descriptors, whatever those who had one did last."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.system.daemon import PATIENCE, Client, echo_flow, running, wait_until
from tests.system.test_attacks import is_served, with_config
from walflow.net.listener import AT_ONCE

LIMIT = 100
MANY = 900  # fewer than `backlog`: they come at once


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_whoever_sends_four_bytes_and_closes(tmp_path: Path, loop: str) -> None:
    """They may still read, so they are kept for a while: but not more of them than there are places."""
    with running(with_config(echo_flow(tmp_path), max_connections=LIMIT), tmp_path, "--loop", loop) as daemon:
        port = daemon.port()

        def descriptors() -> int:
            return len(os.listdir(f"/proc/{daemon.pid}/fd"))

        is_served(Client(port), 1)
        idle = descriptors()
        daemon.process.send_signal(signal.SIGSTOP)
        for _ in range(MANY):
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as sock:
                sock.sendall(b"1234")
        daemon.process.send_signal(signal.SIGCONT)
        most = 0

        def gone() -> bool:
            nonlocal most
            most = max(most, descriptors())
            return descriptors() <= idle + LIMIT

        wait_until(lambda: descriptors() > idle)
        is_served(Client(port))  # it came last
        wait_until(gone)
        assert most <= idle + LIMIT + AT_ONCE
        assert daemon.terminate() == 0
