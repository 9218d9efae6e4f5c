"""Lines for COPY of events, in PostgreSQL's text format: the server reads each value as the column's type does, so
every type is known.

Source: PostgreSQL 15, COPY, "Text Format"; "8.15.2. Array Value Input"."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, cast

from walflow import CannotDecode, CannotEncode, Frames
from walflow.codecs import JSON
from walflow.framing import LINES
from walflow.tables import NotARow

NULL: Final = "\\N"
SECOND: Final = 1_000_000_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
ESCAPED: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
ESCAPED_IN_LINES: Final = ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\r", b"\\r"))
ESCAPED_BYTES: Final = (*ESCAPED_IN_LINES, (b"\n", b"\\n"))
IN_AN_ARRAY: Final = str.maketrans({"\\": "\\\\", '"': '\\"'})


class TableColumn(NamedTuple):
    """Of the table in the database. `type`: as the server writes it; `base`: without its size, of a domain the type
    below. `category`: see `pg_type.typcategory`. `made`: its value is made by the server alone."""

    name: str
    type: str
    base: str
    category: str
    made: bool = False

    @property
    def is_json(self) -> bool:
        return self.base in ("json", "jsonb")


def line(cells: Sequence[str]) -> bytes:
    """Without its end. Raises NotARow."""
    try:
        return "\t".join(cells).encode()
    except UnicodeEncodeError:
        raise NotARow("a text is no Unicode") from None


def json_lines(frames: Frames) -> Sequence[bytes]:
    """Of JSON as it came: one cell each. Where each event is a line, all of them are escaped at once."""
    if frames.framing is LINES:
        return Frames(_escaped(frames.data, ESCAPED_IN_LINES), frames.count, LINES).payloads()
    return [_escaped(payload, ESCAPED_BYTES) for payload in frames.payloads()]


def _escaped(data: bytes, by: Sequence[tuple[bytes, bytes]]) -> bytes:
    for plain, escaped in by:
        if plain in data:
            data = data.replace(plain, escaped)
    return data


def cell(value: object, column: TableColumn) -> str:
    """Raises NotARow."""
    if value is None:
        return NULL
    if column.is_json:
        return _json(value, column).translate(ESCAPED)
    return _text(value, column).translate(ESCAPED)


def _text(value: object, column: TableColumn) -> str:
    match value:
        case str():
            if "\0" in value:
                raise NotARow(f"column {column.name}: PostgreSQL stores no text with the character NUL")
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return _time(*divmod(value, SECOND), column) if column.category == "D" else str(value)
        case float():
            if not math.isfinite(value):
                raise NotARow(f"column {column.name}: {value} is no number")
            if column.category == "D":
                whole = math.floor(value)
                return _time(whole, round((value - whole) * 1_000_000) * 1000, column)
            return repr(value)
        case bytes():
            if column.base != "bytea":
                raise NotARow(
                    f"column {column.name}: bytes need a column of the type bytea, and its type is {column.type}"
                )
            return f"\\x{value.hex()}"
        case list():
            elements = cast("list[object]", value)
            return _array(elements, column) if column.category == "A" else _json(elements, column)
        case Mapping():
            return _json(cast("object", value), column)
        case _:
            raise NotARow(f"column {column.name}: a value of another kind")


def _time(seconds: int, nanoseconds: int, column: TableColumn) -> str:
    try:
        at = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise NotARow(f"column {column.name}: the time is before the year 1 or after the year 9999") from None
    return f"{at.replace(tzinfo=None).isoformat()}.{nanoseconds:09}+00"


def _array(elements: Sequence[object], column: TableColumn) -> str:
    return f"{{{','.join(_element(one, column) for one in elements)}}}"


def _element(value: object, column: TableColumn) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return _array(cast("list[object]", value), column)
    return f'"{_text(value, column._replace(category="")).translate(IN_AN_ARRAY)}"'


def _json(value: object, column: TableColumn) -> str:
    try:
        return JSON.encode(value).decode()
    except (CannotEncode, CannotDecode) as error:
        raise NotARow(f"column {column.name}: {error}") from error
