"""Counters as plain attributes, gathered by name and label for whoever shows them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Counter:
    """Only grows. Written from the loop alone, so it needs no lock."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: int


class Metrics:
    """Every counter of a process, by name and labels. Names carry their unit and `_total`; no peer address is
    ever a label, it would make a series per client."""

    def __init__(self) -> None:
        self._counters: dict[tuple[str, tuple[tuple[str, str], ...]], Counter] = {}

    def counter(self, name: str, **labels: str) -> Counter:
        return self._counters.setdefault((name, tuple(sorted(labels.items()))), Counter())

    def __iter__(self) -> Iterator[Sample]:
        for (name, labels), counter in sorted(self._counters.items()):
            yield Sample(name, dict(labels), counter.value)
