"""Work that stores a block as it comes: it does so also in trouble, and not once it stops."""

from collections import deque
from collections.abc import Iterator, Sequence

from walflow import Block, Frames, StreamId
from walflow.codecs import JSON
from walflow.errors import WalflowError
from walflow.framing import LINES
from walflow.receipt import Receipt
from walflow.sinks.job_engine import JobEnd, JobEngine, SinkWork
from walflow.testing import MemoryInlet, VirtualScheduler


class Shelved:
    """A job: all that stands on the shelf and was not written."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks


class Shelf(SinkWork[Shelved]):
    """`trouble`: why it cannot write."""

    def __init__(self) -> None:
        self.trouble = ""
        self.all: list[Block] = []
        self._waits: list[Block] = []

    def store(self, block: Block) -> Sequence[Block]:
        self.all.append(block)
        self._waits.append(block)
        return ()

    def take(self, waiting: deque[Block]) -> Shelved | None:
        waits, self._waits = self._waits, []
        return Shelved(waits) if waits else None

    def do(self, job: Shelved) -> None:
        if self.trouble:
            raise WalflowError(self.trouble)

    def outcomes(self, job: Shelved, error: BaseException | None) -> JobEnd:
        if error is not None:
            return JobEnd(trouble=str(error))
        acked, job.blocks = job.blocks, []
        return JobEnd(acked)


def blocks() -> Iterator[Block]:
    number = 0
    while True:
        number += 1
        frames = Frames(b"%d\n" % number, 1, LINES)
        yield Block(StreamId("f::source", 1, 1), frames, JSON, Receipt(lambda _: None, 1), ingest_ns=number, meta={})


def test_what_comes_in_trouble_is_stored_at_once_and_acked_after_it() -> None:
    inlet, shelf, coming = MemoryInlet(VirtualScheduler()), Shelf(), blocks()
    engine = JobEngine(inlet, shelf)
    engine.begin()
    shelf.trouble = "the disk is full"
    first, second, third = next(coming), next(coming), next(coming)
    engine.accept(first)
    inlet.scheduler.advance(0.01)
    assert inlet.breaker == "the disk is full"
    engine.accept(second)
    assert shelf.all == [first, second]
    engine.accept(third)
    assert shelf.all == [first, second, third]
    shelf.trouble = ""
    engine.retry()
    inlet.scheduler.advance(1)
    assert (inlet.breaker, len(inlet.acked), engine.waiting) == (None, 3, deque())


def test_what_comes_as_it_stops_is_not_stored_and_fails() -> None:
    inlet, shelf, coming = MemoryInlet(VirtualScheduler()), Shelf(), blocks()
    engine = JobEngine(inlet, shelf)
    engine.begin()
    engine.stop(lambda: None)
    engine.accept(next(coming))
    assert (shelf.all, inlet.failed) == ([], [])
    engine.closed()
    assert (shelf.all, len(inlet.failed)) == ([], 1)
