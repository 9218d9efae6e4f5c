"""`aggr::stats` and `aggr::win`, by name: what each takes, and what it keeps.

They have a value only once a window is closed, so none is ever called as other functions are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.windows import aggregates
from walflow_kernel.windows.aggregates import Aggregate
from walflow_kernel.windows.dds import DDS
from walflow_kernel.windows.hdr import HDR
from walflow_kernel.windows.sketches import percentiles as wanted


@dataclass(frozen=True, slots=True)
class WindowFunction(Function):
    """`aggregate` is None for `cardinality`, which is about the groups.
    `option` reads the constant second argument."""

    aggregate: Aggregate | None
    option: Callable[[Any], object] | None


def _without() -> int:
    raise _outside()


def _of_number(number: float) -> float:
    raise _outside()


def _of_any(value: object) -> object:
    raise _outside()


def _of_values(value: object) -> list[object]:
    raise _outside()


def _with_percentiles(number: float, percentiles: list[object]) -> dict[str, object]:
    raise _outside()


def _outside() -> CannotApply:
    return CannotApply("it stands in the target of a select with a window only")


def _made(
    apply: Callable[..., object],
    aggregate: Aggregate | None,
    option: Callable[[Any], object] | None = None,
    least: int | None = None,
) -> WindowFunction:
    of = function(apply)
    return WindowFunction(
        apply,
        of.parameters,
        of.least if least is None else least,
        of.most,
        of.rest,
        of.gives,
        "window",
        of.grows,
        aggregate,
        option,
    )


STATS: Mapping[str, Function] = {
    "count": _made(_without, aggregates.COUNTING),
    "sum": _made(_of_number, aggregates.SUM),
    "mean": _made(_of_number, aggregates.MEAN),
    "min": _made(_of_number, aggregates.MIN),
    "max": _made(_of_number, aggregates.MAX),
    "var": _made(_of_number, aggregates.VAR),
    "stdev": _made(_of_number, aggregates.STDEV),
    "hdr": _made(_with_percentiles, HDR, wanted, least=1),
    "dds": _made(_with_percentiles, DDS, wanted, least=1),
}
WIN: Mapping[str, Function] = {
    "first": _made(_of_any, aggregates.FIRST),
    "last": _made(_of_any, aggregates.LAST),
    "collect_flattened": _made(_of_values, aggregates.FLAT),
    "collect_nested": _made(_of_values, aggregates.NESTED),
}
STD_WIN: Mapping[str, Function] = {"cardinality": _made(_without, None)}
