"""What operators and other programs do to the file that a daemon appends to: they rename it, replace it, edit it, cut it
and append to it, while it runs and while it is killed."""

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.late import late
from tests.system.daemon import Daemon, echo_flow, running
from tests.system.ledger import Sender, load
from tests.waiting import wait_until

CLIENTS = 3
THEIRS = b"theirs "
AT_THE_CUT = (
    3  # lines of one write each, as fast as a program can: no more fit between our look at the size and our cut
)


class Lines(Counter[bytes]):
    """Of several files: those of the senders by how often they stand there. Raises where one is torn, but for those that
    an editor may have copied while they were written."""

    def __init__(self, files: list[bytes], *, edited: bool = False) -> None:
        super().__init__()
        self.theirs: list[bytes] = []
        self.torn: list[bytes] = []
        for data in files:
            assert b"\0" not in data
            assert data.endswith(b"\n") or not data
            for line in data.splitlines(keepends=True):
                if line.startswith(THEIRS):
                    self.theirs.append(line)
                elif edited and not line.endswith(b'"}\n'):
                    self.torn.append(line)
                else:
                    assert json.loads(line)["client"] in range(CLIENTS)
                    self[line] += 1

    def have(self, senders: list[Sender]) -> None:
        assert set().union(*(sender.echoed for sender in senders)) - self.keys() == set()

    def have_once(self, senders: list[Sender]) -> None:
        self.have(senders)
        assert [line for line, count in self.items() if count > 1] == []


def everything(out: Path) -> list[bytes]:
    return [each.read_bytes() for each in out.parent.glob("out.log*")]


def stopped(flow: Path, directory: Path) -> Daemon:
    """Once more, until all is delivered."""
    with running(flow, directory) as daemon:
        daemon.port()
        daemon.wait_for("ready")
        daemon.drained()
    return daemon


# replaced


def sed(out: Path) -> None:
    subprocess.run(["sed", "-i", "s/nothing/else/", out], check=True)


def move(out: Path) -> None:
    new = out.with_name("new")
    new.write_bytes(b"")
    new.rename(out)


def remove_and_touch(out: Path) -> None:
    out.unlink()
    out.touch()


def remove(out: Path) -> None:
    out.unlink()


@pytest.mark.parametrize("replace", [move, *late(sed, remove_and_touch, remove)])
def test_a_file_that_is_replaced_gets_what_is_acked_from_then_on(
    tmp_path: Path, replace: Callable[[Path], None]
) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]
    gone: list[tuple[int, int]] = []  # what was the file, and its size right after it was none any more

    def replace_it() -> None:
        for _ in range(4):
            old = os.open(out, os.O_RDONLY)
            replace(out)
            gone.append((old, os.fstat(old).st_size))
            wait_until(lambda: out.exists() and out.stat().st_size, "the new file gets events")
            time.sleep(0.05)  # of load

    def replace_and_stop() -> None:
        replace_it()
        assert daemon.terminate() == 0

    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        wait_until(out.exists)
        asyncio.run(load(senders, port, 0.3, replace_and_stop))
    said = [str(line["event"]) for line in daemon.lines if line["event"]]
    assert [line for line in said if "was replaced by another process" in line or "is no longer there" in line]
    old = [b"".join(iter(lambda fd=fd: os.read(fd, 1 << 20), b"")) for fd, _ in gone]  # type: ignore[misc]
    for fd, _ in gone:
        os.close(fd)
    stopped(flow, tmp_path)
    files = [Lines([data], edited=replace is sed) for data in (*old, out.read_bytes())]
    for number, ((_, size), data) in enumerate(zip(gone, old, strict=True)):
        later = set().union(*files[number + 1 :])
        for line in data[size:].splitlines(keepends=True):
            assert line in later, "it was acked, and is in a file that was none any more"
    everywhere = set().union(*files)
    assert set().union(*(sender.echoed for sender in senders)) - everywhere == set()
    assert files[-1]
    assert len(files[-1].torn) <= len(gone)
    for line in {
        line for file in files for line in file.torn
    }:  # the editor found it half written; the whole is there, too
        assert any(whole.startswith(line[:-1]) for whole in everywhere)


# renamed, and killed at once


