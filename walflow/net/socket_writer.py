"""Writes blocks to a socket, in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from walflow.event import Block

# uvloop keeps all that one turn handed to it until the last byte of it is in the kernel: with 8 MiB for a peer that
# reads slowly, 50 such peers would hold 400 MiB of which 50 are unsent
AT_ONCE: Final = 256 << 10

Encode = Callable[[Sequence[Block]], Sequence[bytes]]


def plain(blocks: Sequence[Block]) -> Sequence[bytes]:
    return [block.frames.data for block in blocks]


class Writing:
    """`written` gets each block once, when its last byte is in the kernel. `encode`: the bytes of some blocks, called
    in order when they are given to the transport. This object owns the transport: other writers must write complete
    frames, and the protocol must pass `resume_writing` on to `drained`."""

    __slots__ = ("_encode", "_first", "_handed", "_settled", "_transport", "_waiting", "_waiting_bytes", "_written")

    def __init__(
        self, transport: asyncio.Transport, written: Callable[[Iterable[Block]], None], encode: Encode = plain
    ) -> None:
        transport.set_write_buffer_limits(0, 0)  # else it cannot be told when all is in the kernel
        self._transport = transport
        self._written = written
        self._encode = encode
        self._handed: list[Block] = []  # to the transport
        self._waiting: deque[Block] = deque()
        self._waiting_bytes = 0
        self._first = 0  # how many came before those that are handed
        self._settled = 0  # how many were passed to `written`

    def __repr__(self) -> str:
        return f"<Writing {self.unwritten} bytes, {len(self._handed)} + {len(self._waiting)} blocks>"

    @property
    def settled(self) -> int:
        """The number of blocks that were passed to `written`."""
        return self._settled

    @property
    def unwritten(self) -> int:
        return self._transport.get_write_buffer_size() + self._waiting_bytes

    def add(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._waiting.append(block)
            self._waiting_bytes += len(block.frames.data)
        if not self._handed:
            self._hand()

    def drained(self) -> None:
        """Called when all data of the transport is in the kernel."""
        self._settle_handed()
        self._hand()

    def settle(self) -> None:
        """Passes everything to `written` now. The data is still written if the connection lasts."""
        count = self._first + len(self._handed) + len(self._waiting)
        owed = [*self._handed, *self._waiting][self._settled - self._first :]
        self._settled = count
        self._written(owed)

    def give_up(self) -> list[Block]:
        """The connection has ended. Returns the blocks that were never passed to `written`."""
        owed = [*self._handed, *self._waiting][self._settled - self._first :]
        self._handed = []
        self._waiting.clear()
        self._waiting_bytes = 0
        return owed

    def _hand(self) -> None:
        transport = self._transport
        while self._waiting:
            self._take()
            pieces = self._encode(self._handed)
            if len(pieces) == 1:
                transport.write(pieces[0])
            elif pieces:
                transport.writelines(pieces)
            if transport.get_write_buffer_size():
                return
            self._settle_handed()

    def _take(self) -> None:
        size = 0
        waiting = self._waiting
        while waiting and (not size or size + len(waiting[0].frames.data) <= AT_ONCE):
            block = waiting.popleft()
            size += len(block.frames.data)
            self._handed.append(block)
        self._waiting_bytes -= size

    def _settle_handed(self) -> None:
        handed, self._handed = self._handed, []
        before = self._settled - self._first  # settled already
        self._first += len(handed)
        if before < len(handed):
            self._settled = self._first
            self._written(handed[before:] if before else handed)
