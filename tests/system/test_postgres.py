"""A log into a table of PostgreSQL: each event once, whatever dies."""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest

from bench.postgres_peer import PostgresPeer, running_postgres
from tests.connectors.pgbouncer import needs_pgbouncer, pooled
from tests.connectors.postgres import needs_postgres
from tests.flows.builder import TCP, flow_of, lines_out, plain
from tests.system.daemon import ROOT, Client, Daemon, running
from tests.waiting import PATIENCE, wait_until
from walflow.exit_codes import EX_USAGE

pytestmark = [needs_postgres, pytest.mark.test]

LOG: Final = plain("wal", path="log", chunk_size=65536)
BAD: Final = lines_out("file", path="bad.jsonl", mode="append")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresPeer]:
    with running_postgres() as peer:
        yield peer


@pytest.fixture
def peer(server: PostgresPeer) -> PostgresPeer:
    server.sql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return server


def flow_in(directory: Path, peer: PostgresPeer, port: int | None = None, **config: object) -> Path:
    config = {"columns": {"n": "n::int"}, **config}
    dsn = peer.dsn if port is None else peer.dsn.replace(str(peer.port), str(port))
    file = directory / "flow.troy"
    db = plain("postgres", dsn=dsn, **config)
    file.write_text(flow_of("tcp -> log -> db", "log -> tcp", "db/err -> bad", tcp=TCP, log=LOG, db=db, bad=BAD))
    return file


def rows(peer: PostgresPeer) -> Counter[int]:
    try:
        return Counter(n for (n,) in peer.sql("SELECT n FROM events"))
    except (OSError, Exception):  # noqa: BLE001  # the server or the table is not there
        return Counter()


def deliver(daemon: Daemon, numbers: Sequence[int]) -> None:
    """Sends them, and waits until each is in the log."""
    client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
    client.send(b"".join(b'{"n":%d}\n' % number for number in numbers))
    client.lines(len(numbers))
    client.close()


def stored(peer: PostgresPeer, numbers: Sequence[int]) -> None:
    """Waits until they are rows, each once, and nothing else is."""
    wait_until(lambda: set(rows(peer)) == set(numbers), "rows are missing")
    assert rows(peer) == Counter(numbers)


def refusal(daemon: Daemon) -> str:
    """Why the sink does not write."""
    while True:
        line = daemon.wait_for("breaker triggered")
        if line["component"] == "db":
            return str(line["reason"])


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.nightly)])
def test_each_event_is_a_row_once_over_kills_of_walflow(tmp_path: Path, peer: PostgresPeer, kills: int) -> None:
    flow, size = flow_in(tmp_path, peer), 20_000
    for life in range(kills):
        with running(flow, tmp_path) as daemon:
            deliver(daemon, range(life * size, (life + 1) * size))
            had = life * size
            wait_until(lambda had=had: rows(peer).total() > had + size // 50, "no row arrives")  # type: ignore[misc]
            daemon.kill()
    with running(flow, tmp_path) as daemon:
        stored(peer, range(kills * size))
        assert daemon.terminate() == 0


@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.nightly)])
def test_each_event_is_a_row_once_over_kills_of_the_server(tmp_path: Path, kills: int) -> None:
    with running_postgres() as peer, running(flow_in(tmp_path, peer), tmp_path) as daemon:
        size = 20_000
        for life in range(kills):
            deliver(daemon, range(life * size, (life + 1) * size))
            had = life * size
            wait_until(lambda had=had: rows(peer).total() > had, "no row arrives")  # type: ignore[misc]
            if life % 2:
                peer.stop("immediate")
            else:
                peer.kill()
            wait_until(lambda: _starts(peer), "the server does not start")
        stored(peer, range(kills * size))
        assert daemon.terminate() == 0


def _starts(peer: PostgresPeer) -> bool:
    """Not before the children of a server that was killed have ended."""
    try:
        peer.start()
    except AssertionError:
        return False
    return True


