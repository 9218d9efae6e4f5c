"""A story about daemons, told in virtual time.

    async def story(machine: Machine) -> None:
        life = machine.start(assembly)
        await asyncio.sleep(5)
        machine.cut()
        life = machine.start(assembly)
        await asyncio.sleep(60)
        assert receiver.has_all()

    for seed in range(1000):
        simulated(story, Random(seed))

A connector that opens files by `walflow.world.disk()` runs on the machine's disk; its `asyncio.sleep` takes no time.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Generator, MutableSequence
from contextlib import contextmanager
from random import Random
from typing import Any, NoReturn, TypeVar

import structlog
from structlog.typing import EventDict, WrappedLogger

from walflow.testing.simulation.life import Lives, now_running
from walflow.testing.simulation.loop import SimulatedLoop
from walflow.testing.simulation.machine import Machine
from walflow.testing.simulation.strands import living

T = TypeVar("T")


def simulated(
    story: Callable[[Machine], Coroutine[Any, Any, T]], dice: Random, lines: MutableSequence[EventDict] | None = None
) -> T:
    """What the story returns. Lives that it leaves are killed. `lines`: gets what daemons log, as their lives do.
    Raises what the story raises, StandsStill, and RuntimeError where a thread is left."""
    loop = SimulatedLoop(dice, Lives())
    others = living()

    async def told() -> T:
        machine = Machine(loop, dice)
        try:
            return await story(machine)
        finally:
            for life in [*machine.lives]:
                machine.kill(life)
            await _all_end(loop)
            machine.net.close()

    try:
        with _captured(lines if lines is not None else []):
            asyncio.set_event_loop(None)
            result = loop.run_until_complete(told())
    finally:
        loop.close()
    if left := living() - others:
        raise RuntimeError(f"threads are left, which keep this world: {', '.join(one.name for one in left)}")
    return result


async def _all_end(loop: SimulatedLoop) -> None:
    """What the story began and did not wait for. Its sockets are closed in the turns after that."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not _was_killed(task)]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    loop.abort_all()
    await asyncio.sleep(0.001)


def _was_killed(task: "asyncio.Task[Any]") -> bool:
    coroutine = task.get_coro()
    return inspect.iscoroutine(coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@contextmanager
def _captured(lines: MutableSequence[EventDict]) -> Generator[None]:
    def keep(_logger: WrappedLogger, level: str, entry: EventDict) -> NoReturn:
        life = now_running()
        if life is not None and life.alive:
            line = {"level": level, **entry}
            life.lines.append(line)
            lines.append(line)
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(20))
    try:
        yield
    finally:
        structlog.configure(**before)
