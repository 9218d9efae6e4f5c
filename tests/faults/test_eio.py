"""EIO from the n-th sync, write, open, truncation, rename, unlink: the process ends with 74 and one line, acks nothing
after it, and the next start has all that was acked. Every call: `python -m tests.faults failures`."""

import os
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.faults.failures import FAILING, FAILING_NAMES, sweep
from tests.faults.lives import Nursery, Script, counts, points, some
from tests.faults.strace import Tracer, injections, needs_strace, options
from tests.faults.test_kill_at_syscall import IN_A_ROW, LANED, SCRIPTS
from tests.late import late
from tests.system.daemon import Client, Daemon, echo_flow, running
from tests.waiting import PATIENCE

pytestmark = needs_strace

CHUNK = f"{1:020d}.wal"


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*SCRIPTS, *LANED, *IN_A_ROW])
def test_a_life_whose_disk_fails_at_any_call(
    lives: Nursery, plans: dict[str, Script], tmp_path: Path, name: str
) -> None:
    script, log = plans[name], tmp_path / "strace"
    made = counts(lives, script, log)
    at = points({call: made[call] for call in (*FAILING, *FAILING_NAMES) if call in made}, some)
    done = list(sweep(lives, script, at, log))
    ended = sum(one["ended by it"] for one in done)
    assert len(done) == len(at)
    assert ended > len(at) * 0.8, "all but those that only ask"


DAEMON = [
    ("fdatasync", "cursor", 2),
    *(("fdatasync", CHUNK, number) for number in (1, 5)),
    ("fsync", "", 3),
    ("pwritev2", "cursor", 3),
    ("pwritev2", CHUNK, 7),
    *(("openat", name, 1) for name in ("LOCK", CHUNK)),
]


@pytest.mark.parametrize(("call", "name", "number"), [DAEMON[0], *late(*DAEMON[1:])])
def test_a_daemon_whose_disk_fails(tmp_path: Path, call: str, name: str, number: int) -> None:
    flow = echo_flow(tmp_path, chunk_size=4096, max_chunks=64)
    log, state = tmp_path / "strace", tmp_path / "state"
    state.mkdir()
    given = options(f"{call}:error=EIO:when={number}", path=[state / name, Path("state", name)], calls=[call])
    with running(flow, tmp_path, prefix=["strace", "-f", "--seccomp-bpf", "-o", str(log), *given]) as daemon:
        echoed = _until_ended(daemon)
        assert daemon.wait() == 74
    assert injections(log) == 1
    fatal = [line for line in daemon.lines if line["event"] == "fatal"]
    assert len(fatal) == 1
    assert daemon.lines[-1] is fatal[0]
    assert "Input/output error" in str(fatal[0]["error"])
    assert str(state) in str(fatal[0]["error"]) or str(fatal[0]["error"]).startswith("state")
    assert "Traceback" not in "".join(daemon.raw)
    _everything_there(flow, tmp_path, echoed)


@pytest.mark.nightly
def test_a_sync_that_fails_as_a_daemon_stops_is_74_too(tmp_path: Path) -> None:
    """Its last cursor: nothing is lost, and the disk has failed all the same."""
    flow = echo_flow(tmp_path)
    log = tmp_path / "strace"
    given = options("fdatasync:error=EIO", path=[tmp_path / "state" / "cursor"], calls=["fdatasync"])
    with running(flow, tmp_path) as daemon:
        client = Client(daemon.port())
        client.send(b"1\n")
        assert client.lines(1) == [b"1"]
        os.kill(daemon.pid, 19)
        with Tracer(daemon.pid, log, given):
            os.kill(daemon.pid, 15)
            os.kill(daemon.pid, 18)
            assert daemon.wait() == 74
        client.close()
    assert injections(log) == 1
    _everything_there(flow, tmp_path, [b"1"])


def _until_ended(daemon: Daemon) -> list[bytes]:
    """What came back. It may end before it listens, and between that and the first connection; not
    to answer, and to stay, is a failure."""
    echoed: list[bytes] = []
    with suppress(ConnectionError, AssertionError), closing(Client(daemon.port())) as client:
        for number in range(10_000):
            line = b'{"n":%d,"pad":"%s"}' % (number, b"x" * (number % 5 * 80))
            client.send(line + b"\n")
            echoed += client.lines(1)
    daemon.process.wait(PATIENCE)
    return echoed


def _everything_there(flow: Path, directory: Path, echoed: list[bytes]) -> None:
    with running(flow, directory) as daemon:
        client = Client(daemon.port())
        client.send(b'"again"\n')
        assert client.lines(1) == [b'"again"']
        client.close()
        daemon.drained()
        assert not [line for line in daemon.lines if line["event"] == "quarantined"]
    lines = (directory / "out.log").read_bytes().splitlines()
    assert {*echoed, b'"again"'} <= set(lines)
