"""MessagePack, as far as it has the values that JSON has, and bytes.

Refused: extension types, timestamps among them, maps with keys that are no strings, infinities and NaN: no expression
and no other codec knows them. Bytes stay bytes: msgpack and binary write them, JSON does not. An integer beyond 64
bits cannot be written.

Valid is what decodes and what JSON could hold but for its bytes: both are asked of libraries, which costs a third of
looking at each value from here.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final, cast

import msgspec
import orjson

from walflow.codecs.per_event import EventCodec
from walflow.errors import CannotDecode, CannotEncode
from walflow.plugins import known_keys

_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME
_perhaps_infinite = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xca[\x7f\xff][\x80-\xff]").search


def _no_extension(code: int, data: memoryview) -> object:
    raise ValueError(f"extension type {code} is not supported")


_decode = msgspec.msgpack.Decoder(ext_hook=_no_extension).decode
_encode = msgspec.msgpack.Encoder().encode


class Msgpack(EventCodec):
    name = "msgpack"

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


def _not_json(value: object) -> None:
    """Bytes are allowed, because later parts accept them. Other values that JSON does not have are not."""
    if not isinstance(value, bytes):
        raise TypeError("a timestamp" if isinstance(value, datetime) else type(value).__name__)


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
