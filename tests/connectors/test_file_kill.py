"""kill -9 of a real process: every event is in the file, whole, and once."""

import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.connectors.appender import append, event
from tests.system.process import Process

pytestmark = pytest.mark.nightly

LIVES = 12


def live(path: Path, cursor: int, last: int, before: Sequence[str] = (), kill_at: int | None = None) -> int:
    """A process appends what is behind the cursor until it is killed; what it acked last."""
    command = [*before, sys.executable, "-m", "tests.connectors.appender", str(path), str(cursor), str(last)]
    acked = cursor
    appender = Process(command)
    pipes = appender.process
    assert pipes.stdout is not None
    assert pipes.stderr is not None
    for line in pipes.stdout:
        acked = int(line)
        if kill_at is not None and acked >= kill_at:
            appender.signal(signal.SIGKILL)
    assert pipes.stderr.read() == b""
    assert appender.wait() == -signal.SIGKILL
    return acked


def is_whole(path: Path, last: int) -> None:
    """Events 1 to `last`, in order, and no more than the next batches behind them."""
    lines = path.read_bytes().split(b"\n")
    assert lines[:last] == [event(position) for position in range(1, last + 1)]


def finish(path: Path, cursor: int, last: int) -> None:
    sink = append(path, cursor, last)
    sink.stop()
    assert path.read_bytes() == b"".join(event(position) + b"\n" for position in range(1, last + 1))
    assert list(path.parent.glob("*walflow-cut*")) == []  # a killed write ends at a page, so all of it was proven


def test_killed_at_random(tmp_path: Path) -> None:
    path = tmp_path / "out.log"
    dice = random.Random()
    cursor = acked = 0
    for _ in range(LIVES):
        acked = live(path, cursor, sys.maxsize, kill_at=acked + dice.randint(1, 60))
        is_whole(path, acked)
        cursor = dice.randint(cursor, acked)
    finish(path, cursor, acked + 20)


def has_strace() -> bool:
    strace = shutil.which("strace")
    if strace is None:
        return False
    return subprocess.run([strace, "-o", "/dev/null", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not has_strace(), reason="strace is missing, or may not trace")
def test_killed_at_each_write(tmp_path: Path) -> None:
    """The slots' writes and the file's are the same system call: at open, of an intent, of data, of a commit."""
    path = tmp_path / "out.log"
    dice = random.Random()
    cursor = acked = 0
    for number in range(1, LIVES):
        kill = [
            "-e",
            "trace=pwritev,pwritev2,writev",
            "-e",
            f"inject=pwritev,pwritev2,writev:signal=KILL:when={number}",
        ]
        acked = max(acked, live(path, cursor, acked + 60, ["strace", "-f", "-o", "/dev/null", *kill]))
        is_whole(path, acked)
        cursor = dice.randint(cursor, acked)
    finish(path, cursor, acked + 20)
