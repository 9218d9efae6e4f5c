"""What the runtime gives to one run of a connector, besides blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from walflow.contract import Counter, MetricValue, Scheduler
from walflow.errors import WalflowError
from walflow.metrics import BucketedValues, CountedValue


class Signal(Protocol):
    """asyncio.Event, or a fake of a test."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    async def wait(self) -> object: ...


class CounterOf(Protocol):
    def __call__(self, name: str, **labels: str) -> Counter: ...


class Gauge(Protocol):
    def __call__(self, name: str, read: Callable[[], float], **labels: str) -> None: ...


class HistogramOf(Protocol):
    def __call__(self, name: str, bounds: Sequence[float], **labels: str) -> BucketedValues: ...


def _nothing() -> None: ...
def _no_gauge(name: str, read: Callable[[], float], **labels: str) -> None: ...
def _raise(error: Exception) -> None:
    raise error


def _no_stop(graceful: bool) -> None: ...
def _unexplained(tell: Callable[[], str]) -> None: ...
def _no_metrics() -> Sequence[MetricValue]:
    return ()


def _unseen(name: str, bounds: Sequence[float], **labels: str) -> BucketedValues:
    return BucketedValues(bounds)


@dataclass(frozen=True)
class RunContext:
    """`up` is called when the run begins to take or to send events. `failed` is called when a function that the run
    gave away has raised. The connector is then run again."""

    scheduler: Scheduler
    log: FilteringBoundLogger
    counter: CounterOf
    fatal: Callable[[WalflowError], NoReturn]
    signal: Callable[[], Signal]
    gauge: Gauge = _no_gauge
    histogram: HistogramOf = _unseen
    up: Callable[[], None] = _nothing
    stop: Callable[[bool], None] = _no_stop
    failed: Callable[[Exception], None] = _raise
    metrics: Callable[[], Sequence[MetricValue]] = _no_metrics
    explain: Callable[[Callable[[], str]], None] = _unexplained


class RunHalf:
    """The part of the run's context that both halves of a connector have: `walflow.contract.Half`."""

    scheduler: Scheduler
    log: FilteringBoundLogger
    _context: RunContext

    def set_context(self, context: RunContext) -> None:
        self._context = context
        self.scheduler = context.scheduler
        self.log = context.log

    def explain(self, tell: Callable[[], str]) -> None:
        self._context.explain(tell)

    def counter(self, name: str, **labels: str) -> Counter:
        return self._context.counter(name, **labels)

    def gauge(self, name: str, read: Callable[[], float], **labels: str) -> None:
        self._context.gauge(name, read, **labels)

    def histogram(self, name: str, bounds: Sequence[float], **labels: str) -> BucketedValues:
        return self._context.histogram(name, bounds, **labels)

    def metrics(self) -> Sequence[MetricValue]:
        return self._context.metrics()

    def fatal(self, error: WalflowError) -> NoReturn:
        self._context.fatal(error)

    def stop(self, *, graceful: bool) -> None:
        self._context.stop(graceful)


def context_without_loop(scheduler: Scheduler) -> RunContext:
    """For nodes that no event loop runs, as in `walflow test` and in a filter.
    Nothing counts, and an error is raised."""
    return RunContext(scheduler, structlog.get_logger(), _uncounted, _raise_fatal, _UnawaitedSignal)


def _uncounted(name: str, **_: str) -> Counter:
    return CountedValue()


def _raise_fatal(error: WalflowError) -> NoReturn:
    raise error


class _UnawaitedSignal:
    """Nothing waits for it: what is due is called."""

    def set(self) -> None: ...

    def clear(self) -> None: ...

    async def wait(self) -> object: ...
