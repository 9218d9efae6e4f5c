"""Rows of a table that keeps the order of events, when one of them is refused."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from walflow.codecs import JSON
from walflow.contract import Upstream
from walflow.event import Block, Origin
from walflow.frontier import Frontier
from walflow.sinks.job_engine import JobEngine
from walflow.tables.poison import PoisonSearch
from walflow.tables.work import TableJob, TableWork
from walflow.testing.world import MemoryInlet, VirtualScheduler

TERM = 7


class OneLog:
    """A log without any file but what a writer keeps of its receivers. What is acked moves `low`, block by block."""

    relaxed = False

    def __init__(self, directory: Path, size: int) -> None:
        self.path = str(directory)
        self.next = size + 1
        self.low = 0

    def spans(self) -> Mapping[int, tuple[int, int]]:
        return {TERM: (1, self.next - 1)}


class Letters(MemoryInlet):
    """Error records wait until the test says what becomes of them."""

    def __init__(self, scheduler: VirtualScheduler) -> None:
        super().__init__(scheduler, behind_log=True, straight=True)
        self.letters: list[Block] = []

    def reject(self, block: Block, reason: str) -> None:
        self.rejected.append((block.frames.data, reason))
        self.letters.append(block)


class Keyed:
    """Keeps the order of rows, in memory."""

    orders = True

    def __init__(self) -> None:
        self.rows: list[object] = []
        self.frontier: Frontier | None = None

    def open(self) -> None: ...
    def close(self) -> None: ...

    def row(self, value: object) -> object:
        return value

    def json_row(self, payload: bytes) -> object | None:
        return None

    def look(self, log: str, sink: str) -> Frontier | None:
        return self.frontier

    read = look

    def write(self, log: str, sink: str, frontier: Frontier) -> None:
        self.frontier = frontier

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        before, undone = (list(self.rows), self.frontier), False

        def undo() -> None:
            nonlocal undone
            undone = True

        yield undo
        if undone:
            self.rows, self.frontier = before

    def insert(self, rows: Sequence[object | None], *, apart: bool) -> Mapping[int, str]:
        self.rows += [row for row in rows if row is not None and row != "bad"]
        return {number: "refused" for number, row in enumerate(rows) if row == "bad"}


class Bench:
    def __init__(self, directory: Path, events: int) -> None:
        self.log = OneLog(directory, events)
        self.scheduler = VirtualScheduler()
        self.inlet = Letters(self.scheduler)
        self.inlet.upstream = Upstream(behind_log=True, straight=True, sources=1)
        self.table = Keyed()
        self.work = TableWork(self.inlet, self.table, PoisonSearch(self.table, None))
        self.sink = JobEngine[TableJob](self.inlet, self.work)
        self.sink.start()

    def give(self, first: int, *values: object) -> None:
        last = first + len(values) - 1
        origin = Origin("log", first, last, 1, TERM, self.log.low, self.log)
        self.inlet.give(self.inlet.lines_of(*map(JSON.encode, values), origin=origin))
        self.settle()

    def settle(self, seconds: float = 0.0) -> None:
        self.scheduler.advance(seconds)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, 10)


def test_the_rest_of_a_block_waits_for_the_error_record(bench: Bench) -> None:
    bench.give(1, "a", "bad", "b", "c")
    bench.give(5, "d")
    bench.settle(60.0)
    assert bench.table.rows == ["a"]
    assert bench.inlet.breaker == "waits until the error record of position 2 is delivered: no later row may pass it"
    bench.inlet.letters[0].receipt.ack("err")
    bench.settle(60.0)
    assert bench.table.rows == ["a", "b", "c", "d"]
    assert bench.inlet.breaker is None
    frontier = bench.table.frontier
    assert frontier is not None
    assert frontier.ranges == {TERM: [(1, 5)]}, "a crash would bring the refused event again"


def test_all_go_back_if_the_error_record_fails(bench: Bench) -> None:
    bench.give(1, "a", "bad", "b", "c")
    bench.give(5, "d")
    bench.inlet.letters[0].receipt.fail(OSError("away"), 0, "err")
    bench.settle(60.0)
    assert [data for data, _ in bench.inlet.failed] == [b'"b"\n"c"\n', b'"d"\n']
    (settled, _) = bench.inlet.settled
    assert settled.cause is not None, "the log learns of it"
    bench.give(6, "e")
    bench.settle(60.0)
    assert bench.table.rows == ["a"], "the refused event has no outcome yet"
    bench.log.low = 5
    bench.settle(60.0)
    assert bench.table.rows == ["a", "e"]
