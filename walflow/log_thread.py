"""Work of a log that blocks, done on its scheduler's thread."""

import asyncio
from collections.abc import Callable
from typing import Final

from walflow.backoff import Backoff
from walflow.contract import Half
from walflow.errors import ReadFailed

FIRST_RETRY: Final = 1.0  # seconds
LONGEST_RETRY: Final = 30.0


async def error_on_thread(half: Half, job: Callable[[], None], *, urgent: bool = False) -> BaseException | None:
    """The job's error. `urgent`: as `Scheduler.submit` has it."""
    done = asyncio.Event()
    errors: list[BaseException | None] = []

    def ended(error: BaseException | None) -> None:
        errors.append(error)
        done.set()

    half.scheduler.submit(job, ended, urgent=urgent)
    await done.wait()
    return errors[0]


async def read_on_thread(half: Half, job: Callable[[], None]) -> BaseException | None:
    """Does a job that reads the log again as long as the disk fails to. Returns its error, if it is another one."""
    backoff = Backoff(FIRST_RETRY, LONGEST_RETRY, 2.0)
    while isinstance(error := await error_on_thread(half, job), ReadFailed):
        delay = backoff.next()
        half.log.warning("log not read", reason=str(error), again_in=delay)
        again = asyncio.Event()
        half.scheduler.call_later(delay, again.set)
        await again.wait()
    return error
