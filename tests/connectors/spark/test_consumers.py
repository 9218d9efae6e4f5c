"""Positions of consumers: durable before they are promised, and nothing is acked before all have passed it."""

import asyncio
import contextlib
import errno
import json
import os
import random
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, strategies as st

from connectors.spark.consumers import Admission, Consumers
from pyspark_walflow.wire import Code, RequestRefused
from tests.wal.tools import FaultyDisk, QuickDisk, checkpoint, put
from walflow.disk import Disk
from walflow.errors import Unusable
from walflow.testing import Fatal, MemoryOutlet, PowerCut, SimulatedDisk, VirtualScheduler, images
from walflow.wal import Log, LogOptions
from walflow.wal.consumer_file import SLOT

T = TypeVar("T")


class Life:
    """One life of a log and its consumers."""

    def __init__(
        self,
        path: Path | str,
        *names: str,
        disk: Disk | None = None,
        chunk_size: int = 1024,
        admission: Admission | None = None,
    ) -> None:
        self.log = Log(LogOptions(str(path), chunk_size, 100), disk)
        self.half = MemoryOutlet(VirtualScheduler())
        self.acked = 0
        self.consumers = Consumers(
            self.log, names or (() if admission else ("spark",)), self.half, self._acked, admission
        )

    def _acked(self) -> None:
        self.acked += 1

    async def finish(self, work: Awaitable[T]) -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            self.half.scheduler.run()
            await asyncio.sleep(0)
        return task.result()

    async def commit(self, name: str, position: int, peer: str = "10.0.0.1:5") -> int:
        return await self.finish(self.consumers.commit(name, position, peer))

    def said(self, event: str) -> list[dict[str, object]]:
        return [dict(entry) for entry in self.half.logged if entry["event"] == event]

    def crash(self) -> None:
        self.log.abandon()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def test_the_log_is_acked_up_to_the_slowest(path: Path) -> None:
    life = Life(path, "a", "b")
    put(life.log, b"x", count=100)
    assert await life.commit("a", 60) == 60
    assert life.log.low == 0
    assert await life.commit("b", 31) == 31
    assert (life.log.low, life.consumers.floor, life.acked) == (30, 31, 1)
    assert await life.commit("b", 101) == 101
    assert (life.log.low, life.consumers.floor) == (59, 60)
    assert (life.consumers.lag("a"), life.consumers.lag("b")) == (41, 0)
    life.log.close()


async def test_positions_survive_any_end(path: Path) -> None:
    life = Life(path, "a", "b")
    put(life.log, b"x", count=100)
    await life.commit("a", 60)
    await life.commit("b", 40)
    life.crash()
    again = Life(path, "a", "b")
    assert (again.consumers.committed("a"), again.consumers.committed("b")) == (60, 40)
    assert again.log.low == 39  # also where the log's own cursor was older
    again.log.close()


async def test_a_commit_goes_forward_only_and_not_beyond_the_log(path: Path) -> None:
    life = Life(path)
    put(life.log, b"x", count=10)
    assert [await life.commit("spark", position) for position in (5, 5, 3, 0)] == [5] * 4
    assert life.half.counters["spark_commits_total"].value == 1
    with pytest.raises(RequestRefused, match="spark cannot commit 12: the log ends before 11") as refused:
        await life.commit("spark", 12)
    assert refused.value.code == Code.BEYOND_HEAD
    with pytest.raises(RequestRefused, match="declared: spark") as refused:
        await life.commit("other", 2)
    assert refused.value.code == Code.UNDECLARED
    life.log.close()


async def test_commits_at_the_same_time_end_at_the_highest(path: Path) -> None:
    life = Life(path, "a", "b")
    put(life.log, b"x", count=100)
    wanted = [life.consumers.commit(name, position) for position in (7, 50, 20, 90) for name in ("a", "b")]
    await life.finish(asyncio.gather(*wanted))
    life.crash()
    again = Life(path, "a", "b")
    assert (again.consumers.committed("a"), again.consumers.committed("b")) == (90, 90)
    again.log.close()


