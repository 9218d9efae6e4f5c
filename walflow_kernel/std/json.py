"""std::json."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from walflow_kernel import json as texts
from walflow_kernel.errors import CannotApply, NotJson
from walflow_kernel.functions import Function, bounded, function, too_long
from walflow_kernel.std.string import encoded
from walflow_kernel.values import LONGEST, is_out_of_range, out_of_range


def decode(text: str) -> object:
    try:
        value = texts.value(encoded(text))
    except NotJson as error:
        raise CannotApply(f"not JSON: {error}") from None
    if is_out_of_range(value):
        raise out_of_range()
    return value


def encode(value: object) -> str:
    try:
        return bounded(texts.text(value))
    except NotJson as error:
        raise CannotApply(f"not JSON: {error}") from None


def encode_pretty(value: object) -> str:
    encode(value)  # is it JSON at all
    if _indentation(value, 1) > LONGEST:
        raise too_long()
    return json.dumps(value, ensure_ascii=False, indent=2)


def _indentation(value: Any, depth: int) -> int:
    """Number of columns of indentation within `value`. A deep array has far more of them than text."""
    kind = _kind(value)
    if kind not in {list, dict}:
        return 0
    inner: Iterable[Any] = value.values() if kind is dict else value
    return sum(2 * depth + _indentation(item, depth + 1) for item in inner)


_kind: Callable[[object], type] = type


FUNCTIONS: Mapping[str, Function] = {
    "decode": function(decode),
    "encode": function(encode),
    "encode_pretty": function(encode_pretty, grows=True),
}
