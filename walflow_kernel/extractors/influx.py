"""`influx||`: a line of InfluxDB's line protocol: `weather,location=us temperature=82 1465839830100400200`."""

import math
import re
from collections.abc import Mapping
from typing import Final

from walflow_kernel.extractors.contract import NO_MATCH, Extract, of_string, takes_nothing
from walflow_kernel.values import LEAST, MOST

_MOST_DIGITS: Final = 20
# Nothing that has matched is tried again (`++`): each takes time in proportion to the line, whatever stands in it
_NAME: Final = r"(?:[^\\, \n]|\\[^\n])++"
_KEY: Final = r"(?:[^\\,= \n]|\\[^\n])++"
_STRING: Final = r'"(?:[^\\"]|\\.)*+"'
_head = re.compile(rf"({_NAME})((?:,{_KEY}={_KEY})*+) ++", re.DOTALL).match
_tag = re.compile(rf",({_KEY})=({_KEY})").finditer
_field = re.compile(rf"({_KEY})=({_STRING}|[^,\" \n\\]+)", re.DOTALL).match
_end = re.compile(r"(?: +(-?[0-9]+))? *\n?").fullmatch
_integer = re.compile(r"(-?[0-9]+)i").fullmatch
_unsigned = re.compile(r"([0-9]+)u").fullmatch
_float = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?").fullmatch
_escape_of_name = re.compile(r"\\([, ])").sub
_escape_of_key = re.compile(r"\\([,= ])").sub
_escape_of_string = re.compile(r'\\(["\\])', re.DOTALL).sub
_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("f", "F", "false", "False", "FALSE"), False),
}


def extractor(argument: str) -> Extract:
    takes_nothing(argument)
    return of_string(_line)


def _line(text: str) -> object:
    head = None if text.startswith("#") else _head(text)
    if head is None:
        return NO_MATCH
    fields, at = _fields(text, head.end())
    end = _end(text, at)
    if not fields or end is None:
        return NO_MATCH
    found: dict[str, object] = {
        "measurement": _escape_of_name(r"\1", head[1]),
        "tags": {_key(tag[1]): _key(tag[2]) for tag in _tag(head[2])},
        "fields": fields,
    }
    if end[1] is not None:
        timestamp = _whole(end[1])
        if timestamp is None:
            return NO_MATCH
        found["timestamp"] = timestamp
    return found


def _fields(text: str, at: int) -> tuple[dict[str, object], int]:
    """What was read, and where it ends; nothing where one field cannot be read."""
    fields: dict[str, object] = {}
    while True:
        field = _field(text, at)
        value = None if field is None else _value(field[2])
        if field is None or value is None:
            return {}, at
        fields[_key(field[1])] = value
        at = field.end()
        if not text.startswith(",", at):
            return fields, at
        at += 1


def _value(text: str) -> bool | int | float | str | None:
    if text[0] == '"':
        return _escape_of_string(r"\1", text[1:-1])
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if match := _integer(text) or _unsigned(text):
        return _whole(match[1])
    if len(text) > 1000 or not _float(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _whole(digits: str) -> int | None:
    number = int(digits) if len(digits) <= _MOST_DIGITS else None
    return number if number is not None and LEAST <= number <= MOST else None


def _key(text: str) -> str:
    return _escape_of_key(r"\1", text)
