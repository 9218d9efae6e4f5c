"""A peer that takes all and echoes nothing holds the log's window: the daemon says so by itself, and is ready all the
same."""

import socket
from pathlib import Path

import pytest

from tests.flows.builder import lines
from tests.system import warm
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import WALFLOW, Client, echo_flow, running
from tests.waiting import PATIENCE


def holding(port: int, seconds: int = 1_000_000) -> str:
    """A client that waits so long for an echo."""
    return lines("tcp_client", url=f"127.0.0.1:{port}", ack="echo", echo_timeout=seconds * 1_000_000_000)


LINE = b'{"pad":"' + b"x" * 989 + b'"}\n'
HOLDS = "server::peer holds "
FITS = 4000  # into the window of one of three lanes, 5.3 MiB; with 3000 more it is full


@pytest.mark.nightly  # it stands still for 10 s, and for 10 s more
def test_a_peer_that_echoes_nothing_is_named_until_it_does(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        flow = echo_flow(tmp_path, peer=holding(listener.getsockname()[1]))
        with running(flow, tmp_path, admin=LOOPBACK) as daemon:
            admin = Admin(daemon)
            client = Client(daemon.port())
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(PATIENCE)
                client.send(LINE * FITS)  # and then it is idle
                client.lines(FITS)
                came = 0
                while came < FITS * len(LINE):
                    came += len(peer.recv(1 << 18))
                assert admin.get("/readyz") == (200, "ok\n")  # much is not settled, and there is room for more
                client.send(LINE * 3000)
                said = daemon.wait_for("standing still")
                assert (said["level"], said["component"], said["seconds"]) == ("warning", "log", 10)
                held_by = said["held_by"]
                assert isinstance(held_by, list)
                assert len(held_by) == 1
                assert str(held_by[0]).startswith(HOLDS)
                code, body = admin.get("/readyz")
                assert (code, body.splitlines()[0]) == (200, "ok")
                assert "note: server::log to peer has stood still for 1" in body
                assert HOLDS in body
                (found,) = admin.status()["standstills"]
                assert found["source"] == "server::log to peer"
                assert admin.metrics()["walflow_component_standstill_seconds", "log"] >= 10
                shown = [*WALFLOW, "status", "--admin", admin.address]
                (line,) = [one for one in warm.said(shown).splitlines() if "has stood still" in one]
                assert line.startswith("server::log")
                assert HOLDS in line
                assert HOLDS in warm.said([*shown, "--ready"])
                peer.sendall(LINE * FITS)
                daemon.wait_for("moving again")
                assert admin.get("/readyz") == (200, "ok\n")
            client.close()
            assert daemon.terminate() == 0
        assert [line.get("event") for line in daemon.lines].count("standing still") == 1
