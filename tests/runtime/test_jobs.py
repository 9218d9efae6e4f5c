"""Threads that run jobs on a real loop: one that hangs holds up nobody, and is named."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.waiting import PATIENCE
from walflow.disk import RealDisk
from walflow.metrics import Metrics
from walflow.net import on_thread
from walflow.runtime.jobs import CALLS, LONG, LongJobs
from walflow.runtime.loop import LoopScheduler


class HangingDisk(RealDisk):
    """Each sync waits until it `may_end`."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Event()

    def sync(self, fd: int) -> None:
        self.begun.release()
        assert self.may_end.wait(PATIENCE)
        super().sync(fd)


class World:
    def __init__(self, directory: Path) -> None:
        self.disk = HangingDisk()
        self.file = str(directory / "a file")
        self.fd = self.disk.open(self.file, create=True)
        self.metrics = Metrics()
        self.jobs = LongJobs()
        self.jobs.measure("main::log", self.metrics, {"component": "log"})
        self.scheduler = LoopScheduler("main::log", jobs=self.jobs)

    def sync(self) -> None:
        self.disk.sync(self.fd)

    def looks(self, count: int) -> None:
        for _ in range(count):
            self.jobs.look()

    async def close(self) -> None:
        self.disk.may_end.set()
        await self.scheduler.close()
        os.close(self.fd)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    await made.close()


def fails() -> None:
    raise ZeroDivisionError


def test_each_method_of_a_disk_has_the_name_of_a_call() -> None:
    quick = {"cached", "filesystem"}  # the one never waits, the other reads /proc
    methods = {name for name, value in vars(RealDisk).items() if callable(value) and not name.startswith("_")}
    assert methods - quick == set(CALLS)


@pytest.mark.both_loops
async def test_an_urgent_job_that_hangs_holds_up_the_urgent_ones_behind_it_and_nothing_else(world: World) -> None:
    ended, other = asyncio.Event(), asyncio.Event()
    told: list[str] = []

    def done(name: str, error: BaseException | None) -> None:
        told.append(f"{name}: {type(error).__name__}")
        if len(told) == 2:
            ended.set()

    world.scheduler.submit(world.sync, lambda error: done("hung", error), urgent=True)
    world.scheduler.submit(fails, lambda error: done("behind it", error), urgent=True)
    world.scheduler.submit(lambda: None, lambda error: other.set())
    await other.wait()
    assert told == []
    world.disk.may_end.set()
    await ended.wait()
    assert told == ["hung: NoneType", "behind it: ZeroDivisionError"]


async def test_a_job_that_hangs_is_named_with_its_call_and_its_file_until_it_ends(world: World) -> None:
    ended = asyncio.Event()
    world.scheduler.submit(world.sync, lambda error: ended.set())
    assert await asyncio.to_thread(world.disk.begun.acquire, timeout=PATIENCE)
    with capture_logs() as lines:
        world.looks(LONG)
        assert (lines, world.jobs.now()) == ([], [])
        world.looks(2)
        (found,) = world.jobs.now()
        assert (found.who, found.call) == ("main::log", f"fdatasync of {world.file}")
        assert str(found).startswith("main::log has waited 0 s for fdatasync of /")
        (said,) = lines
        assert (said["event"], said["log_level"]) == ("waits long", "warning")
        assert (said["of"], said["call"]) == ("main::log", f"fdatasync of {world.file}")
        values = {value.name: value.value for value in world.metrics.values()}
        assert values["walflow_component_long_waits_total"] == 1
        assert values["walflow_component_longest_wait_seconds"] > 0
        world.disk.may_end.set()
        await ended.wait()
        world.looks(1)
        assert world.jobs.now() == []
        assert [line["event"] for line in lines] == ["waits long", "waits no longer"]
        assert lines[1]["call"] == said["call"]
    values = {value.name: value.value for value in world.metrics.values()}
    assert values["walflow_component_longest_wait_seconds"] == 0


async def test_jobs_that_follow_each_other_are_not_one_that_hangs(world: World) -> None:
    world.disk.may_end.set()
    for _ in range(LONG + 2):
        world.looks(1)
        await on_thread(world.scheduler, world.sync)
    assert world.jobs.now() == []


async def test_each_lane_reads_on_a_thread_of_its_own_and_is_named(world: World) -> None:
    ended, other = asyncio.Event(), asyncio.Event()
    world.scheduler.fetch(world.sync, lambda error: ended.set(), of="main::log to far")
    world.scheduler.fetch(lambda: None, lambda error: other.set(), of="main::log to near")
    await other.wait()
    assert await asyncio.to_thread(world.disk.begun.acquire, timeout=PATIENCE)
    world.looks(LONG + 1)
    assert [job.who for job in world.jobs.now()] == ["main::log to far"]
    world.disk.may_end.set()
    await ended.wait()


async def test_a_job_that_is_no_call_of_a_disk_is_named_by_its_place(world: World) -> None:
    waits, may_end = threading.Event(), threading.Event()

    def asks() -> None:
        waits.set()
        assert may_end.wait(PATIENCE)

    ended = asyncio.Event()
    world.scheduler.submit(asks, lambda error: ended.set())
    assert await asyncio.to_thread(waits.wait, PATIENCE)
    world.looks(LONG + 1)
    assert [job.call.partition(",")[0] for job in world.jobs.now()] == ["_work"], "the innermost that is ours"
    may_end.set()
    await ended.wait()
