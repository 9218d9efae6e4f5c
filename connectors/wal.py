"""A log between a source and its sinks: what it acknowledged is delivered, whatever dies.

One ack domain ends here and the next begins. The sink half acks upstream once a block is on disk; the source half
sends it on, again and again, until every sink linked to it has acked.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import ClassVar

from pydantic import AliasChoices, Field

from walflow.contract import Claim, CodecUse, Connector, Guarantee, Inlet, Outlet
from walflow.relay import Checkpoints, Reader, Writer, measure
from walflow.relay.tag import Tags
from walflow.wal import Log, Options


class Wal(Connector):
    codec: ClassVar[CodecUse] = CodecUse.FORBIDDEN
    transactional: ClassVar[bool] = True

    path: str = Field(
        min_length=1,
        validation_alias=AliasChoices("path", "dir"),
        description="Directory of the log, made if it is missing (mode 0700). `dir` is its older name.",
    )
    chunk_size: int = Field(64 << 20, ge=1024, description="Bytes at which a new file begins.")
    max_chunks: int = Field(
        16, ge=1, description="With chunk_size, the budget: chunk_size x max_chunks bytes on disk."
    )
    max_attempts: int | None = Field(
        None, ge=1, description="How often one event may fail before it leaves by the err port. Default: no limit."
    )

    def claims(self) -> Sequence[Claim]:
        return (Claim("log directory", os.path.realpath(self.path)),)

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        budget = self.chunk_size * self.max_chunks
        warnings = [f"the log in {self.path} takes up to {budget:,} bytes on disk, then it stops its sources"]
        if self.chunk_size < 1 << 20:
            warnings.append(
                f"a chunk_size of {self.chunk_size:,} bytes costs a new file for every {self.chunk_size:,} bytes "
                "logged; 1 MiB and more is several times as fast"
            )
        return Guarantee(
            source="every event is sent to every sink linked to it, again after a failure or a restart, "
            "until that sink has acked it; then it may come twice, and it is never lost",
            sink="an event is acked after its bytes were written to the log and fdatasync returned",
            warnings=tuple(warnings),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        log = Log(Options(self.path, self.chunk_size, self.max_chunks))
        for line in log.recovery.lines():  # what is lost is told by the reader, as all damage is
            out.log.info("recovery", found=line)
        out.log.info("log open", replays=log.durable - log.low, durable=log.durable, budget=log.budget)
        tags = Tags()
        checkpoints = Checkpoints(log, inlet.scheduler, inlet, lambda: writer.room())
        reader = Reader(log, out, tags, checkpoints, self.max_attempts)

        def want_space(wanted: bool) -> None:
            checkpoints.wanted = wanted
            checkpoints.acked()

        writer = Writer(log, inlet, tags, reader.pump, want_space, measure(log, inlet, reader))
        inlet.serve(writer.accept)
        reader.pump()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            writer.stop()
            checkpoints.stop()
            await _close(log, reader, out)


async def _close(log: Log, reader: Reader, out: Outlet) -> None:
    """After what the thread has in hand, and after the runtime has heard of it: the last cursor, then the files."""
    await _on_thread(out, lambda: None)
    out.log.info("log closing", left=reader.backlog(), durable=log.durable)
    await _on_thread(out, log.close)


async def _on_thread(out: Outlet, job: Callable[[], None]) -> None:
    done = asyncio.Event()
    out.scheduler.submit(job, lambda error: done.set())
    await done.wait()
