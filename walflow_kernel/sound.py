"""Whether texts are JSON that is supported, found out without building values.

Validating many lines at once is four times as fast as parsing line by line, and easy to get wrong: the batch parser
takes two values on one line, a value over several lines, and nothing at all, for good. So lines count as valid only
if they have as many values as newlines, are UTF-8, and join up again to the very bytes they were; all else is looked
at one by one. A wrong count would shift every later position.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from json import JSONDecodeError
from typing import Final

from walflow_kernel.json import DEEPEST, found_wrong, json_by

_LONG: Final = 2 * (DEEPEST + 1)  # bytes of the shortest line that nests deeper
# From newline to newline, each at most _LONG bytes on: 9 us for 256 KiB, a loop over `rfind` takes 31. No way back
# (`*+`).
_is_all_short = re.compile(rb"(?s:(?:.{0,%d}\n)*+)" % (_LONG - 1)).fullmatch
_without_strings = partial(re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL).sub, b"")
runs: Final = re.compile(rb"\[+|\]+").finditer
_OPEN: Final = ord("[")
_ALIKE: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_SPARSE: Final = 16  # bytes for each bracket, at least
_PEELED: Final = 8  # levels taken off from within, so that few runs of brackets are left: of 1 MB, 65,000 at most


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
    opened = _count(b"[", payload) + payload.count(b"{")
    if opened <= DEEPEST:
        return False
    # where brackets are few, the former is four times as fast; where they are many, it makes as many lists
    if opened * _SPARSE < len(payload) and json_by.is_shallow(payload):
        return False
    return nests_deeper(payload, DEEPEST)


def nests_deeper(payload: bytes, most: int, steps: Callable[[bytes], Iterator[re.Match[bytes]]] = runs) -> bool:
    """Known at the first place that is too deep. A step for each run of brackets, not for each bracket."""
    brackets = _without_strings(payload).translate(_ALIKE, _NO_BRACKETS)
    peeled = 0
    while peeled < _PEELED and b"[]" in brackets:
        brackets = brackets.replace(b"[]", b"")  # a level less, wherever the last one was
        peeled += 1
    depth = 0
    for run in steps(brackets):
        size = run.end() - run.start()
        depth += size if brackets[run.start()] == _OPEN else -size
        if depth + peeled > most:
            return True
    return peeled > most


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
