"""What arrived when: never less than was asked for, also where the clock stepped back."""

import asyncio
import errno
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from connectors.spark.durable_end import DurableEnd
from connectors.spark.serve.arrivals import Arrivals, Arrived, arrived
from connectors.spark.serve.ranges import LogRanges
from pyspark_walflow.wire import Code, FrameKind, RequestRefused
from tests.connectors.spark.bridge_world import World
from tests.pyspark_walflow.logs import Given, records, write
from tests.wal.tools import FaultyDisk, put
from walflow.testing import Fatal, MemoryOutlet, VirtualScheduler
from walflow.wal import Log, LogOptions

TIMES = st.lists(st.integers(0, 50), min_size=1, max_size=40)


@given(TIMES, st.lists(st.integers(1, 40), max_size=5), st.integers(0, 50), st.integers(0, 50), st.data())
def test_nothing_that_arrived_then_is_left_out(
    times: list[int], cuts: list[int], since: int, before: int, data: st.DataObject
) -> None:
    """`times`: of the positions from 1 on. They are noted in pieces, in any order."""
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    pieces = [
        Arrived(low + 1, high, min(times[low:high]), max(times[low:high]), data.draw(st.integers(1, 1 << 20)))
        for low, high in pairwise(edges)
    ]
    arrivals = Arrivals(1 << 30)
    for piece in data.draw(st.permutations(pieces)):
        arrivals.note(piece)
    first = data.draw(st.integers(1, len(times)))
    assert not [*arrivals.unknown(first, len(times) + 1)]
    low, end = arrivals.within(first, len(times) + 1, since, before)
    wanted = [position for position, at in enumerate(times, 1) if position >= first and since <= at < before]
    assert set(wanted) <= set(range(low, end))
    assert first <= low <= end <= len(times) + 1


def test_what_is_not_known_is_asked_for_once() -> None:
    arrivals = Arrivals(1 << 30)
    arrivals.note(Arrived(11, 20, 5, 6, 1 << 20))
    assert [*arrivals.unknown(5, 31)] == [(5, 11), (21, 31)]
    arrivals.note(Arrived(5, 12, 0, 0, 1 << 20))  # over what is known: left as it is
    assert [*arrivals.unknown(5, 31)] == [(5, 11), (21, 31)]
    arrivals.note(Arrived(5, 10, 0, 0, 1 << 20))
    arrivals.forget(16)
    assert [*arrivals.unknown(11, 21)] == []
    assert repr(arrivals) == "<Arrivals, 1 stretches>"


def test_records_say_when_they_arrived(tmp_path: Path) -> None:
    _, data = records(tmp_path / "log", [Given([b"a", b"b"], ingest_ns=-3), Given([b"cc"], ingest_ns=70)])
    assert arrived(data, 1, 3) == Arrived(1, 3, -3, 70, len(data))


def test_what_is_acked_is_forgotten(tmp_path: Path) -> None:
    """Also if no client ever asks for a time."""
    log = Log(LogOptions(str(tmp_path / "log")))
    ranges = LogRanges(log, DurableEnd(log), MemoryOutlet(VirtualScheduler()), lambda: None)
    for position in range(1, 6):
        log.append(b"", b"x" * 900_000, 1, 7)
        commit = log.commit()
        assert commit is not None
        commit.flush()
        log.committed(commit)
        ranges.committed(commit)
        log.ack(1, position)
    assert repr(ranges._arrivals) == "<Arrivals, 1 stretches>"
    log.close()


async def first_of(ranges: LogRanges, scheduler: VirtualScheduler) -> None:
    reading = asyncio.create_task(anext(ranges.read(1, 2)))
    while not reading.done():
        await asyncio.sleep(0)
        scheduler.run()
    await reading


async def test_records_that_are_there_and_cannot_be_opened_end_the_process(tmp_path: Path) -> None:
    """They are not lost: another start may be able to open them."""
    disk = FaultyDisk()
    log = Log(LogOptions(str(tmp_path / "log")), disk)
    put(log, b"one")
    scheduler = VirtualScheduler()
    half = MemoryOutlet(scheduler)
    ranges = LogRanges(log, DurableEnd(log), half, lambda: None)
    for operation in ("open", "read"):
        disk.fault = lambda what, path, operation=operation: errno.EIO if what == operation else None  # type: ignore[misc]
        with pytest.raises(RequestRefused, match="the disk cannot read it at byte 0") as refused:
            await first_of(ranges, scheduler)
        assert refused.value.code in Code.RETRY
    assert len([line for line in half.logged if line["event"] == "log not read"]) == 1, "once a minute"
    disk.fault = lambda operation, path: errno.EACCES if operation == "open" else None
    with pytest.raises(Fatal, match="open failed"):
        await first_of(ranges, scheduler)
    disk.fault = lambda operation, path: None
    assert log.gaps == []
    log.close()


async def test_a_log_of_an_earlier_life_is_read_once(tmp_path: Path) -> None:
    """The clock stepped back in the middle of it, and the log's time stood still."""
    given_ = [Given([b"x" * 100_000] * 10, ingest_ns=at, stream=at) for at in (100, 200, 300, 150, 400)]
    write(tmp_path / "log", given_)
    async with World(tmp_path / "log").running() as world:
        await world.give(b"now")
        peer = await world.client()
        for since, before, found in (
            (0, 150, (1, 11)),
            (150, 200, (1, 1)),
            (200, 301, (11, 41)),
            (400, 401, (41, 51)),
            (401, 1 << 62, (1, 1)),
            (0, 1, (1, 1)),
        ):
            answer = await peer.call(FrameKind.LOCATE, first=1, end=51, since=since, before=before)
            assert (answer["first"], answer["end"]) == found
