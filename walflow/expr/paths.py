"""Paths: `event.a["b"][0][1:3]`, one step after the other into a value."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeGuard

from walflow.diagnostics import Span
from walflow.expr.constant import kind_of
from walflow.expr.evaluate import Evaluate
from walflow.expr.operators import CannotApply, CannotEvaluate

LONGEST_SHOWN = 60  # characters of an expression in a message
NO_KEY = "a key is a string, an index a whole number from 0 on"
NO_BOUND = "where a slice begins and ends is a whole number from 0 on"


class Missing(CannotEvaluate):
    """A path leads to nothing."""


class Step(Protocol):
    def read(self, value: object, event: object, meta: Mapping[str, object]) -> object: ...


class Fixed:
    """A key that is known at load, and how it is written."""

    __slots__ = ("key", "kind", "path", "shown")

    def __init__(self, key: Any, shown: str, path: str) -> None:
        self.key = key
        self.kind = dict if isinstance(key, str) else list
        self.shown = shown
        self.path = path

    def read(self, value: object, event: object, meta: Mapping[str, object]) -> object:
        return _read_fixed(((self.key, self.kind, self),), value, meta)

    def missing(self, value: object) -> Missing:
        return Missing(f"`{self.path}`: {kind_of(value)} without `{self.shown}`")


class Moving:
    """A key that depends on the event."""

    def __init__(self, key: Evaluate, shown: str, path: str) -> None:
        self._key = key
        self._shown = shown
        self._path = path

    def read(self, value: object, event: object, meta: Mapping[str, object]) -> object:
        key = self._key(event, meta)
        if not is_key(key):
            raise CannotApply(f"`{self._path}`: `{self._shown}` is {kind_of(key)}, neither a key nor an index")
        return Fixed(key, self._shown, self._path).read(value, event, meta)


class Cut:
    """A slice."""

    def __init__(self, begin: Evaluate, end: Evaluate, shown: str, path: str) -> None:
        self._begin = begin
        self._end = end
        self._shown = shown
        self._path = path

    def read(self, value: object, event: object, meta: Mapping[str, object]) -> object:
        begin, end = self._begin(event, meta), self._end(event, meta)
        if not (is_index(begin) and is_index(end)):
            raise CannotApply(f"`{self._path}`: {NO_BOUND}")
        found = cut(value, begin, end)
        if found is None:
            raise Missing(f"`{self._path}`: {kind_of(value)} without `{self._shown}`")
        return found


def cut(value: object, begin: Any, end: Any) -> list[object] | None:
    """None: the array does not reach from `begin` to `end`, or it is none."""
    if not _is_array(value) or not begin <= end <= len(value):
        return None
    return value[begin:end]


def _is_array(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def is_key(value: object) -> bool:
    return isinstance(value, str) or is_index(value)


def is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def shown(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def reading(of: Evaluate | None, steps: Sequence[Step]) -> Evaluate:
    """`of` is None for the event itself."""
    keys = tuple((step.key, step.kind, step) for step in steps if isinstance(step, Fixed))
    if len(keys) < len(steps):
        return partial(_read_steps, of or _event, steps)
    return partial(_read_of, of, keys) if of else partial(_read_fixed, keys)


def _event(event: object, meta: Mapping[str, object]) -> object:
    return event


Keys = tuple[tuple[Any, Any, Fixed], ...]  # a key, and the type of what has such keys: mypy cannot pair them


def _read_fixed(keys: Keys, event: object, _meta: Mapping[str, object]) -> object:
    value: Any = event
    for key, kind, step in keys:
        if type(value) is not kind:  # exact: what JSON makes
            raise step.missing(value)
        try:
            value = value[key]
        except (KeyError, IndexError):
            raise step.missing(value) from None
    return value


def _read_of(of: Evaluate, keys: Keys, event: object, meta: Mapping[str, object]) -> object:
    return _read_fixed(keys, of(event, meta), meta)


def _read_steps(of: Evaluate, steps: Sequence[Step], event: object, meta: Mapping[str, object]) -> object:
    value = of(event, meta)
    for step in steps:
        value = step.read(value, event, meta)
    return value
