"""When an event counts as delivered: when it is written, when a pong follows it, or when it is sent back.

A lost connection is no failure: events that are not acked are sent again on the next connection.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from connectors.ws.config import Ws, divide
from connectors.ws.wire import runs
from walflow import Block, CannotDecode, CannotEncode, Codec, Inlet
from walflow.codecs import JSON
from walflow.net import WhenWritten
from walflow.world import dice

_BEHIND = struct.Struct(">8sQ")


class MessagesWritten(WhenWritten):
    """Acks a message when it is in the kernel's buffer."""

    def __init__(self, config: Ws, inlet: Inlet) -> None:
        super().__init__(inlet)
        self._config = config

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        return [part for block in blocks for part in self._config.sendable(self._inlet, block)]

    def ping(self, count: int) -> bytes | None:
        """The payload of a ping after the next `count` blocks; None: no ping."""
        return None

    def pong(self, payload: bytes) -> None: ...

    def others(self, messages: list[bytes]) -> list[bytes]:
        """The messages that are no answers."""
        return messages


class MessagesPonged(MessagesWritten):
    """A ping follows each batch. The pong to it, or to a later ping, acks all blocks before it."""

    overdue = "no pong within pong_timeout"

    def __init__(self, config: Ws, inlet: Inlet, time: Callable[[], float]) -> None:
        super().__init__(config, inlet)
        self.timeout = config.pong_timeout / 1e9
        self._time = time
        self._since = 0.0
        self._outstanding: deque[Block] = deque()
        self._begin()

    def __repr__(self) -> str:
        return f"<MessagesPonged {len(self._outstanding)} blocks outstanding>"

    def _begin(self) -> None:
        self._connection = dice().randbytes(8)  # pongs that were not asked for, or to an earlier ping, say nothing
        self._pinged = self._ponged = 0  # blocks of this connection

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        blocks = super().sent(blocks)
        if not self._outstanding:
            self._since = self._time()
        self._outstanding += blocks
        return blocks

    def written(self, blocks: Iterable[Block]) -> None: ...

    def ping(self, count: int) -> bytes | None:
        self._pinged += count
        return _BEHIND.pack(self._connection, self._pinged)

    def pong(self, payload: bytes) -> None:
        if len(payload) != _BEHIND.size:
            return
        connection, upto = _BEHIND.unpack(payload)
        if connection != self._connection or not self._ponged < upto <= self._pinged:
            return
        count, self._ponged = upto - self._ponged, upto
        self._since = self._time()
        for _ in range(count):
            self._inlet.ack(self._outstanding.popleft())

    def unanswered(self, unwritten: Sequence[Block]) -> int:
        return sum(block.frames.count for block in self._outstanding)

    def lost(self, unwritten: Sequence[Block], cause: BaseException) -> Sequence[Block]:
        outstanding, self._outstanding = self._outstanding, deque()
        self._begin()
        return outstanding

    def waiting_since(self) -> float | None:
        return self._since if self._outstanding else None


class _Sent:
    """A block, and which of its events have been sent back."""

    __slots__ = ("back", "block", "expected", "left")

    def __init__(self, block: Block, expected: list[bytes]) -> None:
        self.block = block
        self.expected = expected
        self.left = block.frames.count
        self.back = [False] * self.left


