"""The process: every connector running, signals, the drain, the exit code."""

import asyncio
import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

import structlog

from walflow.errors import DirectoryLocked, Misconfigured, Unavailable, WalflowError
from walflow.metrics import Metrics
from walflow.nodes.build import ConnectorNodes, build
from walflow.nodes.measures import DRAIN
from walflow.nodes.standstill import EVERY, Standstills
from walflow.plan import Assembly
from walflow.runtime.loop import Awake, LoopScheduler
from walflow.runtime.notify import Notifier
from walflow.runtime.runner import run_connector, where

DRAIN_SECONDS: Final = 10.0
START_SECONDS: Final = 30.0  # systemd is told after them that we run, whatever is not ready yet

EX_UNAVAILABLE: Final = 69
EX_SOFTWARE: Final = 70
EX_IOERR: Final = 74
EX_TEMPFAIL: Final = 75
EX_CONFIG: Final = 78

log = structlog.get_logger()


@dataclass(frozen=True)
class Settings:
    loop: Literal["uvloop", "asyncio"] = "uvloop"
    drain_seconds: float = DRAIN_SECONDS


Beside = Callable[["Daemon"], AbstractAsyncContextManager[object]]


def nothing_beside(daemon: "Daemon") -> AbstractAsyncContextManager[object]:
    return nullcontext()


def run(assembly: Assembly, settings: Settings, beside: Beside = nothing_beside) -> int:
    """Until a signal ends it. The exit code. `beside` is entered before the first connector runs and left after the
    last one has ended."""
    _raise_descriptor_limit()
    with asyncio.Runner(loop_factory=_loop_factory(settings.loop)) as runner:
        return runner.run(Daemon(assembly, settings, beside).run())


class Daemon:
    def __init__(self, assembly: Assembly, settings: Settings, beside: Beside = nothing_beside) -> None:
        self.assembly = assembly
        self.metrics = Metrics()
        self.connectors, self.operators = build(assembly, self.metrics)
        self.started = time.monotonic()
        self.standstills = Standstills(self.connectors, self.metrics)
        self._settings = settings
        self.on_reopen: list[Callable[[], None]] = []  # called on SIGHUP, after the connectors
        self._beside = beside
        self._notifier = Notifier.from_environment()
        self._said_ready = False
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def not_ready(self) -> list[str]:
        """A line each for what keeps the daemon from being ready; empty: it is."""
        stopping = ["the daemon is stopping"] if self.stopping else []
        return stopping + [
            f"{nodes.name} is {nodes.health.state}{': ' if nodes.health.reason else ''}{nodes.health.reason}"
            for nodes in self.connectors
            if not nodes.health.ready
        ]

    async def run(self) -> int:
        self._listen_to_signals()
        self._notify()
        try:
            async with self._beside(self):
                return await self._run()
        except Unavailable as error:
            die(error)
        finally:
            self._notifier.close()

    async def _run(self) -> int:
        awake = Awake()
        awake.beat()
        schedulers = self._begin_operators()
        tasks = {
            nodes.name: asyncio.create_task(
                run_connector(nodes, self.metrics, die, self.stop, awake), name=nodes.name
            )
            for nodes in self.connectors
        }
        log.info("running", connectors=len(tasks), pid=os.getpid())
        gc.collect()
        gc.freeze()  # what start-up made lives as long as the process; collections need not look at it again
        self._watch()
        await self._stop.wait()
        left = await self._drain()
        await self._end(tasks)
        for operator in self.operators:
            operator.node.end()
        for scheduler in schedulers:
            await scheduler.close()
        log.info("stopped", left=left, **self._totals())
        return 0

    def _watch(self) -> None:
        if not self.stopping:
            self.standstills.look()
            asyncio.get_running_loop().call_later(EVERY, self._watch)

    def _begin_operators(self) -> list[LoopScheduler]:
        schedulers = [LoopScheduler(operator.name) for operator in self.operators]
        try:
            for operator, scheduler in zip(self.operators, schedulers, strict=True):
                operator.node.begin(scheduler)
        except WalflowError as error:
            die(error)
        return schedulers

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_internal_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reopen)

    def _asked_to_stop(self) -> None:
        self.stop(graceful=not self.stopping)

    def stop(self, graceful: bool) -> None:
        """Drains, or ends at once; either way with exit code 0."""
        if not graceful:
            self._at_once.set()
        self._stop.set()
        self._notifier.say("STOPPING=1", "STATUS=draining")

    def _reopen(self) -> None:
        log.info("reopening files")
        self._notifier.reloading()
        for nodes in self.connectors:
            nodes.sink.reopen()
        for call in self.on_reopen:
            call()
        if self._said_ready:
            self._notifier.say("READY=1")

    def _notify(self) -> None:
        """Tells systemd how it goes from here on."""
        loop = asyncio.get_running_loop()
        for nodes in self.connectors:
            nodes.health.on_change = self._tell
        if self._notifier.watchdog is not None:
            self._feed_watchdog(self._notifier.watchdog / 2)
        loop.call_later(START_SECONDS, self._tell_ready)
        self._notifier.status("starting")

    def _feed_watchdog(self, every: float) -> None:
        """A timer of the loop: a loop that stands still does not feed the watchdog."""
        self._notifier.say("WATCHDOG=1")
        asyncio.get_running_loop().call_later(every, self._feed_watchdog, every)

    def _tell(self) -> None:
        if self.stopping:
            return
        lacking = self.not_ready()
        if not lacking:
            self._tell_ready()
        self._notifier.status(f"not ready: {'; '.join(lacking)}" if lacking else "ready")

    def _tell_ready(self) -> None:
        if self._said_ready or self.stopping:
            return
        self._said_ready = True
        lacking = self.not_ready()
        log.info("ready") if not lacking else log.warning("not ready", after_seconds=START_SECONDS, lacking=lacking)
        self._notifier.say("READY=1")

    async def _drain(self) -> int:
        """Stops reading, waits for what was read; what a log could not deliver in time stays in it."""
        log.info("draining", seconds=self._settings.drain_seconds)
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.drain_seconds
        logs = [nodes for nodes in self.connectors if nodes.source.transactional]
        others = [nodes for nodes in self.connectors if not nodes.source.transactional]
        self._shut(others)
        for operator in self.operators:
            operator.node.drain()
        halfway = clock() + self._settings.drain_seconds / 2
        await self._until(lambda: self._quiet(self.connectors) and not self._waiting(), halfway)
        self._shut(logs)
        await self._until(lambda: self._quiet(self.connectors), deadline)
        if not self._quiet(self.connectors):
            log.warning(
                "drain ended early", reason="asked to end at once" if self._at_once.is_set() else "time is up"
            )
        return self._waiting()

    def _shut(self, connectors: Sequence[ConnectorNodes]) -> None:
        for nodes in connectors:
            nodes.source.gate.trigger(DRAIN, "stopping")

    def _quiet(self, connectors: Sequence[ConnectorNodes]) -> bool:
        return all(nodes.source.outlet is None or nodes.source.outlet.quiet for nodes in connectors)

    def _waiting(self) -> int:
        return sum(nodes.source.outlet.waiting() for nodes in self.connectors if nodes.source.outlet is not None)

    async def _until(self, done: Callable[[], bool], deadline: float) -> None:
        """Looks every 5 ms: a drain is over once, and what it waits for has many causes."""
        clock = asyncio.get_running_loop().time
        while not done() and clock() < deadline and not self._at_once.is_set():  # noqa: ASYNC110  # see above
            await asyncio.sleep(0.005)

    async def _end(self, tasks: dict[str, "asyncio.Task[None]"]) -> None:
        """Sources first, so that nothing is sent to a sink that is gone."""
        for transactional in (False, True):
            ending = [tasks[nodes.name] for nodes in self.connectors if nodes.source.transactional is transactional]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        for nodes in self.connectors:
            nodes.sink.abandon()

    def _totals(self) -> dict[str, int]:
        totals: dict[str, int] = {}
        for name, _, value in self.metrics:
            if value:
                totals[name] = totals.get(name, 0) + value
        return totals


