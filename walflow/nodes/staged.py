"""A stream whose bytes go through a chain of steps before they are events.

Decompressed data may be a thousand times as large as the input. So it is decoded piece by piece, only while events
are wanted, and at most one turn at a time. The rest stays encoded.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from walflow.event import Codec, StreamId
from walflow.framing import Incoming, Several, Worked, decoders, frames_of, last_pieces, pieces
from walflow.framing.steps import Item
from walflow.nodes.ingress import Delivery, IngressStream

GATHER: Final = 256 << 10  # bytes of decoded events that are validated together
TURN: Final = 512 << 10  # decoded bytes of one turn
ITEM: Final = 32  # what one step costs at least, as a number of decoded bytes


class StagedStream(IngressStream):
    """`broken` is called when the rest of the stream cannot be read: the connector then closes the connection."""

    __slots__ = (
        "_broken",
        "_cut",
        "_dead",
        "_decoders",
        "_discarded",
        "_ending",
        "_pumping",
        "_work",
    )

    def __init__(
        self,
        to: Delivery,
        stream_id: StreamId,
        meta: Mapping[str, object],
        codec: Codec,
        incoming: Incoming,
        max_event_bytes: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
        broken: Callable[[], None],
    ) -> None:
        super().__init__(to, stream_id, meta, codec, incoming.framing, max_event_bytes, pause, resume)
        self._cut = incoming.cut
        self._decoders = decoders(incoming.steps, self._max_bytes, messages=incoming.messages, cut=incoming.cut)
        self._work: deque[Iterator[Item]] = deque()
        self._broken = broken
        self._pumping = False
        self._dead = False
        self._discarded = 0
        self._ending: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        if self._dead:
            self._discarded += len(data)
            return
        self._work.append(pieces(self._decoders, data))
        self._pump()

    def feed_messages(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            self.feed(message)

    def eof(self, *, complete: bool) -> None:
        if self._ending is None:
            self._end(partial(super().eof, complete=complete), complete=complete)

    def close(self) -> None:
        if self._ending is None:
            self._end(super().close, complete=False)

    def abandon(self) -> None:
        self._work.clear()
        super().abandon()

    def rest(self) -> bytes | None:
        return None

    def _end(self, ending: Callable[[], None], *, complete: bool) -> None:
        """Calls `ending` when all bytes that came are decoded."""
        self._ending = ending
        if not self._dead:
            self._work.append(last_pieces(self._decoders, complete=complete))
        self._pump()

    def resume(self) -> None:
        self._shut = False
        if self._work and not self._yielded:
            self._yield_turn()  # also if several streams are resumed, only one has its turn now
        self._set_source()

    def _turn(self) -> None:
        self._yielded = False
        self._do_held()
        self._pump()
        self._set_source()

    def _pump(self) -> None:
        if self._pumping:  # delivering may settle events at once, and so resume this stream
            return
        self._pumping = True
        decoded = 0
        while self._work and not self._shut and not self._yielded:
            if decoded >= TURN:
                self._yield_turn()
                break
            decoded += self._advance()
        self._pumping = False
        if not self._work and not self._held and self._ending is not None:
            ending, self._ending = self._ending, _ended
            if self._discarded:
                self._to.refuse(self, [(b"", f"{self._discarded} bytes after it are dropped")])
            ending()

    def _advance(self) -> int:
        """Delivers some of the bytes that are to be decoded. Returns the work that this was, in bytes."""
        found: list[bytes] = []
        refused: list[tuple[bytes, str]] = []
        size = 0
        for item in self._work[0]:
            size += ITEM
            if isinstance(item, Several):
                found += item.pieces
                size += sum(map(len, item.pieces)) + ITEM * len(item.pieces)
            elif isinstance(item, bytes):
                found.append(item)
                size += len(item)
            elif isinstance(item, Worked):
                size += item.size
            else:
                refused.append((item.piece, item.reason))
                if self._cut:
                    self._cut_off(found, refused)
                if item.ends:
                    self._dead = True
                    break
            if size >= GATHER or self._yielded:
                break
        else:
            self._work.popleft()
        self._take_pieces(found)
        if refused:
            self._to.refuse(self, refused)
        if self._dead:
            self._work.clear()
            self._broken()
        return size

    def _cut_off(self, found: list[bytes], refused: list[tuple[bytes, str]]) -> None:
        """The next bytes do not continue an event that began before."""
        self._take_pieces(found)
        found.clear()
        self._end_oversized()
        if self._tail:
            refused.append((bytes(self._tail), "the rest of an event is lost"))
            self._tail.clear()

    def _take_pieces(self, found: list[bytes]) -> None:
        if not found:
            return
        if self._cut:
            super().feed(b"".join(found))
        else:
            self._take(*frames_of(found))


def _ended() -> None: ...
