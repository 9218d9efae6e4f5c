"""Files that are followed: real files, the nodes' own source, and virtual time."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec
import pytest
import structlog
from pydantic import ValidationError

from connectors.file import File
from connectors.file.follow import Following, follow
from connectors.file.follow.checkpoint import FollowCheckpoint
from connectors.file.follow.follower import AHEAD_BYTES, AHEAD_FILES, UNENDED_BYTES
from connectors.file.follow.jobs import READ_BYTES, Jobs
from tests.flows.builder import NULL, flow_of, json_only, plain
from tests.nodes.world import Taker, World
from walflow.cli.promises import promises
from walflow.codecs import STRING
from walflow.disk import RealDisk
from walflow.errors import Unusable
from walflow.event import Block, Cutting
from walflow.framing import LINES
from walflow.nodes.source import SourceNode
from walflow.plan import load
from walflow.runtime.loop import LoopScheduler
from walflow.testing import Fatal, MemoryInlet

STEP = 0.05  # seconds of virtual time


class Run:
    """One life of the connector. `lines`: what it sent, in order; each block is acked if `acks`."""

    def __init__(
        self,
        directory: Path,
        path: str = "app.log",
        *,
        acks: bool = True,
        framing: Cutting = LINES,
        **config: object,
    ) -> None:
        self.world = World()
        self.taker = Taker(ack=acks)
        self.errors = Taker(ack=True)
        self.node = SourceNode("f::source", self.taker, self.world.err("f::source", self.errors), STRING, framing)
        self.out = self.node.begin(self.world.context("f::source"))
        given = {"path": str(directory / path), "mode": "read", "follow": True, "state": str(directory / "state")}
        self.file = File.model_validate(given | config)

    async def __aenter__(self) -> Self:
        self.task = asyncio.ensure_future(self.file.run(MemoryInlet(self.world.scheduler, linked=False), self.out))
        await self.passing(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        while not self.task.done():
            await self.world.scheduler.settle()
        for block in self.taker.blocks:
            if block.receipt.pending:
                block.receipt.ack()

    async def passing(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP)):
            self.world.scheduler.advance(STEP)
            await self.world.scheduler.settle()
        if self.task.done():
            await self.task

    @property
    def unended(self) -> int:
        """Bytes that are held because their event has no end yet."""
        return sum(round(gauge.value) for gauge in self.world.metrics.gauges() if gauge.name == "unended_bytes")

    @property
    def lines(self) -> list[bytes]:
        return [line for block in self.taker.blocks for line in block.frames.payloads()]

    def of(self, name: str) -> list[bytes]:
        blocks = [block for block in self.taker.blocks if path_of(block).endswith(f"/{name}")]
        return [line for block in blocks for line in block.frames.payloads()]


def path_of(block: Block) -> str:
    file = block.meta["file"]
    assert isinstance(file, dict)
    return str(file["path"])


class Record(msgspec.Struct):
    """What leaves by err."""

    error: str


def rejected(run: Run) -> list[str]:
    lines = [line for block in run.errors.blocks for line in block.frames.payloads()]
    return [msgspec.json.decode(line, type=Record).error for line in lines]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


async def test_it_reads_on_as_the_file_grows_and_half_a_line_waits(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    async with Run(tmp_path) as run:
        append(log, b"1\n2\nha")
        await run.passing(1)
        assert run.lines == [b"1", b"2"]
        append(log, b"lf\n")
        await run.passing(1)
        assert run.lines == [b"1", b"2", b"half"]
        assert {path_of(block) for block in run.taker.blocks} == {str(log)}


async def test_a_restart_goes_on_behind_what_is_acked(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n2\nha")
    async with Run(tmp_path) as run:
        assert run.lines == [b"1", b"2"]
    append(log, b"lf\n3\n")
    async with Run(tmp_path, acks=False) as run:
        assert run.lines == [b"half", b"3"]
    append(log, b"4\n")
    async with Run(tmp_path) as run:
        assert run.lines == [b"half", b"3", b"4"]


async def test_what_is_acked_counts_from_the_beginning_on_only(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n")
    async with Run(tmp_path, acks=False) as run:
        append(log, b"2\n")
        await run.passing(1)
        first, second = run.taker.blocks
        second.receipt.ack()
        await run.passing(1)
        assert Checkpointed(tmp_path).offsets() == {"app.log": 0}
        first.receipt.ack()
        await run.passing(1)
        assert Checkpointed(tmp_path).offsets() == {"app.log": 4}


class Checkpointed:
    """What the checkpoint on disk says."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "state"

    def offsets(self) -> dict[str, int]:
        copy = self._path.with_name("copy")  # the connector has the lock of the other
        copy.mkdir(exist_ok=True)
        (copy / "f::source.json").write_bytes((self._path / "f%3A%3Asource.json".replace("%3A", ":")).read_bytes())
        checkpoint = FollowCheckpoint.open(RealDisk(), str(copy), "f::source", "")
        try:
            return (
                {os.path.basename(os.fsdecode(mark.path)): mark.offset for mark in marks.files}
                if (marks := checkpoint.load())
                else {}
            )
        finally:
            checkpoint.close()


