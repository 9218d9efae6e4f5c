"""One process of a daemon: from its start until it has ended, was killed, or the power was cut.

All that runs for it runs in a context that knows it. So a kill finds what it has under way: calls and timers of the
loop, which are taken from it; jobs, whose calls of the disk never return; tasks, which are closed and must not do
anything more: a disk and ends that are asked for it answer `Killed`.
"""

import asyncio
import contextvars
import gc
import signal
import warnings
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, NoReturn
from weakref import WeakSet

from structlog.typing import EventDict

from walflow.plan import Assembly
from walflow.runtime.daemon import Daemon, Settings, run_and_hand_over
from walflow.runtime.handover.channel import ChannelClosed
from walflow.runtime.handover.messages import Description
from walflow.runtime.handover.predecessor import Predecessor
from walflow.runtime.handover.reload import Reload
from walflow.runtime.handover.successor import Launch
from walflow.runtime.jobs import Ended, LongJobs
from walflow.testing.simulation.loop import ErrorHandler, SetAside, SimulatedLoop
from walflow.testing.simulation.strands import Killed, StrandWorker
from walflow.world import World, enter

CHECKS: Final = 1000  # times as long as a thread waits for a processor: until a flow is compiled
CLOSES: Final = 20  # times a coroutine may await once more when it is closed

_running: ContextVar["Life | None"] = ContextVar("life", default=None)


def now_running() -> "Life | None":
    """The process that calls; None: it is the story."""
    return _running.get()


