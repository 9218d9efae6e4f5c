from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
from pydantic import ValidationError

from connectors.metronome import Metronome
from tests.connectors.started import started
from walflow.contract import CodecUse, Guarantee, Ports
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

SECOND = 1_000_000_000


@asynccontextmanager
async def running(
    metronome: Metronome, scheduler: VirtualScheduler, *, linked: bool = True, paused: bool = False
) -> AsyncIterator[MemoryOutlet]:
    outlet = MemoryOutlet(scheduler, linked=linked, paused=paused)
    async with started(metronome.run(MemoryInlet(scheduler, linked=False), outlet)):
        await scheduler.settle()
        yield outlet
    assert scheduler.timers == []


def ids(outlet: MemoryOutlet) -> list[int]:
    return [cast(dict[str, int], event)["id"] for event in outlet.streams[0].emitted]


async def test_the_first_event_comes_after_one_interval() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND), scheduler) as outlet:
        scheduler.advance(0.999)
        assert outlet.streams[0].emitted == []
        scheduler.advance(0.001)
        (event,) = outlet.streams[0].emitted
        assert isinstance(event, dict)
        assert list(event) == ["connector", "ingest_ns", "id"]
        assert event["connector"] == "metronome"
        assert event["id"] == 0
        assert isinstance(event["ingest_ns"], int)
    assert outlet.streams[0].ended == "closed"


async def test_the_payload_of_older_flows() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND, legacy=True), scheduler) as outlet:
        scheduler.advance(1)
        (event,) = outlet.streams[0].emitted
        assert isinstance(event, dict)
        assert list(event) == ["onramp", "id", "ingest_ns"]
        assert (event["onramp"], event["id"]) == ("metronome", 0)


async def test_a_late_timer_does_not_shift_the_grid() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND), scheduler) as outlet:
        scheduler.call_later(0.5, lambda: stall(scheduler, 0.8))  # the loop is busy from 0.5 to 1.3
        scheduler.advance(1.3)
        assert ids(outlet) == [0]
        assert scheduler.timers == [pytest.approx(0.7)]


async def test_ticks_in_a_stall_are_left_out_and_ids_go_on() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND), scheduler) as outlet:
        scheduler.call_later(0.5, lambda: stall(scheduler, 5))
        scheduler.advance(5.6)
        assert ids(outlet) == [0]
        scheduler.advance(1)
        assert ids(outlet) == [0, 1]


async def test_paused_it_makes_nothing_and_ids_have_no_gap() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND), scheduler) as outlet:
        scheduler.advance(2)
        outlet.pause()
        scheduler.advance(10.5)
        assert ids(outlet) == [0, 1]
        outlet.resume()
        scheduler.advance(0.4)
        assert ids(outlet) == [0, 1]
        scheduler.advance(0.1)  # back on the grid
        assert ids(outlet) == [0, 1, 2]


async def test_a_pause_from_within_emit_and_one_before_the_start() -> None:
    scheduler = VirtualScheduler()
    async with running(Metronome(interval=SECOND), scheduler, paused=True) as outlet:
        scheduler.advance(3)
        assert outlet.streams[0].emitted == []
        outlet.resume()
        emit: Callable[[list[object]], None] = outlet.streams[0].emit

        def emit_and_pause(values: list[object]) -> None:
            emit(values)
            outlet.pause()

        outlet.streams[0].emit = emit_and_pause  # type: ignore[method-assign, assignment]
        scheduler.advance(5)
        assert ids(outlet) == [0]
        outlet.resume()
        scheduler.advance(5)
        assert ids(outlet) == [0, 1]


async def test_ids_go_on_over_the_runs_of_a_process() -> None:
    scheduler = VirtualScheduler()
    metronome = Metronome(interval=SECOND)
    async with running(metronome, scheduler) as outlet:
        scheduler.advance(2)
        assert ids(outlet) == [0, 1]
    async with running(metronome, scheduler) as outlet:
        scheduler.advance(1)
        assert ids(outlet) == [2]


async def test_not_linked_it_ends() -> None:
    scheduler = VirtualScheduler()
    await Metronome(interval=SECOND).run(MemoryInlet(scheduler), MemoryOutlet(scheduler, linked=False))


@pytest.mark.parametrize("interval", [0, -1, 1.5, "1s", True])
def test_intervals_that_are_none(interval: object) -> None:
    with pytest.raises(ValidationError, match="interval"):
        Metronome.model_validate({"interval": interval})


def test_what_it_says_of_itself() -> None:
    metronome = Metronome(interval=1)
    assert metronome.traits.codec is CodecUse.FORBIDDEN
    assert metronome.ports_used() == Ports(inputs=(), outputs=("out", "err"))
    assert metronome.guarantee(behind_log=False) == Guarantee(
        source="an event is made only while the flow accepts events: a tick during a pause makes none. The ids count "
        "from 0 in each process and have no gaps. An event that a sink fails is not sent again"
    )


def stall(scheduler: VirtualScheduler, seconds: float) -> None:
    scheduler._now += seconds