class Wire:
    """A wire to the server that cuts. `cuts`: so many COMMITs get no answer; the server gets each of them `late`
    seconds after the client has seen the end. `mute`: from now on nothing crosses, and nothing ends."""

    def __init__(self, port: int, cuts: int, late: float = 0.0) -> None:
        self.cuts = cuts
        self.mute = threading.Event()
        self._late = late
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            cut = threading.Event()
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(one, other, cut, one is client), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, cut: threading.Event, asks: bool) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                if self.mute.is_set():
                    threading.Event().wait(PATIENCE)
                    return
                if asks and self.cuts and b"COMMIT\0" in data:
                    self.cuts -= 1
                    cut.set()
                    one.shutdown(socket.SHUT_RDWR)
                    time.sleep(self._late)
                    other.sendall(data)
                    return
                if not asks and cut.is_set():
                    return
                other.sendall(data)
        if not cut.is_set():
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            sock.close()


@pytest.mark.parametrize(
    ("cuts", "late"),
    [
        (4, 0.0),
        (2, 0.5),
        pytest.param(20, 0.0, marks=pytest.mark.nightly),
        pytest.param(10, 2.0, marks=pytest.mark.nightly),
    ],
)
def test_a_commit_without_an_answer_is_looked_up(tmp_path: Path, peer: PostgresPeer, cuts: int, late: float) -> None:
    """It may land after the next connection has been made: what is read there waits for it."""
    wire = Wire(peer.port, cuts, late)
    with running(flow_in(tmp_path, peer, wire.port), tmp_path) as daemon:
        events = 0
        while wire.cuts:
            deliver(daemon, range(events, events + 100))
            events += 100
            stored(peer, range(events))
        assert daemon.terminate() == 0
    wire.close()


@pytest.mark.nightly
def test_a_black_hole_ends(tmp_path: Path, peer: PostgresPeer) -> None:
    """No FIN, no answer, and the row locked by a transaction of nobody: the next connection goes on within 60 s."""
    goes_on_behind_a_hole(tmp_path, peer, peer.port)


@pytest.mark.nightly
@needs_pgbouncer
def test_a_black_hole_before_a_pool_ends(peer: PostgresPeer) -> None:
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    try:
        with pooled(peer, directory) as dsn:
            goes_on_behind_a_hole(directory, peer, urlsplit(dsn).port or 0)
    finally:
        shutil.rmtree(directory)


def goes_on_behind_a_hole(directory: Path, peer: PostgresPeer, port: int) -> None:
    hole = Wire(port, 0)
    with running(flow_in(directory, peer, hole.port), directory) as daemon:
        deliver(daemon, range(100))
        stored(peer, range(100))
        hole.mute.set()
        deliver(daemon, range(100, 200))
        began = time.monotonic()
        assert refusal(daemon) == "no answer within 30 s"
        hole.mute.clear()
        stored(peer, range(200))
        assert time.monotonic() - began < 90
        daemon.terminate()
    hole.close()


