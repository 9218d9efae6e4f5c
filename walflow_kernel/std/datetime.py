"""std::datetime. A datetime is a number of nanoseconds since 1970, or such a number with a time zone in a record."""

from collections.abc import Callable, Mapping
from typing import Annotated

from walflow_kernel import calendar
from walflow_kernel.calendar import UTC, Civil, DateFormat, Zone, civil_time, date_format, read_format, written, zone
from walflow_kernel.calendar.formats import RFC_2822, RFC_3339
from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, Read, function
from walflow_kernel.values import is_whole, kind_of

Record = dict[str, object]
_Written = Annotated[DateFormat, Read(date_format)]
_Reading = Annotated[DateFormat, Read(read_format)]
_Zone = Annotated[Zone, Read(zone)]


def parse(text: str, format_: _Reading) -> int:
    return calendar.read(text, format_)


def formatted(datetime: int | Record, format_: _Written) -> str:
    return written(_at(datetime), format_)


def with_timezone(datetime: int | Record, timezone: _Zone) -> Record:
    """The same moment: a record keeps its `timestamp`."""
    nanos = datetime if is_whole(datetime) else datetime.get("timestamp") if isinstance(datetime, dict) else None
    if not is_whole(nanos):
        raise CannotApply(f"`datetime` has a whole number `timestamp`; here it is {kind_of(nanos)}")
    civil_time(nanos, UTC)  # is it in range
    return {"timestamp": nanos, "tz": timezone.name}


def rfc3339(datetime: int | Record) -> str:
    return written(_at(datetime), date_format(RFC_3339))


def rfc2822(datetime: int | Record) -> str:
    return written(_at(datetime), date_format(RFC_2822))


def _at(datetime: int | Record) -> Civil:
    if is_whole(datetime):
        return civil_time(datetime, UTC)
    assert isinstance(datetime, dict)
    nanos, name = datetime.get("timestamp"), datetime.get("tz")
    if not is_whole(nanos) or not isinstance(name, str):
        what = f"`timestamp` is {kind_of(nanos)} and `tz` {kind_of(name)}"
        raise CannotApply(f"`datetime` has a whole number `timestamp` and a string `tz`; here {what}")
    return civil_time(nanos, zone(name))


def _of(part: Callable[[Civil], int]) -> Callable[[int | Record], int]:
    def told(datetime: int | Record) -> int:
        return part(_at(datetime))

    return told


_PARTS: Mapping[str, Callable[[Civil], int]] = {
    "year": lambda at: at.day.year,
    "month": lambda at: at.day.month,
    "iso_week": lambda at: at.day.isocalendar().week,
    "day_of_month": lambda at: at.day.day,
    "day_of_year": lambda at: at.day_of_year,
    "hour": lambda at: at.hour,
    "minute": lambda at: at.minute,
    "second": lambda at: at.second,
    "subsecond_millis": lambda at: at.nanosecond // 1_000_000,
    "subsecond_micros": lambda at: at.nanosecond // 1_000,
    "subsecond_nanos": lambda at: at.nanosecond,
}

FUNCTIONS: Mapping[str, Function] = {
    "parse": function(parse),
    "format": function(formatted),
    "with_timezone": function(with_timezone),
    "rfc3339": function(rfc3339),
    "rfc2822": function(rfc2822),
    **{name: function(_of(part)) for name, part in _PARTS.items()},
}