async def test_a_peer_that_leaves_does_not_undo_its_commit(path: Path) -> None:
    life = Life(path)
    put(life.log, b"x", count=100)
    asking = asyncio.ensure_future(life.consumers.commit("spark", 50))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await life.finish(life.consumers.close())
    assert life.log.low == 49
    with pytest.raises(RequestRefused, match="stopping"):
        await life.commit("spark", 60)
    life.log.close()


async def test_consumers_come_and_go(path: Path) -> None:
    life = Life(path, "a", "b")
    put(life.log, *[b"x" * 400] * 10)
    await life.commit("a", 9)
    await life.commit("b", 5)
    checkpoint(life.log)
    life.crash()
    again = Life(path, "b", "c")
    assert [(line["consumer"], line["committed"]) for line in again.said("consumer dropped")] == [("a", 9)]
    assert [(line["consumer"], line["starts_at"]) for line in again.said("consumer new")] == [("c", 5)]
    assert (again.consumers.committed("b"), again.consumers.committed("c"), again.consumers.floor) == (5, 5, 5)
    again.crash()
    third = Life(path, "a", "b", "c")
    assert third.consumers.committed("a") == 5  # it begins anew
    third.log.close()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:20], "its checksum is wrong"),
        (lambda data: b"", "its checksum is wrong"),
        (lambda data: data.replace(b"spark", b"snark"), "its checksum is wrong"),
        (lambda data: os.urandom(300), "its checksum is wrong"),
    ],
)
async def test_a_damaged_file_costs_repetition_and_no_event(
    path: Path, damage: Callable[[bytes], bytes], reason: str
) -> None:
    life = Life(path)
    put(life.log, b"x", count=100)
    await life.commit("spark", 30)
    life.log.close()
    again = Life(path)
    await again.commit("spark", 40)
    again.crash()  # the cursor is behind, and all that is left
    (path / "consumers").write_bytes(damage((path / "consumers").read_bytes()))
    third = Life(path)
    (line,) = third.said("consumers not read")
    assert reason in str(line["error"])
    assert line["starts_at"] == third.consumers.committed("spark") == 30
    third.log.close()
    assert Life(path).said("consumers not read") == []


async def test_a_file_of_another_log_is_not_believed(path: Path, tmp_path: Path) -> None:
    other = Life(tmp_path / "other")
    put(other.log, b"x", count=100)
    await other.commit("spark", 90)
    other.log.close()
    life = Life(path)
    put(life.log, b"x", count=100)
    life.log.close()
    (path / "consumers").write_bytes((tmp_path / "other" / "consumers").read_bytes())
    again = Life(path)
    assert "of another log" in str(again.said("consumers not read")[0]["error"])
    assert again.consumers.committed("spark") == 1
    again.log.close()


async def test_a_position_beyond_the_log_is_brought_back(path: Path) -> None:
    """Else the events that get these positions next would never be read."""
    life = Life(path)
    put(life.log, b"x", count=100)
    await life.commit("spark", 101)
    life.log.close()
    for name in ("cursor", "00000000000000000001.wal"):
        (path / name).unlink()
    again = Life(path)
    assert again.consumers.committed("spark") == again.log.durable + 1
    again.log.close()


async def test_of_two_slots_the_older_one_counts_if_the_newer_one_is_torn(path: Path) -> None:
    life = Life(path)
    put(life.log, b"x", count=100)
    await life.commit("spark", 30)
    await life.commit("spark", 40)
    life.crash()
    data = (path / "consumers").read_bytes()
    newer = 0 if b'"position": 40' in data[:SLOT] else SLOT
    (path / "consumers").write_bytes(data[: newer + 20] + b"torn" + data[newer + 24 :])
    again = Life(path)
    assert again.said("consumers not read") == []
    assert again.consumers.committed("spark") == 30
    again.log.close()


