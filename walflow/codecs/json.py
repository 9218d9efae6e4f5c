"""JSON, validated without building values, and passed on as the bytes it came in.

Validating whole reads at once is four times as fast as parsing line by line, and easy to get wrong: the batch
parser takes two values on one line, a value over several lines, and nothing at all, for good. So a batch counts
as valid only if it has as many values as newlines, is UTF-8, and joins up again to the very bytes it was; all else
is looked at again in slices of 64 lines, and then line by line. A wrong count would shift every later position.

Differs from tremor: an unchanged event keeps its white space, doubled keys and numbers of any size; a number
beyond the range of a double (1e999) passes through, and is refused only where it would have to be written anew.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import orjson

from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.event import Frames, Framing, Verdict
from walflow.framing import LINES
from walflow.plugins import known_keys

SLICE: Final = 64  # lines tried together after a whole read failed: one bad line then costs 64 parses, not 2,600

_raw_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines
# A number of 19 digits may exceed 64 bits, which orjson rounds in silence. A pattern takes 3 to 11 times as long to find.
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER: Final = b"0" * 19


class Json:
    name = "json"

    def __init__(self, *, sort: bool) -> None:
        self.config: Mapping[str, object] = {"mode": "sorted"} if sort else {}
        self.transparent = not sort
        self._sort = sort
        self._options = orjson.OPT_SORT_KEYS if sort else 0

    def __repr__(self) -> str:
        return "<Json sorted>" if self._sort else "<Json>"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        if framing is LINES:
            valid = _count_valid(data, count)
            if valid is not None:
                return Verdict(Frames(data, valid, framing))
        return _sift(data, framing)

    def decode(self, payload: bytes) -> object:
        try:
            if _LONG_NUMBER not in payload.translate(_DIGITS):
                return orjson.loads(payload)
        except orjson.JSONDecodeError:
            pass  # perhaps only for a number beyond a double's range
        return _decode_large(payload)

    def encode(self, value: object) -> bytes:
        try:
            return orjson.dumps(value, option=self._options)
        except TypeError:
            return self._encode_large(value)

    def whole(self, payload: bytes) -> bool:
        return payload[-1:] not in b"0123456789" if payload else True

    def _encode_large(self, value: object) -> bytes:
        """What orjson refuses: integers beyond 64 bits, and all that has no JSON form."""
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=self._sort, separators=(",", ":"))
            return text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise CannotEncode(f"not JSON: {error}") from error


def _count_valid(data: bytes, lines: int | None = None) -> int | None:
    """How many lines of JSON `data` is, each one value; None: not known to be that, look closer. `lines`: how many it
    has, if it is known."""
    try:
        raws = _raw_lines(data)
        count = len(raws)
        if count != (LINES.count(data) if lines is None else lines):
            return None
        if not data.isascii():
            data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if b"\n".join(raws) == data[:-1] or b"\r\n".join(raws) == data[:-2]:
        return count
    return None


def _sift(data: bytes, framing: Framing) -> Verdict:
    payloads = framing.payloads(data)
    good: list[bytes] = []
    bad: list[tuple[bytes, str]] = []
    for start in range(0, len(payloads), SLICE):
        some = payloads[start : start + SLICE]
        if framing is LINES and _count_valid(LINES.join(some)) == len(some):
            good += some
        else:
            _sort_out(some, good, bad)
    if not bad:
        return Verdict(Frames(data, len(good), framing))
    return Verdict(Frames(framing.join(good), len(good), framing) if good else None, bad)


def _sort_out(payloads: Sequence[bytes], good: list[bytes], bad: list[tuple[bytes, str]]) -> None:
    for payload in payloads:
        reason = _refusal(payload)
        if reason is None:
            good.append(payload)
        else:
            bad.append((payload, reason))


def _refusal(payload: bytes) -> str | None:
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        if b"\n" not in payload and _count_valid(payload + b"\n") == 1:
            return None  # a number beyond a double's range, which orjson alone refuses
        return f"not JSON: {error}"
    return None


class OutOfRange(float):
    """Infinity, read from a number beyond a double's range. A class of its own because orjson writes a plain
    infinity as null, a number lost in silence, and refuses this."""


def _decode_large(payload: bytes) -> object:
    """Numbers that orjson rounds or refuses."""
    try:
        return json.loads(payload.decode(), parse_float=_float, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CannotDecode(f"not JSON: {error}") from error


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else OutOfRange(value)


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


JSON: Final = Json(sort=False)
JSON_SORTED: Final = Json(sort=True)


def json_codec(config: Mapping[str, object]) -> Json:
    """One JSON value, UTF-8. Written compact, with `{"mode": "sorted"}` its keys in order; unchanged and unsorted: the
    bytes it came in.

    Raises WalflowError.
    """
    known_keys("codec json", config, ("mode",))
    mode = config.get("mode", "unsorted")
    if mode not in ("sorted", "unsorted"):
        raise WalflowError(f"json has the modes sorted and unsorted, not {mode!r}")
    return JSON_SORTED if mode == "sorted" else JSON
