"""Threads that run jobs, and what is said of a job that does not end.

A call of the system that hangs cannot be cancelled. So it hangs on a thread, where it holds up nothing but what waits
for it, and from `LONG` looks on it is said who waits, in which call, for which file.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from queue import SimpleQueue
from types import FrameType
from typing import Final, NamedTuple

import structlog

from walflow.disk import RealDisk
from walflow.metrics import CountedValue, Metrics
from walflow.world import monotonic

LONG: Final = 5  # looks, one each second, at which the same job was under way. A process that was stopped takes none
AGAIN: Final = 60.0  # seconds until it is said again

# The methods of a disk, as the system names what they wait in.
CALLS: Final[Mapping[str, str]] = {
    "makedir": "mkdir",
    "open": "open",
    "open_to_read": "open",
    "hold_directory": "open",
    "let_go": "close",
    "close": "close",
    "read": "read",
    "write": "write",
    "append": "write",
    "sync": "fdatasync",
    "sync_directory": "fsync",
    "allocate": "fallocate",
    "truncate": "truncate",
    "rename": "rename",
    "unlink": "unlink",
    "remove_directory": "rmdir",
    "names": "readdir",
    "entries": "readdir",
    "stat": "stat",
    "status": "stat",
    "identity": "stat",
    "look": "stat",
    "is_file": "stat",
    "lock": "lock",
}

Done = Callable[[BaseException | None], None]
Ended = Callable[[Done, BaseException | None], None]


class Job:
    """`of`: who it is for. `began`, `ended`: by the monotonic clock; `ended` is None while it is under way."""

    __slots__ = ("began", "call", "done", "ended", "of")

    def __init__(self, call: Callable[[], None], done: Done, of: str) -> None:
        self.call = call
        self.done = done
        self.of = of
        self.began = 0.0
        self.ended: float | None = None

    @property
    def seconds(self) -> float:
        return (self.ended or monotonic()) - self.began


class Worker:
    """A thread that runs jobs in order, from the first one on. `ended` is called on the loop after each."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
        self.running: Job | None = None
        self._name = name
        self._loop = loop
        self._ended = ended
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # None: no more
        self._thread: threading.Thread | None = None
        self._stopped = asyncio.Event()

    def put(self, call: Callable[[], None], done: Done, of: str = "") -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(Job(call, done, of))

    async def stop(self) -> None:
        """Waits for what it has in hand."""
        if self._thread is not None:
            self._jobs.put(None)
            await self._stopped.wait()
            self._thread.join()

    def call(self) -> str:
        """What its job waits for now, in words: a call of the system and its file, or a place in the code."""
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # documented, for threads that hang
        frame = frames.get(self._thread.ident or 0) if self._thread is not None else None
        return "" if frame is None else _call(frame)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self.running = job
            job.began = monotonic()
            error: BaseException | None = None
            try:
                job.call()
            except BaseException as raised:  # noqa: BLE001  # it belongs to the caller that submitted the job
                error = raised
            job.ended = monotonic()
            self.running = None
            self._loop.call_soon_threadsafe(self._ended, job.done, error)
            del job, error
        self._loop.call_soon_threadsafe(self._stopped.set)


class LongJob(NamedTuple):
    """`who`: a connector or an operator, or a lane of one. `call`: what it waits for."""

    who: str
    call: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.who} has waited {self.seconds:.0f} s for {self.call}"


