"""kill -9 and SIGTERM under load, again and again: what was echoed is in the file, once, unaltered."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from tests.system.daemon import Daemon, echo_flow, running
from tests.system.ledger import Sender, load, settle

pytestmark = pytest.mark.nightly

TIMES = 20
CLIENTS = 4


def test_twenty_kills_under_load(tmp_path: Path) -> None:
    flow = echo_flow(tmp_path)
    chance = random.Random(4)
    senders = [Sender(number) for number in range(CLIENTS)]
    replayed = 0
    for _ in range(TIMES):
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            replayed += int(str(daemon.last("log open")["replays"]))
            asyncio.run(load(senders, port, chance.uniform(0.1, 0.6), daemon.kill))
    with running(flow, tmp_path) as daemon:
        daemon.port()
        daemon.drained()
    settle(senders, tmp_path / "out.log")
    assert sum(len(sender.echoed) for sender in senders) > TIMES * 100  # there was load
    assert replayed > 0  # and the kills hit it


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace slows the file down (apt install strace)")
def test_twenty_stops_under_load_with_a_slow_file(tmp_path: Path) -> None:
    """Each sync of the file takes 30 ms more: whatever a stop finds under way is delivered once, or left."""
    flow = echo_flow(tmp_path)
    file = tmp_path / "out.log"
    file.touch()
    slow = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-P", str(file)]
    slow += ["-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=30000"]
    senders = [Sender(number) for number in range(CLIENTS)]

    def stop(daemon: Daemon) -> None:
        assert daemon.terminate() == 0

    for _ in range(TIMES):
        with running(flow, tmp_path, prefix=slow) as daemon:
            port = daemon.port()
            asyncio.run(load(senders, port, 0.3, lambda daemon=daemon: stop(daemon)))  # type: ignore[misc]
    with running(flow, tmp_path) as daemon:
        daemon.port()
        daemon.drained()
    settle(senders, file)
    assert sum(len(sender.echoed) for sender in senders) > TIMES * 100


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_kills_under_load_where_acks_do_not_wait_for_the_disk(tmp_path: Path, sync: str) -> None:
    """What the log has written and not synced is the kernel's, and outlives the process."""
    flow = echo_flow(tmp_path, sync=sync, chunk_size=1 << 20)
    chance = random.Random(5)
    senders = [Sender(number) for number in range(CLIENTS)]
    replayed = 0
    for _ in range(6):
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            opened = daemon.last("log open")
            assert opened["sync"] == sync
            replayed += int(str(opened["replays"]))
            asyncio.run(load(senders, port, chance.uniform(0.1, 0.6), daemon.kill))
            assert not [line for line in daemon.lines if line["event"] == "quarantined"]
    with running(flow, tmp_path) as daemon:
        daemon.port()
        daemon.drained()
    settle(senders, tmp_path / "out.log")
    assert sum(len(sender.echoed) for sender in senders) > 600
    assert replayed > 0
