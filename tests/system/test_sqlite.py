"""A log into a table: each event once, whatever dies."""

import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.flows.builder import TCP, flow_of, lines, lines_out, plain
from tests.system.admin import LOOPBACK, Admin
from tests.system.daemon import ROOT, WALFLOW, Client, Daemon, running
from tests.system.warm import said
from tests.waiting import wait_until
from walflow.disk import RealDisk
from walflow.frontier import KeptFrontiers


def flow_in(directory: Path, sync: str = "always", *, more: Sequence[str] = ()) -> Path:
    """`more`: sinks of the log; `away` has a peer that never comes, so the log deletes nothing."""
    file = directory / "flow.troy"
    others = {
        "copy": lines_out("file", path="copy.jsonl", mode="append"),
        "away": lines("tcp_client", url="tcp://127.0.0.1:1"),
    }
    file.write_text(
        flow_of(
            "tcp -> log -> db",
            "tcp -> tcp",
            "db/err -> bad",
            *(f"log -> {name}" for name in more),
            tcp=TCP,
            log=plain("wal", path="log", chunk_size=65536, sync=sync),
            db=plain("sqlite", path="out.db", columns={"n": "n"}),
            bad=lines_out("file", path="bad.jsonl", mode="append"),
            **{name: others[name] for name in more},
        )
    )
    return file


def rows(directory: Path) -> Counter[int]:
    if not (directory / "out.db").exists():
        return Counter()
    connection = sqlite3.connect(directory / "out.db")
    try:
        return Counter(n for (n,) in connection.execute("SELECT n FROM events"))
    except sqlite3.OperationalError:  # the table is not there yet
        return Counter()
    finally:
        connection.close()


def deliver(daemon: Daemon, numbers: Sequence[int]) -> None:
    """Sends them, and waits until each is in the log."""
    client = Client(int(str(daemon.last("listening")["address"]).rsplit(":", 1)[1]))
    client.send(b"".join(b'{"n":%d}\n' % number for number in numbers))
    client.lines(len(numbers))
    client.close()


def stored(directory: Path, numbers: Sequence[int]) -> None:
    """Waits until they are rows, each once, and nothing else is."""
    wait_until(lambda: set(rows(directory)) == set(numbers), "rows are missing")
    assert rows(directory) == Counter(numbers)


def refusal(daemon: Daemon) -> str:
    """Why the sink does not write."""
    while True:
        line = daemon.wait_for("breaker triggered")
        if line["component"] == "db":
            return str(line["reason"])


def frontier(directory: Path, command: str, *options: str) -> str:
    return said([*WALFLOW, "frontier", command, str(directory / "log"), "main::db", *options], cwd=ROOT)


def test_each_event_is_a_row_once_over_kills(tmp_path: Path) -> None:
    flow, size, kills = flow_in(tmp_path), 20_000, 6
    for life in range(kills):
        with running(flow, tmp_path) as daemon:
            deliver(daemon, range(life * size, (life + 1) * size))
            had = life * size
            wait_until(lambda had=had: len(rows(tmp_path)) > had + size // 50, "no row arrives")  # type: ignore[misc]
            daemon.kill()
    with running(flow, tmp_path) as daemon:
        stored(tmp_path, range(kills * size))
        assert daemon.terminate() == 0


def test_a_row_that_the_table_refuses_leaves_by_err_and_the_others_are_stored(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "out.db") as connection:
        connection.execute("CREATE TABLE events (n INTEGER NOT NULL UNIQUE CHECK (n <> 13))")
    flow = flow_in(tmp_path)
    for _ in range(2):  # and what was rejected is not sent again
        with running(flow, tmp_path) as daemon:
            if not (tmp_path / "bad.jsonl").exists():
                deliver(daemon, [*range(30), 7])
            stored(tmp_path, [n for n in range(30) if n != 13])
            wait_until(lambda: (tmp_path / "bad.jsonl").read_text().count("\n") == 2, "a rejected row")
            assert daemon.terminate() == 0
    found = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(one["event"]["n"], one["error"]) for one in found] == [
        (13, "events: CHECK constraint failed: n <> 13 (SQLITE_CONSTRAINT_CHECK)"),
        (7, "events: UNIQUE constraint failed: events.n (SQLITE_CONSTRAINT_UNIQUE)"),
    ]


