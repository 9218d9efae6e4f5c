"""One step of a chain of preprocessors: what comes in pieces leaves in other pieces.

A step that cuts (`separate`, `length-prefixed`) takes its pieces as one stream; for one that decodes (`base64`,
`decompress`) behind such a step each piece stands for itself. What a step cannot take leaves as a `Refused` among the
pieces, so that nothing is lost without a word. Everything is done as it is asked for: a piece that expands
to a thousand is never there at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol


class Refused(NamedTuple):
    """An error in the place of a piece. `ends`: no later piece of this stream can be found any more. `piece`: what
    cannot be taken, for the record at `err`."""

    reason: str
    ends: bool = False
    piece: bytes = b""


class Worked(NamedTuple):
    """Reports bytes that were made, perhaps without a piece, so that the work of a turn is limited."""

    size: int


class Several(NamedTuple):
    """Pieces in a row, no more than MANY: of a step that finds many of them in little time."""

    pieces: list[bytes]


MANY: Final = 1024

Piece = bytes | Refused | Worked
Item = Piece | Several


class Decoder(Protocol):
    """The state of a step for one stream. Iterate over the result of `feed` and the other methods to its end before
    the next call."""

    def feed(self, piece: bytes) -> Iterator[Item]: ...

    def lost(self) -> Iterator[Item]:
        """A piece is missing here, so bytes that are held will not be continued. The default holds none."""
        return iter(())

    def finish(self, *, complete: bool) -> Iterator[Item]:
        """No more pieces will come. `complete`: this is the end of the data, not only of the connection. The default
        holds nothing."""
        return iter(())


class Step(Protocol):
    """A configured step. `cuts`: it takes its pieces as one stream."""

    name: str
    cuts: bool

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        """`limit`: the most bytes of an outgoing piece. `cut_before`: each incoming piece stands alone. `cut_after`:
        the output is taken as one stream."""
        ...

    def takes(self, limit: int) -> int:
        """The bytes that an incoming piece may need so that a piece of `limit` bytes leaves."""
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
            yield Refused(f"not {self._name}: {error}", piece=piece)
            return
        if self._limit is not None and len(decoded) > self._limit:
            yield Refused(f"event of {len(decoded)} bytes exceeds max_event_bytes, {self._limit}")
        else:
            yield decoded


def decoders(steps: Sequence[Step], limit: int, *, messages: bool, cut: bool) -> list[Decoder]:
    """The decoders of one stream, or of one with messages, which are pieces already. The pieces that leave the last
    step have at most `limit` bytes, or are `cut` then."""
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


def each(items: Iterable[Item]) -> Iterator[Piece]:
    """One by one."""
    for item in items:
        if isinstance(item, Several):
            yield from item.pieces
        else:
            yield item


def last_pieces(steps: Sequence[Decoder], *, complete: bool) -> Iterator[Item]:
    items: Iterator[Item] = iter(())
    for step in steps:
        items = _to_the_end(step, items, complete=complete)
    return items


def _through(step: Decoder, items: Iterable[Item]) -> Iterator[Item]:
    for item in each(items):
        if isinstance(item, bytes):
            yield from step.feed(item)
        else:
            if isinstance(item, Refused):
                yield from step.lost()
            yield item


def _to_the_end(step: Decoder, items: Iterable[Item], *, complete: bool) -> Iterator[Item]:
    yield from _through(step, items)
    yield from step.finish(complete=complete)
