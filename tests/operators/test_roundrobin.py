"""`qos::roundrobin`: events evenly over outputs that shut and open."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.examples import examples
from tests.lang.world import assembled
from tests.operators.flows import Running, around
from walflow.cli.promises import promises
from walflow.codecs import JSON
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.receipt import Receipt, all_of

BODY = """
    define operator rr from qos::roundrobin with outputs = ["ws0", "ws1", "ws2"] end;
    create operator rr;
    select event from in into rr;
    select event from rr/ws0 into out/ws0;
    select event from rr/ws1 into out/ws1;
    select event from rr/ws2 into out/ws2;
"""
OUTPUTS = ("ws0", "ws1", "ws2")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def three() -> Iterator[Running]:
    running = Running(BODY, OUTPUTS)
    yield running
    running.end()
    assert running.outlet.inflight == 0


def test_in_turns_an_event_at_a_time(three: Running) -> None:
    for number in range(9):
        three.give(number)
    assert three.got == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


def test_a_large_block_in_even_parts_and_small_ones_to_whom_had_least(three: Running) -> None:
    three.give(*range(100))
    assert [len(got) for got in three.got] == [34, 33, 33]
    three.give(*range(10))
    assert [len(got) for got in three.got] == [34, 43, 33]
    for number in range(9):
        three.give(number)
    assert [len(got) for got in three.got] == [38, 43, 38]


def test_one_that_is_shut_is_left_out_and_takes_part_again_without_what_it_missed(three: Running) -> None:
    three.sinks[1].node.trigger("away")
    for number in range(100):
        three.give(number)
    assert [len(got) for got in three.got] == [50, 0, 50]
    assert not three.source.gate.shut
    three.sinks[1].node.restore()
    for number in range(30):
        three.give(number)
    assert [len(got) for got in three.got] == [60, 10, 60]


def test_all_shut_stop_the_source_and_one_that_opens_lets_it_go_on(three: Running) -> None:
    for sink in three.sinks:
        sink.node.trigger("away")
    assert three.source.gate.reasons == {"main::p/rr": "no output accepts events"}
    three.give(1)  # on its way already
    assert three.got == [[], [], []]
    three.sinks[2].node.restore()
    assert not three.source.gate.shut
    assert three.got == [[], [], [1]]
    for sink in three.sinks[:2]:
        sink.node.restore()
    assert not three.source.gate.shut


def test_shut_from_the_first_event_on_until_the_sinks_are_up() -> None:
    running = Running(BODY, OUTPUTS, started=False)
    assert running.source.gate.shut
    running.sinks[1].start()
    assert not running.source.gate.shut
    for number in range(4):
        running.give(number)
    assert running.got == [[], [0, 1, 2, 3], []]
    running.end()


def test_what_fails_goes_to_another_at_once(three: Running) -> None:
    for number in range(3):
        three.give(number)
    three.sinks[0].node.trigger("lost")
    three.sinks[0].fail()
    assert sorted(map(len, three.got)) == [1, 1, 2]
    for sink in three.sinks[1:]:
        sink.ack()
    assert three.world.count("lost_events_total") == 0
    assert three.outlet.inflight == 0


def test_what_each_output_has_failed_fails_upstream(three: Running) -> None:
    three.give(7)
    for _ in range(3):
        next(sink for sink in three.sinks if sink.waiting).fail()
    assert three.got == [[7], [7], [7]]
    assert three.world.count("lost_events_total") == 1


def test_a_failure_upstream_names_all_who_have_failed_it(three: Running) -> None:
    """Which of them takes others decides whether the event is to blame: an output that never gets another one does
    not."""
    settled: list[Receipt] = []
    receipt = Receipt(settled.append, 1)
    frames = Frames(b"7", 1, LINES)
    three.nodes.operators[0].node.accept(
        Block(StreamId("main::ticks", 1, 1), frames, JSON, receipt, ingest_ns=0, meta={})
    )
    for _ in range(3):
        next(sink for sink in three.sinks if sink.waiting).fail()
    assert settled[0].outcome().failing(0, 1) == {"main::to_ws0", "main::to_ws1", "main::to_ws2"}


def test_what_a_sink_has_of_a_block_does_not_go_to_another(three: Running) -> None:
    three.give(*range(10))
    three.sinks[0].fail(done=4)
    assert three.got[1] == [4, 5, 6, 7, 8, 9]


def test_what_fails_while_all_are_away_waits_for_the_first_to_come_back(three: Running) -> None:
    three.give(1)
    for sink in three.sinks:
        sink.node.trigger("away")
    three.sinks[0].fail()
    assert three.world.count("lost_events_total") == 0
    three.sinks[1].node.restore()
    assert three.got[1] == [1]


def test_what_waits_for_a_sink_whose_run_ends_goes_to_another(three: Running) -> None:
    queued = three.sinks[0].node
    queued.end("restarting")
    queued.begin(three.world.context("main::to_ws0"))
    queued.restore()  # it takes, and has not come to it: this run pulls
    three.give(1)
    assert queued.waiting == 1
    queued.end("restarting again")
    assert three.got == [[], [1], []]


def test_a_sink_reached_another_way_as_well_is_not_replaceable() -> None:
    running = Running(f"{BODY} select event from in into out/ws0;", OUTPUTS)
    assert [sink.node.upstream.replaceable for sink in running.sinks] == [False, True, True]
    running.sinks[0].node.trigger("away")
    assert running.source.gate.shut  # by its own copy of every event
    running.sinks[0].node.restore()
    assert not running.source.gate.shut
    running.end()


def test_upstream_knows_by_event_which_ones_an_output_has(three: Running) -> None:
    """Three parts of one block by three ways: that ws0 has acked its own must not hide from it what ws1 has
    failed."""
    settled: list[Receipt] = []
    frames = Frames(b"1\n" * 48, 48, LINES)
    stream = StreamId("main::ticks", 1, 1)
    block = Block(stream, frames, JSON, Receipt(settled.append, 48), ingest_ns=0, meta={})
    three.nodes.operators[0].node.accept(block)
    three.sinks[0].ack()
    while not settled:
        for sink in three.sinks:
            sink.fail()
    assert (settled[0].done, settled[0].lacking) == (16, 32)
    name = three.nodes.operators[0].name
    assert settled[0].outcome().has[name] == all_of(16)
    rest = settled[0].outcome().between(16, 48)
    again = Block(
        stream, frames.slice(16, 48), JSON, Receipt(settled.append, 32, delivered=rest), ingest_ns=0, meta={}
    )
    three.nodes.operators[0].node.accept(again)
    assert sum(block.frames.count for sink in three.sinks for block in sink.waiting) == 32


@given(st.lists(st.integers(1, 200), min_size=20, max_size=60))
@settings(max_examples=30, deadline=None)
def test_even_over_time_whatever_the_blocks(sizes: list[int]) -> None:
    running = Running(BODY, OUTPUTS)
    for size in sizes:
        running.give(*range(size))
        for sink in running.sinks:
            sink.ack()
    counts = [len(got) for got in running.got]
    assert max(counts) - min(counts) <= 48  # the largest block that goes whole
    running.end()


class Outcomes(RuleBasedStateMachine):
    """Sinks that come and go, ack and fail, in any order: nothing is lost but what all have failed, and the source is
    stopped exactly while no sink takes events."""

    def __init__(self) -> None:
        super().__init__()
        self.running = Running(BODY, OUTPUTS)
        self.given = 0
        self.acked: Counter[object] = Counter()

    @rule(size=st.integers(1, 60))
    def give(self, size: int) -> None:
        self.running.give(*range(self.given, self.given + size))
        self.given += size

    @rule(number=st.integers(0, 2))
    def ack(self, number: int) -> None:
        sink = self.running.sinks[number]
        self.acked.update(value for block in sink.waiting for value in block.values)
        sink.ack()

    @rule(number=st.integers(0, 2))
    def lose(self, number: int) -> None:
        sink = self.running.sinks[number]
        sink.node.trigger("lost")
        sink.fail()

    @rule(number=st.integers(0, 2))
    def back(self, number: int) -> None:
        self.running.sinks[number].node.restore()

    @invariant()
    def stopped_by_all_alone(self) -> None:
        away = all(sink.node.reason for sink in self.running.sinks)
        assert ("main::p/rr" in self.running.source.gate.reasons) == away

    def teardown(self) -> None:
        for sink in self.running.sinks:
            sink.node.restore()
        while any(sink.waiting for sink in self.running.sinks):
            for number in range(3):
                self.ack(number)
        assert self.running.world.count("lost_events_total") == 0
        assert self.acked == Counter(range(self.given))
        assert self.running.outlet.inflight == 0
        self.running.end()


TestOutcomes = Outcomes.TestCase
TestOutcomes.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_check_says_who_stops_whom() -> None:
    assert promises(assembled(around(BODY, OUTPUTS))).stops == [
        (
            "main::ticks sends to to_ws0, to_ws1 and to_ws2 in turns, by p/rr: while one of them is unavailable, the "
            "others get its share; while none is available, ticks sends nothing"
        )
    ]
