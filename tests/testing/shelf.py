"""A sink on a `JobSink`, small enough to be broken on purpose."""

from collections import deque
from collections.abc import Callable, Sequence

from walflow import Block, Inlet, JobEnd, JobSink, Outlet, SinkWork, WalflowError
from walflow.testing.sinks import JobsOnThread, RunsSink

TOO_LARGE = b'"' + b"x" * 5000 + b'"'


class Shelf:
    """What the events are put on."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.trouble: Exception | None = None
        self.room = 1_000_000  # events


class ShelfJob:
    """Blocks of one event each. `put`: how many of them are on the shelf."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = [part for block in blocks for part in block.split([1] * block.frames.count)]
        self.put = 0


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
            if not self.shelf.room:
                raise OSError(28, "No space left on device")
            self.put(block)
            self.shelf.room -= 1
            job.put += 1

    def put(self, block: Block) -> None:
        if not refused(block):
            self.shelf.events += block.frames.payloads()

    def outcomes(self, job: ShelfJob, error: BaseException | None) -> JobEnd:
        put, job.blocks = job.blocks[: job.put], job.blocks[job.put :]
        job.put = 0
        return JobEnd(
            [part for part in put if not refused(part)],
            [(part, "it can never be put there") for part in put if refused(part)],
            "" if error is None else self.explain(error),
        )


def refused(part: Block) -> bool:
    return "bad" in part.meta or part.frames.payloads() in ([b'"never"'], [TOO_LARGE])


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
    too_large = TOO_LARGE
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

    def fail_after(self, events: int) -> None:
        self.shelf.room = events

    def mend(self) -> None:
        self.shelf.trouble = None
        self.shelf.room = 1_000_000

    def bug(self) -> None:
        self.shelf.trouble = KeyError("a bug")
