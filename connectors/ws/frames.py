"""The frames that nearly all are: a message each, whole, not compressed. Thousands in one call.

All others are websockets' (`connectors.ws.wire`), and where the two meet they say the same: a test compares them.
RFC 6455, section 5.2, has the format.
"""

from collections.abc import Iterable
from typing import Final

from websockets.frames import Opcode

try:
    from websockets.speedups import apply_mask
except ImportError:  # without a compiler
    from websockets.utils import apply_mask

HEAD: Final = 2  # bytes that say how long the rest of the head is
MASK: Final = 4
LONG, LONGER = 126, 127  # a length in two bytes, in eight
MASKED: Final = 0x80
FIN: Final = 0x80
WHOLE: Final = {FIN | Opcode.TEXT, FIN | Opcode.BINARY}


def take_messages(data: bytes, at: int, messages: list[bytes], *, masked: bool, limit: int) -> int:
    """Appends those from `at` on, as far as one is like the next and has come to its end. Returns where the first
    other one begins. `limit`: bytes of a message."""
    size = len(data)
    bit = MASKED if masked else 0
    key = MASK if masked else 0
    add = messages.append
    while at + HEAD <= size and data[at] in WHOLE:
        length = data[at + 1] ^ bit
        start = at + HEAD
        if length == LONG:
            length = data[start] << 8 | data[start + 1] if start + 2 <= size else size
            start += 2
        elif (
            length > LONG
        ):  # in eight bytes: websockets waits for the rest without copying; or masked as it must not be
            break
        start += key
        end = start + length
        if end > size or length > limit:
            break
        add(apply_mask(data[start:end], data[start - MASK : start]) if masked else data[start:end])
        at = end
    return at


def frame_size(data: bytes, at: int) -> int | None:
    """Bytes of the frame that begins there, with its head; None: there is too little of it to say."""
    if at + HEAD > len(data):
        return None
    length = data[at + 1] & ~MASKED
    head = HEAD + (MASK if data[at + 1] & MASKED else 0)
    wide = {LONG: 2, LONGER: 8}.get(length, 0)
    if not wide:
        return head + length
    if at + HEAD + wide > len(data):
        return None
    return head + wide + int.from_bytes(data[at + HEAD : at + HEAD + wide], "big")


def frames_of(messages: Iterable[bytes], *, text: bool, keys: bytes | None) -> bytes:
    """`keys`: four bytes for each message, as a client masks them; None: a server's."""
    first = FIN | (Opcode.TEXT if text else Opcode.BINARY)
    short = _SHORT[first, keys is not None]
    pieces: list[bytes] = []
    at = 0
    for message in messages:
        length = len(message)
        pieces.append(short[length] if length < LONG else _head(first, length, masked=keys is not None))
        if keys is not None:
            key = keys[at : at + MASK]
            pieces += (key, apply_mask(message, key))
            at += MASK
        else:
            pieces.append(message)
    return b"".join(pieces)


def _head(first: int, length: int, *, masked: bool) -> bytes:
    bit = MASKED if masked else 0
    if length < LONG:
        return bytes((first, bit | length))
    if length < 1 << 16:
        return bytes((first, bit | LONG)) + length.to_bytes(2, "big")
    return bytes((first, bit | LONGER)) + length.to_bytes(8, "big")


_SHORT: Final = {
    (first, masked): [_head(first, length, masked=masked) for length in range(LONG)]
    for first in WHOLE
    for masked in (False, True)
}
