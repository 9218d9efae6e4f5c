"""`walflow letters` beside a daemon whose table refuses events."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.flows.builder import TCP, flow_of, plain
from tests.system.admin import Admin
from tests.system.daemon import WALFLOW, Client, Daemon, running
from tests.system.process import Process
from tests.system.test_letters import admin_of, flow_in, letters, rows
from tests.waiting import PATIENCE, wait_until

REASON = "events: CHECK constraint failed: typeof(amount) = 'integer' (SQLITE_CONSTRAINT_CHECK)"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """Its table has refused three of four events."""
    with running(flow_in(tmp_path), tmp_path, admin=admin_of(tmp_path)) as daemon:
        client = Client(daemon.port())
        for number, amount in enumerate((1, "2,5", "3,5", None)):
            client.send(json.dumps({"id": number, "amount": amount}).encode() + b"\n")
        client.close()
        Admin(None, admin_of(tmp_path)).until(lambda one: one.metrics().get(("walflow_wal_letters", "log")) == 3)
        yield daemon


def test_they_are_listed_shown_and_exported(tmp_path: Path, daemon: Daemon) -> None:
    listed = letters(tmp_path, "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith("db: 3 letters, 20")
    assert listed.stdout.endswith(f": {REASON}\n")
    (group,) = json.loads(letters(tmp_path, "list", "--json").stdout)
    assert (group["sink"], group["letters"], group["going"], group["reason"]) == ("db", 3, 0, REASON)
    shown = letters(tmp_path, "show", "--number", "2").stdout.splitlines()
    assert shown[0].startswith("db 2: position 3, rejected once, last 20")
    assert shown[1:3] == [f"  {REASON}", '  {"id":2,"amount":"3,5"}']
    exported = [json.loads(line) for line in letters(tmp_path, "export", "--sink", "db").stdout.splitlines()]
    assert [(one["number"], one["position"], one["event"]["amount"]) for one in exported] == [
        (1, 2, "2,5"),
        (2, 3, "3,5"),
        (3, 4, None),
    ]
    assert letters(tmp_path, "export", "--reason", "no such").stdout == ""
    assert daemon.terminate() == 0
    assert letters(tmp_path, "list").stdout == listed.stdout, "also without a daemon"
    (tmp_path / "log/letters/far").mkdir()
    (tmp_path / "log/letters/far/LOCK").touch()
    made = letters(tmp_path, "list")
    assert (made.stdout, made.stderr) == (listed.stdout, ""), "a crash, or a full disk, left a directory alone"


def test_what_a_script_does_not_mend_stays(tmp_path: Path, daemon: Daemon) -> None:
    done = letters(tmp_path, "retry", "--script", "mend.tremor", "--yes")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 delivered, 1 not mended"
    assert "mend.tremor:4:35" in done.stderr, "where it fails for the one that stays"
    assert rows(tmp_path) == {(0, 1): 1, (1, 25): 1, (2, 35): 1}
    (tmp_path / "none.tremor").write_text("drop")
    done = letters(tmp_path, "retry", "--script", "none.tremor", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "1 not mended")
    assert "1 stay: the script drops it" in done.stderr
    (tmp_path / "null.tremor").write_text("let event.amount = 0; event")
    done = letters(tmp_path, "retry", "--number", "3", "--script", "null.tremor", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 delivered")


def test_what_is_rejected_again_is_a_letter_again(tmp_path: Path, daemon: Daemon) -> None:
    done = letters(tmp_path, "retry", "--number", "1-2", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "2 rejected again")
    exported = [json.loads(line) for line in letters(tmp_path, "export").stdout.splitlines()]
    assert [(one["position"], one["tries"]) for one in exported] == [(4, 1), (2, 2), (3, 2)]


def test_they_are_dropped(tmp_path: Path, daemon: Daemon) -> None:
    assert "nothing was changed" in letters(tmp_path, "drop", "--dry-run").stdout
    done = letters(tmp_path, "drop", "--number", "1", "--number", "3", "--yes")
    assert (done.returncode, done.stdout) == (0, "2 letters of db to drop\n2 dropped\n")
    assert daemon.terminate() == 0
    (one,) = letters(tmp_path, "export").stdout.splitlines()
    assert json.loads(one)["number"] == 2


def test_where_no_daemon_has_them_they_are_dropped_without_one(tmp_path: Path, daemon: Daemon) -> None:
    """None runs, or its flow has no such sink any more. Nothing that was dropped comes back."""
    assert daemon.terminate() == 0
    done = letters(tmp_path, "drop", "--number", "1", "--yes")
    assert (done.returncode, done.stdout) == (0, "1 letter of db to drop\n1 dropped\n")
    flow = tmp_path / "flow.troy"
    before = flow.read_text()
    flow.write_text(flow_of("tcp -> log -> null", tcp=TCP, log=plain("wal", path="log"), null=plain("null")))
    with running(flow, tmp_path, admin=admin_of(tmp_path)) as other:
        done = letters(tmp_path, "drop", "--number", "2-2", "--yes")
        assert (done.returncode, done.stdout) == (0, "1 letter of db to drop\n1 dropped\n")
        assert other.terminate() == 0
    flow.write_text(before)
    with running(flow, tmp_path, admin=admin_of(tmp_path)) as again:
        again.wait_for("ready")
        assert [json.loads(one)["number"] for one in letters(tmp_path, "export").stdout.splitlines()] == [3]
        done = letters(tmp_path, "drop", "--yes")
        assert (done.returncode, done.stdout) == (0, "1 letter of db to drop\n1 dropped\n"), "the daemon does it"
        assert again.terminate() == 0
    assert letters(tmp_path, "list").stdout == "no letters\n"
    assert rows(tmp_path) == {(0, 1): 1}


def test_what_is_wrong_is_one_line_and_a_code(tmp_path: Path, daemon: Daemon) -> None:
    for command, code, line in (
        (["retry", "--number", "one"], 2, "--number one: a number, or two of them as 12-40"),
        (["list", "--sink", "far"], 1, "no letters of a sink far are in log: there is db"),
        (["show", "--number", "99"], 1, "there is no such letter"),
        (["retry", "--script", "away.tremor"], 66, "cannot read away.tremor: no such file or directory"),
        (["retry", "--admin", "unix:/nowhere"], 69, "no daemon answers at unix:/nowhere"),
    ):
        done = letters(tmp_path, *command)
        assert done.returncode == code, done
        assert line in done.stderr
        assert "Traceback" not in done.stderr
    assert letters(tmp_path, "retry", "--number", "99", "--yes").stdout == "no letters\n"


def test_what_another_run_counts_is_not_taken_for_an_outcome(tmp_path: Path, daemon: Daemon) -> None:
    """The daemon is killed while letters are on their way, and the next one, which delivers them, counts from 0."""
    admin = Admin(None, admin_of(tmp_path))
    assert letters(tmp_path, "retry", "--number", "1", "--script", "mend.tremor", "--yes").returncode == 0
    with closing(sqlite3.connect(tmp_path / "out.db", isolation_level=None)) as table:
        table.execute("BEGIN EXCLUSIVE")
        retry = Process(
            [*WALFLOW, "letters", "retry", "log", "--number", "2", "--script", "mend.tremor", "--yes"],
            cwd=tmp_path,
            environment={"WALFLOW_ADMIN": admin_of(tmp_path)},
        )
        try:
            admin.until(lambda one: one.metrics()[("walflow_wal_letters_going", "log")] == 1)
            retry.signal(signal.SIGSTOP)
            daemon.kill()
            table.execute("ROLLBACK")
            with running(tmp_path / "flow.troy", tmp_path, admin=admin_of(tmp_path)) as second:
                wait_until(lambda: len(rows(tmp_path)) == 3, "both letters are rows")
                retry.signal(signal.SIGCONT)
                said, error = retry.process.communicate(timeout=PATIENCE)
                assert second.terminate() == 0
        finally:
            retry.close()
    assert retry.wait() == 75
    assert said.decode().splitlines() == ["1 letter of db to send again through mend.tremor"]
    assert "`walflow letters list` says what came back" in error.decode()


def test_a_daemon_must_know_who_asks(tmp_path: Path) -> None:
    """Who may only look may not send anything again."""
    flow = flow_in(tmp_path)
    with running(flow, tmp_path, admin="127.0.0.1:0") as daemon:
        address = str(daemon.wait_for("admin listening")["address"])
        client = Client(daemon.port())
        client.send(b'{"id":1,"amount":"x"}\n')
        client.close()
        Admin(None, address).until(lambda one: one.metrics().get(("walflow_wal_letters", "log")) == 1)
        done = letters(tmp_path, "drop", "--yes", "--admin", address)
        assert done.returncode == 69
        assert "letters are changed with an --admin-token-file, or an --admin that is unix:/path" in done.stderr
        assert daemon.terminate() == 0


def test_of_another_log_nothing_is_sent(tmp_path: Path, daemon: Daemon) -> None:
    assert daemon.terminate() == 0
    other = tmp_path / "other.troy"
    other.write_text(
        flow_of("tcp -> log -> db", tcp=TCP, log=plain("wal", path="else"), db=plain("sqlite", path="else.db"))
    )
    with running(other, tmp_path, admin=admin_of(tmp_path)) as second:
        second.wait_for("ready")
        done = letters(tmp_path, "retry", "--yes")
        assert done.returncode == 69
        why = "it has another log, has not opened it yet, or its flow has no such sink now"
        assert f"keeps no letters of db in log: {why}" in done.stderr