def test_an_operator_sees_how_far_the_table_is_and_what_it_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "out.db") as connection:
        connection.execute("CREATE TABLE events (n INTEGER NOT NULL UNIQUE CHECK (n <> 13))")
    with running(flow_in(tmp_path), tmp_path, admin=LOOPBACK) as daemon:
        admin = Admin(daemon)
        deliver(daemon, [*range(30), 7, 8])
        admin.until(lambda admin: frontiers(admin) == [{"log": "log", "position": 30, "lag": 0}])
        metrics = admin.get("/metrics")[1]
        for code, count in (("SQLITE_CONSTRAINT_CHECK", 1), ("SQLITE_CONSTRAINT_UNIQUE", 2)):
            line = rf'^walflow_component_refused_rows_total{{.*code="{code}".*}} {count}.0$'
            assert re.search(line, metrics, re.MULTILINE)
        status = said([*WALFLOW, "status", "--admin", admin.address])
        assert "db has the events of log up to position 30\n" in status
        assert daemon.terminate() == 0


def frontiers(admin: Admin) -> list[object]:
    (flow,) = admin.status()["flows"]
    (db,) = (one for one in flow["connectors"] if one["name"] == "db")
    found: list[object] = db["frontiers"]
    return found


def test_a_row_on_which_the_table_chokes_takes_no_other_along(tmp_path: Path) -> None:
    """A trigger that ends the whole transaction, and an expression of the table that fails."""
    with sqlite3.connect(tmp_path / "out.db") as connection:
        connection.execute("CREATE TABLE events (n, part AS (json(iif(n = 13, '[', '1'))) STORED)")
        connection.execute(
            "CREATE TRIGGER no BEFORE INSERT ON events WHEN NEW.n = 7 BEGIN SELECT RAISE(ROLLBACK, 'no 7'); END"
        )
    with running(flow_in(tmp_path), tmp_path) as daemon:
        deliver(daemon, range(30))
        stored(tmp_path, [n for n in range(30) if n not in {7, 13}])
        wait_until(lambda: (tmp_path / "bad.jsonl").read_text().count("\n") == 2, "a rejected row")
        assert daemon.terminate() == 0
    found = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert {one["event"]["n"]: one["error"] for one in found} == {
        7: "events: no 7 (SQLITE_CONSTRAINT_TRIGGER)",
        13: "events: malformed JSON (SQLITE_ERROR)",
    }


def test_a_table_that_is_away_holds_its_lane_and_says_why(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "out.db") as connection:
        connection.execute("CREATE TABLE events (other)")
    with running(flow_in(tmp_path), tmp_path) as daemon:
        deliver(daemon, range(10))
        assert refusal(daemon) == "the table events in out.db has no column n"
        with sqlite3.connect(tmp_path / "out.db") as connection:
            connection.execute("ALTER TABLE events ADD COLUMN n")
        stored(tmp_path, range(10))


BACK = {
    "--resend": ("the log sends 30 events: 10 are in the table already, 20 are new\n", range(30)),
    "--keep": (
        (
            "the log sends 10 events: 0 are in the table already, 10 are new\n"
            "lost: 10 positions that the table had confirmed, and that the log does not send\n"
        ),
        [*range(10), *range(20, 30)],
    ),
}


