"""What a record of the letters says of its events beside what the sink had got: metadata of the whole record, under
`letter`. All of them were rejected for one reason."""

from collections.abc import Mapping, Sequence
from typing import Final, Self

import msgspec

from walflow.positions import Range
from walflow.wal.cursor import Acked

LETTER: Final = "letter"
POSITION: Final = "letter_of"  # in its log; an event that was made of several has none
_convert = msgspec.convert


class Letter(msgspec.Struct, frozen=True, omit_defaults=True):
    """`rejected_ns`: when. `ingest_ns`: when the events had come in. `log`: the id of the log that they are in; the
    metadata of each event says in `POSITION` where. `tries`: how often the sink has rejected them. `port`: the input
    of the sink. `again_for`: of events that go to the sink again, the numbers of their letters."""

    reason: str
    rejected_ns: int
    ingest_ns: int
    log: str = ""
    tries: int = 1
    port: str = "in"
    again_for: Sequence[Range] = ()

    @property
    def goes(self) -> bool:
        return bool(self.again_for)

    def going(self, letters: Sequence[Range]) -> "Letter":
        """Of the events of these letters, which go to the sink again."""
        return msgspec.structs.replace(self, again_for=letters)

    def rejected_again(self, reason: str, now_ns: int) -> "Letter":
        """A new letter of events that had gone to the sink again."""
        replace = msgspec.structs.replace
        return replace(self, reason=reason, rejected_ns=now_ns, tries=self.tries + 1, again_for=())

    def meta(self) -> object:
        return msgspec.to_builtins(self)

    @classmethod
    def of(cls, meta: Mapping[str, object]) -> Self | None:
        """None: the record is none of the letters."""
        try:
            return _convert(meta.get(LETTER), cls)
        except msgspec.ValidationError:
            return None


def ranges_of(numbers: Sequence[int]) -> list[Range]:
    """Of ascending numbers, which may repeat."""
    found: list[Range] = []
    for number in numbers:
        if found and number <= found[-1][1] + 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def numbers_of(ranges: Sequence[Range]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


def merged(ranges: Sequence[Range]) -> list[Range]:
    """Ascending, and without what is in two of them."""
    found = Acked()
    for first, last in ranges:
        found.add(max(first, 1) + 1, last + 1)  # nothing is at 1, so all stand above `low`
    return [(first - 1, last - 1) for first, last in found.ranges]


def without(one: Range, parts: Sequence[Range]) -> list[Range]:
    """What is left of a range without these parts of it, which are ascending."""
    left: list[Range] = []
    at = one[0]
    for first, last in parts:
        if at < first:
            left.append((at, first - 1))
        at = last + 1
    return [*left, (at, one[1])] if at <= one[1] else left
