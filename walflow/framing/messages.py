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
        read, last = _LENGTH.unpack_from, len(data) - 4
        ends: list[int] = []
        at = 0
        while at <= last:
            at += 4 + read(data, at)[0]
            ends.append(at)
        if at > len(data):
            ends.pop()  # not all of it is there
        return ends

    def frames(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in pairwise((0, *self.index(data)))]

    def payloads(self, data: bytes) -> list[bytes]:
        return [data[begin + 4 : end] for begin, end in pairwise((0, *self.index(data)))]

    def join(self, payloads: Iterable[bytes]) -> bytes:
        pack = _LENGTH.pack
        return b"".join([part for payload in payloads for part in (pack(len(payload)), payload)])


MESSAGES = Messages()
