"""Which events belong to one group: those whose values of `group by` have the same JSON text, with the keys of
records in order. So 1 and 1.0 are two groups, and so are 1 and true.
"""

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

from walflow_kernel import json
from walflow_kernel.errors import CannotApply, NotJson
from walflow_kernel.state import ENTRY_BYTES, HEAD_BYTES, SMALL_BYTES, Cell, weight
from walflow_kernel.values import is_array, kind_of
from walflow_kernel.windows.frame import GROUP, SLOTS, Frame

DEFAULT_MAX_GROUPS: Final = 1 << 20
DEFAULT_MAX_BYTES: Final = 256 << 20  # of all windows of a select
GROUP_BYTES: Final = ENTRY_BYTES  # beside its array and its frames: 100,000 groups were measured


def text_of(values: Sequence[object]) -> str:
    """Raises CannotApply."""
    try:
        return json.sorted_text(list(values)).decode()
    except NotJson as reason:
        raise CannotApply(f"`group by`: {reason}") from None


def with_text(values: Sequence[object]) -> list[object]:
    """The group's array, as the language sees it: its text comes last."""
    return [*values, text_of(values)]


class Known:
    """Frames by the values of their groups, where all are strings: to find one costs no text then. It is no state,
    and is made anew where the groups are not those that it knows."""

    __slots__ = ("frames", "groups")

    def __init__(self) -> None:
        self.frames: dict[object, Frame] = {}
        self.groups: object = None


def known_of(known: Known, groups: Mapping[str, Frame]) -> dict[object, Frame]:
    if known.groups is not groups:
        known.groups, known.frames = groups, {}
    return known.frames


def remember(frame: Frame, known: MutableMapping[object, Frame]) -> None:
    values = frame[GROUP][:-1]
    if values == [None] or all(type(value) is str for value in values):
        known[_key_of(values)] = frame


def forget(
    frame: Frame,
    groups: MutableMapping[str, Frame],
    known: MutableMapping[object, Frame],
    cell: Cell,
    frame_bytes: int,
) -> None:
    """A group whose windows hold nothing. `frame_bytes`: of its frames."""
    *values, text = frame[GROUP]
    del groups[text]
    cell[1] -= group_bytes(frame[GROUP], frame_bytes)
    if values == [None] or all(type(value) is str for value in values):
        known.pop(_key_of(values), None)


def _key_of(values: Sequence[object]) -> object:
    return values[0] if len(values) == 1 else tuple(values)


def combined(parts: Sequence[tuple[object, bool]]) -> Sequence[list[object]]:
    """The groups that an event belongs to. `parts`: the value of each expression, and whether each of its elements is
    a group of its own (`each`). None for an empty array."""
    found: list[list[object]] = [[]]
    for value, each in parts:
        if each:
            if not is_array(value):
                raise CannotApply(f"`each` takes an array, not {kind_of(value)}")
            found = [[*group, one] for group in found for one in value]
        else:
            for group in found:
                group.append(value)
    return found


def too_many(most: int) -> CannotApply:
    return CannotApply(f"`max_groups` is {most:,}: this event belongs to one group more")


def check_room(groups: Mapping[str, Any], most: int, cell: Cell, bound: int) -> None:
    """Whether there may be one group more."""
    if len(groups) >= most:
        raise too_many(most)
    if cell[1] >= bound:
        raise too_large(bound)


def too_large(bound: int) -> CannotApply:
    return CannotApply(f"`max_bytes` is {bound:,}: the windows hold as much, and this event would add to it")


def group_bytes(group: Sequence[object], frame_bytes: int) -> int:
    """An estimate of what a group takes without what its aggregates collect. `group`: its array."""
    return GROUP_BYTES + frame_bytes + weight(group)


def bytes_of_frames(frames: int, slots: int) -> int:
    """`slots`: of the aggregates of one frame."""
    return frames * (HEAD_BYTES + SLOTS * 8 + slots * (8 + SMALL_BYTES))
