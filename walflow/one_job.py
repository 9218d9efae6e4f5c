"""Jobs of a scheduler's thread, one at a time: the next one does all that has come while the one before it ran."""

from collections.abc import Callable

from walflow.contract import Scheduler


class OneJob:
    """`take` is called on the loop and gives the next job; None if there is nothing to do. `ended` is called on the
    loop with the job's error. It returns how many seconds the next job must wait, for example after a full disk; 0:
    it is taken at once."""

    def __init__(
        self,
        scheduler: Scheduler,
        take: Callable[[], Callable[[], None] | None],
        ended: Callable[[BaseException | None], float],
    ) -> None:
        self.in_air = False
        self._scheduler = scheduler
        self._take = take
        self._ended = ended
        self._due = False  # a call of `_next` is under way: at once, after a wait, or when the job has ended
        self._stopped = False

    def want(self) -> None:
        """The next job is taken in the next turn of the loop, or after the present one and its wait."""
        if not self._due:
            self._due = True
            self._scheduler.call_soon(self._next)

    def stop(self) -> None:
        """No further job is taken. The one in the air goes on, and `ended` is called."""
        self._stopped = True

    def _next(self) -> None:
        job = None if self._stopped else self._take()
        if job is None:
            self._due = False
            return
        self.in_air = True
        self._scheduler.submit(job, self._job_ended)

    def _job_ended(self, error: BaseException | None) -> None:
        self.in_air = False
        wait = self._ended(error)
        if wait:
            self._scheduler.call_later(wait, self._next)
        else:
            self._next()