# rotation


async def test_renamed_the_old_file_is_finished_before_the_new_one(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    async with Run(tmp_path, rotate_wait=2_000_000_000) as run:
        append(log, b"1\n")
        await run.passing(1)
        append(log, b"2\n")
        log.rename(tmp_path / "app.log.1")
        append(log, b"4\n")
        await run.passing(0.5)
        append(tmp_path / "app.log.1", b"3 has no end")  # the program has not reopened its log yet
        await run.passing(4)
        assert run.lines == [b"1", b"2", b"4", b"3 has no end"]
        append(tmp_path / "app.log.1", b"not followed any more\n")
        append(log, b"5\n")
        await run.passing(1)
        assert run.lines[4:] == [b"5"]
        assert Checkpointed(tmp_path).offsets() == {"app.log": 4}


async def test_removed_it_is_read_to_its_end(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    async with Run(tmp_path, acks=False) as run:
        append(log, b"1\n")
        await run.passing(1)
        with log.open("ab") as writer:
            log.unlink()
            writer.write(b"2\n")
        append(log, b"3\n")
        await run.passing(1)
        assert run.lines == [b"1", b"2", b"3"]


@pytest.mark.parametrize("pattern", ["app.log", "app.log*"])
async def test_a_rotation_is_said(tmp_path: Path, pattern: str) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, pattern) as run:
            log.rename(tmp_path / "app.log.1")
            append(log, b"2\n")
            await run.passing(1)
            log.unlink()
            await run.passing(1)
    said = [line["event"] for line in logs if line["log_level"] == "info"]
    assert said == [
        f"{log} was renamed to {log}.1: it is read on from byte 2",
        f"{log} is a new file, which is read from its beginning",
        f"{log} was removed: it is read on from byte 2",
    ]


async def test_renamed_while_it_was_down_it_is_finished_first(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n")
    async with Run(tmp_path):
        pass
    append(log, b"2\n")
    log.rename(tmp_path / "old")
    append(log, b"3\n")
    async with Run(tmp_path) as run:
        await run.passing(1)
        assert run.lines == [b"2", b"3"]


async def test_gone_while_it_was_down_is_said(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n")
    async with Run(tmp_path):
        pass
    log.unlink()
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path) as run:
            await run.passing(1)
    gone = f"{log} is gone: it was read to byte 2, what was written behind that is not read, unless it is there compressed"
    assert gone in [line["event"] for line in logs]
    assert Checkpointed(tmp_path).offsets() == {}


async def test_rotated_twice_while_the_flow_takes_nothing_all_is_read(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    async with Run(tmp_path) as run:
        run.out.gate.trigger("a sink", "full")
        for number in range(3):
            append(log, b"%d\n" % number)
            await run.passing(1)
            log.unlink()
        append(log, b"3\n")
        await run.passing(20)
        assert run.lines == []
        run.out.gate.restore("a sink")
        await run.passing(1)
        assert run.lines == [b"0", b"1", b"2", b"3"]


# truncation


@pytest.mark.parametrize("new", [b"2\n", b"222\n", b"2" * 100 + b"\n", b""])
async def test_cut_it_is_read_from_its_beginning(tmp_path: Path, new: bytes) -> None:
    log = tmp_path / "app.log"
    append(log, b"111\n")
    async with Run(tmp_path) as run:
        assert run.lines == [b"111"]
        before = log.stat().st_mtime_ns
        log.write_bytes(new)  # as copytruncate: the same inode
        os.utime(log, ns=(before + 1000, before + 1000))
        await run.passing(1)
        append(log, b"3\n")
        await run.passing(1)
        assert run.lines == [b"111", *new.splitlines(), b"3"]


async def test_half_a_line_that_was_cut_off_leaves_by_err(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\nhalf")
    async with Run(tmp_path) as run:
        log.write_bytes(b"2\n")
        await run.passing(1)
        assert run.lines == [b"1", b"2"]
        (error,) = [value for block in run.errors.blocks for value in block.values]
        assert "broke off inside an event" in str(error)


async def test_another_file_with_the_same_inode_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"old 1\nold 2\n")
    async with Run(tmp_path):
        pass
    log.write_bytes(b"new 1\nnew 2\nnew 3\n")
    async with Run(tmp_path) as run:
        assert run.lines == [b"new 1", b"new 2", b"new 3"]


BANNER = b"a program of many words begins\n" * 50


@pytest.mark.parametrize("half", [0, 10, 5000, 60_000])
async def test_written_anew_with_the_same_beginning_while_it_was_down_it_is_read_from_its_beginning(
    tmp_path: Path, half: int
) -> None:
    log = tmp_path / "app.log"
    append(log, BANNER + b"old\n" * 500 + b"o" * half)
    async with Run(tmp_path) as run:
        assert len(run.lines) == 550
    log.write_bytes(BANNER + b"new\n" * 1500)
    async with Run(tmp_path) as run:
        assert run.lines == [*BANNER.splitlines(), *[b"new"] * 1500]


async def test_a_long_line_that_goes_on_after_a_restart_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, BANNER + b"o" * 60_000)
    async with Run(tmp_path) as run:
        assert run.lines == BANNER.splitlines()
    append(log, b"o\n")
    async with Run(tmp_path) as run:
        assert run.lines == [b"o" * 60_001]


async def test_written_anew_with_the_same_beginning_while_it_was_closed(tmp_path: Path) -> None:
    """Few files are open at a time."""
    log = tmp_path / "app.log"
    append(log, BANNER + b"old\n" * 500)
    async with Run(tmp_path, "*.log", max_open_files=1) as run:
        append(tmp_path / "b.log", b"b\n")
        await run.passing(1)
        log.write_bytes(BANNER + b"new\n" * 1500)
        await run.passing(1)
        assert run.of("app.log")[550:] == [*BANNER.splitlines(), *[b"new"] * 1500]


async def test_written_anew_with_the_same_beginning_while_what_was_sent_failed(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, BANNER + b"old\n" * 500)
    async with Run(tmp_path, acks=False) as run:
        run.taker.blocks[0].receipt.ack()
        append(log, b"more\n")
        await run.passing(1)
        log.write_bytes(BANNER + b"new\n" * 1500)
        run.taker.blocks[1].receipt.fail(OSError("no"))
        await run.passing(2)
        assert [line for block in run.taker.blocks[2:] for line in block.frames.payloads()] == [
            *BANNER.splitlines(), *[b"new"] * 1500,
        ]  # fmt: skip


async def test_with_read_from_end_it_is_known_what_was_before(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, BANNER + b"old\n" * 500)
    async with Run(tmp_path, read_from="end") as run:
        assert run.lines == []
    log.write_bytes(BANNER + b"new\n" * 1500)
    async with Run(tmp_path, read_from="end") as run:
        assert run.lines == [*BANNER.splitlines(), *[b"new"] * 1500]


async def test_another_file_that_has_the_inode_and_a_name_that_does_not_match_is_not_read(tmp_path: Path) -> None:
    log, other = tmp_path / "app.log", tmp_path / "secret.txt"
    append(log, b"old 1\nold 2\n")
    async with Run(tmp_path):
        pass
    log.rename(other)  # as if a new file had been given its inode
    other.write_bytes(b"not to be read by it, and longer\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path) as run:
            await run.passing(2)
            assert run.lines == []
    assert any("app.log is gone: it was read to byte 12" in str(line["event"]) for line in logs)


# where it begins


async def test_from_the_end_only_what_is_there_at_the_first_start_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n")
    async with Run(tmp_path, "*.log", read_from="end") as run:
        append(tmp_path / "later.log", b"2\n")
        await run.passing(1)
        assert run.lines == [b"2"]
    append(log, b"3\n")
    async with Run(tmp_path, "*.log", read_from="end") as run:
        assert run.lines == [b"3"]


# a pattern


@pytest.mark.parametrize("name", [b"a b.log", b"new\nline.log", b"\xff\xfe.log", b"-rf.log", b"[x].log", b"%s{}.log"])
async def test_hostile_names(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"1\n")
    async with Run(tmp_path, "*.log") as run:
        assert run.lines == [b"1"]
        str(path_of(run.taker.blocks[0])).encode()  # it is text
    append(path, b"2\n")
    async with Run(tmp_path, "*.log") as run:
        assert run.lines == [b"2"]


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


def what_cannot_be_read(path: Path) -> None:
    path.symlink_to(
        "/proc/self/mem"
    )  # a regular file, to all appearance; its first byte is an error, for root as well


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, None),
        (a_pipe, "cannot follow {}: it is a named pipe, which does not grow as a file does"),
        (a_link_to_nothing, None),
        (what_cannot_be_read, "cannot read {}: Input/output error; the other files go on"),
    ],
)
async def test_what_is_no_file_is_said_once_and_the_others_go_on(
    tmp_path: Path, make: Callable[[Path], None], said: str | None
) -> None:
    make(tmp_path / "a.log")
    append(tmp_path / "b.log", b"1\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, "*.log") as run:
            await run.passing(3)
            append(tmp_path / "b.log", b"2\n")
            await run.passing(1)
            assert run.lines == [b"1", b"2"]
    expected = [said.format(tmp_path / "a.log")] if said else []
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == expected


async def test_what_bzip2_has_compressed_is_left_alone_and_said(tmp_path: Path) -> None:
    (tmp_path / "app.log.2.bz2").write_bytes(b"BZh9")
    append(tmp_path / "app.log", b"1\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, "app.log*") as run:
            assert run.lines == [b"1"]
    said = f"cannot follow {tmp_path / 'app.log.2.bz2'}: it is compressed by bzip2; what ends in .gz, .xz, .zst, .lz4 can be read"
    assert said in [line["event"] for line in logs]


async def test_many_files_are_read_with_few_of_them_open(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.log" for number in range(60)]
    for file in files:
        append(file, b"1\nha")
    async with Run(tmp_path, "*.log", max_open_files=5) as run:
        most = 0
        for _ in range(40):
            await run.passing(STEP)
            most = max(most, sum(os.fsencode(tmp_path) in target and b".log" in target for target in open_files()))
        assert sorted(run.lines) == [b"1"] * 60
        assert 0 < most <= 5
        for file in files:
            append(file, b"lf\n")
        await run.passing(4)
        assert sorted(run.lines) == [b"1"] * 60 + [b"half"] * 60
    assert set(Checkpointed(tmp_path).offsets().values()) == {7}


async def test_files_that_wait_for_others_to_be_closed_have_their_turn_as_soon_as_these_are_acked(
    tmp_path: Path,
) -> None:
    for number in range(60):
        (tmp_path / f"{number}.log").write_bytes(b"1\n")
    async with Run(tmp_path, "*.log", acks=False, max_open_files=5, poll_interval=100_000_000_000) as run:
        for turn in range(1, 13):
            assert len(run.lines) == 5 * turn
            for block in run.taker.blocks:
                if block.receipt.pending:
                    block.receipt.ack()
            await run.passing(STEP)  # the next look is far away


def open_files() -> list[bytes]:
    targets: list[bytes] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.fsencode(os.readlink(f"/proc/self/fd/{number}")))
        except OSError:
            continue
    return targets


# a sink that fails


async def test_what_a_sink_fails_is_read_again_in_order_and_other_files_go_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, b"1\n")
    async with Run(tmp_path, "*.log", acks=False) as run:
        append(log, b"2\nha")
        await run.passing(1)
        first, second = run.taker.blocks
        run.taker.blocks.clear()
        first.receipt.fail(OSError("the peer is gone"))
        second.receipt.ack()
        append(tmp_path / "b.log", b"b\n")
        await run.passing(1)
        assert (run.of("a.log"), run.of("b.log")) == ([b"1", b"2"], [b"b"])
        assert run.world.count("lost_events_total") == 0
        append(log, b"lf\n")
        await run.passing(1)
        assert run.of("a.log") == [b"1", b"2", b"half"]


async def test_what_fails_of_a_removed_file_is_read_again(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n2")
    async with Run(tmp_path, acks=False, rotate_wait=1_000_000_000) as run:
        log.unlink()
        await run.passing(3)
        assert run.lines == [b"1", b"2"]
        for block in list(run.taker.blocks):
            block.receipt.fail(OSError("no"))
        run.taker.blocks.clear()
        await run.passing(3)
        assert run.lines == [b"1", b"2"]


# the checkpoint


class FailingRename(RealDisk):
    def rename(self, source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_it_reads_no_further_ahead_of_the_checkpoint_than_it_says(tmp_path: Path) -> None:
    config = Following(str(tmp_path / "app.log"), False, 0.25, 1, 5, str(tmp_path / "state"))
    async with Run(tmp_path):
        pass  # a checkpoint is there
    line = b"x" * 65535 + b"\n"
    (tmp_path / "app.log").write_bytes(line * (2 * AHEAD_BYTES // len(line)))
    world, taker = World(), Taker(ack=True)
    out = world.source(taker, codec=STRING)
    task = asyncio.ensure_future(follow(config, out, FailingRename()))
    for _ in range(200):
        world.scheduler.advance(STEP)
        await world.scheduler.settle()
    read = sum(map(len, taker.data))
    assert AHEAD_BYTES / 2 < read <= AHEAD_BYTES
    task.cancel()
    while not task.done():
        await world.scheduler.settle()


# what is looked for


async def test_links_in_a_circle_hold_up_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(".")
    (tmp_path / "b").symlink_to(".")
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path, "**/*.log") as run:
        assert run.lines == [b"1"]
        append(tmp_path / "app.log", b"2\n")
        await run.passing(1)
        assert run.lines == [b"1", b"2"]
        assert {path_of(block) for block in run.taker.blocks} == {str(tmp_path / "app.log")}


async def test_a_job_sees_that_its_caller_was_cancelled() -> None:
    """Otherwise the end of the connector waits for a walk."""
    began = threading.Event()
    scheduler = LoopScheduler("f::source")
    jobs = Jobs(scheduler)

    def walks() -> None:
        began.set()
        while not jobs.cancelled:
            time.sleep(0.001)

    caller = asyncio.ensure_future(jobs.run(walks))
    await asyncio.to_thread(began.wait)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await scheduler.close()


# what is read by half


async def test_a_line_without_an_end_stops_no_other_file(tmp_path: Path) -> None:
    """It is longer than what may be read ahead of the checkpoint: no ack of it would come before its end is read."""
    with (tmp_path / "a.log").open("wb") as sparse:
        sparse.truncate(2 * AHEAD_BYTES)
    append(tmp_path / "b.log", b"1\n")
    with structlog.testing.capture_logs() as logs:
        async with Run(tmp_path, "*.log") as run:
            await run.passing(5)
            append(tmp_path / "b.log", b"2\n")
            await run.passing(1)
            assert run.of("b.log") == [b"1", b"2"]
            append(tmp_path / "a.log", b"\nbehind\n")
            await run.passing(1)
            assert run.of("a.log") == [b"behind"]
            assert rejected(run) == [f"event of {2 * AHEAD_BYTES + 1} bytes exceeds max_event_bytes, 1048576"]
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        f"an event of {tmp_path}/a.log at byte 0 is longer than max_event_bytes, 1048576, and goes on: it leaves by err at its end"
    ]


@pytest.mark.parametrize("pattern", ["*.log", "a.log"])
async def test_a_long_line_that_ends_in_a_removed_file_leaves_by_err(tmp_path: Path, pattern: str) -> None:
    append(tmp_path / "a.log", b"x" * (2 << 20))
    async with Run(tmp_path, pattern, rotate_wait=1_000_000_000) as run:
        await run.passing(1)
        (tmp_path / "a.log").unlink()
        await run.passing(3)
        assert rejected(run) == [f"event of {2 << 20} bytes exceeds max_event_bytes, 1048576"]


@pytest.mark.parametrize("count", [60, pytest.param(600, marks=pytest.mark.nightly)])
async def test_many_lines_without_an_end_stop_no_other_file(tmp_path: Path, count: int) -> None:
    half = b"x" * 800_000
    for number in range(count):
        append(tmp_path / f"{number:03}.log", half if number < 60 else b"x" * 5)
    append(tmp_path / "zz.log", b"1\n")
    async with Run(tmp_path, "*.log") as run:
        await run.passing(3)
        assert run.of("zz.log") == [b"1"]
        assert run.unended <= UNENDED_BYTES
        append(tmp_path / "zz.log", b"2\n")
        for number in range(count):
            append(tmp_path / f"{number:03}.log", b"y\n")
        await run.passing(10)
        assert run.of("zz.log") == [b"1", b"2"]
        assert len(run.lines) == count + 2
        assert {len(line) for line in run.lines} == {1, 6, 800_001} - ({6} if count == 60 else set())


async def test_of_many_dropped_files_without_a_last_newline_each_is_read(tmp_path: Path) -> None:
    for number in range(60):
        append(tmp_path / f"{number:03}.log", b"x" * 800_000)
    async with Run(tmp_path, "*.log", delete=True, rotate_wait=1_000_000_000) as run:
        await run.passing(10)
        assert [len(line) for line in run.lines] == [800_000] * 60
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".log")]


async def test_of_many_removed_files_without_a_last_newline_each_is_read(tmp_path: Path) -> None:
    for number in range(60):
        append(tmp_path / f"{number:03}.log", b"x" * 800_000)
    async with Run(tmp_path, "*.log", rotate_wait=1_000_000_000) as run:
        await run.passing(3)
        for number in range(60):
            (tmp_path / f"{number:03}.log").unlink()
        await run.passing(10)
        assert [len(line) for line in run.lines] == [800_000] * 60


@pytest.mark.test
async def test_who_holds_events_of_many_files_lets_them_go_once_no_more_is_read(tmp_path: Path) -> None:
    """A batch waits for more events, and the follower for acks of these."""
    for number in range(2 * AHEAD_FILES):
        append(tmp_path / f"{number:04}.log", b"1\n")
    async with Run(tmp_path, "*.log", acks=False, max_open_files=2 * AHEAD_FILES) as run:
        run.node.on_full(run.taker.ack_all)
        await run.passing(5)
        assert len(run.lines) == 2 * AHEAD_FILES


async def test_a_checkpoint_that_cannot_be_written_is_said_by_the_source_that_waits_for_it(tmp_path: Path) -> None:
    config = Following(str(tmp_path / "app.log"), False, 0.25, 1, 5, str(tmp_path / "state"))
    async with Run(tmp_path):
        pass  # a checkpoint is there
    line = b"x" * 65535 + b"\n"
    (tmp_path / "app.log").write_bytes(line * (2 * AHEAD_BYTES // len(line)))
    world, taker = World(), Taker(ack=True)
    out = world.source(taker, codec=STRING)
    task = asyncio.ensure_future(follow(config, out, FailingRename()))
    for _ in range(200):
        world.scheduler.advance(STEP)
        await world.scheduler.settle()
    path = tmp_path / "state" / "f::source.json"
    assert out.stopped() == [f"it waits for {path}, which cannot be written: No space left on device"]
    task.cancel()
    while not task.done():
        await world.scheduler.settle()


async def test_two_processes_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    async with Run(tmp_path):
        with pytest.raises(Unusable, match="another process follows files with the checkpoint"):
            FollowCheckpoint.open(RealDisk(), str(tmp_path / "state"), "f::source", "")


async def test_a_lock_file_that_was_removed_is_made_again_with_the_next_checkpoint(tmp_path: Path) -> None:
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path) as run:
        await run.passing(1)
        (lock,) = (tmp_path / "state").glob("*.lock")
        lock.unlink()
        append(tmp_path / "app.log", b"2\n")
        await run.passing(2)
        with pytest.raises(Unusable, match="another process follows files"):
            FollowCheckpoint.open(RealDisk(), str(tmp_path / "state"), run.out.name, "boot")
    assert run.lines == [b"1", b"2"]


async def test_of_two_processes_with_one_checkpoint_the_one_without_the_lock_file_ends(tmp_path: Path) -> None:
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path) as run:
        await run.passing(1)
        (lock,) = (tmp_path / "state").glob("*.lock")
        lock.unlink()
        other = FollowCheckpoint.open(RealDisk(), str(tmp_path / "state"), run.out.name, "boot")
        (saved,) = (tmp_path / "state").glob("*.json")
        before = saved.read_bytes()
        append(tmp_path / "app.log", b"2\n")
        with pytest.raises(Fatal, match="another process follows files"):
            await run.passing(2)
        assert saved.read_bytes() == before, "it is the other one's"
        other.close()


async def test_a_damaged_checkpoint_is_said_and_nothing_is_read(tmp_path: Path) -> None:
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path):
        pass
    (tmp_path / "state" / "f::source.json").write_bytes(b'{"version":1,')
    run = Run(tmp_path)
    with pytest.raises(Unusable, match="cannot be read"):
        async with run:
            pass
    assert run.lines == []


