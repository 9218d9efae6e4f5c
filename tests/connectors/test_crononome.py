"""Cron expressions as tremor reads them, and what clocks that are set, sleep or stand still make of them."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from connectors.crononome import Crononome, Ringing, Times
from tests.examples import examples
from tests.flows.builder import flow_of, lines_out, pipeline, plain
from tests.system.daemon import running
from walflow.contract import CodecUse
from walflow.testing import MemoryInlet, MemoryOutlet, VirtualScheduler

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp()  # a Sunday


class Wall:
    """A clock that goes with the scheduler's, until it is set."""

    def __init__(self, scheduler: VirtualScheduler, begin: float = NOON) -> None:
        self._scheduler = scheduler
        self.offset = begin

    def __call__(self) -> float:
        return self.offset + self._scheduler.time()


class Ran:
    def __init__(self, *exprs: str, begin: float = NOON, paused: bool = False) -> None:
        entries = [{"name": f"e{number}", "expr": expr, "payload": number} for number, expr in enumerate(exprs)]
        self.scheduler = VirtualScheduler()
        self.wall = Wall(self.scheduler, begin)
        self.outlet = MemoryOutlet(self.scheduler, paused=paused)
        self.ringing = Ringing(Crononome.model_validate({"entries": entries}), self.outlet, self.wall)

    def came(self) -> list[tuple[int, str, float]]:
        """Id, name, and seconds from noon."""
        events = [cast(dict[str, object], event) for stream in self.outlet.streams for event in stream.emitted]
        found = [
            (
                cast(int, event["id"]),
                cast(str, cast(dict[str, object], event["trigger"])["name"]),
                round(cast(int, event["ingest_ns"]) / 1e9 - NOON, 3),
            )
            for event in events
        ]
        return sorted(found)

    def seconds(self) -> list[float]:
        return [second for _, _, second in self.came()]


@contextmanager
def ran(*exprs: str, begin: float = NOON, paused: bool = False) -> Iterator[Ran]:
    run = Ran(*exprs, begin=begin, paused=paused)
    run.ringing.start()
    try:
        yield run
    finally:
        run.ringing.stop()
        assert run.scheduler.timers == []
        assert {stream.ended for stream in run.outlet.streams} == {"closed"}


def test_what_an_event_is() -> None:
    with ran("*/5 * * * * *") as run:
        run.scheduler.advance(5)
        (stream,) = run.outlet.streams
        assert stream.meta == {"crononome": {"trigger": "e0"}}
        assert stream.emitted == [
            {
                "connector": "crononome",
                "ingest_ns": int((NOON + 5) * 1e9),
                "id": 0,
                "trigger": {"name": "e0", "payload": 0},
            }
        ]


def test_entries_in_their_order_and_ids_over_all_of_them() -> None:
    with ran("*/3 * * * * *", "*/2 * * * * *") as run:
        run.scheduler.advance(6)
        assert run.came() == [(0, "e1", 2), (1, "e0", 3), (2, "e1", 4), (3, "e0", 6), (4, "e1", 6)]


def test_in_a_pause_nothing_is_made_and_nothing_is_made_up() -> None:
    with ran("* * * * * *", paused=True) as run:
        run.scheduler.advance(2.5)
        run.outlet.resume()
        run.scheduler.advance(1)
        run.outlet.pause()
        run.scheduler.advance(10)
        run.outlet.resume()
        run.scheduler.advance(1)
        assert run.came() == [(0, "e0", 3), (1, "e0", 14)]


def test_a_loop_that_stood_still_makes_one_event_late() -> None:
    with ran("* * * * * *") as run:
        run.scheduler.call_later(0.5, lambda: stall(run.scheduler, 5))
        run.scheduler.advance(7)
        assert run.seconds() == [5.5, 6, 7]


@pytest.mark.parametrize("ahead", [30.5, 3600 * 24 * 365 + 0.5])
def test_a_clock_set_ahead_or_a_machine_that_slept_makes_one_event_late(ahead: float) -> None:
    with ran("*/10 * * * * *", "0 0 0 1 1 *") as run:
        run.scheduler.advance(1)
        run.wall.offset += ahead
        run.scheduler.advance(1)  # noticed within a second
        assert run.seconds() == ([ahead + 2] if ahead < 60 else [ahead + 2, ahead + 2])
        run.scheduler.advance(10)
        assert len(run.seconds()) == (2 if ahead < 60 else 3)


