"""The page's sender and its table, as they stand, and kills of both."""

import re
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from demo.server import free_port
from tests.system.daemon import ROOT, Daemon
from tests.system.process import Process
from tests.waiting import PATIENCE

PAGE = (ROOT / "docs" / "howto" / "idempotent-receivers.md").read_text("utf-8")
LEAST = 150  # events
KILLS = 2  # of each


def example(language: str, port: int) -> str:
    """The first one."""
    found: str = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[0]
    assert found.count("8080") == 1
    return found.replace("8080", str(port))


class Receiver:
    def __init__(self, script: Path) -> None:
        self._script = script
        self._file = script.with_name("events.db")
        self.start()

    def start(self) -> None:
        self._process = Process([sys.executable, self._script], cwd=self._script.parent, stdout=None, stderr=None)

    def end(self) -> None:
        self._process.kill()

    def counts(self) -> tuple[int, int]:
        """How many events there are, and how often they came."""
        with closing(sqlite3.connect(self._file)) as events:
            if not events.execute("select 1 from sqlite_master where name = 'events'").fetchone():
                return 0, 0
            events_there, times = events.execute("select count(*), coalesce(sum(times), 0) from events").fetchone()
            return events_there, times

    def wait_for_more(self, count: int) -> None:
        goal, deadline = self.counts()[0] + count, time.monotonic() + PATIENCE
        while self.counts()[0] < goal:
            assert time.monotonic() < deadline, f"{goal} events, not {self.counts()[0]}"
            time.sleep(0.01)


@pytest.mark.nightly
def test_each_event_is_in_the_table_once_though_it_came_twice(tmp_path: Path) -> None:
    port = free_port()
    flow, script = tmp_path / "main.troy", tmp_path / "receiver.py"
    flow.write_text(example("troy", port))
    script.write_text(example("python", port))
    receiver = Receiver(script)
    sender = Daemon(flow, tmp_path)
    try:
        kills = 0
        while kills < KILLS or receiver.counts()[1] == receiver.counts()[0]:
            kills += 1
            receiver.wait_for_more(40)
            receiver.end()
            receiver.start()
            receiver.wait_for_more(40)
            sender.kill()
            sender = Daemon(flow, tmp_path)
        assert sender.terminate() == 0
        while sender.last("stopped")["left"]:  # more than is delivered in a drain: it stays in the log
            sender = Daemon(flow, tmp_path)
            receiver.wait_for_more(1)
            assert sender.terminate() == 0
        logged = int(str(sender.last("log closing")["durable"]))
    finally:
        sender.close()
        receiver.end()
    with closing(sqlite3.connect(tmp_path / "events.db")) as events:
        (logs,) = events.execute("select count(distinct log) from events").fetchone()
        positions = [number for (number,) in events.execute("select position from events order by position")]
    assert logs == 1
    assert positions == list(range(1, logged + 1))
    assert len(positions) >= LEAST
    assert receiver.counts()[1] > len(positions)
