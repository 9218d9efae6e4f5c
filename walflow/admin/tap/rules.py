"""Whether events may be shown, and which of their members are left out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, cast

REDACTED: Final = "redacted"
ANY: Final = "*"


class RedactedPath(NamedTuple):
    """`of`: event or `$`. `keys`: the members on the way; `*` is any member.
    An array counts as each of its elements."""

    of: str
    keys: tuple[str, ...]


def parse_path(text: str) -> RedactedPath:
    """`event`, `event.user.email`, `event.headers.*` or `$peer.host`. Raises ValueError."""
    of, *keys = text.split(".")
    if of.startswith("$"):
        of, keys = "$", ([of[1:]] if len(of) > 1 else []) + keys
    if of not in ("event", "$") or not all(keys):
        raise ValueError(f"{text!r} is no path of an event: write event.user.email, event.headers.* or $peer.host")
    return RedactedPath(of, tuple(keys))


@dataclass(frozen=True)
class TapRules:
    allowed: bool = False
    redacted: Sequence[RedactedPath] = field(default_factory=tuple[RedactedPath, ...])

    @property
    def of_events(self) -> bool:
        """Whether something of events themselves is left out."""
        return any(path.of == "event" for path in self.redacted)

    def redact(self, of: str, value: object) -> object:
        """Records are changed in place: the value must be a copy."""
        for path in self.redacted:
            if path.of == of:
                value = _without(value, path.keys)
        return value


def _without(value: object, keys: tuple[str, ...]) -> object:
    if not keys:
        return REDACTED
    if isinstance(value, list):
        return [_without(one, keys[1:] if keys[0] == ANY else keys) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        members = cast("dict[object, object]", value)
        for key in list(members) if keys[0] == ANY else [keys[0]] if keys[0] in members else []:
            members[key] = _without(members[key], keys[1:])
        return members
    return value