def test_a_clock_that_is_trimmed_repeats_nothing() -> None:
    with ran("* * * * * *") as run:
        run.scheduler.advance(3)
        run.wall.offset -= 2.5
        run.scheduler.advance(2.5)
        assert run.seconds() == [1, 2, 3]
        run.scheduler.advance(1)
        assert run.seconds() == [1, 2, 3, 4]
        assert run.outlet.logged == []


def test_a_clock_set_back_begins_anew() -> None:
    with ran("0 * * * * *") as run:
        run.scheduler.advance(120)
        run.wall.offset -= 3600
        run.scheduler.advance(61)
        assert run.seconds() == [60, 120, 180 - 3600]
        assert run.outlet.lines == ["clock set back"]


def test_times_that_are_over_and_times_that_are_to_come() -> None:
    begin = datetime(2026, 12, 31, 23, 59, 57, tzinfo=UTC).timestamp()
    with ran("* * * * * * 2026", "0 0 0 1 1 * 2027", begin=begin) as run:
        run.scheduler.advance(3600)
        assert [(name, second + NOON - begin) for _, name, second in run.came()] == [("e0", 1), ("e0", 2), ("e1", 3)]


@pytest.fixture(params=["Europe/Berlin", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_it_is_utc_wherever_it_runs() -> None:
    """The night in which clocks go forward has its 02:30 all the same."""
    assert time.timezone != 0
    for day in (datetime(2027, 3, 28, 2, 29, 59, tzinfo=UTC), datetime(2027, 3, 14, 2, 29, 59, tzinfo=UTC)):
        with ran("0 30 2 * * *", begin=day.timestamp()) as run:
            run.scheduler.advance(1)
            assert run.seconds() == [day.timestamp() + 1 - NOON]


@pytest.mark.parametrize(
    ("expr", "times"),
    [
        ("0 30 2 * * mon-fri", ["2026-11-23T02:30:00", "2026-11-24T02:30:00"]),
        ("0 30 2 * * 2-6", ["2026-11-23T02:30:00", "2026-11-24T02:30:00"]),  # 1 is Sunday
        ("0 0 0 * * 7", ["2026-11-28T00:00:00", "2026-12-05T00:00:00"]),
        ("0 0 0 ? * 1,3/2", ["2026-11-24T00:00:00", "2026-11-26T00:00:00"]),
        ("0 0 0 13 * Fri", ["2027-08-13T00:00:00", "2028-10-13T00:00:00"]),  # both must fit
        ("0 0 0 29 2 *", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
        ("5-59/20 0 12 * * * 2027-2028", ["2027-01-01T12:00:05", "2027-01-01T12:00:25"]),
        ("@hourly", ["2026-11-22T13:00:00", "2026-11-22T14:00:00"]),
        ("@daily", ["2026-11-23T00:00:00", "2026-11-24T00:00:00"]),
        ("@weekly", ["2026-11-29T00:00:00", "2026-12-06T00:00:00"]),
        ("@monthly", ["2026-12-01T00:00:00", "2027-01-01T00:00:00"]),
        ("@yearly", ["2027-01-01T00:00:00", "2028-01-01T00:00:00"]),
        ("0 0 0 30 feb *", []),
        ("* * * * * * 1970", []),
    ],
)
def test_when_it_is(expr: str, times: list[str]) -> None:
    now = NOON
    wanted: list[str | None] = [*times] or [None]
    for expected in wanted:
        found = Times(expr).after(now)
        assert (found and datetime.fromtimestamp(found, UTC).isoformat()) == (expected and f"{expected}+00:00")
        now = found or now


def some(low: int, high: int) -> st.SearchStrategy[set[int]]:
    return st.sets(st.integers(low, high), min_size=1, max_size=4) | st.just(set(range(low, high + 1)))


@settings(max_examples=examples(150))
@given(
    st.tuples(some(0, 59), some(0, 59), some(0, 23), some(1, 31), some(1, 12), some(1, 7)),
    st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)),
)
def test_times_are_those_of_a_calendar(fields: tuple[set[int], ...], now: datetime) -> None:
    seconds, minutes, hours, days, months, weekdays = fields
    now = now.replace(tzinfo=UTC)
    expr = " ".join(",".join(map(str, sorted(each))) for each in fields)
    found = Times(expr).after(now.timestamp())
    for ahead in range(366 * 3):
        day = now.date() + timedelta(days=ahead)
        if day.day in days and day.month in months and day.isoweekday() % 7 + 1 in weekdays:
            for of_day in product(sorted(hours), sorted(minutes), sorted(seconds)):
                at = datetime(day.year, day.month, day.day, *of_day, tzinfo=UTC)
                if at > now:
                    assert found == at.timestamp()
                    return
    assert found is None or found > (now + timedelta(days=365 * 3)).timestamp()


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        ("* * * * *", "is not six or seven fields: second, minute"),
        ("snot snot", "is not six or seven fields"),
        ("60 * * * * *", "is no cron expression"),
        ("* * * 0 * *", "is no cron expression"),
        ("* * * * * 0", "'0' is no day of the week"),
        ("* * * * * 8", "'8' is no day of the week"),
        ("* * * l * *", "'l' is no day of the month"),
        ("* * * * * 6#3", "'6#3' is no day of the week"),
        ("r * * * * *", "'r' is no second"),
        ("? * * * * *", "'?' is no second"),
        ("*/0 * * * * *", "is no second"),
        ("1, * * * * *", "is no second"),
        ("* * * * mon *", "'mon' is no month"),
        ("* * * * * * 20260", "'20260' is no year"),
        ("", "is not six or seven fields"),
        ("٣ * * * * *", "is no second"),
    ],
)
def test_expressions_that_are_none(expr: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Crononome.model_validate({"entries": [{"name": "e", "expr": expr}]})


@settings(max_examples=examples(300))
@given(st.lists(st.text("0123456789*/-,?abcdefjlmnoprstuwy#", max_size=6), min_size=6, max_size=7).map(" ".join))
def test_no_expression_is_a_crash(expr: str) -> None:
    try:
        times = Times(expr)
    except ValueError:
        pass
    else:
        found = times.after(NOON)
        assert found is None or found > NOON


@pytest.mark.parametrize("config", [{}, {"entries": []}, {"entries": [{"name": "a"}]}, {"entries": "a"}])
def test_wrong_configurations(config: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="entries"):
        Crononome.model_validate(config)


def test_what_it_says_of_itself() -> None:
    assert Crononome.traits.codec is CodecUse.FORBIDDEN
    never = Crononome.model_validate({"entries": [{"name": "leap", "expr": "0 0 0 30 2 *"}]})
    assert never.guarantee(behind_log=False).warnings == ("the time of entry 'leap' never comes",)


async def test_not_linked_it_ends() -> None:
    scheduler = VirtualScheduler()
    crononome = Crononome.model_validate({"entries": [{"name": "a", "expr": "@daily"}]})
    await crononome.run(MemoryInlet(scheduler), MemoryOutlet(scheduler, linked=False))


@pytest.mark.test
async def test_a_run_by_the_real_clock_and_ids_that_go_on_in_the_next() -> None:
    crononome = Crononome.model_validate({"entries": [{"name": "a", "expr": "* * * * * *"}]})
    for number in (0, 1):
        scheduler = VirtualScheduler()
        outlet = MemoryOutlet(scheduler)
        task = asyncio.ensure_future(crononome.run(MemoryInlet(scheduler), outlet))
        await scheduler.settle()
        async with asyncio.timeout(100):
            while not outlet.streams[0].emitted:  # the clock on the wall
                await asyncio.sleep(0.01)
                scheduler.advance(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        (event,) = cast(list[dict[str, object]], outlet.streams[0].emitted)
        assert event["id"] == number
        assert event["trigger"] == {"name": "a"}
        assert cast(int, event["ingest_ns"]) % 1_000_000_000 < 900_000_000


ENTRY = {"name": "tick", "expr": "* * * * * *", "payload": {"snot": "badger"}}
EVERY_SECOND = flow_of(
    "clock -> named -> console",
    "named -> exit",
    clock=plain("crononome", entries=[ENTRY]),
    named=pipeline('select {"trigger": event.trigger, "meta": $crononome.trigger} from in into out;'),
    console=lines_out("stdio"),
    exit=plain("exit"),
)


def test_in_a_flow(tmp_path: Path) -> None:
    flow = tmp_path / "every_second.troy"
    flow.write_text(EVERY_SECOND)
    with running(flow, tmp_path) as daemon:
        assert daemon.wait() == 0
    assert daemon.stdout == [b'{"trigger":{"name":"tick","payload":{"snot":"badger"}},"meta":"tick"}\n']


def stall(scheduler: VirtualScheduler, seconds: float) -> None:
    scheduler._now += seconds
