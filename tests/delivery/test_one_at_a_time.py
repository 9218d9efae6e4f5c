"""One flush in the air, one more remembered, and what becomes of it on a full disk,
after a stop and after an error."""

from collections import deque
from collections.abc import Callable

import pytest

from walflow import Backoff, DiskFull, FailStop
from walflow.delivery.one_at_a_time import OneAtATime
from walflow.testing import Fatal, MemoryInlet, VirtualScheduler


class Job:
    def __init__(self, name: str) -> None:
        self.name = name
        self.flushed = 0
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return self.name

    def flush(self) -> None:
        self.flushed += 1
        if self.error is not None:
            raise self.error


class World:
    def __init__(self, *names: str, urgent: bool = False) -> None:
        self.scheduler = VirtualScheduler()
        self.scheduler.holding = True
        self.jobs = [Job(name) for name in names]
        self.left = deque(self.jobs)
        self.done: list[str] = []
        self.when_done: Callable[[Job], None] = lambda job: self.done.append(job.name)
        self.full: list[str] = []
        self.one = OneAtATime(
            MemoryInlet(self.scheduler),
            lambda: self.left.popleft() if self.left else None,
            lambda job: self.when_done(job),
            lambda error: self.full.append(str(error)),
            Backoff(0.1, 1.0, 2),
            urgent=urgent,
        )


def test_one_is_in_the_air_and_one_more_is_remembered_however_often_it_is_wanted() -> None:
    world = World("first", "second", "third")
    for _ in range(3):
        world.one.want()
    assert (world.scheduler.in_air, world.one.in_air) == (1, world.jobs[0])
    world.scheduler.work()
    assert (world.done, world.one.in_air) == (["first"], world.jobs[1])
    world.scheduler.work()
    assert (world.done, world.one.in_air, world.scheduler.in_air) == (["first", "second"], None, 0)


def test_the_next_may_be_wanted_before_what_the_last_one_did_is_told() -> None:
    world = World("first", "second")

    def done(job: Job) -> None:
        world.one.want()
        world.done.append(f"{job} while {world.one.in_air}")

    world.when_done = done
    world.one.want()
    world.scheduler.work()
    world.scheduler.work()
    assert world.done == ["first while second", "second while None"]


def test_where_there_is_nothing_to_do_nothing_is_in_the_air() -> None:
    world = World()
    world.one.want()
    assert (world.one.in_air, world.scheduler.in_air) == (None, 0)
    world.left.append(Job("later"))
    world.one.want()
    world.scheduler.work()
    assert world.done == ["later"]


def test_on_a_full_disk_the_same_one_is_flushed_again_at_growing_waits() -> None:
    world = World("first", "second")
    world.scheduler.holding = False
    world.jobs[0].error = DiskFull("no room")
    world.one.want()
    world.one.want()
    world.scheduler.advance(0.75)  # at 0, 0.1, 0.3 and 0.7 s
    assert (world.jobs[0].flushed, world.full, world.done) == (4, ["no room"] * 4, [])
    world.jobs[0].error = None
    world.scheduler.advance(0.8)
    assert (world.done, [job.flushed for job in world.jobs]) == (["first", "second"], [5, 1])
    assert world.scheduler.timers == []


def test_after_room_was_found_the_waits_are_short_again() -> None:
    world = World("first", "second")
    world.scheduler.holding = False
    for job in world.jobs:
        job.error = DiskFull("no room")
        world.one.want()
        world.scheduler.run()
        assert world.scheduler.timers == [pytest.approx(0.1)]
        job.error = None
        world.scheduler.advance(0.1)
    assert world.done == ["first", "second"]


@pytest.mark.parametrize("error", [FailStop("sync failed"), OSError(5, "Input/output error")])
def test_any_other_error_ends_the_process_and_nothing_is_done(error: Exception) -> None:
    world = World("first")
    world.jobs[0].error = error
    world.one.want()
    with pytest.raises(Fatal, match=r"sync failed|Input/output error"):
        world.scheduler.work()
    assert world.done == []


def test_a_stop_lets_the_one_in_the_air_end_and_begins_none() -> None:
    world = World("first", "second")
    world.one.want()
    world.one.want()
    world.one.stop()
    world.scheduler.work()
    assert (world.done, world.scheduler.in_air) == (["first"], 0)


def test_after_a_stop_nothing_is_tried_again() -> None:
    world = World("first")
    world.jobs[0].error = DiskFull("no room")
    world.one.want()
    world.scheduler.work()
    world.one.stop()
    world.scheduler.holding = False
    world.scheduler.advance(10)
    assert world.jobs[0].flushed == 1


def test_an_urgent_one_does_not_wait_for_what_is_not() -> None:
    world = World("first", "second", urgent=True)
    world.scheduler.submit(lambda: None, lambda error: world.done.append("a cursor"))
    world.one.want()
    world.scheduler.run()
    assert world.done == ["first"], "the cursor is still being written"
    world.jobs[1].error = DiskFull("no room")
    world.one.want()
    world.scheduler.run()
    assert (world.full, world.one.in_air) == (["no room"], world.jobs[1])
    world.jobs[1].error = None
    world.scheduler.advance(0.1)
    assert world.done == ["first", "second"]


def test_an_urgent_one_that_hangs_is_waited_for_by_the_next_one() -> None:
    world = World("first", "second", urgent=True)
    world.scheduler.hanging = True
    world.one.want()
    world.one.want()
    world.scheduler.run()
    assert (world.done, world.one.in_air) == ([], world.jobs[0])
    world.scheduler.hanging = False
    world.scheduler.run()
    assert (world.done, world.one.in_air) == (["first", "second"], None)
