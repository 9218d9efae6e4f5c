"""How large a value is that a script makes, where it may be much larger than the event: `[x, x]` thirty times names
2^30 elements and takes no memory, until it is written or compared.

Generated code weighs what it makes, if `walflow.compile.growth` cannot tell that it stays small. A container is
weighed once: `weights` remembers it. So each costs its own items, and not what these contain.
"""

from typing import Any, Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import exact

HEAVIEST: Final = 16 << 20  # bytes, about, of one value
MOST: Final = 64  # times the size of the event: code that may make more weighs what it makes
UNWEIGHED: Final = (
    HEAVIEST // MOST
)  # bytes of events: of no more than that, code that does not weigh makes no more than HEAVIEST
ITEM: Final = 8  # bytes of a number, and of what is around each other value

MOST_USED: Final = (
    64 << 20
)  # bytes, about, that an event's values are compared, walked and handed to functions in all
_USED: Final = 0  # no identity

Weights = dict[int, tuple[object, int]]
"""By identity. It holds the values, so that no other one gets the same identity."""


def weigh(value: Any, weights: Weights) -> int:
    """Raises CannotApply for a value that is too large."""
    kind = exact(value)
    if kind is not list and kind is not dict:
        return _bounded(ITEM + len(value)) if kind is str or kind is bytes else ITEM
    known = weights.get(id(value))
    if known is not None:
        return known[1]
    size = ITEM
    if kind is dict:
        size += sum(map(len, value)) + ITEM * len(value)
    for inner in value.values() if kind is dict else value:
        kind = exact(inner)
        if kind is list or kind is dict:
            known = weights.get(id(inner))
            if known is None:
                known = weights[id(inner)] = inner, _walked(inner, weights)
            size += known[1]
        elif kind is str or kind is bytes:
            size += ITEM + len(inner)
        else:
            size += ITEM
        if size > HEAVIEST:
            raise _too_large()
    weights[id(value)] = value, size
    return size


def grown(size: int, value: Any, weights: Weights) -> int:
    """The size of an array that gets this value too."""
    return _bounded(size + weigh(value, weights))


def used(value: Any, weights: Weights) -> None:
    """It is walked, or handed to a function.
    Raises CannotApply where the event has had more than MOST_USED of that."""
    _use(weigh(value, weights), weights)


def compared(left: Any, right: Any, weights: Weights) -> None:
    """The same. A comparison ends with the smaller one."""
    kind = exact(left)
    if kind is exact(right) and (kind is list or kind is dict or kind is str or kind is bytes):
        _use(min(weigh(left, weights), weigh(right, weights)), weights)


def _use(size: int, weights: Weights) -> None:
    known = weights.get(_USED)
    total = size if known is None else size + known[1]
    if total > MOST_USED:
        raise CannotApply(f"it would read more than {MOST_USED:,} bytes of what it has made and of the event")
    weights[_USED] = None, total


def weight_of(value: object) -> int:
    """Raises CannotApply for a value that is too large."""
    return weigh(value, {})


def _walked(value: Any, weights: Weights) -> int:
    """Only what is not known yet is walked, and no further than to the bound."""
    size = ITEM
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if exact(one) is dict:
            size += sum(map(len, one)) + ITEM * len(one)
        for inner in one.values() if exact(one) is dict else one:
            kind = exact(inner)
            if kind is list or kind is dict:
                known = weights.get(id(inner))
                if known is None:
                    waiting.append(inner)
                    size += ITEM
                else:
                    size += known[1]
            else:
                size += ITEM + len(inner) if kind is str or kind is bytes else ITEM
        if size > HEAVIEST:
            raise _too_large()
    return size


def _bounded(size: int) -> int:
    if size > HEAVIEST:
        raise _too_large()
    return size


def _too_large() -> CannotApply:
    return CannotApply(f"it would make something larger than {HEAVIEST:,} bytes")
