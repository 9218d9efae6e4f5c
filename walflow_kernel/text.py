"""Strings with values in them: `"#{event.a} and #{event.b}"`."""

from collections.abc import Sequence

from walflow_kernel import json
from walflow_kernel.errors import CannotApply, NotJson
from walflow_kernel.values import LONGEST, is_out_of_range, kind_of


def spliced(value: object) -> str:
    """The text of `#{value}`: a string as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    if type(value) is int and not is_out_of_range(value):
        return str(value)
    try:
        return json.text(value)
    except NotJson:
        raise CannotApply(f"`#{{}}`: {kind_of(value)} that JSON cannot hold") from None


def joined(parts: Sequence[str]) -> str:
    """A string, followed by a spliced value."""
    if sum(map(len, parts)) > LONGEST:
        raise CannotApply(f"`#{{}}` would make something longer than {LONGEST}")
    return "".join(parts)
