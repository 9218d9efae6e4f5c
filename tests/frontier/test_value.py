"""What a receiver stores of a log."""

from hypothesis import given, strategies as st

from walflow.frontier import Frontier, FrontierBatch
from walflow.frontier.value import MOST_BYTES, MOST_RANGES, OLD_TERMS


def test_rows_in_order_are_one_range() -> None:
    frontier = Frontier()
    for first in (1, 4, 7):
        frontier = frontier.with_batch(FrontierBatch(9, first, first + 2))
    assert frontier.ranges == {9: [(1, 9)]}
    assert (frontier.highest, frontier.term) == (9, 9)


def test_a_gap_stays_until_its_event_has_another_outcome() -> None:
    frontier = Frontier().with_batch(FrontierBatch(9, 1, 3)).with_batch(FrontierBatch(9, 5, 6))
    assert frontier.has(9, 1, 6) == [(1, 3, True), (4, 4, False), (5, 6, True)]
    assert frontier.with_batch(FrontierBatch(9, 7, 7, settled=3)).ranges == {9: [(1, 3), (5, 7)]}
    assert frontier.with_batch(FrontierBatch(9, 7, 7, settled=6)).ranges == {9: [(1, 7)]}


def test_the_same_position_under_another_term_is_another_event() -> None:
    assert Frontier().with_batch(FrontierBatch(9, 1, 3)).has(8, 1, 3) == [(1, 3, False)]


def test_acked_chunks_are_known_for_a_while_and_then_one_number() -> None:
    frontier = Frontier()
    for term in range(OLD_TERMS + 10):
        frontier = frontier.with_batch(FrontierBatch(term, 10 * term + 1, 10 * term + 10, acked_below=10 * term + 1))
    assert len(frontier.ranges) == OLD_TERMS + 1
    assert frontier.forgotten == 90
    assert frontier.within_bounds(1) == frontier


def test_old_terms_make_way_for_gaps_and_too_many_gaps_wait() -> None:
    frontier = Frontier()
    for term in range(OLD_TERMS):
        frontier = frontier.with_batch(FrontierBatch(term, 10 * term + 1, 10 * term + 10, acked_below=10 * term + 1))
    for gap in range(MOST_RANGES - 1):
        frontier = frontier.with_batch(FrontierBatch(99, 1000 + 2 * gap, 1000 + 2 * gap))
    bounded = frontier.within_bounds(acked_below=1000)
    assert bounded is not None
    assert list(bounded.ranges) == [99]
    assert len(bounded.encode()) <= MOST_BYTES
    more = bounded.with_batch(FrontierBatch(99, 5000, 5000)).with_batch(FrontierBatch(99, 6000, 6000))
    assert more.within_bounds(acked_below=1000) is None


def test_a_log_that_went_back_makes_the_next_generation() -> None:
    frontier = Frontier().with_batch(FrontierBatch(1, 1, 10)).with_batch(FrontierBatch(2, 11, 20))
    after = frontier.known_in({1: (1, 10), 3: (11, 12)})
    assert (after.generation, after.highest, after.term) == (2, 10, 1)
    assert after.has(1, 1, 10) == [(1, 10, True)]
    assert after.has(3, 11, 12) == [(11, 12, False)]


batches = st.builds(
    lambda term, first, size, settled: FrontierBatch(term, first, first + size, settled),
    st.integers(1, 3),
    st.integers(1, 60),
    st.integers(0, 9),
    st.integers(0, 60),
)


@given(st.lists(batches, max_size=12))
def test_it_knows_what_it_was_given_and_comes_back_as_it_was(given_to: list[FrontierBatch]) -> None:
    frontier = Frontier()
    for batch in given_to:
        frontier = frontier.with_batch(batch)
        assert frontier.has(batch.term, batch.first, batch.last) == [(batch.first, batch.last, True)]
    for batch in given_to:
        assert all(known for _, _, known in frontier.has(batch.term, batch.first, batch.last))
    assert Frontier.decode(frontier.encode()) == frontier
