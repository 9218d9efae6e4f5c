"""A `Scheduler` made of an asyncio loop and threads: one for writes, one for brief ones,
and one for each who reads."""

import asyncio
from collections.abc import Callable
from typing import Final

from walflow.contract import Timer
from walflow.runtime.jobs import Done, LongJobs, Worker

BEAT: Final = 0.5  # seconds
STOPPED: Final = 1.0  # seconds without a beat after which the loop counts as stopped


class Awake:
    """A clock that stops while the loop does not turn, because the process is stopped or the machine is too busy.
    There is one for each loop. `beat` starts it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._seen = self._loop.time()
        self._stood = 0.0

    def time(self) -> float:
        now = self._loop.time()
        if now - self._seen > STOPPED:
            self._stood += now - self._seen
        self._seen = now
        return now - self._stood

    def beat(self) -> None:
        self.time()
        self._loop.call_later(BEAT, self.beat)


class LoopScheduler:
    """One for each run of a connector. Its threads start with their first jobs and run jobs in order, so commits and
    cursor writes of a log never overlap. After `close`, no function that was given to it is called. `failed` gets an
    exception that a call raised, because the caller cannot know that the call did only half of its work. Without
    `failed`, the loop gets the exception. `jobs` is told of its threads."""

    def __init__(
        self,
        name: str,
        awake: Awake | None = None,
        failed: Callable[[Exception], None] | None = None,
        jobs: LongJobs | None = None,
    ) -> None:
        self._name = name
        self._awake = awake
        self._failed = failed
        self._jobs = jobs or LongJobs()
        self._loop = asyncio.get_running_loop()
        self._writes = self._worker(name)
        self._urgent = self._worker(f"{name} urgent")
        self._reads: dict[str, Worker] = {}
        self._closed = False

    def time(self) -> float:
        return self._loop.time()

    def awake(self) -> float:
        return self._awake.time() if self._awake is not None else self._loop.time()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(self._call, call)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, self._call, call)

    def submit(self, job: Callable[[], None], done: Done, *, urgent: bool = False) -> None:
        (self._urgent if urgent else self._writes).put(job, done)

    def fetch(self, job: Callable[[], None], done: Done, *, of: str = "") -> None:
        if of not in self._reads:
            self._reads[of] = self._worker(f"{of or self._name} reads")
        self._reads[of].put(job, done, of)

    async def close(self) -> None:
        """Waits for the jobs that run: a write that has touched the disk is never cancelled."""
        self._closed = True
        for worker in (*self._reads.values(), self._urgent, self._writes):
            await worker.stop()
            self._jobs.remove(worker)

    def _worker(self, name: str) -> Worker:
        return self._jobs.worker(self._name, name, self._loop, self._done)

    def _call(self, call: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            call()
        except Exception as error:  # it belongs to the run
            if self._failed is None:
                raise
            self._failed(error)

    def _done(self, done: Done, error: BaseException | None) -> None:
        self._call(lambda: done(error))
