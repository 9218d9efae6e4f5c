"""`influx||`: a line in InfluxDB's line protocol: `weather,location=us temperature=82 1465839830100400200`."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict

import line_protocol_parser  # pyright: ignore[reportMissingTypeStubs]

from walflow_kernel.extractors.contract import NO_MATCH, Extract, of_string, takes_nothing

MEMBERS: Final = 4096  # tags and fields; the parser compares each with each: 100,000 of them take it 45 s


class _Parsed(TypedDict):
    measurement: str
    tags: Mapping[str, str]
    fields: Mapping[str, object]
    time: int | None


_parser: Any = line_protocol_parser  # it has no types
_parse: Callable[[str], _Parsed | None] = _parser.parse_line
_bad_line: type[Exception] = _parser.LineFormatError


def extractor(argument: str) -> Extract:
    takes_nothing(argument)
    return of_string(_line)


def _line(text: str) -> object:
    if text.count(",") > MEMBERS:
        return NO_MATCH
    try:
        parsed = _parse(text)
    except (_bad_line, UnicodeEncodeError):  # the latter: half of a surrogate pair
        return NO_MATCH
    if parsed is None:  # a comment
        return NO_MATCH
    found: dict[str, object] = {
        "measurement": parsed["measurement"],
        "tags": _in_order(parsed["tags"]),
        "fields": _in_order(parsed["fields"]),
    }
    if parsed["time"] is not None:
        found["timestamp"] = parsed["time"]
    return found


def _in_order(members: Mapping[str, object]) -> dict[str, object]:
    """The parser returns them in reverse order."""
    return dict(reversed(list(members.items())))
