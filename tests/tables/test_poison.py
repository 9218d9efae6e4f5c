"""An event whose row fails each time is found without passing it."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import given, strategies as st

from tests.tables.rows_in_memory import RowsInMemory
from walflow.tables import CannotUse, RowRefusal
from walflow.tables.poison import MOST, OTHERS, TRIES, PoisonSearch


class Choking(RowsInMemory):
    """It fails if one of these rows is stored. `away`: it cannot be asked in that transaction."""

    def __init__(self, bad: Sequence[int], away: int | None = None) -> None:
        super().__init__()
        self.bad = set(bad)
        self.away = away

    def insert(self, rows: Sequence[object | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        if self.bad.intersection(row for row in rows if row is not None):
            raise CannotUse("it chokes")
        self.rows += [row for row in rows if row is not None]
        return {}

    @contextmanager
    def transaction(self) -> Generator[Callable[[], None]]:
        if self.transactions + 1 == self.away:
            raise CannotUse("the server is away")
        with super().transaction() as undo:
            yield undo


@given(st.integers(1, 200), st.sets(st.integers(0, 199), min_size=1, max_size=4))
def test_all_are_found_and_nothing_is_stored(size: int, bad: set[int]) -> None:
    bad = {number for number in bad if number < size} or {size - 1}
    table = Choking([*bad])
    found = PoisonSearch(table, 1.0).find([*range(size)], {}, 3)
    assert bad.issuperset(found)
    if len(bad) < min(size, OTHERS):  # else nothing may show that the table takes others
        assert set(found) == bad
        assert set(found.values()) == {RowRefusal("failed 3 times, and others pass: it chokes", "poison")}
    assert table.rows == []
    assert table.transactions <= (len(bad) + 1) * (size.bit_length() + 1 + OTHERS)


def test_rows_that_are_none_or_known_keep_their_numbers() -> None:
    known = {4: RowRefusal("known", "poison")}
    found = PoisonSearch(Choking([5, 6]), 1.0).find([None, 1, None, 5, 6], known, 9)
    assert found == {3: RowRefusal("failed 9 times, and others pass: it chokes", "poison")}


def test_one_alone_may_be_the_tables_fault() -> None:
    assert PoisonSearch(Choking([0]), 1.0).find([0], {}, 3) == {}
    assert PoisonSearch(Choking([]), 1.0).find([None], {}, 3) == {}


def test_one_search_finds_so_many() -> None:
    assert len(PoisonSearch(Choking([*range(1, 100, 2)]), 1.0).find([*range(100)], {}, 3)) == MOST


@pytest.mark.parametrize("away", [1, 2, 5])
def test_a_table_that_is_away_meanwhile_blames_nobody(away: int) -> None:
    with pytest.raises(CannotUse, match="away"):
        PoisonSearch(Choking([7], away), 1.0).find([*range(20)], {}, 3)


DUE: Final = [(TRIES, 1.0, True), (TRIES - 1, 9.0, False), (TRIES + 9, 0.9, False)]


@pytest.mark.parametrize(("tries", "seconds", "due"), DUE)
def test_it_is_looked_for_after_some_tries_and_some_time(tries: int, seconds: float, due: bool) -> None:
    assert PoisonSearch(Choking([]), 1.0).is_due(tries, seconds) is due
    assert not PoisonSearch(Choking([]), None).is_due(tries, 1e9)