@pytest.mark.nightly  # a minute until the token of the process before is old
@pytest.mark.parametrize("how", BACK)
def test_a_table_that_went_back_is_refused_until_someone_says_so(tmp_path: Path, how: str) -> None:
    """What is said again is a row once, and the second sink of the log gets nothing again."""
    flow, (sends, numbers) = flow_in(tmp_path, more=["copy", "away"]), BACK[how]
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(tmp_path, range(10))
        assert daemon.terminate() == 0
    shutil.copy(tmp_path / "out.db", tmp_path / "backup.db")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10, 20))
        stored(tmp_path, range(20))
        assert daemon.terminate() == 0
    shutil.move(tmp_path / "backup.db", tmp_path / "out.db")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(20, 30))
        assert refusal(daemon).startswith(
            "the receiver has confirmed position 20 of this log, and has position 10 now: it was restored"
        )
        daemon.terminate()
    assert frontier(tmp_path, "accept", how, "--dry-run") == f"main::db: {sends}"
    assert frontier(tmp_path, "accept", how) == f"main::db: {sends}it goes on once walflow starts again\n"
    with running(flow, tmp_path, admin=LOOPBACK) as daemon:
        stored(tmp_path, numbers)
        metrics = Admin(daemon).metrics()
        assert metrics["walflow_component_lost_rows_total", "db"] == 30 - len(numbers)
        assert metrics["walflow_component_frontier_lag_events", "db"] == 0
        assert daemon.terminate() == 0
    lines = (tmp_path / "copy.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [*range(30)]


def test_a_sink_with_a_new_name_goes_on_where_the_old_one_was(tmp_path: Path) -> None:
    """The log still has all that the table has."""
    flow = flow_in(tmp_path, more=["away"])
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(tmp_path, range(10))
        assert daemon.terminate() == 0
    flow.write_text(re.sub(r"\bdb\b(?!\")", "table", flow.read_text()).replace("out.table", "out.db"))
    said_of = frontier(tmp_path, "move", "main::table")
    assert said_of == "main::table goes on where main::db was, once walflow starts again\n"
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10, 20))
        stored(tmp_path, range(20))
        assert daemon.terminate() == 0
    with running(flow_in(tmp_path, more=["away"]), tmp_path) as daemon:
        assert refusal(daemon).startswith("the sink is called main::table now")


@pytest.mark.nightly  # a minute until the token of the process before is old
def test_a_log_that_went_back_is_refused_and_known_events_stay_known(tmp_path: Path) -> None:
    """It was restored from a copy that has not acked what the table has."""
    flow = flow_in(tmp_path)
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(tmp_path, range(10))
        daemon.kill()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10, 20))
        stored(tmp_path, range(20))
        assert daemon.terminate() == 0
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "copy", tmp_path / "log")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(20, 30))
        assert refusal(daemon).startswith("the receiver has position 20 of this log, and the log's next")
        daemon.terminate()
    frontier(tmp_path, "accept")
    with running(flow, tmp_path) as daemon:
        stored(tmp_path, range(30))
        assert daemon.terminate() == 0


def test_an_import_is_no_log_that_went_back(tmp_path: Path) -> None:
    """Its cursor is behind what the table has. The terms come with the records, so the table knows them again."""
    flow, log = flow_in(tmp_path), tmp_path / "log"
    with running(flow, tmp_path) as daemon:
        deliver(daemon, [0])
        stored(tmp_path, [0])
        wait_until((log / "cursor").exists, "no cursor")
        cursor = (log / "cursor").read_bytes()
        deliver(daemon, range(1, 2000))  # several files
        stored(tmp_path, range(2000))
        daemon.kill()
    (log / "cursor").write_bytes(cursor)
    lines = tmp_path / "lines.jsonl"
    lines.write_text(said([*WALFLOW, "wal", "export", str(log)], cwd=ROOT))
    log.rename(tmp_path / "before")
    said([*WALFLOW, "wal", "import", str(log), str(lines), "--chunk-size", "16384"], cwd=ROOT)
    shutil.copytree(tmp_path / "before" / "frontiers", log / "frontiers")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(2000, 2010))
        stored(tmp_path, range(2010))
        assert daemon.terminate() == 0
        again = daemon.last("log open")["replays"]
        assert again in (1999, 2000), "the cursor may have the first one"
        assert daemon.last("stopped")["known_events_total"] == again


