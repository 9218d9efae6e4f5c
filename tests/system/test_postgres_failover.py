"""The server changes under the sink: a standby takes over, or an older copy of it comes back."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.postgres_peer import USER, PostgresPeer, running_postgres
from tests.connectors.postgres import needs_postgres
from tests.system.daemon import ROOT, WALFLOW, running
from tests.system.test_postgres import Wire, deliver, flow_in, rows, stored
from tests.system.warm import said
from tests.waiting import wait_until

pytestmark = [needs_postgres, pytest.mark.nightly]


LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


class Standby(PostgresPeer):
    """A copy of a server that runs, which follows it until it is promoted."""

    def __init__(self, directory: Path, primary: PostgresPeer) -> None:
        self._primary = primary
        super().__init__(directory)

    def _make(self) -> None:
        of = ("-h", "127.0.0.1", "-p", self._primary.port, "-U", "postgres")
        self._run("pg_basebackup", *of, "-D", self.data, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync")

    def promote(self) -> None:
        self._run("pg_ctl", "-w", "-D", self.data, "promote")


@contextmanager
def pair() -> Iterator[tuple[PostgresPeer, Standby]]:
    with running_postgres() as primary:
        directory = Path(tempfile.mkdtemp())
        if os.getuid() == 0:
            shutil.chown(directory, USER)
        try:
            standby = Standby(directory, primary)
            standby.start()
            try:
                yield primary, standby
            finally:
                if standby.runs:
                    standby.stop("immediate")
        finally:
            shutil.rmtree(directory)


def flow_to_both(directory: Path, primary: PostgresPeer, standby: PostgresPeer) -> Path:
    flow = flow_in(directory, primary)
    one, other = f"127.0.0.1:{primary.port}", f"127.0.0.1:{standby.port}"
    flow.write_text(flow.read_text().replace(one, f"{one},{other}"))
    return flow


def test_each_event_is_a_row_once_over_a_failover_with_synchronous_replication(tmp_path: Path) -> None:
    size = 20_000
    with pair() as (primary, standby), running(flow_to_both(tmp_path, primary, standby), tmp_path) as daemon:
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        deliver(daemon, range(size))
        wait_until(lambda: rows(primary).total() > 0, "no row arrives")
        primary.kill()
        standby.promote()
        deliver(daemon, range(size, 2 * size))
        stored(standby, range(2 * size))
        assert daemon.terminate() == 0


def test_a_commit_that_waits_for_a_standby_counts_once(tmp_path: Path) -> None:
    """The connection ends while it waits. Its rows are nobody's to see until the standby is back, and theirs is the
    lock."""
    with pair() as (primary, standby):
        wire = Wire(primary.port, 0)
        with running(flow_in(tmp_path, primary, wire.port), tmp_path) as daemon:
            primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
            deliver(daemon, range(100))
            stored(primary, range(100))
            standby.stop()
            wire.cuts = 1
            deliver(daemon, range(100, 200))
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            wait_until(lambda: wire.cuts == 0 and primary.sql(waiting) == [(1,)], "no COMMIT waits")
            wait_until(lambda: primary.sql(LOCKED) != [(0,)], "nobody asks for the frontier")
            assert rows(primary).total() == 100
            standby.start()
            stored(primary, range(200))
            stored(standby, range(200))
            assert daemon.terminate() == 0
        wire.close()


def test_a_standby_that_lacks_commits_is_refused(tmp_path: Path) -> None:
    with pair() as (primary, standby), running(flow_to_both(tmp_path, primary, standby), tmp_path) as daemon:
        deliver(daemon, range(100))
        stored(standby, range(100))
        standby.stop()
        deliver(daemon, range(100, 200))
        stored(primary, range(200))
        primary.kill()
        standby.start()
        standby.promote()
        deliver(daemon, range(200, 210))
        reason = str(daemon.wait_for("refuses to write")["reason"])
        assert reason.startswith("the receiver has confirmed position 200 of this log, and has position 100 now")
        stored(standby, range(100))
        daemon.terminate()


def test_a_server_that_was_restored_is_refused_until_someone_says_so(tmp_path: Path) -> None:
    """Its events of before are lost, as the command says, and no other."""
    with running_postgres() as peer:
        flow = flow_in(tmp_path, peer)
        with running(flow, tmp_path) as daemon:
            deliver(daemon, range(10))
            stored(peer, range(10))
            assert daemon.terminate() == 0
        peer.stop()
        backup = peer.data.with_name("backup")
        subprocess.run(["cp", "--archive", peer.data, backup], check=True)
        peer.start()
        with running(flow, tmp_path) as daemon:
            deliver(daemon, range(10, 20))
            stored(peer, range(20))
            peer.stop()
            shutil.rmtree(peer.data)
            backup.rename(peer.data)
            peer.start()
            deliver(daemon, range(20, 30))
            reason = str(daemon.wait_for("refuses to write")["reason"])
            assert reason.startswith("the receiver has confirmed position 20 of this log, and has position 10 now")
            daemon.terminate()
        command = [*WALFLOW, "frontier", "accept", str(tmp_path / "log"), "main::db", "--keep"]
        assert "lost: 10 positions" in said(command, cwd=ROOT)
        with running(flow, tmp_path) as daemon:
            stored(peer, [*range(10), *range(20, 30)])
            assert daemon.terminate() == 0