class _Watched:
    """A worker, look by look."""

    def __init__(self, name: str, worker: Worker, counted: CountedValue) -> None:
        self.name = name
        self.worker = worker
        self._counted = counted
        self.job: Job | None = None  # at the last look
        self.looks = 0
        self.said: float | None = None  # when, by the clock of the job
        self.call = ""

    @property
    def long(self) -> LongJob | None:
        job = self.job
        if job is None or self.said is None or job.ended is not None:
            return None
        return LongJob(job.of or self.name, self.call, job.seconds)

    def look(self) -> None:
        job = self.worker.running
        if job is self.job:
            self.looks += 1
        else:
            self._ends()
            self.job, self.looks, self.said = job, 1, None
        if job is not None and self.looks > LONG and (self.said is None or job.seconds - self.said >= AGAIN):
            self._say(job)

    def _say(self, job: Job) -> None:
        call = self.worker.call()
        if self.worker.running is job:  # else it was seen in the next one
            if self.said is None:
                self._counted.value += 1
            self.said, self.call = job.seconds, call
            self._log().warning("waits long", of=job.of or self.name, call=call, seconds=round(job.seconds))

    def _ends(self) -> None:
        if self.job is not None and self.said is not None:
            self._log().info(
                "waits no longer", of=self.job.of or self.name, call=self.call, seconds=round(self.job.seconds, 1)
            )

    def _log(self) -> structlog.typing.FilteringBoundLogger:
        flow, _, component = self.name.partition("::")
        log: structlog.typing.FilteringBoundLogger = structlog.get_logger(flow=flow, component=component)
        return log


class LongJobs:
    """The long jobs of all threads of the process. `make`: a simulation has workers of its own."""

    def __init__(self, make: Callable[[str, asyncio.AbstractEventLoop, Ended], Worker] = Worker) -> None:
        self._make = make
        self._watched: list[_Watched] = []
        self._counters: dict[str, CountedValue] = {}

    def __repr__(self) -> str:
        return f"<LongJobs of {len(self._watched)} threads: {self.now()}>"

    def measure(self, name: str, metrics: Metrics, labels: Mapping[str, str]) -> None:
        """`name`: of the component, as FLOW::COMPONENT."""
        self._counters[name] = metrics.counter("long_waits_total", **labels)
        metrics.gauge("longest_wait_seconds", lambda: self.seconds(name), **labels)

    def worker(self, of: str, name: str, loop: asyncio.AbstractEventLoop, ended: Ended) -> Worker:
        """A new one. `of`: the component; `name`: of the thread."""
        made = self._make(name, loop, ended)
        self.add(of, made)
        return made

    def add(self, name: str, worker: Worker) -> None:
        self._watched.append(_Watched(name, worker, self._counters.get(name, CountedValue())))

    def remove(self, worker: Worker) -> None:
        for one in self._watched:
            if one.worker is worker:
                one.look()
        self._watched = [one for one in self._watched if one.worker is not worker]

    def look(self) -> None:
        """To be called once a second."""
        for one in self._watched:
            one.look()

    def now(self) -> list[LongJob]:
        return [one.long for one in self._watched if one.long is not None]

    def longest(self) -> LongJob | None:
        """What has been under way for longest."""
        running = [(one, job) for one in self._watched if (job := one.worker.running) is not None]
        if not running:
            return None
        one, job = max(running, key=lambda each: each[1].seconds)
        return LongJob(job.of or one.name, one.worker.call(), job.seconds)

    def seconds(self, name: str) -> float:
        """How long the longest job of a component has been under way."""
        running = [one.worker.running for one in self._watched if one.name == name]
        return max((job.seconds for job in running if job is not None), default=0.0)


def _call(innermost: FrameType) -> str:
    for frame in _outwards(innermost):
        name = CALLS.get(frame.f_code.co_name)
        if name is not None and isinstance(frame.f_locals.get("self"), RealDisk):
            return f"{name} of {_file(frame.f_locals)}"
    for frame in _outwards(innermost):
        if str(frame.f_globals.get("__name__")).split(".")[0] in ("walflow", "connectors"):
            return f"{frame.f_code.co_name}, {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return innermost.f_code.co_name


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _file(of: Mapping[str, object]) -> str:
    """The file that the call is about, by its arguments."""
    fd = of.get("fd")
    if not isinstance(fd, int):
        return str(of.get("path") or of.get("source") or of.get("directory"))
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:  # no /proc
        return f"descriptor {fd}"
