"""Runs one connector again and again. An error of a connector ends its run, never the daemon; the next run begins
after a backoff."""

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import structlog

from walflow.backoff import Backoff
from walflow.errors import DirectoryLocked, FailStop, Unusable, WalflowError
from walflow.metrics import BucketedValues, CountedValue, Metrics
from walflow.net import CannotListen
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.measures import DRAIN
from walflow.nodes.run_context import RunContext
from walflow.runtime.fatal import where
from walflow.runtime.jobs import LongJobs
from walflow.runtime.loop import Awake, LoopScheduler

FIRST_DELAY: Final = 0.1  # seconds before a connector that raised is run again
LONGEST_DELAY: Final = 10.0
STEADY: Final = 30.0  # after a run of so many seconds the backoff begins anew

FATAL: Final = (DirectoryLocked, FailStop, Unusable)  # another run would fail in the same way

Fatal = Callable[[WalflowError], NoReturn]
Stop = Callable[[bool], None]  # gracefully, or at once


def _no_stop(graceful: bool) -> None: ...


async def run_connector(
    nodes: ConnectorNodes,
    metrics: Metrics,
    fatal: Fatal,
    stop: Stop = _no_stop,
    awake: Awake | None = None,
    jobs: LongJobs | None = None,
) -> None:
    """Returns when the connector has finished. Raises only its cancellation."""
    backoff = Backoff(FIRST_DELAY, LONGEST_DELAY)
    clock = asyncio.get_running_loop().time
    log = structlog.get_logger(flow=nodes.plan.id.flow, component=nodes.plan.id.name)
    restarts = metrics.counter("restarts_total", **nodes.plan.labels)
    while True:
        started = clock()
        try:
            await _run_once(nodes, metrics, fatal, stop, awake, jobs)
            nodes.health.becomes("finished")
            log.debug("finished")
            return
        except FATAL as error:
            fatal(error)
        except asyncio.CancelledError:
            nodes.health.becomes("stopped")
            raise
        except Exception as error:  # noqa: BLE001  # an error of a connector ends only its own run
            if clock() - started > STEADY:
                backoff.reset()
            delay = backoff.next()
            nodes.sink.end(f"restarting: {_line(error)}")
            if nodes.sink.linked:
                nodes.sink.note_failure(_line(error))
            nodes.health.becomes("restarting", _line(error), cannot_listen=isinstance(error, CannotListen))
            restarts.value += 1
            log.error("connector failed", error=_line(error), retry_seconds=round(delay, 2))
        # An error knows the frames that raised it, and those know their blocks, which fail once nothing knows them.
        # Where the error is part of a ring, only the collector ends that, and in an idle daemon it may never come by
        # on its own.
        await asyncio.sleep(0)  # until then the loop knows what cancelled the run
        gc.collect()
        await asyncio.sleep(delay)


async def _run_once(
    nodes: ConnectorNodes, metrics: Metrics, fatal: Fatal, stop: Stop, awake: Awake | None, jobs: LongJobs | None
) -> None:
    labels = nodes.plan.labels
    gauges: list[tuple[str, dict[str, str]]] = []

    def counter(name: str, **own: str) -> CountedValue:
        return metrics.counter(name, **labels, **own)

    def gauge(name: str, read: Callable[[], float], **own: str) -> None:
        gauges.append((name, own))
        metrics.gauge(name, read, **labels, **own)

    def histogram(name: str, bounds: Sequence[float], **own: str) -> BucketedValues:
        return metrics.histogram(name, bounds, **labels, **own)

    task = asyncio.current_task()
    assert task is not None
    raised: list[Exception] = []  # by functions that the run gave to its scheduler
    ended = False

    def failed(error: Exception) -> None:
        log.error("internal error", error=_line(error), at=where(error))
        log.debug("internal error", exc_info=error)
        if not raised and not ended:
            task.cancel()
        raised.append(error)

    scheduler = LoopScheduler(nodes.name, awake, failed, jobs)
    log = structlog.get_logger(flow=nodes.plan.id.flow, component=nodes.plan.id.name)
    context = RunContext(
        scheduler,
        log,
        counter,
        fatal,
        asyncio.Event,
        gauge,
        histogram,
        nodes.health.up,
        stop,
        failed,
        metrics.values,
        nodes.health.explain,
    )
    nodes.sink.begin(context)
    outlet = nodes.source.begin(context)
    finished = False
    try:
        await nodes.plan.connector.run(nodes.sink, outlet)
        finished = True
    except asyncio.CancelledError:
        if raised and not task.uncancel():
            error = raised[0]
            raised.clear()  # the sink knows this run's `failed` until its next run begins
            raise error from None
        raise
    finally:
        ended = True
        for name, own in gauges:
            metrics.forget(name, **labels, **own)
        nodes.sink.end("stopped")
        await scheduler.close()
        outlet.end_turns()
        if not (finished or (DRAIN in nodes.source.gate.reasons and nodes.pushes)):
            nodes.source.end()  # else it waits for the outcome of its last events


def _line(error: BaseException) -> str:
    """One line for an operator. An exception of another library is named by its type."""
    text = str(error).splitlines()
    if isinstance(error, WalflowError | OSError) and text:
        return text[0]
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
