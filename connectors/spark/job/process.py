"""A driver's process: started with its JVM in its own session, asked to stop, and killed with all of its group."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, Self, TypeVar

from connectors.spark.job.driver_log import Splitter

CHUNK: Final = 64 << 10
TERM_SECONDS: Final = 2.0  # between SIGTERM and SIGKILL
SWEEP_SECONDS: Final = 3.0  # a JVM that lost its driver removes its files and ends
LOOK: Final = 0.02

T = TypeVar("T")


class Process:
    """Use it with `async with`: at the end of the block, no process of it is left."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        report: asyncio.StreamReader,
        pipe: asyncio.BaseTransport,
        grace: float,
    ) -> None:
        self._process = process
        self._report = report
        self._pipe = pipe
        self._grace = grace
        self.pid = process.pid

    def __repr__(self) -> str:
        return f"<Process {self.pid} {self._process.returncode}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await finished(self._end())

    async def reports(self) -> AsyncIterator[dict[str, object]]:
        """The reports of the driver, until it ends."""
        splitter = Splitter()
        while data := await self._report.read(CHUNK):
            for line in splitter.feed(data):
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    async def lines(self, name: str, take: Callable[[str], None]) -> None:
        """`take` each line of `stdout` or `stderr`."""
        stream: asyncio.StreamReader = getattr(self._process, name)
        splitter = Splitter()
        while data := await stream.read(CHUNK):
            for line in splitter.feed(data):
                take(line)
        for line in splitter.end():
            take(line)

    async def wait(self) -> int:
        """Its exit code; negative: the signal."""
        return await self._process.wait()

    async def _end(self) -> None:
        if self._process.returncode is None:
            self._say(b"stop\n")
            for seconds, send in ((self._grace, signal.SIGTERM), (TERM_SECONDS, signal.SIGKILL)):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), seconds)
                    break
                self._signal(send)
        await self._swept()
        self._pipe.close()

    async def _swept(self) -> None:
        """Waits a while until no process of its group is left, then kills the rest."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + SWEEP_SECONDS
        while self._signal(0) and clock() < deadline:  # noqa: ASYNC110  # the kernel does not tell when a group ends
            await asyncio.sleep(LOOK)
        self._signal(signal.SIGKILL)
        await self._process.wait()

    def _say(self, data: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(data)

    def _signal(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


async def spawn(
    command: Sequence[str], plan: Mapping[str, object], environment: Mapping[str, str], grace: float
) -> Process:
    """`plan` goes to its stdin, and the pipe stays open: its end is how the process learns that the daemon is gone.
    Raises OSError."""
    reading, writing = os.pipe()
    report = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(report), os.fdopen(reading, "rb", 0)
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            pass_fds=[writing],
            start_new_session=True,
        )
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(writing)
    assert process.stdin is not None
    process.stdin.write(json.dumps({**plan, "report": writing}).encode() + b"\n")
    return Process(process, report, pipe, grace)


async def finished(work: Awaitable[T]) -> T:
    """Runs to its end even if the waiting task is cancelled meanwhile; the cancellation comes after."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
