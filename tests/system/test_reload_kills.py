"""`walflow reload` under load, again and again; and kill -9 of one of the two processes at a random moment of it."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.flows.builder import LOG, OUT, flow_of, lines, plain
from tests.system.daemon import PATIENCE, Daemon, free_port
from tests.system.test_http import Sender
from tests.system.test_reload import Reloaded, ids, more

KILLS = 8  # 30 were made by hand
RELOADS = 10
LONGEST = 1.0  # seconds after the request for a reload: by then it serves, on a machine that is idle

pytestmark = pytest.mark.nightly


def doors(directory: Path) -> tuple[Path, int]:
    """A flow file, and the port of its HTTP. What it has goes to a file, once."""
    port = free_port()
    http = plain("http_server", url=f"http://127.0.0.1:{port}").replace("with", 'with codec = "json",', 1)
    tcp = lines("tcp_server", url=f"127.0.0.1:{free_port()}")
    file = directory / "main.troy"
    file.write_text(flow_of("http -> log -> out", "tcp -> log", http=http, tcp=tcp, log=LOG, out=OUT))
    return file, port


@contextmanager
def sending(port: int) -> Iterator[list[Sender]]:
    stop = threading.Event()
    senders = [Sender(number, port, stop, keyed=True) for number in range(4)]
    for sender in senders:
        sender.start()
    try:
        yield senders
    finally:
        stop.set()
        for sender in senders:
            sender.join(PATIENCE)


def test_whichever_process_is_killed_nothing_is_missing_and_nothing_double(tmp_path: Path) -> None:
    flow, port = doors(tmp_path)
    socket_file, dice = tmp_path / "admin.sock", random.Random(37)
    killed: Counter[str] = Counter()
    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
    try:
        with sending(port) as senders:
            for _ in range(KILLS):
                reloaded = Reloaded(daemon, flow, socket_file)
                reloaded.admin.until_there()
                daemon.last("running")
                more(lambda: [len(sender.acked) for sender in senders])
                old, asked = reloaded.pid(), reloaded.asks()
                new = reloaded.next_pid()
                time.sleep(dice.random() * LONGEST)
                victim = dice.choice((old, new))
                before = reloaded.pid()
                killed[f"{'old' if victim == old else 'new'} {'before' if before == old else 'after'}"] += 1
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                asked.communicate(timeout=PATIENCE)
                if not _somebody_serves(reloaded):  # a supervisor starts it again
                    daemon.kill()
                    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
            reloaded = Reloaded(daemon, flow, socket_file)
            reloaded.admin.until_there()
            daemon.last("running")
            more(lambda: [len(sender.acked) for sender in senders])
        reloaded.ends()
    finally:
        daemon.kill()
    found = ids(tmp_path)
    assert {found[event] for sender in senders for event in sender.acked} == {1}
    assert {moment.split()[0] for moment in killed} == {"old", "new"}, killed


def _somebody_serves(reloaded: Reloaded) -> bool:
    """Within some seconds: an old process that goes on opens its logs first."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        with suppress(OSError):
            if reloaded.admin.get("/readyz")[0] == 200:
                return True
        time.sleep(0.02)
    return False


def test_many_reloads_fail_no_request(tmp_path: Path) -> None:
    flow, port = doors(tmp_path)
    socket_file = tmp_path / "admin.sock"
    daemon = Daemon(flow, tmp_path, admin=f"unix:{socket_file}")
    try:
        reloaded = Reloaded(daemon, flow, socket_file)
        daemon.wait_for("ready")
        with sending(port) as senders:
            for _ in range(RELOADS):
                more(lambda: [len(sender.acked) for sender in senders])
                reloaded.reloads()
        reloaded.ends()
    finally:
        daemon.kill()
    assert [sender.failures for sender in senders] == [0] * len(senders)
    assert ids(tmp_path) == Counter(event for sender in senders for event in sender.acked)