class MessagesReturned(MessagesWritten):
    """Acks a message when it is sent back: the same bytes in the same order, or the value of a field in any order."""

    overdue = "no echo within echo_timeout"
    fails_overdue = True  # a peer that is there and does not return an event may never do so

    def __init__(
        self,
        config: Ws,
        inlet: Inlet,
        time: Callable[[], float],
        timeout: float,
        *,
        id_field: str | None,
        codec: Codec,
    ) -> None:
        super().__init__(config, inlet)
        self.timeout = timeout
        self._time = time
        self._since = 0.0
        self._id_field = id_field
        self._codec = codec
        self._outstanding: deque[_Sent] = deque()
        self._places: dict[bytes, list[tuple[_Sent, int]]] = {}  # by the id

    def __repr__(self) -> str:
        return f"<MessagesReturned {len(self._outstanding)} blocks outstanding>"

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        if not self._outstanding:
            self._since = self._time()
        going: list[Block] = []
        for block in super().sent(blocks):
            going += self._expect(block) if self._id_field is None else self._expect_ids(block)
        return going

    def _expect(self, block: Block) -> list[Block]:
        self._outstanding.append(_Sent(block, self._inlet.messages(block)))
        return [block]

    def _expect_ids(self, block: Block) -> list[Block]:
        keys = [self._key_of(_decoded(block.timed_codec, payload)) for payload in block.frames.payloads()]
        good = [key is not None for key in keys]
        reason = f"it has no {self._id_field}, by which the peer could ack it"
        parts = [block] if all(good) else divide(self._inlet, block, good, reason)
        known = iter([key for key in keys if key is not None])
        for part in parts:
            sent = _Sent(part, [])
            self._outstanding.append(sent)
            for number in range(part.frames.count):
                self._places.setdefault(next(known), []).append((sent, number))
        return parts

    def _key_of(self, value: object) -> bytes | None:
        if not isinstance(value, dict) or self._id_field not in value:
            return None
        return _key(value[self._id_field])  # pyright: ignore[reportUnknownArgumentType]

    def written(self, blocks: Iterable[Block]) -> None: ...

    def waiting_since(self) -> float | None:
        return self._since if self._outstanding else None

    def others(self, messages: list[bytes]) -> list[bytes]:
        if not self._outstanding:
            return messages
        returned = self._is_next if self._id_field is None else self._is_known
        others = [message for message in messages if not returned(message)]
        if len(others) < len(messages):
            self._since = self._time()
        return others

    def _is_next(self, message: bytes) -> bool:
        if not self._outstanding:
            return False
        sent = self._outstanding[0]
        number = len(sent.back) - sent.left
        if sent.expected[number] != message:
            return False
        self._back(sent, number)
        return True

    def _is_known(self, message: bytes) -> bool:
        """The event, or its id alone."""
        value = _decoded(self._codec, message)
        key = self._key_of(value) if isinstance(value, dict) else _key(value)  # pyright: ignore[reportUnknownArgumentType]
        places = self._places.get(key) if key is not None else None
        if key is None or places is None:
            return False
        sent, number = places.pop(0)
        if not places:
            del self._places[key]
        self._back(sent, number)
        return True

    def _back(self, sent: _Sent, number: int) -> None:
        sent.back[number] = True
        sent.left -= 1
        if sent.left:
            return
        while self._outstanding and not self._outstanding[0].left:
            self._outstanding.popleft()
        self._inlet.ack(sent.block)

    def unanswered(self, unwritten: Sequence[Block]) -> int:
        return sum(sent.left for sent in self._outstanding)

    def lost(self, unwritten: Sequence[Block], cause: BaseException) -> Sequence[Block]:
        """Only events that were not sent back are sent again."""
        outstanding, self._outstanding = self._outstanding, deque()
        self._places.clear()
        again: list[Block] = []
        for sent in outstanding:
            if not sent.left:
                continue
            at = 0
            for part in sent.block.split(runs(sent.back)):
                if sent.back[at]:
                    self._inlet.ack(part)
                else:
                    again.append(part)
                at += part.frames.count
        return again


class _Undecodable:
    """No id has this value."""


def _decoded(codec: Codec, payload: bytes) -> object:
    try:
        return codec.decode(payload)
    except CannotDecode:
        return _Undecodable()


def _key(value: object) -> bytes | None:
    """Values that are equal in JSON; 1 and "1" are not."""
    if isinstance(value, _Undecodable):
        return None
    try:
        return JSON.encode(value)
    except CannotEncode:
        return None
