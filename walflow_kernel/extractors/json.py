"""`json||`: the value of a string that is JSON."""

from walflow_kernel import json
from walflow_kernel.errors import NotJson
from walflow_kernel.extractors.contract import NO_MATCH, Extract, of_bytes, takes_nothing
from walflow_kernel.values import is_out_of_range


def extractor(argument: str) -> Extract:
    takes_nothing(argument)
    return of_bytes(_read)


def _read(text: bytes) -> object:
    try:
        value = json.value(text)
    except NotJson:
        return NO_MATCH
    return NO_MATCH if is_out_of_range(value) else value
