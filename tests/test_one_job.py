"""One job in the air, whatever is wanted meanwhile; a wait after an error; nothing after a stop."""

from collections.abc import Callable

from walflow import OneJob
from walflow.testing import VirtualScheduler


class Work:
    """Items that are done in batches: a job takes all that are there."""

    def __init__(self, *errors: BaseException | None) -> None:
        self.scheduler = VirtualScheduler()
        self.scheduler.holding = True
        self.items: list[int] = []
        self.done: list[list[int]] = []
        self.ended: list[BaseException | None] = []
        self.one = OneJob(self.scheduler, self._take, self._ended)
        self._errors = list(errors)
        self._taken: list[int] = []

    def add(self, *items: int) -> None:
        self.items += items
        self.one.want()

    def _take(self) -> Callable[[], None] | None:
        if not self.items and not self._taken:
            return None
        self._taken, self.items = [*self._taken, *self.items], []
        return self._do

    def _do(self) -> None:
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error

    def _ended(self, error: BaseException | None) -> float:
        self.ended.append(error)
        if error is not None:
            return 5.0
        self.done.append(self._taken)
        self._taken = []
        return 0.0


def test_what_comes_while_a_job_runs_is_one_job() -> None:
    work = Work()
    work.add(1)
    work.add(2)
    assert (work.scheduler.in_air, work.one.in_air) == (0, False)  # not within the call
    work.scheduler.run()
    assert (work.scheduler.in_air, work.one.in_air) == (1, True)
    work.add(3)
    work.add(4)
    work.scheduler.run()
    assert work.scheduler.in_air == 1
    work.scheduler.work()
    assert (work.done, work.scheduler.in_air) == ([[1, 2]], 1)
    work.scheduler.work()
    assert (work.done, work.scheduler.in_air, work.one.in_air) == ([[1, 2], [3, 4]], 0, False)
    work.add(5)
    work.scheduler.run()
    work.scheduler.work()
    assert work.done[-1] == [5]


def test_after_an_error_the_next_job_waits_as_long_as_is_said() -> None:
    error = OSError("full")
    work = Work(error)
    work.add(1)
    work.scheduler.run()
    work.scheduler.work()
    assert (work.ended, work.done, work.scheduler.timers) == ([error], [], [5.0])
    work.add(2)  # wanted meanwhile: it waits too
    work.scheduler.run()
    assert work.scheduler.in_air == 0
    work.scheduler.advance(5)
    work.scheduler.work()
    assert work.done == [[1, 2]]


def test_after_a_stop_none_is_taken_and_the_one_in_the_air_ends() -> None:
    work = Work()
    work.add(1)
    work.scheduler.run()
    work.add(2)
    work.one.stop()
    work.scheduler.work()
    assert (work.done, work.scheduler.in_air, work.items) == ([[1]], 0, [2])
    work.add(3)
    work.scheduler.run()
    assert (work.scheduler.in_air, work.one.in_air) == (0, False)
