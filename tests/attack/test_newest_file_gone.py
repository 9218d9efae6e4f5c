"""While the peer of the only sink is away, no event is acked for hours. The newest file of the log vanishes then, and
the process is killed: the next start names every event that was acked to its source and is gone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.builder import TCP, flow_of, lines
from tests.system.daemon import Client, free_port, running
from tests.waiting import wait_until
from walflow.wal.format import SLOT, unpack_slot


def durable(cursor: Path) -> int:
    """Up to which position the cursor on disk says that all was durable, or written."""
    data = cursor.read_bytes() if cursor.exists() else b""
    slots = [found[1] for at in (0, SLOT) if (found := unpack_slot(data[at : at + SLOT])) is not None]
    return max((max(slot.durable, slot.written) for slot in slots), default=0)


def empty(file: Path) -> None:
    os.truncate(file, 0)


@pytest.mark.parametrize("spoil", [Path.unlink, empty])
@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_the_next_start_names_what_is_gone(tmp_path: Path, spoil: Callable[[Path], None], sync: str) -> None:
    flow = tmp_path / "away.troy"
    away = {"url": f"127.0.0.1:{free_port()}", "ack": "echo"}
    flow.write_text(
        flow_of(
            "tcp -> log -> away",
            tcp=TCP,
            log=f'wal with config = {{"path": "state", "sync": "{sync}"}} end',
            away=lines("tcp_client", **away),
        )
    )
    with running(flow, tmp_path) as daemon:
        client = Client(daemon.port())
        for number in range(10):
            client.send(b'{"n":%d}\n' % number)
        cursor = tmp_path / "state" / "cursor"
        wait_until(lambda: durable(cursor) == 10, "the cursor on disk does not say what was committed")
        (newest,) = (tmp_path / "state").glob("*.wal")
        spoil(newest)
        daemon.kill()
        client.close()
    with running(flow, tmp_path) as daemon:
        lost = str(daemon.wait_for("quarantined")["found"])
        assert "1 to 10" in lost
