"""Whether texts are JSON that is supported, found out without building values.

Validating many lines at once is four times as fast as parsing line by line, and easy to get wrong: the batch parser takes
two values on one line, a value over several lines, and nothing at all, for good. So lines count as valid only if they have
as many values as newlines, are UTF-8, and join up again to the very bytes they were; all else is looked at one by one. A
wrong count would shift every later position.
"""

import re
from json import JSONDecodeError
from typing import Final

from walflow_kernel.json import DEEPEST, found_wrong, json_by

_LONG: Final = 2 * (DEEPEST + 1)  # bytes of the shortest line that nests deeper
# From newline to newline, each at most _LONG bytes on: 9 us for 256 KiB, a loop over `rfind` takes 31. No way back (`*+`).
_is_all_short = re.compile(rb"(?s:(?:.{0,%d}\n)*+)" % (_LONG - 1)).fullmatch
_brackets = re.compile(rb"[\[{\]}\"\\]").finditer


def count(data: bytes, lines: int | None = None) -> int | None:
    """How many lines of JSON `data` is, each one value; None: not known to be that, look closer. `lines`: how many it
    has, if it is known."""
    try:
        raws = json_by.raw_lines(data)
        count = len(raws)
        if count != (data.count(b"\n") if lines is None else lines):
            return None
        if not data.isascii():
            data.decode()
    except (ValueError, RecursionError):
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
    return not json_by.is_shallow(payload) and _scan_depth(payload) > DEEPEST  # the former is 10 times as fast


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


def refusal(payload: bytes) -> str | None:
    """Why it is no JSON that is supported."""
    if _is_deep(payload):
        return f"not JSON that is supported: nested deeper than {DEEPEST}"
    try:
        json_by.judge(payload)
    except ValueError as error:
        if b"\n" not in payload and count(payload + b"\n") == 1:
            return None  # a number beyond a double's range, which orjson alone refuses
        return f"not JSON: {found_wrong(error) if isinstance(error, JSONDecodeError) else error}"
    return None
