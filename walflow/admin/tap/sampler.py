"""Takes some of the blocks that pass."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from walflow.event import Block, Codec, Frames
from walflow.nodes.ports import PortName

HELD: Final = 4 << 20  # bytes of blocks that are taken and not shown yet


class TakenBlock(NamedTuple):
    """A block without its receipt."""

    port: PortName
    frames: Frames
    codec: Codec
    stream: int
    ingest_ns: int
    meta: Mapping[str, object]
    metas: Sequence[Mapping[str, object]] | None
    positions: Sequence[int] | None

    @property
    def rejected(self) -> bool:
        """Its events are records of `error` and `event`."""
        return bool(self.meta.get("rejected"))


class Sampler:
    """`events` and `size` count all that passed. `arrived` is called when a block is taken. Whatever comes while
    nothing is wanted passes uncopied."""

    def __init__(self, arrived: Callable[[], None]) -> None:
        self.events = 0
        self.size = 0
        self._arrived = arrived
        self._room = 0  # events
        self._taken: list[TakenBlock] = []
        self._held = 0

    def want(self, events: int) -> None:
        self._room = events

    def see(self, port: PortName, block: Block) -> None:
        frames = block.frames
        size = len(frames.data)
        self.events += frames.count
        self.size += size
        if self._room <= 0 or self._held + size > HELD:
            return
        self._room -= frames.count
        self._held += size
        of = block.codec, block.stream.number, block.ingest_ns, block.meta, block.event_metas, block.positions
        self._taken.append(TakenBlock(port, frames, *of))
        self._arrived()

    def take(self) -> list[TakenBlock]:
        taken, self._taken = self._taken, []
        self._held = 0
        return taken