async def test_after_a_boot_the_device_may_have_another_number(tmp_path: Path) -> None:
    append(tmp_path / "app.log", b"1\n")
    async with Run(tmp_path):
        pass
    path = tmp_path / "state" / "f::source.json"
    device = str(os.stat(tmp_path).st_dev).encode()
    boot = path.read_bytes().split(b'"boot":"')[1].split(b'"')[0]
    path.write_bytes(path.read_bytes().replace(boot, b"earlier").replace(b"," + device + b",", b",99999,"))
    append(tmp_path / "app.log", b"2\n")
    async with Run(tmp_path) as run:
        assert run.lines == [b"2"]


# configuration


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"mode": "append", "follow": True}, 'follow is for files that are read, and mode is "append"'),
        ({"mode": "read", "follow": True, "exit": True}, "exit is for a file that is read once"),
        ({"mode": "read", "read_from": "end"}, "read_from is for files that are followed: follow = true is missing"),
        ({"mode": "read", "state": "x"}, "state is for files that are followed"),
        ({"mode": "read", "follow": True, "max_open_files": 0}, "greater than or equal to 1"),
        ({"mode": "read", "delete": True}, "delete is for files that are followed"),
        ({"mode": "read", "follow": True, "delete": True, "move_to": "/x"}, "delete and move_to exclude each other"),
        ({"mode": "read", "follow": True, "delete": True, "read_from": "end"}, "a file is read from its beginning"),
    ],
)
def test_configurations_that_are_none(config: dict[str, object], line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        File.model_validate({"path": "a"} | config)
    assert line in str(caught.value)


def followed(chain: str, path: str = "a.log", out: str = NULL) -> str:
    config = f'config = {{"path": "{path}", "mode": "read", "follow": true}}'
    logs = f'file with codec = "json", {chain} {config} end'
    return flow_of("logs -> log -> out", logs=logs, log=plain("wal", path="state"), out=out)


REFUSED = (
    "a restart reads on in the middle of a file, so each event must be there as it is, and end where a line ends"
)


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        ('preprocessors = ["separate"],', []),
        ('preprocessors = [{"name": "multiline", "config": {"rule": "java"}}],', []),
        ("", [REFUSED]),
        ('preprocessors = ["separate", "base64"],', [REFUSED]),
        ('preprocessors = ["length-prefixed"],', [REFUSED]),
    ],
)
def test_preprocessors_that_do_more_than_cut_are_refused(tmp_path: Path, chain: str, said: list[str]) -> None:
    file = tmp_path / "flow.troy"
    file.write_text(followed(chain))
    _, diagnostics = load([file])
    assert [one.message for one in diagnostics if one.severity == "error"] == said


