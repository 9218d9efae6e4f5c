"""A log while the wall clock is set: what its windows, its gauges and its lines say."""

import pytest

from connectors.wal import Wal
from tests.delivery.apart import Apart
from tests.delivery.test_lanes import pipeline
from tests.delivery.whole import Whole
from walflow.testing import MemoryDisk

HOUR = 3600.0
CONFIG = Wal(path="/log", chunk_size=65536, max_chunks=8)
RESULTS = "p/results/out"
WINDOWS = (
    pipeline(
        (
            'define window w from tumbling with interval = 1_000_000_000 end; select {"n": '
            "aggr::stats::count()} from in[w] into out;"
        ),
        into="out",
    )
    + "connect /pipeline/p/out to /connector/near;"
)


@pytest.mark.parametrize("turn", [0.0, -0.05, -HOUR])
def test_windows_behind_a_log_keep_their_length_when_the_clock_is_set_back(turn: float) -> None:
    """Ten events a second, windows of a second."""
    flow = Apart(WINDOWS, ["near", RESULTS], away=["near"])
    for number in range(60):
        if number == 25:
            flow.clock.turn(turn)
        flow.give(number, ingest_ns=flow.clock.wall_ns())
        flow.ack(RESULTS)
        flow.scheduler.advance(0.1)
        flow.ack(RESULTS)
    assert flow.sinks[RESULTS].got[:5] == [{"n": 10}] * 5
    flow.close()


def test_a_clock_that_is_set_forward_closes_the_window_that_is_open() -> None:
    flow = Apart(WINDOWS, ["near", RESULTS], away=["near"])
    for number in range(25):
        if number == 15:
            flow.clock.turn(HOUR)
        flow.give(number, ingest_ns=flow.clock.wall_ns())
        flow.ack(RESULTS)
        flow.scheduler.advance(0.1)
        flow.ack(RESULTS)
    assert flow.sinks[RESULTS].got == [{"n": 10}, {"n": 5}]
    flow.close()


def test_the_lead_is_a_gauge_and_two_lines() -> None:
    whole = Whole(CONFIG, MemoryDisk())
    give(whole)
    whole.clock.turn(-0.5)
    give(whole)
    assert whole.gauge("wal_clock_lead_seconds") == 0.5
    assert whole.inlet.logged == []
    whole.clock.turn(-30)
    assert whole.gauge("wal_clock_lead_seconds") == 30.5
    give(whole)
    give(whole)
    whole.scheduler.advance(100)
    give(whole)
    assert whole.gauge("wal_clock_lead_seconds") == 30.5
    whole.clock.turn(31)
    give(whole)
    assert whole.gauge("wal_clock_lead_seconds") == 0
    assert [(one["event"], one.get("lead_seconds")) for one in whole.inlet.logged] == [
        ("log time is ahead of the clock, which was set back", 30.5),
        ("log time is the clock's again", None),
    ]
    whole.ack_all()
    whole.close()


def test_a_lead_of_more_than_an_hour_is_a_warning_also_at_a_start() -> None:
    whole = Whole(CONFIG, MemoryDisk())
    give(whole)
    whole.ack_all()
    whole.close()
    again = Whole(CONFIG, whole.disk, whole.clock.wall_ns() - 2 * 3600 * 10**9)
    (line,) = again.inlet.logged
    assert (line["level"], line["lead_seconds"]) == ("warning", 7200)
    again.scheduler.advance(600)
    give(again)
    assert again.gauge("wal_clock_lead_seconds") == 7200, "only a clock that is set, or a pause, makes it less"
    assert len(again.inlet.logged) == 1
    again.ack_all()
    again.close()
    later = Whole(CONFIG, whole.disk, again.clock.wall_ns() + 3 * 3600 * 10**9)
    assert later.gauge("wal_clock_lead_seconds") == 0
    later.close()


def give(whole: Whole) -> None:
    block = whole.inlet.lines_of(b"1")
    block.ingest_ns = whole.clock.wall_ns()
    whole.inlet.give(block)
    whole.scheduler.run()
