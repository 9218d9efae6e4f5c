"""Paths: `event.a["b"][0][1:3]`, one step after the other into a value.

Generated code first binds each path that its body reads. At that time it is not known whether the path is evaluated.
A missing value is an error only if the path is evaluated. So binding returns ABSENT or a LostWay, and `taken` raises.
"""

from typing import Any, Final, NamedTuple, TypeGuard

from walflow_kernel.errors import CannotApply, Missing
from walflow_kernel.values import exact, is_array, is_out_of_range, is_record, is_whole, kind_of, out_of_range

NO_KEY: Final = "a key is a string, an index a whole number from 0 on"
NO_BOUND: Final = "where a slice begins and ends is a whole number from 0 on"


class Absent:
    """A member that is missing. There is one object, ABSENT."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"  # there is one on an executor, too


ABSENT: Final = Absent()


class PathStep(NamedTuple):
    """One step of a path, with the text of the path: for messages."""

    shown: str
    path: str

    def missing(self, value: object) -> Missing:
        return Missing(f"`{self.path}`: {kind_of(value)} without `{self.shown}`")


Steps = tuple[PathStep, ...]


class LostWay:
    """The result of binding a path that leads to no value, if not only its last key is missing: how far the path led,
    and to what value."""

    __slots__ = ("at", "kind")

    def __init__(self, at: int, kind: str) -> None:
        self.at = at
        self.kind = kind


def reach(value: object, keys: tuple[str, ...], at: int = 0) -> Any:
    """Follows the keys from `at` on. Returns the value, a LostWay, or ABSENT if only the last key is missing."""
    if value is ABSENT:
        return LostWay(at - 1, "a record")
    last = len(keys) - 1
    for number in range(at, last + 1):
        if not is_record(value):
            return LostWay(number, kind_of(value))
        if keys[number] not in value:
            return ABSENT if number == last else LostWay(number, "a record")
        value = value[keys[number]]
    return value


def taken(value: Any, steps: Steps) -> Any:
    """The value of a bound path. Raises Missing, and CannotApply for a number out of range."""
    if value is ABSENT or type(value) is LostWay:
        raise _lost(value, steps)
    if is_out_of_range(value):
        raise out_of_range()
    return value


def found(value: Any, steps: Steps) -> Any:
    """Like `taken`, but a number out of range is allowed: the path only leads on, or is only tested for presence."""
    if value is ABSENT or type(value) is LostWay:
        raise _lost(value, steps)
    return value


def _lost(way: Any, steps: Steps) -> Missing:
    step = steps[-1 if way is ABSENT else way.at]
    kind = "a record" if way is ABSENT else way.kind
    return Missing(f"`{step.path}`: {kind} without `{step.shown}`")


def unset(name: str) -> Missing:
    """The error for a local that no `let` has set on the way here."""
    return Missing(f"`{name}` has no value yet")


def member(value: Any, key: str | int, step: PathStep) -> Any:
    """A key that is known at load."""
    if exact(value) is not (dict if isinstance(key, str) else list):
        raise step.missing(value)
    try:
        return value[key]
    except (KeyError, IndexError):
        raise step.missing(value) from None


def member_by(value: object, key: object, step: PathStep) -> Any:
    """A key that depends on the event."""
    if isinstance(key, str) or is_index(key):
        return member(value, key, step)
    raise CannotApply(f"`{step.path}`: `{step.shown}` is {kind_of(key)}, neither a key nor an index")


def part(value: object, begin: object, end: object, step: PathStep) -> list[object]:
    """The slice of an array."""
    if not (is_index(begin) and is_index(end)):
        raise CannotApply(f"`{step.path}`: {NO_BOUND}")
    piece = cut(value, begin, end)
    if piece is None:
        raise step.missing(value)
    return piece


def cut(value: object, begin: Any, end: Any) -> list[object] | None:
    """None: the value is no array, or is too short for `begin` to `end`."""
    if not is_array(value) or not begin <= end <= len(value):
        return None
    return value[begin:end]


def is_key(value: object) -> bool:
    return isinstance(value, str) or is_index(value)


def is_index(value: object) -> TypeGuard[int]:
    return is_whole(value) and value >= 0
