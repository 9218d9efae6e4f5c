"""When time closes windows in a daemon, and when it waits: for sources that may still send older events,
and for room."""

from typing import Any

import pytest
import structlog

from tests.compile.windows import WindowSpec, query, windowed
from walflow.codecs import JSON
from walflow.compile.compiled import Compiled
from walflow.event import Block, Frames, StreamId
from walflow.framing import LINES
from walflow.metrics import CountedValue
from walflow.nodes.gate import ReasonGate
from walflow.operators import OperatorContext
from walflow.operators.select import Select
from walflow.operators.windows import LOG_DELAY, WindowSelect
from walflow.receipt import Receipt
from walflow.testing.world import VirtualScheduler

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


class Upstream:
    """A source upstream, as far as a window asks it."""

    full = False

    def __init__(self, *, transactional: bool = False) -> None:
        self.transactional = transactional
        self.left = 0

    def limits(self) -> tuple[int, int | None]:
        return 1 << 20, None

    def waiting(self) -> int:
        return self.left

    def on_full(self, call: object) -> None: ...


class Sink:
    def __init__(self) -> None:
        self.blocks: list[Block] = []

    def accept(self, block: Block) -> None:
        self.blocks.append(block)
        block.receipt.ack()

    def take(self, block: Block, reasons: object, details: object = None) -> None:
        raise AssertionError(reasons)

    @property
    def counts(self) -> list[tuple[int, object]]:
        """When each result left, in seconds, and how many events it is of."""
        results: list[tuple[int, Any]] = [(block.ingest_ns, value) for block in self.blocks for value in block.values]
        return [((at - NOW) // SECOND, value["count"]) for at, value in results]


def _no_gauge(of: str, read: object) -> None: ...


class Stand:
    def __init__(self, *sources: Upstream, flushes: bool = False, compiled: Compiled | None = None) -> None:
        compiled = compiled or windowed([WindowSpec("interval", 10 * SECOND)])
        self.sink, self.gate, self.scheduler = Sink(), ReasonGate(), VirtualScheduler()
        self.sources = sources or (Upstream(),)
        self.compiled, self.state = compiled, compiled.new_state()
        context = OperatorContext(
            "f::p/in",
            {},
            self.sink,
            lambda of: CountedValue(),
            _no_gauge,
            structlog.get_logger(),
            [],
            [*self.sources],
        )
        select = Select(compiled, {"out": self.sink}, self.sink, CountedValue(), state=self.state)
        self.node = WindowSelect(select, self.gate, self.state, context, flushes=flushes)
        self.node.begin(self.scheduler)
        self.acked: list[Receipt] = []

    def send(self, seconds: float, *events: bytes) -> None:
        payloads = events or (b'{"g": "a", "x": 1}',)
        frames = Frames(LINES.join(payloads), len(payloads), LINES)
        receipt = Receipt(self.acked.append, len(payloads))
        at = NOW + int(seconds * SECOND)
        self.node.accept(Block(StreamId("s", 1, 1), frames, JSON, receipt, ingest_ns=at, meta={}))


def test_time_goes_on_from_the_last_event() -> None:
    stand = Stand()
    stand.send(0)
    stand.scheduler.advance(4)
    stand.send(4)
    stand.scheduler.advance(5.9)
    assert stand.sink.counts == []
    stand.scheduler.advance(0.2)
    assert stand.sink.counts == [(10, 2)]
    assert [one.cause for one in stand.acked] == [None, None]


@pytest.mark.parametrize("behind", [0, 1, 3600])
def test_a_clock_that_is_set_back_makes_no_window_shorter(behind: int) -> None:
    stand = Stand()
    for second in range(60):
        stand.send(second if second < 15 else second - behind)
        stand.scheduler.advance(1)
    stand.scheduler.advance(20)
    assert [count for _, count in stand.sink.counts] == [10] * 6


def test_old_events_of_a_log_are_not_told_by_the_clock() -> None:
    """A log that catches up sends an hour's events within a second."""
    stand = Stand()
    for second in range(0, 3600, 3):
        stand.send(second)
    assert len(stand.sink.counts) == 299
    assert {count for _, count in stand.sink.counts} == {4}


def test_it_waits_while_a_source_has_more() -> None:
    source = Upstream(transactional=True)
    stand = Stand(source)
    source.left = 1
    stand.send(0)
    stand.scheduler.advance(60)
    assert stand.sink.counts == []
    stand.send(9)  # what the log had
    source.left = 0
    stand.scheduler.advance(2 + LOG_DELAY / SECOND)
    assert stand.sink.counts == [(10, 2)]


def test_results_wait_for_room_and_so_do_events() -> None:
    stand = Stand()
    stand.send(0)
    stand.gate.trigger("out", "full")
    stand.scheduler.advance(30)
    stand.send(30)
    assert stand.sink.counts == []
    assert len(stand.acked) == 1  # the second event is in no window yet
    stand.gate.restore("out")
    assert stand.sink.counts == [(10, 1)]
    assert len(stand.acked) == 2


def test_a_stop_closes_windows_only_if_asked() -> None:
    for flushes, left in ((False, []), (True, [(0, 1)])):
        stand = Stand(flushes=flushes)
        stand.send(0)
        stand.node.drain()
        stand.node.end()
        assert stand.sink.counts == left
        assert stand.scheduler.timers == []


def test_the_next_window_has_its_own_time() -> None:
    stand = Stand()
    stand.send(0)
    stand.scheduler.advance(12)
    stand.send(12)
    stand.scheduler.advance(9.9)
    assert stand.sink.counts == [(10, 1)]
    stand.scheduler.advance(0.2)
    assert stand.sink.counts == [(10, 1), (22, 1)]


def test_a_buffer_that_gets_full_holds_the_next_tick() -> None:
    stand = Stand()
    stand.send(0, b'{"g": "a", "x": 1}')
    stand.send(1, b'{"g": "b", "x": 1}')
    accept = stand.sink.accept

    def fills(block: Block) -> None:
        accept(block)
        stand.gate.trigger("out", "full")

    stand.sink.accept = fills  # type: ignore[method-assign]
    stand.send(30, b'{"g": "c", "x": 1}')
    assert stand.sink.counts == [(10, 1)]
    stand.gate.restore("out")
    stand.scheduler.advance(1)
    assert stand.sink.counts == [(10, 1), (11, 1)]
    stand.sink.accept = accept  # type: ignore[method-assign]
    stand.gate.restore("out")
    assert len(stand.acked) == 3  # the third event was waiting, too


def many(stand: Stand, groups: int) -> None:
    """A block of so many groups, each with an event."""
    stand.send(0, *(b'{"g": "host-%d", "x": 1}' % number for number in range(groups)))


def fills(stand: Stand) -> None:
    """Each part of the results fills the buffer."""
    accept = stand.sink.accept

    def accept_and_shut(block: Block) -> None:
        accept(block)
        stand.gate.trigger("out", "full")

    stand.sink.accept = accept_and_shut  # type: ignore[method-assign]


@pytest.mark.test
def test_a_tick_of_many_windows_leaves_in_parts_that_wait_for_room() -> None:
    stand = Stand()
    many(stand, 40_000)
    fills(stand)
    stand.scheduler.advance(12)
    parts = [len(stand.sink.counts)]
    while parts[-1] < 40_000:
        stand.gate.restore("out")
        stand.scheduler.advance(1)
        parts.append(len(stand.sink.counts))
    assert len(parts) > 3
    assert stand.sink.counts == [(10, 1)] * 40_000  # all have the time of their tick


@pytest.mark.test
def test_at_a_stop_windows_are_closed_in_parts_that_wait_for_room() -> None:
    stand = Stand(flushes=True)
    many(stand, 40_000)
    fills(stand)
    stand.node.drain()
    parts = [len(stand.sink.counts)]
    while parts[-1] < 40_000:
        stand.gate.restore("out")
        parts.append(len(stand.sink.counts))
    assert len(parts) > 3
    assert stand.sink.counts == [(0, 1)] * 40_000


TICKS = """
    define window w from tumbling
    state 0
    script from tick
      let state = state + 1;
      false
    script
      event.g == "close"
    end;
    select {"count": aggr::stats::count()} from in[w] group by event.x into out;
"""


def test_a_script_at_ticks_runs_while_no_event_comes() -> None:
    compiled = query(TICKS.replace("false\n    script\n", "state == 3\n    script\n"))
    stand = Stand(compiled=compiled)
    stand.send(0)
    stand.scheduler.advance(0.25)
    assert stand.sink.counts == []
    stand.scheduler.advance(0.1)
    assert stand.sink.counts == [(0, 1)]
    assert stand.scheduler.timers == []


@pytest.mark.test
def test_a_log_that_says_nothing_of_a_week_lets_other_nodes_run() -> None:
    """And what comes behind waits for its ticks."""
    stand = Stand(compiled=query(TICKS))
    stand.send(0, *(b'{"g": "a", "x": %d}' % number for number in range(100)))
    stand.send(7 * 24 * 3600, *(b'{"g": "close", "x": %d}' % number for number in range(100)))
    assert len(stand.acked) == 1
    assert stand.sink.counts == []
    stand.scheduler.advance(0)
    assert len(stand.acked) == 2
    assert stand.sink.counts == [(7 * 24 * 3600, 2)] * 100
    stand.node.drain()
    stand.node.end()
    assert stand.scheduler.timers == []


def test_the_age_of_the_oldest_window_is_known() -> None:
    stand = Stand()
    assert stand.node.oldest_seconds == 0
    stand.send(0, b'{"g": "a", "x": 1}')
    stand.scheduler.advance(4)
    stand.send(4, b'{"g": "b", "x": 1}')
    stand.scheduler.advance(3)
    assert stand.node.oldest_seconds == 7
    stand.scheduler.advance(3.5)  # the first has closed
    assert stand.node.oldest_seconds == 6.5
    stand.scheduler.advance(4)
    assert stand.node.oldest_seconds == 0
