"""A full log that drops: the peer is away, the sources go on, and what the peer gets in the end is the newest."""

import json
import socket
from pathlib import Path

import pytest

from tests.flows.builder import TCP, flow_of, lines, plain
from tests.system.daemon import Client, running
from tests.waiting import PATIENCE

EVENTS = 2500
BUDGET = 4 * 65536


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_the_newest_come_through_a_log_that_was_full(tmp_path: Path, sync: str) -> None:
    with socket.socket() as peer:
        peer.bind(("127.0.0.1", 0))  # nobody listens yet
        flow = tmp_path / "drop.troy"
        url = f"127.0.0.1:{peer.getsockname()[1]}"
        flow.write_text(
            flow_of(
                "tcp -> log -> peer",
                tcp=TCP,
                log=plain("wal", path="state", chunk_size=65536, max_chunks=4, on_full="drop_oldest", sync=sync),
                peer=lines("tcp_client", url=url, reconnect={"retry": {"interval_ms": 100}}),
            )
        )
        with running(flow, tmp_path) as daemon:
            client = Client(daemon.port())
            for number in range(EVENTS):
                client.send(b'{"id":%d,"pad":"%s"}\n' % (number, b"x" * 200))
            gone = 0
            while gone < EVENTS * 200 - BUDGET - 65536:  # what cannot but go
                gone += int(str(daemon.wait_for("dropped")["bytes"]))
            assert not [line for line in daemon.lines if line["event"] == "breaker triggered" and "log" in str(line)]
            client.close()
            daemon.kill()
        assert sum(file.stat().st_size for file in (tmp_path / "state").glob("*.wal")) <= BUDGET
        peer.listen()
        peer.settimeout(PATIENCE)
        with running(flow, tmp_path) as daemon:
            left = int(str(daemon.last("log open")["replays"]))
            received = _lines(peer, left)
            assert daemon.terminate() == 0
            assert not [line for line in daemon.lines if line["event"] == "quarantined"]
    ids = [json.loads(line)["id"] for line in received]
    assert ids == list(range(ids[0], ids[0] + left))
    assert 0 < ids[0] < EVENTS


def _lines(peer: socket.socket, count: int) -> list[bytes]:
    connection, _ = peer.accept()
    data = b""
    with connection:
        connection.settimeout(PATIENCE)
        while data.count(b"\n") < count:
            more = connection.recv(1 << 16)
            assert more, f"{count} lines were to come, these did: {data!r}"
            data += more
    return data.splitlines()
