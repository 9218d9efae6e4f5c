"""One flush of the log at a time, on the scheduler's thread."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from walflow.backoff import Backoff
from walflow.contract import Half
from walflow.errors import DiskFull, WalflowError


class Flushable(Protocol):
    """A commit, a sync or a checkpoint of the log."""

    def flush(self) -> None: ...


F = TypeVar("F", bound=Flushable)


class OneAtATime(Generic[F]):
    """`take` gives the next one, None where there is nothing to do; `done` is called on the loop once it is on disk.

    On a full disk `full` is told, and the same one is flushed again after `backoff`: it promised nothing yet. Any
    other error ends the process. `urgent`: see `walflow.contract.Scheduler.submit`."""

    def __init__(
        self,
        half: Half,
        take: Callable[[], F | None],
        done: Callable[[F], None],
        full: Callable[[DiskFull], None],
        backoff: Backoff,
        *,
        urgent: bool = False,
    ) -> None:
        self.in_air: F | None = None
        self._half = half
        self._take = take
        self._done = done
        self._full = full
        self._backoff = backoff
        self._urgent = urgent
        self._wanted = False  # one more, when the one in the air has ended
        self._stopped = False

    def want(self) -> None:
        """One is taken now, or when the one in the air has ended."""
        if self.in_air is not None:
            self._wanted = True
        elif not self._stopped:
            self._wanted = False
            self.in_air = flush = self._take()
            if flush is None:
                return
            self._half.scheduler.submit(flush.flush, self._ended, urgent=self._urgent)

    def stop(self) -> None:
        """None is begun or tried again any more; the one in the air goes on."""
        self._stopped = True

    def _ended(self, error: BaseException | None) -> None:
        flush = self.in_air
        assert flush is not None
        if isinstance(error, DiskFull):
            self._full(error)
            self._half.scheduler.call_later(self._backoff.next(), self._again)
            return
        if error is not None:
            self._half.fatal(error if isinstance(error, WalflowError) else WalflowError(repr(error)))
        if self._backoff.failures:
            self._backoff.reset()
        self.in_air = None
        self._done(flush)  # which may want the next one before it does anything else
        if self._wanted:
            self.want()

    def _again(self) -> None:
        if self.in_air is not None and not self._stopped:
            self._half.scheduler.submit(self.in_air.flush, self._ended, urgent=self._urgent)
