"""What every table owes that stores positions beside its rows, as tests: that each position of a log is a row once. A
test file needs one line:

    test_ledger = table_promises(LedgerSubject)

A `TableSubject` is the table's world. What dies here is walflow, between any two steps, and the answer to a COMMIT.
"""

import gc
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from walflow.codecs import JSON
from walflow.event import Block, Origin
from walflow.frontier import Frontier
from walflow.sinks.job_engine import JobEngine
from walflow.tables.poison import PoisonSearch
from walflow.tables.store import CannotUse, TableStore
from walflow.tables.work import TableJob, TableWork
from walflow.testing.sinks import NotOffered
from walflow.testing.world import MemoryInlet, VirtualScheduler

TERM: Final = 7
EVENTS: Final = 12
IN_A_BLOCK: Final = 3
A_WHILE: Final = 120.0  # seconds of virtual time, in which all that is tried again is tried again


class TableSubject:
    """One for each scenario. `refused`: a JSON value that the table refuses; None: it refuses none."""

    refused: object | None = None

    def store(self) -> TableStore[Any]:
        """By a connection of its own, to the same table each time."""
        raise NotImplementedError

    def rows(self) -> Sequence[object]:
        """The values that are rows now, in any order. Those of the scenarios are `{"n": NUMBER}`."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is left behind."""


class MemoryLog:
    """A log without any file but what a writer keeps of its receivers. `low` moves as events are acked. `base`: what
    is added to a position to be the number in its event."""

    relaxed = False

    def __init__(self, directory: Path, events: int, *, name: str = "log", base: int = 0) -> None:
        directory.mkdir(exist_ok=True)
        self.path = str(directory)
        self.name = name
        self.base = base
        self.next = events + 1
        self.low = 0
        self._settled: set[int] = set()

    def spans(self) -> Mapping[int, tuple[int, int]]:
        return {TERM: (1, self.next - 1)}

    def gave_up(self, first: int, last: int, name: str, reason: str) -> None:
        raise AssertionError(f"{name} gives up {first} to {last}: {reason}")

    def event(self, position: int) -> object:
        return {"n": self.base + position}

    def settle(self, positions: Sequence[int]) -> None:
        self._settled.update(positions)
        while self.low + 1 in self._settled:
            self.low += 1


class TableCut(NamedTuple):
    """What happens at one transaction, counted from 0. `stored`: it is committed before the answer is lost; otherwise
    it never is. `dies`: and nothing follows in this life; otherwise it goes on."""

    transaction: int
    stored: bool
    dies: bool


class CutStore:
    """The store of one life of walflow, with a cut or none."""

    def __init__(self, store: TableStore[Any], cut: TableCut | None) -> None:
        self._store = store
        self._cut = cut
        self.transactions = 0
        self.was_cut = False
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def open(self) -> None:
        if self.dead:
            raise CannotUse("walflow is dead")
        self._store.open()

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        cut = self._cut if self._cut is not None and self._cut.transaction == self.transactions else None
        self.transactions += 1
        if self.dead:
            raise CannotUse("walflow is dead")
        try:
            with self._store.transaction() as undo:
                yield undo
                if cut is not None and not cut.stored:
                    raise CannotUse("the connection is cut before COMMIT")
            if cut is not None:
                raise CannotUse("the answer to COMMIT is lost")
        except CannotUse:
            self.was_cut |= cut is not None
            self.dead = cut is not None and cut.dies
            raise


class TableLife:
    """One life of walflow: it sends what the log has not acked, in blocks."""

    def __init__(self, subject: TableSubject, log: MemoryLog, cut: TableCut | None = None) -> None:
        self._log = log
        self._ended = False
        self._scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self._scheduler, behind_log=True, straight=True)
        self.store = CutStore(subject.store(), cut)
        store = cast("TableStore[Any]", self.store)
        self._work = TableWork(self.inlet, store, PoisonSearch(store, None))
        self._engine = JobEngine[TableJob](self.inlet, self._work)
        self._engine.start()

    def give(self, first: int, last: int, values: Mapping[int, object]) -> None:
        """`values`: by position, those that are not the log's own."""
        log = self._log
        for start in range(first, last + 1, IN_A_BLOCK):
            positions = range(start, min(start + IN_A_BLOCK, last + 1))
            payloads = [JSON.encode(values.get(one, log.event(one))) for one in positions]
            origin = Origin(log.name, positions[0], positions[-1], log.low + 1, TERM, log.low, log)
            self._give(self.inlet.lines_of(*payloads, origin=origin), positions)

    def _give(self, block: Block, positions: Sequence[int]) -> None:
        of = block.receipt
        before = of.settled

        def settled(receipt: Any) -> None:
            if receipt.cause is None and not self.store.dead:
                self._log.settle(positions)
            before(receipt)

        of.settled = settled
        self.inlet.give(block)
        self._scheduler.run()

    def go_on(self, seconds: float = A_WHILE) -> None:
        self._scheduler.advance(seconds)

    def end(self) -> None:
        """As a kill does it: the connection is gone, and nobody has said a word."""
        if self._ended:
            return
        self._ended = True
        self._work.end()
        with suppress(CannotUse):
            self.store.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of events without an outcome: they died with it
            del self._engine, self._work
            self._scheduler = VirtualScheduler()  # its timers hold what waits
            self.inlet = MemoryInlet(self._scheduler)
            gc.collect()


