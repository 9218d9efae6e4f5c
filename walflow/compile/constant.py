"""A value worked out at load, which still knows where each part of it was written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from walflow.diagnostics import Span


class ConstantPart(NamedTuple):
    """`key`: where the key of a record stands; for an item of an array the item itself."""

    key: Span
    constant: "Constant"


@dataclass(frozen=True)
class Constant:
    """`value` is plain: None, bool, int, float, str, bytes, list, dict."""

    value: object
    span: Span
    parts: Mapping[str | int, ConstantPart] = field(default_factory=dict[str | int, ConstantPart])

    @property
    def is_record(self) -> bool:
        return isinstance(self.value, dict)

    def find(self, path: Sequence[str | int]) -> "Constant":
        """As deep as the path leads: what a validator calls a place may go deeper than what was written."""
        found = self
        for key in path:
            if key not in found.parts:
                return found
            found = found.parts[key].constant
        return found

    def key_span(self, path: Sequence[str | int]) -> Span:
        """Where the last key of the path is written."""
        part = self.find(path[:-1]).parts.get(path[-1]) if path else None
        return part.key if part else self.find(path).span


def derived(value: object, span: Span) -> Constant:
    """What was made at `span`, and written nowhere."""
    return Constant(value, span, _Parts(value, span))


class _Parts(Mapping[str | int, ConstantPart]):
    """Made when asked for: `range::range(0, 1_000_000)` has a million."""

    def __init__(self, value: object, span: Span) -> None:
        whole: Any = value
        pairs: Any = whole.items() if isinstance(value, dict) else enumerate(whole) if isinstance(value, list) else ()
        self._value: Mapping[str | int, object] = dict(pairs)
        self._span = span

    def __getitem__(self, key: str | int) -> ConstantPart:
        return ConstantPart(self._span, derived(self._value[key], self._span))

    def __iter__(self) -> Iterator[str | int]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)
