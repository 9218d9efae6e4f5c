"""Rows of events. With a daemon, kills and copies: tests/system/test_sqlite.py."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from connectors.sqlite.rows import row_of
from connectors.sqlite.table import SqliteTable
from walflow.tables import WHOLE, CannotUse, NotARow, columns_of


def test_members_become_columns() -> None:
    columns = columns_of({"a": "a", "deep": "b.c", "none": "b.d.e"})
    assert row_of({"a": True, "b": {"c": [1, {"x": 2}]}}, columns) == (1, '[1,{"x":2}]', None)
    assert row_of("no record", columns) == (None, None, None)
    assert row_of({"n": [1]}, WHOLE) == ('{"n":[1]}',)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (2**63, "column a: 9223372036854775808 has more than 64 bits"),
        (-(2**63) - 1, "column a: -9223372036854775809 has more than 64 bits"),
        (float("nan"), "column a: nan is no number that SQLite stores"),
        ("\ud800", "column a: the text is no Unicode"),
    ],
)
def test_what_a_column_cannot_hold(value: object, why: str) -> None:
    with pytest.raises(NotARow, match=why):
        row_of({"a": value}, columns_of({"a": "a"}))


def test_names_are_quoted(tmp_path: Path) -> None:
    columns = columns_of({'x"; drop table t; --': "a"})
    table = SqliteTable(str(tmp_path / "f.db"), 'odd "name"', columns, create=True)
    with table.transaction():
        assert table.insert([("1",)], apart=False) == {}
    table.close()
    with closing(sqlite3.connect(tmp_path / "f.db")) as connection:
        assert connection.execute('SELECT * FROM "odd ""name"""').fetchall() == [("1",)]


def test_what_is_undone_or_refused_is_not_stored(tmp_path: Path) -> None:
    columns = columns_of({"a": "a"})
    table = SqliteTable(str(tmp_path / "f.db"), "t", columns, create=True)
    with table.transaction() as undo:
        table.insert([("1",)], apart=False)
        undo()
    with pytest.raises(CannotUse, match="was moved, replaced or removed"):
        _store_in_a_file_that_moves(table, tmp_path)
    with table.transaction():
        table.insert([("3",)], apart=False)
    table.close()
    with closing(sqlite3.connect(tmp_path / "f.db")) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [("3",)]


def _store_in_a_file_that_moves(table: SqliteTable, directory: Path) -> None:
    with table.transaction():
        (directory / "f.db").rename(directory / "g.db")
        table.insert([("2",)], apart=False)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "f.db").write_bytes(b"no database" * 500)
    table = SqliteTable(str(tmp_path / "f.db"), "t", WHOLE, create=True)
    with pytest.raises(CannotUse, match=r"f\.db: file is not a database"), table.transaction():
        pass


def test_without_create_a_missing_table_is_named(tmp_path: Path) -> None:
    table = SqliteTable(str(tmp_path / "f.db"), "t", WHOLE, create=False)
    with pytest.raises(CannotUse, match=r"f\.db has no table t"), table.transaction():
        pass
