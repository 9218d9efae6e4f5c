"""Events that a table refuses: kept with the log, found, mended and sent again, each once, whatever dies."""

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from tests.flows.builder import TCP, flow_of, plain
from tests.system.admin import Admin
from tests.system.daemon import Client, Daemon, running
from tests.waiting import wait_until

MEND = """
use std::string;
use std::integer;
let event.amount = integer::parse(string::replace(event.amount, ",", ""));
event
"""


def flow_in(directory: Path) -> Path:
    """A table whose amounts are integers."""
    with closing(sqlite3.connect(directory / "out.db")) as connection:
        connection.execute("CREATE TABLE events(id INTEGER, amount INTEGER CHECK (typeof(amount) = 'integer'))")
        connection.commit()
    (directory / "mend.tremor").write_text(MEND)
    file = directory / "flow.troy"
    file.write_text(
        flow_of(
            "tcp -> log -> db",
            tcp=TCP,
            log=plain("wal", path="log"),
            db=plain("sqlite", path="out.db", columns={"id": "id", "amount": "amount"}),
        )
    )
    return file


def admin_of(directory: Path) -> str:
    return f"unix:{directory}/admin"


def rows(directory: Path) -> Counter[tuple[int, int]]:
    with closing(sqlite3.connect(directory / "out.db")) as connection:
        return Counter(connection.execute("SELECT id, amount FROM events"))


def send(daemon: Daemon, events: int, bad: int) -> None:
    """The first ones have an amount that is text."""
    amounts = [f'"{n},5"' if n < bad else str(n) for n in range(events)]
    client = Client(daemon.port())
    client.send(b"".join(b'{"id":%d,"amount":%s}\n' % (n, amount.encode()) for n, amount in enumerate(amounts)))
    client.close()


def letters(directory: Path, *command: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    name, *options = command
    return subprocess.run(
        [sys.executable, "-m", "walflow", "letters", name, "log", *options],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={"PATH": "/bin", "WALFLOW_ADMIN": admin_of(directory)},
    )


def test_a_bad_deploy_is_mended_at_three_in_the_morning(tmp_path: Path) -> None:
    """As docs/howto/letters.md, with a tenth of its events."""
    events, bad = 6_000, 4_120
    with running(flow_in(tmp_path), tmp_path, admin=admin_of(tmp_path)) as daemon:
        send(daemon, events, bad)
        wait_until(lambda: rows(tmp_path).total() == events - bad)
        admin = Admin(None, admin_of(tmp_path))
        admin.until(lambda one: one.metrics()["walflow_wal_backlog_events", "log"] == 0)
        listed = letters(tmp_path, "list").stdout
        assert listed.startswith("db: 4,120 letters, ")
        assert listed.endswith(
            ": events: CHECK constraint failed: typeof(amount) = 'integer' (SQLITE_CONSTRAINT_CHECK)\n"
        )
        tried = letters(tmp_path, "retry", "--script", "mend.tremor", "--dry-run")
        assert "the script mends 4,120\n" in tried.stdout
        assert '  1: {"id":0,"amount":"0,5"}\n     {"id":0,"amount":5}\n' in tried.stdout
        done = letters(tmp_path, "retry", "--script", "mend.tremor", "--yes")
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4,120 delivered"), done
        assert letters(tmp_path, "list").stdout == "no letters\n"
        assert daemon.terminate() == 0
    expected = [(n, n * 10 + 5 if n < bad else n) for n in range(events)]
    assert rows(tmp_path) == Counter(expected), "each once"


def test_what_is_sent_again_is_a_row_once_over_kills(tmp_path: Path) -> None:
    events, kills = 4_000, 5
    flow = flow_in(tmp_path)
    with running(flow, tmp_path, admin=admin_of(tmp_path)) as daemon:
        send(daemon, events, events)
        admin = Admin(None, admin_of(tmp_path))
        admin.until(lambda one: one.metrics().get(("walflow_wal_letters", "log")) == events)
        daemon.kill()
    for _ in range(kills):
        with running(flow, tmp_path, admin=admin_of(tmp_path)) as daemon:
            daemon.wait_for("ready")
            before = rows(tmp_path).total()
            asks = subprocess.Popen(
                [sys.executable, "-m", "walflow", "letters", "retry", "log", "--script", "mend.tremor", "--yes"],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "WALFLOW_ADMIN": admin_of(tmp_path)},
            )
            while rows(tmp_path).total() == before and asks.poll() is None:
                time.sleep(0.01)
            daemon.kill()
            assert asks.wait(100) is not None
    with running(flow, tmp_path, admin=admin_of(tmp_path)) as daemon:
        daemon.wait_for("ready")
        done = letters(tmp_path, "retry", "--script", "mend.tremor", "--yes")
        assert done.returncode == 0, done
        wait_until(lambda: rows(tmp_path).total() >= events, "rows are missing")
        assert daemon.terminate() == 0
    assert rows(tmp_path) == Counter((n, n * 10 + 5) for n in range(events)), "each once"
