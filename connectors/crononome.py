"""Events at the times of cron expressions, in UTC.

Each entry has one next time. It is compared every second with the wall clock, so that a clock that was set and a
machine that has slept are noticed. Times that passed meanwhile make one event for each entry, not one for each time.
"""

import re
from asyncio import get_running_loop
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import ClassVar, Final

from croniter import CroniterBadCronError, CroniterBadDateError, croniter
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from walflow import CodecUse, Connector, Guarantee, Inlet, Outlet, Ports, Risk, Stream, Timer, Traits
from walflow.world import wall_seconds

LOOK: Final = 1.0  # seconds between looks at the clock
SET_BACK: Final = 60.0  # seconds; a clock that goes back less is being trimmed, and repeats no event
ALIASES: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 1",
    "@daily": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
FIELDS: Final = ("second", "minute", "hour", "day of the month", "month", "day of the week", "year")


class Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="The entry's name. Its events and their metadata carry it.")
    expr: str = Field(
        description="Six fields: second, minute, hour, day of the month, month, day of the week (1 is Sunday). A "
        "seventh field, the year, is optional. Or one of @hourly, @daily, @weekly, @monthly, @yearly. A day must "
        "match both of its fields. All times are UTC."
    )
    payload: object = Field(default=None, description="A value that each event of this entry carries.")

    @field_validator("expr")
    @classmethod
    def _is_cron(cls, expr: str) -> str:
        Times(expr)
        return expr


class Crononome(Connector):
    """A source of events at the times of cron expressions, in UTC. It sends
    `{"connector": "crononome", "ingest_ns": …, "id": n, "trigger": {"name": …, "payload": …}}`. The metadata
    `$crononome.trigger` holds the entry's name."""

    ports: ClassVar[Ports] = Ports(inputs=(), outputs=("out", "err"))
    traits: ClassVar[Traits] = Traits(codec=CodecUse.FORBIDDEN)

    entries: list[Entry] = Field(
        min_length=1,
        description="The times of the events, and their content.",
        examples=[[{"name": "hourly", "expr": "0 0 * * * * *"}]],
    )

    _next_id: int = PrivateAttr(default=0)  # outlives a run: ids count per process

    def guarantee(self, *, behind_log: bool) -> Guarantee:
        now = wall_seconds()
        ended = [entry.name for entry in self.entries if Times(entry.expr).after(now) is None]
        return Guarantee(
            source="no event is made for a time at which the flow accepts none. After the machine has slept, each "
            "entry makes one event for all the times that it missed. An event that a sink fails is not sent again",
            warnings=tuple(Risk("never-comes", f"the time of entry {name!r} never comes") for name in ended),
        )

    async def run(self, inlet: Inlet, out: Outlet) -> None:
        if not out.linked:
            return
        ringing = Ringing(self, out)
        try:
            ringing.start()
            await get_running_loop().create_future()  # until it is cancelled
        finally:
            ringing.stop()

    def event(self, entry: Entry, now: float) -> dict[str, object]:
        number = self._next_id
        self._next_id += 1
        trigger: dict[str, object] = {"name": entry.name}
        if entry.payload is not None:
            trigger["payload"] = entry.payload
        return {"connector": "crononome", "ingest_ns": int(now * 1e9), "id": number, "trigger": trigger}


class Times:
    """The times of one cron expression. Raises ValueError with a line for the flow file's author."""

    def __init__(self, expr: str) -> None:
        text = ALIASES.get(expr.strip().lower(), expr)
        fields = text.lower().split()
        if len(fields) not in (6, 7):
            raise ValueError(f"{expr!r} is not six or seven fields: {', '.join(FIELDS)}")
        for number, field in enumerate(fields):
            if not _is_plain(field, number):
                raise ValueError(f"{expr!r}: {field!r} is no {FIELDS[number]}")
        fields[5] = re.sub(r"(?<![\d/])\d+", lambda found: DAYS[int(found[0]) - 1], fields[5])
        self._text = " ".join(fields)
        try:
            self._from(0.0)
        except (CroniterBadCronError, ValueError) as error:
            raise ValueError(f"{expr!r} is no cron expression: {error}") from None

    def after(self, now: float) -> float | None:
        """The first time after `now`, both in seconds since 1970; None if there is none within 50 years."""
        try:
            return self._from(now).get_next(datetime).timestamp()
        except CroniterBadDateError:
            return None

    def _from(self, now: float) -> croniter:
        begin = datetime.fromtimestamp(now, UTC)
        return croniter(self._text, begin, second_at_beginning=True, day_or=False)


def _is_plain(field: str, number: int) -> bool:
    """Whether tremor reads this field too: the library's own extensions (`l`, `#`, `r`, `h`) are refused."""
    words = {4: MONTHS, 5: DAYS}.get(number, [])
    one = "|".join([*words, "[1-7]" if number == 5 else "[0-9]{1,4}"])
    any_day = r"|\?" if number in (3, 5) else ""
    item = rf"(?:\*{any_day}|(?:{one})(?:-(?:{one}))?)(?:/[1-9][0-9]{{0,3}})?"
    return re.fullmatch(rf"{item}(?:,{item})*", field) is not None


class Ringing:
    """One run. `wall`: seconds since 1970."""

    def __init__(self, crononome: Crononome, out: Outlet, wall: Callable[[], float] = wall_seconds) -> None:
        self._crononome = crononome
        self._out = out
        self._wall = wall
        self._entries = [(entry, Times(entry.expr)) for entry in crononome.entries]
        self._due: list[float | None] = []
        self._looked = 0.0
        self._paused = False
        self._timer: Timer | None = None
        self._streams: list[Stream] = []

    def start(self) -> None:
        for entry, _ in self._entries:
            meta: Mapping[str, object] = {"crononome": {"trigger": entry.name}}
            first = not self._streams
            self._streams.append(
                self._out.stream(meta, pause=self._pause, resume=self._resume) if first else self._out.stream(meta)
            )
        if not self._paused:
            self._begin()

    def stop(self) -> None:
        self._cancel()
        for stream in self._streams:
            stream.close()

    def _begin(self) -> None:
        """Starts from the present time: times that have passed make no event."""
        now = self._now()
        self._due = [times.after(now) for _, times in self._entries]
        self._wait()

    def _pause(self) -> None:
        self._paused = True
        self._cancel()

    def _resume(self) -> None:
        self._paused = False
        if self._timer is None:
            self._begin()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        now = self._wall()
        next_one = min((due - now for due in self._due if due is not None), default=LOOK)
        self._timer = self._out.scheduler.call_later(max(0.0, min(next_one, LOOK)), self._look)

    def _look(self) -> None:
        self._timer = None
        before = self._looked
        now = self._now()
        if now < before:
            self._begin()
            return
        passed = [number for number, due in enumerate(self._due) if due is not None and due <= now]
        for number in passed:
            self._due[number] = self._entries[number][1].after(now)
        for number in passed:  # may pause, and resume
            event = self._crononome.event(self._entries[number][0], self._wall())
            self._streams[number].emit([event])
        if not self._paused and self._timer is None:
            self._wait()

    def _now(self) -> float:
        """The wall clock's time, but never less than before, unless the clock was set back by more than SET_BACK."""
        now = self._wall()
        if now < self._looked - SET_BACK:
            self._out.log.warning("clock set back", seconds=round(self._looked - now))
            self._looked = now
        self._looked = max(self._looked, now)
        return self._looked
