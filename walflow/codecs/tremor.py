"""tremor's own binary format, by which two of its instances speak: version 0, all lengths and numbers big-endian.

    00 00  value
    value: 00 null | 01 true | 02 false | 03 int64 | 04 uint64 | 05 float64 | 06 size text | 07 size bytes
         | 08 size value*          an array
         | 09 size (size text value)*      a record

A value is read and written without recursion, so it nests as deep as JSON may: 512 levels.
"""

import math
import struct
from collections.abc import Mapping
from typing import Final, cast

from walflow.codecs.parts import bytes_of, text_of
from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys
from walflow_kernel.json import DEEPEST
from walflow_kernel.values import LEAST, MOST, kind_of

VERSION: Final = b"\0\0"
NULL, TRUE, FALSE, SIGNED, UNSIGNED, FLOAT, STRING, BYTES, ARRAY, RECORD = range(10)
CONSTANTS: Final[Mapping[int, bool | None]] = {NULL: None, TRUE: True, FALSE: False}
NUMBERS: Final = {SIGNED: struct.Struct(">q"), UNSIGNED: struct.Struct(">Q"), FLOAT: struct.Struct(">d")}
_SIZE: Final = struct.Struct(">Q")
_head = struct.Struct(">BQ").pack


class Tremor(EventCodec):
    name = "tremor"

    def decode(self, payload: bytes) -> object:
        if payload[:2] != VERSION:
            raise CannotDecode("not tremor's format, version 0")
        reading = TremorBytes(payload)
        value = reading.value()
        if reading.at != len(payload):
            raise CannotDecode(f"not tremor's format: {len(payload) - reading.at} bytes follow the value")
        return value

    def encode(self, value: object) -> bytes:
        parts = [VERSION]
        waiting: list[object] = [value]
        depth = 0
        while waiting:
            one = waiting.pop()
            if isinstance(one, _Raw):
                parts.append(one.data)
                depth -= one.ends
            elif isinstance(one, list):
                items = cast(list[object], one)
                parts.append(_head(ARRAY, len(items)))
                waiting += (_END, *reversed(items))
                depth += 1
            elif isinstance(one, dict):
                members = cast(dict[str, object], one)
                parts.append(_head(RECORD, len(members)))
                waiting.append(_END)
                for name, member in reversed(members.items()):
                    key = bytes_of(name)
                    waiting += (member, _Raw(_SIZE.pack(len(key)) + key))
                depth += 1
            else:
                parts.append(_scalar(one))
            if depth > DEEPEST:
                raise CannotEncode(f"nested deeper than {DEEPEST}")
        return b"".join(parts)

    def whole(self, payload: bytes) -> bool:
        return True


class _Raw:
    """Bytes between values. `ends`: 1 where a level ends."""

    def __init__(self, data: bytes, ends: int = 0) -> None:
        self.data = data
        self.ends = ends


_END: Final = _Raw(b"", 1)


class TremorBytes:
    """The bytes of one event, and how far they are read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 2

    def value(self) -> object:
        """Raises CannotDecode."""
        kind = self._kind()
        if kind < ARRAY:
            return self._scalar(kind)
        top = self._container(kind)
        levels = [(top, self._size())]
        while levels:
            container, left = levels.pop()
            if not left:
                continue
            levels.append((container, left - 1))
            key = text_of(self._take(self._size())) if isinstance(container, dict) else ""
            kind = self._kind()
            item = self._container(kind) if kind >= ARRAY else self._scalar(kind)
            if isinstance(container, dict):
                container[key] = item
            else:
                container.append(item)
            if kind >= ARRAY:
                if len(levels) >= DEEPEST:
                    raise CannotDecode(f"not tremor's format that is supported: nested deeper than {DEEPEST}")
                levels.append((cast(list[object], item), self._size()))
        return top

    def _kind(self) -> int:
        return self._take(1)[0]

    def _size(self) -> int:
        return int(_SIZE.unpack(self._take(8))[0])

    def _container(self, kind: int) -> list[object] | dict[str, object]:
        if kind > RECORD:
            raise CannotDecode(f"not tremor's format: there is no type {kind}")
        return [] if kind == ARRAY else {}

    def _scalar(self, kind: int) -> object:
        if kind in CONSTANTS:
            return CONSTANTS[kind]
        if kind == STRING:
            return text_of(self._take(self._size()))
        if kind == BYTES:
            return self._take(self._size())
        number: int | float = NUMBERS[kind].unpack(self._take(8))[0]
        if not math.isfinite(number):
            raise CannotDecode("not tremor's format that is supported: infinity or NaN")
        return number

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise CannotDecode("not tremor's format: the value ended too early")
        return self.data[start : self.at]


def _scalar(value: object) -> bytes:
    if value is None or value is True or value is False:
        return bytes((NULL if value is None else TRUE if value else FALSE,))
    if isinstance(value, str):
        text = bytes_of(value)
        return _head(STRING, len(text)) + text
    if isinstance(value, bytes):
        return _head(BYTES, len(value)) + value
    if isinstance(value, int) and LEAST <= value <= MOST:
        kind = SIGNED if value < 1 << 63 else UNSIGNED
        return bytes((kind,)) + NUMBERS[kind].pack(value)
    if isinstance(value, float) and math.isfinite(value):
        return bytes((FLOAT,)) + NUMBERS[FLOAT].pack(value)
    raise CannotEncode(f"not tremor's format: {kind_of(value)}")


TREMOR: Final = Tremor()


def tremor_codec(config: Mapping[str, object]) -> Tremor:
    """One value in tremor's own binary format, in both directions."""
    known_keys("codec tremor", config)
    return TREMOR
