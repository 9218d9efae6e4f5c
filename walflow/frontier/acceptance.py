"""What a log will send once an operator accepts that it, or the receiver, went back."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walflow.frontier.value import Frontier
from walflow.positions import Range


class Acceptance(NamedTuple):
    """Numbers of events. `known`: the receiver has them. `new`: it gets them.
    `lost`: positions that it had confirmed, has not now, and does not get again."""

    known: int
    new: int
    lost: int


def accepted(seen: Frontier | None, sent: Mapping[int, Sequence[Range]], confirmed: int) -> Acceptance:
    """`seen`: what the receiver has. `sent`: by term, the positions that the log is going to send. `confirmed`: the
    highest position that the receiver once had."""
    known = new = back = 0
    has = seen.highest if seen is not None else 0
    for term, ranges in sent.items():
        for first, last in ranges:
            back += max(0, min(last, confirmed) - max(first - 1, has))
            for begin, end, is_known in seen.has(term, first, last) if seen is not None else [(first, last, False)]:
                if is_known:
                    known += end - begin + 1
                else:
                    new += end - begin + 1
    return Acceptance(known, new, max(0, confirmed - has - back))
