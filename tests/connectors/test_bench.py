"""A file is sent as often as it should be, and percentiles are those of what came."""

import asyncio
import base64
import gzip
import json
import lzma
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from connectors.bench import LONGEST, Bench, CannotReplay, Measuring, SendPace
from tests.examples import examples
from tests.flows.builder import flow_of, pipeline, plain
from tests.system.daemon import Daemon, running as daemon_running
from tests.waiting import until
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

MICROSECOND, SECOND = 1_000, 1_000_000_000

LATENCIES = st.lists(st.tuples(st.integers(1, LONGEST), st.integers(1, 1000)), min_size=1, max_size=200)


@settings(max_examples=examples(60))
@given(LATENCIES, st.integers(1, 4), st.sampled_from([1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0]))
def test_a_percentile_is_the_exact_one_to_so_many_figures(
    recorded: list[tuple[int, int]], figures: int, percent: float
) -> None:
    measuring = Measuring(Bench(significant_figures=figures), MemoryInlet(VirtualScheduler()))
    for latency, count in recorded:
        measuring.record(latency, count)
    right = exact(recorded, percent)
    assert right <= measuring.percentile(percent) <= right * (1 + 10**-figures) + 1
    assert measuring.count == sum(count for _, count in recorded)


def exact(recorded: list[tuple[int, int]], percent: float) -> int:
    every = sorted(latency for latency, count in recorded for _ in range(count))
    rank = max(1, math.floor(percent / 100 * len(every) + 0.5))  # rounded as HdrHistogram does
    return every[rank - 1]


def test_what_no_clock_should_say_is_recorded_as_the_nearest_that_it_could() -> None:
    measuring = Measuring(Bench(significant_figures=3), MemoryInlet(VirtualScheduler()))
    measuring.record(-5 * SECOND, 1)
    measuring.record(LONGEST * 3, 1)
    assert measuring.percentile(1) == 1
    assert measuring.percentile(100) == pytest.approx(LONGEST, rel=1e-3)


@asynccontextmanager
async def running(
    bench: Bench, *, sink: bool = True, paused: bool = False
) -> AsyncIterator[tuple[MemoryInlet, MemoryOutlet, asyncio.Task[None]]]:
    scheduler = VirtualScheduler()
    inlet = MemoryInlet(scheduler, linked=sink)
    outlet = MemoryOutlet(scheduler, linked=bench.path is not None, paused=paused)
    task = asyncio.ensure_future(bench.run(inlet, outlet))
    try:
        yield inlet, outlet, task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def compressed(path: Path, data: bytes) -> None:
    compress: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
    path.write_bytes(compress.get(path.suffix, bytes)(data))


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz", "in.txt.xz"])
async def test_each_line_as_often_as_asked_for(name: str, tmp_path: Path) -> None:
    lines = [b"%d" % number for number in range(3000)]
    compressed(tmp_path / name, b"\r\n".join(lines[:10]) + b"\n" + b"\n".join(lines[10:]))
    async with running(Bench(path=str(tmp_path / name), iters=3), sink=False) as (_, outlet, _task):
        await until_stopped(outlet)
        assert outlet.streams[0].fed == lines * 3
        assert outlet.streams[0].ended == "complete"
        assert outlet.stopped == [True]


async def test_chunks_and_base64(tmp_path: Path) -> None:
    events = [b"\0a", b"b\n", b"ccc"]
    file = tmp_path / "in.txt"
    file.write_bytes(b"\n".join(map(base64.b64encode, events)))
    async with running(Bench(path=str(file), iters=1, base64=True), sink=False) as (_, outlet, _task):
        await until_stopped(outlet)
        assert outlet.streams[0].fed == events
    file.write_bytes(b"abcdefgh")
    async with running(Bench(path=str(file), iters=2, chunk_size=3), sink=False) as (_, outlet, _task):
        await until_stopped(outlet)
        assert outlet.streams[0].fed == [b"abc", b"def", b"gh"] * 2


async def test_it_goes_no_further_than_the_flow_takes_events(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"x" * 1000 + b"\n")
    async with running(Bench(path=str(file)), sink=False) as (_, outlet, _task):
        async with asyncio.timeout(100):
            while not outlet.streams or len(outlet.streams[0].fed) < 10:  # noqa: ASYNC110  # a thread reads
                await asyncio.sleep(0)
        outlet.pause()
        await outlet.scheduler.settle()
        fed = len(outlet.streams[0].fed)
        await outlet.scheduler.settle()
        assert len(outlet.streams[0].fed) == fed
        outlet.resume()
        await outlet.scheduler.settle()
        assert len(outlet.streams[0].fed) > fed
        assert outlet.lines == ["sends without end"]


async def until_stopped(outlet: MemoryOutlet) -> None:
    await until(lambda: outlet.stopped)


