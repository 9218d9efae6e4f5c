"""JSON, validated without building values, and passed on as the bytes it came in.

Validating whole reads at once is four times as fast as parsing line by line, and easy to get wrong: the batch
parser takes two values on one line, a value over several lines, and nothing at all, for good. So a batch counts
as valid only if it has as many values as newlines, is UTF-8, and joins up again to the very bytes it was; all else
is looked at again in slices of 64 lines, and then line by line. A wrong count would shift every later position.

Differs from tremor: an unchanged event keeps its white space, doubled keys and numbers of any size; a number beyond the
range of a double (1e999) or of 64 bits passes through, and is refused only where it is read, or written anew.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import orjson

from walflow.errors import CannotDecode, CannotEncode, WalflowError
from walflow.event import Codec, Frames, Framing, Verdict
from walflow.framing import LINES
from walflow.plugins import known_keys
from walflow_kernel import json
from walflow_kernel.errors import NotJson

DEEPEST: Final = 512  # levels; decoders have bounds of their own, which depend on how deep their callers stand
_LONG: Final = 2 * (DEEPEST + 1)  # bytes of the shortest line that nests deeper
SLICE: Final = 64  # lines tried together after a whole read failed: one bad line then costs 64 parses, not 2,600

_raw_lines = msgspec.json.Decoder(msgspec.Raw).decode_lines
# From newline to newline, each at most _LONG bytes on: 9 us for 256 KiB, a loop over `rfind` takes 31. No way back (`*+`).
_is_all_short = re.compile(rb"(?s:(?:.{0,%d}\n)*+)" % (_LONG - 1)).fullmatch
_brackets = re.compile(rb"[\[{\]}\"\\]").finditer


class Json:
    name = "json"

    def __init__(self, *, sort: bool) -> None:
        self.config: Mapping[str, object] = {"mode": "sorted"} if sort else {}
        self.transparent = not sort
        self._sort = sort

    def __repr__(self) -> str:
        return "<Json sorted>" if self._sort else "<Json>"

    def validate(self, data: bytes, framing: Framing, count: int | None = None) -> Verdict:
        if framing is LINES:
            valid = _count_valid(data, count)
            if valid is not None:
                return Verdict(Frames(data, valid, framing))
        return _sift(data, framing)

    def decode(self, payload: bytes) -> object:
        """A number beyond 64 bits or the range of a double comes as what it is, see `walflow_kernel.values`."""
        try:
            return json.value(payload)
        except NotJson as error:
            raise CannotDecode(f"not JSON: {error}") from error

    def encode(self, value: object) -> bytes:
        try:
            return json.sorted_text(value) if self._sort else json.encoded(value)
        except NotJson as error:
            raise CannotEncode(f"not JSON: {error}") from error

    def whole(self, payload: bytes) -> bool:
        return payload[-1:] not in b"0123456789" if payload else True


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
    if (b"\n".join(raws) == data[:-1] or b"\r\n".join(raws) == data[:-2]) and _is_flat(data):
        return count
    return None


def _is_flat(data: bytes) -> bool:
    """No line nests deeper than DEEPEST. Looked at are only lines that are long enough to."""
    if _is_all_short(data):
        return True
    # An array takes 2 bytes a level, an object 5: `{"":{"":{}}}`. Few arrays, and a line must be longer yet.
    objects = max(DEEPEST + 1 - _count(b"[", data), 0)
    long = max(_LONG, 2 * (DEEPEST + 1) + 3 * objects - 3)
    begin = 0
    while len(data) - begin > long:
        newline = data.rfind(b"\n", begin, begin + long)
        if newline < 0:
            newline = data.find(b"\n", begin)
            if _is_deep(data[begin:newline]):
                return False
        begin = newline + 1
    return True


def _count(bracket: bytes, data: bytes) -> int:
    return len(data) - len(data.replace(bracket, b""))  # several times as fast as bytes.count where it is rare


def _is_deep(payload: bytes) -> bool:
    """Of what is JSON but for its depth."""
    if _count(b"[", payload) + payload.count(b"{") <= DEEPEST:
        return False
    try:
        orjson.dumps(orjson.loads(payload))  # goes 254 deep (its README), and is 10 times as fast as what follows
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return _scan_depth(payload) > DEEPEST
    return False


def _scan_depth(payload: bytes) -> int:
    deepest = depth = 0
    within = False
    skip = -1
    for match in _brackets(payload):
        at, one = match.start(), match[0]
        if at == skip:
            continue
        if one == b"\\":
            skip = at + 1
        elif one == b'"':
            within = not within
        elif not within:
            depth += 1 if one in b"[{" else -1
            deepest = max(deepest, depth)
    return deepest


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
    if _is_deep(payload):
        return f"not JSON that is supported: nested deeper than {DEEPEST}"
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        if b"\n" not in payload and _count_valid(payload + b"\n") == 1:
            return None  # a number beyond a double's range, which orjson alone refuses
        return f"not JSON: {json.found_wrong(error)}"
    return None


def within_record(codec: Codec, payload: bytes) -> bytes | None:
    """A payload of `codec` as JSON on one line. None for what has no JSON form, or nests so deep that no record may be
    around it."""
    if not isinstance(codec, Json):
        try:
            payload = JSON.encode(codec.decode(payload))
        except (CannotDecode, CannotEncode):
            return None
    if payload.count(b"[") + payload.count(b"{") >= DEEPEST:
        return None
    return payload.replace(b"\n", b" ")  # a newline in JSON is a space


JSON: Final = Json(sort=False)
JSON_SORTED: Final = Json(sort=True)


def json_codec(config: Mapping[str, object]) -> Json:
    """One JSON value, in UTF-8. It is written without spaces, and with `{"mode": "sorted"}` with sorted keys. An event
    that no pipeline has changed keeps its bytes, unless `sorted` is set.

    Raises WalflowError.
    """
    known_keys("codec json", config, ("mode",))
    mode = config.get("mode", "unsorted")
    if mode not in ("sorted", "unsorted"):
        raise WalflowError(f"json has the modes sorted and unsorted, not {mode!r}")
    return JSON_SORTED if mode == "sorted" else JSON
