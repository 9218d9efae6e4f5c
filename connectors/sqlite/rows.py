"""Rows of events."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from walflow import CannotDecode, CannotEncode, WalflowError
from walflow.codecs import JSON

LARGEST: Final = 2**63 - 1
Cell = str | int | float | bytes | None


class NotARow(WalflowError):
    """The event has no form that the table can store. It says which column, and why."""


class Column(NamedTuple):
    """`member`: the names that lead to its value, from the event on. Empty: the event as JSON."""

    name: str
    member: tuple[str, ...]


def columns_of(mapping: Mapping[str, str]) -> Sequence[Column]:
    return [Column(name, tuple(member.split("."))) for name, member in mapping.items()]


WHOLE: Final[Sequence[Column]] = (Column("event", ()),)


def row_of(value: object, columns: Sequence[Column]) -> tuple[Cell, ...]:
    """Raises NotARow."""
    return tuple(_cell(_member(value, column.member), column) for column in columns)


def _member(value: object, names: Sequence[str]) -> object:
    """A member that is not there is NULL."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(name)
    return value


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
