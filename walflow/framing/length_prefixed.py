"""Events with their length before them as 8 bytes, big-endian: tremor's `length-prefixed`, in both directions.

Unlike in tremor, an empty event does not wait for the bytes that follow it.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from walflow.framing.counted import Header, LengthStep
from walflow.framing.processor import Processor
from walflow.plugins import known_keys

_LENGTH: Final = struct.Struct(">Q")
_size = _LENGTH.size


class LengthPrefixed:
    name = "length-prefixed"
    config: Mapping[str, object] = {}
    countable = True

    def __repr__(self) -> str:
        return "<LengthPrefixed>"

    def count(self, data: bytes) -> int:
        return len(self.index(data))

    def index(self, data: bytes) -> Sequence[int]:
        read, size = _LENGTH.unpack_from, len(data)
        ends: list[int] = []
        end = 0
        while end < size:
            end += _size + read(data, end)[0]
            ends.append(end)
        return ends

    def frames(self, data: bytes) -> list[bytes]:
        return [data[begin:end] for begin, end in pairwise((0, *self.index(data)))]

    def payloads(self, data: bytes) -> list[bytes]:
        return [data[begin + _size : end] for begin, end in pairwise((0, *self.index(data)))]

    def join(self, payloads: Iterable[bytes]) -> bytes:
        pack = _LENGTH.pack
        return b"".join([part for payload in payloads for part in (pack(len(payload)), payload)])


def _header(data: bytes, start: int) -> Header | None:
    if len(data) - start < _size:
        return None
    return int(_LENGTH.unpack_from(data, start)[0]), start + _size


LENGTH_PREFIXED: Final = LengthPrefixed()


def _step(config: Mapping[str, object]) -> LengthStep:
    known_keys(LengthPrefixed.name, config)
    return LengthStep(LengthPrefixed.name, _header)


def _framing(config: Mapping[str, object]) -> LengthPrefixed:
    known_keys(LengthPrefixed.name, config)
    return LENGTH_PREFIXED


PROCESSOR: Final = Processor(
    description="The event's length comes before each event, as 8 bytes, big-endian.",
    step=_step,
    framing=_framing,
    cuts=True,
    gives_any_byte=True,
)
