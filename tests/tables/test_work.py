"""Rows of a table that keeps the order of events, when one of them is refused."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.tables.rows_in_memory import RowsInMemory
from walflow.codecs import JSON
from walflow.contract import Upstream
from walflow.event import Block, Origin
from walflow.sinks.job_engine import JobEngine
from walflow.tables import CannotUse, RowRefusal
from walflow.tables.poison import PoisonSearch
from walflow.tables.work import TableJob, TableWork
from walflow.testing.world import MemoryInlet, VirtualScheduler

TERM = 7


class OneLog:
    """A log without any file but what a writer keeps of its receivers. What is acked moves `low`, block by block."""

    relaxed = False

    def __init__(self, directory: Path, size: int) -> None:
        directory.mkdir()
        self.path = str(directory)
        self.next = size + 1
        self.low = 0

    def spans(self) -> Mapping[int, tuple[int, int]]:
        return {TERM: (1, self.next - 1)}

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        raise AssertionError(f"{name} gives up {first} to {last}: {reason}")


class Letters(MemoryInlet):
    """Error records wait until the test says what becomes of them."""

    def __init__(self, scheduler: VirtualScheduler) -> None:
        super().__init__(scheduler, behind_log=True, straight=True)
        self.letters: list[Block] = []

    def reject(self, block: Block, reason: str) -> None:
        self.rejected.append((block.frames.data, reason))
        self.letters.append(block)


class Keyed(RowsInMemory):
    """Keeps the order of rows. It refuses "bad", and "choke" is no row, and for no reason of its own."""

    orders = True

    def insert(self, rows: Sequence[object | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        if "choke" in rows:
            raise CannotUse("it chokes")
        self.rows += [row for row in rows if row is not None and row != "bad"]
        return {number: RowRefusal("refused", "42") for number, row in enumerate(rows) if row == "bad"}


class Unordered(Keyed):
    orders = False


class Bench:
    def __init__(self, directory: Path, events: int, table: Keyed | None = None) -> None:
        self.logs = {name: OneLog(directory / name, events) for name in ("log", "other")}
        self.log = self.logs["log"]
        self.scheduler = VirtualScheduler()
        self.inlet = Letters(self.scheduler)
        self.inlet.upstream = Upstream(behind_log=True, straight=True, sources=1)
        self.table = table or Keyed()
        self.work = TableWork(self.inlet, self.table, PoisonSearch(self.table, 0.0))
        self.sink = JobEngine[TableJob](self.inlet, self.work)
        self.sink.start()

    def block(self, first: int, *values: object, log: str = "log") -> Block:
        last = first + len(values) - 1
        held = self.logs[log]
        origin = Origin(log, first, last, 1, TERM, held.low, held)
        return self.inlet.lines_of(*map(JSON.encode, values), origin=origin)

    def give(self, first: int, *values: object, log: str = "log") -> None:
        self.inlet.give(self.block(first, *values, log=log))
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
    assert bench.table.frontiers["log"].ranges == {TERM: [(1, 5)]}, "a crash would bring the refused event again"


MANY_GAPS = [value for number in range(500) for value in (f"{number}", "bad")]  # more than a frontier has room for


def test_a_block_may_have_more_refused_events_than_a_frontier_has_room_for(tmp_path: Path) -> None:
    """The log says of none of them that it is settled before all of the block are."""
    bench = Bench(tmp_path, len(MANY_GAPS), Unordered())
    bench.give(1, *MANY_GAPS)
    assert "no room for more gaps" in (bench.inlet.breaker or "")
    delivered = 0
    while delivered < 500:
        assert len(bench.inlet.letters) > delivered, "the rest of the block waits for ever"
        for letter in bench.inlet.letters[delivered:]:
            letter.receipt.ack("err")
            delivered += 1
        bench.settle(60.0)
    assert bench.inlet.breaker is None
    assert bench.table.rows == [f"{number}" for number in range(500)]


@pytest.mark.parametrize("orders", [True, False])
def test_a_delivered_error_record_is_known_though_other_logs_come_first(tmp_path: Path, orders: bool) -> None:
    """A commit of another log says nothing of this one."""
    bench = Bench(tmp_path, 10, Keyed() if orders else Unordered())
    bench.inlet.upstream = bench.inlet.upstream._replace(sources=2)
    bench.give(1, "x", log="other")
    bench.give(1, "a", "bad")
    bench.inlet.letters[0].receipt.ack("err")
    bench.give(2, "y", log="other")
    bench.give(3, "b")
    assert bench.table.frontiers["log"].ranges == {TERM: [(1, 3)]}, "a crash would bring the refused event again"


def test_an_error_record_that_fails_while_there_is_no_room_gives_the_block_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, len(MANY_GAPS), Unordered())
    bench.give(1, *MANY_GAPS)
    for letter in bench.inlet.letters:
        letter.receipt.fail(OSError("away"), 0, "err")
    bench.settle(60.0)
    rows = len(bench.table.rows)
    assert 0 < rows < 500
    assert sum(data.count(b"\n") for data, _ in bench.inlet.failed) == len(MANY_GAPS) - rows - len(
        bench.inlet.letters
    )


def test_the_logs_without_a_refused_event_go_on(bench: Bench) -> None:
    bench.inlet.upstream = bench.inlet.upstream._replace(sources=2)
    bench.give(1, "first", log="other")
    bench.give(1, "a", "bad", "b")
    bench.give(4, "c")
    bench.give(2, "x", "y", log="other")
    assert bench.table.rows == ["first", "a", "x", "y"]
    assert (
        bench.inlet.failed_tries[-1]
        == "waits until the error record of position 2 is delivered: no later row may pass it"
    )
    bench.settle(60.0)
    bench.give(4, "z", log="other")
    assert bench.table.rows == ["first", "a", "x", "y", "z"]
    assert len(bench.inlet.failed_tries) > 50, "it says so while it waits"
    bench.inlet.letters[0].receipt.ack("err")
    bench.settle(1.0)
    assert bench.table.rows == ["first", "a", "x", "y", "z", "b", "c"]
    assert bench.table.frontiers["log"].ranges == {TERM: [(1, 4)]}
    bench.settle(60.0)
    assert len(bench.scheduler.timers) == 1, "of the next sign of life: nothing is looked at any more"


@pytest.mark.parametrize("sources", [1, 2])
def test_all_go_back_if_the_error_record_fails(bench: Bench, sources: int) -> None:
    bench.inlet.upstream = bench.inlet.upstream._replace(sources=sources)
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


def test_what_goes_back_takes_its_suspicion_along(bench: Bench) -> None:
    """`choke` is known as the cause of failures when its log's events go back. Another log's event has its number
    then."""
    bench.give(1, "first", log="other")
    bench.inlet.give(bench.block(1, "a", "bad", "b", "choke"), bench.block(2, "x", "y", "z", log="other"))
    bench.settle(60.0)
    assert bench.table.rows == ["first", "a"]
    bench.inlet.letters[0].receipt.fail(OSError("away"), 0, "err")
    bench.settle(60.0)
    bench.log.low = 2
    bench.settle(60.0)
    assert bench.table.rows == ["first", "a", "x", "y", "z"]
    assert [data for data, _ in bench.inlet.rejected] == [b'"bad"\n']
