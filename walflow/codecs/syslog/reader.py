"""From text to the members of an event."""

import re
from datetime import date, datetime, tzinfo
from functools import lru_cache
from typing import Final

from walflow.codecs.syslog.names import DAY, EPOCH, FACILITIES, MONTHS, SEVERITIES

AHEAD: Final = 7  # days that a sender's clock may be ahead
LEAP: Final = 9  # years to look back for one with a 29th of February: 1900 was none
EARLIEST, LATEST = -(1 << 63), (1 << 63) - 1  # nanoseconds

# What is repeated is never given back (`++`), so each pattern looks at a text once, and no text is slow.
_ISO: Final = r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*+)?(?:[Zz]|([+-])(\d\d):(\d\d))"
_header = re.compile(
    rf"<(\d{{1,3}})>([1-9]\d{{0,2}}) ++(?:-|{_ISO}) ++([^ ]++) ++([^ ]++) ++([^ ]++) ++([^ ]++)"
    r" ++(?:(-)(?: |\Z)|(?=\[))",
    re.ASCII,
).match
_pri = re.compile(r"<(\d{1,3})> *+", re.ASCII).match
_bsd_time = re.compile(
    r"([A-Za-z]{3}) ++(\d{1,2}) ++(?:(\d{4}) ++)?(\d{1,2}):(\d\d):(\d\d)(?:\.(\d{1,9})\d*+)?:?(?= |\Z)", re.ASCII
).match
_iso_time = re.compile(rf"{_ISO}:?(?= |\Z)", re.ASCII).match
_NAME: Final = r'[^\s=\]"\[]++'
_PARAMETER: Final = rf' ++({_NAME})= *+"((?:[^"\\]++|\\.)*+)"'
_ELEMENT: Final = rf"\[({_NAME})((?:{_PARAMETER})*+) *+\]"
_structured = re.compile(rf"(?:{_ELEMENT})++(?: |\Z)", re.DOTALL).match
_elements = re.compile(_ELEMENT, re.DOTALL).finditer
_parameters = re.compile(_PARAMETER, re.DOTALL).findall
_escaped = re.compile(r'\\(["\\\]])')
_tag = re.compile(r"([^\s:\[]++)(?:\[([^\]\s]*+)\])?:?").fullmatch
_tag_with_end = re.compile(r"([^\s:\[]++)(?:\[([^\]\s]*+)\])?:").match


class SyslogReader:
    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._without_year = lru_cache(maxsize=4096)(self._find_year)  # senders repeat a second many times

    def read(self, text: str, received: int) -> dict[str, object]:
        """`received`: when, in seconds since 1970."""
        found = _header(text)
        return (found and _ietf(found, text)) or self._bsd(text, received)

    def _bsd(self, text: str, received: int) -> dict[str, object]:
        found = _pri(text)
        event = None if found is None else _priority_of(found[1])
        at = found.end() if found is not None and event is not None else 0
        event = event or {}
        event["protocol"] = "RFC3164"
        stamp = self._bsd_stamp(text, at, received)
        if stamp is None:
            return _with_rest(event, text, at, structured=False)
        event["timestamp"], at = stamp
        return _after_stamp(event, text, at)

    def _bsd_stamp(self, text: str, at: int, received: int) -> tuple[int, int] | None:
        """Nanoseconds, and where the timestamp ends."""
        iso = _iso_time(text, at)
        if iso is not None:
            nanoseconds = _nanoseconds(*iso.groups())
            return None if nanoseconds is None else (nanoseconds, iso.end())
        found = _bsd_time(text, at)
        if found is None:
            return None
        month, day, year, hour, minute, second, fraction = found.groups()
        today = EPOCH + received // DAY
        seconds = self._without_year(
            month.title(), int(day), int(year or 0), int(hour), int(minute), int(second), today
        )
        return None if seconds is None else (seconds * 10**9 + _fraction(fraction), found.end())

    def _find_year(
        self, month: str, day: int, year: int, hour: int, minute: int, second: int, today: int
    ) -> int | None:
        """Seconds since 1970. `year`: 0 if it is not known."""
        if month not in MONTHS:
            return None
        number = MONTHS.index(month) + 1
        this = date.fromordinal(today + AHEAD).year
        for candidate in (year,) if year else range(this, this - LEAP, -1):
            try:
                when = datetime(candidate, number, day, hour, minute, min(second, 59), tzinfo=self._zone)
            except ValueError:
                continue
            if year or when.toordinal() <= today + AHEAD:
                seconds = int(when.timestamp()) + second - min(second, 59)
                return seconds if EARLIEST <= seconds * 10**9 <= LATEST - 10**9 and second <= 60 else None
        return None


