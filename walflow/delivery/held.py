"""Events that are only in memory, by the positions that their sender has given them."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from walflow.event import Frames

O = TypeVar("O")


class HeldEvents(Generic[O]):
    """The events of a block from position `first` on. `metas`: of each, None if they have none of their own. `left`:
    how many are not settled, and were not cut out; `size`: bytes without what was cut out.
    `owner`: what else is known of them."""

    __slots__ = ("first", "frames", "left", "metas", "owner", "size")

    def __init__(self, owner: O, first: int, frames: Frames, metas: Sequence[Mapping[str, object]] | None) -> None:
        self.owner = owner
        self.first = first
        self.frames = frames
        self.metas = metas
        self.left = frames.count
        self.size = len(frames.data)

    def __repr__(self) -> str:
        return f"<HeldEvents {self.first} of {self.frames.count} events, {self.left} left>"

    def between(self, first: int, last: int) -> "tuple[Frames, Sequence[Mapping[str, object]] | None]":
        """These positions' events, both included."""
        start, stop = first - self.first, last - self.first + 1
        return self.frames.slice(start, stop), None if self.metas is None else self.metas[start:stop]

    def cut(self, first: int, last: int) -> "HeldEvents[O]":
        """Takes the events `first` to `last` out."""
        frames, metas = self.between(first, last)
        self.left -= frames.count
        self.size -= len(frames.data)
        return HeldEvents(self.owner, first, frames, metas)
