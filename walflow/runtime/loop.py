"""A `Scheduler` made of an asyncio loop and two threads: one for writes, one for reads."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from walflow.contract import Timer

BEAT: Final = 0.5  # seconds
STOPPED: Final = 1.0  # seconds without a beat after which the loop counts as stopped

Done = Callable[[BaseException | None], None]
Job = tuple[Callable[[], None], Done]


class Awake:
    """A clock that stops while the loop does not turn, because the process is stopped or the machine is too busy. There
    is one for each loop. `beat` starts it."""

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
    `failed`, the loop gets the exception."""

    def __init__(
        self, name: str, awake: Awake | None = None, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self._awake = awake
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._writes = Worker(name, self._loop, self._done)
        self._reads = Worker(f"{name} reads", self._loop, self._done)
        self._closed = False

    def time(self) -> float:
        return self._loop.time()

    def awake(self) -> float:
        return self._awake.time() if self._awake is not None else self._loop.time()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(self._call, call)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, self._call, call)

    def submit(self, job: Callable[[], None], done: Done) -> None:
        self._writes.put(job, done)

    def fetch(self, job: Callable[[], None], done: Done) -> None:
        self._reads.put(job, done)

    async def close(self) -> None:
        """Waits for the jobs that run: a write that has touched the disk is never cancelled."""
        self._closed = True
        await self._reads.stop()
        await self._writes.stop()

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


class Worker:
    """A thread that runs jobs in order, from the first one on. `ended` is called on the loop after each."""

    def __init__(
        self, name: str, loop: asyncio.AbstractEventLoop, ended: Callable[[Done, BaseException | None], None]
    ) -> None:
        self._name = name
        self._loop = loop
        self._ended = ended
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: no more
        self._thread: threading.Thread | None = None
        self._stopped = asyncio.Event()

    def put(self, job: Callable[[], None], done: Done) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, done))

    async def stop(self) -> None:
        """Waits for what it has in hand."""
        if self._thread is not None:
            self._jobs.put(None)
            await self._stopped.wait()
            self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done = job
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:  # noqa: BLE001  # it belongs to the caller that submitted the job
                error = raised
            self._loop.call_soon_threadsafe(self._ended, done, error)
            del job, call, done, error
        self._loop.call_soon_threadsafe(self._stopped.set)