@needs_pgbouncer
def test_a_pool_of_connections_by_transaction_works(peer: PostgresPeer) -> None:
    """Its second connection does not know a statement that the first has prepared."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    try:
        with pooled(peer, directory) as dsn:
            flow = flow_in(directory, peer)
            flow.write_text(flow.read_text().replace(peer.dsn, dsn))
            with running(flow, directory) as daemon:
                for part in range(10):
                    deliver(daemon, range(part * 100, (part + 1) * 100))
                    stored(peer, range((part + 1) * 100))
                assert daemon.terminate() == 0
    finally:
        shutil.rmtree(directory)


def test_a_row_that_the_server_refuses_leaves_by_err(tmp_path: Path, peer: PostgresPeer) -> None:
    peer.sql("CREATE TABLE events (n int NOT NULL UNIQUE CHECK (n <> 13))")
    flow = flow_in(tmp_path, peer)
    for _ in range(2):  # and what was rejected is not sent again
        with running(flow, tmp_path) as daemon:
            if not (tmp_path / "bad.jsonl").exists():
                deliver(daemon, [*range(30), 7])
            stored(peer, [n for n in range(30) if n != 13])
            wait_until(lambda: (tmp_path / "bad.jsonl").read_text().count("\n") == 2, "a rejected row")
            assert daemon.terminate() == 0
    found = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert {one["event"]["n"]: one["error"] for one in found} == {
        13: '"events": new row for relation "events" violates check constraint "events_n_check" (SQLSTATE 23514)',
        7: '"events": duplicate key value violates unique constraint "events_n_key" (SQLSTATE 23505)',
    }


def test_with_a_key_no_later_row_passes_a_refused_one(tmp_path: Path, peer: PostgresPeer) -> None:
    """It may come again after a crash, and would win then. So later rows wait until its error record is delivered."""
    peer.sql("CREATE TABLE events (id int PRIMARY KEY, n int CHECK (n <> 13))")
    with slow_server() as letters:
        flow = flow_in(tmp_path, peer, columns={"id": "id", "n": "n"}, key=["id"])
        text, url = flow.read_text(), f"http://127.0.0.1:{letters.port}/"
        flow.write_text(text.replace(BAD, plain("http_client", url=url, method="POST", timeout=60_000_000_000)))
        with running(flow, tmp_path) as daemon:
            client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
            for n in (12, 13, 14, 15):
                client.send(b'{"id":1,"n":%d}\n' % n)
                client.lines(1)
                if n == 13:
                    assert letters.asked.wait(PATIENCE)
            client.close()
            assert (
                refusal(daemon) == "waits until the error record of position 2 is delivered: no later row may pass it"
            )
            assert rows(peer) == Counter([12])
            letters.go_on.set()
            stored(peer, [15])
            assert daemon.terminate() == 0
    assert [json.loads(body)["event"]["n"] for body in letters.bodies] == [13]


@pytest.mark.parametrize("version", ["", "at"])
def test_a_letter_that_goes_again_replaces_no_newer_row_that_has_a_version(
    tmp_path: Path, peer: PostgresPeer, version: str
) -> None:
    peer.sql("CREATE TABLE events (id int PRIMARY KEY, at int, n int CHECK (n <> 13))")
    columns, admin = {"id": "id", "at": "at", "n": "n"}, f"unix:{tmp_path}/admin"
    db = plain("postgres", dsn=peer.dsn, columns=columns, key=["id"], version=version)
    (tmp_path / "flow.troy").write_text(flow_of("tcp -> log -> db", tcp=TCP, log=LOG, db=db))
    (tmp_path / "mend.tremor").write_text("let event.n = 14; event")
    command = [sys.executable, "-m", "walflow", "letters", "retry", "log", "--script", "mend.tremor", "--yes"]
    with running(tmp_path / "flow.troy", tmp_path, admin=admin) as daemon:
        client = Client(daemon.port())
        client.send(b'{"id":1,"at":1,"n":13}\n')
        wait_until((tmp_path / "log/letters/db").exists, "a letter")
        client.send(b'{"id":1,"at":2,"n":20}\n')
        client.close()
        stored(peer, [20])
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={"WALFLOW_ADMIN": admin},
            timeout=100,
        )
        if version:
            assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 delivered"), done
            assert rows(peer) == Counter([20])
        else:
            assert done.returncode == EX_USAGE
            assert "--overwrite sends all the same" in done.stderr
        assert daemon.terminate() == 0


@pytest.mark.parametrize("key", [[], ["n"]])
def test_an_event_that_fails_each_time_holds_up_the_others_only_for_a_while(
    tmp_path: Path, peer: PostgresPeer, key: list[str]
) -> None:
    """The server says that it is its own fault. Each of the two events is found in a search of its own."""
    peer.sql(
        "CREATE TABLE events (n bigint PRIMARY KEY)",
        "CREATE FUNCTION choke() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF NEW.n IN (3, 17) THEN RAISE 'cannot' USING ERRCODE = '58030'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER choke BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION choke()",
    )
    with running(flow_in(tmp_path, peer, key=key, poison_after=1_000_000_000), tmp_path) as daemon:
        deliver(daemon, range(20))
        wait_until(lambda: (tmp_path / "bad.jsonl").read_text().count("\n") == 2, "both leave by err")
        wait_until(lambda: set(rows(peer)) == {*range(20)} - {3, 17}, "all others are rows")
        assert daemon.terminate() == 0
    letters = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert sorted(one["event"]["n"] for one in letters) == [3, 17]
    assert all("and others pass: cannot (SQLSTATE 58030)" in one["error"] for one in letters)


@pytest.mark.nightly  # longer than walflow waits for a lock
def test_who_holds_a_lock_is_named(tmp_path: Path, peer: PostgresPeer) -> None:
    holds = "SET application_name = 'holds-it'", "BEGIN", "LOCK TABLE events", "SELECT pg_sleep(30)"
    other = threading.Thread(target=peer.sql, args=holds)
    with running(flow_in(tmp_path, peer), tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(peer, range(10))
        other.start()
        held = "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'events'::regclass"
        wait_until(lambda: peer.sql(held), "the lock is held")
        deliver(daemon, range(10, 20))
        reason = refusal(daemon)
        assert "(SQLSTATE 55P03); the lock is held by process " in reason
        assert "holds-it of user postgres" in reason
        other.join()
        stored(peer, range(20))
        assert daemon.terminate() == 0


class Letters(ThreadingHTTPServer):
    """Answers once it may."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.port = self.server_address[1]
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.bodies: list[bytes] = []


