"""Snappy's framing format, chunk by chunk. cramjam (the extra `[snappy]`) reads each chunk, and checks its checksum.

The format has no end: a stream is whole wherever a chunk ends. A chunk holds 64 KiB at most.
"""

from typing import Any, Final, cast

from walflow.errors import WalflowError
from walflow.extras import lacks

MAGIC: Final = b"\xff\x06\x00\x00sNaPpY"
HEADER: Final = 4  # a chunk's type, and its length as 3 bytes, little-endian
LARGEST: Final = 65536 + 65536 // 6 + 32 + 4  # of a chunk of data; what is longer is damaged
DATA: Final = (0x00, 0x01)
SKIPPED: Final = 0x80  # from here on chunks may be skipped, below not


class SnappyInflator:
    eof = False
    unused_data = b""

    def __init__(self) -> None:
        self._rest = b""
        self._out = b""

    @property
    def needs_input(self) -> bool:
        return not self._out and self._end_of_chunk() is None

    @property
    def may_end(self) -> bool:
        return not self._rest and not self._out

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Raises ValueError."""
        self._rest += data
        parts, size = [self._out], len(self._out)
        while size < max_length and (end := self._end_of_chunk()) is not None:
            chunk, self._rest = self._rest[:end], self._rest[end:]
            parts.append(_content(chunk))
            size += len(parts[-1])
        out = b"".join(parts)
        self._out = out[max_length:]
        return out[:max_length]

    def _end_of_chunk(self) -> int | None:
        """Raises ValueError."""
        if len(self._rest) < HEADER:
            return None
        end = HEADER + int.from_bytes(self._rest[1:HEADER], "little")
        if self._rest[0] in DATA and end > HEADER + LARGEST:
            raise ValueError("a chunk is too long")
        return end if len(self._rest) >= end else None


def _content(chunk: bytes) -> bytes:
    """Raises ValueError."""
    kind = chunk[0]
    if kind in DATA:
        try:
            return bytes(_cramjam().snappy.decompress(MAGIC + chunk))
        except Exception as error:  # DecompressionError, which is only an Exception
            raise ValueError(str(error)) from error
    if kind < SKIPPED:
        raise ValueError(f"a chunk of the unknown type {kind}")
    if kind == MAGIC[0] and chunk != MAGIC:
        raise ValueError("a wrong identifier")
    return b""


def compress(data: bytes, _level: int) -> bytes:
    return bytes(_cramjam().snappy.compress(data)) if data else MAGIC


def check() -> None:
    """Raises WalflowError."""
    try:
        _cramjam()
    except ModuleNotFoundError as missing:
        raise WalflowError(lacks("snappy", "snappy")) from missing


def _cramjam() -> Any:  # its functions take and give buffers of its own
    import cramjam

    return cast(Any, cramjam)
