"""Log files that a program writes, followed by a daemon: real logrotate, real kills, a writer that never stops."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.system.daemon import ROOT, Daemon, running
from tests.waiting import PATIENCE, wait_until

FLOW = (ROOT / "flows" / "doors" / "follow.troy").read_text()

# Appends numbered lines, each with one write; opens its file anew once that has been renamed, as programs do on SIGHUP.
# With an argument but `pause=SECONDS` it makes the file itself. In mode `create` logrotate does, and a file that the program made in between is
# renamed to `app.log-DATE.backup` at once, which neither walflow nor the program's next reader finds by its name.
# It stops writing while a file `pause` is there, and ends when `stop` is.
WRITER = """
import os, random, sys, time
path = "incoming/app.log"
number = 0
pauses = [float(option[6:]) for option in sys.argv[1:] if option.startswith("pause=")]
pause = pauses[0] if pauses else 0.002
make = os.O_CREAT if len(sys.argv) > 1 + len(pauses) else 0
file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
while not os.path.exists("stop"):
    if os.path.exists("pause"):
        open("paused", "w").write(str(number))
        while os.path.exists("pause"):
            time.sleep(0.005)
    for _ in range(random.randrange(1, 200)):
        line = b"line %d %s\\n" % (number, b"x" * (number % 300))
        half = random.randrange(len(line))
        os.write(file, line[:half])
        os.write(file, line[half:])
        number += 1
    try:
        renamed = os.stat(path).st_ino != os.fstat(file).st_ino
    except FileNotFoundError:
        renamed = bool(make)
    if renamed:
        os.close(file)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | make)
    time.sleep(pause)
open("written", "w").write(str(number))
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    return tmp_path


@contextmanager
def writing(directory: Path, *options: str) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, *options], cwd=directory)
    try:
        yield
    finally:
        (directory / "stop").touch()
        process.wait(PATIENCE)


def flow(directory: Path, pattern: str) -> Path:
    file = directory / "follow.troy"
    file.write_text(
        FLOW.replace('"incoming/*.log"', f'"{pattern}"').replace(
            '"follow": true,', '"follow": true, "rotate_wait": 2000000000,'
        )
    )
    return file


def numbers(directory: Path) -> list[int]:
    """Of the lines in the sink's file, which are whole."""
    lines = (directory / "out.log").read_bytes().split(b"\n")
    assert lines.pop() == b""
    found: list[int] = []
    for line in lines:
        word, number, *pad = line.split(b" ")
        assert (word, pad) == (b"line", [b"x" * (int(number) % 300)])
        found.append(int(number))
    return found


def has_last(directory: Path, last: int) -> bool:
    out = directory / "out.log"
    if not out.exists():
        return False
    with out.open("rb") as file:
        file.seek(max(0, out.stat().st_size - 4096))
        return f"line {last} ".encode() in file.read()


LOGROTATE = shutil.which("logrotate") or "/usr/sbin/logrotate"


