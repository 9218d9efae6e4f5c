"""A sink whose work is one job at a time: a file, a pipe, a store. While a job is on its thread, the next one
gathers.

class Spooling(SinkWork[Job]):
    def take(self, waiting): ...        # on the loop: the next job
    def do(self, job): ...              # on the thread; OSError and WalflowError: it is tried again

await JobSink(inlet, Spooling()).run()
"""

import asyncio
from functools import cached_property

from walflow.sinks.job_engine import J, JobEngine
from walflow.sinks.sink_end import close


class JobSink(JobEngine[J]):
    """`ended`, with `failure`: a bug, and no more blocks are taken."""

    failure: BaseException | None = None

    @cached_property
    def ended(self) -> asyncio.Event:
        return asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled. Raises what a job raised as a bug."""
        self.start()
        try:
            await self.ended.wait()
        finally:
            await self.close()
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        """Waits for the job that is under way. What has no outcome then fails."""
        await close(self, self._close)

    def _has_bug(self, bug: BaseException) -> None:
        self.failure = bug
        self.ended.set()

    async def _close(self) -> None:
        if not self._work.closes:
            self._work.closed(None)
            return
        closed = asyncio.Event()

        def done(error: BaseException | None) -> None:
            self._work.closed(error)
            closed.set()

        self._inlet.scheduler.submit(self._work.close, done)
        await asyncio.shield(closed.wait())
