"""`<< 1, event.size:16/little, event.body/binary >>`: bytes, one field after the other, as tremor's interpreter makes
them. If a field ends within a byte, the next field continues in that byte. The low bits of the last byte hold what is
left over. Bits for which a field has no room are dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from walflow_kernel.errors import CannotApply
from walflow_kernel.values import LONGEST, is_out_of_range, kind_of, out_of_range

WIDEST: Final = 64  # bits of one field
TYPES: Final[Mapping[str, tuple[bool, bool]]] = {  # flags as tremor reads them: signed, little
    "integer": (False, False),
    "big": (False, False),
    "unsigned": (False, False),
    "unsigned_integer": (False, False),
    "big_integer": (False, False),
    "big_unsigned_integer": (False, False),
    "signed_integer": (True, False),
    "big_signed_integer": (True, False),
    "little": (False, True),
    "little_integer": (False, True),
    "little_unsigned_integer": (False, True),
    "little_signed_integer": (True, True),
}


class Bits(NamedTuple):
    """`width` bits, the first one the highest of `number`."""

    number: int
    width: int


Put = Callable[[object], Bits]
"""How the value of one field is laid down."""


def packed(fields: Sequence[Bits]) -> bytes:
    number = width = 0
    for more in fields:
        number, width = number << more.width | more.number, width + more.width
        if width > 8 * LONGEST:
            raise CannotApply(f"`<< … >>` would make something longer than {LONGEST}")
    whole, rest = divmod(width, 8)
    last = bytes([number & ((1 << rest) - 1)]) if rest else b""
    return (number >> rest).to_bytes(whole, "big") + last


def number(bits: int, *, signed: bool, little: bool) -> Put:
    return partial(_number, bits, signed, little)


def binary(size: int | None) -> Put:
    return partial(_binary, size)


def _number(bits: int, signed: bool, little: bool, value: object) -> Bits:
    if is_out_of_range(value):
        raise out_of_range()
    if not isinstance(value, int) or isinstance(value, bool):
        raise CannotApply(f"`<< … >>` takes a whole number, not {kind_of(value)}")
    if value < 0 and not signed:
        raise CannotApply("`<< … >>`: an unsigned number is not negative")
    number = value & (1 << bits) - 1
    if little and bits > 8:
        number = int.from_bytes(number.to_bytes(bits // 8, "little"), "big")
    return Bits(number, bits)


def _binary(size: int | None, value: object) -> Bits:
    try:
        data = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:  # half of a surrogate pair
        raise CannotApply("`<< … >>`: a character that UTF-8 cannot hold") from None
    if not isinstance(data, bytes):
        raise CannotApply(f"`<< … >>` takes binary data or a string, not {kind_of(value)}")
    if size is not None and len(data) < size:
        raise CannotApply(f"`<< … >>`: {len(data)} bytes where {size} are taken")
    data = data[:size]
    return Bits(int.from_bytes(data, "big"), 8 * len(data))
