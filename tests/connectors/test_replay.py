"""The connector `replay` reads a log beside the process that uses it, and sends its events again."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest
from pydantic import ValidationError

from connectors.replay import Replay
from connectors.replay.replay_run import EVENTS, LogNotReadable
from walflow.errors import PeerAway
from walflow.event import Block
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler
from walflow.wal import Log, LogOptions

SECOND = 10**9
START = 1_700_000_000 * SECOND  # log time of the first record: 2023-11-14T22:13:20Z
CHUNK = 4096


class Written(NamedTuple):
    log: Log

    def record(self, *numbers: int, size: int = 0, meta: dict[str, object] | None = None, stream: int = 1) -> None:
        """A record a second."""
        tag = msgspec.msgpack.encode(("src", 7, stream, "json", "separate", meta or {}, None))
        payload = b"".join(b'{"n":%d,"fill":"%s"}\n' % (number, b"x" * size) for number in numbers)
        at = START + (self.log.durable) * SECOND
        self.log.append(tag, payload, len(numbers), at)
        self.flush()

    def flush(self) -> None:
        while (commit := self.log.commit()) is not None:
            commit.flush()
            self.log.committed(commit)

    def ack(self, last: int) -> None:
        self.log.ack(1, last)
        checkpoint = self.log.checkpoint(force=True)
        assert checkpoint is not None
        checkpoint.flush()
        self.log.checkpointed(checkpoint)

    def close(self) -> None:
        self.log.close()


def written(path: Path, records: int = 5, *, size: int = 0, chunk: int = 1 << 20) -> Written:
    """Two events a record: 1 and 2, 3 and 4, …"""
    made = Written(Log(LogOptions(str(path / "log"), chunk, 256)))
    for number in range(1, 2 * records, 2):
        made.record(number, number + 1, size=size)
    return made


class Replaying(NamedTuple):
    out: MemoryOutlet
    scheduler: VirtualScheduler
    task: "asyncio.Future[None]"

    async def passes(self, seconds: float = 0.0) -> None:
        self.scheduler.advance(seconds)
        await self.scheduler.settle()

    async def all(self) -> list[Block]:
        """Acks what comes, until it is over."""
        taken: list[Block] = []
        while not self.task.done():
            await self.passes()
            taken += self.take()
        return taken

    def take(self) -> list[Block]:
        blocks, self.out.sent[:] = list(self.out.sent), []
        for block in blocks:
            block.receipt.ack()
        return blocks


@asynccontextmanager
async def replaying(path: Path, **config: object) -> AsyncIterator[Replaying]:
    scheduler = VirtualScheduler()
    made = Replay.model_validate({"path": str(path / "log"), **config})
    async with running(made, scheduler) as replay:
        yield replay


@asynccontextmanager
async def running(made: Replay, scheduler: VirtualScheduler) -> AsyncIterator[Replaying]:
    out = MemoryOutlet(scheduler)
    task = asyncio.ensure_future(made.run(MemoryInlet(scheduler, linked=False), out))
    replay = Replaying(out, scheduler, task)
    await replay.passes()
    try:
        yield replay
    finally:
        task.cancel()
        await scheduler.settle()
        await asyncio.gather(task, return_exceptions=True)
        for block in out.sent:
            block.receipt.withdraw()
        assert scheduler.timers == []


def numbers(blocks: list[Block]) -> list[int]:
    return [cast(dict[str, int], value)["n"] for block in blocks for value in block.values]


def marks_of(block: Block) -> list[dict[str, object]]:
    return [cast(dict[str, dict[str, object]], meta)["replay"] for meta in block.event_metas or ()]


def missed(replay: Replaying) -> int:
    return replay.out.counters["replay_missed_events_total"].value


async def test_all_that_a_log_has_is_sent_as_it_came_and_marked(tmp_path: Path) -> None:
    log = written(tmp_path, 2)
    log.record(5, meta={"peer": {"host": "web-1"}}, stream=2)
    log.ack(2)  # within its only file, so it is still there
    async with replaying(tmp_path) as replay:
        blocks = await replay.all()
    log.close()
    assert numbers(blocks) == [1, 2, 3, 4, 5]
    marks = [mark for block in blocks for mark in marks_of(block)]
    assert [mark["position"] for mark in marks] == [1, 2, 3, 4, 5]
    assert {mark["log"] for mark in marks} == {log.log.uuid}
    assert [block.meta for block in blocks] == [{}, {}, {"peer": {"host": "web-1"}}]
    assert [block.ingest_ns for block in blocks] == [START, START + 2 * SECOND, START + 4 * SECOND]
    assert [block.stream.number for block in blocks] == [1, 1, 2], "what came together stays in order"
    assert all(block.origin is None for block in blocks), "a frontier would drop it as known"


@pytest.mark.parametrize(
    ("bounds", "sent"),
    [
        ({"from": 4, "to": 7}, [4, 5, 6, 7]),
        ({"from": "2023-11-14T22:13:22Z", "to": "2023-11-14T22:13:26Z"}, [3, 4, 5, 6]),
        ({"to": 3}, [1, 2, 3]),
        ({"from": 9, "to": 400}, [9, 10]),
        ({"from": 11}, []),
        ({"from": "-1m"}, []),
    ],
)
async def test_it_begins_and_ends_at_places(tmp_path: Path, bounds: dict[str, object], sent: list[int]) -> None:
    written(tmp_path).close()
    async with replaying(tmp_path, **bounds) as replay:
        blocks = await replay.all()
        assert missed(replay) == 0
    assert numbers(blocks) == sent
    assert [mark["position"] for block in blocks for mark in marks_of(block)] == sent


async def test_a_place_that_is_none_is_refused() -> None:
    for wrong, why in (
        ({"from": "yesterday"}, "is not a position, a time"),
        ({"from": 0}, "positions are integers from 1"),
        ({"from": "2026-11-28T06:00:00"}, "has no time zone"),
        ({"from": 5, "to": 4}, "ends at position 4, before it begins"),
        ({"follow": True, "to": 4}, "leave out `to`"),
        ({"follow": True, "stop": True}, "leave out `stop`"),
        ({"speed": 0}, "greater than 0"),
    ):
        with pytest.raises(ValidationError, match=why):
            Replay.model_validate({"path": "log", **wrong})


async def test_it_follows_what_comes(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    async with replaying(tmp_path, follow=True) as replay:
        assert numbers(replay.take()) == [1, 2]
        for number in (3, 4, 5):
            log.record(number)
            await replay.passes(1.0)
            await replay.passes()
            assert numbers(replay.take()) == [number]
        await replay.passes(10.0)
        assert not replay.task.done()
    log.close()


async def test_a_log_in_which_nothing_was_written_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = written(tmp_path, 1)
    async with replaying(tmp_path, follow=True) as replay:
        replay.take()
        for _ in range(3):
            await replay.passes(1.0)
        looked: list[str] = []
        monkeypatch.setattr("walflow.delivery.record_feed.look", lambda path, disk: looked.append(path))
        for _ in range(5):
            await replay.passes(1.0)
        assert looked == []
    log.close()


async def test_what_a_sink_fails_is_sent_again_and_what_it_rejects_is_settled(tmp_path: Path) -> None:
    written(tmp_path, 2).close()
    async with replaying(tmp_path) as replay:
        (first, second), replay.out.sent[:] = list(replay.out.sent), []
        second.receipt.ack()
        first.receipt.fail(PeerAway("away"))
        await replay.passes(60.0)
        assert not replay.task.done()
        assert numbers(replay.take()) == [1, 2]
        await replay.passes()
        assert replay.task.done()


async def test_an_event_that_fails_alone_leaves_by_err_with_its_position(tmp_path: Path) -> None:
    log = written(tmp_path, 0)
    log.record(1)
    log.record(2)
    log.close()
    async with replaying(tmp_path, max_attempts=1) as replay:
        while not replay.out.rejected:
            blocks, replay.out.sent[:] = list(replay.out.sent), []
            for block in blocks:
                if numbers([block]) == [1]:
                    block.receipt.fail(ValueError("no such column"))
                else:
                    block.receipt.ack()
            await replay.passes(1.0)
        (rejected,) = replay.out.rejected
    assert "no such column" in rejected[1]
    assert "(position 1 of the log)" in rejected[1]


async def test_another_run_goes_on_behind_what_was_settled(tmp_path: Path) -> None:
    written(tmp_path, 4).close()
    scheduler = VirtualScheduler()
    replay = Replay.model_validate({"path": str(tmp_path / "log"), "from": "2023-11-14T22:13:22Z"})
    async with running(replay, scheduler) as first:
        blocks = list(first.out.sent)
        assert numbers(blocks) == [3, 4, 5, 6, 7, 8]
        blocks[0].receipt.ack()
        blocks[2].receipt.ack()
        await first.passes()
    async with running(replay, scheduler) as second:
        assert numbers(await second.all()) == [5, 6, 7, 8]
    assert replay.progress.over
    assert replay.progress.events == 6


async def test_what_was_deleted_before_is_said(tmp_path: Path) -> None:
    log = written(tmp_path, 12, size=500, chunk=CHUNK)
    log.ack(12)
    oldest = log.log.chunks[0].first
    assert 1 < oldest <= 13
    async with replaying(tmp_path, **{"from": 1}) as replay:
        assert numbers(await replay.all()) == list(range(oldest, 25))
        assert missed(replay) == oldest - 1
    async with replaying(tmp_path) as replay:
        assert numbers(await replay.all()) == list(range(oldest, 25))
        assert missed(replay) == 0, "all that is there was asked for"
    log.close()


async def test_what_is_deleted_while_it_reads_is_missed_and_the_rest_comes(tmp_path: Path) -> None:
    log = written(tmp_path, 100, size=1500, chunk=CHUNK)
    async with replaying(tmp_path) as replay:
        read = numbers(replay.out.sent)
        log.ack(120)
        oldest = log.log.chunks[0].first
        assert read[-1] < oldest
        sent = numbers(await replay.all())
        assert sent[: len(read)] == read
        assert sent == sorted(set(sent))
        assert sent[-(201 - oldest) :] == list(range(oldest, 201)), "nothing that is there is missed"
        assert missed(replay) == 200 - len(sent)
        assert missed(replay) > 0
    log.close()


async def test_damage_costs_itself_alone(tmp_path: Path) -> None:
    log = written(tmp_path, 5)
    log.close()
    (file,) = [one for one in (tmp_path / "log").iterdir() if one.is_file() and b'{"n":5,' in one.read_bytes()]
    data = bytearray(file.read_bytes())
    at = data.index(b'{"n":5,')
    data[at] ^= 1
    file.write_bytes(data)
    async with replaying(tmp_path) as replay:
        assert numbers(await replay.all()) == [1, 2, 3, 4, 7, 8, 9, 10]
        assert missed(replay) == 2


async def test_a_record_of_another_version_is_missed(tmp_path: Path) -> None:
    log = written(tmp_path, 1)
    log.log.append(msgspec.msgpack.encode(("src", 7, 1, "no such codec", "separate", {}, None)), b"x\n", 1, START)
    log.flush()
    log.record(4)
    log.close()
    async with replaying(tmp_path) as replay:
        assert numbers(await replay.all()) == [1, 2, 4]
        assert missed(replay) == 1


async def test_events_come_as_fast_as_they_came(tmp_path: Path) -> None:
    written(tmp_path, 3).close()
    async with replaying(tmp_path, speed=2) as replay:
        assert numbers(replay.take()) == [1, 2]
        await replay.passes(0.9)
        assert numbers(replay.take()) == []
        await replay.passes(0.1)
        assert numbers(replay.take()) == [3, 4]
        await replay.passes(1.0)
        assert numbers(replay.take()) == [5, 6]


async def test_a_sink_that_is_away_stops_the_reading(tmp_path: Path) -> None:
    written(tmp_path, 100, size=3000).close()
    async with replaying(tmp_path) as replay:
        held = len(replay.out.sent)
        assert sum(len(block.frames.data) for block in replay.out.sent) < 96 << 10
        await replay.passes(10.0)
        assert len(replay.out.sent) == held
        assert numbers(await replay.all()) == list(range(1, 201))


async def test_the_daemon_stops_once_all_is_settled(tmp_path: Path) -> None:
    written(tmp_path, 2).close()
    async with replaying(tmp_path, stop=True) as replay:
        await replay.passes()
        assert replay.out.stopped == []
        replay.take()
        await replay.passes()
        assert replay.out.stopped == [True]


async def test_a_log_that_is_not_there_is_for_another_run(tmp_path: Path) -> None:
    scheduler = VirtualScheduler()
    replay = Replay.model_validate({"path": str(tmp_path / "log")})
    async with running(replay, scheduler) as first:
        with pytest.raises(LogNotReadable, match="there is no log there"):
            await first.task
    written(tmp_path, 1).close()
    async with running(replay, scheduler) as second:
        assert numbers(await second.all()) == [1, 2]


async def test_sixteen_at_once_have_256_kib_each(tmp_path: Path) -> None:
    log = written(tmp_path, 0, chunk=8 << 20)
    for first in range(1, 10_000, 100):
        log.record(*range(first, first + 100), size=60)
    log.close()
    outs: list[MemoryOutlet] = []
    gc.collect()
    tracemalloc.start()
    try:
        async with AsyncExitStack() as stack:
            for number in range(16):
                replay = await stack.enter_async_context(replaying(tmp_path, **{"from": 1 + 100 * number}))
                outs.append(replay.out)
                for _ in range(10):  # it is under way
                    replay.take()
                    await replay.passes()
            assert all(sum(block.frames.count for block in out.sent) == EVENTS for out in outs), (
                "each is at its bound"
            )
            each = tracemalloc.get_traced_memory()[0] // 16
    finally:
        tracemalloc.stop()
    assert each < 256 << 10
