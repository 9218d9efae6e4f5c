"""The process: it runs all connectors, handles signals, and ends."""

import asyncio
import os
import resource
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR2
from typing import Final, Literal

import structlog

from walflow.errors import Unavailable, WalflowError
from walflow.exit_codes import EX_UNAVAILABLE
from walflow.metrics import Metrics
from walflow.nodes.build import build
from walflow.nodes.connector import ConnectorNodes
from walflow.nodes.standstill import EVERY, Standstills
from walflow.plan import Assembly, ConnectorPlan
from walflow.plan.written import changed_files
from walflow.runtime.drain import drain, settle
from walflow.runtime.fatal import die, on_internal_error
from walflow.runtime.handover.messages import Description
from walflow.runtime.handover.predecessor import Predecessor
from walflow.runtime.handover.reload import Reload
from walflow.runtime.handover.successor import Launch, Successor
from walflow.runtime.jobs import LongJob, LongJobs
from walflow.runtime.loop import Awake, LoopScheduler
from walflow.runtime.notify import Notifier
from walflow.runtime.process import DaemonProcess, OwnProcess
from walflow.runtime.readiness import START_SECONDS, Readiness
from walflow.runtime.runner import run_connector
from walflow.world import handover, monotonic

DRAIN_SECONDS: Final = 10.0
AT_EACH_END: Final = {f"{what}_{of}_total" for what in ("received", "acked") for of in ("events", "bytes")}

HANGS: Final = 5.0  # seconds that a job gets, before a handover is given up
QUICK: Final = 0.5  # seconds: a job under way for less is not waited for
STOPS: Final = (SIGTERM, SIGINT)
FORWARDED: Final = (SIGTERM, SIGINT, SIGHUP, SIGUSR2)  # to the next process, while this one waits for it
ERRORS: Final = ("failed_events_total", "rejected_events_total", "lost_events_total")

log = structlog.get_logger()


@dataclass(frozen=True)
class Settings:
    loop: Literal["uvloop", "asyncio"] = "uvloop"
    drain_seconds: float = DRAIN_SECONDS
    flush: bool = False
    start_seconds: float = START_SECONDS


Beside = Callable[["Daemon"], AbstractAsyncContextManager[object]]


def nothing_beside(daemon: "Daemon") -> AbstractAsyncContextManager[object]:
    return nullcontext()


def run(
    assembly: Assembly,
    settings: Settings,
    beside: Beside = nothing_beside,
    launch: Launch | None = None,
    predecessor: Predecessor | None = None,
) -> int:
    """Runs until a signal ends it, or another process has taken over. Returns the exit code. `beside` is entered
    before the first connector runs, and left after the last one has ended. `launch`: of the next process; None:
    there is none."""
    _raise_descriptor_limit()
    notifier = Notifier.from_environment()
    with asyncio.Runner(loop_factory=_loop_factory(settings.loop)) as runner:
        try:
            daemon = partial(Daemon, assembly, settings, beside, notifier=notifier, launch=launch)
            return runner.run(run_and_hand_over(daemon, predecessor, notifier.say))
        finally:
            notifier.close()


async def run_and_hand_over(
    make: Callable[..., "Daemon"], predecessor: Predecessor | None = None, say: Callable[[str], bool] = bool
) -> int:
    """One run, and another one for each process that was to take over and ended. `make`: a daemon for each run, with
    `predecessor`. `say`: to the service manager."""
    reload = predecessor.reload if predecessor is not None else None
    while True:
        daemon = make(predecessor=predecessor)
        daemon.reload = reload
        code = await daemon.run()
        if daemon.successor is None or await _hands_over(daemon.successor, say):
            return code
        predecessor, reload = None, daemon.reload


async def _hands_over(successor: Successor, say: Callable[[str], bool]) -> bool:
    """False: the next process has ended, and this one goes on."""
    if successor.told in STOPS:  # as this one had not stopped yet: nothing takes over
        await successor.end()
        return True
    if await successor.switch(say) or successor.told in STOPS:
        return True
    handover().leaving = False
    successor.go_back()
    return False


