"""Percentiles: `hdr` in the buckets of HdrHistogram, `dds` in those of DDSketch. What both do is here.

A histogram of the library is 58 KB, takes 0.1 ms to make and 70 ms to ask for its mean. So a frame keeps plain
values: those that came last as they are, the others as a list of buckets with their counts. The libraries say which
bucket a number falls into and what a bucket stands for; a test holds that the answers are those of the libraries' own
histograms.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.windows.frame import Frame

PERCENTILES: Final = ("0.5", "0.9", "0.95", "0.99", "0.999", "0.9999", "0.99999")
RAW: Final = 1024  # values that are kept as they are
NUMBER_BYTES: Final = 40  # in an array, with its place there

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


def held(frame: Frame, at: int) -> int:
    return NUMBER_BYTES * (len(frame[at]) + len(frame[at + 1]))


def packed(frame: Frame, at: int, buckets: Iterable[int]) -> None:
    """The values become buckets."""
    counts = Counter(buckets)
    for bucket, count in pairs(frame[at + 1]):
        counts[bucket] += count
    frame[at] = []
    frame[at + 1] = [number for pair in sorted(counts.items()) for number in pair]


def pairs(bins: Bins) -> Iterable[tuple[int, int]]:
    return zip(bins[::2], bins[1::2], strict=True)


def merged(into: Frame, at: int, frame: Frame, bucket: Callable[[Any], int]) -> None:
    counts = Counter[int](map(bucket, into[at]))
    counts.update(map(bucket, frame[at]))
    for bins in (into[at + 1], frame[at + 1]):
        for one, count in pairs(bins):
            counts[one] += count
    into[at] = []
    into[at + 1] = [number for pair in sorted(counts.items()) for number in pair]
