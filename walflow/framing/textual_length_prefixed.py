"""Events with their length before them in digits and a space, as in syslog over TCP (RFC 5425, 6587): tremor's
`textual-length-prefixed`, in both directions.

As in tremor, any ASCII white space ends the digits.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from walflow.framing.counted import Header, LengthStep, NoLength
from walflow.framing.processor import Processor
from walflow.plugins import known_keys

DIGITS: Final = 10  # of a length; tremor's has 32 bits

_length = re.compile(rb"(\d{1,%d})([\t\n\f\r ])" % DIGITS).match
_beginning = re.compile(rb"\d{0,%d}\Z" % DIGITS).match


class TextualLengthPrefixed:
    name = "textual-length-prefixed"
    config: Mapping[str, object] = {}
    countable = True

    def __repr__(self) -> str:
        return "<TextualLengthPrefixed>"

    def count(self, data: bytes) -> int:
        return sum(1 for _ in _bounds(data))

    def index(self, data: bytes) -> Sequence[int]:
        return [end for _, end in _bounds(data)]

    def frames(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in pairwise((0, *self.index(data)))]

    def payloads(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in _bounds(data)]

    def join(self, payloads: Iterable[bytes]) -> bytes:
        return b"".join([part for payload in payloads for part in (b"%d " % len(payload), payload)])


def _bounds(data: bytes) -> Iterator[tuple[int, int]]:
    end = 0
    while (header := _header(data, end)) is not None:
        length, begin = header
        end = begin + length
        yield begin, end


def _header(data: bytes, start: int) -> Header | None:
    found = _length(data, start)
    if found is not None:
        return int(found[1]), found.end()
    if len(data) - start > DIGITS or _beginning(data, start) is None:
        raise NoLength(f"{data[start : start + DIGITS + 1]!r} is no length")
    return None


TEXTUAL_LENGTH_PREFIXED: Final = TextualLengthPrefixed()


def _step(config: Mapping[str, object]) -> LengthStep:
    known_keys(TextualLengthPrefixed.name, config)
    return LengthStep(TextualLengthPrefixed.name, _header)


def _framing(config: Mapping[str, object]) -> TextualLengthPrefixed:
    known_keys(TextualLengthPrefixed.name, config)
    return TEXTUAL_LENGTH_PREFIXED


PROCESSOR: Final = Processor(
    description=(
        "The event's length comes before each event, as digits and a space, as in syslog over TCP (RFC 6587)."
    ),
    step=_step,
    framing=_framing,
    cuts=True,
)
