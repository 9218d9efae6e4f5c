"""std::integer."""

import re
from collections.abc import Mapping
from typing import Final

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function
from walflow_kernel.values import is_out_of_range

_LONGEST: Final = 4_000  # the most digits: Python accepts only a few more
_whole = re.compile(r"[+-]?[0-9]+").fullmatch


def parse(text: str) -> int:
    if len(text) > _LONGEST or not _whole(text):
        raise CannotApply(f"{_shown(text)} is no whole number")
    return sized(int(text))


def sized(number: int) -> int:
    if is_out_of_range(number):
        raise CannotApply("the result is out of range")
    return number


def _shown(text: str) -> str:
    return f"`{text}`" if len(text) <= 40 and text.isprintable() else "this"


FUNCTIONS: Mapping[str, Function] = {"parse": function(parse)}
