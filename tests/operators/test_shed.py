"""qos::percentile and qos::backpressure: what a sink behind `out` does decides where the next events go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lang.world import assembled
from tests.operators.flows import LOST, Running, around
from walflow.cli.promises import promises

SHED = """
    define operator shed from {0} end;
    create operator shed;
    select event from in into shed;
    select event from shed into out;
    select event from shed/overflow into over;
"""
PERCENTILE = "qos::percentile with timeout = 1_000_000_000, step_down = 0.5, step_up = 0.25"
BACKPRESSURE = "qos::backpressure with timeout = 1_000_000_000, steps = [100, 1000]"
PAUSE = f'{BACKPRESSURE}, method = "pause"'


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Shedding(Running):
    def __init__(self, kind: str, *, started: bool = True) -> None:
        super().__init__(SHED.format(kind), ("out", "over"), started=started)
        self.out, self.over = self.sinks

    def slow(self, *values: object) -> None:
        """A block whose ack is late."""
        self.give(*values)
        self.world.scheduler.advance(1.5)
        self.out.ack()

    @property
    def stopped(self) -> bool:
        return self.source.gate.shut

    def gauge(self, name: str) -> float:
        [value] = [reading.value for reading in self.world.metrics.gauges() if reading.name == name]
        return value


@pytest.fixture(params=[PERCENTILE, BACKPRESSURE, PAUSE])
def any_kind(request: pytest.FixtureRequest) -> Iterator[Shedding]:
    flow = Shedding(request.param)
    yield flow
    flow.end()


def test_all_pass_while_acks_are_in_time(any_kind: Shedding) -> None:
    for number in range(20):
        any_kind.give(number)
        any_kind.world.scheduler.advance(0.9)
        any_kind.out.ack()
    assert any_kind.got == [list(range(20)), []]
    assert any_kind.outlet.inflight == 0
    assert not any_kind.stopped


def test_what_a_sink_fails_fails_upstream(any_kind: Shedding) -> None:
    any_kind.give(1, 2, 3)
    any_kind.out.fail(1)
    assert any_kind.got == [[1, 2, 3], []]
    assert any_kind.outlet.inflight == 0
    assert any_kind.world.count("lost_events_total") == 2


@pytest.mark.parametrize("kind", [PERCENTILE, BACKPRESSURE, PAUSE])
def test_the_source_waits_until_the_sinks_are_up_for_the_first_time(kind: str) -> None:
    flow = Shedding(kind, started=False)
    assert flow.stopped
    flow.over.start()
    assert flow.stopped
    flow.out.start()
    assert not flow.stopped
    flow.give(1)
    assert flow.got == [[1], []]
    flow.out.ack()
    flow.end()


@pytest.mark.parametrize("kind", [PERCENTILE, BACKPRESSURE])
def test_while_the_sink_is_away_all_leave_by_overflow_also_what_it_had(kind: str) -> None:
    flow = Shedding(kind)
    flow.give(1, 2)
    flow.out.node.trigger("away")
    assert not flow.stopped
    flow.give(3)
    flow.out.fail(1)
    assert flow.got == [[1, 2], [3, 2]]
    flow.over.ack()
    assert flow.outlet.inflight == 0
    assert flow.world.count("lost_events_total") == 0
    assert flow.world.count("overflow_events_total") == 2
    flow.end()


@pytest.mark.parametrize("kind", [PERCENTILE, BACKPRESSURE])
def test_where_overflow_is_away_the_source_waits_and_what_is_bound_for_it_is_held(kind: str) -> None:
    flow = Shedding(kind)
    flow.over.node.trigger("away")
    assert flow.stopped
    flow.out.node.trigger("away")
    flow.give(1)
    assert flow.gauge("held_events") == 1
    assert flow.got == [[], []]
    flow.over.node.restore()
    assert not flow.stopped
    assert flow.got == [[], [1]]
    flow.over.ack()
    flow.end()


@pytest.mark.parametrize("kind", [PERCENTILE, BACKPRESSURE])
def test_what_is_held_at_the_end_fails(kind: str) -> None:
    flow = Shedding(kind)
    flow.over.node.trigger("away")
    flow.out.node.trigger("away")
    flow.give(1)
    flow.end()
    assert flow.world.count("lost_events_total") == 1
    assert flow.world.scheduler.timers == []


def test_the_share_gets_smaller_with_what_is_late_and_grows_with_what_is_in_time() -> None:
    flow = Shedding(PERCENTILE)
    flow.slow(0)
    assert flow.gauge("passed_share") == 0.5
    flow.give(*range(10))
    assert flow.got == [[0, 0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    flow.out.ack()
    assert flow.gauge("passed_share") == 0.75
    flow.give(*range(10, 14))
    assert flow.got[0][-3:] == [10, 11, 12]
    flow.out.ack()
    assert flow.gauge("passed_share") == 1.0
    flow.over.ack()
    flow.end()


def test_a_share_of_single_events_is_right_in_the_sum() -> None:
    flow = Shedding(PERCENTILE)
    flow.slow(0)
    for number in range(10):
        flow.give(number)
    assert [len(got) for got in flow.got] == [6, 5]
    for sink in flow.sinks:
        sink.ack()
    flow.end()


def test_the_share_never_gets_to_nothing() -> None:
    flow = Shedding(PERCENTILE)
    for _ in range(5):
        flow.slow(*range(4))
    assert flow.gauge("passed_share") == 0.25
    assert len(flow.out.got) == 4 + 2 + 1 + 1 + 1
    flow.over.ack()
    flow.end()


def test_after_a_late_ack_nothing_passes_for_a_step_and_then_for_the_next() -> None:
    flow = Shedding(BACKPRESSURE)
    flow.slow(0)
    assert flow.gauge("backoff_seconds") == pytest.approx(0.1)
    flow.give(1)
    flow.world.scheduler.advance(0.11)
    flow.slow(2)
    assert flow.gauge("backoff_seconds") == pytest.approx(1.0)
    flow.give(3)
    flow.world.scheduler.advance(0.9)
    flow.give(4)
    flow.world.scheduler.advance(0.2)
    flow.slow(5)
    assert flow.gauge("backoff_seconds") == pytest.approx(1.0)  # there is no third step
    flow.world.scheduler.advance(1.1)
    flow.give(6)
    flow.out.ack()  # in time: it begins anew
    flow.slow(7)
    assert flow.gauge("backoff_seconds") == pytest.approx(0.1)
    assert flow.got == [[0, 2, 5, 6, 7], [1, 3, 4]]
    flow.over.ack()
    flow.end()


def test_an_ack_in_time_ends_a_back_off() -> None:
    flow = Shedding(BACKPRESSURE)
    flow.give(0)
    flow.give(1)
    flow.world.scheduler.advance(0.9)
    late = flow.out.waiting.pop(0)
    flow.world.scheduler.advance(0.2)
    flow.out.node.ack(late)
    flow.out.ack()  # late, too
    assert flow.gauge("backoff_seconds") == pytest.approx(1.0)
    flow.world.scheduler.advance(1.1)
    flow.give(2)
    flow.out.ack()
    assert flow.gauge("backoff_seconds") == 0
    flow.end()


def test_pause_stops_the_source_and_no_event_overflows() -> None:
    flow = Shedding(PAUSE)
    flow.slow(0)
    assert flow.stopped
    flow.give(1)  # was under way
    flow.world.scheduler.advance(0.11)
    assert not flow.stopped
    flow.out.node.trigger("away")
    assert flow.stopped
    flow.out.node.restore()
    assert flow.got == [[0, 1], []]
    flow.out.ack()
    flow.end()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (PERCENTILE, "what a sink behind `out` fails or acks late makes the share that it gets smaller"),
        (BACKPRESSURE, "while a sink behind `out` is slow or unavailable, events leave by `overflow`"),
        (PAUSE, "while a sink behind `out` is slow or unavailable, main::ticks waits"),
    ],
)
def test_check_says_which_sink_gets_what(kind: str, said: str) -> None:
    text = around(SHED.format(kind), ("out", "over"))
    assert promises(assembled(text)).stops == [f"main::ticks sends to to_out and to_over, by p/shed: {said}"]


def test_an_event_that_comes_again_may_take_the_other_way() -> None:
    flow = Shedding(PERCENTILE)
    flow.slow(0)
    flow.give(1, 2)
    failed = flow.out.waiting[0].receipt
    assert failed.delivered is None
    flow.over.ack()
    flow.out.fail()
    assert LOST is not None
    assert flow.world.count("lost_events_total") == 2  # upstream learns that none of the two is delivered for certain
    flow.end()
