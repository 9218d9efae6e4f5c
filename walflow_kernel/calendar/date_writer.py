"""A time -> its text in a format."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from walflow_kernel.calendar.civil import SECOND, Civil, offset_text
from walflow_kernel.calendar.formats import DateField, DateFormat, DateLiteral
from walflow_kernel.calendar.names import DAYS, MONTHS


@dataclass(frozen=True, slots=True)
class _Number:
    """A field that is a number: its width and its padding."""

    of: Callable[[Civil], int]
    width: int = 2
    fill: str = "0"


_NUMBERS: Final[Mapping[str, _Number]] = {
    "Y": _Number(lambda at: at.day.year, 4),
    "C": _Number(lambda at: at.day.year // 100),
    "y": _Number(lambda at: at.day.year % 100),
    "q": _Number(lambda at: (at.day.month + 2) // 3, 1),
    "m": _Number(lambda at: at.day.month),
    "d": _Number(lambda at: at.day.day),
    "e": _Number(lambda at: at.day.day, 2, " "),
    "j": _Number(lambda at: at.day_of_year, 3),
    "w": _Number(lambda at: at.day.isoweekday() % 7, 1),
    "u": _Number(lambda at: at.day.isoweekday(), 1),
    "U": _Number(lambda at: (at.day_of_year + 6 - at.day.isoweekday() % 7) // 7),
    "W": _Number(lambda at: (at.day_of_year + 6 - at.day.weekday()) // 7),
    "G": _Number(lambda at: at.day.isocalendar().year, 4),
    "g": _Number(lambda at: at.day.isocalendar().year % 100),
    "V": _Number(lambda at: at.day.isocalendar().week),
    "H": _Number(lambda at: at.hour),
    "k": _Number(lambda at: at.hour, 2, " "),
    "I": _Number(lambda at: (at.hour + 11) % 12 + 1),
    "l": _Number(lambda at: (at.hour + 11) % 12 + 1, 2, " "),
    "M": _Number(lambda at: at.minute),
    "S": _Number(lambda at: at.second),
    "f": _Number(lambda at: at.nanosecond, 9),
    "s": _Number(lambda at: at.ns // SECOND, 1),
}
_TEXTS: Final[Mapping[str, Callable[[Civil], str]]] = {
    "b": lambda at: MONTHS[at.day.month - 1][:3],
    "B": lambda at: MONTHS[at.day.month - 1],
    "a": lambda at: DAYS[at.day.weekday()][:3],
    "A": lambda at: DAYS[at.day.weekday()],
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "P": lambda at: "am" if at.hour < 12 else "pm",
    "Z": lambda at: at.abbreviation,
    "z": lambda at: offset_text(at.offset, ""),
    ":z": lambda at: offset_text(at.offset, ":"),
    "::z": lambda at: f"{offset_text(at.offset, ':')}:{abs(at.offset) % 60:02}",
    ":::z": lambda at: offset_text(at.offset, ":")[:3],
    "#z": lambda at: offset_text(at.offset, ""),
    ".f": lambda at: _fraction(at.nanosecond),
    ".3f": lambda at: f".{at.nanosecond:09}"[:4],
    ".6f": lambda at: f".{at.nanosecond:09}"[:7],
    ".9f": lambda at: f".{at.nanosecond:09}",
    "3f": lambda at: f"{at.nanosecond:09}"[:3],
    "6f": lambda at: f"{at.nanosecond:09}"[:6],
    "9f": lambda at: f"{at.nanosecond:09}",
}
_FILLS: Final = {"-": "", "_": " ", "0": "0"}


def written(at: Civil, format_: DateFormat) -> str:
    return "".join([part.text if isinstance(part, DateLiteral) else _field(part, at) for part in format_.parts])


def _field(field: DateField, at: Civil) -> str:
    if field.letter not in _NUMBERS:
        return _TEXTS[field.letter](at)
    number = _NUMBERS[field.letter]
    fill = number.fill if field.fill is None else _FILLS[field.fill]
    found, width = number.of(at), number.width
    if fill == "0":
        return f"{found:0{width}}"
    return str(found).rjust(width) if fill else str(found)


def _fraction(nanosecond: int) -> str:
    if not nanosecond:
        return ""
    digits = 3 if nanosecond % 1_000_000 == 0 else 6 if nanosecond % 1_000 == 0 else 9
    return f".{nanosecond:09}"[: digits + 1]
