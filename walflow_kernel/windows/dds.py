"""`dds`: a bucket is 0 for what is next to nothing, otherwise DDSketch's key, from a floor on; negative below it."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from ddsketch.mapping import LogarithmicMapping

from walflow_kernel.windows.aggregates import Aggregate, finite
from walflow_kernel.windows.frame import Frame
from walflow_kernel.windows.sketches import NUMBER_BYTES, PERCENTILES, RAW, held, merged, packed, pairs

_dds: Final = LogarithmicMapping(0.01)
_FLOOR: Final = 1 << 20  # no key is that far from 0


def _bucket_of(value: float) -> int:
    if value > _dds.min_possible:
        return _dds.key(value) + _FLOOR
    return -(_dds.key(-value) + _FLOOR) if value < -_dds.min_possible else 0


def _value_of(bucket: int) -> float:
    if bucket == 0:
        return 0.0
    return _dds.value(bucket - _FLOOR) if bucket > 0 else -_dds.value(-bucket - _FLOOR)


def _add(frame: Frame, at: int, value: float) -> int:
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
    before = held(frame, at)
    packed(frame, at, map(_bucket_of, frame[at]))
    return NUMBER_BYTES + held(frame, at) - before


def _merge(into: Frame, at: int, frame: Frame) -> None:
    if not into[at] and not into[at + 1]:
        into[at + 3 : at + 5] = frame[at + 3 : at + 5]
    into[at + 2] += frame[at + 2]
    into[at + 3] = min(into[at + 3], frame[at + 3])
    into[at + 4] = max(into[at + 4], frame[at + 4])
    merged(into, at, frame, _bucket_of)


def _result(frame: Frame, at: int, wanted: Sequence[str] | None) -> object:
    packed(frame, at, map(_bucket_of, frame[at]))
    bins = list(pairs(frame[at + 1]))
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


def _start() -> list[object]:
    return [[], [], 0, None, None]


DDS: Final = Aggregate("dds", _start, _add, _merge, _result, held=held)
