"""`"consumers": "any"`: known from its first start on, bounded in number, and in how long it may hold the log."""

import errno
from pathlib import Path

import pytest

from connectors.spark.consumers import PLAIN, UNUSED_SECONDS, Admission
from pyspark_walflow.wire import Code, FrameKind, RequestRefused
from tests.connectors.spark.bridge_world import World
from tests.connectors.spark.test_consumers import Life
from tests.wal.tools import FaultyDisk, put
from walflow.disk import Disk

HOUR = 3600.0


def life(path: Path, *names: str, most: int = 3, disk: Disk | None = None) -> Life:
    return Life(path / "log", *names, disk=disk, admission=Admission(most, HOUR))


async def look(life: Life, seconds: float) -> None:
    """The next look, so much later."""
    life.half.scheduler.advance(seconds)
    life.consumers.forget_silent()
    await life.half.scheduler.settle()


async def begin(life: Life, name: str) -> None:
    """A query that asks for events."""
    await life.finish(life.consumers.admit(name))
    life.consumers.used(name)


async def test_a_query_is_a_consumer_from_its_start_on_and_over_restarts(tmp_path: Path) -> None:
    first = life(tmp_path)
    put(first.log, b"x", count=100)
    with pytest.raises(RequestRefused, match="no consumer 'a' is known; known: none"):
        first.consumers.check_known("a")
    await first.finish(first.consumers.admit("a"))
    await first.commit("a", 60)
    await first.finish(first.consumers.admit("b"))
    await first.finish(first.consumers.admit("b"))
    assert (first.consumers.committed("a"), first.consumers.committed("b")) == (60, 60), "b begins at the floor"
    first.crash()
    again = life(tmp_path)
    assert again.consumers.names == ("a", "b")
    again.log.close()


async def test_there_are_at_most_so_many(tmp_path: Path) -> None:
    here = life(tmp_path, PLAIN, most=2)
    for name in ("a", "b"):
        await here.finish(here.consumers.admit(name))
    with pytest.raises(RequestRefused, match=r"there are 2 already \(`max_consumers`\): a, b") as refused:
        await here.finish(here.consumers.admit("c"))
    assert refused.value.code == Code.UNDECLARED
    with pytest.raises(RequestRefused, match="no consumer"):
        await here.finish(here.consumers.admit(PLAIN))
    here.log.close()


async def test_one_that_commits_nothing_is_forgotten_and_its_events_are_deleted(tmp_path: Path) -> None:
    here = life(tmp_path)
    put(here.log, b"x", count=100)
    for name in ("stuck", "busy", "idle"):
        await begin(here, name)
    await here.commit("idle", 101)
    await look(here, 1)
    await here.commit("busy", 50)
    await look(here, HOUR - 1)
    assert here.consumers.names == ("stuck", "busy", "idle")
    assert here.log.low == 0
    await look(here, 2)
    assert here.consumers.names == ("busy", "idle"), "a quiet stream makes no consumer silent"
    assert here.log.low == 49
    (told,) = here.said("consumer forgotten")
    assert (told["consumer"], told["events"], told["committed"], told["level"]) == ("stuck", 100, 1, "warning")
    with pytest.raises(RequestRefused, match="no consumer 'stuck' is known; known: busy, idle"):
        await here.commit("stuck", 60)
    here.crash()
    again = life(tmp_path)
    assert again.consumers.names == ("busy", "idle")
    await begin(again, "stuck")
    assert again.consumers.committed("stuck") == again.consumers.floor == 50
    again.log.close()


async def test_one_that_comes_once_in_a_while_is_not_forgotten(tmp_path: Path) -> None:
    """As a job of each night: its last batch is not committed, for nothing came after it."""
    here = life(tmp_path)
    put(here.log, b"x", count=100)
    await begin(here, "nightly")
    for _ in range(3):
        here.consumers.came("nightly")
        await look(here, 2 * HOUR)  # it may run as long as it likes
        here.consumers.left("nightly")
        await look(here, 0)
        await look(here, HOUR - 10)
    assert here.consumers.names == ("nightly",)
    await look(here, 10)
    assert here.consumers.names == ()
    here.log.close()


