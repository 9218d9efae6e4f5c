"""`hdr`: buckets are known by the least number in them. Their bounds come from HdrHistogram (the extra `[hdr]`)."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.windows.aggregates import Aggregate
from walflow_kernel.windows.frame import Frame
from walflow_kernel.windows.sketches import NUMBER_BYTES, PERCENTILES, RAW, held, merged, packed, pairs

LARGEST: Final = (1 << 62) - 1

_hdr: Any = None  # Any: the library has no types
try:
    from hdrh.histogram import HdrHistogram  # pyright: ignore[reportMissingTypeStubs]
except ImportError:  # a flow with `hdr` is refused, and so is an executor: `walflow_kernel.shipped.NEEDS`
    pass
else:
    _hdr = HdrHistogram(1, LARGEST, 2)


def check(frame: Frame, at: int, value: float) -> None:
    if not 0 <= value <= LARGEST:
        raise CannotApply("`aggr::stats::hdr` takes numbers from 0 to 2^62")


def _add(frame: Frame, at: int, value: float) -> int:
    frame[at].append(int(value))
    if len(frame[at]) < RAW:
        return NUMBER_BYTES
    before = held(frame, at)
    packed(frame, at, map(_hdr.get_lowest_equivalent_value, frame[at]))
    return NUMBER_BYTES + held(frame, at) - before


def _merge(into: Frame, at: int, frame: Frame) -> None:
    merged(into, at, frame, _hdr.get_lowest_equivalent_value)


def _median(bucket: int) -> int:
    highest: int = _hdr.get_highest_equivalent_value(bucket)
    return bucket + (highest - bucket + 1 >> 1)


def _result(frame: Frame, at: int, wanted: Sequence[str] | None) -> object:
    packed(frame, at, map(_hdr.get_lowest_equivalent_value, frame[at]))
    bins = list(pairs(frame[at + 1]))
    count = sum(one for _, one in bins)
    mean = sum(_median(bucket) * one for bucket, one in bins) / count
    squares = 0.0
    for bucket, one in bins:  # not `sum`: since Python 3.12 it adds floats in another way, and both hosts must agree
        squares += (_median(bucket) - mean) ** 2 * one
    variance = squares / count
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


def _start() -> list[object]:
    return [[], []]


HDR: Final = Aggregate("hdr", _start, _add, _merge, _result, check, held)
