"""tremor::chash: the same key goes to the same slot, on each machine and after each restart, and most keys stay where
they are when slots are added.

Slots are tremor's own: jump consistent hashing (Lamping and Veach) of the key's SipHash-1-3.
"""

from collections.abc import Mapping
from typing import Final

from walflow_kernel import json
from walflow_kernel.errors import CannotApply, NotJson
from walflow_kernel.functions import Function, bounded, function
from walflow_kernel.std.string import encoded

_K1: Final = int.from_bytes(b"tremor\0\0", "big")
_K2: Final = int.from_bytes(b"\0\0tremor", "big")
_MOST_SLOTS: Final = (1 << 32) - 1
_LONGEST: Final = 4_096  # the most bytes of a key: hashing so many takes a millisecond
_MASK: Final = (1 << 64) - 1

_State = tuple[int, int, int, int]


def jump(key: str, slot_count: int) -> int:
    return jump_with_keys(_K1, _K2, key, slot_count)


def jump_with_keys(k1: int, k2: int, key: str, slot_count: int) -> int:
    if not 0 < slot_count <= _MOST_SLOTS:
        raise CannotApply(f"`slot_count` is from 1 to {_MOST_SLOTS}, not {slot_count}")
    data = encoded(key)
    if len(data) > _LONGEST:
        raise CannotApply(f"`key` is longer than {_LONGEST} bytes")
    drawn = _siphash(data + b"\xff", k1 & _MASK, k2 & _MASK)  # Rust ends a string with that byte
    slot, following = -1, 0
    while following < slot_count:
        slot = following
        drawn = (drawn * 2862933555777941757 + 1) & _MASK
        following = int((slot + 1.0) * (float(1 << 31) / float((drawn >> 33) + 1)))
    return slot


def sorted_serialize(any_: object) -> str:
    try:
        return bounded(json.sorted_text(any_).decode())
    except NotJson as error:
        raise CannotApply(f"not JSON: {error}") from None


def _siphash(data: bytes, k1: int, k2: int) -> int:
    state = (k1 ^ 0x736F6D6570736575, k2 ^ 0x646F72616E646F6D, k1 ^ 0x6C7967656E657261, k2 ^ 0x7465646279746573)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        state = _compressed(state, int.from_bytes(data[at : at + 8], "little"))
    state = _compressed(state, int.from_bytes(data[whole:], "little") | (len(data) & 0xFF) << 56)
    v0, v1, v2, v3 = state
    state = _round(_round(_round((v0, v1, v2 ^ 0xFF, v3))))
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _compressed(state: _State, word: int) -> _State:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _round((v0, v1, v2, v3 ^ word))
    return v0 ^ word, v1, v2, v3


def _round(state: _State) -> _State:
    v0, v1, v2, v3 = state
    v0, v2 = (v0 + v1) & _MASK, (v2 + v3) & _MASK
    v1, v3 = _rotated(v1, 13) ^ v0, _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2, v0 = (v2 + v1) & _MASK, (v0 + v3) & _MASK
    v1, v3 = _rotated(v1, 17) ^ v2, _rotated(v3, 21) ^ v0
    return v0, v1, _rotated(v2, 32), v3


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


FUNCTIONS: Mapping[str, Function] = {
    "jump": function(jump),
    "jump_with_keys": function(jump_with_keys),
    "sorted_serialize": function(sorted_serialize),
}
