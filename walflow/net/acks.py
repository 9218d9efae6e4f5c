"""When a client's event counts as delivered: when it is written, or when the peer has sent it back."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from walflow.contract import Inlet
from walflow.errors import WalflowError
from walflow.event import Block, Cutting, Framing
from walflow.framing import Separate


class NoEcho(WalflowError):
    """Echoes cannot be compared if nothing marks the end of an event."""


class Acks(Protocol):
    """The acks of one connection after the other. `timeout`: seconds that the peer may take to answer before the
    connection is closed, with the reason `overdue`. `fails_overdue`: events without an answer then fail, with all
    that wait."""

    timeout: float
    overdue: str
    fails_overdue: bool

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Called before blocks are written. Returns the blocks to write; the others can never be delivered and are
        settled."""
        ...

    def written(self, blocks: Iterable[Block]) -> None:
        """Called when the blocks' last byte is in the kernel."""
        ...

    def received(self, data: bytes) -> bytes:
        """Returns the part of the data that is no echo."""
        ...

    def unanswered(self, unwritten: Sequence[Block]) -> int:
        """The events of this connection that have no outcome."""
        ...

    def lost(self, unwritten: Sequence[Block], cause: BaseException) -> Sequence[Block]:
        """The connection has ended. Returns the blocks that the next one must send."""
        ...

    def waiting_since(self) -> float | None:
        """The time since which the peer has had to answer; None: it has nothing to answer."""
        ...


class WhenWritten:
    timeout = math.inf
    overdue = ""
    fails_overdue = False

    def __init__(self, inlet: Inlet) -> None:
        self._inlet = inlet

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        return blocks

    def written(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._inlet.ack(block)

    def received(self, data: bytes) -> bytes:
        return data

    def unanswered(self, unwritten: Sequence[Block]) -> int:
        return sum(block.frames.count for block in unwritten)

    def lost(self, unwritten: Sequence[Block], cause: BaseException) -> Sequence[Block]:
        return unwritten

    def waiting_since(self) -> float | None:
        return None


class WhenEchoed:
    """Echoes in the order of sending, compared byte by byte. A read is compared as a whole, and event by event only
    if it contains other data between echoes."""

    overdue = "no echo within echo_timeout"
    fails_overdue = True

    def __init__(self, inlet: Inlet, time: Callable[[], float], timeout: float = math.inf) -> None:
        self.timeout = timeout
        self._inlet = inlet
        self._time = time
        self._outstanding: deque[Block] = deque()
        self._matched = 0  # bytes of the first one that came back
        self._since = 0.0
        self._framing: Cutting | None = None  # known with the first block
        self._inside_other = False  # in the midst of an event that is no echo
        self._last_read = b""  # until the framing is known

    def __repr__(self) -> str:
        return f"<WhenEchoed {len(self._outstanding)} blocks outstanding, {self._matched} bytes of the first back>"

    def sent(self, blocks: Sequence[Block]) -> Sequence[Block]:
        for block in blocks:
            if self._framing is None:
                self._learn(block.frames.framing)
            if not self._outstanding:
                self._since = self._time()
            self._outstanding.append(block)
        return blocks

    def written(self, blocks: Iterable[Block]) -> None: ...

    def waiting_since(self) -> float | None:
        return self._since if self._outstanding else None

    def received(self, data: bytes) -> bytes:
        others: list[bytes] = []
        before = self._matched, len(self._outstanding)
        while data:
            if self._inside_other:
                data = self._end_other(data, others)
            elif not self._outstanding:
                data = self._all_other(data, others)
            else:
                data = self._match(data, others)
        if before != (self._matched, len(self._outstanding)):
            self._since = self._time()
        return b"".join(others)

    def unanswered(self, unwritten: Sequence[Block]) -> int:
        back = _events_in(self._outstanding[0], self._matched) if self._outstanding else 0
        return sum(block.frames.count for block in self._outstanding) - back

    def lost(self, unwritten: Sequence[Block], cause: BaseException) -> Sequence[Block]:
        """Fails all blocks, also those that were not written: if they were sent before the log sends the others
        again, they would overtake them."""
        outstanding, self._outstanding = self._outstanding, deque()
        matched, self._matched = self._matched, 0
        self._inside_other = False
        self._last_read = b""
        for block in outstanding:
            self._inlet.fail(block, cause, _events_in(block, matched))
            matched = 0
        return ()

    def _learn(self, framing: Framing) -> None:
        if not isinstance(framing, Separate):
            raise NoEcho('`"ack": "echo"` needs postprocessors that mark where an event ends: `separate` as the last')
        self._framing = framing
        self._inside_other = _unended(framing, self._last_read)

    def _all_other(self, data: bytes, others: list[bytes]) -> bytes:
        others.append(data)
        if self._framing is None:
            self._last_read = data
        else:
            self._inside_other = _unended(self._framing, data)
        return b""

    def _end_other(self, data: bytes, others: list[bytes]) -> bytes:
        assert self._framing is not None
        rest = self._framing.skip(data)
        if rest is None:
            others.append(data)
            return b""
        self._inside_other = False
        others.append(data[: len(data) - len(rest)])
        return rest

    def _match(self, data: bytes, others: list[bytes]) -> bytes:
        """The rest of `data` after an echo of the first block; nothing if the data was compared event by event."""
        expected = self._outstanding[0].frames.data
        if expected.startswith(data, self._matched):
            self._back(len(data))
            return b""
        rest = expected[self._matched :] if self._matched else expected
        if data.startswith(rest):
            self._back(len(rest))
            return data[len(rest) :]
        return self._match_events(data, others)

    def _match_events(self, data: bytes, others: list[bytes]) -> bytes:
        framing = self._framing
        assert framing is not None
        data = self._take_back() + data
        tail = bytearray()
        whole = framing.cut(tail, data)
        start = 0
        for end in framing.index(whole):
            event = whole[start:end]
            start = end
            if self._outstanding and event == self._expected():
                self._back(len(event))
            else:
                others.append(event)
        if tail and self._outstanding and self._expected().startswith(tail):
            self._back(len(tail))
        elif tail:
            others.append(bytes(tail))
            self._inside_other = True
        return b""

    def _take_back(self) -> bytes:
        """Returns the beginning of an event that looked like an echo, but then continued differently."""
        block = self._outstanding[0]
        start = _start(block, self._matched)
        begun = block.frames.data[start : self._matched]
        self._matched = start
        return begun

    def _expected(self) -> bytes:
        """The next event that must come back. Call it only between events."""
        frames = self._outstanding[0].frames
        ends = frames.framing.index(frames.data)
        return frames.data[self._matched : ends[bisect_right(ends, self._matched)]]

    def _back(self, size: int) -> None:
        self._matched += size
        if self._matched == len(self._outstanding[0].frames.data):
            self._matched = 0
            self._inlet.ack(self._outstanding.popleft())


def _events_in(block: Block, size: int) -> int:
    return bisect_right(block.frames.framing.index(block.frames.data), size) if size else 0


def _start(block: Block, at: int) -> int:
    """The beginning of the event that contains the byte `at`."""
    ends = block.frames.framing.index(block.frames.data)
    number = bisect_right(ends, at)
    return ends[number - 1] if number else 0


def _unended(framing: Cutting, data: bytes) -> bool:
    tail = bytearray()
    framing.cut(tail, data)
    return bool(tail)