def _internal_error(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A bug of ours. Raised for a connection, it has cost that connection. Raised by any other call of the loop, nobody
    knows what is left undone: what is on disk is sound, so the process ends, and the next one begins there."""
    error = context.get("exception")
    at = where(error) if isinstance(error, BaseException) else ""
    log.error("internal error", error=repr(error or context.get("message")), at=at)
    log.debug("internal error", exc_info=error)
    if "handle" in context and isinstance(error, BaseException) and _is_ours(error):
        log.critical("fatal", error=f"internal error: {error!r}, in {at}", exit_code=EX_SOFTWARE)
        _exit(EX_SOFTWARE)


def _is_ours(error: BaseException) -> bool:
    """Raised within walflow, and not for a connection that has begun or ended."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(frame.f_code.co_name in ("connection_made", "connection_lost") for frame in frames):
        return False
    return any(str(frame.f_globals.get("__name__")).split(".")[0] in ("walflow", "connectors") for frame in frames)


EXIT_CODES: Final[dict[type[WalflowError], int]] = {
    DirectoryLocked: EX_TEMPFAIL,
    Misconfigured: EX_CONFIG,
    Unavailable: EX_UNAVAILABLE,
}


def die(error: WalflowError) -> NoReturn:
    """One line, and out, without a further word to anyone: nothing may be acked any more."""
    code = EXIT_CODES.get(type(error), EX_IOERR)
    log.critical("fatal", error=str(error), exit_code=code)
    _exit(code)


def _exit(code: int) -> NoReturn:
    if sys.stderr is not None:  # it was closed
        sys.stderr.flush()
    os._exit(code)


def _raise_descriptor_limit() -> None:
    """A connection is a descriptor; the soft limit of 1,024 is a default from the days of select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory(name: Literal["uvloop", "asyncio"]) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
