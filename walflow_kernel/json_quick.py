"""JSON by msgspec and orjson. `json_plain` has the same functions, for where these are missing."""

import json
import re
from collections.abc import Sequence
from typing import Final, cast

import msgspec
import orjson

from walflow_kernel.json_plain import decode as decode_plain

_decode = msgspec.json.Decoder().decode
_encoder: Final = msgspec.json.Encoder()
_sorting: Final = msgspec.json.Encoder(order="sorted")
_packed = msgspec.msgpack.Encoder().encode
_perhaps_infinite = re.compile(
    rb"\xcb[\x7f\xff][\xf0-\xff]"
).search  # of msgpack: a float of which all bits of the exponent are set
_strict = json.JSONEncoder(allow_nan=False).encode
_raw_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines


def decode(text: bytes) -> object:
    """Raises ValueError or RecursionError."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return decode_plain(text)  # perhaps only for a number out of range


def encode(value: object) -> bytes:
    """Of a value that `complaint` has nothing against. Raises RecursionError."""
    try:
        return _encoder.encode(value)
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError) as error:
        raise RecursionError(str(error)) from None


def encode_sorted(value: object) -> bytes:
    """With the keys of records in order."""
    return _sorting.encode(value)


def encode_lines(values: Sequence[object]) -> bytes:
    return _encoder.encode_lines(values)


def all_hold(values: Sequence[object]) -> bool:
    """msgspec writes what is no JSON, in silence. orjson refuses it, and takes a list as fast as it is written. Both
    write infinity and NaN as null, so where a null is written the values are looked at."""
    try:
        written = orjson.dumps(values)
    except TypeError:
        return False
    if written.rfind(b"null") < 0 or not _perhaps_infinite(_packed(values)):  # `in` takes twice as long as `rfind`
        return True
    try:
        _strict(values)
    except ValueError:
        return False
    return True


def raw(text: bytes) -> object:
    """JSON text in the place of a value: it is written as it is."""
    return msgspec.Raw(text)


def is_raw(value: object) -> bool:
    return type(value) is msgspec.Raw


def raw_lines(data: bytes) -> Sequence[bytes]:
    """Each value in `data`, as its text, which joins as bytes do. Raises ValueError or RecursionError for what is no
    JSON."""
    try:
        return cast("Sequence[bytes]", _raw_lines(data))
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def judge(text: bytes) -> None:
    """Raises ValueError, with the reason why it is no JSON."""
    orjson.loads(text)


def is_shallow(text: bytes) -> bool:
    """It surely nests no deeper than 254 (orjson's README)."""
    try:
        orjson.dumps(orjson.loads(text))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return False
    return True
