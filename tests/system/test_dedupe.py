"""Two walflows in a row, stamped by the first and deduped by the second: each event once, whatever is killed.

first:   log -> qos::stamp -> tcp_client with ack = "echo"
second:  tcp_server -> qos::wal on disk -> echo, and qos::dedupe by the stamp -> file
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.flows.builder import AT_ONCE, TCP, flow_of, lines, lines_out, pipeline
from tests.system.daemon import Daemon
from tests.system.relay import Relay
from tests.waiting import wait_until
from walflow.codecs import JSON
from walflow.delivery.tag import Tags
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.wal import Log, LogOptions

pytestmark = pytest.mark.nightly

EVENTS = 3000
FLYING = 100  # events that may be on their way to the second one, or from its log

FIRST = f"""
    define operator log from qos::wal with dir = "log", read_count = {FLYING}, max_elements = 1000000 end;
    define operator stamp from qos::stamp;
    create operator log;
    create operator stamp;
    select event from in into log;
    select event from log into stamp;
    select event from stamp into out;
"""

SECOND = f"""
  into out, echo
  pipeline
    define operator log from qos::wal with dir = "log", read_count = {FLYING}, max_elements = 1000000 end;
    define operator once from qos::dedupe with key = "origin", dir = "keys" end;
    create operator log;
    create operator once;
    select event from in into log;
    select event from log into once;
    select event from log into out/echo;
    select event from once into out;
"""


class Pair:
    """Both of them. What the first has to send lies in its log already."""

    def __init__(self, directory: Path, relay: Relay) -> None:
        self._relay = relay
        self._homes = [directory / "first", directory / "second"]
        flows = (
            flow_of(
                "nobody -> stamped -> second",
                stamped=pipeline(FIRST),
                nobody=TCP,
                second=lines("tcp_client", url=f"127.0.0.1:{relay.port}", ack="echo", reconnect=AT_ONCE),
            ),
            flow_of(
                "first -> once -> out",
                "once/echo -> first",
                once=pipeline(SECOND),
                first=TCP,
                out=lines_out("file", path="out", mode="append"),
            ),
        )
        for home, flow in zip(self._homes, flows, strict=True):
            home.mkdir()
            (home / "main.troy").write_text(flow)
        fill(self._homes[0] / "log")
        self.second = self._begin(1)
        relay.target = self.second.port()
        self.first = self._begin(0)

    def _begin(self, which: int) -> Daemon:
        home = self._homes[which]
        return Daemon(home / "main.troy", home)

    def kill_first(self) -> None:
        self.first.kill()
        self._relay.settle()
        self.first = self._begin(0)

    def end_second(self, end: Callable[[Daemon], object]) -> None:
        end(self.second)
        self.second = self._begin(1)
        self._relay.target = self.second.port()

    def written(self) -> list[int]:
        file = self._homes[1] / "out"
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return [json.loads(line)["id"] for line in lines]

    def wait_for(self, count: int) -> None:
        """So many ids are in the file."""
        wait_until(lambda: len(set(self.written())) >= count, lambda: f"{len(set(self.written()))} of {count} ids")

    def close(self) -> None:
        for daemon in (self.first, self.second):
            daemon.close()


def fill(path: Path) -> None:
    log, tags, size = Log(LogOptions(str(path))), Tags(), 50
    stream = StreamId("first::nobody", 1, 1)
    for first in range(0, EVENTS, size):
        data = b"".join(b'{"id":%d}\n' % number for number in range(first, first + size))
        block = Block(stream, Frames(data, size, LINES), JSON, Receipt(lambda _: None, size), ingest_ns=1, meta={})
        log.append(tags.encode(block), data, size, 1, None)
        block.receipt.ack()
    commit = log.commit()
    assert commit is not None
    commit.flush()
    log.committed(commit)
    log.close()


def test_each_id_once_over_kills_of_the_first_and_a_restart_of_the_second(tmp_path: Path) -> None:
    with Relay() as relay:
        pair = Pair(tmp_path, relay)
        try:
            for step in range(1, 4):
                pair.wait_for(step * EVENTS // 5)
                pair.kill_first()
            pair.wait_for(4 * EVENTS // 5)
            pair.end_second(Daemon.terminate)  # for the first a sink that fails what it has not echoed
            pair.wait_for(EVENTS)
            assert pair.first.terminate() == 0
            assert pair.second.terminate() == 0
        finally:
            pair.close()
        assert sorted(pair.written()) == list(range(EVENTS))
        assert relay.sent.total() > EVENTS  # some came again
        assert max(relay.sent.values()) > 1  # with the same stamp


def test_killing_the_second_repeats_no_more_than_was_on_its_way_and_loses_nothing(tmp_path: Path) -> None:
    chance, kills = Random(3), 0
    with Relay() as relay:
        pair = Pair(tmp_path, relay)
        try:
            for step in range(1, 6):
                pair.wait_for(step * EVENTS // 6)
                if chance.random() < 0.3:
                    pair.kill_first()
                else:
                    kills += 1
                    pair.end_second(Daemon.kill)
            pair.wait_for(EVENTS)
            assert pair.first.terminate() == 0
            assert pair.second.terminate() == 0
        finally:
            pair.close()
        times = Counter(pair.written())
        assert sorted(times) == list(range(EVENTS))
        assert kills > 2
        assert times.total() - EVENTS <= FLYING * kills
