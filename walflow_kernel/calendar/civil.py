"""Date and time of day in a time zone, and days of the calendar.

Time zones come from the package tzdata and not from the machine. So each machine, and each executor of Spark, gives
the same answer.
"""

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LEAST, MOST, out_of_range

SECOND: Final = 1_000_000_000  # nanoseconds
DAY: Final = 86_400  # seconds
_EPOCH: Final = datetime(1970, 1, 1)
_KEPT: Final = 64  # zones that come with events


class Zone(NamedTuple):
    """`area` is None if the offset is fixed. The offset is in seconds."""

    name: str
    offset: int
    area: ZoneInfo | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return zone, (self.name,)  # a ZoneInfo that comes from a package is not pickled


UTC: Final = Zone("UTC", 0)


class Civil(NamedTuple):
    """Date and time of day in a zone. `offset`: seconds east of Greenwich."""

    ns: int
    day: date
    second_of_day: int
    offset: int
    abbreviation: str

    @property
    def hour(self) -> int:
        return self.second_of_day // 3600

    @property
    def minute(self) -> int:
        return self.second_of_day // 60 % 60

    @property
    def second(self) -> int:
        return self.second_of_day % 60

    @property
    def nanosecond(self) -> int:
        return self.ns % SECOND

    @property
    def day_of_year(self) -> int:
        return self.day.timetuple().tm_yday


def civil_time(ns: int, zone: Zone) -> Civil:
    if not LEAST <= ns <= MOST:
        raise out_of_range()
    seconds = ns // SECOND
    offset, abbreviation = zone.offset, zone.name if zone is UTC else offset_text(zone.offset, ":")
    if zone.area is not None:
        there = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=zone.area)
        local = zone.area.fromutc(there)
        shift = local.utcoffset() or timedelta()
        offset, abbreviation = int(shift.total_seconds()), local.tzname() or ""
    days, second_of_day = divmod(seconds + offset, DAY)
    return Civil(ns, (_EPOCH + timedelta(days=days)).date(), second_of_day, offset, abbreviation)


_fixed = re.compile(r"([+-])([0-9]{2}):?([0-9]{2})").fullmatch


@lru_cache(_KEPT)
def zone(name: str) -> Zone:
    """The zone of a name in the IANA database, or of an offset such as `+01:00`. Raises CannotApply."""
    if name in {"UTC", "Z"}:
        return UTC
    if fixed := _fixed(name):
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        if int(fixed[3]) < 60 and minutes < 24 * 60:
            return Zone(name, 60 * (minutes if fixed[1] == "+" else -minutes))
    if name in _zones():
        *folders, file = name.split("/")
        with resources.files(".".join(["tzdata.zoneinfo", *folders])).joinpath(file).open("rb") as found:
            return Zone(name, 0, ZoneInfo.from_file(found, key=name))
    shown = f"`{name}`" if len(name) <= 40 and name.isprintable() else "this"
    raise CannotApply(f"{shown} is no time zone: it is named as `Europe/Berlin`, or an offset as `+01:00`")


@lru_cache(1)
def _zones() -> frozenset[str]:
    try:
        return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())
    except ModuleNotFoundError:
        raise CannotApply("time zones need the package tzdata, which is not installed here") from None


def offset_text(seconds: int, colon: str) -> str:
    """`+01:00`"""
    hours, minutes = divmod(abs(seconds) // 60, 60)
    return f"{'-' if seconds < 0 else '+'}{hours:02}{colon}{minutes:02}"


class Day(NamedTuple):
    """`number`: days since 1970; `weekday`: 1 is Monday."""

    number: int
    weekday: int


def day_of_month(year: int, month: int, day: int) -> Day | None:
    """The day of the date. None: the day does not exist."""
    try:
        return _numbered(date(year, month, day))
    except ValueError:
        return None


def day_of_year(year: int, day_of_year: int) -> Day | None:
    try:
        day = date(year, 1, 1) + timedelta(days=day_of_year - 1)
    except (ValueError, OverflowError):
        return None
    return _numbered(day) if day.year == year else None


def day_of_week(year: int, week: int, weekday: int) -> Day | None:
    """Weeks are counted as in ISO 8601."""
    try:
        return _numbered(date.fromisocalendar(year, week, weekday))
    except ValueError:
        return None


def _numbered(day: date) -> Day:
    return Day((day - _EPOCH.date()).days, day.isoweekday())
