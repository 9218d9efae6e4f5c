from itertools import pairwise

from hypothesis import given, strategies as st

from walflow.positions import WrittenPositions

ranges = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=20)


def build(spans: list[tuple[int, int]]) -> tuple[WrittenPositions, set[int]]:
    built, positions = WrittenPositions(), set[int]()
    for first, more in spans:
        built.add("log", first, first + more)
        positions |= set(range(first, first + more + 1))
    return built, positions


def positions_of(built: WrittenPositions) -> set[int]:
    return {position for first, last in built.dump().get("log", []) for position in range(first, last + 1)}


@given(ranges)
def test_as_a_set_of_positions_would(spans: list[tuple[int, int]]) -> None:
    built, positions = build(spans)
    assert positions_of(built) == positions
    dumped = built.dump().get("log", [])
    assert all(before[1] + 1 < after[0] for before, after in pairwise(dumped))
    assert len(built) == len(dumped)


@given(ranges, st.integers(1, 70))
def test_what_is_below_is_forgotten(spans: list[tuple[int, int]], below: int) -> None:
    built, positions = build(spans)
    built.forget_below("log", below)
    assert positions_of(built) == {position for position in positions if position >= below}


@given(ranges, st.integers(1, 70), st.integers(0, 20))
def test_runs_tell_known_from_unknown(spans: list[tuple[int, int]], first: int, more: int) -> None:
    built, positions = build(spans)
    runs = built.runs("log", first, first + more)
    told = [run.known for run in runs for _ in range(run.length)]
    assert told == [position in positions for position in range(first, first + more + 1)]
    assert all(run.length > 0 for run in runs)


@given(ranges, ranges)
def test_update_is_a_union(spans: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    built, positions = build(spans)
    other, others = build(more)
    copy = built.copy()
    copy.update(other)
    assert positions_of(copy) == positions | others
    assert positions_of(built) == positions
    assert WrittenPositions(copy.dump()) == copy


@given(ranges)
def test_forgetting_the_lowest_ends(spans: list[tuple[int, int]]) -> None:
    built, positions = build(spans)
    while built:
        before = positions_of(built)
        built.forget_lowest()
        left = positions_of(built)
        assert left < before <= positions
        assert not left or min(left) > min(before - left)
