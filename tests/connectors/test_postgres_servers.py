"""What servers are like: their passwords and certificates, tables in parts, search paths, and what they refuse for a
while."""

import asyncio
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from bench.postgres_peer import USER, PostgresPeer, running_postgres
from connectors.postgres.schema import WantedTable
from connectors.postgres.server import PostgresServer
from connectors.postgres.table import PostgresTable
from tests.connectors.postgres import needs_postgres
from tests.system.certificates import Authority
from walflow.tables import CannotUse, columns_of

pytestmark = [needs_postgres, pytest.mark.test]

N = columns_of({"n": "n"})


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresPeer]:
    with running_postgres() as peer:
        yield peer


@pytest.fixture
def peer(server: PostgresPeer) -> PostgresPeer:
    server.sql("DROP SCHEMA IF EXISTS other CASCADE", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return server


def store(table: PostgresTable, *numbers: int) -> dict[int, str]:
    """In one transaction. Returns why some were refused, by number of the row."""
    table.open()
    try:
        with table.transaction():
            found = table.insert([table.row({"n": n}, {}) for n in numbers], apart=False)
    finally:
        table.close()
    return {number: refusal.code for number, refusal in found.items()}


def test_a_table_in_parts(peer: PostgresPeer) -> None:
    """A row for which there is no part leaves alone."""
    peer.sql(
        "CREATE TABLE t (n int) PARTITION BY RANGE (n)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
    )
    assert store(PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N)), 1, 11, 99, 12) == {2: "23514"}
    assert peer.sql("SELECT (SELECT count(*) FROM low), (SELECT count(*) FROM high)") == [(1, 2)]


def test_parts_with_a_key(peer: PostgresPeer) -> None:
    peer.sql(
        "CREATE TABLE t (n int PRIMARY KEY) PARTITION BY HASH (n)",
        "CREATE TABLE a PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE b PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    )
    table = PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N, key=("n",)))
    for _ in range(2):
        assert store(table, *range(10)) == {}
    assert peer.sql("SELECT count(*) FROM t") == [(10,)]


def test_the_table_is_the_first_of_the_search_path(peer: PostgresPeer) -> None:
    """And the frontier is beside it."""
    peer.sql("CREATE SCHEMA other", "CREATE TABLE other.t (n int)", "CREATE TABLE public.t (n int)")
    dsn = f"{peer.dsn}?options=-csearch_path%3Dother%2Cpublic"
    assert store(PostgresTable(PostgresServer(dsn), WantedTable("t", columns=N)), 1) == {}
    assert store(PostgresTable(PostgresServer(dsn), WantedTable("t", "public", columns=N)), 2) == {}
    assert peer.sql("SELECT n FROM other.t") == [(1,)]
    assert peer.sql("SELECT n FROM public.t") == [(2,)]
    assert peer.sql("SELECT count(*) FROM other.walflow_frontier") == [(0,)]


def test_a_trigger_that_raises_blames_its_row(peer: PostgresPeer) -> None:
    peer.sql(
        "CREATE TABLE t (n int)",
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 3 THEN RAISE EXCEPTION "
        "'no 3' USING ERRCODE = '23999'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()",
    )
    assert store(PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N)), 1, 2, 3, 4) == {2: "23999"}


@pytest.mark.parametrize("state", ["40P01", "40001", "57014", "53100", "55P03", "25006", "42501"])
def test_what_is_no_fault_of_a_row_is_tried_again(peer: PostgresPeer, state: str) -> None:
    """A deadlock, a serialisation that failed, a cancelled statement, a full disk, a lock, a standby, a right that is
    missing: nothing is stored, and no row is refused."""
    peer.sql(
        "CREATE TABLE t (n int)",
        f"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now' "
        f"USING ERRCODE = '{state}'; END $$",
        "CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()",
    )
    table = PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N))
    with pytest.raises(CannotUse, match=rf"not now \(SQLSTATE {state}\)"):
        store(table, 1, 2)
    peer.sql("DROP TRIGGER no ON t")
    assert store(table, 1, 2) == {}


