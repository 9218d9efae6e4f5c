"""A text and its format -> the time."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from walflow_kernel.calendar.civil import DAY, SECOND, Day, day_of_month, day_of_week, day_of_year
from walflow_kernel.calendar.formats import DateField, DateFormat, DateLiteral, date_format
from walflow_kernel.calendar.names import DAYS, MONTHS
from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LEAST, MOST

_Read = Callable[[re.Match[str]], int]


@dataclass(frozen=True, slots=True)
class _Reader:
    """The pattern of a field, and the part of a time that it sets."""

    match: Callable[[str, int], re.Match[str] | None]
    tells: str
    read: _Read


def _digits(width: int, tells: str) -> _Reader:
    return _Reader(re.compile(rf"\s*([0-9]{{1,{width}}})", re.ASCII).match, tells, lambda match: int(match[1]))


def _name(names: Sequence[str], tells: str) -> _Reader:
    known = {name[:3].lower(): number for number, name in enumerate(names, start=1)}
    regex = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in names)
    return _Reader(re.compile(regex, re.IGNORECASE).match, tells, lambda match: known[match[0][:3].lower()])


def _nanoseconds(match: re.Match[str]) -> int:
    return int(f"{match[1] or '':0<9}"[:9])


def _seconds_east(match: re.Match[str]) -> int:
    if match[0] in {"Z", "z"}:
        return 0
    seconds = int(match[2]) * 3600 + int(match[3] or 0) * 60
    return seconds if match[1] == "+" else -seconds


_ZONE: Final = _Reader(re.compile(r"[Zz]|([+-])([0-9]{2}):?([0-5][0-9])").match, "offset", _seconds_east)
_MONTH: Final = _name(MONTHS, "month")
_WEEKDAY: Final = _name(DAYS, "weekday")
_HALF: Final = _Reader(re.compile(r"[AP]M", re.IGNORECASE).match, "half", lambda match: int(match[0][0] in "Pp"))
_READERS: Final[Mapping[str, _Reader]] = {
    "Y": _digits(4, "year"),
    "C": _digits(2, "century"),
    "y": _digits(2, "year of century"),
    "q": _digits(1, "quarter"),
    "m": _digits(2, "month"),
    "d": _digits(2, "day"),
    "e": _digits(2, "day"),
    "j": _digits(3, "day of year"),
    "w": _Reader(re.compile(r"\s*([0-6])").match, "weekday", lambda match: int(match[1]) or 7),
    "u": _Reader(re.compile(r"\s*([1-7])").match, "weekday", lambda match: int(match[1])),
    "U": _digits(2, "week from Sunday"),
    "W": _digits(2, "week from Monday"),
    "G": _digits(4, "ISO year"),
    "g": _digits(2, "ISO year of century"),
    "V": _digits(2, "ISO week"),
    "H": _digits(2, "hour"),
    "k": _digits(2, "hour"),
    "I": _digits(2, "hour of half"),
    "l": _digits(2, "hour of half"),
    "M": _digits(2, "minute"),
    "S": _digits(2, "second"),
    "f": _Reader(re.compile(r"([0-9]{1,9})", re.ASCII).match, "nanosecond", lambda match: int(match[1])),
    "s": _Reader(re.compile(r"\s*([+-]?[0-9]{1,20})", re.ASCII).match, "timestamp", lambda match: int(match[1])),
    "b": _MONTH,
    "B": _MONTH,
    "a": _WEEKDAY,
    "A": _WEEKDAY,
    "p": _HALF,
    "P": _HALF,
    **dict.fromkeys(("z", ":z", "::z", ":::z"), _ZONE),
    "#z": _Reader(re.compile(r"[Zz]|([+-])([0-9]{2}):?([0-5][0-9])?").match, "offset", _seconds_east),
    ".f": _Reader(re.compile(r"(?:\.([0-9]+))?", re.ASCII).match, "nanosecond", _nanoseconds),
    **{
        f".{digits}f": _Reader(re.compile(rf"\.([0-9]{{{digits}}})").match, "nanosecond", _nanoseconds)
        for digits in (3, 6, 9)
    },
    **{
        f"{digits}f": _Reader(re.compile(rf"([0-9]{{{digits}}})").match, "nanosecond", _nanoseconds)
        for digits in (3, 6, 9)
    },
}
_space = re.compile(r"\s+|\S+").findall
_spaces = re.compile(r"\s*").match


class NotADate(CannotApply):
    """A text that does not match its format, or a time that does not exist."""


def read_format(text: str) -> DateFormat:
    """A format that `read` accepts. Raises CannotApply."""
    found = date_format(text)
    if any(isinstance(part, DateField) and part.letter == "Z" for part in found.parts):
        raise CannotApply("the name of a time zone cannot be read: `%Z` is for writing, `%z` reads an offset")
    return found


def read(text: str, format_: DateFormat) -> int:
    """Nanoseconds since 1970. Without an offset in the text, the time is in UTC. Raises NotADate."""
    told: dict[str, int] = {}
    at = 0
    for part in format_.parts:
        if isinstance(part, DateLiteral):
            at = _behind(text, at, part.text)
            continue
        reader = _READERS[part.letter]
        found = reader.match(text, at)
        if found is None:
            raise NotADate(f"there is no `%{part.letter}` where it should be")
        value = reader.read(found)
        if told.setdefault(reader.tells, value) != value:
            raise NotADate(f"it tells two {reader.tells}s")
        at = found.end()
    if at != len(text):
        raise NotADate("it goes on behind what the format says")
    return _nanos(told)


def _behind(text: str, at: int, literal: str) -> int:
    """White space in the format matches any white space, also none."""
    for piece in _space(literal):
        if piece.isspace():
            found = _spaces(text, at)
            assert found is not None
            at = found.end()
        elif text.startswith(piece, at):
            at += len(piece)
        else:
            raise NotADate("it has not the form that the format says")
    return at


def _nanos(told: Mapping[str, int]) -> int:
    seconds = told["timestamp"] if "timestamp" in told else _seconds(told)
    found = seconds * SECOND + told.get("nanosecond", 0)
    if not LEAST <= found <= MOST:
        raise NotADate("a time out of range: nanoseconds since 1970 reach from -2^63 to 2^64-1")
    return found


def _seconds(told: Mapping[str, int]) -> int:
    hour, minute, second = _hour(told), told.get("minute"), told.get("second", 0)
    if hour is None or minute is None:
        raise NotADate("it tells no hour and minute")
    if hour > 23 or minute > 59 or second > 60:
        raise NotADate("there is no such time of day")
    day = _day(told)
    if day is None:
        raise NotADate("there is no such day")
    if told.get("weekday", day.weekday) != day.weekday:
        raise NotADate("this day has another weekday")
    return day.number * DAY + hour * 3600 + minute * 60 + second - told.get("offset", 0)


def _hour(told: Mapping[str, int]) -> int | None:
    if "hour" in told:
        return told["hour"]
    hour, half = told.get("hour of half"), told.get("half")
    if hour is None or half is None:
        return None
    if not 1 <= hour <= 12:
        raise NotADate("there is no such time of day")
    return hour % 12 + 12 * half


def _day(told: Mapping[str, int]) -> Day | None:
    year = _year(told, "year", "year of century")
    if year is not None and "month" in told and "day" in told:
        return day_of_month(year, told["month"], told["day"])
    if year is not None and "day of year" in told:
        return day_of_year(year, told["day of year"])
    year = _year(told, "ISO year", "ISO year of century")
    if year is not None and "ISO week" in told and "weekday" in told:
        return day_of_week(year, told["ISO week"], told["weekday"])
    raise NotADate("it tells no year, month and day")


def _year(told: Mapping[str, int], whole: str, part: str) -> int | None:
    """Without a century, two digits mean 1970 to 2069."""
    if whole in told or part not in told:
        return told.get(whole)
    if "century" in told:
        return told["century"] * 100 + told[part]
    return told[part] + (1900 if told[part] >= 70 else 2000)
