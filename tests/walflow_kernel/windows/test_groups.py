"""Which events belong together, and when windows are due."""

import pytest

from walflow_kernel.errors import CannotApply
from walflow_kernel.state import Room
from walflow_kernel.values import MOST, OutOfRange
from walflow_kernel.windows import groups
from walflow_kernel.windows.frame import Frame
from walflow_kernel.windows.ticks import TICK_NS, Waiting, due_by, earliest, tick_of, wait


def test_a_group_is_what_has_the_same_text() -> None:
    texts = [groups.text_of([one]) for one in (1, 1.0, True, "1", None, {"b": 1, "a": 2}, {"a": 2, "b": 1})]
    assert texts == ["[1]", "[1.0]", "[true]", '["1"]', "[null]", '[{"a":2,"b":1}]', '[{"a":2,"b":1}]']


@pytest.mark.parametrize("value", [2**64, OutOfRange("1e400"), b"bytes", "\ud800"])
def test_what_has_no_text_is_no_group(value: object) -> None:
    with pytest.raises(CannotApply, match="`group by`"):
        groups.text_of([value])


def test_each_element_is_a_group_and_several_are_combined() -> None:
    assert groups.combined([(1, False)]) == [[1]]
    assert groups.combined([(1, False), ([2, 3], True)]) == [[1, 2], [1, 3]]
    assert groups.combined([([1, 2], True), ([3, 4], True)]) == [[1, 3], [1, 4], [2, 3], [2, 4]]
    assert groups.combined([([], True), (1, False)]) == []
    with pytest.raises(CannotApply, match="`each` takes an array, not a string"):
        groups.combined([("ab", True)])


def test_known_frames_are_those_of_the_groups_at_hand() -> None:
    known, ours = groups.Known(), dict[str, Frame]()
    frame: Frame = [["a", '["a"]'], None, 1, 0]
    ours['["a"]'] = frame
    groups.remember(frame, groups.known_of(known, ours))
    assert groups.known_of(known, ours)["a"] is frame
    other = {'["a"]': frame}
    assert groups.known_of(known, other) == {}
    groups.remember(frame, groups.known_of(known, other))
    cell = [None, groups.group_bytes(frame[0], 100), 0]
    groups.forget(frame, other, groups.known_of(known, other), cell, 100)
    assert other == {}
    assert cell[1] == 0
    assert groups.known_of(known, other) == {}


def test_what_is_no_string_is_found_by_its_text_alone() -> None:
    known: dict[object, Frame] = {}
    for value in (1, True, 1.0, {"a": 1}, ["b"]):
        groups.remember([[value, groups.text_of([value])], None, 1, 0], known)
    assert known == {}


def test_a_window_is_closed_at_the_first_tick_at_which_it_is_due() -> None:
    assert [tick_of(due) for due in (0, 1, TICK_NS - 1, TICK_NS, TICK_NS + 1)] == [
        0,
        TICK_NS,
        TICK_NS,
        TICK_NS,
        2 * TICK_NS,
    ]


def opened(due: int, name: str) -> Frame:
    return [[name, name], None, 1, due]


def test_what_is_due_comes_by_time_then_by_list_then_as_it_was_opened() -> None:
    first: Waiting = []
    second: Waiting = []
    for due, name in ((1, "a"), (2, "b"), (TICK_NS + 1, "c")):
        wait(first, opened(due, name))
    wait(second, opened(3, "d"))
    assert earliest([first, second]) == TICK_NS
    assert list(due_by(TICK_NS - 1, [first, second], [MOST, None])) == []
    assert list(due_by(TICK_NS, [first, second], [MOST, None])) == [
        (TICK_NS, 0, "a"),
        (TICK_NS, 0, "b"),
        (TICK_NS, 1, "d"),
    ]
    assert list(due_by(TICK_NS * 9, [first, second], [MOST, None])) == [(2 * TICK_NS, 0, "c")]
    assert earliest([first, second]) is None


def test_what_opens_while_others_are_closed_is_due_later() -> None:
    waiting: Waiting = []
    wait(waiting, opened(1, "a"))
    found = []
    for tick, _, group in due_by(3 * TICK_NS, [waiting], [MOST, None]):
        found.append((tick, group))
        if len(found) < 3:
            wait(waiting, opened(tick + 1, group))
    assert found == [(TICK_NS, "a"), (2 * TICK_NS, "a"), (3 * TICK_NS, "a")]


def test_what_there_is_no_room_for_is_due_the_next_time() -> None:
    first: Waiting = []
    second: Waiting = []
    for name in "abc":
        wait(first, opened(1, name))
    wait(second, opened(1, "d"))
    room: Room = [2, None]
    found = []
    for _, _, group in due_by(TICK_NS, [first, second], room):
        found.append(group)
        room[0] -= 3
    assert found == ["a"]
    assert earliest([first, second]) == TICK_NS
    assert [group for _, _, group in due_by(TICK_NS, [first, second], [MOST, None])] == ["b", "c", "d"]
    assert earliest([first, second]) is None
