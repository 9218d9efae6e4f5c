"""Rows of events."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, cast

from walflow import CannotDecode, CannotEncode
from walflow.codecs import JSON
from walflow.tables import Column, NotARow, member_of

LARGEST: Final = 2**63 - 1
Cell = str | int | float | bytes | None


def row_of(value: object, columns: Sequence[Column]) -> tuple[Cell, ...]:
    """Raises NotARow."""
    return tuple(_cell(member_of(value, column), column) for column in columns)


def _cell(value: object, column: Column) -> Cell:
    if not column.member:
        return _json(value, column)
    if isinstance(value, (Mapping, list)):
        return _json(cast("object", value), column)
    match value:
        case None | bytes():
            return value
        case bool():
            return int(value)
        case int():
            if not -LARGEST - 1 <= value <= LARGEST:
                raise NotARow(f"column {column.name}: {value} has more than 64 bits")
            return int(value)
        case float():
            if not math.isfinite(value):
                raise NotARow(f"column {column.name}: {value} is no number that SQLite stores")
            return float(value)
        case str():
            return _text(value, column)
        case _:
            raise NotARow(f"column {column.name}: a value of another kind")


def _text(value: str, column: Column) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotARow(f"column {column.name}: the text is no Unicode") from None
    return value


def _json(value: object, column: Column) -> str:
    try:
        return JSON.encode(value).decode()
    except (CannotEncode, CannotDecode) as error:
        raise NotARow(f"column {column.name}: {error}") from error
