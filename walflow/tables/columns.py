"""Which member of an event becomes which column."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from walflow.errors import WalflowError


class NotARow(WalflowError):
    """The event has no form that the table can store. It says which column, and why."""


class Column(NamedTuple):
    """`member`: the names that lead to its value, from the event on. Empty: the event as JSON. `type`: the column's
    in the table, if it is made; "": the connector's own choice."""

    name: str
    member: tuple[str, ...]
    type: str = ""


WHOLE: Final[Sequence[Column]] = (Column("event", ()),)


def columns_of(mapping: Mapping[str, str]) -> Sequence[Column]:
    """Of `{"ms": "request.duration"}`, or with the type of the column `{"ms": "request.duration::bigint"}`."""
    return [_column(name, *member.partition("::")) for name, member in mapping.items()]


def _column(name: str, member: str, _: str, type_: str) -> Column:
    return Column(name, tuple(member.split(".")), type_)


def member_of(value: object, column: Column) -> object:
    """One that is not there is None."""
    for name in column.member:
        if not isinstance(value, Mapping):
            return None
        value = cast("Mapping[str, object]", value).get(name)
    return value
