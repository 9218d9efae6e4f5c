"""What one run of a connector is given besides blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from structlog.typing import FilteringBoundLogger

from walflow.contract import Counter, Scheduler
from walflow.errors import WalflowError
from walflow.metrics import Histogram


class Signal(Protocol):
    """asyncio.Event, or a test's."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    async def wait(self) -> object: ...


def _nothing() -> None: ...
def _no_gauge(name: str, read: Callable[[], float]) -> None: ...
def _no_stop(graceful: bool) -> None: ...
def _unseen(name: str, bounds: Sequence[float]) -> Histogram:
    return Histogram(bounds)


@dataclass(frozen=True)
class Surroundings:
    """`up`: the run has begun to take or to give."""

    scheduler: Scheduler
    log: FilteringBoundLogger
    counter: Callable[[str], Counter]
    fatal: Callable[[WalflowError], NoReturn]
    signal: Callable[[], Signal]
    gauge: Callable[[str, Callable[[], float]], None] = _no_gauge
    histogram: Callable[[str, Sequence[float]], Histogram] = _unseen
    up: Callable[[], None] = _nothing
    stop: Callable[[bool], None] = _no_stop