async def test_a_commit_needs_no_room_on_the_disk(path: Path) -> None:
    """For what it acks is deleted then, and there is room again."""
    disk = SimulatedDisk()
    life = Life("/log", disk=disk)
    for _ in range(5):
        put(life.log, b"x" * 900, count=20)
    chunks = len(life.log.chunks)
    disk.capacity = disk.used()
    disk.fault = lambda what, where: errno.ENOSPC if what in ("create", "rename") else None
    assert await life.commit("spark", 81) == 81
    checkpoint(life.log)
    assert len(life.log.chunks) < chunks
    life.log.close()


async def test_a_write_without_room_promises_nothing_and_may_be_tried_again(path: Path) -> None:
    """On a file system that copies on write."""
    disk = FaultyDisk()
    life = Life(path, disk=disk)
    put(life.log, b"x", count=100)
    disk.fault = lambda what, where: errno.ENOSPC if "consumers" in where and what == "write" else None
    with pytest.raises(RequestRefused, match="No space left") as refused:
        await life.commit("spark", 50)
    assert refused.value.code in Code.RETRY
    assert (life.consumers.committed("spark"), life.log.low) == (1, 0)
    disk.fault = lambda what, where: None
    assert await life.commit("spark", 50) == 50
    life.log.close()


@pytest.mark.parametrize("full", [False, True])
async def test_the_file_of_an_older_walflow_is_read_and_gets_slots_as_soon_as_there_is_room(
    path: Path, full: bool
) -> None:
    disk = FaultyDisk()
    life = Life(path, disk=disk)
    put(life.log, b"x", count=100)
    life.log.close()
    cursor = {"position": 41, "time_ns": 5, "peer": "10.0.0.1:5", "scan": "s"}
    line = json.dumps({"log": life.log.uuid, "consumers": {"spark": cursor}}).encode() + b"\n"
    (path / "consumers").write_bytes(line + b"crc32 %08x\n" % zlib.crc32(line))
    disk.fault = lambda what, where: errno.ENOSPC if full and what == "create" and "consumers" in where else None
    again = Life(path, disk=disk)
    assert again.consumers.committed("spark") == 41
    assert (path / "consumers").stat().st_size == (len(line) + 15 if full else 2 * SLOT)
    assert not (path / "consumers.tmp").exists()
    disk.fault = lambda what, where: None
    await again.commit("spark", 51)
    assert (path / "consumers").stat().st_size == 2 * SLOT
    again.crash()
    assert Life(path).consumers.committed("spark") == 51


async def test_a_file_that_cannot_be_read_now_is_not_taken_for_damaged(path: Path) -> None:
    disk = FaultyDisk()
    life = Life(path, disk=disk)
    put(life.log, b"x", count=100)
    await life.commit("spark", 50)
    life.crash()
    disk.fault = lambda what, where: errno.EIO if what == "read" and where.endswith("consumers") else None
    with pytest.raises(Unusable, match="consumers: the disk cannot read it at byte 0"):
        Life(path, disk=disk)
    disk.fault = lambda what, where: None


async def test_a_sync_that_fails_ends_the_daemon(path: Path) -> None:
    disk = FaultyDisk()
    life = Life(path, disk=disk)
    put(life.log, b"x", count=100)
    disk.fault = lambda what, where: errno.EIO if "consumers" in where and what == "sync" else None
    with pytest.raises(Fatal, match="sync failed"):
        await life.commit("spark", 50)
    assert life.log.low == 0
    disk.fault = lambda what, where: None
    life.crash()


async def test_below_the_floor_it_says_who_and_when(path: Path) -> None:
    life = Life(path, "a", "b")
    put(life.log, b"x", count=100)
    assert "what lies before it was committed earlier" in str(life.consumers.below_floor(0))
    await life.commit("a", 60, "10.0.0.7:99")
    await life.commit("b", 40, "10.0.0.8:99")
    life.crash()
    again = Life(path, "a", "b")
    said = str(again.consumers.below_floor(7))
    assert "position 7 is gone, the first that can be read is 40" in said
    assert "consumer 'b' committed all below 40 at 2" in said
    assert "from 10.0.0.8:99" in said
    again.log.close()


