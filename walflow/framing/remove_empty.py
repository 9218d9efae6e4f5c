"""Drops empty pieces: tremor's preprocessor `remove-empty`. They are no events, so they are not counted."""

from collections.abc import Iterator, Mapping
from typing import Final

from walflow.framing.processor import Processor
from walflow.framing.steps import Decoder, Item, Worked
from walflow.plugins import known_keys


class RemoveEmpty:
    name = "remove-empty"
    cuts = False

    def __repr__(self) -> str:
        return "<remove-empty>"

    def decoder(self, limit: int, *, cut_before: bool, cut_after: bool) -> Decoder:
        return _Decoder()

    def takes(self, limit: int) -> int:
        return limit


class _Decoder(Decoder):
    def feed(self, piece: bytes) -> Iterator[Item]:
        yield piece or Worked(1)


def _step(config: Mapping[str, object]) -> RemoveEmpty:
    known_keys("remove-empty", config)
    return RemoveEmpty()


PROCESSOR: Final = Processor(description="Drops empty pieces.", step=_step, wants_pieces=True)
