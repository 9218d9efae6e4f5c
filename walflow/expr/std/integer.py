"""std::integer."""

import re
from collections.abc import Mapping
from typing import Final

from walflow.expr.functions import Function, function
from walflow.expr.operators import WIDEST, CannotApply

_LONGEST: Final = 4_000  # digits: Python takes no more, and a few more would exceed WIDEST
_whole = re.compile(r"[+-]?[0-9]+").fullmatch


def parse(text: str) -> int:
    if len(text) > _LONGEST or not _whole(text):
        raise CannotApply(f"{_shown(text)} is no whole number")
    return int(text)


def sized(number: int) -> int:
    if number.bit_length() > WIDEST:
        raise CannotApply("the result is out of range")
    return number


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 40 and text.isprintable() else "this"


FUNCTIONS: Mapping[str, Function] = {"parse": function(parse)}
