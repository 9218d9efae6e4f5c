"""The space that a log takes on disk. The budget limits all chunks and spares together.

A chunk is charged with its whole capacity when it begins, and gets back the unused part when it is sealed. So an
append to it needs no further check, and the disk never contains more than was charged.
"""

from typing import Final

from walflow.wal.chunk import Chunk
from walflow.wal.format import CHUNK_START

PREALLOCATE: Final = 64 << 10  # chunks of this size and above
SPARES: Final = 2


class Space:
    """`used`: the bytes that count in the budget, with spares. `preallocate`: whether new chunks are. `pressed`: a
    writer waits for room. The tail is the chunk that takes records, None if there is none."""

    def __init__(self, chunk_size: int, max_chunks: int, *, preallocates: bool) -> None:
        self.budget = chunk_size * max_chunks
        self.used = 0
        self.preallocate = preallocates and chunk_size >= PREALLOCATE
        self.pressed = False
        self._chunk_size = chunk_size
        self._sealed = 0  # bytes of the chunks that take no more records
        self._spares: list[str] = []
        self._recharged: set[Chunk] = set()  # of the history, to become spares
        self._max_spares = max(1, min(SPARES, max_chunks // 8)) if self.preallocate else 0

    def occupy(self, chunks: list[Chunk]) -> None:
        """Charges what was found when the log was opened. All of it is sealed."""
        self.used = self._sealed = sum(chunk.capacity for chunk in chunks)

    def fill(self, tail: Chunk | None) -> float:
        """The share of the budget that records take, 0 to 1."""
        return (self._sealed + (tail.end if tail is not None else 0)) / self.budget

    def room(self, tail: Chunk | None) -> int:
        """The most bytes of a chunk that begins now, after this tail."""
        slack = tail.capacity - tail.end if tail is not None else 0
        return self.budget - self.used + len(self._spares) * self._chunk_size + slack

    def fits(self, size: int, tail: Chunk | None) -> bool:
        """Whether a record that takes this many bytes in its chunk has room now."""
        if tail is not None and tail.end + size <= tail.capacity:
            return True
        if CHUNK_START + size <= self.room(tail):
            return True
        self.pressed = True
        return False

    def take(self, needed: int, unneeded: list[str]) -> tuple[str | None, int]:
        """A spare, or room for a new file. It is as large as a chunk or as the record needs, or smaller if less room
        is left. `unneeded` gets the spares that must be deleted before it is written."""
        self.pressed = False
        if needed <= self._chunk_size and self._spares:
            return self._spares.pop(), self._chunk_size
        while self.budget - self.used < needed:
            unneeded.append(self._spares.pop())
            self.used -= self._chunk_size
        capacity = min(max(self._chunk_size, needed), self.budget - self.used)
        self.used += capacity
        return None, capacity

    def seal(self, chunk: Chunk, needed: int) -> None:
        """Ends a chunk before another one of `needed` bytes. Its unused rest is given back if that is worth a
        truncation. Otherwise it is kept, because a file that was cut cannot be recycled."""
        rest = chunk.capacity - chunk.end
        if not self.preallocate or rest > chunk.capacity // 16 or self.room(None) < needed:
            self.used -= rest
            chunk.capacity = chunk.end
        self.end(chunk)

    def end(self, chunk: Chunk) -> None:
        """Counts the chunk as sealed, with its whole capacity."""
        self._sealed += chunk.capacity

    def keep(self, chunk: Chunk) -> None:
        """It is sealed, and goes over to the history, which has a bound of its own."""
        self._sealed -= chunk.capacity
        self.used -= chunk.capacity

    def choose_spares(self, dropped: list[Chunk], *, kept: bool = False) -> dict[Chunk, str]:
        """Those of the chunks that will be reused, and the name they get. `kept`: they were in the history, and are
        charged now."""
        spares: dict[Chunk, str] = {}
        for chunk in dropped:
            if len(self._spares) + len(spares) >= self._max_spares:
                break
            if chunk.is_whole and chunk.capacity == self._chunk_size:
                if kept:
                    if self.used + chunk.capacity > self.budget:
                        break
                    self.used += chunk.capacity
                    self._recharged.add(chunk)
                spares[chunk] = f"spare.{chunk.first:020d}"
        return spares

    def free(self, dropped: list[Chunk], spares: dict[Chunk, str], *, kept: bool = False) -> None:
        """Gives back the chunks that were deleted. The spares stay charged. `kept`: as above."""
        self._spares += spares.values()
        for chunk in dropped:
            if not kept:
                self._sealed -= chunk.capacity
            if chunk not in spares and (not kept or chunk in self._recharged):
                self.used -= chunk.capacity
        self._recharged.clear()