class Life:
    """`exit_code`: None while it runs, and after a kill. `lines`: what it has logged. `daemon`: None until its flows
    begin, and once it is gone."""

    def __init__(
        self,
        loop: SimulatedLoop,
        world: World,
        assembly: Assembly,
        settings: Settings,
        wait: Callable[[], float],
        pid: int,
    ) -> None:
        """`begin` starts it."""
        self.loop = loop
        self.pid = pid
        self.assembly = assembly
        self.daemon: Daemon | None = None
        self.launch: Launch | None = None  # of the process that takes over
        self.next_assembly: Assembly | None = None  # that it is to run; None: the same
        self.locks = world.handover.locks
        self.alive = True
        self.exit_code: int | None = None
        self.lines: list[EventDict] = []
        self.counted: dict[str, int] | None = None  # what its counters came to, once it is gone
        self.ended = asyncio.Event()
        self.on_gone: list[Callable[[], None]] = []  # called as it ends, so that its peers let go of its blocks
        self.on_go_on: list[Callable[[], None]] = []
        self.on_error: ErrorHandler | None = None
        self._settings = settings
        self._counted_before: dict[str, int] = {}  # by runs that ended as another process was to take over
        self._wait = wait
        self._workers: list[StrandWorker] = []
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.stopped: SetAside | None = None  # by SIGSTOP, and what waits for SIGCONT
        self._deferred: list[Callable[[], object]] = []  # what acted on it meanwhile
        self._told: Mapping[signal.Signals, Callable[[], None]] = {}
        self._story = contextvars.copy_context()
        self._context = contextvars.copy_context()
        self._context.run(self._enter, world)

    def __repr__(self) -> str:
        state = "alive" if self.alive else "gone" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"<Life {state}, {len(self._tasks)} tasks>"

    def _enter(self, world: World) -> None:
        _running.set(self)
        enter(world)  # what comes from outside later runs in this context, too

    def begin(self, predecessor: Callable[[], Predecessor] | None = None) -> None:
        """`predecessor`: from which it takes over."""
        self._context.run(self._begin, predecessor)

    def _begin(self, predecessor: Callable[[], Predecessor] | None) -> None:
        self._main = self.loop.create_task(self._run(None if predecessor is None else predecessor()))

    async def _run(self, predecessor: Predecessor | None) -> None:
        begins = predecessor is None or await self._takes_over(predecessor)
        self.exit_code = await run_and_hand_over(self._daemon, predecessor) if begins else 0
        self._story.copy().run(self.loop.call_soon, self.kill)

    async def _takes_over(self, predecessor: Predecessor) -> bool:
        """As `walflow run` does it. What it finds in the flow is nothing: it was compiled for the story."""
        try:
            await predecessor.meet()
        except ChannelClosed:
            return False
        await asyncio.sleep(self._wait() * CHECKS)
        return await predecessor.checked([], "")

    def _daemon(self, predecessor: Predecessor | None) -> Daemon:
        self._counted_before = self.counts()
        jobs = LongJobs(self._worker)
        self.daemon = made = Daemon(
            self.assembly, self._settings, process=self, jobs=jobs, launch=self.launch, predecessor=predecessor
        )
        made.describe = lambda: Description(
            None, None, [one.name for one in made.nodes.connectors if not one.health.ready]
        )
        return made

    def reload(self) -> str:
        """Another process is to take over. Returns why not, or ""."""
        daemon = self.daemon
        if daemon is None or not self.alive:
            return "it is not there"
        return self._context.run(lambda: daemon.begin_reload(Reload.new("the story")))

    def check(self) -> None:
        """Raises Killed where it is over: nothing that it does reaches the world."""
        if not self.alive:
            raise Killed

    def tell(self, number: signal.Signals) -> None:
        """A signal. What it does not listen to yet, or no longer, ends it at once."""
        if self.stopped is not None:
            self._deferred.append(lambda: self.tell(number))
        elif self.alive and number in self._told:
            self._context.copy().run(self.loop.call_soon, self._told[number])
        elif self.alive:
            self.kill()

    def kill(self) -> None:
        """SIGKILL. Nothing of it runs afterwards: receipts that nobody settles any more fail as they are collected,
        and that is here, where nothing comes of it."""
        if self.counted is not None:
            return
        self.counted = self.counts()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            self._kill()
        self.ended.set()

    def _kill(self) -> None:
        self.alive = False
        self.stopped = None
        self._deferred.clear()
        for worker in self._workers:
            worker.kill()
        self.loop.drop(self._is_its)
        closed: set[asyncio.Task[Any]] = set()
        while rest := set(self._tasks) - closed:  # what is closed may begin others
            for task in rest:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is destroyed on purpose
                self._context.run(_close, task.get_coro())
            closed |= rest
        for forget in self.on_gone:
            forget()
        self.loop.drop(self._is_its)
        self.daemon = None
        del self._main
        self._told, self.on_error = {}, None
        self._workers.clear()
        self.on_gone.clear()
        self.on_go_on.clear()
        self._context.run(gc.collect)

    def _is_its(self, context: contextvars.Context | None) -> bool:
        return context is not None and context.get(_running) is self

    def handle(self, handler: ErrorHandler, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._context.copy().run(handler, loop, context)

    def counts(self) -> dict[str, int]:
        """Its counters, each summed over all components."""
        if self.counted is not None:
            return self.counted
        found = dict(self._counted_before)
        for name, _, value in self.daemon.metrics if self.daemon is not None else ():
            found[name] = found.get(name, 0) + value
        return found

    def run(self, call: Callable[[], object]) -> None:
        """Something outside acts on it: a packet comes, a peer goes away."""
        if self.stopped is not None:
            self._deferred.append(lambda: self.run(call))
        elif self.alive:
            self._context.copy().run(call)

    def stop(self) -> None:
        """SIGSTOP: it does nothing, and the kernel does for it what it does."""
        if self.alive and self.stopped is None:
            self.stopped = self.loop.set_aside(self._is_its)

    def go_on(self) -> None:
        """SIGCONT."""
        stopped, self.stopped = self.stopped, None
        if stopped is None or not self.alive:
            return
        self.loop.put_back(stopped)
        for tell in self.on_go_on:
            tell()
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call()

    def add_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.add(task)
        if not self.alive:  # it begins as the process goes
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is destroyed on purpose
            task.get_coro().close()

    def _worker(self, name: str, loop: asyncio.AbstractEventLoop, ended: Ended) -> StrandWorker:
        worker = StrandWorker(name, loop, ended, self._wait)
        if not self.alive:  # a task that is closed asks for it: its thread would wait for ever, and keep the story
            worker.kill()
        self._workers.append(worker)
        return worker

    # walflow.runtime.process.Process

    def listen(self, told: Mapping[signal.Signals, Callable[[], None]]) -> None:
        self._told = told

    def ignore(self) -> None:
        self._told = {}

    def has_started(self) -> None: ...

    def end(self, code: int) -> NoReturn:
        self.exit_code = code
        self.alive = False
        self._story.copy().run(self.loop.call_soon, self.kill)
        raise Killed


def _close(coroutine: Coroutine[Any, Any, Any] | Any) -> None:
    """Unwinds it where it stands. What it awaits on the way never comes."""
    try:
        for _ in range(CLOSES):
            coroutine.throw(Killed())
    except BaseException:  # noqa: BLE001  # it has ended, and nobody asks how
        return


class Lives:
    """`walflow.testing.simulation.loop.Owners`."""

    def task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any],
        context: contextvars.Context | None = None,
    ) -> "asyncio.Task[Any]":
        made = asyncio.Task(coroutine, loop=loop, context=context)
        life = now_running() if context is None else context.get(_running)
        if life is not None:
            life.add_task(made)
        return made

    def stopped(self, context: contextvars.Context | None) -> SetAside | None:
        life = now_running() if context is None else context.get(_running)
        return life.stopped if life is not None else None

    def gone(self, context: contextvars.Context | None) -> bool:
        life = now_running() if context is None else context.get(_running)
        return life is not None and not life.alive

    def handler(self, handler: ErrorHandler | None) -> None:
        life = now_running()
        if life is not None:
            life.on_error = handler

    def error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Of a process it is handled as that says. An error of the story ends the loop."""
        error = context.get("exception")
        if isinstance(error, Killed):
            return
        at: contextvars.Context | None = getattr(context.get("handle"), "_context", None)
        life = now_running() if at is None else at.get(_running)
        if life is None:
            raise error if isinstance(error, BaseException) else RuntimeError(str(context.get("message")))
        if life.alive and life.on_error is not None:
            with suppress(Killed):
                life.handle(life.on_error, loop, context)
