"""A region with state in the daemon's nodes: what is acked when, what comes again, what waits."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.memory import Buffer, Memory
from tests.operators.flows import Running
from tests.receipts import had_by
from walflow.codecs import JSON
from walflow.event import Block, Frames, Node, StreamId
from walflow.framing import LINES
from walflow.metrics import Metrics
from walflow.plan.results import RESULTS_BYTES
from walflow.receipt import Delivered, Receipt

COUNT = """
    define script n
    state 0
    script
      let state = state + 1;
      {0}
    end;
    create script n;
    select event from in into n;
    select event from n into out;
"""


class Counting(Running):
    """`buffers`: of the results, by the output that they are for."""

    def __init__(self, body: str, outputs: tuple[str, ...] = ("out",)) -> None:
        super().__init__(body, outputs)
        self.settled: list[Receipt] = []
        self.buffers: dict[str, Buffer] = {}
        for nodes in self.nodes.connectors:
            if isinstance(nodes.plan.connector, Memory):
                name = nodes.plan.id.name
                nodes.sink.begin(self.world.context(f"main::{name}"))
                source = nodes.source.begin(self.world.context(f"main::{name}"))
                buffer = Buffer(nodes.plan.connector, nodes.sink, source)
                buffer.buffering.start()
                self.buffers[name.removeprefix("p/results/")] = buffer

    def ack_all(self) -> None:
        """What comes in further turns of the loop too."""
        self.world.scheduler.run()
        while self.sinks[0].waiting:
            self.sinks[0].ack()
            self.world.scheduler.run()

    def send(self, *values: object, delivered: Delivered | None = None, at: int = 7) -> Receipt:
        """One block as a log sends it. `delivered`: by name, those that had it before."""
        frames = Frames(LINES.join([JSON.encode(value) for value in values]), len(values), LINES)
        receipt = Receipt(self.settled.append, len(values), None, delivered)
        block = Block(StreamId("main::ticks", 1, 1), frames, JSON, receipt, ingest_ns=at, meta={})
        entry: Node = self.source.ports.out
        entry.accept(block)
        return receipt

    def close(self) -> None:
        for buffer in self.buffers.values():
            asyncio.run(buffer.buffering.close())
        self.end()


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def counting() -> Iterator[Counting]:
    made = Counting(COUNT.format("[event, state]"))
    yield made
    made.close()


def test_an_event_is_acked_once_its_result_is_in_memory(counting: Counting) -> None:
    receipt = counting.send("a", "b")
    assert receipt.pending == 0
    assert receipt.cause is None
    assert counting.got == [[["a", 1], ["b", 2]]]
    assert counting.buffers["out"].events == 2
    counting.sinks[0].ack()
    assert counting.buffers["out"].events == 0


def test_results_that_a_sink_fails_come_again_as_they_were(counting: Counting) -> None:
    counting.send("a")
    counting.sinks[0].fail()
    counting.send("b")
    counting.world.scheduler.advance(1)
    counting.sinks[0].ack()
    counting.sinks[0].ack()
    assert counting.got == [[["a", 1], ["a", 1], ["b", 2]]]
    assert counting.buffers["out"].events == 0


def test_what_is_in_the_state_already_does_not_count_again(counting: Counting) -> None:
    """Another branch has failed the block, so the log sends it again."""
    first = counting.send("a")
    assert had_by(first) == {"main::p/in", "main::p/results/out"}
    again = counting.send("a", delivered=first.outcome().between(0, 1))
    assert again.pending == 0
    counting.send("b")
    assert counting.got == [[["a", 1], ["b", 2]]]


def test_an_event_without_a_result_is_in_the_state_too() -> None:
    counting = Counting(COUNT.format("match event of case 0 => drop default => state end"))
    assert had_by(counting.send(0)) == {"main::p/in"}
    counting.send(1)
    assert counting.got == [[2]]
    counting.close()


def test_errors_are_results() -> None:
    counting = Counting(COUNT.format("event.n + state"), ("out", "err"))
    assert not counting.send({"n": 1}, 5).pending
    assert counting.sinks[0].got == [2]
    counting.sinks[1].fail()
    counting.world.scheduler.advance(1)
    errors = [json.dumps(one) for one in counting.sinks[1].got]
    assert len(errors) == 2
    assert errors[0] == errors[1]
    assert "`event.n`: a whole number without `n`" in errors[0]
    counting.close()


def test_a_full_buffer_stops_the_sources_and_nothing_is_made_meanwhile() -> None:
    counting = Counting(COUNT.format("[state, event]"))
    receipts = [counting.send("x" * (RESULTS_BYTES // 8)) for _ in range(12)]
    acked = [receipt.pending == 0 for receipt in receipts]
    held = acked.count(True)
    assert 6 <= held <= 9
    assert acked == [True] * held + [False] * (12 - held)
    assert counting.source.gate.shut
    assert counting.buffers["out"].bytes <= RESULTS_BYTES
    while any(receipt.pending for receipt in receipts):
        counting.sinks[0].ack()
    counting.ack_all()
    assert not counting.source.gate.shut
    got = counting.sinks[0].got
    assert [one[0] for one in got if isinstance(one, list)] == list(range(1, 13))
    counting.close()


@pytest.mark.test
def test_a_large_state_that_leaves_as_a_whole_does_not_fill_the_memory() -> None:
    """Of one block, each event lets all of it go: it is made in parts, and no more than fits."""
    counting = Counting(
        """
    define script n
    state []
    script
      match event of case 0 => let state = [BIG, BIG] default => null end;
      [event, state]
    end;
    create script n;
    select event from in into n;
    select event from n into out;
""".replace("BIG", f'"{"x" * (1 << 20)}"')
    )
    receipt = counting.send(*range(100))
    assert receipt.pending
    [results] = [nodes.sink for nodes in counting.nodes.connectors if nodes.plan.id.name == "p/results/out"]
    while receipt.pending:
        assert counting.buffers["out"].bytes <= RESULTS_BYTES
        waiting = int(results.held().split()[0].replace(",", ""))
        assert waiting <= 8 << 20  # for room in the buffer
        assert counting.sinks[0].waiting
        counting.sinks[0].ack()
    counting.ack_all()
    assert [one[0] for one in counting.sinks[0].got if isinstance(one, list)] == list(range(100))
    counting.close()


def test_what_waits_when_walflow_stops_may_be_sent_again() -> None:
    counting = Counting(COUNT.format("[state, event]"))
    receipts = [counting.send("x" * (RESULTS_BYTES // 3)) for _ in range(5)]
    counting.close()
    assert [receipt.pending for receipt in receipts] == [0] * 5
    assert receipts[0].cause is None
    assert "has stopped" in str(receipts[4].cause)
    assert had_by(receipts[4]) == set()


def test_the_metric_says_what_the_state_weighs() -> None:
    counting = Counting(COUNT.format("let state = [event]; state"))
    assert weight(counting.world.metrics) < 100
    counting.send("x" * 1000)
    assert 1000 < weight(counting.world.metrics) < 1300
    counting.close()


def weight(metrics: Metrics) -> float:
    [value] = [one.value for one in metrics.gauges() if one.name == "state_bytes"]
    assert value is not None
    return value
