"""A set of positions for each lane, and what all of them have."""

from hypothesis import given, strategies as st

from walflow.wal.cursor import Acked
from walflow.wal.marks import Marks

LANES = 3
acks = st.lists(st.tuples(st.integers(-1, LANES - 1), st.integers(1, 40), st.integers(1, 40)), max_size=30)


def positions(acked: Acked) -> set[int]:
    return {*range(1, acked.low + 1), *(at for low, high in acked.ranges for at in range(low, high + 1))}


@given(acks, acks, st.integers(1, 40), st.integers(1, 40))
def test_all_have_acked_what_each_lane_has(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]], first: int, last: int
) -> None:
    """Lane -1: the log itself gives positions up, for all lanes."""
    marks = Marks()
    model: list[set[int]] = [set[int]() for _ in range(LANES)]
    for _, low, high in before:  # of an earlier life: of the log as a whole
        marks.add(low, high)
        for one in model:
            one |= set(range(low, high + 1))
    lanes = marks.part([None] * LANES)
    for lane, low, high in after:
        had = set.intersection(*model)
        if lane < 0:
            marks.add(low, high)
        for number in range(LANES) if lane < 0 else [lane]:
            model[number] |= set(range(low, high + 1))
        if lane >= 0:
            assert lanes[lane].ack(low, high) == len(set.intersection(*model) - had)
    assert positions(marks) == set.intersection(*model)
    for mark, has in zip(lanes, model, strict=True):
        assert {at for low, high in mark.unacked(first, last) for at in range(low, high + 1)} == (
            set(range(first, last + 1)) - has
        )
        assert mark.behind(40) == 40 - len(has)
        assert set(range(1, mark.low + 1)) <= has


def test_the_mark_of_a_single_lane_is_the_logs_own() -> None:
    marks = Marks(3, [(6, 7)])
    (mark,) = marks.part([None])
    assert mark.ack(4, 6) == 2
    assert (marks.low, mark.low) == (7, 7)
    marks.add(8, 9)
    assert mark.unacked(1, 12) == [(10, 12)]


def test_what_the_slower_of_two_lanes_acks_both_have() -> None:
    marks = Marks()
    near, far = marks.part([None, None])
    assert near.ack(1, 9) == 0
    assert far.ack(1, 4) == 4
    assert near.ack(10, 12) == 0, "the other one is behind"
    assert far.ack(3, 6) == 2, "also what it acks again"
    assert far.ack(6, 20) == 6
    assert (marks.low, near.low, far.low) == (12, 12, 20)
    assert near.ack(12, 15) == 3, "the last one that both had, and more"
    assert marks.low == 15


def test_what_both_have_begins_where_one_lane_ends() -> None:
    marks = Marks()
    near, far = marks.part([Acked(5), Acked(4)])
    assert marks.low == 4
    assert far.ack(5, 8) == 1
    assert (marks.low, near.low) == (5, 5)