class TableTrial:
    def __init__(self, subject: TableSubject, folder: Path) -> None:
        self.subject = subject
        self.folder = folder
        self.log = MemoryLog(folder / "log", EVENTS)
        self._lives: list[TableLife] = []

    def life(self, cut: TableCut | None = None, log: MemoryLog | None = None) -> TableLife:
        found = TableLife(self.subject, log or self.log, cut)
        self._lives.append(found)
        return found

    def send_all(self, cut: TableCut | None = None) -> TableLife:
        """One life: what is not acked, and time for all of it."""
        life = self.life(cut)
        life.give(self.log.low + 1, EVENTS, {})
        life.go_on()
        life.end()
        return life

    def another_log(self, number: int) -> None:
        """Of which the table knows nothing."""
        self.log = MemoryLog(self.folder / f"log-{number}", EVENTS, name=f"log-{number}", base=100 * number)

    def expect_once(self, numbers: Sequence[int]) -> None:
        rows = [repr(row) for row in self.subject.rows()]
        assert sorted(rows) == sorted(repr({"n": one}) for one in numbers), "each position is a row, once"

    def close(self) -> None:
        for life in self._lives:
            life.end()
        self.subject.close()


TableScenario = Callable[[TableTrial], None]
TABLE_SCENARIOS: Final[dict[str, TableScenario]] = {}


def scenario(check: TableScenario) -> TableScenario:
    TABLE_SCENARIOS[check.__name__] = check
    return check


@scenario
def each_event_is_a_row(trial: TableTrial) -> None:
    trial.send_all()
    trial.expect_once(range(1, EVENTS + 1))
    assert trial.log.low == EVENTS, "all are acked"


@scenario
def a_death_before_any_commit_loses_nothing(trial: TableTrial) -> None:
    _cut_each_transaction(trial, stored=False, dies=True)


@scenario
def a_death_after_any_commit_stores_nothing_twice(trial: TableTrial) -> None:
    _cut_each_transaction(trial, stored=True, dies=True)


@scenario
def a_commit_without_an_answer_is_looked_up(trial: TableTrial) -> None:
    _cut_each_transaction(trial, stored=True, dies=False)


@scenario
def a_commit_that_was_none_is_tried_again(trial: TableTrial) -> None:
    _cut_each_transaction(trial, stored=False, dies=False)


def _cut_each_transaction(trial: TableTrial, *, stored: bool, dies: bool) -> None:
    """One after the other: those that open the frontier, and those that store rows."""
    expected: list[int] = []
    for at in itertools.count():
        trial.another_log(at)
        life = trial.send_all(TableCut(at, stored, dies=dies))
        if dies:
            trial.send_all()
        expected += range(trial.log.base + 1, trial.log.base + EVENTS + 1)
        trial.expect_once(expected)
        assert trial.log.low == EVENTS, "all are acked"
        if not life.store.was_cut:
            assert at > EVENTS // IN_A_BLOCK
            return


@scenario
def rows_and_frontier_are_undone_together(trial: TableTrial) -> None:
    store = trial.subject.store()
    store.open()
    for how in ("undo", "error"):
        with suppress(ZeroDivisionError), store.transaction() as undo:
            assert store.read("log", how) is None
            store.insert([store.row({"n": 1}, {})], apart=False)
            store.write("log", how, Frontier(highest=1))
            if how == "error":
                raise ZeroDivisionError
            undo()
        store.open()
        assert store.look("log", how) is None, how
    store.close()
    assert not trial.subject.rows()


@scenario
def a_frontier_is_what_was_written_last(trial: TableTrial) -> None:
    for highest in (1, 2):
        for sink in ("a", "b"):
            store = trial.subject.store()
            store.open()
            with store.transaction():
                before = store.read("log", sink)
                assert (before.highest if before is not None else 0) == highest - 1
                store.write("log", sink, Frontier(highest=highest))
            store.close()


@scenario
def a_value_that_the_table_refuses_leaves_alone(trial: TableTrial) -> None:
    if trial.subject.refused is None:
        raise NotOffered("a value that it refuses")
    life = trial.life()
    life.give(1, EVENTS, {5: trial.subject.refused})
    life.go_on()
    trial.expect_once([one for one in range(1, EVENTS + 1) if one != 5])
    ((data, reason),) = life.inlet.rejected
    assert data == JSON.encode(trial.subject.refused) + b"\n"
    assert reason


@scenario
def of_two_writers_one_stops_for_good(trial: TableTrial) -> None:
    """The directory was copied, and with it the name of its writer."""
    first = trial.life()
    first.give(1, 3, {})
    first.go_on()
    shutil.copytree(trial.folder / "log", trial.folder / "copy")
    copy = MemoryLog(trial.folder / "copy", EVENTS)
    second = trial.life(log=copy)
    second.give(1, 6, {})
    second.go_on()
    first.give(4, EVENTS, {})
    first.go_on()
    assert any(line["event"] == "refuses to write" for line in first.inlet.logged), "it says so"
    trial.expect_once(range(1, 7))
    second.give(7, EVENTS, {})
    second.go_on()
    trial.expect_once(range(1, EVENTS + 1))


def table_promises(subject: Callable[[], TableSubject]) -> Callable[..., object]:
    """A test for pytest: each scenario, with a subject of its own."""
    import pytest  # for tests alone

    @pytest.mark.parametrize("name", TABLE_SCENARIOS)
    def promised(name: str) -> None:
        try:
            check_table(name, subject())
        except NotOffered as lacking:
            pytest.skip(f"the subject does not offer {lacking}")

    return promised


def check_table(name: str, subject: TableSubject) -> None:
    """One scenario. Raises AssertionError, or NotOffered."""
    with tempfile.TemporaryDirectory() as folder:
        trial = TableTrial(subject, Path(folder))
        try:
            TABLE_SCENARIOS[name](trial)
        finally:
            trial.close()
