"""MessagePack, as far as it has the values that JSON has, and bytes.

Refused: extension types, timestamps among them, maps with keys that are no strings, infinities and NaN: no expression
and no other codec knows them. Bytes stay bytes: msgpack and binary write them, JSON does not. An integer beyond 64
bits cannot be written.

Valid is what decodes and what JSON could hold but for its bytes: both are asked of libraries, which costs a third of
looking at each value from here. The events of a read are asked about as one array, which costs a third less.
Only where something is wrong with one of them is each looked at.
"""

import math
import re
import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate, chain
from typing import Final, cast

import msgspec
import orjson

from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.event import Frames, Framing, Verdict
from walflow.plugins import known_keys

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME
_infinite_double = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")  # with one first byte each: six times as fast
_infinite_single = re.compile(rb"\xca[\x7f\xff][\x80-\xff]")  # as one expression for both


def _no_extension(code: int, data: memoryview) -> object:
    raise ValueError(f"extension type {code} is not supported")


_decode = msgspec.msgpack.Decoder(ext_hook=_no_extension).decode
_elements = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.msgpack.Encoder().encode
_ARRAY: Final = struct.Struct(">BI")  # array 32 of the specification: its first byte, and the number of elements
_ARRAY_32: Final = 0xDD


class Msgpack(EventCodec):
    name = "msgpack"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        payloads = framing.payloads(data)
        if _are_good(payloads):
            return Verdict(Frames(data, len(payloads), framing))
        return super().validate(data, framing, count)

    def decode(self, payload: bytes) -> object:
        try:
            value: object = _decode(payload)
            orjson.dumps(value, _not_json, _OPTIONS)
        except orjson.JSONEncodeError as error:
            raise CannotDecode(f"not msgpack that is supported: {_cause(error)}") from error
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CannotDecode(f"not msgpack: {error}") from error
        if _perhaps_infinite(payload) and not is_finite(value):  # orjson takes it for null
            raise CannotDecode("not msgpack that is supported: infinity or NaN")
        return value

    def encode(self, value: object) -> bytes:
        try:
            payload = _encode(value)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise CannotEncode(f"not msgpack: {error}") from error
        if _perhaps_infinite(payload) and not is_finite(value):
            raise CannotEncode("not msgpack that is supported: infinity or NaN")
        return payload

    def whole(self, payload: bytes) -> bool:
        return True


def _are_good(payloads: Sequence[bytes]) -> bool:
    """False: one of them may not be. Behind the head of an array they are its elements, if each is one value: then
    each element has the length of its payload."""
    array = b"".join((_ARRAY.pack(_ARRAY_32, len(payloads)), *payloads))
    lengths = [*map(len, payloads)]
    try:
        if [memoryview(each).nbytes for each in _elements(array)] != lengths:
            return False
        values: list[object] = _decode(array)
        orjson.dumps(values, _not_json, _OPTIONS)
    except (orjson.JSONEncodeError, msgspec.MsgspecError, ValueError, RecursionError):
        return False
    if not _perhaps_infinite(array):
        return True
    starts = [*accumulate(lengths, initial=_ARRAY.size)]
    found = chain(_infinite_double.finditer(array), _infinite_single.finditer(array))
    return all(is_finite(values[bisect_right(starts, match.start()) - 1]) for match in found)


def _not_json(value: object) -> None:
    """Bytes are allowed, because later parts accept them. Other values that JSON does not have are not."""
    if not isinstance(value, bytes):
        raise TypeError("a timestamp" if isinstance(value, datetime) else type(value).__name__)


def _perhaps_infinite(data: bytes) -> bool:
    return _infinite_double.search(data) is not None or _infinite_single.search(data) is not None


def is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(is_finite, cast(dict[str, object], value).values()))
    if isinstance(value, list):
        return all(map(is_finite, cast(list[object], value)))
    return not isinstance(value, float) or math.isfinite(value)


def _cause(error: BaseException) -> str:
    return str(error.__cause__ or error)


MSGPACK: Final = Msgpack()


def msgpack_codec(config: Mapping[str, object]) -> Msgpack:
    """One MessagePack value, in both directions."""
    known_keys("codec msgpack", config)
    return MSGPACK
