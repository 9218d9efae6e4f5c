"""Brotli, by Google's own package (the extra `[brotli]`). It cannot be recognised by its first bytes, and one stream
must be all of the data: the decompressor does not tell what follows it."""

from typing import Any, cast

from walflow.errors import WalflowError
from walflow.extras import lacks


class BrotliInflator:
    unused_data = b""

    def __init__(self) -> None:
        self._inner = _brotli().Decompressor()
        self._out = b""

    @property
    def eof(self) -> bool:
        return not self._out and bool(self._inner.is_finished())

    @property
    def needs_input(self) -> bool:
        return not self._out and bool(self._inner.can_accept_more_data())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Raises ValueError."""
        out = self._out
        if not out:
            try:
                out = bytes(self._inner.process(data, output_buffer_limit=max_length))
            except Exception as error:  # brotli.error, which is only an Exception
                raise ValueError("the data is damaged, or does not end with the stream") from error
        self._out = out[max_length:]  # it gives up to twice what was asked for
        return out[:max_length]


def compress(data: bytes, level: int) -> bytes:
    return bytes(_brotli().compress(data, quality=level))


def check() -> None:
    """Raises WalflowError."""
    try:
        _brotli()
    except ModuleNotFoundError as missing:
        raise WalflowError(lacks("br", "brotli")) from missing


def _brotli() -> Any:  # it has no types
    import brotli  # pyright: ignore[reportMissingTypeStubs]

    return cast(Any, brotli)