reader = lru_cache(maxsize=64)(SyslogReader)


def _ietf(found: re.Match[str], text: str) -> dict[str, object] | None:
    """None: its parts are in their places, but some part cannot be meant so."""
    pri, version, *stamp, host, app, process, message, no_data = found.groups()
    event = _priority_of(pri)
    nanoseconds = _nanoseconds(*stamp) if stamp[0] is not None else 0
    if event is None or nanoseconds is None:
        return None
    if stamp[0] is not None:
        event["timestamp"] = nanoseconds
    for name, word in (("hostname", host), ("appname", app), ("procid", process), ("msgid", message)):
        if word != "-":
            event[name] = word
    event["protocol"] = "RFC5424"
    event["protocol_version"] = int(version)
    return _with_rest(event, text, found.end(), structured=no_data is None)


def _after_stamp(event: dict[str, object], text: str, at: int) -> dict[str, object]:
    """`host tag[pid]: msg`, without the host on a machine's own socket.
    The first word is a tag if it ends in a colon."""
    first, after_first = _next_word(text, at)
    tag = _tag(first) if first[-1:] == ":" else None
    if tag is not None:
        _add_tag(event, tag)
        return _with_rest(event, text, after_first)
    second, after_second = _next_word(text, after_first)
    if first == ":":
        return _with_rest(event, text, after_first)
    if first not in ("", "-"):
        event["hostname"] = first
    if second == ":":
        return _with_rest(event, text, after_second)
    tag = _tag_with_end(text, after_first)
    if tag is not None:
        _add_tag(event, tag)
        return _with_rest(event, text, tag.end() + text.startswith(" ", tag.end()))
    if (tag := _tag(second)) is not None:
        _add_tag(event, tag)
        return _with_rest(event, text, after_second)
    return _with_rest(event, text, after_first)


def _next_word(text: str, at: int) -> tuple[str, int]:
    """The word behind a space, and where what is behind the space after it begins."""
    at += text.startswith(" ", at)
    end = text.find(" ", at)
    return (text[at:], len(text)) if end < 0 else (text[at:end], end + 1)


def _add_tag(event: dict[str, object], tag: re.Match[str]) -> None:
    if tag[1] != "-":
        event["appname"] = tag[1]
    if tag[2]:
        event["procid"] = tag[2]


def _with_rest(event: dict[str, object], text: str, at: int, *, structured: bool = True) -> dict[str, object]:
    """What cannot be read as structured data stays in `msg`."""
    if structured and text.startswith("[", at):
        found = _structured(text, at)
        data = {} if found is None else _read_structured(found[0])
        if found is not None and (event["protocol"] == "RFC5424" or all(data.values())):
            event["structured_data"] = data
            at = found.end()
    if at < len(text):
        event["msg"] = text[at:]
    return event


def _read_structured(text: str) -> dict[str, list[object]]:
    elements: dict[str, list[object]] = {}
    for element in _elements(text):
        parameters = elements.setdefault(element[1], [])
        for name, value in _parameters(element[2]):
            parameters.append({name: _escaped.sub(r"\1", value) if "\\" in value else value})
    return elements


def _priority_of(pri: str) -> dict[str, object] | None:
    number = int(pri)
    if number >= len(FACILITIES) * 8:
        return None
    return {"severity": SEVERITIES[number & 7], "facility": FACILITIES[number >> 3]}


def _nanoseconds(
    day: str, hour: str, minute: str, second: str, fraction: str | None, sign: str | None, *offset: str | None
) -> int | None:
    """None: there is no such time, or it does not fit 64 bits."""
    seconds = _seconds(day, hour, minute, second)
    if seconds is None:
        return None
    if sign is not None:
        hours, minutes = (int(part or 0) for part in offset)
        ahead = hours * 3600 + minutes * 60
        if hours > 23 or minutes > 59:
            return None
        seconds += -ahead if sign == "+" else ahead
    nanoseconds = seconds * 10**9 + _fraction(fraction)
    return nanoseconds if EARLIEST <= nanoseconds <= LATEST else None


@lru_cache(maxsize=4096)
def _seconds(day: str, hour: str, minute: str, second: str) -> int | None:
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours > 23 or minutes > 59 or seconds > 60:  # 60 in a leap second
        return None
    try:
        days = date.fromisoformat(day).toordinal() - EPOCH
    except ValueError:
        return None
    return days * DAY + hours * 3600 + minutes * 60 + seconds


def _fraction(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0
