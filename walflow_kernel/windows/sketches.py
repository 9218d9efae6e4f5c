"""Percentiles: `hdr` in the buckets of HdrHistogram, `dds` in those of DDSketch.

A histogram of the library is 58 KB, takes 0.1 ms to make and 70 ms to ask for its mean. So a frame keeps plain values: those
that came last as they are, the others as a list of buckets with their counts. The libraries say which bucket a number
falls into and what a bucket stands for; a test holds that the answers are those of the libraries' own histograms.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final

from ddsketch.mapping import LogarithmicMapping
from hdrh.histogram import HdrHistogram  # pyright: ignore[reportMissingTypeStubs]  # has no types

from walflow_kernel.errors import CannotApply
from walflow_kernel.windows.aggregates import Aggregate, finite
from walflow_kernel.windows.frame import Frame

PERCENTILES: Final = ("0.5", "0.9", "0.95", "0.99", "0.999", "0.9999", "0.99999")
LARGEST: Final = (1 << 62) - 1  # of `hdr`
RAW: Final = 1024  # values that are kept as they are
NUMBER_BYTES: Final = 40  # in an array, with its place there

_hdr: Any = HdrHistogram(1, LARGEST, 2)  # Any: the library has no types
_dds: Final = LogarithmicMapping(0.01)

Bins = list[Any]  # [bucket, count, bucket, count, …]


def percentiles(given: Sequence[object]) -> Sequence[str]:
    """The argument of both: numbers from 0 to 1, as strings. Raises CannotApply."""
    for one in given:
        try:
            fits = isinstance(one, str) and 0 <= float(one) <= 1
        except ValueError:
            fits = False
        if not fits:
            raise CannotApply(f'a percentile is a string with a number from 0 to 1, such as "0.99", not {one!r}')
    return [str(one) for one in given]


def _held(frame: Frame, at: int) -> int:
    return NUMBER_BYTES * (len(frame[at]) + len(frame[at + 1]))


def _packed(frame: Frame, at: int, buckets: Iterable[int]) -> None:
    """The values become buckets."""
    counts = Counter(buckets)
    for bucket, count in _pairs(frame[at + 1]):
        counts[bucket] += count
    frame[at] = []
    frame[at + 1] = [number for pair in sorted(counts.items()) for number in pair]


def _pairs(bins: Bins) -> Iterable[tuple[int, int]]:
    return zip(bins[::2], bins[1::2], strict=True)


def _merged(into: Frame, at: int, frame: Frame, bucket: Callable[[Any], int]) -> None:
    counts = Counter[int](map(bucket, into[at]))
    counts.update(map(bucket, frame[at]))
    for bins in (into[at + 1], frame[at + 1]):
        for one, count in _pairs(bins):
            counts[one] += count
    into[at] = []
    into[at + 1] = [number for pair in sorted(counts.items()) for number in pair]


# ---- HdrHistogram: buckets are known by the least number in them


def check_hdr(frame: Frame, at: int, value: float) -> None:
    if not 0 <= value <= LARGEST:
        raise CannotApply("`aggr::stats::hdr` takes numbers from 0 to 2^62")


def _add_hdr(frame: Frame, at: int, value: float) -> int:
    frame[at].append(int(value))
    if len(frame[at]) < RAW:
        return NUMBER_BYTES
    before = _held(frame, at)
    _packed(frame, at, map(_hdr.get_lowest_equivalent_value, frame[at]))
    return NUMBER_BYTES + _held(frame, at) - before


def _merge_hdr(into: Frame, at: int, frame: Frame) -> None:
    _merged(into, at, frame, _hdr.get_lowest_equivalent_value)


def _median(bucket: int) -> int:
    highest: int = _hdr.get_highest_equivalent_value(bucket)
    return bucket + (highest - bucket + 1 >> 1)


def _of_hdr(frame: Frame, at: int, wanted: Sequence[str] | None) -> object:
    _packed(frame, at, map(_hdr.get_lowest_equivalent_value, frame[at]))
    bins = list(_pairs(frame[at + 1]))
    count = sum(one for _, one in bins)
    mean = sum(_median(bucket) * one for bucket, one in bins) / count
    variance = sum((_median(bucket) - mean) ** 2 * one for bucket, one in bins) / count
    ends = list(accumulate(one for _, one in bins))
    found: dict[str, object] = {}
    for text in wanted or PERCENTILES:
        rank = max(int(float(text) * 100 * count / 100 + 0.5), 1)
        bucket = next(bucket for (bucket, _), end in zip(bins, ends, strict=True) if end >= rank)
        found[text] = _hdr.get_highest_equivalent_value(bucket) if float(text) else bucket
    return {
        "count": count,
        "min": bins[0][0],
        "max": _hdr.get_highest_equivalent_value(bins[-1][0]) if bins[-1][0] else 0,
        "mean": mean,
        "stdev": math.sqrt(variance),
        "var": variance,
        "percentiles": found,
    }


# ---- DDSketch: 0 is for what is next to nothing, otherwise twice the key, from a floor on; negative below it


_FLOOR: Final = 1 << 20  # no key is that far from 0


def _bucket_of(value: float) -> int:
    if value > _dds.min_possible:
        return _dds.key(value) + _FLOOR
    return -(_dds.key(-value) + _FLOOR) if value < -_dds.min_possible else 0


def _value_of(bucket: int) -> float:
    if bucket == 0:
        return 0.0
    return _dds.value(bucket - _FLOOR) if bucket > 0 else -_dds.value(-bucket - _FLOOR)


def _add_dds(frame: Frame, at: int, value: float) -> int:
    frame[at].append(value)
    frame[at + 2] += value
    if len(frame[at]) == 1 and not frame[at + 1]:
        frame[at + 3] = frame[at + 4] = value
    elif value < frame[at + 3]:
        frame[at + 3] = value
    elif value > frame[at + 4]:
        frame[at + 4] = value
    if len(frame[at]) < RAW:
        return NUMBER_BYTES
    before = _held(frame, at)
    _packed(frame, at, map(_bucket_of, frame[at]))
    return NUMBER_BYTES + _held(frame, at) - before


def _merge_dds(into: Frame, at: int, frame: Frame) -> None:
    if not into[at] and not into[at + 1]:
        into[at + 3 : at + 5] = frame[at + 3 : at + 5]
    into[at + 2] += frame[at + 2]
    into[at + 3] = min(into[at + 3], frame[at + 3])
    into[at + 4] = max(into[at + 4], frame[at + 4])
    _merged(into, at, frame, _bucket_of)


def _of_dds(frame: Frame, at: int, wanted: Sequence[str] | None) -> object:
    _packed(frame, at, map(_bucket_of, frame[at]))
    bins = list(_pairs(frame[at + 1]))
    ends = list(accumulate(one for _, one in bins))
    count = ends[-1]
    found: dict[str, object] = {}
    for text in wanted or PERCENTILES:
        rank = float(text) * (count - 1)
        bucket = next(bucket for (bucket, _), end in zip(bins, ends, strict=True) if end > rank)
        found[text] = _value_of(bucket)
    return {
        "count": count,
        "min": float(frame[at + 3]),
        "max": float(frame[at + 4]),
        "mean": finite(frame[at + 2] / count),
        "percentiles": found,
    }


def _start_hdr() -> list[object]:
    return [[], []]


def _start_dds() -> list[object]:
    return [[], [], 0, None, None]


HDR: Final = Aggregate("hdr", _start_hdr, _add_hdr, _merge_hdr, _of_hdr, check_hdr, _held)
DDS: Final = Aggregate("dds", _start_dds, _add_dds, _merge_dds, _of_dds, held=_held)
