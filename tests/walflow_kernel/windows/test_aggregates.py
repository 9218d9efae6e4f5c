"""What aggregates keep: values go into frames one by one, frames into each other,
and each says what all values say."""

import json
import statistics
from functools import reduce

import pytest
from hypothesis import given, strategies as st

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LONGEST
from walflow_kernel.windows import aggregates
from walflow_kernel.windows.aggregates import Aggregate
from walflow_kernel.windows.frame import COUNT, SLOTS, Frame

numbers = st.one_of(st.integers(-(2**40), 2**40), st.floats(-1e9, 1e9))
cut = st.lists(st.lists(numbers, min_size=1, max_size=8), min_size=1, max_size=6)


def filled(of: Aggregate, values: list[float]) -> Frame:
    frame: Frame = [[None, "[null]"], None, 0, 0, *of.start()]
    for value in values:
        frame[COUNT] += 1
        of.add(frame, SLOTS, value)
    return frame


def merged(of: Aggregate, parts: list[list[float]]) -> Frame:
    def into(frame: Frame, part: list[float]) -> Frame:
        other = filled(of, part)
        of.merge(frame, SLOTS, other)
        frame[COUNT] += other[COUNT]
        return frame

    empty: Frame = [[None, "[null]"], None, 0, 0, *of.start()]
    return reduce(into, parts, empty)


def said(of: Aggregate, frame: Frame) -> object:
    return of.result(frame, SLOTS, None)


@given(cut)
def test_frames_that_are_merged_say_what_all_their_values_say(parts: list[list[float]]) -> None:
    values = [value for part in parts for value in part]
    assert said(aggregates.COUNTING, merged(aggregates.COUNTING, parts)) == len(values)
    assert said(aggregates.SUM, merged(aggregates.SUM, parts)) == pytest.approx(
        float(sum(values)), rel=1e-12, abs=1e-3
    )
    assert said(aggregates.MEAN, merged(aggregates.MEAN, parts)) == pytest.approx(
        statistics.fmean(values), rel=1e-12, abs=1e-3
    )
    assert said(aggregates.MIN, merged(aggregates.MIN, parts)) == float(min(values))
    assert said(aggregates.MAX, merged(aggregates.MAX, parts)) == float(max(values))
    assert said(aggregates.FIRST, merged(aggregates.FIRST, parts)) == values[0]
    assert said(aggregates.LAST, merged(aggregates.LAST, parts)) == values[-1]
    assert said(aggregates.FLAT, merged(aggregates.FLAT, parts)) == values
    assert said(aggregates.NESTED, merged(aggregates.NESTED, parts)) == parts


@given(cut)
def test_the_variance_is_that_of_all_values_however_they_are_cut(parts: list[list[float]]) -> None:
    values = [float(value) for part in parts for value in part]
    found = said(aggregates.VAR, merged(aggregates.VAR, parts))
    if len(values) == 1:
        assert found is None
        assert said(aggregates.STDEV, merged(aggregates.STDEV, parts)) is None
        return
    largest = max(map(abs, values)) + 1
    assert found == pytest.approx(statistics.variance(values), rel=1e-6, abs=1e-12 * largest**2)
    assert said(aggregates.STDEV, merged(aggregates.STDEV, parts)) == pytest.approx(
        statistics.stdev(values), rel=1e-6, abs=1e-6 * largest
    )


def test_the_variance_of_large_numbers_close_to_each_other() -> None:
    """tremor adds the shifts of two frames up, and subtracts squares of large numbers."""
    parts = [[1e9 + 4, 1e9 + 7], [1e9 + 13], [1e9 + 16]]
    assert said(aggregates.VAR, merged(aggregates.VAR, parts)) == pytest.approx(30.0)


def test_the_sum_of_whole_numbers_is_exact_until_it_is_told() -> None:
    frame = filled(aggregates.SUM, [2**53, 1, 1])
    assert said(aggregates.SUM, frame) == float(2**53 + 2)


@pytest.mark.parametrize("of", [aggregates.SUM, aggregates.MEAN, aggregates.VAR, aggregates.STDEV])
def test_what_no_float_can_be_is_an_error_and_no_null(of: Aggregate) -> None:
    with pytest.raises(CannotApply, match="larger than a float"):
        said(of, filled(of, [1.7e308, 1.7e308, -1.7e308 if of.keeps == "spread" else 1.7e308]))


def test_what_a_frame_holds_is_plain() -> None:
    for of in (aggregates.SUM, aggregates.VAR, aggregates.MIN, aggregates.FIRST, aggregates.NESTED):
        frame = merged(of, [[1.5, 2], [3]])
        assert json.loads(json.dumps(frame)) == frame


def test_what_was_collected_stays_as_it_was_said() -> None:
    frame, other = filled(aggregates.FLAT, [1]), filled(aggregates.FLAT, [2])
    before = said(aggregates.FLAT, other)
    aggregates.FLAT.merge(frame, SLOTS, other)
    assert before == [2]


def test_a_window_collects_no_more_than_it_may() -> None:
    check = aggregates.FLAT.check
    assert check is not None
    frame: Frame = [[None, "[null]"], None, LONGEST, 0, [0] * LONGEST]
    with pytest.raises(CannotApply, match="collects no more"):
        check(frame, SLOTS, 1)
    into = filled(aggregates.FLAT, [1])
    aggregates.FLAT.merge(into, SLOTS, frame)
    assert len(into[SLOTS]) == LONGEST
