"""A value that is evaluated at load, with the place in the file of each of its parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from walflow.diagnostics import Span


class ConstantPart(NamedTuple):
    """`key`: the place of the key, for a member of a record; the place of the item, for an item of an array."""

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
        """Follows the path as far as parts are known. The path of a validator may be longer than what is written in
        the file."""
        found = self
        for key in path:
            if key not in found.parts:
                return found
            found = found.parts[key].constant
        return found

    def key_span(self, path: Sequence[str | int]) -> Span:
        """The place of the last key of the path."""
        part = self.find(path[:-1]).parts.get(path[-1]) if path else None
        return part.key if part else self.find(path).span


def derived(value: object, span: Span) -> Constant:
    """A value that was computed at `span`, so its parts have no place of their own."""
    return Constant(value, span, _Parts(value, span))


class _Parts(Mapping[str | int, ConstantPart]):
    """Parts are made when they are asked for: `range::range(0, 1_000_000)` has a million."""

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