async def test_who_holds_the_log_is_said_now_and_then(path: Path) -> None:
    life = Life(path, "a", "b")
    life.consumers.tell(full=True)
    assert life.said("log held by a consumer") == []  # there is nothing in it
    put(life.log, b"x", count=100)
    await life.commit("a", 60)
    for _ in range(10):
        life.consumers.tell(full=True)
    (line,) = life.said("log held by a consumer")
    assert (line["level"], line["consumer"], line["events"], line["last_commit"]) == ("warning", "b", 100, "never")
    life.half.scheduler.advance(61)
    life.consumers.tell(full=False)
    assert life.said("log held by a consumer")[1]["level"] == "info"
    life.log.close()


async def test_the_file_is_what_the_page_says(path: Path) -> None:
    life = Life(path)
    put(life.log, b"x", count=100)
    await life.commit("spark", 50)
    data = (path / "consumers").read_bytes()
    assert len(data) == 2 * SLOT
    found = {}
    for slot in (data[:SLOT], data[SLOT:]):
        line, checksum, _ = slot.decode().split("\n")
        written = json.loads(line)
        assert written["log"] == life.log.uuid
        assert checksum[:6] == "crc32 "
        found[written["generation"]] = written["consumers"]["spark"]["position"]
    assert found == {1: 1, 2: 50}
    assert not (path / "consumers.tmp").exists()
    life.log.close()


@pytest.mark.parametrize("seed", range(4))
async def test_power_cuts_while_consumers_commit(seed: int) -> None:
    """At any operation: what was answered stands, and all that was not committed can still be read."""
    dice = random.Random(seed)
    for _ in range(8):
        disk = SimulatedDisk()
        promised = {"a": 1, "b": 1}
        life = Life("/log", "a", "b", disk=disk)
        disk.operations_left = dice.randint(1, 150)
        with contextlib.suppress(PowerCut):
            await _busy(life, promised, dice)
        await _everyone_goes()
        for image in list(images(disk, dice, 3)):
            again = Life("/log", "a", "b", disk=SimulatedDisk(image.files))
            for name, position in promised.items():
                assert again.consumers.committed(name) >= position
            floor, durable = again.consumers.floor, again.log.durable
            assert again.log.unacked(floor, durable) == ([(floor, durable)] if durable >= floor else [])
            assert again.log.gaps == []
            again.log.close()


async def _busy(life: Life, promised: dict[str, int], dice: random.Random) -> None:
    while True:
        put(life.log, *[b"x" * 300] * dice.randint(1, 3))
        name = dice.choice(("a", "b"))
        position = dice.randint(1, life.log.durable + 1)
        promised[name] = max(promised[name], await life.commit(name, position))
        if dice.random() < 0.5:
            checkpoint(life.log)


async def _everyone_goes() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 5)),
            st.tuples(st.sampled_from(("a", "b")), st.integers(1, 60)),
            st.tuples(st.sampled_from(("checkpoint", "crash")), st.just(0)),
        ),
        max_size=30,
    )
)
def test_whatever_happens_nothing_uncommitted_is_acked(tmp_path_factory: pytest.TempPathFactory, steps) -> None:  # type: ignore[no-untyped-def]
    asyncio.run(_story(tmp_path_factory.mktemp("story"), steps))


async def _story(path: Path, steps: list[tuple[str, int]]) -> None:
    life = Life(path, "a", "b", disk=QuickDisk())
    promised = {"a": 1, "b": 1}
    for what, number in steps:
        if what == "put":
            put(life.log, b"x" * 300, count=number)
        elif what == "checkpoint":
            checkpoint(life.log)
        elif what == "crash":
            life.crash()
            life = Life(path, "a", "b", disk=QuickDisk())
        elif number <= life.log.durable + 1:
            promised[what] = max(promised[what], await life.commit(what, number))
        for name, position in promised.items():
            assert life.consumers.committed(name) == position
        assert life.log.low == min(promised.values()) - 1
        assert life.log.unacked(min(promised.values()), life.log.durable) == (
            [(min(promised.values()), life.log.durable)] if life.log.durable >= min(promised.values()) else []
        )
    life.log.close()
