"""An asyncio loop, and one thread, as a `Scheduler`."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from walflow.contract import Timer

BEAT: Final = 0.5  # seconds
STOPPED: Final = 1.0  # without a beat: the loop did not turn

Job = tuple[Callable[[], None], Callable[[BaseException | None], None]]


class Awake:
    """A clock that stands while the loop does not turn, be the process stopped or the machine too busy for it. One for
    each loop; `beat` starts it."""

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
    """One per run of a connector. Its thread starts with the first job and takes them in order, so a log's commits
    and its cursor never overlap. After `close` nothing it was given is called any more. `failed` gets what a call raised:
    whoever made the call cannot know that it was half done. Without it the loop does."""

    def __init__(
        self, name: str, awake: Awake | None = None, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self._name = name
        self._awake = awake
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: no more
        self._thread: threading.Thread | None = None
        self._closed = False
        self._stopped = asyncio.Event()

    def time(self) -> float:
        return self._loop.time()

    def awake(self) -> float:
        return self._awake.time() if self._awake is not None else self._loop.time()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(self._call, call)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        return self._loop.call_later(delay, self._call, call)

    def submit(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, done))

    async def close(self) -> None:
        """Waits for the job in hand: a write that has touched the disk is never cancelled."""
        self._closed = True
        if self._thread is not None:
            self._jobs.put(None)
            await self._stopped.wait()
            self._thread.join()

    def _call(self, call: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            call()
        except Exception as error:  # it belongs to the run
            if self._failed is None:
                raise
            self._failed(error)

    def _done(self, done: Callable[[BaseException | None], None], error: BaseException | None) -> None:
        self._call(lambda: done(error))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done = job
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:  # noqa: BLE001  # it belongs to the caller that submitted the job
                error = raised
            self._loop.call_soon_threadsafe(self._done, done, error)
            del job, call, done, error
        self._loop.call_soon_threadsafe(self._stopped.set)
