"""`walflow reload`, while a disk hangs, and while one of the two processes is stopped (SIGSTOP)."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from tests.faults.strace import Tracer, injections, needs_strace, options
from tests.system.daemon import Client, free_port
from tests.system.test_reload import echo, echoes, ids, started
from tests.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.alone, pytest.mark.nightly]

HANGS = 15.0  # seconds: longer than a reload waits for a job


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on a disk where a sync takes no time."""
    place = Path("/dev/shm")
    with TemporaryDirectory(dir=place if place.is_dir() else None) as made:
        yield Path(made)


@needs_strace
def test_a_sync_that_hangs_is_named_and_nothing_changes(memory: Path, tmp_path: Path) -> None:
    port = free_port()
    with started(memory, echo(port)) as daemon:
        client, old = Client(port), daemon.pid()
        client.send(b'{"id":"1"}\n')
        assert client.lines(1)
        (chunk,) = (memory / "state").glob("*.wal")
        given = options(f"fdatasync:delay_enter={round(HANGS * 1e6)}:when=1", path=[chunk], calls=["fdatasync"])
        with Tracer(old, tmp_path / "trace", given):
            client.send(b'{"id":"2"}\n')
            answered: list[bytes] = []
            waiting = Thread(target=lambda: answered.extend(client.lines(1)))
            waiting.start()
            refused = daemon.reload()
            assert refused.returncode == 75, refused
            assert f"for fdatasync of {chunk}: the log cannot be closed" in refused.stderr
            assert daemon.pid() == old
            assert not answered
            waiting.join(PATIENCE)
        assert injections(tmp_path / "trace") == 1
        assert answered == [b'{"id":"2"}']
        daemon.reloads()
        client.send(b'{"id":"3"}\n')
        assert client.lines(1) == [b'{"id":"3"}']
        client.close()
        daemon.ends()
    assert set(ids(memory).values()) == {1}


def test_the_next_process_is_stopped_and_the_old_one_goes_on(tmp_path: Path) -> None:
    """It is silent for 30 s as it takes over, so it is killed: a process that may wake up is not waited for."""
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        echoes(port, b'{"id":"before"}')
        old, asked = daemon.pid(), daemon.asks()
        after = daemon.next_pid()
        daemon.line_of("running", after)
        os.kill(after, signal.SIGSTOP)
        wait_until(lambda: daemon.pid() == old and daemon.said("running") == 3, "the old one does not run")
        assert "next process is silent" in "".join(daemon.daemon.raw)
        assert not Path(f"/proc/{after}").exists()
        echoes(port, b'{"id":"after"}')
        asked.communicate(timeout=PATIENCE)
        daemon.reloads()
        os.kill(daemon.pid(), signal.SIGTERM)
        wait_until(lambda: not daemon.admin.answers(), "it still answers")
    assert set(ids(tmp_path)) == {"before", "after"}


def test_the_old_process_is_stopped_and_ended_by_the_next_one(tmp_path: Path) -> None:
    """Until it has ended no checkpoint is written, so that is not waited for without end."""
    port = free_port()
    with started(tmp_path, echo(port)) as daemon:
        echoes(port, b'{"id":"before"}')
        old, asked = daemon.pid(), daemon.asks()
        daemon.daemon.wait_for("took over")
        os.kill(old, signal.SIGSTOP)
        asked.communicate(timeout=PATIENCE)
        echoes(port, b'{"id":"between"}')
        wait_until(lambda: daemon.said("process before has ended") == 1, "it is not ended")
        assert "process before does not end" in "".join(daemon.daemon.raw)
        echoes(port, b'{"id":"after"}')
        os.kill(daemon.pid(), signal.SIGTERM)
        wait_until(lambda: not daemon.admin.answers(), "it still answers")
    assert set(ids(tmp_path)) == {"before", "between", "after"}
