"""Messages of a protocol that separates them itself (WebSocket). Each is an event; the messages of one read are a
block.

Messages without newlines are stored as lines, like everything else. Only if they contain newlines, this framing
separates them: by their length, four bytes, big-endian.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

_LENGTH: Final = struct.Struct(">I")


class Messages:
    name = "messages"
    config: Mapping[str, object] = {}
    max_length: int | None = None
    countable = True

    def __repr__(self) -> str:
        return "<Messages>"

    def count(self, data: bytes) -> int:
        return len(self.index(data))

    def cut(self, tail: bytearray, data: bytes) -> bytes:
        tail += data
        end = (self.index(bytes(tail)) or (0,))[-1]
        whole = bytes(tail[:end])
        del tail[:end]
        return whole

    def skip(self, data: bytes) -> bytes | None:
        return b""  # a protocol that hands over whole messages never leaves the rest of one

    def finish(self, tail: bytearray) -> bytes:
        tail.clear()
        return b""

    def index(self, data: bytes) -> Sequence[int]:
        ends: list[int] = []
        at = 0
        while at + 4 <= len(data):
            at += 4 + _LENGTH.unpack_from(data, at)[0]
            if at <= len(data):
                ends.append(at)
        return ends

    def frames(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in pairwise((0, *self.index(data)))]

    def payloads(self, data: bytes) -> list[bytes]:
        payloads: list[bytes] = []
        start = 4
        for end in self.index(data):
            payloads.append(data[start:end])
            start = end + 4
        return payloads

    def join(self, payloads: Iterable[bytes]) -> bytes:
        parts: list[bytes] = []
        for payload in payloads:
            parts += (_LENGTH.pack(len(payload)), payload)
        return b"".join(parts)


MESSAGES = Messages()
