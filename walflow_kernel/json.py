"""JSON text <-> value. Numbers out of range become an OutOfRange, see `values`.

msgspec and orjson do the work where they are installed. Elsewhere the standard library does it: an executor of Spark
may have nothing else. The results are equal, to the last byte.
"""

import json
from collections.abc import Sequence
from typing import Final

from walflow_kernel.errors import NotJson
from walflow_kernel.values import TOO_DEEP, complaint

try:
    from walflow_kernel import json_quick as json_by
except ImportError:
    from walflow_kernel import json_plain as json_by  # type: ignore[no-redef]

DEEPEST: Final = 512  # levels that an event may nest
_CHUNK: Final = 32  # values that are checked together after a check of all has failed
NOT_UTF_8: Final = "this is not UTF-8"
# orjson says "expected 'null'" where any value may stand
_PLAINER: Final = {"invalid literal": "no value", "input is a zero-length": "no value", "expecting value": "no value"}

__all__ = [
    "DEEPEST",
    "all_hold",
    "encoded",
    "found_wrong",
    "is_raw",
    "json_by",
    "lines",
    "raw",
    "refusals",
    "sorted_text",
    "text",
    "value",
]

raw = json_by.raw
is_raw = json_by.is_raw


def value(text: bytes) -> object:
    """Raises NotJson."""
    try:
        return json_by.decode(text)
    except json.JSONDecodeError as error:
        raise NotJson(found_wrong(error)) from error
    except UnicodeDecodeError as error:
        raise NotJson(NOT_UTF_8) from error
    except ValueError as error:
        raise NotJson(str(error)) from error
    except RecursionError:
        raise NotJson(TOO_DEEP) from None


def found_wrong(error: json.JSONDecodeError) -> str:
    """The error in plain words, with the column. The line is named only if the text has several lines: a file has
    line numbers of its own."""
    if "UTF-8" in error.msg:
        return NOT_UTF_8
    what = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
    what = _PLAINER.get(what.split(",")[0], what)
    line = f"line {error.lineno}, " if "\n" in error.doc else ""
    return f"{what} at {line}column {error.colno}"


def encoded(value: object) -> bytes:
    """Raises NotJson."""
    refusal = refusals([value])[0]
    if refusal is not None:
        raise NotJson(refusal)
    return json_by.encode(value)


def sorted_text(value: object) -> bytes:
    """The keys of records are sorted. Raises NotJson."""
    refusal = refusals([value])[0]
    if refusal is not None:
        raise NotJson(refusal)
    return json_by.encode_sorted(value)


def text(value: object) -> str:
    """Raises NotJson."""
    return encoded(value).decode()


def lines(values: Sequence[object]) -> bytes:
    """One line for each value. Only for values without a refusal."""
    return json_by.encode_lines(values)


def refusals(values: Sequence[object]) -> Sequence[str | None]:
    """For each value, the reason why JSON cannot hold it, or None."""
    if json_by.all_hold(values):
        return [None] * len(values)
    found: list[str | None] = []
    for start in range(0, len(values), _CHUNK):
        some = values[start : start + _CHUNK]
        found += [None] * len(some) if json_by.all_hold(some) else [_refusal(one) for one in some]
    return found


def all_hold(values: Sequence[object]) -> bool:
    """Whether no value has a refusal."""
    return json_by.all_hold(values)


def _refusal(value: object) -> str | None:
    reason = complaint(value)
    if reason is not None:
        return reason
    try:
        json_by.encode(value)
    except RecursionError:
        return TOO_DEEP
    return None
