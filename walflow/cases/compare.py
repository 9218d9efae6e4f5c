"""What differs between the events that came and those that are expected."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from walflow.cases.folder import Expected
from walflow.cases.host import Came
from walflow.cases.values import Json, canonical

LOOK: Final = 20  # events


class Difference(NamedTuple):
    """At event `number`, counted from 1, of what came to the port, or of what is expected if none came. `expected` or
    `came` is None where there is none."""

    port: str
    number: int
    expected: str | None
    came: str | None


def differences(port: str, expected: Sequence[Expected], came: Sequence[Came]) -> list[Difference]:
    """Some events too many, or too few, do not make those behind them differ."""
    found: list[Difference] = []
    at = to = 0
    while at < len(expected) or to < len(came):
        if at < len(expected) and to < len(came) and _matches(expected[at], came[to]):
            at, to = at + 1, to + 1
            continue
        fewer, more = _until_alike(expected[at : at + LOOK], came[to : to + LOOK])
        for ahead in range(max(fewer, more)):
            one = expected[at + ahead] if ahead < fewer else None
            other = came[to + ahead] if ahead < more else None
            shown = other and (_shown(_compared(other, one)) if one else canonical(other.members["value"]))
            number = (to if other else at) + ahead + 1
            found.append(Difference(port, number, one and _shown(one.members), shown))
        at, to = at + fewer, to + more
    return found


def _until_alike(expected: Sequence[Expected], came: Sequence[Came]) -> tuple[int, int]:
    """How many of each to pass over until both go on alike, as few as possible.
    One of each if that is not in sight."""
    if not expected or not came:
        return len(expected), len(came)
    for total in range(1, len(expected) + len(came)):
        for fewer in range(max(0, total - len(came) + 1), min(total, len(expected) - 1) + 1):
            if _matches(expected[fewer], came[total - fewer]):
                return fewer, total - fewer
    return 1, 1


def _matches(expected: Expected, came: Came) -> bool:
    return canonical(dict(expected.members)) == canonical(_compared(came, expected))


def _compared(came: Came, expected: Expected) -> dict[str, Json]:
    """What the expected line says something about: of an error that walflow made, those members alone that it has."""
    members = {name: came.members[name] for name in expected.members}
    value, wanted = members.get("value"), expected.members.get("value")
    if came.rejected and isinstance(value, dict) and isinstance(wanted, dict):
        members["value"] = {key: one for key, one in value.items() if key in wanted}
    return members


def _shown(members: Mapping[str, Json]) -> str:
    return canonical(members["value"] if list(members) == ["value"] else dict(members))
