"""When a source counts as standing still, look by look."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.flows.builder import NULL, TICKS, flow_of, plain
from tests.lang.world import assembled
from tests.nodes.world import World
from walflow.codecs import JSON
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.source import Holder
from walflow.nodes.standstill import PATIENCE, Standstills
from walflow.receipt import Receipt

FLOW = flow_of("ticks -> log -> null", ticks=TICKS, log=plain("wal", path="s"), null=NULL)


class Standing(World):
    def __init__(self) -> None:
        super().__init__()
        made = build(assembled(FLOW), self.metrics).connectors
        self.nodes: dict[str, ConnectorNodes] = {nodes.plan.id.name: nodes for nodes in made}
        for name, nodes in self.nodes.items():
            nodes.sink.begin(self.context(name))
        self.sent: list[Block] = []
        self.nodes["log"].sink.serve(self.sent.append)
        self.outlet = self.nodes["ticks"].source.begin(self.context("ticks"))
        self.log = self.nodes["log"].source.begin(self.context("log"))
        self.jobs: list[Job] = []
        self.watch()

    def watch(self) -> None:
        self.standstills = Standstills([*self.nodes.values()], self.metrics, lambda: self.jobs)

    def looks(self, count: int) -> list[str]:
        """Who stands still after so many looks."""
        for _ in range(count):
            self.standstills.look()
        return [found.source for found in self.standstills.now()]

    def fill(self) -> None:
        self.outlet.window = 10
        self.outlet.stream({}).feed(b'"a line"\n"another"\n')


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standing]:
    monkeypatch.chdir(tmp_path)
    world = Standing()
    yield world
    for block in world.sent:
        world.nodes["log"].sink.ack(block)


def test_an_idle_source_does_not(world: Standing) -> None:
    assert world.looks(PATIENCE * 2) == []


def test_nor_does_a_log_that_is_empty_while_its_sink_is_away(world: Standing) -> None:
    world.nodes["null"].sink.trigger("the peer is away")
    assert world.looks(PATIENCE * 2) == []
    world.log.backlog(lambda: 1)
    assert world.looks(PATIENCE + 1) == ["main::log"]
    (found,) = world.standstills.now()
    assert found.held_by == ["main::log holds 1 event, sent to no sink"]
    assert str(found).endswith("null: the peer is away; main::log holds 1 event, sent to no sink")


def test_a_full_window_does_until_something_is_delivered(world: Standing) -> None:
    world.fill()
    assert world.looks(PATIENCE) == []
    with capture_logs() as lines:
        assert world.looks(5) == ["main::ticks"]
        (found,) = world.standstills.now()
        assert found.held_by == [f"main::log holds 19 bytes, none settled for {found.seconds} s"]
        assert [line["event"] for line in lines] == ["standing still"]
        world.nodes["log"].sink.ack(world.sent.pop())
        assert world.looks(1) == []
        assert [line["event"] for line in lines] == ["standing still", "moving again"]


def test_a_window_that_is_full_at_each_look_and_moves_does_not(world: Standing) -> None:
    world.fill()
    for _ in range(PATIENCE * 2):
        world.fill()
        world.nodes["log"].sink.ack(world.sent.pop(0))
        assert world.looks(1) == []


def test_events_that_only_fail_are_not_delivered(world: Standing) -> None:
    world.fill()
    for _ in range(PATIENCE + 1):
        world.fill()
        world.nodes["log"].sink.fail(world.sent.pop(0), OSError("no"))
        world.standstills.look()
    assert [found.source for found in world.standstills.now()] == ["main::ticks"]


def test_a_new_run_begins_anew(world: Standing) -> None:
    world.fill()
    assert world.looks(PATIENCE + 1) == ["main::ticks"]
    world.nodes["ticks"].source.end()
    assert world.looks(1) == []


def line() -> Block:
    receipt = Receipt(lambda receipt: None, 1)
    return Block(StreamId("main::log", 1, 1), Frames(b'"a line"\n', 1, LINES), JSON, receipt, ingest_ns=1, meta={})


class Job(NamedTuple):
    who: str

    def __str__(self) -> str:
        return f"{self.who} has waited 12 s for fdatasync of s/1.wal"


def test_a_source_that_may_send_and_whose_sink_answers_nothing_does_and_its_hung_job_is_named(
    world: Standing,
) -> None:
    world.jobs = [Job("main::log"), Job("main::null")]
    world.outlet.stream({}).feed(b'"a line"\n')
    assert world.looks(PATIENCE) == []
    assert world.looks(1) == ["main::ticks"]
    (found,) = world.standstills.now()
    assert found.reason == "no outcome from main::log for 10 s; main::log has waited 12 s for fdatasync of s/1.wal"
    assert found.held_by == ["main::log holds 9 bytes, none settled for 10 s"]
    world.nodes["log"].sink.ack(world.sent.pop())
    assert world.looks(PATIENCE * 2) == [], "it is idle"


def test_the_time_in_which_a_sink_had_nothing_does_not_count(world: Standing) -> None:
    assert world.looks(PATIENCE * 2) == []
    world.outlet.stream({}).feed(b'"a line"\n')
    assert world.looks(PATIENCE) == []


def test_a_log_that_has_events_and_sends_none_does_for_the_reason_that_it_gives(world: Standing) -> None:
    left = 3
    world.log.backlog(lambda: left, lambda: "a read of s/1.wal, for 12 s")
    assert world.looks(PATIENCE + 1) == ["main::log"]
    (found,) = world.standstills.now()
    assert found.reason == "it waits for a read of s/1.wal, for 12 s"
    assert found.held_by == ["main::log holds 3 events, sent to no sink"]
    left = 0
    assert world.looks(1) == []


def test_a_log_whose_events_only_fail_does_and_the_failure_is_named(world: Standing) -> None:
    world.log.backlog(lambda: 1)
    world.nodes["null"].sink.serve(lambda block: world.nodes["null"].sink.fail(block, OSError("answered 500")))
    for _ in range(PATIENCE + 1):
        assert world.log.send(line())
        world.standstills.look()
    (found,) = world.standstills.now()
    assert (found.source, found.reason) == ("main::log", "each try fails: answered 500")


@pytest.mark.parametrize("holder", ["an operator", "a sink beside it"])
def test_what_an_operator_alone_holds_is_no_standstill(world: Standing, holder: str) -> None:
    """A batch waits for more events, or for its timeout."""
    source = world.nodes["log"].source
    source.holders.append(Holder("main::after/batch", lambda: "1 event", lambda: 1))
    if holder == "a sink beside it":
        source.holders.append(Holder("main::peer", lambda: "9 bytes", lambda: 1, is_sink=True))
    world.watch()
    world.log.backlog(lambda: 1)
    stands = world.looks(PATIENCE * 3)
    assert stands == ([] if holder == "an operator" else ["main::log"])
