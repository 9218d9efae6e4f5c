"""Whether a value matches a case of `match`, in full. Generated code contains the tests of records and of plain
values.

A pattern is a tree that is made at load. Expressions in a pattern that depend on the event are evaluated before the
case is tried; their values are `given`. `fits` returns what the name before the pattern is bound to: for a record
pattern a record of the named fields, for an array pattern the places and values that match, for a tuple pattern an
array of values.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.extractors import NO_MATCH
from walflow_kernel.operators import BINARY
from walflow_kernel.paths import ABSENT, LostWay
from walflow_kernel.values import equal, is_array, is_record

FieldWord = Literal["present", "absent", "fits", "==", "!=", "<", "<=", ">", ">="]

NO_CASE: Final = "no case of this `match` fits"


class Anything(NamedTuple):
    """`_`"""


class Equals(NamedTuple):
    """A value that is known at load."""

    value: object


class EqualsGiven(NamedTuple):
    at: int


class Extracts(NamedTuple):
    extract: Callable[[object], object]


class FieldTest(NamedTuple):
    """One field of a record pattern. Its result is stored under `store`. The operand of a comparison is `value` if it
    is known at load; otherwise `given` is its index in the given values."""

    key: str
    word: FieldWord
    store: str
    pattern: "Pattern | None" = None
    value: object = None
    given: int | None = None


class RecordPattern(NamedTuple):
    fields: tuple[FieldTest, ...]


class ArrayPattern(NamedTuple):
    """Each item must match at least one element, at any place."""

    items: "tuple[Pattern, ...]"


class TuplePattern(NamedTuple):
    """Each item must match the element at its place. `open`: further elements are allowed."""

    items: "tuple[Pattern, ...]"
    open: bool


Pattern = Anything | Equals | EqualsGiven | Extracts | RecordPattern | ArrayPattern | TuplePattern


def fits(pattern: Pattern, value: object, given: Sequence[object] = ()) -> object:
    """The value for the name of the pattern, or NO_MATCH."""
    if value is ABSENT or type(value) is LostWay:
        return NO_MATCH
    match pattern:
        case Anything():
            return value
        case Equals():
            return pattern.value if equal(value, pattern.value) else NO_MATCH
        case EqualsGiven():
            return given[pattern.at] if equal(value, given[pattern.at]) else NO_MATCH
        case Extracts():
            return pattern.extract(value)
        case RecordPattern():
            return _record(pattern, value, given)
        case ArrayPattern():
            return _array(pattern, value, given)
        case TuplePattern():
            return _tuple(pattern, value, given)


def _record(pattern: RecordPattern, value: object, given: Sequence[object]) -> object:
    if not is_record(value):
        return NO_MATCH
    made: dict[str, object] = {}
    for field in pattern.fields:
        found = value.get(field.key, ABSENT)
        if field.word == "absent":
            if found is not ABSENT:
                return NO_MATCH
            continue
        if field.word == "fits":
            assert field.pattern is not None
            found = fits(field.pattern, found, given)
            if found is NO_MATCH:
                return NO_MATCH
        elif field.word != "present" and not holds(
            field.word, found, field.value if field.given is None else given[field.given]
        ):
            return NO_MATCH
        if found is ABSENT:
            return NO_MATCH
        made[field.store] = found
    return made


def _array(pattern: ArrayPattern, value: object, given: Sequence[object]) -> object:
    if not is_array(value):
        return NO_MATCH
    made: list[object] = []
    for item in pattern.items:
        if type(item) is Anything:
            if not value:
                return NO_MATCH
            continue
        pairs = [[at, found] for at, one in enumerate(value) if (found := fits(item, one, given)) is not NO_MATCH]
        if not pairs:
            return NO_MATCH
        made += pairs
    return made


def _tuple(pattern: TuplePattern, value: object, given: Sequence[object]) -> object:
    items = pattern.items
    if not is_array(value) or len(value) < len(items) or (len(value) > len(items) and not pattern.open):
        return NO_MATCH
    made: list[object] = []
    for item, one in zip(items, value, strict=False):
        found = fits(item, one, given)
        if found is NO_MATCH:
            return NO_MATCH
        made.append(found)
    return made


def holds(symbol: str, value: object, other: object) -> bool:
    """Compares with a member, which may be missing."""
    if value is ABSENT or type(value) is LostWay:
        return False
    return BINARY[symbol](value, other) is True


def same(value: object, other: object) -> bool:
    """Whether a member, which may be missing, equals the value."""
    return value is not ABSENT and type(value) is not LostWay and equal(value, other)


def no_case() -> CannotApply:
    return CannotApply(NO_CASE)