@pytest.mark.nightly
@pytest.mark.parametrize("create", [True, False])
def test_renamed_and_killed_at_once_each_line_is_there_once(tmp_path: Path, create: bool) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]
    chance = random.Random(6)
    for number in range(16):
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            wait_until(out.exists)

            def rotate_and_kill(number: int = number, daemon: Daemon = daemon) -> None:
                kill_first = number % 4 == 0
                if kill_first:
                    daemon.kill()
                out.rename(f"{out}.{number}")
                if create:
                    out.touch()
                if not kill_first:
                    time.sleep(chance.choice([0, 0.001, 0.01]))  # milliseconds before a crash
                    daemon.kill()

            asyncio.run(load(senders, port, chance.uniform(0.1, 0.4), rotate_and_kill))
    daemon = stopped(flow, tmp_path)
    assert [line for line in daemon.raw if "may come again" in line] == []
    Lines(everything(out)).have_once(senders)


def test_moved_elsewhere_and_killed_what_may_come_again_is_said(tmp_path: Path) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    senders = [Sender(number) for number in range(CLIENTS)]
    with running(flow, tmp_path) as daemon:
        asyncio.run(load(senders, daemon.port(), 0.4, daemon.kill))
    out.rename(elsewhere / "out.log")
    daemon = stopped(flow, tmp_path)
    assert [line for line in daemon.raw if "is not the file that walflow wrote to last" in line]
    moved = (elsewhere / "out.log").read_bytes()
    # what was being written when it was killed cannot be finished there
    Lines([out.read_bytes(), moved[: moved.rfind(b"\n") + 1]]).have(senders)


# another process appends


@contextmanager
def appending(out: Path) -> Iterator[list[bytes]]:
    """A program that appends lines of its own as any does, O_APPEND and a write each, as fast as it can."""
    wrote: list[bytes] = []
    ended = threading.Event()

    def append() -> None:
        while not ended.is_set():
            fd = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for _ in range(100):
                line = THEIRS + b"%d\n" % len(wrote)
                os.write(fd, line)
                wrote.append(line)
            os.close(fd)
            time.sleep(0.0005)

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield wrote
    finally:
        ended.set()
        thread.join()


@pytest.mark.nightly
def test_what_another_process_appends_meanwhile_is_all_there(tmp_path: Path) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]
    with appending(out) as wrote:
        for end in ("terminate", "kill", "kill", "terminate"):
            with running(flow, tmp_path) as daemon:
                asyncio.run(load(senders, daemon.port(), 0.6, getattr(daemon, end)))
    stopped(flow, tmp_path)
    files = [out.read_bytes()]
    copies = sorted(tmp_path.glob("out.log.walflow-cut-*"))
    for each in copies:  # behind half a batch, which may have ended inside a page
        torn, theirs, rest = each.read_bytes().partition(THEIRS)
        assert b"\n" not in torn
        files.append(theirs + rest)
    lines = Lines(files)
    missing = set(wrote).difference(lines.theirs)
    assert len(missing) <= len(copies) * AT_THE_CUT
    assert sorted(lines.theirs) == sorted(set(wrote) - missing)
    lines.have_once(senders)


# logrotate

