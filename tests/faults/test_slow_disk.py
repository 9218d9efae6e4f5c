"""A disk that turns slow: each sync takes 200 ms, or 2 s, from one moment on. The loop may stand still once, for the
first sync that it made itself; after that nothing is synced on it, and it is as punctual as before.

How late the loop is, is measured by requests over one open connection, one after the other: the loop answers them, and
nothing else is in their way. What a loaded machine does to them is measured too, by the same requests before the disk
turned slow, with strace on the daemon as well; that p99 is added to the 50 ms."""

import statistics
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.faults.strace import Tracer, injections, needs_strace, options
from tests.system.admin import LOOPBACK, Admin, Connection
from tests.system.daemon import Client, echo_flow, running

pytestmark = [needs_strace, pytest.mark.alone, pytest.mark.nightly]

PUNCTUAL = 0.050  # seconds, p99


class Load:
    """Sends a line at a time, as fast as echoes come; `echoed` so far."""

    def __init__(self, port: int) -> None:
        self.client = Client(port)
        self.echoed = 0
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.client.send(b'"%d"\n' % self.echoed)
            assert self.client.lines(1) == [b'"%d"' % self.echoed]
            self.echoed += 1

    def wait_for(self, more: int) -> None:
        goal = self.echoed + more
        while self.echoed < goal:
            assert self._thread.is_alive()
            time.sleep(0.01)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self.client.close()


def lateness(connection: Connection, times: int) -> list[float]:
    """Of so many answers, in seconds."""
    late: list[float] = []
    for _ in range(times):
        started = time.monotonic()
        connection.request("GET", "/livez")
        connection.getresponse().read()
        late.append(time.monotonic() - started)
        time.sleep(0.005)
    return late


def p99(late: list[float]) -> float:
    return statistics.quantiles(late, n=100)[98]


@pytest.mark.parametrize(("seconds", "times"), [(0.2, 200), (2.0, 400)])
def test_one_stall_and_then_the_loop_is_punctual(tmp_path: Path, seconds: float, times: int) -> None:
    log, fast = tmp_path / "slow", tmp_path / "fast"
    with running(echo_flow(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        load = Load(daemon.port())
        connection = Connection(admin.address)
        try:
            load.wait_for(100)  # many of them synced on the loop
            with Tracer(daemon.pid, fast, options("fdatasync:delay_exit=1")):
                before = lateness(connection, 200)
            slow = options(f"fdatasync:delay_exit={round(seconds * 1e6)}")
            with Tracer(daemon.pid, log, slow):
                first = lateness(connection, 1)
                load.wait_for(1)  # whoever met it first, it was met
                after = lateness(connection, times)
                status = admin.status()
            load.wait_for(100)  # and it is quick again
        finally:
            load.close()
            connection.close()
        daemon.drained()
    assert injections(log) >= 2
    stalls = [one for one in first + after if one > seconds / 2]
    assert len(stalls) <= 1, f"{len(stalls)} of them waited for a sync"
    assert p99(after) < PUNCTUAL + p99(before)
    assert status["loop_lag_seconds"] < seconds + PUNCTUAL + max(before)
    assert len((tmp_path / "out.log").read_bytes().splitlines()) == load.echoed
