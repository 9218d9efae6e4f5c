"""What the tag of a record says of its events, as far as Spark wants to know: how to tell them apart, and their keys.

    [connector, run, stream, codec, framing, meta, event_metas]      msgpack; framing: name, or [name, config]

Executors may have nothing but pyspark and pyarrow, hence a decoder of our own.
"""

import json
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from walflow_kernel.short_tag import SHORT, whole

KEPT: Final = 4096  # tags remembered: streams come and go, the memory stays
MAX_DEPTH: Final = 64
NEWLINE: Final = 0x0A
LENGTHS: Final = -1
SHORT_ARRIVED: Final = b"\x02"
WITHOUT_PLACE: Final = {b"\x98": b"\x97", SHORT_ARRIVED: SHORT}  # the last 38 bytes say where the events came from
BIN: Final = b"\xc4\x24"
WHERE: Final = 38  # bytes of it


class Shape(NamedTuple):
    """`separator`: the byte that ends an event; LENGTHS: each stands behind its length; None: a record is one event.
    `key`: of all events, `keys`: of each.
    `meta`, `metas`: the metadata as JSON, None where there is none; what an event has of its own is with what all
    have. None unless asked for."""

    separator: int | None
    key: str | None = None
    keys: tuple[str | None, ...] | None = None
    meta: str | None = None
    metas: tuple[str | None, ...] | None = None


class TagDecoder:
    """`metadata`: shapes have it, which takes time."""

    def __init__(self, *, metadata: bool = False) -> None:
        self._shapes: dict[bytes, Shape] = {}
        self._metadata = metadata

    def shape(self, encoded: bytes) -> Shape:
        """Raises ValueError, with words for the end of a sentence, for a tag of another version."""
        if encoded[:1] in WITHOUT_PLACE and encoded[-WHERE:][:2] == BIN:
            encoded = WITHOUT_PLACE[encoded[:1]] + encoded[1:-WHERE]  # the same for all records of a stream
        shape = self._shapes.get(encoded)
        if shape is None:
            shape = _shape(decode(whole(encoded)), metadata=self._metadata)
            if len(self._shapes) >= KEPT:
                self._shapes.clear()
            self._shapes[encoded] = shape
        return shape


def decode(data: bytes) -> object:
    """One msgpack value and nothing behind it. Raises ValueError."""
    reader = _Msgpack(data)
    value = reader.value(0)
    if reader.offset != len(data):
        raise ValueError("its tag goes on behind its end")
    return value


def _shape(tag: object, *, metadata: bool) -> Shape:
    if not isinstance(tag, list) or len(cast(list[object], tag)) < 7:
        raise ValueError("its tag is of another version of walflow")
    fields = cast(list[object], tag)
    key, metas = _key(fields[5]), fields[6]
    keys = None
    if isinstance(metas, list):
        own = [_key(meta) for meta in cast(list[object], metas)]
        if any(one is not None for one in own):
            keys = tuple(key if one is None else one for one in own)
    shape = Shape(_separator(fields[4]), key, keys)
    if not metadata:
        return shape
    shared, own_metas = fields[5], None
    if isinstance(metas, list):
        own_metas = tuple(_meta(shared, one) for one in cast(list[object], metas))
    return shape._replace(meta=_meta(shared, {}), metas=own_metas)


def _meta(shared: object, own: object) -> str | None:
    both = {**_mapping(shared), **_mapping(own)}
    return json.dumps(both, separators=(",", ":"), ensure_ascii=False, default=repr) if both else None


def _mapping(value: object) -> Mapping[object, object]:
    return cast(Mapping[object, object], value) if isinstance(value, dict) else {}


def _separator(framing: object) -> int | None:
    name, config = framing, cast(Mapping[object, object], {})
    if isinstance(framing, list) and len(cast(list[object], framing)) == 2:
        name, given = cast(list[object], framing)
        config = cast(Mapping[object, object], given) if isinstance(given, dict) else config
    if name == "whole":
        return None
    if name == "messages":
        return LENGTHS
    if name == "separate":
        separator = config.get("separator", "\n")
        if isinstance(separator, str) and len(separator) == 1 and ord(separator) < 256:
            return ord(separator)
    raise ValueError(f"its framing is {framing!r}, which this version of pyspark_walflow does not know")


def _key(meta: object) -> str | None:
    """`$spark.key`; what is no string is taken as its JSON."""
    spark = cast(Mapping[object, object], meta).get("spark") if isinstance(meta, dict) else None
    key = cast(Mapping[object, object], spark).get("key") if isinstance(spark, dict) else None
    if key is None or isinstance(key, str):
        return key
    return json.dumps(key, separators=(",", ":"), default=repr)


class _Msgpack:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.offset = 0

    def value(self, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise ValueError("its tag is nested too deeply")
        code = self._take(1)[0]
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0x90:
            return self._map(code & 0x0F, depth)
        if code < 0xA0:
            return self._array(code & 0x0F, depth)
        if code < 0xC0:
            return self._text(code & 0x1F)
        return self._sized(code, depth)

    def _sized(self, code: int, depth: int) -> object:
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        number = _NUMBERS.get(code)
        if number is not None:
            return number.unpack(self._take(number.size))[0]
        length = _LENGTHS.get(code)
        if length is None:
            raise ValueError(f"its tag is no msgpack that walflow writes: byte {code:#x}")
        size: int = length.unpack(self._take(length.size))[0]
        if code <= 0xC6:
            return bytes(self._take(size))
        if code <= 0xDB:
            return self._text(size)
        return self._array(size, depth) if code <= 0xDD else self._map(size, depth)

    def _array(self, size: int, depth: int) -> list[object]:
        return [self.value(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> dict[object, object]:
        pairs: dict[object, object] = {}
        for _ in range(size):
            name = self.value(depth + 1)
            value = self.value(depth + 1)
            try:
                pairs[name] = value
            except TypeError:  # a list, a map
                raise ValueError("its tag has a key that is neither text nor number") from None
        return pairs

    def _text(self, size: int) -> str:
        return self._take(size).decode()  # UnicodeDecodeError is a ValueError

    def _take(self, size: int) -> bytes:
        taken = self._data[self.offset : self.offset + size]
        if len(taken) < size:
            raise ValueError("its tag ends too early")
        self.offset += size
        return taken


_CONSTANTS: Final[Mapping[int, object]] = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS: Final = {
    code: struct.Struct(">" + kind) for code, kind in zip((0xCA, 0xCB, *range(0xCC, 0xD4)), "fdBHIQbhiq", strict=True)
}
_LENGTHS: Final = {
    code: struct.Struct(">" + kind)
    for code, kind in zip((0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF), "BHIBHIHIHI", strict=True)
}
