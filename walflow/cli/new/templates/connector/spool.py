"""Files in a directory: each one that is put there is read once; each block that comes is a file of its own."""

import asyncio
import os
import time
from collections import deque
from pathlib import Path
from typing import Literal

from pydantic import Field

from walflow import Block, Connector, Guarantee, Inlet, JobEnd, JobSink, Outlet, Ports, SinkWork

READ_BYTES = 256 << 10


class Spool(Connector):
    """Files of a directory, as a source (`mode` read) or as a sink (`mode` write)."""

    path: str = Field(min_length=1, description="The directory.")
    mode: Literal["read", "write"] = Field(
        description="`read`: files put there are events; `write`: events make files."
    )
    interval: int = Field(
        default=1_000_000_000, ge=1, description="How often the directory is looked at, in nanoseconds."
    )

    def ports_used(self) -> Ports:
        return Ports(inputs=()) if self.mode == "read" else Ports(outputs=("err",))

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        return Guarantee(
            source="a file is renamed to *.done once it was read; a crash before that reads it again",
            sink="an event is acked once its file was synced and has its name",
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        """Both halves, until it is cancelled. An exception ends the run: it is logged, and begun again later."""
        if self.mode == "read":
            await self._read(out)
        else:
            await self._write(inlet)

    async def _read(self, out: Outlet) -> None:
        while True:
            await out.ready()  # waits while a sink downstream can take no more
            for path in await asyncio.to_thread(self._waiting):
                await self._send(path, out)
            await asyncio.sleep(self.interval / 1e9)

    def _waiting(self) -> list[Path]:
        return sorted(path for path in Path(self.path).iterdir() if path.suffix == ".json")

    async def _send(self, path: Path, out: Outlet) -> None:
        stream = out.stream({"file": path.name})
        with await asyncio.to_thread(open, path, "rb") as file:
            while data := await asyncio.to_thread(file.read, READ_BYTES):
                await out.ready()
                stream.feed(data)  # framed, decoded and sent on; what is bad leaves by the port `err`
        stream.eof(complete=True)
        await asyncio.to_thread(path.rename, path.with_suffix(".done"))

    async def _write(self, inlet: Inlet) -> None:
        await JobSink(inlet, Storing(self.path, inlet)).run()


class SpoolFile:
    """A job: what goes into one file."""

    def __init__(self, block: Block) -> None:
        self.blocks = [block]


class Storing(SinkWork[SpoolFile]):
    """What is this sink's own. What waits, when the sources stop, what is tried again, how it stops:
    `JobSink` sees to that."""

    def __init__(self, path: str, inlet: Inlet) -> None:
        self._path = Path(path)
        self._written = inlet.counter("files_total")

    def take(self, waiting: deque[Block]) -> SpoolFile | None:
        """On the loop: the next job. A block is in this connector's codec and framing."""
        return SpoolFile(waiting.popleft()) if waiting else None

    def do(self, job: SpoolFile) -> None:
        """On a thread. An OSError: it is tried again, after 0.1 seconds and later every 10;
        meanwhile the sources are stopped."""
        self._path.mkdir(parents=True, exist_ok=True)
        target = self._path / f"{time.time_ns()}.json"
        partial = target.with_suffix(".part")
        with open(partial, "wb") as file:
            file.write(job.blocks[0].frames.data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
        directory = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def outcomes(self, job: SpoolFile, error: BaseException | None) -> JobEnd:
        """On the loop, after the job: every block is owed an outcome. The usual: acked, or the job is tried again."""
        self._written.value += error is None
        return super().outcomes(job, error)
