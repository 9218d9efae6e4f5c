"""Bytes that make a parser slow that looks at them more than once: 1 MB each."""

from collections.abc import Iterator

import pytest

from walflow.errors import CannotDecode
from walflow.event import Codec

SIZE = 1 << 20

linear = pytest.mark.timeout(60)  # of a quadratic parser 1 MB takes longer; of ours no more than a second


def repeated(*parts: str) -> Iterator[bytes]:
    """Each part until the size is reached, alone, and between the first and the last one."""
    for part in parts:
        many = part * (SIZE // len(part))
        yield many.encode()
        yield (parts[0] + many + parts[-1]).encode()


def look_at(codec: Codec, payload: bytes) -> None:
    """It decodes, or is refused; no other error."""
    try:
        codec.decode(payload)
    except CannotDecode:
        pass