def test_a_database_that_takes_no_writes_is_not_used(peer: PostgresPeer) -> None:
    peer.sql("CREATE TABLE t (n int)", "ALTER DATABASE postgres SET default_transaction_read_only = on")
    try:
        with pytest.raises(CannotUse, match="no server of the dsn takes writes now: each is a standby, or read-only"):
            store(PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N)), 1)
    finally:
        asyncio.run(_writable(peer))
    assert store(PostgresTable(PostgresServer(peer.dsn), WantedTable("t", columns=N)), 1) == {}


async def _writable(peer: PostgresPeer) -> None:
    connection = await asyncpg.connect(peer.dsn, server_settings={"default_transaction_read_only": "off"})
    await connection.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
    await connection.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def guarded(peer: PostgresPeer, authority: Authority) -> Iterator[str]:
    """The DSN of a user with a password, at a server that asks for it and has a certificate. `localhost` is its
    name."""
    keys = authority.issue("localhost")
    for name, file in (("server.crt", keys["cert"]), ("server.key", keys["key"])):
        target = peer.data / name
        shutil.copy(file, target)
        target.chmod(0o600)
        if os.getuid() == 0:
            shutil.chown(target, USER)
    peer.sql("DROP ROLE IF EXISTS walflow", "CREATE ROLE walflow LOGIN SUPERUSER PASSWORD 'right'")
    rules = peer.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("hostssl all walflow 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
    peer.sql("ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
    peer.sql("CREATE TABLE t (n int)")
    try:
        yield f"postgresql://walflow@localhost:{peer.port}/postgres?sslmode=verify-full"
    finally:
        rules.write_text(before)
        peer.sql("ALTER SYSTEM RESET ssl", "SELECT pg_reload_conf()", "DROP OWNED BY walflow", "DROP ROLE walflow")


def test_the_user_of_the_process_is_who_it_is(peer: PostgresPeer) -> None:
    """`peer`: by a Unix socket, without a password."""
    user = pwd.getpwuid(os.getuid()).pw_name
    own = "postgres" if user == USER else user
    if own != "postgres":
        peer.sql(f'DROP ROLE IF EXISTS "{own}"', f'CREATE ROLE "{own}" LOGIN SUPERUSER')
    peer.sql("CREATE ROLE somebody LOGIN", "CREATE TABLE t (n int)")
    rules = peer.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("local all all peer\nhost all postgres 127.0.0.1/32 trust\n")
    peer.sql("SELECT pg_reload_conf()")
    try:
        dsn = f"postgresql://{{}}@/postgres?host={peer.directory}&port={peer.port}"
        wanted = WantedTable("t", columns=N)
        assert store(PostgresTable(PostgresServer(dsn.format(own)), wanted), 1) == {}
        with pytest.raises(CannotUse, match='Peer authentication failed for user "somebody"'):
            store(PostgresTable(PostgresServer(dsn.format("somebody")), wanted), 2)
    finally:
        rules.write_text(before)
        peer.sql("SELECT pg_reload_conf()", "DROP ROLE somebody")
    assert peer.sql("SELECT n FROM t") == [(1,)]


def test_the_certificate_is_verified_and_the_password_comes_from_a_file(
    peer: PostgresPeer, guarded: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, passwords = WantedTable("t", columns=N), tmp_path / "pgpass"
    passwords.write_text(f"localhost:{peer.port}:*:walflow:right\n")
    passwords.chmod(0o600)
    good = f"{guarded}&sslrootcert={authority.file}"
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert store(PostgresTable(PostgresServer(good), wanted), 1) == {}
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "nothing"))
    assert store(PostgresTable(PostgresServer(good, lambda: "right"), wanted), 2) == {}
    for server, why in (
        (PostgresServer(good, lambda: "wrong"), "password authentication failed"),
        (PostgresServer(good.replace("localhost", "127.0.0.1"), lambda: "right"), "certificate verify failed"),
        (PostgresServer(guarded, lambda: "right"), "certificate|root"),
    ):
        with pytest.raises(CannotUse, match=why):
            store(PostgresTable(server, wanted), 3)
    assert peer.sql("SELECT n FROM t ORDER BY n") == [(1,), (2,)]
