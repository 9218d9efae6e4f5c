"""std::base64."""

import base64
import binascii
from collections.abc import Mapping

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, bounded, function
from walflow_kernel.std.string import encoded


def encode(data: bytes | str) -> str:
    return bounded(base64.b64encode(data if isinstance(data, bytes) else encoded(data)).decode())


def decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # ValueError: not even ASCII
        raise CannotApply("this is no base64") from None


FUNCTIONS: Mapping[str, Function] = {"encode": function(encode), "decode": function(decode)}
