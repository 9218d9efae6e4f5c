"""Shared by both framings with a length before each event."""

from collections.abc import Callable, Iterator
from typing import Final

from walflow.framing.steps import MANY, Decoder, Item, Refused, Several

ABSURD: Final = 1 << 32  # a length from here on is no length: the stream is something else, or out of step

Header = tuple[int, int]  # how long the event is, and where it begins
ReadHeader = Callable[[bytes, int], Header | None]  # None: not all of it is there yet. Raises NoLength.


class NoLength(ValueError):
    """The bytes are no length. The text says what they are."""


class LengthStep:
    """A step that divides a stream into events by the length before each."""

    cuts = True

    def __init__(self, name: str, header: ReadHeader) -> None:
        self.name = name
        self._header = header

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _Decoder(self._header, limit)

    def takes(self, limit: int) -> int:
        return limit


class _Decoder(Decoder):
    def __init__(self, header: ReadHeader, limit: int) -> None:
        self._header = header
        self._limit = limit
        self._tail = bytearray()
        self._wanted = 0  # bytes that `_tail` needs before it is looked at again: else each read looks at all of it
        self._skip = 0  # bytes to come of an event that is refused

    def feed(self, piece: bytes) -> Iterator[Item]:
        if self._skip:
            skipped = min(self._skip, len(piece))
            self._skip -= skipped
            piece = piece[skipped:]
        if self._tail:
            self._tail += piece
            if len(self._tail) < self._wanted:
                return
            piece = bytes(self._tail)
            self._tail.clear()
        try:
            yield from self._cut(piece)
        except NoLength as error:
            yield Refused(f"{error}: where the next event begins is not known any more", ends=True)

    def _cut(self, data: bytes) -> Iterator[Item]:
        read, limit, size = self._header, self._limit, len(data)
        start = self._wanted = 0
        found: list[bytes] = []
        try:
            while (header := read(data, start)) is not None:
                length, begin = header
                end = begin + length
                if length > limit:
                    yield Several(found)
                    found = []
                    reason = f"event of {length} bytes exceeds max_event_bytes, {limit}"
                    if length >= ABSURD:
                        raise NoLength(reason)
                    yield Refused(reason)
                    self._skip = max(end - size, 0)
                elif end > size:
                    self._wanted = end - start
                    break
                else:
                    found.append(data[begin:end])
                    if len(found) == MANY:
                        yield Several(found)
                        found = []
                start = end
        except NoLength:
            yield Several(found)
            raise
        yield Several(found)
        self._tail += data[start:]

    def lost(self) -> Iterator[Item]:
        if self._tail:
            yield Refused("the rest of an event is lost", piece=bytes(self._tail))
        self._tail.clear()
        self._skip = 0

    def finish(self, *, complete: bool) -> Iterator[Item]:
        if self._tail:
            yield Refused("the stream ended inside an event", piece=bytes(self._tail))
        self._tail.clear()
        self._skip = 0
