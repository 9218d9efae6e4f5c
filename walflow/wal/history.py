"""What is acked and kept: the chunks at the front of a log, up to an age and a number of bytes. The budget does not
count them (decision 0056)."""

from collections.abc import Sequence
from typing import Final

from walflow.wal.chunk import Chunk
from walflow.wal.format import NO_STAMP

PARTS: Final = 8  # of the age: so many chunks have it at least, so an event stays that much longer at most


class LogHistory:
    """`most_ns`: how old a record may become; None: no limit. `most_bytes`: how large all of it may become; 0:
    nothing is kept. `count`: so many chunks at the front of the log are it, with `bytes`."""

    def __init__(self, most_bytes: int, most_ns: int | None) -> None:
        self.count = 0
        self.bytes = 0
        self._most_bytes = most_bytes
        self._most_now = most_bytes  # less after the disk was full
        self._most_ns = most_ns

    def __repr__(self) -> str:
        return f"<LogHistory of {self.count} chunks, {self.bytes} of {self._most_now} bytes>"

    @property
    def keeps(self) -> bool:
        return self._most_bytes > 0

    def add(self, chunk: Chunk) -> None:
        self.count += 1
        self.bytes += chunk.capacity

    def shrink(self) -> bool:
        """The disk is full: its oldest chunk is to go, and it grows no more until `widen`. False: there is none."""
        if self.count:
            self._most_now = self.bytes - 1
        return self.count > 0

    def widen(self) -> None:
        self._most_now = self._most_bytes

    @property
    def overflows(self) -> bool:
        """Something is to go with the next checkpoint."""
        return self.bytes > self._most_now

    def leaves(self, chunks: Sequence[Chunk], more: int, last_ns: int, now_ns: int) -> int:
        """How many of the chunks at the front go now; `left` is to be called once they have. `more`: bytes that are
        about to be added. `last_ns`: the last stamp."""
        gone, size = 0, self.bytes + more
        stamps = self._ends(chunks, last_ns)
        while gone < self.count and (size > self._most_now or self.is_too_old(stamps[gone], now_ns)):
            size -= chunks[gone].capacity
            gone += 1
        self.count -= gone
        return gone

    def left(self, chunks: Sequence[Chunk]) -> None:
        """They are deleted, or are spares now."""
        self.bytes -= sum(chunk.capacity for chunk in chunks)

    def is_too_old(self, last_ns: int, now_ns: int) -> bool:
        return self._most_ns is not None and last_ns < now_ns - self._most_ns

    def is_long_enough(self, since_ns: int, now_ns: int) -> bool:
        """Whether a chunk that began then is to take no more: its events go together."""
        return self._most_ns is not None and since_ns < now_ns - self._most_ns // PARTS

    def _ends(self, chunks: Sequence[Chunk], last_ns: int) -> list[int]:
        """A stamp that no record of the chunk is newer than: its last one, or that of the first one behind it."""
        ends: list[int] = []
        end = last_ns
        for chunk in reversed(chunks):
            ends.append(end if chunk.until_ns == NO_STAMP else chunk.until_ns)
            if chunk.since_ns != NO_STAMP:
                end = chunk.since_ns
        return ends[::-1]