class Answer(BaseHTTPRequestHandler):
    server: Letters

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.set()
        self.server.go_on.wait(PATIENCE)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def slow_server() -> Iterator[Letters]:
    with Letters() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()


def test_a_table_that_went_back_is_refused(tmp_path: Path, peer: PostgresPeer) -> None:
    """As after a restore to a point in time, or a failover that lost commits; and a frontier that is gone."""
    flow = flow_in(tmp_path, peer)
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(peer, range(10))
        assert daemon.terminate() == 0
    peer.sql("CREATE TABLE kept AS SELECT * FROM walflow_frontier")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10, 20))
        stored(peer, range(20))
        peer.sql(  # while it runs
            "BEGIN",
            "DELETE FROM events WHERE n >= 10",
            "TRUNCATE walflow_frontier",
            "INSERT INTO walflow_frontier SELECT * FROM kept",
            "COMMIT",
        )
        deliver(daemon, range(20, 30))
        assert refusal(daemon).startswith(
            "the receiver has confirmed position 20 of this log, and has position 10 now: it was restored"
        )
        daemon.terminate()
    peer.sql("TRUNCATE walflow_frontier")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(30, 40))
        assert refusal(daemon).startswith(
            "the receiver has confirmed position 20 of this log, and has position 0 now"
        )
        daemon.terminate()


def test_of_two_daemons_on_a_copy_one_stops_for_good(tmp_path: Path, peer: PostgresPeer) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    with running(flow_in(one, peer), one) as first:
        deliver(first, range(10))
        stored(peer, range(10))
        shutil.copytree(one / "log", other / "log")
        with running(flow_in(other, peer), other) as second:
            deliver(second, range(10, 20))
            stored(peer, range(20))
            deliver(first, range(20, 30))
            assert refusal(first).startswith("another process writes the events of this log, since its run 2")
            deliver(second, range(30, 40))
            stored(peer, [*range(20), *range(30, 40)])
            assert second.terminate() == 0


def test_a_table_that_is_not_there_holds_its_lane_and_says_what_to_do(tmp_path: Path, peer: PostgresPeer) -> None:
    with running(flow_in(tmp_path, peer, create=False), tmp_path) as daemon:
        deliver(daemon, range(10))
        assert refusal(daemon) == (
            'there is no table "events"; make it: CREATE TABLE IF NOT EXISTS "events" ("n" int)'
        )
        peer.sql("CREATE TABLE events (n int)")
        stored(peer, range(10))


def test_the_door_as_shipped(tmp_path: Path, peer: PostgresPeer) -> None:
    """A stranger's first minute: the table is made."""
    flow = tmp_path / "door.troy"
    text = (ROOT / "flows/doors/postgres.troy").read_text()
    flow.write_text(text.replace("127.0.0.1:4242", "127.0.0.1:0").replace("postgresql://localhost/walflow", peer.dsn))
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        wait_until(lambda: peer.sql("SELECT to_regclass('events')::text") == [("events",)], "the table")
        wait_until(lambda: peer.sql("SELECT count(DISTINCT event->'n') FROM events") == [(10,)], "rows")
        assert daemon.terminate() == 0


def test_with_a_key_a_refused_row_of_a_block_holds_up_the_rest_until_its_record_is_delivered(
    tmp_path: Path, peer: PostgresPeer
) -> None:
    peer.sql("CREATE TABLE events (id int PRIMARY KEY, n int CHECK (n NOT IN (3, 13)))")
    with running(flow_in(tmp_path, peer, columns={"id": "n", "n": "n"}, key=["id"]), tmp_path) as daemon:
        deliver(daemon, range(20))
        stored(peer, [n for n in range(20) if n not in (3, 13)])
        assert daemon.terminate() == 0
    letters = (tmp_path / "bad.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"]["n"] for line in letters] == [3, 13]