def rotate(directory: Path, *directives: str) -> None:
    config = directory / "logrotate.conf"
    body = "\n  ".join(("rotate 50", *directives))
    config.write_text(f"{directory}/incoming/app.log {{\n  {body}\n}}\n")
    config.chmod(0o644)
    command = [LOGROTATE, "--force", "--state", str(directory / "logrotate.state"), str(config)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
@pytest.mark.parametrize(
    "mode", [["create"], ["nocreate"], ["create", "compress"], ["create", "compress", "delaycompress"]]
)
def test_rotated_while_it_is_written_no_line_is_missing_or_comes_twice(directory: Path, mode: list[str]) -> None:
    makes = ["makes"] if "nocreate" in mode else []
    with running(flow(directory, "incoming/app.log"), directory) as daemon, writing(directory, *makes):
        daemon.wait_for("ready")
        for _ in range(5):
            wait_until(lambda: newest_is_there(directory))
            rotate(directory, *mode)
        (directory / "stop").touch()
        wait_until(lambda: (directory / "written").exists() and (directory / "written").read_text())
        written = int((directory / "written").read_text())
        wait_until(lambda: len(numbers_so_far(directory)) >= written, "lines are missing")
        assert daemon.terminate() == 0
    assert Counter(numbers(directory)) == Counter(range(written))


def is_longer(file: Path, size: int) -> bool:
    return file.stat().st_size > size


def inflated(daemon: Daemon) -> int:
    return sum(str(line.get("event")).endswith(".gz is read to its end") for line in [*daemon.lines])


@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
@pytest.mark.parametrize(
    "delay",
    [pytest.param([], id="compress", marks=pytest.mark.nightly), pytest.param(["delaycompress"], id="delaycompress")],
)
def test_older_files_are_known_when_logrotate_has_compressed_them(directory: Path, delay: list[str]) -> None:
    """The pattern matches them. Some are compressed while walflow runs, others, where the program does not write to them any more,
    before it has read all of them."""
    file = flow(directory, "incoming/app.log*")
    with writing(directory, "pause=0.02"):
        with running(file, directory) as daemon:
            daemon.wait_for("ready")
            for _ in range(3):
                wait_until(lambda: newest_is_there(directory))
                rotate(directory, "create", "compress", *delay)
            wait_until(lambda: newest_is_there(directory))
            assert daemon.terminate() == 0
        for _ in range(2 if delay else 0):
            newest = directory / "incoming" / "app.log"
            wait_until(partial(is_longer, newest, newest.stat().st_size))
            rotate(directory, "create", "compress", *delay)
        (directory / "stop").touch()
        wait_until(lambda: (directory / "written").exists() and (directory / "written").read_text())
    written = int((directory / "written").read_text())
    packed = [*(directory / "incoming").glob("*.gz")]
    assert len(packed) == (4 if delay else 3)
    before = inflated(daemon)
    with running(file, directory) as daemon:
        wait_until(lambda: before + inflated(daemon) == len(packed), "each is looked through once")
        wait_until(lambda: set(range(written)) <= set(numbers(directory)), "lines are missing")
        assert daemon.terminate() == 0
    assert Counter(numbers(directory)) == Counter(range(written))


def newest_is_there(directory: Path) -> bool:
    """walflow has seen the file of now: one that is rotated away between two looks is not found by its name."""
    first, end, _ = (directory / "incoming" / "app.log").read_bytes().partition(b"\n")
    return bool(end) and first + end in (directory / "out.log").read_bytes()


def numbers_so_far(directory: Path) -> bytes:
    """As many bytes as there are lines."""
    data = (directory / "out.log").read_bytes()
    return b"\n" * data.count(b"\n")


@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
@pytest.mark.parametrize("options", [[], ["compress", "delaycompress"]], ids=["plain", "delaycompress"])
def test_copytruncate_what_was_not_read_before_the_cut_is_read_from_the_copy(
    directory: Path, options: list[str]
) -> None:
    """logrotate itself loses what is written between its copy and its cut, so the writer rests meanwhile."""
    with running(flow(directory, "incoming/app.log*"), directory) as daemon, writing(directory):
        daemon.wait_for("ready")
        for _ in range(5):
            wait_until(lambda: (directory / "incoming" / "app.log").stat().st_size > 100_000)
            wait_until(lambda: newest_is_there(directory))
            (directory / "paused").unlink(missing_ok=True)
            (directory / "pause").touch()
            wait_until(lambda: (directory / "paused").exists() and (directory / "paused").read_text())
            rotate(directory, "copytruncate", *options)
            (directory / "pause").unlink()
        (directory / "stop").touch()
        wait_until(lambda: (directory / "written").exists() and (directory / "written").read_text())
        written = int((directory / "written").read_text())
        packed = [*(directory / "incoming").glob("*.gz")]
        wait_until(lambda: len(numbers_so_far(directory)) >= written, "lines are missing")
        wait_until(lambda: inflated(daemon) == len(packed), "each is looked through once")
        assert daemon.terminate() == 0
    assert Counter(numbers(directory)) == Counter(range(written))


@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
def test_copytruncate_no_line_is_missing_that_was_read_before_the_cut(directory: Path) -> None:
    """logrotate itself loses what is written between its copy and its cut, so the writer rests meanwhile."""
    with running(flow(directory, "incoming/app.log"), directory) as daemon, writing(directory):
        daemon.wait_for("ready")
        for _ in range(5):
            wait_until(lambda: (directory / "incoming" / "app.log").stat().st_size > 100_000)
            (directory / "paused").unlink(missing_ok=True)
            (directory / "pause").touch()
            wait_until(lambda: (directory / "paused").exists() and (directory / "paused").read_text())
            last = int((directory / "paused").read_text()) - 1
            wait_until(lambda last=last: has_last(directory, last))  # type: ignore[misc]
            rotate(directory, "copytruncate")
            (directory / "pause").unlink()
        (directory / "stop").touch()
        wait_until(lambda: (directory / "written").exists() and (directory / "written").read_text())
        written = int((directory / "written").read_text())
        wait_until(lambda: len(numbers_so_far(directory)) >= written, "lines are missing")
        assert daemon.terminate() == 0
    assert numbers(directory) == list(range(written))


def kill(directory: Path, times: int, seed: int, *more: str) -> tuple[int, int]:
    """So many lives, with a rotation now and then. How many lines were written, and how many came again. The writer never
    stops, and is slow, so that a slow machine has no gigabytes to look through."""
    chance = random.Random(seed)
    file = flow(directory, "incoming/app.log*")
    with writing(directory, "pause=0.05"):
        for _ in range(times):
            with running(file, directory) as daemon:
                daemon.wait_for("ready")
                time.sleep(chance.uniform(0.05, 0.6))  # the fault's moment, not something waited for
                if chance.random() < 0.5:
                    rotate(directory, "create", *more)
                    time.sleep(chance.uniform(0, 0.3))
                daemon.kill()
            if chance.random() < 0.3:
                rotate(directory, "create", *more)
    written = int((directory / "written").read_text())
    with running(file, directory) as daemon:
        daemon.wait_for("ready")
        wait_until(lambda: set(range(written)) <= set(numbers(directory)), "lines were skipped")
        daemon.drained()
    found = Counter(numbers(directory))
    assert found.keys() == set(range(written))
    return written, found.total() - written


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
@pytest.mark.timeout(1200)  # each life is a start, which takes 10 s on a machine with much else to do
def test_fifty_kills_and_nothing_is_skipped(directory: Path) -> None:
    written, again = kill(directory, 50, 2)
    assert written > 1000
    assert again < 10 * written  # anew each time it would be 25: a life may be shorter than it takes to a checkpoint


@pytest.mark.nightly
@pytest.mark.skipif(not os.path.exists(LOGROTATE), reason="logrotate is missing (apt install logrotate)")
def test_kills_while_older_files_are_compressed_skip_nothing(directory: Path) -> None:
    written, _ = kill(directory, 8, 3, "compress", "delaycompress")
    assert written > 100


def test_copied_and_cut_while_5000_lines_a_second_are_written_none_comes_twice(directory: Path) -> None:
    """By hand, as `cp` and `: >` in a shell: 20,000 lines, and a pattern that matches the copy."""
    log = directory / "incoming" / "access.log"
    log.touch()
    with running(flow(directory, "incoming/access.log*"), directory) as daemon:
        daemon.wait_for("ready")
        number, began = 0, time.monotonic()
        with log.open("ab", buffering=0) as file:
            while number < 20_000:
                if number == 10_000:
                    shutil.copyfile(log, f"{log}.1")
                    os.truncate(log, 0)
                file.write(
                    b"".join(b"line %d %s\n" % (each, b"x" * (each % 300)) for each in range(number, number + 50))
                )
                number += 50
                time.sleep(max(0.0, began + number / 5000 - time.monotonic()))
        wait_until(lambda: len(numbers_so_far(directory)) >= number, "lines are missing")
        assert daemon.terminate() == 0
    assert Counter(numbers(directory)) == Counter(range(number))


def test_links_in_a_circle_stop_neither_the_lines_nor_the_daemon(directory: Path) -> None:
    for name in ("a", "b"):
        (directory / "incoming" / name).symlink_to(".")
    with running(flow(directory, "incoming/**/*.log"), directory) as daemon:
        daemon.wait_for("ready")
        (directory / "incoming" / "app.log").write_bytes(b"line 0 \n")
        wait_until(lambda: (directory / "out.log").exists() and (directory / "out.log").read_bytes() == b"line 0 \n")
        assert daemon.terminate() == 0


def test_after_a_stop_nothing_comes_twice(directory: Path) -> None:
    file = flow(directory, "incoming/app.log*")
    with writing(directory):
        for _ in range(3):
            with running(file, directory) as daemon:
                daemon.wait_for("ready")
                time.sleep(0.5)
                assert daemon.terminate() == 0
    written = int((directory / "written").read_text())
    with running(file, directory) as daemon:
        daemon.wait_for("ready")
        wait_until(lambda: has_last(directory, written - 1))
        assert daemon.terminate() == 0
    assert numbers(directory) == list(range(written))


@pytest.mark.nightly
def test_ten_thousand_files_in_bounded_memory_with_few_open(directory: Path) -> None:
    files = [directory / "incoming" / f"{number}.log" for number in range(10_000)]
    for number, file in enumerate(files):
        file.write_bytes(b"line %d %s\n" % (number, b"x" * (number % 300)))
    most = 0

    def all_are_there(count: int) -> bool:
        nonlocal most
        names = descriptors(daemon.pid)
        most = max(most, sum(name.endswith(".log") for name in names))
        return (directory / "out.log").exists() and len(numbers_so_far(directory)) >= count

    with running(flow(directory, "incoming/*.log"), directory) as daemon:
        wait_until(lambda: all_are_there(10_000), "files are missing")
        for number, file in enumerate(files, 10_000):
            with file.open("ab") as grown:
                grown.write(b"line %d %s\n" % (number, b"x" * (number % 300)))
        wait_until(lambda: all_are_there(20_000), "what was appended is missing")
        assert daemon.memory < 250 << 20
        assert daemon.terminate() == 0
    assert most <= 512 + 1  # and out.log
    assert sorted(numbers(directory)) == list(range(20_000))


def descriptors(pid: int) -> list[str]:
    """What they lead to. Some are closed while we look."""
    targets: list[str] = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            targets.append(os.readlink(link))
    return targets


def test_dropped_files_are_moved_once_all_of_them_is_in_the_log_also_after_a_kill(directory: Path) -> None:
    """flows/doors/dropped.troy, with a wait for growth of 0: the files come by a rename."""
    text = (ROOT / "flows" / "doors" / "dropped.troy").read_text().replace("1000000000", "0")
    file = directory / "dropped.troy"
    file.write_text(text)
    done = directory / "done"

    def drop(first: int, last: int) -> None:
        for number in range(first, last):
            (directory / "new").write_text("".join(f'{{"id":{number * 100 + n}}}\n' for n in range(100)))
            (directory / "new").rename(directory / "incoming" / f"{number}.jsonl")

    daemon = Daemon(file, directory)
    drop(0, 100)
    wait_until(lambda: done.is_dir() and any(done.iterdir()))
    daemon.kill()
    drop(100, 200)
    with running(file, directory) as daemon:
        wait_until(lambda: len([*done.iterdir()]) == 200)
        assert not [*(directory / "incoming").iterdir()]
        out = directory / "out.jsonl"
        wait_until(lambda: out.exists() and f'"id":{19_999}}}' in out.read_text())
        assert daemon.terminate() == 0, daemon.raw
    ids = [int(line.split(":")[1].rstrip("}")) for line in out.read_text().splitlines()]
    assert set(ids) == set(range(20_000))
