"""The time of a log, while the wall clock is set back and forward."""

from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.wal.tools import commit, read
from walflow.clock import SystemClock
from walflow.testing import MemoryDisk, VirtualClock, VirtualScheduler
from walflow.wal import Log, LogOptions
from walflow.wal.log_time import LogTime

SECOND: Final = 1_000_000_000
HOUR: Final = 3600.0
SECONDS: Final = st.floats(0, 2 * HOUR).map(lambda seconds: round(seconds, 6))


class Turned:
    """A log, or only its time, and the clock."""

    def __init__(self) -> None:
        self.scheduler = VirtualScheduler()
        self.clock = VirtualClock(self.scheduler)
        self.time = LogTime(self.clock, 0)

    def stamp(self) -> int:
        self.time.look()
        return self.time.stamp(self.clock.wall_ns())


@settings(max_examples=examples(400))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("passes"), SECONDS),
            st.tuples(st.just("turn"), st.floats(-2 * HOUR, 2 * HOUR)),
            st.tuples(st.just("restart"), SECONDS),
        ),
        max_size=30,
    )
)
def test_it_is_the_wall_clock_or_goes_on_with_the_monotonic_one(steps: list[tuple[str, float]]) -> None:
    """Over any jumps and restarts. While a log is closed, only the wall clock knows how long."""
    turned = Turned()
    last, at = turned.stamp(), turned.clock.monotonic_ns()
    for step, seconds in steps:
        if step == "turn":
            turned.clock.turn(seconds)
        else:
            turned.scheduler.advance(seconds)
        if step == "restart":
            at = turned.clock.monotonic_ns()
            turned.time = LogTime(turned.clock, last)
        stamp, now = turned.stamp(), turned.clock.monotonic_ns()
        assert stamp == max(turned.clock.wall_ns(), last + now - at)
        assert turned.time.now_ns() == stamp
        assert turned.time.lead_ns == stamp - turned.clock.wall_ns()
        last, at = stamp, now


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(SECONDS, st.floats(-2 * HOUR, 2 * HOUR), SECONDS), max_size=30))
def test_it_never_goes_back_nor_is_it_ahead_of_now(steps: list[tuple[float, float, float]]) -> None:
    """Whenever an event came in: before the clock was set, too."""
    turned = Turned()
    last = turned.stamp()
    for passes, turn, late in steps:
        received = turned.clock.wall_ns()
        turned.scheduler.advance(passes)
        turned.clock.turn(turn)
        turned.time.look()
        stamp = turned.time.stamp(received - round(late * SECOND))
        assert last <= stamp <= turned.time.now_ns()
        last = stamp


def test_a_thread_that_is_stopped_between_two_clocks_sees_no_lead() -> None:
    class Slow(VirtualClock):
        def wall_ns(self) -> int:
            scheduler.advance(0.5)
            now = super().wall_ns()
            scheduler.advance(0.5)
            return now

    scheduler = VirtualScheduler()
    time = LogTime(Slow(scheduler), 0)
    for _ in range(3):
        time.look()
        assert time.lead_ns == 0
        assert time.stamp(7) == 7


def test_the_machines_clocks_have_no_lead() -> None:
    time = LogTime(SystemClock(), 0)
    for _ in range(10_000):
        time.look()
        assert time.lead_ns < SECOND // 1000


def stamps(log: Log) -> list[float]:
    """In seconds from the first one."""
    times = [record.ingest_ns for record in read(log)]
    return [(time - times[0]) / SECOND for time in times]


def test_records_keep_their_distances_while_the_clock_is_behind() -> None:
    scheduler, disk = VirtualScheduler(), MemoryDisk()
    clock = VirtualClock(scheduler)
    log = Log(LogOptions("/log", 4096, 16), disk, clock)

    def put() -> None:
        log.append(b"", b"x", 1, clock.wall_ns())
        commit(log)

    put()
    clock.turn(-HOUR)
    for _ in range(3):
        scheduler.advance(0.5)
        put()
    assert stamps(log) == [0, 0.5, 1, 1.5]
    log.close()
    scheduler.advance(60)
    log = Log(LogOptions("/log", 4096, 16), disk, clock)
    assert log.time.lead_ns == 3540 * SECOND
    scheduler.advance(0.5)
    put()
    clock.turn(2 * HOUR)
    put()
    assert stamps(log) == [0, 0.5, 1, 1.5, 2, 2 + HOUR + 60]
    log.close()


@pytest.mark.parametrize("behind", [0.0, 5.0])
def test_an_event_that_is_older_is_stamped_as_the_last_one(behind: float) -> None:
    """A log upstream sends what came in long ago beside what comes now: that is no clock that was set."""
    turned = Turned()
    now = turned.stamp()
    turned.scheduler.advance(behind)
    turned.time.look()
    assert turned.time.stamp(now - SECOND) == now
    assert turned.time.lead_ns == 0


def test_stamps_that_were_ahead_when_they_came_move_too() -> None:
    """A log upstream whose lead is its own."""
    turned = Turned()
    ahead = turned.clock.wall_ns() + 3600 * SECOND
    assert turned.time.stamp(ahead) == ahead
    turned.time.look()
    turned.scheduler.advance(1)
    assert turned.stamp() == ahead + SECOND
    assert turned.time.stamp(ahead + SECOND) == ahead + SECOND
