"""std::binary."""

from collections.abc import Mapping

from walflow_kernel.errors import CannotApply
from walflow_kernel.functions import Function, function, too_long
from walflow_kernel.values import LONGEST, is_whole, kind_of

Array = list[object]


def length(binary: bytes) -> int:
    return len(binary)


def from_bytes(array: Array) -> bytes:
    return bytes([_byte(one) for one in array])


def into_bytes(binary: bytes) -> Array:
    if len(binary) > LONGEST:
        raise too_long()
    return list(binary)


def _byte(value: object) -> int:
    if is_whole(value) and 0 <= value <= 255:
        return value
    shown = str(value) if is_whole(value) and abs(value) < 10**20 else kind_of(value)
    raise CannotApply(f"it takes an array of numbers from 0 to 255, and one element is {shown}")


FUNCTIONS: Mapping[str, Function] = {
    "len": function(length),
    "from_bytes": function(from_bytes),
    "into_bytes": function(into_bytes),
}
