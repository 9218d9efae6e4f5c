"""Jobs on threads, one at a time: a baton goes from the loop to a job and back, and never are two of them awake.

A job gives the baton back at each call of the disk, for as long as that call takes. Meanwhile the loop turns, and
other jobs begin and end. A switch costs 10 µs of a processor.
"""

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from walflow.runtime.jobs import Done, Ended, Job, Worker
from walflow.world import monotonic

Seconds = float


class Killed(BaseException):
    """The process was killed. No call of the system returns to it."""


class Strand:
    """A thread that is awake only between `resume` and the next `pause`."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        self.ended = False
        self._gone = False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self.name = name
        context = contextvars.copy_context()
        _living.add(self)
        self._thread = threading.Thread(target=context.run, args=(self._run, work), name=name, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """By the loop: until the strand pauses or ends."""
        if not self.ended:
            self._go.release()
            self._back.acquire()

    def pause(self) -> None:
        """By the strand itself."""
        self._back.release()
        self._go.acquire()
        if self._gone:
            raise Killed

    def kill(self) -> None:
        """It ends, whatever it waits for."""
        self._gone = True
        self.resume()
        self._thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        _local.strand = self
        self._go.acquire()
        try:
            if not self._gone:
                work()
        except Killed:
            pass
        finally:
            self.ended = True
            _living.discard(self)
            self._back.release()


_local = threading.local()
_living: Final = set[Strand]()


def living() -> frozenset[Strand]:
    """Those that have not ended. Each keeps its thread, and all that its job can reach."""
    return frozenset(_living)


def strand() -> Strand | None:
    """The one that calls; None: the loop calls."""
    return getattr(_local, "strand", None)


class StrandWorker(Worker):
    """`walflow.runtime.jobs.Worker` on a strand. `wait`: draws how long it takes until a thread has a processor."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, ended: Ended, wait: Callable[[], Seconds]) -> None:
        super().__init__(name, loop, ended)
        self._wait = wait
        self._waiting: deque[Job] = deque()
        self._strand: Strand | None = None
        self._idle = True
        self._closing = self._killed = False

    def put(self, call: Callable[[], None], done: Done, of: str = "") -> None:
        if self._killed:
            return
        self._waiting.append(Job(call, done, of))
        if self._strand is None:
            self._strand = Strand(self._work, self._name)
        self._wake()

    async def stop(self) -> None:
        self._closing = True
        if self._strand is not None:
            self._wake()
            await self._stopped.wait()

    def kill(self) -> None:
        self._killed = True
        self._waiting.clear()
        if self._strand is not None:
            self._strand.kill()

    def call(self) -> str:
        return "a call of the disk"

    def _wake(self) -> None:
        if self._idle and self._strand is not None:
            self._idle = False
            self._loop.call_later(self._wait(), self._strand.resume)

    def _work(self) -> None:
        assert self._strand is not None
        while True:
            while self._waiting:
                self._do(self._waiting.popleft())
            if self._closing:
                break
            self._idle = True
            self._strand.pause()
        self._loop.call_soon(self._stopped.set)

    def _do(self, job: Job) -> None:
        self.running = job
        job.began = monotonic()
        error: BaseException | None = None
        try:
            job.call()
        except Exception as raised:  # noqa: BLE001  # it belongs to the caller that submitted the job
            error = raised
        job.ended = monotonic()
        self.running = None
        self._loop.call_soon(self._ended, job.done, error)
