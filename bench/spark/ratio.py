from dataclasses import dataclass
from typing import NamedTuple


class Measured(NamedTuple):
    """`cpu_s_per_million`: rows, of all processes that take part."""

    rows_per_second: float
    cpu_s_per_million: float


@dataclass(frozen=True)
class Ratio:
    """`good`, `aim`: what `mine` ÷ `other` should be; `good` is None for the floor."""

    name: str
    mine: str
    other: str
    good: float | None
    aim: float | None = None