@pytest.mark.nightly  # a minute until the token of the process before is old
def test_a_relaxed_log_that_went_back_goes_on(tmp_path: Path) -> None:
    """As after a power cut: what it lost is in the table, and its next events have the same positions."""
    flow = flow_in(tmp_path, "interval")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10))
        stored(tmp_path, range(10))
        daemon.terminate()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(10, 20))
        stored(tmp_path, range(20))
        assert daemon.terminate() == 0
    shutil.rmtree(tmp_path / "log")
    shutil.move(tmp_path / "copy", tmp_path / "log")
    with running(flow, tmp_path) as daemon:
        deliver(daemon, range(20, 40))
        stored(tmp_path, range(40))
        assert daemon.terminate() == 0


def test_of_two_daemons_on_a_copy_one_stops_for_good_and_says_why(tmp_path: Path) -> None:
    """The copy was made of a directory in use: it has the token of the daemon that writes."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    with running(flow_in(one), one) as first:
        deliver(first, range(10))
        stored(one, range(10))
        shutil.copytree(one / "log", other / "log")
        (other / "out.db").symlink_to(one / "out.db")
        with running(flow_in(other), other) as second:
            deliver(second, range(10, 20))
            stored(one, range(20))
            deliver(first, range(20, 30))
            assert refusal(first).startswith("another process writes the events of this log, since its run 2")
            deliver(second, range(30, 40))
            stored(one, [*range(20), *range(30, 40)])
            assert second.terminate() == 0


def test_a_copy_that_is_behind_is_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    with running(flow_in(one), one) as first:
        deliver(first, range(10))
        stored(one, range(10))
        shutil.copytree(one / "log", other / "log")
        (other / "out.db").symlink_to(one / "out.db")
        deliver(first, range(10, 20))
        stored(one, range(20))
        with running(flow_in(other), other) as second:
            deliver(second, range(20, 40))
            assert refusal(second).startswith("the receiver has position 20 of this log, and the log's next")
            deliver(first, range(40, 50))
            stored(one, [*range(20), *range(40, 50)])
            assert first.terminate() == 0


@pytest.mark.parametrize("which", ["log", "two"])
def test_of_two_logs_into_one_table_the_one_whose_writer_is_another_holds_up_no_other(
    tmp_path: Path, which: str
) -> None:
    """Its copy seems to be in use: it waits a minute to see whether the other writer lives. The first one's events
    come before the sink has seen any of the second."""
    flow = tmp_path / "flow.troy"
    flow.write_text(
        flow_of(
            *("tcp -> one -> db", "tcp -> tcp", "tcp2 -> two -> db", "tcp2 -> tcp2"),
            tcp=TCP,
            tcp2=TCP,
            one=plain("wal", path="log"),
            two=plain("wal", path="two"),
            db=plain("sqlite", path="out.db", columns={"n": "n"}),
        )
    )
    with running(flow, tmp_path) as daemon:
        both(daemon, 0)
        stored(tmp_path, range(20))
        assert daemon.terminate() == 0
    kept = KeptFrontiers(RealDisk(), str(tmp_path / which))
    (tokens,) = [kept.read(name).tokens for name in kept.names()]
    with sqlite3.connect(tmp_path / "out.db") as connection:
        for log, state in connection.execute("SELECT log, state FROM walflow_frontier").fetchall():
            if json.loads(state)["token"] in tokens:
                other = json.dumps({**json.loads(state), "token": "another"})
                connection.execute("UPDATE walflow_frontier SET state = ? WHERE log = ?", (other, log))
    with running(flow, tmp_path) as daemon:
        both(daemon, 20)
        wait_until(lambda: rows(tmp_path).total() == 30, "the rows of the other log")
        assert rows(tmp_path) == Counter(range(30) if which == "two" else [*range(20), *range(30, 40)])
        daemon.terminate()


def both(daemon: Daemon, first: int) -> None:
    """Ten into the first log, and ten into the second."""
    ports = [int(str(daemon.wait_for("listening")["address"]).rsplit(":", 1)[1]) for _ in range(2)]
    for port, at in zip(ports, (first, first + 10), strict=True):
        client = Client(port)
        client.send(b"".join(b'{"n":%d}\n' % number for number in range(at, at + 10)))
        client.lines(10)
        client.close()
