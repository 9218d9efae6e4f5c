"""The state that a script keeps from one event to the next, and its limit.

A cell is a list of three: the value, the most bytes that it may have, and the bytes that came in since they were last
counted. It is plain, so a copy of it is a snapshot.

No container in the value is part of any other value: what comes in is copied, and what leaves is copied (`apart`). So
it can be changed in place.

The number of bytes is an estimate that only grows: overwritten values are not subtracted. When it exceeds the limit,
the value is counted anew, but only after a sixteenth of the limit has come in since the last count. So counting costs
a constant for each byte that comes in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.paths import PathStep, Steps, taken
from walflow_kernel.values import LEAST, MOST, TOO_DEEP, OutOfRange, exact, kind_of, out_of_range

Cell = list[Any]  # value, bytes at most, bytes that came in since they were counted
State = dict[str, Cell]
"""Of a pipeline: by the names of the nodes that keep something. Each changes its own cell in place."""

Room = list[Any]
"""Two items: the bytes of a state that one call may still lend, and the number of the event at which it stopped
because there were no more. An event may lend all of a state: a block of them would be more than fits in memory."""

DEEPEST: Final = 128  # levels: deeper, `pickle` and `deepcopy` may end at the stack
BOUND: Final = 64 << 20  # bytes that one script may keep
SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
SMALL: Final = frozenset({type(None), bool, int, float})
SMALL_BYTES: Final = 32
ENTRY_BYTES: Final = 96  # of a record's member, without its value and the characters of its key
HEAD_BYTES: Final = 64  # of a string, an array, a record


class Apart(NamedTuple):
    value: Any
    size: int
    depth: int


def cell(value: object) -> Cell:
    came = taken_apart(value)
    return [came.value, came.size, 0]


def apart(value: Any) -> Any:
    """A copy that shares no container with the original."""
    kind = exact(value)
    if kind is dict:
        if all(exact(one) in SCALARS for one in value.values()):
            return value.copy()
    elif kind is list:
        if all(exact(one) in SCALARS for one in value):
            return value.copy()
    else:
        return value
    top = value.copy()
    waiting: list[Any] = [top]
    while waiting:
        one = waiting.pop()
        for key, inner in one.items() if exact(one) is dict else enumerate(one):
            if exact(inner) is dict or exact(inner) is list:
                one[key] = copied = inner.copy()
                waiting.append(copied)
    return top


def taken_apart(value: Any) -> Apart:
    """`apart`, with its weight. Raises CannotApply for a value that cannot be kept."""
    top = [value]
    level: list[Any] = [top]
    size = depth = 0
    while level:
        depth += 1
        if depth > DEEPEST + 1:
            raise CannotApply(TOO_DEEP)
        below: list[Any] = []
        for one in level:
            if exact(one) is dict:
                size += sum(map(len, one)) + ENTRY_BYTES * len(one)
            for key, inner in one.items() if exact(one) is dict else enumerate(one):
                kind = exact(inner)
                if kind is dict or kind is list:
                    one[key] = copied = inner.copy()
                    below.append(copied)
                    size += HEAD_BYTES
                elif kind is str or kind is bytes:
                    size += HEAD_BYTES + len(inner)
                elif kind is OutOfRange or (kind is int and not LEAST <= inner <= MOST):
                    raise out_of_range()
                else:
                    size += SMALL_BYTES
        level = below
    return Apart(top[0], size, depth - 1)


def replaced(cell: Cell, value: object, bound: int) -> Any:
    """`let state = value`: the new state."""
    came = taken_apart(value)
    if came.size > bound:
        raise too_much(bound)
    cell[:3] = came.value, came.size, 0
    return came.value


def assign(cell: Cell, keys: Sequence[Any], value: object, steps: Sequence[PathStep], bound: int) -> None:
    """`let state.a.b = value`. Missing records on the way are made. If it fails, nothing has changed."""
    came = taken_apart(value)
    if came.depth + len(keys) > DEEPEST:
        raise CannotApply(TOO_DEEP)
    within = cell[0]
    missing, holder = len(keys), within  # from this key on, in this record
    for at, (key, step) in enumerate(zip(keys, steps, strict=True)):
        if exact(key) is not str:
            raise CannotApply(f"`{step.path}`: `{step.shown}` is {kind_of(key)}, not a key")
        if at < missing:
            if exact(within) is not dict:
                raise CannotApply(f"`{step.path}`: {kind_of(within)} takes no member `{step.shown}`")
            if at == len(keys) - 1 or key not in within:
                missing, holder = at, within
            else:
                within = within[key]
    made = came.value
    size = came.size
    for key in reversed(keys[missing + 1 :]):
        made = {key: made}
        size += HEAD_BYTES + ENTRY_BYTES + len(key)
    _admit(cell, size + ENTRY_BYTES + len(keys[missing]), bound)
    holder[keys[missing]] = made


def _admit(cell: Cell, size: int, bound: int) -> None:
    """Raises CannotApply if the value would be too large with so many more bytes."""
    cell[2] += size
    if cell[1] + size > bound:
        if cell[2] * 16 >= bound:
            cell[1], cell[2] = weight(cell[0]), 0
        if cell[1] + size > bound:
            raise too_much(bound)
    cell[1] += size


def weight(value: object) -> int:
    """An estimate in bytes."""
    size = 0
    waiting = [value]
    while waiting:
        one: Any = waiting.pop()
        kind = exact(one)
        if kind is dict:
            size += HEAD_BYTES + sum(map(len, one)) + ENTRY_BYTES * len(one)
            waiting += one.values()
        elif kind is list:
            size += HEAD_BYTES
            waiting += one
        else:
            size += HEAD_BYTES + len(one) if kind is str or kind is bytes else SMALL_BYTES
    return size


def size_of(value: object) -> int:
    """`weight`, quickly where the value is a number."""
    return SMALL_BYTES if exact(value) in SMALL else weight(value)


def too_much(bound: int) -> CannotApply:
    return CannotApply(f"`state` would be larger than {bound:,} bytes")


def lent(value: Any, steps: Steps, room: Room) -> Any:
    """The value of a path into the state, for a reader that may keep it."""
    value = taken(value, steps)
    kind = exact(value)
    if kind is dict or kind is list:
        came = taken_apart(value)
        room[0] -= came.size
        return came.value
    if kind is str or kind is bytes:
        room[0] -= len(value)
    return value


def snapshot(state: Mapping[str, Cell]) -> State:
    """A copy. `run` continues from it as it would from the original."""
    copied: State = apart(dict(state))
    return copied
