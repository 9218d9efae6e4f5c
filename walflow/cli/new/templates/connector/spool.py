"""Files in a directory: each one that is put there is read once; each block that comes is a file of its own."""

import asyncio
import os
import time
from pathlib import Path
from typing import Literal

from pydantic import Field

from walflow import Connector, Guarantee, Inlet, Outlet, Ports

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
        await asyncio.to_thread(Path(self.path).mkdir, parents=True, exist_ok=True)
        written = inlet.counter("files_total")
        while True:
            for block in await inlet.take():  # all that waits, in this connector's codec and framing
                await self._store(inlet, block.frames.data)
                inlet.ack(block)  # every block is owed one of ack, fail and reject
                written.value += 1

    async def _store(self, inlet: Inlet, data: bytes) -> None:
        """Until it is done: events that wait here are not lost, and the sources upstream are stopped meanwhile."""
        while True:
            try:
                await asyncio.to_thread(self._put, data)
            except OSError as error:
                inlet.trigger(f"cannot write to {self.path}: {error.strerror}")
                await asyncio.sleep(1)
            else:
                inlet.restore()
                return

    def _put(self, data: bytes) -> None:
        target = Path(self.path) / f"{time.time_ns()}.json"
        partial = target.with_suffix(".part")
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
        directory = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
