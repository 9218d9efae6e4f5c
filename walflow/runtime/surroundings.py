"""What one run of a connector is given besides blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

from structlog.typing import FilteringBoundLogger

from walflow.contract import Counter, Scheduler
from walflow.errors import WalflowError


class Signal(Protocol):
    """asyncio.Event, or a test's."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    async def wait(self) -> object: ...


@dataclass(frozen=True)
class Surroundings:
    scheduler: Scheduler
    log: FilteringBoundLogger
    counter: Callable[[str], Counter]
    fatal: Callable[[WalflowError], NoReturn]
    signal: Callable[[], Signal]
