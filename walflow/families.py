"""What a metric is, told where it is counted."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram", "info"]


class Family(NamedTuple):
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()  # beside flow, component, kind and type
    own: bool = False  # of the process, not of a component


Families = Mapping[str, Family]
"""By the name that `Half.counter`, `gauge` or `histogram` is called with."""
