"""A sink on a `JobSink`, small enough to be broken on purpose."""

from collections import deque
from collections.abc import Callable, Sequence

from walflow import Block, Inlet, JobEnd, JobSink, Outlet, SinkWork, WalflowError
from walflow.testing.sinks import JobsOnThread, RunsSink


class Shelf:
    """What the events are put on."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.trouble: Exception | None = None


class ShelfJob:
    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks


class Shelving(SinkWork[ShelfJob]):
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def take(self, waiting: deque[Block]) -> ShelfJob | None:
        blocks = [*waiting]
        waiting.clear()
        return ShelfJob(blocks) if blocks else None

    def do(self, job: ShelfJob) -> None:
        if self.shelf.trouble is not None:
            raise self.shelf.trouble
        for block in job.blocks:
            self.put(block)

    def put(self, block: Block) -> None:
        if "bad" not in block.meta:
            self.shelf.events += [event for event in block.frames.payloads() if event != b'"never"']

    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        if error is not None:
            return JobEnd(trouble=self.explain(error))
        blocks, job.blocks = job.blocks, []
        parts = [part for block in blocks for part in block.split([1] * block.frames.count)]
        bad = [part for part in parts if part.frames.payloads() == [b'"never"'] or "bad" in part.meta]
        return JobEnd(
            [part for part in parts if part not in bad], [(part, "it can never be put there") for part in bad]
        )


MakeSink = Callable[[Inlet, Shelf], JobSink[ShelfJob]]


def shelf_sink(inlet: Inlet, shelf: Shelf) -> JobSink[ShelfJob]:
    sink = JobSink(inlet, Shelving(shelf))
    inlet.on_reopen(sink.retry)
    return sink


class ShelfConnector:
    def __init__(self, shelf: Shelf, make: MakeSink = shelf_sink) -> None:
        self.shelf = shelf
        self.make = make

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await self.make(inlet, self.shelf).run()


class ShelfSubject(JobsOnThread):
    sighup_ends_waits = True
    never = b'"never"'
    bad_meta = {"bad": True}  # noqa: RUF012  # it is read alone

    def __init__(self, connector: Callable[[Shelf], RunsSink] = ShelfConnector) -> None:
        self.shelf = Shelf()
        self.connector = connector(self.shelf)

    async def open(self) -> RunsSink:
        return self.connector

    async def again(self) -> RunsSink:
        return self.connector

    def got(self) -> Sequence[bytes]:
        return [*self.shelf.events]

    def fail(self) -> None:
        self.shelf.trouble = OSError(28, "No space left on device")

    def fail_otherwise(self) -> None:
        self.shelf.trouble = WalflowError("the shelf is gone")

    def mend(self) -> None:
        self.shelf.trouble = None

    def bug(self) -> None:
        self.shelf.trouble = KeyError("a bug")