@pytest.mark.parametrize("crash", [False, True])
async def test_silence_is_counted_over_restarts(tmp_path: Path, *, crash: bool) -> None:
    """A crash forgets a fiftieth of it."""
    for turn in range(4):
        here = life(tmp_path)
        if not turn:
            put(here.log, b"x", count=100)
            await begin(here, "gone")
        assert here.consumers.names == ("gone",), turn
        await look(here, 0)
        for _ in range(100):
            await look(here, HOUR / 320)
        if crash:
            here.crash()
        else:
            await here.finish(here.consumers.close())
            here.log.close()
    here = life(tmp_path)
    assert here.consumers.names == (), "four times five sixteenths"
    here.log.close()


async def test_one_that_asked_for_nothing_holds_no_place(tmp_path: Path) -> None:
    """A query that was refused, or that began at the end of the log and read nothing."""
    here = life(tmp_path, most=2)
    for name in ("planned", "refused"):
        await here.finish(here.consumers.admit(name))
        here.consumers.came(name)
    here.consumers.used("planned")
    for name in ("planned", "refused"):
        here.consumers.left(name)
    await look(here, 1)
    await look(here, UNUSED_SECONDS - 1)
    assert here.consumers.names == ("planned", "refused"), "it may come again soon"
    await look(here, 1)
    assert here.consumers.names == ("planned",)
    await here.finish(here.consumers.admit("another"))
    here.log.close()


async def test_a_consumer_that_the_flow_names_is_never_forgotten(tmp_path: Path) -> None:
    here = life(tmp_path, "named")
    put(here.log, b"x", count=10)
    await look(here, 1)
    await look(here, 2 * HOUR)
    assert here.consumers.names == ("named",)
    here.log.close()


async def test_queries_come_under_any_name(tmp_path: Path) -> None:
    async with World(tmp_path / "log", consumers="any", max_consumers=2).running() as world:
        await world.give(b"a", b"b")
        peer, other, third = await world.client(), await world.client(), await world.client()
        with pytest.raises(RequestRefused, match="no consumer 'one' is known"):
            await peer.call(FrameKind.HEAD, consumer="one")
        assert await peer.call(FrameKind.LEASE, consumer="one", lease="1", scan="s") == {"committed": 1}
        await other.call(FrameKind.LEASE, consumer="two", lease="2", scan="t")
        with pytest.raises(RequestRefused, match="there are 2 already"):
            await third.call(FrameKind.LEASE, consumer="three", lease="3", scan="u")
        await peer.call(FrameKind.COMMIT, consumer="one", position=3, scan="s")
        assert world.outlet.gauges["spark_lag_events two"]() == 2
        assert (await other.call(FrameKind.HEAD, consumer="one"))["committed"] == 3
        assert {entry["consumer"] for entry in world.said("consumer new")} == {"one", "two"}
        assert (await other.call(FrameKind.HEAD))["floor"] == 1
        await other.call(FrameKind.COMMIT, consumer="two", position=3, scan="t")
        assert (await other.call(FrameKind.HEAD))["floor"] == 3


async def test_one_whose_commits_the_disk_refuses_is_not_silent(tmp_path: Path) -> None:
    disk = FaultyDisk()
    here = life(tmp_path, disk=disk)
    put(here.log, b"x", count=100)
    await here.finish(here.consumers.admit("trying"))
    disk.fault = lambda what, where: errno.ENOSPC if what == "write" and "consumers" in where else None
    for _ in range(4):
        await look(here, HOUR / 2)
        with pytest.raises(RequestRefused, match="No space left"):
            await here.commit("trying", 50)
    disk.fault = lambda what, where: None
    await look(here, HOUR / 2)
    assert here.consumers.names == ("trying",)
    assert await here.commit("trying", 50) == 50
    here.log.close()
