"""What differs between the events that came and those that are expected."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walflow.cases.folder import Expected
from walflow.cases.host import Came
from walflow.cases.values import Json, canonical


class Difference(NamedTuple):
    """At event `number`, counted from 1, of the port. `expected` or `came` is None where there is none."""

    port: str
    number: int
    expected: str | None
    came: str | None


def differences(port: str, expected: Sequence[Expected], came: Sequence[Came]) -> list[Difference]:
    """One event too many, or too few, does not make those behind it differ."""
    front = _alike(expected, came)
    back = _alike(expected[front:][::-1], came[front:][::-1])
    wanted, found = expected[front : len(expected) - back], came[front : len(came) - back]
    several: list[Difference] = []
    for at in range(max(len(wanted), len(found))):
        one = wanted[at] if at < len(wanted) else None
        other = found[at] if at < len(found) else None
        if one is None or other is None or not _matches(one, other):
            shown = other and (_shown(_compared(other, one)) if one else canonical(other.members["value"]))
            several.append(Difference(port, front + at + 1, one and _shown(one.members), shown))
    return several


def _alike(expected: Sequence[Expected], came: Sequence[Came]) -> int:
    """How many from the front on."""
    pairs = zip(expected, came, strict=False)
    return next((at for at, pair in enumerate(pairs) if not _matches(*pair)), min(len(expected), len(came)))


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
