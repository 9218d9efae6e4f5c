"""Whether a compressed file is one that was followed before it was compressed.

It is if it begins alike, and has the same bytes before the place up to which that file is acked. What comes behind is
then read from the compressed one. A program may write on while its file is compressed: then the compressed one ends
before that place, and has the same bytes at an earlier one. Bytes that are not known count as different: lines that
come twice are better than lines that are skipped.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from connectors.file.checksum import crc32c
from connectors.file.follow.checkpoint import FileMark
from connectors.file.follow.plain_file import LAST_BYTES, Head

MOST_TRIED: Final = 16  # of files that begin alike: each is another way through the compressed one


class Guess(NamedTuple):
    """It has `tail` before `offset`, and what is before that was read; if `whole`, all that is in it."""

    offset: int
    tail: Head
    whole: bool = False


NOTHING_READ: Final = Guess(0, Head())


def guesses(first: bytes, marks: Iterable[FileMark]) -> list[Guess]:
    """Of files that begin alike, the one that was read furthest first.
    `first`: the first bytes of the compressed file."""
    checksums: dict[int, int] = {}
    found: dict[tuple[int, int], FileMark] = {}
    for mark in marks:
        length = mark.head_length
        known = mark.offset <= length or mark.tail_length == LAST_BYTES
        if not mark.offset or length > len(first) or not known:
            continue
        if length not in checksums:
            checksums[length] = crc32c(first[:length])
        if checksums[length] == mark.head_crc:
            found[mark.offset, mark.tail_crc] = mark
    alike = sorted(found.values(), key=lambda mark: -mark.offset)[:MOST_TRIED]
    return [guess for mark in alike for guess in _of(mark)]


def _of(mark: FileMark) -> list[Guess]:
    earlier = [Guess(offset, Head(LAST_BYTES, crc), whole=True) for offset, crc in reversed(mark.earlier)]
    return [Guess(mark.offset, mark.tail), *earlier]


def left(untried: Sequence[Guess], ends_at: int | None) -> list[Guess]:
    """Behind a guess that was wrong. `ends_at`: the file ends before that place; None: it has other bytes there."""
    for at, guess in enumerate(untried):
        if not guess.whole or (ends_at is not None and guess.offset <= ends_at):
            return [*untried[at:]]
    return []
