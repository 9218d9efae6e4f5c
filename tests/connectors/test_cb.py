"""The sink does as each event says; the source counts what came back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from connectors.cb import Cb, NoSuchEvents
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

LOST = ConnectionError("gone")


class World:
    """A run of the connector, and what it said at the end."""

    def __init__(self, connector: Cb, *, paused: bool = False) -> None:
        self.scheduler = VirtualScheduler()
        self.inlet = MemoryInlet(self.scheduler, linked=not connector.paths)
        self.outlet = MemoryOutlet(self.scheduler, linked=bool(connector.paths), paused=paused)
        self.run = asyncio.ensure_future(connector.run(self.inlet, self.outlet))

    async def settle(self) -> None:
        await self.scheduler.settle()


@asynccontextmanager
async def running(connector: Cb, *, paused: bool = False) -> AsyncIterator[World]:
    world = World(connector, paused=paused)
    await world.settle()
    try:
        yield world
    finally:
        world.run.cancel()
        with suppress(asyncio.CancelledError, NoSuchEvents):
            await world.run


# ---- the sink


@pytest.mark.parametrize(
    ("event", "acked", "failed", "breaker"),
    [
        (b'{"cb": "ack"}\n', 1, 0, []),
        (b'{"cb": "fail"}\n', 0, 1, []),
        (b'{"cb": ["fail", "ack"]}\n', 1, 0, []),
        (b'{"cb": ["ack", "close"]}\n', 1, 0, ["an event asked for it"]),
        (b'{"cb": "trigger"}\n', 0, 0, ["an event asked for it"]),
        (b'{"cb": ["open", "trigger", 1, null]}\n', 0, 0, ["an event asked for it"]),
        (b'{"cb": ["open", "ack"]}\n', 1, 0, []),
        (b'{"cb": 1}\n', 0, 0, []),
        (b'{"a": 1}\n', 0, 0, []),
        (b'"ack"\n', 0, 0, []),
    ],
)
async def test_it_does_as_the_event_says(event: bytes, acked: int, failed: int, breaker: list[str]) -> None:
    async with running(Cb()) as world:
        world.inlet.give(world.inlet.block(event))
        assert (len(world.inlet.acked), len(world.inlet.failed)) == (acked, failed)
        assert world.inlet.triggered == breaker
    assert len(world.inlet.settled) == 1  # what has no answer fails when the run ends


async def test_each_event_for_itself() -> None:
    async with running(Cb()) as world:
        world.inlet.give(world.inlet.block(b'{"cb":"trigger"}\n{"cb":["ack","restore"]}\n{"cb":"fail"}\n'))
        assert world.inlet.acked == [b'{"cb":["ack","restore"]}\n']
        assert [data for data, _ in world.inlet.failed] == [b'{"cb":"fail"}\n']
        assert world.inlet.triggered
        assert world.inlet.breaker is None


async def test_metadata_come_first() -> None:
    async with running(Cb()) as world:
        world.inlet.give(world.inlet.block(b'{"cb":"fail"}\n', meta={"cb": ["ack"]}))
        assert len(world.inlet.acked) == 1


# ---- the source


def files(tmp_path: Path, *texts: str) -> list[str]:
    paths = [tmp_path / f"{number}.json" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


async def test_all_answers_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Cb(paths=files(tmp_path, "1\n2\n3", '"a"\r\n'))) as world:
        assert [(block.stream.number, block.values) for block in world.outlet.sent] == [
            (0, [1]),
            (1, ["a"]),
            (0, [2]),
            (0, [3]),
        ]
        for block in world.outlet.sent[:3]:
            block.receipt.ack("f::sink")
        await world.settle()
        assert not world.outlet.stopped
        world.outlet.sent[3].receipt.fail(LOST)
        await world.settle()
        assert world.outlet.stopped == [True]
        assert world.run.done()
    assert capsys.readouterr().err.splitlines() == [
        "All required CB events received.",
        "Got acks: {0: [0, 2], 1: [1]}",
        "Got fails: {0: [3]}",
    ]


async def test_time_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Cb(paths=files(tmp_path, "1\n2\n"), timeout=3_000_000_000)) as world:
        world.outlet.sent[0].receipt.ack("f::sink")
        world.scheduler.advance(2.9)
        await world.settle()
        assert not world.outlet.stopped
        world.scheduler.advance(0.1)
        await world.settle()
        assert world.outlet.stopped == [True]
        assert capsys.readouterr().err.splitlines() == [
            "Expected CB events up to id {0: 1}.",
            "Got acks: {0: [0]}",
            "Got fails: {}",
        ]
        world.outlet.sent[1].receipt.ack("f::sink")


async def test_a_batch_is_answered_by_its_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Cb(paths=files(tmp_path, "1\n2\n", "3\n"), expect_batched=True)) as world:
        world.outlet.sent[1].receipt.ack("f::sink")
        await world.settle()
        assert not world.outlet.stopped
        world.outlet.sent[2].receipt.ack("f::sink")
        await world.settle()
        assert world.outlet.stopped == [True]
        assert capsys.readouterr().err.splitlines()[0] == "All required CB events received."
        world.outlet.sent[0].receipt.ack("f::sink")


async def test_it_waits_where_it_may_not_send(tmp_path: Path) -> None:
    async with running(Cb(paths=files(tmp_path, "1\n2\n")), paused=True) as world:
        assert not world.outlet.sent
        world.outlet.resume()
        await world.settle()
        assert [block.values for block in world.outlet.sent] == [[1], [2]]
        for block in world.outlet.sent:
            block.receipt.ack("f::sink")


async def test_a_line_that_does_not_decode_is_rejected_and_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(Cb(paths=files(tmp_path, "no\n\n"))) as world:
        assert [data for data, _ in world.outlet.rejected] == [b"no\n", b"\n"]
        assert world.outlet.stopped == [True]
    assert capsys.readouterr().err.splitlines()[1] == "Got acks: {0: [0, 1]}"


async def test_a_file_that_is_not_there() -> None:
    async with running(Cb(paths=["no/such/file"])) as world:
        with pytest.raises(NoSuchEvents, match="cannot read no/such/file: No such file"):
            await world.run


def test_without_paths_it_is_a_sink_alone() -> None:
    assert Cb().ports_used().outputs == ("err",)
    assert "out" in Cb(paths=["a"]).ports_used().outputs
    with pytest.raises(ValueError, match="zero byte"):
        Cb(paths=["\0"])
