"""Percentiles are those of the libraries' own histograms, however the values come together."""

import json
from typing import Any

import pytest
from ddsketch import DDSketch
from hdrh.histogram import HdrHistogram  # pyright: ignore[reportMissingTypeStubs]  # has no types
from hypothesis import given, settings, strategies as st

from tests.examples import examples
from tests.walflow_kernel.windows.test_aggregates import filled, merged
from walflow_kernel.errors import CannotApply
from walflow_kernel.windows.dds import DDS
from walflow_kernel.windows.frame import SLOTS
from walflow_kernel.windows.hdr import HDR, LARGEST
from walflow_kernel.windows.sketches import PERCENTILES, RAW, percentiles

WANTED = ("0", "0.25", "0.5", "0.9", "0.99", "1.0")
whole = st.one_of(st.integers(0, 300), st.integers(0, 2**20))
parts_of_whole = st.lists(st.lists(whole, min_size=1, max_size=20), min_size=1, max_size=4)
numbers = st.one_of(st.just(0), st.floats(-1e6, 1e6), st.integers(-(2**40), 2**40), st.floats(0, 1e-6))
parts_of_numbers = st.lists(st.lists(numbers, min_size=1, max_size=20), min_size=1, max_size=4)


@settings(max_examples=6)  # the library's histogram takes 70 ms to ask
@given(parts_of_whole)
def test_hdr_says_what_hdrhistogram_says(parts: list[list[float]]) -> None:
    library: Any = HdrHistogram(1, 2**21, 2)
    for part in parts:
        for value in part:
            library.record_value(value)
    found: Any = HDR.result(merged(HDR, parts), SLOTS, WANTED)
    assert found["count"] == library.get_total_count()
    assert (found["min"], found["max"]) == (library.get_min_value(), library.get_max_value())
    assert found["mean"] == pytest.approx(library.get_mean_value())
    assert found["stdev"] == pytest.approx(library.get_stddev(), abs=1e-6)
    assert found["percentiles"] == {text: library.get_value_at_percentile(float(text) * 100) for text in WANTED}


@settings(max_examples=examples(40))
@given(parts_of_numbers)
def test_dds_says_what_ddsketch_says(parts: list[list[float]]) -> None:
    library = DDSketch(0.01)
    for part in parts:
        for value in part:
            library.add(value)
    found: Any = DDS.result(merged(DDS, parts), SLOTS, WANTED)
    values = [value for part in parts for value in part]
    assert (found["count"], found["min"], found["max"]) == (len(values), float(min(values)), float(max(values)))
    assert found["mean"] == pytest.approx(sum(values) / len(values), rel=1e-9, abs=1e-6)
    for text in WANTED:
        assert found["percentiles"][text] == pytest.approx(library.get_quantile_value(float(text)))


@pytest.mark.parametrize("of", [HDR, DDS])
def test_more_values_than_are_kept_as_they_are(of: Any) -> None:
    values: list[float] = [number * 7 % 5000 for number in range(5000)]
    frame = filled(of, values)
    assert len(frame[SLOTS]) < RAW
    assert json.loads(json.dumps(frame)) == frame
    found = of.result(frame, SLOTS, ("0.5",))
    assert found["count"] == 5000
    assert found["percentiles"]["0.5"] == pytest.approx(2500, rel=0.02)
    assert of.result(frame, SLOTS, ("0.5",)) == found  # to ask changes nothing


def test_without_an_argument_there_are_the_usual_ones() -> None:
    found: Any = HDR.result(filled(HDR, [1, 2, 3]), SLOTS, None)
    assert list(found["percentiles"]) == list(PERCENTILES)


@pytest.mark.parametrize("given", [["1.5"], [0.5], ["half"], ["-0.1"], ["nan"]])
def test_what_is_no_percentile(given: list[object]) -> None:
    with pytest.raises(CannotApply, match="a percentile is a string"):
        percentiles(given)


@pytest.mark.parametrize("value", [-1, -0.5, 2**62])
def test_what_hdr_does_not_take(value: float) -> None:
    check = HDR.check
    assert check is not None
    with pytest.raises(CannotApply, match="from 0 to"):
        check(filled(HDR, [1]), SLOTS, value)
    check(filled(HDR, [1]), SLOTS, LARGEST)
