"""Of the filters of a batch read, what narrows the range of positions that is read. Spark applies every filter itself
as well, so that a range may be too large and is never too small.

    position                       which positions
    ingest_ts, ingest_ns           what arrived when; the daemon knows where that lies
"""

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from pyspark.sql.datasource import DataSourceReader

from pyspark_walflow.older_spark import (
    PUSHES,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

LEAST: Final = -(1 << 63)
MOST: Final = (1 << 63) - 1
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND: Final = datetime.timedelta(microseconds=1)


class Bounds(NamedTuple):
    """From `low` up to, and not including, `end`."""

    low: int = LEAST
    end: int = MOST

    def cut(self, other: "Bounds") -> "Bounds":
        return Bounds(max(self.low, other.low), min(self.end, other.end))


class Narrowed(NamedTuple):
    positions: Bounds = Bounds()
    ingest_ns: Bounds = Bounds()


class Pushdown:
    """What stands for the method `pushFilters`. While spark.sql.python.filterPushdown.enabled is false, Spark ends
    every read of a source with a `pushFilters` of its own, and tells it from the base's by `__func__`. So this one
    passes for the base's: where the setting is on, Spark calls it; where it is off, a read is what it was."""

    if PUSHES:
        __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, narrow: Callable[[Sequence[Filter]], None]) -> None:
        self._narrow = narrow

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._narrow(filters)
        return filters


def narrowed(filters: Iterable[Filter]) -> Narrowed:
    positions, times = Bounds(), Bounds()
    for one in filters:
        match getattr(one, "attribute", None):
            case ("position",):
                positions = positions.cut(_span(one, _whole))
            case ("ingest_ns",):
                times = times.cut(_span(one, _whole))
            case ("ingest_ts",):
                times = times.cut(_span(one, _microsecond))
            case _:
                pass
    return Narrowed(positions, times)


def _span(one: Filter, covered: Callable[[object], Bounds | None]) -> Bounds:
    """`covered`: which numbers a value of the column stands for; None: unknown."""
    if isinstance(one, In):
        spans = [covered(value) for value in one.value]
        known = [span for span in spans if span is not None]
        if not known or len(known) < len(spans):
            return Bounds()
        return Bounds(min(span.low for span in known), max(span.end for span in known))
    span = covered(getattr(one, "value", None))
    if span is None:
        return Bounds()
    match one:
        case EqualTo() | EqualNullSafe():
            return span
        case GreaterThan():
            return Bounds(low=span.end)
        case GreaterThanOrEqual():
            return Bounds(low=span.low)
        case LessThan():
            return Bounds(end=span.low)
        case LessThanOrEqual():
            return Bounds(end=span.end)
        case _:
            return Bounds()


def _whole(value: object) -> Bounds | None:
    return Bounds(value, value + 1) if isinstance(value, int) and not isinstance(value, bool) else None


def _microsecond(value: object) -> Bounds | None:
    """Of nanoseconds: the column has them cut off to microseconds."""
    if not isinstance(value, datetime.datetime) or value.tzinfo is None:
        return None
    at = (value - EPOCH) // MICROSECOND * 1000
    return Bounds(at, at + 1000)
