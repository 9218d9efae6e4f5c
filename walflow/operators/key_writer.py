"""Outcomes that are told once the keys of their events are on disk, after one sync for all that came meanwhile."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from walflow.contract import Scheduler
from walflow.errors import WalflowError
from walflow.one_job import OneJob
from walflow.operators.seen import SeenFile, SeenKeys
from walflow.receipt import Numbering, Receipt

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

RETRY: Final = 1.0  # seconds until keys are written again that could not be


class SharedOutcome(NamedTuple):
    """`receipt` joins the settled receipt `of`, which was about the same events, or about others with their keys."""

    receipt: Receipt
    of: Receipt
    link: Numbering


def tell(outcomes: Iterable[SharedOutcome]) -> None:
    for receipt, of, link in outcomes:
        receipt.join(of, link)


class KeyWriter:
    def __init__(self, file: SeenFile, seen: SeenKeys, scheduler: Scheduler, log: "FilteringBoundLogger") -> None:
        self._file = file
        self._seen = seen
        self._scheduler = scheduler
        self._log = log
        self._fresh: list[bytes] = []  # seen, and not on disk
        self._outcomes: list[SharedOutcome] = []  # that wait for them
        self._flying: list[SharedOutcome] = []  # whose keys are being written
        self._writes = OneJob(scheduler, self._take, self._written)

    def write(self, fresh: Sequence[bytes], outcomes: Sequence[SharedOutcome]) -> None:
        """Tells the outcomes once these keys are on disk."""
        self._fresh += fresh
        self._outcomes += outcomes
        self._writes.want()

    def _take(self) -> Callable[[], None] | None:
        if not self._outcomes:
            return None
        fresh, self._fresh = self._fresh, []
        self._flying, self._outcomes = self._outcomes, []
        if self._file.is_due(len(fresh)):
            return partial(self._file.write_anew, self._seen.keys())
        return partial(self._file.write, fresh)

    def _written(self, error: BaseException | None) -> float:
        outcomes, self._flying = self._flying, []
        if error is None:
            tell(outcomes)
            return 0.0
        # unsettled they stay, so the sources stop at their windows; the next write is of all keys
        self._log.error("keys not written", error=str(error), retry_seconds=RETRY)
        self._outcomes = [*outcomes, *self._outcomes]
        return RETRY

    def end(self, cause: WalflowError) -> None:
        """What is not written fails."""
        self._writes.stop()
        unwritten = [*self._flying, *self._outcomes]
        self._flying, self._outcomes = [], []
        for outcome in unwritten:
            outcome.receipt.fail(cause)
        self._scheduler.submit(self._file.close, lambda error: None)  # behind what the thread has in hand
