"""SIGKILL instead of the n-th write, sync, rename, unlink, open, truncation: whatever had been acked and no sink had
comes after the next start, unaltered. A process that is killed loses nothing that the kernel had; power cuts are
tests/wal/test_power_cut.py. Every call: `python -m tests.faults kills`."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.kills import sweep
from tests.faults.lives import Nursery, Script, counts, points, some
from tests.faults.strace import needs_strace, options
from tests.system.daemon import Client, Daemon, echo_flow, running
from walflow.wal.arrivals import MAGIC

pytestmark = [needs_strace, pytest.mark.nightly]

SCRIPTS = [f"{which} life, {size} chunks" for which in ("first", "second") for size in ("small", "large")]
LANED = [f"{which} life, three lanes" for which in ("first", "second")]  # of three sinks, one is behind

IN_A_ROW = [f"{which} life, two logs" for which in ("first", "second")]


@pytest.mark.parametrize("name", [*SCRIPTS, *LANED, *IN_A_ROW])
def test_a_life_that_ends_at_any_call(lives: Nursery, plans: dict[str, Script], tmp_path: Path, name: str) -> None:
    script, log = plans[name], tmp_path / "strace"
    made = counts(lives, script, log)
    assert {"write", "fdatasync", "fsync", "rename", "unlink", "openat", "ftruncate"} <= made.keys()
    assert (MAGIC.decode() in log.read_text()) == script.plan.in_a_row, "the second log writes what it has"
    at = points(made, some)
    done = sum(sweep(lives, script, at, log), Counter())
    assert done["kills"] == len(at)
    assert bool(done["not appended again"]) == script.plan.in_a_row


LONGEST = 1000  # lines
DAEMON = {"pwritev2": [1, 5, 30], "fdatasync": [2, 31], "fsync": [3], "unlink": [1]}


@pytest.mark.parametrize("name", DAEMON)
def test_a_daemon_that_ends_at_its_call(tmp_path: Path, name: str) -> None:
    """`when` counts for each thread; so it may be the loop or the one that syncs."""
    echoed: list[bytes] = []
    flow = echo_flow(tmp_path, chunk_size=1024, max_chunks=64)
    for number in DAEMON[name]:
        log = tmp_path / f"strace-{number}"
        kill = options(f"{name}:signal=SIGKILL:when={number}", calls=[name])
        prefix = ["strace", "-f", "-o", str(log), *kill]  # with --seccomp-bpf it would inject no signal
        with running(flow, tmp_path, prefix=prefix) as daemon:
            echoed += _until_dead(daemon, 10_000 * number)
        assert any(_killed(log, name)), "it did not die of that"
    with running(flow, tmp_path) as daemon:
        daemon.wait_for("ready")
        daemon.drained()
    lines = (tmp_path / "out.log").read_bytes().splitlines()
    assert set(echoed) <= set(lines)
    assert len(set(lines)) == len(lines), "the file knows what it has"
    assert {json.loads(line)["n"] % 10_000 for line in lines} <= set(range(LONGEST))


def _until_dead(daemon: Daemon, first: int) -> list[bytes]:
    """Lines that were echoed, each sent after the echo of the one before. None is sent by two lives."""
    echoed: list[bytes] = []
    try:
        client = Client(daemon.port())
    except (AssertionError, OSError):
        return []  # it did not live to listen
    try:
        for line in _lines(first, LONGEST):
            client.send(line + b"\n")
            echoed += client.lines(1)
    except (OSError, AssertionError):
        return echoed
    finally:
        client.close()
    raise AssertionError("it lives")


def _lines(first: int, count: int) -> list[bytes]:
    return [b'{"n":%d,"pad":"%s"}' % (number, b"x" * (number % 7 * 60)) for number in range(first, first + count)]


def _killed(log: Path, name: str) -> list[bool]:
    lines = log.read_text(errors="replace").splitlines()
    return [f"{name}(" in line and ("= ?" in line or "<unfinished" in line) for line in lines]
