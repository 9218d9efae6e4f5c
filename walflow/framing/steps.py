"""One step of a chain of preprocessors: what comes in pieces leaves in other pieces.

A step that cuts (`separate`, `length-prefixed`) takes its pieces as one stream; for one that decodes (`base64`,
`decompress`) behind such a step each piece stands for itself. What a step cannot take leaves as a `Refused` among the
pieces, so that nothing is lost without a word. Everything is done as it is asked for: a piece that expands
to a thousand is never there at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol


class Refused(NamedTuple):
    """What stands in the place of a piece that is none. `ends`: what follows on this stream cannot be told apart any
    more."""

    reason: str
    ends: bool = False


class Worked(NamedTuple):
    """So many bytes were made on the way, which may come to nothing: so that a turn is bounded."""

    size: int


Item = bytes | Refused | Worked


class Decoder(Protocol):
    """A step at work on one stream. What `feed` and its like return is to be taken to its end before the next call."""

    def feed(self, piece: bytes) -> Iterator[Item]: ...

    def lost(self) -> Iterator[Item]:
        """A piece is missing here: what is held will not be continued. Inherited: nothing is held."""
        return iter(())

    def finish(self, *, complete: bool) -> Iterator[Item]:
        """No more pieces. `complete`: that is the end, and not only of the connection. Inherited: nothing is held."""
        return iter(())


class Step(Protocol):
    """As it is configured. `cuts`: it takes its pieces as one stream."""

    name: str
    cuts: bool

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        """`limit`: bytes of a piece that leaves. `cut_before`: each piece that comes stands for itself. `cut_after`:
        what leaves is taken as one stream."""
        ...

    def takes(self, limit: int) -> int:
        """Bytes that a piece may need to have for one of `limit` bytes to leave."""
        ...


class EachPiece:
    """A step that turns each piece into one piece by a function. `decode` raises ValueError (or any subclass) for a
    piece that it cannot take: that piece leaves by the port `err` with the error's text."""

    cuts = False

    def __init__(self, name: str, decode: Callable[[bytes], bytes]) -> None:
        self.name = name
        self._decode = decode

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _EachDecoder(self.name, self._decode, None if cut_after else limit)

    def takes(self, limit: int) -> int:
        return limit


class _EachDecoder(Decoder):
    def __init__(self, name: str, decode: Callable[[bytes], bytes], limit: int | None) -> None:
        self._name = name
        self._decode = decode
        self._limit = limit

    def feed(self, piece: bytes) -> Iterator[Item]:
        try:
            decoded = self._decode(piece)
        except ValueError as error:
            yield Refused(f"not {self._name}: {error}")
            return
        if self._limit is not None and len(decoded) > self._limit:
            yield Refused(f"event of {len(decoded)} bytes exceeds max_event_bytes, {self._limit}")
        else:
            yield decoded


def decoders(steps: Sequence[Step], limit: int, *, messages: bool, cut: bool) -> list[Decoder]:
    """For one stream, or one of messages, which are pieces already. The pieces that leave the last step have up to
    `limit` bytes, or are `cut` then."""
    made: list[Decoder] = []
    cut_after = cut
    for number, step in reversed(list(enumerate(steps))):
        cut_before = messages or any(before.cuts for before in steps[:number])
        made.insert(0, step.decoder(limit, cut_before=cut_before, cut_after=cut_after))
        cut_after = step.cuts
        limit = step.takes(limit)
    return made


def pieces(steps: Sequence[Decoder], data: bytes) -> Iterator[Item]:
    items: Iterator[Item] = iter((data,))
    for step in steps:
        items = _through(step, items)
    return items


def last_pieces(steps: Sequence[Decoder], *, complete: bool) -> Iterator[Item]:
    items: Iterator[Item] = iter(())
    for step in steps:
        items = _to_the_end(step, items, complete=complete)
    return items


def _through(step: Decoder, items: Iterable[Item]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, bytes):
            yield from step.feed(item)
        else:
            if isinstance(item, Refused):
                yield from step.lost()
            yield item


def _to_the_end(step: Decoder, items: Iterable[Item], *, complete: bool) -> Iterator[Item]:
    yield from _through(step, items)
    yield from step.finish(complete=complete)
