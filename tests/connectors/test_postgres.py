"""Rows and refusals, with a real server. With a daemon, kills and copies: tests/system/test_postgres.py."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from bench.postgres_peer import PostgresPeer, running_postgres
from connectors.postgres.named import NamedRow
from connectors.postgres.schema import WantedTable
from connectors.postgres.server import PostgresServer
from connectors.postgres.table import PostgresRow, PostgresTable
from connectors.postgres.text import TableColumn, cell, json_lines
from tests.connectors.postgres import needs_postgres
from tests.examples import examples
from walflow import Inlet, Outlet
from walflow.event import Frames, Framing
from walflow.framing import LENGTH_PREFIXED, LINES
from walflow.tables import CannotUse, NotARow, RowRefusal, columns_of, run_table
from walflow.testing.sinks import JobsOnThread, RunsSink, sink_promises
from walflow.testing.tables import TableSubject, table_promises

pytestmark = [needs_postgres, pytest.mark.test]

T = TypeVar("T")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresPeer]:
    with running_postgres() as peer:
        yield peer


@pytest.fixture
def peer(server: PostgresPeer) -> PostgresPeer:
    server.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return server


def table_of(peer: PostgresPeer, wanted: WantedTable, gone: str = "", most: int = 0) -> PostgresTable:
    return PostgresTable(PostgresServer(peer.dsn), wanted, gone, most)


def stored(table: PostgresTable, events: Sequence[object], tables: Sequence[object] = ()) -> Mapping[int, str]:
    """In one transaction. `tables`: that the events name. Returns what was refused, by number."""
    table.open()
    rows: list[PostgresRow | None] = []
    refused: dict[int, str] = {}
    for number, (event, name) in enumerate(zip_longest(events, tables)):
        try:
            rows.append(table.row(event, {} if name is None else {"postgres": {"table": name}}))
        except NotARow as error:
            rows.append(None)
            refused[number] = str(error)
    with table.transaction():
        found = table.insert(rows, apart=False)
    table.close()
    return refused | {number: refusal.reason for number, refusal in found.items()}


@pytest.mark.parametrize(
    ("framing", "payload"),
    [
        (LINES, rb'{"text": "a\\b\nc\td", ' + b'\t"n": 1}\r'),
        (LENGTH_PREFIXED, rb'{"text": "a\\b\nc\td", ' + b'\r\n\t"n": 1}'),
    ],
)
def test_an_event_is_a_row_of_json(peer: PostgresPeer, framing: Framing, payload: bytes) -> None:
    table = table_of(peer, WantedTable("events", create=True))
    table.open()
    rows = json_lines(Frames(framing.join([payload, payload]), 2, framing))
    with table.transaction():
        assert table.insert(rows, apart=False) == {}
    table.close()
    assert peer.sql("SELECT event->>'text', event->'n' FROM events") == [("a\\b\nc\td", "1")] * 2


def test_members_become_columns_of_any_type(peer: PostgresPeer) -> None:
    peer.sql(
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE DOMAIN small AS integer CHECK (VALUE < 100)",
        "CREATE TABLE t (i small, n numeric(6,2), b bool, s varchar(5), at timestamptz, day date, u uuid, raw bytea, "
        "names text[], grid int[], j jsonb, m mood, ip inet, f float8, made int GENERATED ALWAYS AS (i + 1) STORED)",
    )
    names = ["i", "n", "b", "s", "at", "day", "u", "raw", "names", "grid", "j", "m", "ip", "f"]
    table = table_of(peer, WantedTable("t", columns=columns_of({name: name for name in names})))
    event = {
        "i": 7,
        "n": "3.14",
        "b": True,
        "s": "a\tb\\n",
        "at": 1_700_000_000_123_456_789,
        "day": "2026-11-26",
        "u": "6f2f8a0e-3ad1-4c8e-8a8d-111111111111",
        "raw": b"\x00\xff",
        "names": ['a"b', "c\\,d", None, "NULL"],
        "grid": [[1, 2], [3, 4]],
        "j": {"x": [1, "é"]},
        "m": "good",
        "ip": "10.0.0.1",
        "f": 1e300,
    }
    assert stored(table, [event]) == {}
    found = peer.sql(
        "SELECT i, n::text, b, s, at::text, day::text, u::text, raw, names, grid, j::text, m, ip::text, f, "
        "made FROM t"
    )
    assert found == [
        (
            7,
            "3.14",
            True,
            "a\tb\\n",
            "2023-11-14 22:13:20.123457+00",
            "2026-11-26",
            "6f2f8a0e-3ad1-4c8e-8a8d-111111111111",
            b"\x00\xff",
            ['a"b', "c\\,d", None, "NULL"],
            [[1, 2], [3, 4]],
            '{"x": [1, "é"]}',
            "good",
            "10.0.0.1/32",
            1e300,
            8,
        )
    ]


@pytest.mark.parametrize(
    ("value", "base", "category", "why"),
    [
        ("a\0b", "text", "S", "column a: PostgreSQL stores no text with the character NUL"),
        (float("nan"), "double precision", "N", "column a: nan is no number"),
        (b"x", "text", "S", "column a: bytes need a column of the type bytea, and its type is text"),
        (10**30, "timestamp with time zone", "D", "column a: the time is before the year 1 or after the year 9999"),
    ],
)
def test_what_no_column_can_hold(value: object, base: str, category: str, why: str) -> None:
    with pytest.raises(NotARow, match=why):
        cell(value, TableColumn("a", base, base, category))


def test_rows_that_the_server_refuses_are_found_and_the_others_stored(peer: PostgresPeer) -> None:
    peer.sql("CREATE TABLE t (n int UNIQUE CHECK (n <> 13), s varchar(3))")
    table = table_of(peer, WantedTable("t", columns=columns_of({"n": "n", "s": "s"})))
    events = [{"n": n, "s": "ok"} for n in range(1000)]
    events[100] = {"n": 5, "s": "ok"}
    events[200] = {"n": 200, "s": "long"}
    events[300] = {"n": "x", "s": "ok"}
    refused = stored(table, events)
    assert refused == {
        13: '"t": new row for relation "t" violates check constraint "t_n_check" (SQLSTATE 23514)',
        100: '"t": duplicate key value violates unique constraint "t_n_key" (SQLSTATE 23505)',
        200: '"t": value too long for type character varying(3) (SQLSTATE 22001)',
        300: '"t": invalid input syntax for type integer: "x" (SQLSTATE 22P02)',
    }
    assert peer.sql("SELECT count(*), count(DISTINCT n) FROM t") == [(996, 996)]


def test_an_empty_text_beside_a_refused_row_is_stored(peer: PostgresPeer) -> None:
    """Its line for COPY has no byte."""
    peer.sql("CREATE TABLE t (s text CHECK (s <> 'no'))")
    table = table_of(peer, WantedTable("t", columns=columns_of({"s": "s"})))
    assert set(stored(table, [{"s": "a"}, {"s": ""}, {"s": "no"}, {"s": ""}, {"s": "b\0"}, {"s": "c"}])) == {2, 4}
    assert peer.sql("SELECT s FROM t ORDER BY s") == [("",), ("",), ("a",), ("c",)]


def test_a_row_that_only_the_end_of_the_transaction_shows_is_found(peer: PostgresPeer) -> None:
    """A constraint that is checked at COMMIT, and a trigger after the statement: no line of COPY is named."""
    peer.sql(
        "CREATE TABLE owners (id int PRIMARY KEY)",
        "INSERT INTO owners SELECT generate_series(0, 9)",
        "CREATE TABLE t (owner int REFERENCES owners DEFERRABLE INITIALLY DEFERRED)",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF EXISTS (SELECT FROM added WHERE owner = 3) THEN RAISE 'no 3'; END IF; RETURN NULL; END $$",
        "CREATE TRIGGER no AFTER INSERT ON t REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION no()",
    )
    table = table_of(peer, WantedTable("t", columns=columns_of({"owner": "owner"})))
    refused = stored(table, [{"owner": n % 10} for n in range(8)] + [{"owner": 77}] + [{"owner": 9}] * 20)
    assert refused == {
        3: '"t": no 3 (SQLSTATE P0001)',
        8: '"t": insert or update on table "t" violates foreign key constraint "t_owner_fkey" (SQLSTATE 23503)',
    }
    assert peer.sql("SELECT count(*) FROM t") == [(27,)]


def test_with_a_key_the_last_event_counts(peer: PostgresPeer) -> None:
    wanted = WantedTable("t", columns=columns_of({"id": "id::int", "v": "v"}), key=("id",), create=True)
    table = table_of(peer, wanted, "gone")
    assert stored(table, [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 1, "v": "c"}, {"id": 3, "v": "d"}]) == {}
    assert table.superseded == 1
    refused = stored(
        table,
        [
            {"id": 2, "gone": True},
            {"id": 3, "gone": True},
            {"id": 3, "v": "again", "gone": False},
            {"v": "no key"},
            {"id": 4, "gone": "yes"},
        ],
    )
    assert refused == {
        3: "column id: it is part of the key, and the event has no value for it",
        4: "gone is true or false, and says whether the row is to be deleted",
    }
    assert peer.sql("SELECT id, v FROM t ORDER BY id") == [(1, "c"), (3, "again")]


VERSIONED = WantedTable(
    "t", columns=columns_of({"id": "id::int", "v": "v", "at": "at::int"}), key=("id",), version="at", create=True
)
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 4)), min_size=1, max_size=12)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_with_a_version_the_newest_event_counts_in_whatever_order_they_come(
    peer: PostgresPeer, transactions: list[list[tuple[int, int | None]]]
) -> None:
    peer.sql("DROP TABLE IF EXISTS t")
    table = table_of(peer, VERSIONED)
    left: dict[int, tuple[int | None, str]] = {}
    kept = stays = number = 0
    for events in transactions:
        rows: list[object] = []
        for id, at in events:
            number += 1
            rows.append({"id": id, "v": str(number), "at": at})
        assert stored(table, rows) == {}
        kept += len(rows) - table.superseded
        before = dict(left)
        for one in rows:
            id, v, at = one["id"], one["v"], one["at"]  # type: ignore[index]
            if id not in left or left[id][0] is None or (at is not None and at >= (left[id][0] or 0)):
                left[id] = at, v
        stays += sum(before.get(id) != now for id, now in left.items())
    expected = [(id, v, at) for id, (at, v) in sorted(left.items())]
    assert peer.sql("SELECT id, v, at FROM t ORDER BY id") == expected
    assert kept == stays, "what left no row is superseded"


def test_with_a_version_a_row_is_deleted_by_a_newer_event_alone(peer: PostgresPeer) -> None:
    table = table_of(peer, VERSIONED, "gone")
    assert stored(table, [{"id": id, "v": "new", "at": 5} for id in (1, 2, 3)]) == {}
    events = [{"id": 1, "at": 4, "gone": True}, {"id": 2, "at": 5, "gone": True}, {"id": 3, "v": "old", "at": 4}]
    assert stored(table, events) == {}
    assert peer.sql("SELECT id, v FROM t ORDER BY id") == [(1, "new"), (3, "new")]


def test_events_name_their_tables(peer: PostgresPeer) -> None:
    peer.sql(
        "CREATE TABLE t (n int)",
        "CREATE TABLE a (n int CHECK (n <> 5))",
        "CREATE VIEW v AS SELECT n FROM t",
        "CREATE TABLE other (m int)",
    )
    wanted = WantedTable("t", columns=columns_of({"n": "n::int"}), create=True)
    table = table_of(peer, wanted, most=2)
    names = [None, "a", "new", "third", "other", "", 7, "walflow_frontier", "v", "t", "a", "new", "a"]
    refused = stored(table, [{"n": n} for n in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, "x", 12]], names)
    assert refused == {
        3: 'the event names the table "third", and `max_tables` is 2',
        4: 'the event names the table "other", and `max_tables` is 2',
        5: "`$postgres.table` is the name of a table",
        6: "`$postgres.table` is the name of a table",
        7: "`$postgres.table`: the table walflow_frontier is not for events",
        8: 'the event names the table "v", and `max_tables` is 2',
        10: '"public"."a": new row for relation "a" violates check constraint "a_n_check" (SQLSTATE 23514)',
        11: '"public"."new": invalid input syntax for type integer: "x" (SQLSTATE 22P02)',
    }
    assert peer.sql("SELECT n FROM t") == [(0,), (9,)]
    assert peer.sql("SELECT n FROM a") == [(1,), (12,)]
    assert peer.sql("SELECT n FROM new") == [(2,)]


def test_a_named_table_that_cannot_be_used_costs_its_own_events(peer: PostgresPeer) -> None:
    """It lacks the column; it is dropped by somebody after it was found; then it is there again."""
    peer.sql("CREATE TABLE t (n int)", "CREATE TABLE other (m int)", "CREATE TABLE gone (n int)")
    table = table_of(peer, WantedTable("t", columns=columns_of({"n": "n"})), most=2)
    table.open()
    with pytest.raises(NotARow, match='the table "other" has no column n; add it: ALTER TABLE'):
        table.row({"n": 1}, {"postgres": {"table": "other"}})
    rows = [table.row({"n": n}, {"postgres": {"table": "gone"}} if n % 2 else {}) for n in range(10)]
    peer.sql("DROP TABLE gone")
    with table.transaction():
        refused = table.insert(rows, apart=False)
    assert set(refused) == {1, 3, 5, 7, 9}
    assert refused[1] == RowRefusal(
        '"public"."gone": relation "public.gone" does not exist (SQLSTATE 42P01)', "42P01"
    )
    peer.sql("ALTER TABLE other ADD COLUMN n int")
    table.open()
    assert isinstance(table.row({"n": 1}, {"postgres": {"table": "other"}}), NamedRow)
    table.close()
    assert peer.sql("SELECT count(*) FROM t") == [(5,)]


def test_one_connection_stores_many_transactions_with_a_key(peer: PostgresPeer) -> None:
    """A prepared statement is used again, of a temporary table that is another one each time."""
    wanted = WantedTable("t", columns=columns_of({"id": "id::int", "v": "v"}), key=("id",), create=True)
    table = table_of(peer, wanted)
    table.open()
    for turn in range(5):
        with table.transaction():
            assert table.insert([table.row({"id": n % 2, "v": str(turn)}, {}) for n in range(6)], apart=False) == {}
        assert table.superseded == 4
    table.close()
    assert peer.sql("SELECT id, v FROM t ORDER BY id") == [(0, "4"), (1, "4")]


def test_with_a_key_each_named_table_has_its_own_rows(peer: PostgresPeer) -> None:
    wanted = WantedTable("t", columns=columns_of({"id": "id::int", "v": "v"}), key=("id",), create=True)
    table = table_of(peer, wanted, most=1)
    events = [{"id": n % 2, "v": str(n)} for n in range(8)]
    assert stored(table, events, ["u" if n % 4 < 2 else None for n in range(8)]) == {}
    assert peer.sql("SELECT id, v FROM t ORDER BY id") == [(0, "6"), (1, "7")]
    assert peer.sql("SELECT id, v FROM u ORDER BY id") == [(0, "4"), (1, "5")]
    assert table.superseded == 4


def test_names_are_quoted(peer: PostgresPeer) -> None:
    peer.sql('CREATE SCHEMA "odd ""s"', 'DROP TABLE IF EXISTS "odd ""s"."t x"')
    try:
        wanted = WantedTable("t x", 'odd "s', columns_of({'x"; --': "a"}), create=True)
        assert stored(table_of(peer, wanted), [{"a": 1}]) == {}
        assert peer.sql('SELECT * FROM "odd ""s"."t x"') == [("1",)]
    finally:
        peer.sql('DROP SCHEMA "odd ""s" CASCADE')


@pytest.mark.parametrize(
    ("before", "wanted", "why"),
    [
        ("", WantedTable("t"), r'there is no table "t"; make it: CREATE TABLE IF NOT EXISTS "t" ("event" jsonb)'),
        (
            "CREATE TABLE t (a int)",
            WantedTable("t", columns=columns_of({"a": "a", "b": "b::int"})),
            r'the table "t" has no column b; add it: ALTER TABLE "t" ADD COLUMN IF NOT EXISTS "b" int',
        ),
        (
            "CREATE TABLE t (a int)",
            WantedTable("t", columns=columns_of({"a": "a"}), key=("a",)),
            r'no unique index of "t" has the columns of `key`; make one: CREATE UNIQUE INDEX ON "t" ("a")',
        ),
        (
            "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY)",
            WantedTable("t", columns=columns_of({"a": "a"})),
            r'the server alone makes the values of a in "t": leave it out of `columns`',
        ),
        ("CREATE VIEW t AS SELECT 1 AS event", WantedTable("t"), 'there is no table "t"'),
    ],
)
def test_a_table_that_does_not_fit_is_named_with_the_statement(
    peer: PostgresPeer, before: str, wanted: WantedTable, why: str
) -> None:
    if before:
        peer.sql(before)
    table = table_of(peer, wanted)
    for ask in (table.open, table.probe):
        with pytest.raises(CannotUse) as caught:
            ask()
        assert str(caught.value).startswith(why)
    table.close()


def test_a_probe_changes_nothing(peer: PostgresPeer) -> None:
    table_of(peer, WantedTable("t", create=True)).probe()
    assert peer.sql("SELECT to_regclass('t')::text, to_regclass('walflow_frontier')::text") == [(None, None)]


def test_columns_are_added_if_the_flow_says_so(peer: PostgresPeer) -> None:
    peer.sql("CREATE TABLE t (a int)")
    wanted = WantedTable("t", columns=columns_of({"a": "a", "b": "b::int"}), add_columns=True)
    assert stored(table_of(peer, wanted), [{"a": 1, "b": 2}]) == {}
    assert peer.sql("SELECT a, b FROM t") == [(1, 2)]


def test_a_server_that_is_away_is_named() -> None:
    table = PostgresTable(PostgresServer("postgresql://nobody@127.0.0.1:1/none"), WantedTable("t"))
    with pytest.raises(CannotUse, match=r"refused|Connect call failed"):
        table.open()


class ServerOnThread(PostgresServer):
    """The jobs of a scenario run within its loop, and a thread has one loop at a time."""

    def run(self, asked: Awaitable[T]) -> T:
        return on_thread(lambda: super(ServerOnThread, self).run(asked))

    def close(self) -> None:
        on_thread(super().close)


def on_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


class BreakingTable(PostgresTable):
    """One that has a bug, while it is `broken`."""

    broken = False

    def insert(self, rows: Sequence[PostgresRow | None], *, apart: bool) -> Mapping[int, RowRefusal]:
        if self.broken:
            raise KeyError("a bug")
        return super().insert(rows, apart=apart)


class PostgresSubject(JobsOnThread):
    """A table that is renamed while the sink uses it."""

    never = b'"no"'
    peer: PostgresPeer  # of the module

    def __init__(self) -> None:
        self._name = "events"
        self.peer.sql(
            "DROP SCHEMA public CASCADE",
            "CREATE SCHEMA public",
            """CREATE TABLE events (id serial, event json CHECK (event::text <> '"no"'))""",
        )
        self._table = BreakingTable(ServerOnThread(self.peer.dsn), WantedTable("events"))

    async def open(self) -> RunsSink:
        return self

    async def again(self) -> RunsSink:
        return self

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        await run_table(inlet, self._table)

    def got(self) -> Sequence[bytes]:
        return [str(event).encode() for (event,) in self._sql(f"SELECT event::text FROM {self._name} ORDER BY id")]

    def fail(self) -> None:
        self._sql("ALTER TABLE events RENAME TO away")
        self._name = "away"

    def fail_otherwise(self) -> None:
        self._sql("CREATE TABLE events (other int)")

    def mend(self) -> None:
        self._sql("DROP TABLE IF EXISTS events", "ALTER TABLE away RENAME TO events")
        self._name = "events"

    def bug(self) -> None:
        self._table.broken = True

    def _sql(self, *statements: str) -> Sequence[Any]:
        return on_thread(lambda: self.peer.sql(*statements))


class PostgresRows(TableSubject):
    """With a column that events are kept in; `key`: whether rows are found again by it."""

    peer: PostgresPeer  # of the module
    key: Sequence[str] = ()

    def __init__(self) -> None:
        self.refused = None if self.key else {"n": -1}  # with a key, later events wait for its error record
        table = "CREATE TABLE t (n int PRIMARY KEY CHECK (n > 0))"
        self.peer.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public", table)

    def store(self) -> PostgresTable:
        return table_of(self.peer, WantedTable("t", columns=columns_of({"n": "n"}), key=self.key))

    def rows(self) -> Sequence[object]:
        return [{"n": n} for (n,) in self.peer.sql("SELECT n FROM t")]


class PostgresKeyedRows(PostgresRows):
    key = ("n",)


@pytest.fixture(autouse=True)
def _subjects_have_a_peer(server: PostgresPeer) -> None:
    PostgresSubject.peer = PostgresRows.peer = server


test_postgres = sink_promises(PostgresSubject)
test_rows = table_promises(PostgresRows)
test_rows_with_a_key = table_promises(PostgresKeyedRows)
