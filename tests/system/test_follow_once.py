"""kill -9 of a daemon that follows files into a log: each line is in the log once, and in the file behind it."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.flows.builder import OUT, flow_of, lines_in, plain
from tests.system.daemon import Daemon, running
from tests.waiting import wait_until

FLOW = flow_of(
    "lines -> log -> out",
    lines=lines_in(
        "file", path="in/*.log", mode="read", follow=True, poll_interval=50_000_000, rotate_wait=300_000_000
    ),
    log=plain("wal", path="log", chunk_size=262144, max_chunks=256),
    out=OUT,
)

FILES = 4


def add(workdir: Path, first: int, count: int) -> None:
    """To several files, and every tenth line is no event."""
    for number in range(FILES):
        ids = range(first + number, first + count, FILES)
        with (workdir / "in" / f"app{number}.log").open("ab") as file:
            file.write(b"".join(b'{"id":%d}\n' % id + (b"no json\n" if id % 10 == 0 else b"") for id in ids))


def ids(file: Path) -> list[int]:
    whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
    return [json.loads(line)["id"] for line in whole.splitlines()]


def has(out: Path, size: int) -> bool:
    return out.exists() and out.stat().st_size >= size


def size_of(count: int) -> int:
    return sum(len(b'{"id":%d}\n' % id) for id in range(count))


def killed_again_and_again(workdir: Path, kills: int, count: int) -> None:
    flow, out = workdir / "follow.troy", workdir / "out.log"
    flow.write_text(FLOW)
    (workdir / "in").mkdir()
    for life in range(kills):
        add(workdir, life * count, count)
        with running(flow, workdir):  # killed at its end
            # some of this life's lines are in the log, and for half a second the checkpoint does not say so
            wait_until(partial(has, out, size_of(life * count) + 1000), "nothing is written")
    with running(flow, workdir) as daemon:
        wait_until(partial(has, out, size_of(kills * count)), "events are missing")
        assert daemon.terminate() == 0
    assert sorted(ids(out)) == [*range(kills * count)]


def test_killed_twice(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 2, 20_000)


@pytest.mark.nightly
def test_killed_again_and_again(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 10, 20_000)


# files that are rotated meanwhile


def copytruncate(workdir: Path, name: str) -> None:
    """Of each file a copy that matches the pattern."""
    for number in range(FILES):
        file = workdir / "in" / f"app{number}.log"
        shutil.copyfile(file, file.with_name(f"app{number}-{name}.log"))
        os.truncate(file, 0)


def test_killed_around_copytruncate(tmp_path: Path) -> None:
    """The copy is found by a running walflow, or by the next start."""
    flow, out, count = tmp_path / "follow.troy", tmp_path / "out.log", 10_000
    flow.write_text(FLOW)
    (tmp_path / "in").mkdir()
    for life in range(3):
        first = life * 3 * count
        add(tmp_path, first, count)
        with running(flow, tmp_path):  # killed at its end
            wait_until(partial(has, out, size_of(first) + 1000), "nothing is written")
            add(tmp_path, first + count, count)
            copytruncate(tmp_path, f"{life}a")
            add(tmp_path, first + 2 * count, count)
            wait_until(partial(has, out, size_of(first + 2 * count) + 1000), "nothing is written")
        copytruncate(tmp_path, f"{life}b")
    with running(flow, tmp_path) as daemon:
        wait_until(partial(has, out, size_of(9 * count)), "events are missing")
        assert daemon.terminate() == 0
    assert sorted(ids(out)) == [*range(9 * count)]


def forgotten(daemon: Daemon) -> int:
    return sum("followed no more" in str(line.get("event")) for line in [*daemon.lines])


def test_killed_where_new_files_have_the_inodes_of_files_that_are_gone(tmp_path: Path) -> None:
    """On ext4, for example: an inode is given away again at once."""
    flow, out, directory = tmp_path / "follow.troy", tmp_path / "out.log", tmp_path / "in"
    flow.write_text(FLOW)
    directory.mkdir()
    wanted = 0
    for _ in range(4):
        with running(flow, tmp_path) as daemon:  # killed at its end
            add(tmp_path, wanted, 400)
            wanted += 400
            wait_until(partial(has, out, size_of(wanted)), "events are missing")
            before = forgotten(daemon)
            for number in (2, 0, 3, 1):
                (directory / f"app{number}.log").unlink()
                wait_until(lambda before=before: forgotten(daemon) > before)  # type: ignore[misc]
                before += 1
            add(tmp_path, wanted, 400)
            wanted += 400
            wait_until(partial(has, out, size_of(wanted)), "events are missing")
        add(tmp_path, wanted, 400)
        wanted += 400
        with running(flow, tmp_path) as daemon:
            wait_until(partial(has, out, size_of(wanted)), "events are missing")
            assert daemon.terminate() == 0
        for number in range(FILES):
            (directory / f"app{number}.log").unlink()
    assert sorted(ids(out)) == [*range(wanted)]