class Daemon:
    """The functions in `on_reopen` are called on SIGHUP, after the connectors have reopened their files. Its disk,
    its clocks and its chance are those of the `World` that it is made and run in. `jobs`: its threads."""

    def __init__(
        self,
        assembly: Assembly,
        settings: Settings,
        beside: Beside = nothing_beside,
        process: DaemonProcess | None = None,
        jobs: LongJobs | None = None,
        *,
        notifier: Notifier | None = None,
        launch: Launch | None = None,
        predecessor: Predecessor | None = None,
    ) -> None:
        self.reload: Reload | None = None  # the last one
        self.describe: Callable[[], Description] | None = None  # what runs here, for the next process to compare
        self.successor: Successor | None = None  # once it takes over
        self._launch = launch
        self._predecessor = predecessor
        self._handover = handover()
        self._reloading: asyncio.Task[None] | None = None
        self.over = False  # all that ran is closed
        self.assembly = assembly
        self.metrics = Metrics()
        self.nodes = build(assembly, self.metrics, flushes=settings.flush)
        self.started = monotonic()
        self.jobs = jobs or LongJobs()
        self._process = process or OwnProcess(settled=predecessor is not None)
        self._die = partial(die, self._process)
        for nodes in self.nodes.connectors:
            self.jobs.measure(nodes.name, self.metrics, nodes.plan.labels)
        self.standstills = Standstills(self.nodes.connectors, self.metrics, self.jobs.now)
        self.on_reopen: list[Callable[[], None]] = []
        self._settings = settings
        self._beside = beside
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._exit_code = 0
        self.readiness = Readiness(
            self.nodes.connectors,
            self._stop,
            self._start_failed,
            settings.start_seconds,
            notifier,
            predecessor.lacking if predecessor is not None else frozenset(),
        )

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    async def run(self) -> int:
        self._listen_to_signals()
        if self._predecessor is not None:
            self._predecessor.watch(self._errors, self._die)
            self.readiness.on_serving = self._predecessor.serves
        else:
            self.readiness.on_serving = self._handover.drop  # what a run before has kept, and this one does not want
        self.readiness.begin()
        try:
            async with self._beside(self):
                return await self._run()
        except Unavailable as error:
            self._die(error)
        finally:
            self.readiness.end()
            if self.successor is None:
                self._process.ignore()
            else:  # from now on they are for the next process
                self._process.listen({number: partial(self.successor.tell, number) for number in FORWARDED})

    async def _run(self) -> int:
        awake = Awake()
        awake.beat()
        schedulers = self._begin_operators()
        tasks = {
            nodes.name: asyncio.create_task(
                run_connector(nodes, self.metrics, self._die, self.stop, awake, self.jobs), name=nodes.name
            )
            for nodes in self.nodes.connectors
        }
        log.info("running", connectors=len(tasks), pid=os.getpid())
        self._process.has_started()
        self._watch()
        await self._stop.wait()
        seconds, clock = self._settings.drain_seconds, asyncio.get_running_loop().time
        begun = clock()
        left = await drain(self.nodes, seconds, self._at_once, leaving=self.successor is not None)
        await self._end(tasks, begun + seconds - clock())
        for operator in self.nodes.operators:
            operator.node.end()
        for scheduler in schedulers:
            await scheduler.close()
        self.over = True
        log.info("stopped", left=left, **totals(self.metrics, self.assembly.connectors))
        return self._exit_code

    def _errors(self) -> int:
        return sum(value for name, _, value in self.metrics if name in ERRORS)

    def _watch(self) -> None:
        if not self.stopping or (self.successor is not None and not self.over):
            self.jobs.look()
            self.standstills.look()
            asyncio.get_running_loop().call_later(EVERY, self._watch)

    def _begin_operators(self) -> list[LoopScheduler]:
        schedulers = [LoopScheduler(operator.name, jobs=self.jobs) for operator in self.nodes.operators]
        try:
            for operator, scheduler in zip(self.nodes.operators, schedulers, strict=True):
                operator.node.begin(scheduler)
        except WalflowError as error:
            self._die(error)
        return schedulers

    def _listen_to_signals(self) -> None:
        asyncio.get_running_loop().set_exception_handler(partial(on_internal_error, self._process))
        self._process.listen(
            {
                SIGTERM: self._told_to_stop,
                SIGINT: self._told_to_stop,
                SIGHUP: self._reopen,
                SIGUSR2: self._told_to_reload,
            }
        )

    def _start_failed(self) -> None:
        self._exit_code = EX_UNAVAILABLE
        self.stop(graceful=True)

    def _told_to_stop(self) -> None:
        """The second time, at once. One that leaves stops as any other: it hands nothing on any more."""
        graceful = not self.stopping
        if self.successor is not None:
            graceful = self.successor.told is None
            self.successor.told = SIGTERM
            self._handover.leaving = False
        self.stop(graceful)

    def stop(self, graceful: bool) -> None:
        """Begins the end: `graceful` drains first.
        The exit code is the same in both cases, and 0 unless the start failed."""
        if not graceful:
            self._at_once.set()
        self._stop.set()
        self.readiness.stopping()

    def _told_to_reload(self) -> None:
        """Who may send a signal may do that: the same user, and root."""
        refusal = self.begin_reload(Reload.new("SIGUSR2"))
        if refusal:
            log.error("reload failed", by="SIGUSR2", reason=refusal)

    def begin_reload(self, reload: Reload) -> str:
        """The next process is started. Returns why not, or ""."""
        if self._launch is None or self.describe is None:
            return "this daemon cannot be reloaded: it has no --admin, by which the next process knows what runs here"
        running = self.describe()
        if self.stopping or (self.reload is not None and not self.reload.over):
            return "the daemon is stopping" if self.stopping else "a reload is under way"
        self.reload = reload
        log.info("reload", number=reload.number, by=reload.by, dry_run=reload.dry)
        self._reloading = asyncio.create_task(self._reload(reload, running), name="reload")
        return ""

    async def _reload(self, reload: Reload, running: Description) -> None:
        assert self._launch is not None
        while self._handover.watched:  # noqa: ASYNC110  # some seconds, after a reload
            await asyncio.sleep(0.02)
        successor = Successor(reload, self._launch, self._handover)
        if await successor.check(running) and not reload.dry and not self.stopping:
            hanging = await self._hanging()
            if hanging is None and not self.stopping:
                self._leave_to(successor)
                return
            if hanging is not None:
                successor.refuse(f"{hanging}: the log cannot be closed")
        if reload.dry and reload.phase != "failed":
            reload.phase = "checked"
        await successor.end()
        successor.drop()

    def _leave_to(self, successor: Successor) -> None:
        self.successor = successor
        successor.keep()
        self._handover.leaving = True
        self._stop.set()
        self.readiness.leaving()

    async def _hanging(self) -> LongJob | None:
        """A job that does not end, which a stop would wait for. All others have some seconds."""
        deadline = monotonic() + HANGS
        while (job := self.jobs.longest()) is not None and job.seconds > QUICK:
            if monotonic() > deadline:
                return job
            await asyncio.sleep(QUICK / 4)
        return None

    def _reopen(self) -> None:
        log.info("reopening files")
        with self.readiness.reloading():
            for nodes in self.nodes.connectors:
                nodes.sink.reopen()
            for call in self.on_reopen:
                call()
        for name in changed_files(self.assembly.sources):
            log.warning(
                "flow file has changed since the start",
                file=name,
                advice="`walflow reload` applies it; with `--dry-run` it shows what that changes",
            )

    async def _end(self, tasks: dict[str, "asyncio.Task[None]"], seconds: float) -> None:
        """Ends pushing sources first. An event that one of them breaks off is rejected, and gets `seconds` to reach
        what is linked to err. Logs come last: they are told what the sinks have taken."""
        order: list[list[ConnectorNodes]] = [[], [], []]
        for nodes in self.nodes.connectors:
            order[2 if nodes.source.transactional else 0 if nodes.pushes else 1].append(nodes)
        for ending in order:
            for nodes in ending:
                tasks[nodes.name].cancel()
            await asyncio.gather(*(tasks[nodes.name] for nodes in ending), return_exceptions=True)
            if ending is order[0]:
                await settle(self.nodes, seconds, self._at_once, leaving=self.successor is not None)
                for nodes in ending:
                    nodes.source.end()
        for nodes in self.nodes.connectors:
            nodes.sink.abandon()


def totals(metrics: Metrics, connectors: Sequence[ConnectorPlan]) -> dict[str, int]:
    """The sum of each counter that is not 0. Of what is received and acked, logs and buffers are left out: each of
    them would count an event again."""
    inner = [plan.labels for plan in connectors if plan.connector.traits.forwards]
    sums: dict[str, int] = {}
    for name, labels, value in metrics:
        if value and not (name in AT_EACH_END and labels in inner):
            sums[name] = sums.get(name, 0) + value
    return sums


def _raise_descriptor_limit() -> None:
    """Each connection is a descriptor. The soft limit of 1,024 exists only for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _loop_factory(name: Literal["uvloop", "asyncio"]) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop
