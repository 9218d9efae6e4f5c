"""Pieces without a byte are dropped: tremor's preprocessor `remove-empty`. They are no events, so nobody counts them."""

from collections.abc import Iterator
from typing import Final

from walflow.framing.steps import Decoder, Item, Worked


class RemoveEmpty:
    name = "remove-empty"
    cuts = False

    def __repr__(self) -> str:
        return "<remove-empty>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _Decoder()

    def takes(self, limit: int) -> int:
        return limit


class _Decoder:
    def feed(self, piece: bytes) -> Iterator[Item]:
        yield piece or Worked(1)

    def lost(self) -> Iterator[Item]:
        return iter(())

    def finish(self, *, complete: bool) -> Iterator[Item]:
        return iter(())


REMOVE_EMPTY: Final = RemoveEmpty()