LOGROTATE = shutil.which("logrotate", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@pytest.fixture
def logrotate() -> str:
    if LOGROTATE is None:
        missing = "logrotate is not installed: sudo apt-get install logrotate"
        if os.environ.get("CI") == "true":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    return LOGROTATE


def rotate(logrotate: str, directory: Path, *rules: str) -> None:
    config = directory / "rotate.conf"
    config.write_text("\n".join([f"{directory}/out.log {{", "rotate 1000", "missingok", *rules, "}", ""]))
    config.chmod(0o600)
    state = ["--state", str(directory / "rotate.state")]
    done = subprocess.run([logrotate, "--force", *state, str(config)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def hangup(pid: int) -> tuple[str, ...]:
    return ("postrotate", f"kill -HUP {pid}", "endscript")


@pytest.mark.parametrize(
    "rule",
    ["create", *late("nocreate", "dateext\ndateformat -%s")],
)
def test_logrotate_renames_and_sends_sighup(tmp_path: Path, logrotate: str, rule: str) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]
    chance = random.Random(7)
    rotated = 0
    for life in range(4):
        with running(flow, tmp_path) as daemon:
            port = daemon.port()
            wait_until(out.exists)

            def rotate_and_end(daemon: Daemon = daemon, life: int = life) -> None:
                nonlocal rotated
                for _ in range(3):
                    wait_until(lambda: out.exists() and out.stat().st_size, "events after the rotation")
                    if "dateext" in rule:
                        time.sleep(1.1)  # its names are those of a second
                    rotate(logrotate, tmp_path, rule, *hangup(daemon.pid))
                    rotated += 1
                time.sleep(chance.choice([0, 0.002, 0.02]))
                daemon.kill() if life % 2 else daemon.terminate()

            asyncio.run(load(senders, port, 0.2, rotate_and_end))
        assert [line for line in daemon.raw if "another process" in line or "no longer there" in line] == []
    stopped(flow, tmp_path)
    files = list(tmp_path.glob("out.log*"))
    assert [each.name for each in files if each.suffix == ".backup"] == [], "logrotate found a file in its way"
    assert len(files) == rotated + 1
    Lines([each.read_bytes() for each in files]).have_once(senders)


def test_logrotate_copytruncate_leaves_no_hole(tmp_path: Path, logrotate: str) -> None:
    """What is appended between its copy and its cut is lost to it, as its manual says; no line is torn or doubled."""
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]

    def rotate_and_stop() -> None:
        for _ in range(8):
            rotate(logrotate, tmp_path, "copytruncate")
            wait_until(lambda: out.stat().st_size, "events after the cut")
        assert daemon.terminate() == 0

    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        wait_until(out.exists)
        asyncio.run(load(senders, port, 0.2, rotate_and_stop))
    assert [line for line in daemon.raw if "bytes by another process" in line]
    copies = sorted(tmp_path.glob("out.log.*"), key=lambda each: -int(each.suffix[1:]))
    assert len(copies) == 8
    # a copy may end inside a batch that was being written
    whole = [data[: data.rfind(b"\n") + 1] for data in (each.read_bytes() for each in copies)]
    lines = Lines([*whole, out.read_bytes()])
    assert [line for line, count in Lines([out.read_bytes()]).items() if count > 1] == []
    assert lines


@pytest.mark.nightly
def test_a_file_that_is_cut_all_the_time_has_no_hole(tmp_path: Path) -> None:
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]
    copies: list[bytes] = []

    def cut_and_stop() -> None:
        for _ in range(300):
            wait_until(lambda: out.stat().st_size > 100_000)
            copies.append(out.read_bytes())
            os.truncate(out, 0)
        assert daemon.terminate() == 0

    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        wait_until(out.exists)
        asyncio.run(load(senders, port, 0.2, cut_and_stop))
    assert len(Lines([data[: data.rfind(b"\n") + 1] for data in (*copies, out.read_bytes())])) > 300


def test_sighup_reopens_and_changes_nothing_else(tmp_path: Path) -> None:
    """A connection, its log and its file go on; the flow file is not read again."""
    flow, out = echo_flow(tmp_path), tmp_path / "out.log"
    senders = [Sender(number) for number in range(CLIENTS)]

    def hang_up_and_stop() -> None:
        flow.write_text("no flow at all")
        for number in range(8):  # after ten, similar lines are left out
            os.kill(daemon.pid, signal.SIGHUP)
            wait_until(lambda: sum(line["event"] == "reopening files" for line in daemon.lines) > number)  # noqa: B023
        assert [sender.strange for sender in senders] == [[]] * CLIENTS
        assert daemon.terminate() == 0

    with running(flow, tmp_path) as daemon:
        port = daemon.port()
        asyncio.run(load(senders, port, 0.2, hang_up_and_stop))
    assert sum(line["event"] == "listening" for line in daemon.lines) == 1
    complaints = [
        str(line["event"])
        for line in daemon.lines
        if line.get("level") in ("warning", "error")
        and line.get("reason") != "the stream broke off inside an event"  # by the stop, where a client was at it
    ]
    assert complaints == ["flow file has changed since the start"] * 8
    echo_flow(tmp_path)
    stopped(flow, tmp_path)
    assert [each.name for each in tmp_path.glob("out.log*")] == ["out.log"]
    Lines([out.read_bytes()]).have_once(senders)