async def test_a_pace_is_a_grid_and_who_is_late_does_not_wait() -> None:
    scheduler = VirtualScheduler()
    pace = SendPace(scheduler, 1.0)
    times: list[float] = []

    async def go() -> None:
        for number in range(6):
            await pace.wait()
            times.append(scheduler.time())
            if number == 1:
                scheduler.advance(2.5)  # the flow took nothing

    task = asyncio.ensure_future(go())
    for _ in range(10):
        await scheduler.settle()
        scheduler.advance(1)
    await task
    assert times == [1, 2, 4.5, 4.5, 5.5, 6.5]


async def test_what_comes_in_the_warm_up_is_acked_and_does_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(warmup_secs=2, stop_after_secs=10, structured=True)
    async with running(bench) as (inlet, _, _task):
        await inlet.scheduler.settle()
        inlet.give(inlet.lines_of(b"1"))
        inlet.scheduler.advance(2)
        inlet.give(inlet.lines_of(b"1", b"2"))
        inlet.scheduler.advance(5)
        inlet.give(inlet.lines_of(b"3"))
        assert len(inlet.acked) == 3
        assert inlet.stopped == []
        inlet.scheduler.advance(5)
        assert inlet.stopped == [True]
    report = json.loads(capsys.readouterr().out)
    assert (report["count"], report["bytes"]) == (3, 6)
    assert report["throughput"] == {"events_per_second": 3 / 5, "bytes_per_second": 6 / 5}


async def test_it_stops_after_so_many_events() -> None:
    async with running(Bench(stop_after_events=3)) as (inlet, _, _task):
        await inlet.scheduler.settle()
        inlet.give(inlet.lines_of(b"1", b"2"))
        assert inlet.stopped == []
        inlet.give(inlet.lines_of(b"3"), inlet.lines_of(b"4"))
        assert inlet.stopped == [True]
        assert len(inlet.acked) == 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "No such file or directory"),
        (".", None, "Is a directory"),
        ("empty", b"", "it is empty"),
        ("damaged.gz", b"no gzip", "it is damaged"),
        ("cut.xz", lzma.compress(b"1\n" * 1000)[:-20], "it is damaged"),
    ],
)
async def test_files_that_cannot_be_sent(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    scheduler = VirtualScheduler()
    with pytest.raises(CannotReplay, match=message):
        await Bench(path=str(tmp_path / name)).run(MemoryInlet(scheduler), MemoryOutlet(scheduler))


async def test_what_is_no_base64(tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_bytes(b"YQ==\n!\n")
    scheduler = VirtualScheduler()
    with pytest.raises(CannotReplay, match="line 2 is no base64"):
        await Bench(path=str(file), base64=True).run(MemoryInlet(scheduler), MemoryOutlet(scheduler))


@pytest.mark.parametrize(
    "config",
    [
        {"interval": 0},
        {"iters": 0},
        {"significant_figures": 6},
        {"stop_after_secs": -1},
        {"path": "a\0"},
        {"chunk_size": 0},
    ],
)
def test_wrong_configurations(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(config))):
        Bench.model_validate(config)


def test_what_it_says_of_itself() -> None:
    assert Bench(path="f").ports_used().outputs == ("out", "err")
    assert Bench().ports_used().outputs == ("err",)
    assert Bench().guarantee(behind_log=True).warnings == (
        "what reaches it is dropped, and the log upstream deletes it too",
    )
    assert Bench().guarantee(behind_log=False).warnings == ()


def bench(directory: Path, *, structured: bool) -> Daemon:
    (directory / "in.json").write_bytes(b"".join(b'{"n":%d}\n' % number for number in range(100)))
    flow = directory / "bench.troy"
    flow.write_text(
        flow_of(
            "bench -> before -> log -> bench",
            bench=plain("bench", path="in.json", iters=50, structured=structured),
            before=pipeline("select event from in where event.n != 7 into out;"),
            log=plain("wal", path="state"),
        )
    )
    with daemon_running(flow, directory) as daemon:
        assert daemon.wait() == 0, daemon.raw
    return daemon


def test_in_a_flow_through_a_log_all_that_is_left_by_a_filter_is_measured_once(tmp_path: Path) -> None:
    daemon = bench(tmp_path, structured=True)
    report: dict[str, Any] = json.loads(b"".join(daemon.stdout))
    assert report["count"] == 50 * 99
    assert report["bytes"] == 50 * (10 * 8 + 90 * 9 - 8)
    quantiles = cast(list[dict[str, float]], report["quantiles"])
    assert [each["quantile_to"] for each in quantiles[:2]] == [0, 0.25]
    values = [each["value"] for each in quantiles]
    assert values == sorted(values)
    assert 10 * MICROSECOND < values[0] < values[-1] == report["max"] < 30 * SECOND


def test_as_a_table(tmp_path: Path) -> None:
    text = b"".join(bench(tmp_path, structured=False).stdout).decode()
    lines = text.splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert lines[2].split()[1] == "0.000000000000"
    assert "TotalCount     =      4950.00]" in text
    assert "Throughput (events): " in lines[-1]