@pytest.mark.parametrize("pattern", ["a.log", "a.log*"])
def test_check_says_whether_a_log_behind_it_recognises_what_comes_again(tmp_path: Path, pattern: str) -> None:
    """A compressed file has no offsets that it had before, and `a.log*` may match one."""
    file = tmp_path / "flow.troy"
    out = json_only("file", path="o", mode="append")
    file.write_text(followed('preprocessors = ["separate"],', pattern, out))
    assembly, _ = load([file])
    assert assembly is not None
    into, onward = promises(assembly).paths
    if pattern == "a.log":
        assert "is appended once, also after kill -9" in into.once
        assert (into.repeats, onward.repeats) == ([], [])
    else:
        assert not into.once
        assert into.repeats == [
            "logs gives events no positions: `a.log*` may match compressed files, by the `*` at its end, and these have none; `*.log` matches none"
        ]
        assert "logs sends again after a crash or a failure" in onward.repeats[0]


async def test_a_read_is_one_block(tmp_path: Path) -> None:
    """Blocks of more than 256 KiB would be divided again, line by line: that took four fifths of the time."""
    line = b"x" * 99 + b"\n"
    (tmp_path / "app.log").write_bytes(line * (20 * READ_BYTES // len(line)))
    async with Run(tmp_path) as run:
        await run.passing(1)
        assert len(run.taker.blocks) == 20
        assert max(len(block.frames.data) for block in run.taker.blocks) <= 256 << 10


# files that are dropped into a directory, to be read once


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.csv*"))


@pytest.mark.parametrize("config", [{"delete": True}, {"move_to": "done"}], ids=["delete", "move_to"])
async def test_a_dropped_file_goes_after_its_last_ack_and_not_before(
    tmp_path: Path, config: dict[str, object]
) -> None:
    done = tmp_path / "done"
    given = {"move_to": str(done)} if "move_to" in config else config
    dropped = tmp_path / "1.csv"
    dropped.write_bytes(b"1\n2\nno end")
    (tmp_path / "empty.csv").touch()
    async with Run(tmp_path, "*.csv", acks=False, rotate_wait=2_000_000_000, **given) as run:
        await run.passing(5)
        assert run.lines == [b"1", b"2", b"no end"]
        assert names(tmp_path) == ["1.csv"]
        run.taker.ack_all()
        await run.passing(1)
        assert names(tmp_path) == []
        assert names(done) == (["1.csv", "empty.csv"] if "move_to" in config else [])
        assert run.world.count("disposed_files_total") == 2
        dropped.write_bytes(b"3\n")
        await run.passing(5)
        run.taker.ack_all()
        await run.passing(1)
        assert run.lines == [b"1", b"2", b"no end", b"3"]
        if "move_to" in config:
            assert (done / "1.csv").read_bytes() == b"1\n2\nno end"
            assert (done / "1.csv.1").read_bytes() == b"3\n"
    assert Checkpointed(tmp_path).offsets() == {}


async def test_a_dropped_file_that_grows_after_all_stays_and_is_read_on(tmp_path: Path) -> None:
    dropped = tmp_path / "1.csv"
    dropped.write_bytes(b"1\n")
    async with Run(tmp_path, "*.csv", acks=False, rotate_wait=1_000_000_000, delete=True) as run:
        await run.passing(3)
        append(dropped, b"2\n")
        run.taker.ack_all()
        await run.passing(0.1)
        assert dropped.exists()
        await run.passing(3)
        assert dropped.exists()
        run.taker.ack_all()
        await run.passing(3)
        assert run.lines == [b"1", b"2"]
        assert not dropped.exists()


@pytest.mark.parametrize("new", [b"4\n5\n", b"4\n5\n6\n", b"1\n2\n9\n"])
async def test_a_dropped_file_that_is_another_one_when_its_last_event_is_acked_is_read(
    tmp_path: Path, new: bytes
) -> None:
    log = tmp_path / "app.log"
    append(log, b"1\n2\n3\n")
    async with Run(tmp_path, acks=False, delete=True) as run:
        await run.passing(12)
        log.write_bytes(new)
        run.taker.ack_all()
        await run.passing(1)
        assert log.exists()
        await run.passing(12)
        run.taker.blocks[-1].receipt.ack()
        await run.passing(1)
        assert run.lines == [b"1", b"2", b"3", *new.splitlines()]
        assert not log.exists()


async def test_a_dropped_file_whose_removal_a_crash_left_out_goes_at_the_next_start(tmp_path: Path) -> None:
    dropped = tmp_path / "1.csv"
    dropped.write_bytes(b"1\n")
    async with Run(tmp_path, "*.csv") as run:
        await run.passing(3)
        assert run.lines == [b"1"]
    async with Run(tmp_path, "*.csv", rotate_wait=1_000_000_000, delete=True) as run:
        await run.passing(3)
        assert run.lines == []
        assert not dropped.exists()


async def test_many_dropped_files_without_a_last_newline_and_few_of_them_open(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.csv").write_bytes(b"%d" % number)
    async with Run(tmp_path, "*.csv", rotate_wait=1_000_000_000, max_open_files=3, delete=True) as run:
        await run.passing(20)
        assert sorted(map(int, run.lines)) == [*range(20)]
        assert names(tmp_path) == []


async def test_a_dropped_file_that_cannot_be_moved_is_said_once_and_stays(tmp_path: Path) -> None:
    (tmp_path / "done").write_text("no directory")
    dropped = tmp_path / "1.csv"
    dropped.write_bytes(b"1\n")
    with structlog.testing.capture_logs() as logged:
        async with Run(tmp_path, "*.csv", rotate_wait=0, move_to=str(tmp_path / "done")) as run:
            await run.passing(30)
            assert run.lines == [b"1"]
            assert dropped.exists()
    assert len([line for line in logged if "cannot move" in line["event"]]) == 1


@pytest.mark.parametrize(
    ("path", "move_to", "again"),
    [
        ("in/*.csv", "in", True),
        ("in/*.csv", "in/../in/", True),
        ("in/**/*.csv", "in/done", True),
        ("*/x.csv", "done", True),
        ("in/*.csv", "in/done", False),
        ("in/*.csv", "done", False),
    ],
)
def test_a_moved_file_must_not_be_found_again(path: str, move_to: str, again: bool) -> None:
    config = {"path": path, "mode": "read", "follow": True, "move_to": move_to}
    if again:
        with pytest.raises(ValidationError, match="would be read again"):
            File.model_validate(config)
    else:
        assert "moved to" in str(File.model_validate(config).guarantee(behind_log=False).source)
