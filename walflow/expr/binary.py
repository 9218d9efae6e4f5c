"""`<< 1, event.size:16/little, event.body/binary >>`: bytes, field after field, as tremor's interpreter makes them.

A field that ends within a byte goes on in it; the last byte of all holds what is left over in its low bits. Bits that a
field has no room for are dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from walflow.diagnostics import error, one_of
from walflow.expr.constant import kind_of
from walflow.expr.evaluate import Evaluate
from walflow.expr.nodes import Bytes, Expr, Packed
from walflow.expr.operators import LONGEST, CannotApply
from walflow.expr.scope import Scope

Compile = Callable[[Expr, Scope], Evaluate | None]

WIDEST: Final = 64  # bits of one field
TYPES: Final = {  # as tremor reads them: signed, little
    "integer": (False, False),
    "big": (False, False),
    "unsigned": (False, False),
    "unsigned-integer": (False, False),
    "big-integer": (False, False),
    "big-unsigned-integer": (False, False),
    "signed-integer": (True, False),
    "big-signed-integer": (True, False),
    "little": (False, True),
    "little-integer": (False, True),
    "little-unsigned-integer": (False, True),
    "little-signed-integer": (True, True),
}


class Bits(NamedTuple):
    """`width` bits, the first one the highest of `number`."""

    number: int
    width: int


Put = Callable[[object], Bits]


def packing(node: Bytes, scope: Scope, compile_: Compile) -> Evaluate | None:
    puts = [_put(field, scope) for field in node.fields]
    values = [compile_(field.value, scope) for field in node.fields]
    pairs = [(value, put) for value, put in zip(values, puts, strict=True) if value is not None and put is not None]
    return _packed(pairs) if len(pairs) == len(puts) else None


def _packed(fields: Sequence[tuple[Evaluate, Put]]) -> Evaluate:
    def pack(event: object, meta: Mapping[str, object]) -> bytes:
        number = width = 0
        for value, put in fields:
            more = put(value(event, meta))
            number, width = number << more.width | more.number, width + more.width
            if width > 8 * LONGEST:
                raise CannotApply(f"`<< … >>` would make something longer than {LONGEST}")
        whole, rest = divmod(width, 8)
        last = bytes([number & ((1 << rest) - 1)]) if rest else b""
        return (number >> rest).to_bytes(whole, "big") + last

    return pack


def _put(field: Packed, scope: Scope) -> Put | None:
    name, size = field.type, field.size
    if name is not None and name.text == "binary":
        return _binary(None if size is None else size.value)
    if name is not None and name.text not in TYPES:
        scope.report(
            error(f"`{name.text}` is no type of binary data", name.span, f"there are {one_of([*TYPES, 'binary'])}")
        )
        return None
    bits = 8 if size is None else size.value
    signed, little = TYPES[name.text] if name else (False, False)
    if size is not None and not 0 < bits <= WIDEST:
        scope.report(error(f"a number has 1 to {WIDEST} bits, not {bits}", size.span))
        return None
    if size is not None and little and bits > 8 and bits % 8:
        scope.report(error(f"a little-endian number has whole bytes, not {bits} bits", size.span))
        return None
    return _number(bits, signed=signed, little=little)


def _number(bits: int, *, signed: bool, little: bool) -> Put:
    mask = (1 << bits) - 1

    def put(value: object) -> Bits:
        if not isinstance(value, int) or isinstance(value, bool):
            raise CannotApply(f"`<< … >>` takes a whole number, not {kind_of(value)}")
        if value < 0 and not signed:
            raise CannotApply("`<< … >>`: an unsigned number is not negative")
        number = value & mask
        if little and bits > 8:
            number = int.from_bytes(number.to_bytes(bits // 8, "little"), "big")
        return Bits(number, bits)

    return put


def _binary(size: int | None) -> Put:
    def put(value: object) -> Bits:
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
            raise CannotApply("`<< … >>`: a character that UTF-8 cannot hold") from None
        if not isinstance(data, bytes):
            raise CannotApply(f"`<< … >>` takes binary data or a string, not {kind_of(value)}")
        if size is not None and len(data) < size:
            raise CannotApply(f"`<< … >>`: {len(data)} bytes where {size} are taken")
        data = data[:size]
        return Bits(int.from_bytes(data, "big"), 8 * len(data))

    return put
