"""JSON text <-> value, whole. Numbers that are out of range come as such, see `values`."""

import json
import math
from collections.abc import Sequence
from typing import Final

import msgspec
import orjson

from walflow_kernel.errors import NotJson
from walflow_kernel.values import LEAST, MOST, TOO_DEEP, OutOfRange, complaint

_CHUNK: Final = 32  # values that are looked at together once one of many has no JSON form
_LONGEST: Final = 4_000  # digits of an integer; Python refuses to read more than 4,300
NOT_UTF_8: Final = "this is not UTF-8"
# orjson says "expected 'null'" of all that begins like no value, as if null were wanted
_PLAINER: Final = {"invalid literal": "no value", "input is a zero-length": "no value", "expecting value": "no value"}

_decode = msgspec.json.Decoder().decode
_encoder: Final = msgspec.json.Encoder()
_sorting: Final = msgspec.json.Encoder(order="sorted")


def value(text: bytes) -> object:
    """Raises NotJson."""
    try:
        return _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _value_large(text)  # perhaps only for a number out of range
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def _value_large(text: bytes) -> object:
    try:
        return json.loads(text.decode(), parse_float=_float, parse_int=_int, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise NotJson(found_wrong(error)) from error
    except UnicodeDecodeError as error:
        raise NotJson(NOT_UTF_8) from error
    except ValueError as error:
        raise NotJson(str(error)) from error
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def found_wrong(error: json.JSONDecodeError) -> str:
    """In words, with the column. The line is named only where the text has several: it has a number of its own in its file."""
    if "UTF-8" in error.msg:
        return NOT_UTF_8
    what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
    what = _PLAINER.get(what.split(",")[0], what)
    line = f"line {error.lineno}, " if "\n" in error.doc else ""
    return f"{what} at {line}column {error.colno}"


def _float(text: str) -> object:
    number = float(text)
    return number if math.isfinite(number) else OutOfRange(text)


def _int(text: str) -> object:
    number = int(text) if len(text) < _LONGEST else None
    return number if number is not None and LEAST <= number <= MOST else OutOfRange(text)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no value")


def encoded(value: object) -> bytes:
    """Raises NotJson."""
    refusal = refusals([value])[0]
    if refusal is not None:
        raise NotJson(refusal)
    return _encode(value)


def sorted_text(value: object) -> bytes:
    """With the keys of records in order. Raises NotJson."""
    refusal = refusals([value])[0]
    if refusal is not None:
        raise NotJson(refusal)
    return _sorting.encode(value)


def text(value: object) -> str:
    """Raises NotJson."""
    return encoded(value).decode()


def lines(values: Sequence[object]) -> bytes:
    """Values that `refusals` has found nothing against, a line each."""
    return _encoder.encode_lines(values)


def refusals(values: Sequence[object]) -> Sequence[str | None]:
    """For each value why JSON cannot hold it. msgspec writes what is none, in silence; orjson is asked instead, and
    takes a list of them as fast as it is written."""
    if _holds(values):
        return [None] * len(values)
    found: list[str | None] = []
    for start in range(0, len(values), _CHUNK):
        some = values[start : start + _CHUNK]
        found += [None] * len(some) if _holds(some) else [_refusal(one) for one in some]
    return found


def all_hold(values: Sequence[object]) -> bool:
    """Whether `refusals` may be spared."""
    return _holds(values)


def _holds(values: Sequence[object]) -> bool:
    try:
        orjson.dumps(values)
    except TypeError:
        return False
    return True


def _refusal(value: object) -> str | None:
    reason = complaint(value)
    if reason is not None:
        return reason
    try:
        _encode(value)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError, TypeError):
        return TOO_DEEP
    return None


_encode = _encoder.encode
